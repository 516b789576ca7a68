"""What a server was given and says again: it is in no log, record, message or CI log."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import small_server
from command_line import here
from gatekit.engine.handed_secrets import StreamMask, passed_secrets
from gatekit.engine.server_log import ServerLog
from spec_builders import spec_of

SECRET = "hf-SEKRET/sekret+12345"
COMMAND = "##vso[task.setvariable variable=PATH]/evil"
_TELLS = f"""
token = os.environ["MY_TOKEN"]
print("loaded with", token, flush=True)
print("{COMMAND}", flush=True)
"""
_AND_DIES = (
    "sys.stdout.write(token[:9]); sys.stdout.flush(); time.sleep(0.2); print(token[9:] + ' error: no'); sys.exit(1)"
)


def everything(folder: Path, out: str, err: str) -> str:
    """All that a run printed and wrote."""
    files = [path.read_text(errors="replace") for path in folder.rglob(".gatekit/**/*") if path.is_file()]
    return "\n".join([out, err, *files])


@pytest.mark.parametrize("form", [("--json",), ()])
def test_a_secret_of_pass_env(tmp_path: Path, form: tuple[str, ...]) -> None:
    """A server that prints what engine.pass_env gave it and dies: the value stands nowhere, a mask in its place."""
    extra = small_server.install(tmp_path, before=_TELLS + _AND_DIES) | {"MY_TOKEN": SECRET}
    ran = here(
        tmp_path, "engine=vllm", "hw=cpu", *small_server.QUICK[:3], "engine.pass_env=[MY_TOKEN]", *form, extra=extra
    )
    assert ran.code == 3, ran.err
    assert "*** error: no" in ran.out
    assert SECRET not in everything(tmp_path, ran.out, ran.err)
    assert SECRET[:9] not in everything(tmp_path, ran.out, ran.err)
    assert "##vso[" not in ran.out + ran.err
    if form:
        (log,) = tmp_path.rglob("server.log")
        assert "loaded with ***\n" in log.read_text()


def test_a_secret_in_answers(tmp_path: Path) -> None:
    """A server that puts it into answers, model names and errors: the same."""
    on_post = "text += ' ' + os.environ['MY_TOKEN']\nif len(POSTS) == 5: self.send(400, {'error': text}); return"
    extra = small_server.install(tmp_path, on_post=on_post) | {"MY_TOKEN": SECRET}
    ran = small_server.run(tmp_path, "engine.pass_env=[MY_TOKEN]", extra=extra)
    assert ran.data["counts"]["n"] == 40
    assert SECRET not in everything(tmp_path, ran.out, ran.err)
    assert json.loads((tmp_path / ran.data["record"]).read_text())["observations"][0]["text"].endswith(" ***")


def test_what_is_hidden() -> None:
    """Each line of a value and its form in URLs, the longest first; nothing that an answer or a switch may be."""
    spec = spec_of("t")
    spec = replace(spec, engine=replace(spec.engine, pass_env=("A", "B", "C", "D", "GONE")))
    environ = {
        "A": "a/b c%def",
        "B": "true",
        "C": "12345678.9",
        "D": "first line\nsecond line of it\n",
        "E": "elsewhere",
    }
    found = ("first line\nsecond line of it", "second line of it", "a%2Fb%20c%25def", "first line", "a/b c%def")
    hidden = passed_secrets(spec, environ)
    assert set(found) <= set(hidden)
    assert not {"true", "12345678.9", "elsewhere"} & set(hidden)
    assert [*map(len, hidden)] == sorted(map(len, hidden), reverse=True)


@given(
    st.lists(st.sampled_from(["secret-1", "secret-12", "sec", "ret-1", "2", "x", "\n", "s", "secret-"]), max_size=30)
)
def test_pieces(pieces: list[str]) -> None:
    """However output is cut into pieces, what comes out is the whole with the values masked, and nothing is lost."""
    mask = StreamMask(("1sec", "secret-12", "secret-1"))
    whole = "".join(pieces)
    shown = b"".join(mask.feed(piece.encode()) for piece in pieces) + mask.end()
    assert shown.decode() == re.sub("secret-12|secret-1|1sec", "***", whole)


def test_a_log_without_them(tmp_path: Path) -> None:
    """Head, tail and file hold the mask; output that no value begins with is there at once."""
    log = ServerLog(tmp_path / "log", hidden=("secret-12",))
    log.feed(b"token secret-")
    assert log.tail() == "token"
    log.feed(b"12 and secret")
    assert log.head() == "token *** and "
    log.close()
    assert (tmp_path / "log").read_bytes() == b"token *** and secret"
    assert log.received == 26
