"""A URL with a password where it does not belong: the command says what is wrong, and never the password."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import here

_PASSWORD = "S3cr3tPw"
_URL = f"postgresql://gk:{_PASSWORD}@127.0.0.1:1/g"
_LONG = f"postgresql://gk:{_PASSWORD * 9}@127.0.0.1:1/g"


@pytest.mark.parametrize("url", [_URL, _LONG])
@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "{url}"),
        ("explain", "RUN", "--dir", "{url}"),
        ("history", "--dir", "{url}", "list"),
        ("history", "import", "{url}"),
        ("history", "show", "{url}"),
        ("history", "export", "{url}"),
        ("history", "list", "--model", "{url}"),
        ("history", "rescore", "--all", "--extractor", "{url}"),
        ("history", "list", "{url}"),
        ("lint", "--history", "{url}"),
        ("validate", "{url}"),
        ("thresholds", "recompute", "history.dir={url}"),
        ("thresholds", "recompute", "--as-of", "{url}"),
        ("thresholds", "recompute", "--all-series", "--as-of", "{url}"),
        ("--config-dir", "{url}"),
        ("--run-id", "{url}"),
        ("--run-id", "{url}", "--json"),
        ("plan", "model.revision='{url}'"),
        ("plan", "model.revision='{url}'", "--json"),
        ("plan", "engine.env={{X: '{url}'}}"),
        ("plan", "engine.env={{X: '{url}'}}", "--json"),
        ("run", "--matrix", "{url}"),
        ("{url}",),
    ],
)
def test_no_password_is_ever_shown(tmp_path: Path, arguments: tuple[str, ...], url: str) -> None:
    """Neither stdout nor stderr holds any of it, whatever argument it is and however long."""
    ran = here(tmp_path, *(one.format(url=url) for one in arguments))
    assert _PASSWORD not in ran.out + ran.err
    assert ran.out + ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("history", "quarantine", "night"),
        ("thresholds", "rebaseline", "task.n=40"),
        ("history", "rescore", "night"),
    ],
)
def test_a_reason_with_a_password_is_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """A reason is kept for good: one that holds a URL with a password is refused, and nothing is written."""
    assert here(tmp_path, "task.n=40", "--run-id", "night").code in (0, 4)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    ran = here(tmp_path, *arguments, "--reason", f"moved to {_URL}")
    assert (ran.code, "bad-reason" in ran.err, _PASSWORD in ran.err) == (2, True, False), ran.err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("key", ["model.revision", "engine.env={{X: '{url}'}}", "engine.args", "task.path"])
def test_no_config_holds_a_password(tmp_path: Path, key: str) -> None:
    """What is typed into a spec is stored with its run: a URL with a password is refused before anything is written."""
    values = {"engine.args": "engine.args=['--db={url}']"}
    override = (key if "=" in key else values.get(key, f"{key}='{{url}}'")).format(url=_URL)
    ran = here(tmp_path, override)
    assert (ran.code, "[secret-in-config]" in ran.err, _PASSWORD in ran.err) == (2, True, False), ran.err
    assert list(tmp_path.iterdir()) == []
