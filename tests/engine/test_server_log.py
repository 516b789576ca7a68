"""The capped log of a server."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gatekit.engine.server_log import CAP_BYTES, ServerLog, printable


def test_the_file_is_capped_and_keeps_both_ends(tmp_path: Path) -> None:
    """Beyond the cap the file says how much is left out, and ends with the last output."""
    log = ServerLog(tmp_path / "log")
    log.feed(b"first line\n")
    for _ in range(20):
        log.feed(b"x" * 2**20)
    log.feed(b"\nlast words\n")
    log.close()
    log.close()
    content = (tmp_path / "log").read_bytes()
    assert 0.99 * CAP_BYTES < len(content) <= CAP_BYTES
    assert content.startswith(b"first line\n")
    assert content.endswith(b"\nlast words\n")
    assert b"[gatekit: log cut here, " in content
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_a_short_log_is_whole(tmp_path: Path) -> None:
    """Below the cap the file is the output, byte for byte, after what an earlier server wrote."""
    for part in (b"a\r\nb", b"\xffc"):
        log = ServerLog(tmp_path / "log")
        log.feed(part)
        log.close()
    assert (tmp_path / "log").read_bytes() == b"a\r\nb\xffc"


def test_the_tail(tmp_path: Path) -> None:
    """The tail is the last lines that hold anything, and nothing in it can steer a terminal."""
    log = ServerLog(tmp_path / "log")
    log.feed(b"one\n\ntwo\n\x1b[31mred\x9b\x07\r10%\r20%\n  \n")
    assert log.tail(3) == "\\x1b[31mred\ufffd\\x07\n10%\n20%"
    assert log.tail().splitlines()[0] == "one"
    log.feed(b"y" * 200_000)
    assert len(log.tail()) <= 500
    log.close()


def test_a_symlink_is_not_followed(tmp_path: Path) -> None:
    """A log is never written through a symlink."""
    (tmp_path / "log").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        ServerLog(tmp_path / "log")
    assert not (tmp_path / "victim").exists()


def test_printable() -> None:
    """Escapes, overrides and separators show as escapes; letters, accents and emoji as themselves."""
    assert printable("\x1b]8;;x\x07 \u202e \u2028 \ud800 \x9b") == "\\x1b]8;;x\\x07 \\u202e \\u2028 \\ud800 \\x9b"
    assert printable("é 漢 \U0001f600") == "é 漢 \U0001f600"
