"""The room's front: an endpoint per engine kind, and nothing left behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gatekit.engine.serve import serve
from gatekit.errors import ConfigError, InfraError
from gatekit.records.answers import Question
from gatekit.records.spec import EngineKind, Faults, Hardware

ROOT = Path(__file__).resolve().parents[2]
Survivors = Callable[[Sequence[int], float], list[int]]
ENVIRON = {"PATH": os.environ["PATH"], "HF_TOKEN": "hf-secret", "CI_TOKEN": "ci-secret"}

# A stand-in for an engine: real HTTP, with vLLM's flag spelling and key variable.
ENGINE = """
import http.server, os, sys
flags = dict(zip(sys.argv[2::2], sys.argv[3::2]))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write(repr((sys.argv[1:], sorted(os.environ), os.environ.get("ENGINE_KEY"))).encode())
    def log_message(self, *_): pass
print("listening", flush=True)
http.server.HTTPServer((flags["--host"], int(flags["--port"])), Handler).serve_forever()
"""


def launchable(**engine: Any) -> dict[str, Any]:
    flags = {"host": "--host", "port": "--port", "served_model_name": "--name"}
    command = (sys.executable, "-S", "-c", ENGINE, "{model}")
    return {"name": "own", "kind": EngineKind.LAUNCH, "command": command, "flags": flags, **engine}


def test_sim(make_spec: Any, questions: tuple[Question, ...], tmp_path: Path, http: Any, survivors: Survivors) -> None:
    """A simulated endpoint listens, asks for its own key, answers to its own name, and is gone afterwards."""
    run_dir = tmp_path / "runs" / "my run"
    spec = make_spec(accuracy=0.5, dispersion=0.2, seed=4)
    with serve(spec, run_dir=run_dir, questions=questions, environ=ENVIRON) as endpoint:
        assert endpoint.served_model.startswith("gatekit-my-run-")
        body = {"model": endpoint.served_model, "prompt": questions[0].text, "max_tokens": 99}
        assert http(f"{endpoint.base_url}/v1/completions", body, key=endpoint.api_key).status == 200
        assert http(f"{endpoint.base_url}/v1/completions", body).status == 401
        assert http(f"{endpoint.base_url}/version").json == {"version": endpoint.build}
        assert endpoint.process
        pid = endpoint.process.pid
        assert endpoint.simulated
        assert int(endpoint.details["flip_seed"]) >= 0
        assert (endpoint.details["accuracy"], endpoint.details["seed"]) == ("0.5", "4")
        assert endpoint.api_key not in (None, "")
        assert str(endpoint.api_key) not in repr(endpoint) + repr(_visible_to_others(pid))
        assert "secret" not in repr(_visible_to_others(pid))
    assert survivors([pid], 0) == []
    assert [path.name for path in run_dir.iterdir()] == ["server.log"]
    assert stat.S_IMODE(run_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE((run_dir / "server.log").stat().st_mode) == 0o600


def _visible_to_others(pid: int) -> list[bytes]:
    return [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]


def test_builds_and_flip_seeds(make_spec: Any, questions: tuple[Question, ...], tmp_path: Path) -> None:
    """A sim's build is its accuracy, dispersion and seed; a flip seed is kept, or drawn anew for each run."""

    def served(**engine: Any) -> tuple[str | None, str]:
        spec = make_spec(**{"accuracy": 0.5, "dispersion": 0.2, "seed": 4, **engine})
        with serve(spec, run_dir=tmp_path, questions=questions, environ=ENVIRON) as endpoint:
            return endpoint.build, endpoint.details["flip_seed"]

    build, flip_seed = served()
    same_build, other_flip_seed = served(faults=Faults(drop=0.1))
    other_build, stated_flip_seed = served(accuracy=0.51, flip_seed=7)
    assert build
    assert build.startswith("sim-")
    assert build == same_build != other_build
    assert flip_seed != other_flip_seed
    assert stated_flip_seed == "7"


def test_replay(make_spec: Any, gsm8k_dir: Path, tmp_path: Path, http: Any) -> None:
    """A replayed endpoint gives the recorded text, HTTP 500 where there is none, and the stated faults."""
    path = gsm8k_dir / "example_model_solutions.jsonl"
    row = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    asked = (
        Question(id=0, text=row["question"], reference="#### 18"),
        Question(id=1, text="Never recorded?", reference="#### 1"),
    )
    spec = make_spec(name="replay", kind=EngineKind.REPLAY, answers=str(path), variant="175b_verification")
    with serve(spec, run_dir=tmp_path, questions=asked, environ=ENVIRON) as endpoint:
        url, key = f"{endpoint.base_url}/v1/chat/completions", endpoint.api_key
        replies = [
            http(url, {"messages": [{"role": "user", "content": q.text}], "max_tokens": 1}, key=key) for q in asked
        ]
        assert endpoint.build
        assert endpoint.build.startswith("replay-")
        assert endpoint.details["unanswered"] == "1"
    assert replies[0].json["choices"][0]["message"]["content"] == row["175b_verification"]["solution"]
    assert replies[1].status == 500
    faulty = replace(spec, engine=replace(spec.engine, faults=Faults(empty=1.0)))
    with serve(faulty, run_dir=tmp_path, questions=asked, environ=ENVIRON) as endpoint:
        body = {"prompt": asked[0].text}
        reply = http(f"{endpoint.base_url}/v1/completions", body, key=endpoint.api_key)
    assert reply.json["choices"][0]["text"] == ""


def test_a_recording_that_cannot_be_served(
    make_spec: Any, questions: tuple[Question, ...], tmp_path: Path, gsm8k_dir: Path
) -> None:
    """A missing file, a wrong variant and answers to other questions are CONFIG before any process starts."""
    solutions = str(gsm8k_dir / "example_model_solutions.jsonl")
    for answers, variant in (
        (None, None),
        ("none.json", None),
        (solutions, None),
        (solutions, "6b_finetuning"),
    ):
        spec = make_spec(name="replay", kind=EngineKind.REPLAY, answers=answers, variant=variant)
        with (
            pytest.raises(ConfigError),
            serve(spec, run_dir=tmp_path, questions=questions, environ=ENVIRON),
        ):
            pass
    assert list(tmp_path.iterdir()) == []


def test_launch(make_spec: Any, tmp_path: Path, http: Any, survivors: Survivors) -> None:
    """A launched engine gets loopback, a free port, its own name and key, and no secret of the caller."""
    spec = make_spec(**launchable(api_key_env="ENGINE_KEY", env={"EXTRA": "1"}))
    with serve(spec, run_dir=tmp_path / "r1", questions=(), environ=ENVIRON) as endpoint:
        assert endpoint.process
        argv, names, key = eval(_until_up(http, endpoint.base_url).decode())
        pid = endpoint.process.pid
    port = endpoint.base_url.removeprefix("http://127.0.0.1:")
    assert argv == ["org/model", "--host", "127.0.0.1", "--port", port, "--name", endpoint.served_model]
    assert shlex.split(endpoint.details["command"])[4:] == argv
    marks = {"GATEKIT_RUN", "GATEKIT_OWNER", "SPT_NOENV"}
    assert set(names) <= {"PATH", "EXTRA", "ENGINE_KEY", "LC_CTYPE", *marks}
    assert key == endpoint.api_key
    assert str(key) not in repr(endpoint)
    assert (endpoint.build, endpoint.simulated) == (None, False)
    assert survivors([pid], 0) == []
    assert (tmp_path / "r1" / "server.log").read_text() == "listening\n"


def _until_up(http: Any, url: str) -> bytes:
    deadline = time.monotonic() + 10
    while True:
        try:
            content: bytes = http(url).content
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        else:
            return content


def test_a_machine_that_cannot_launch(make_spec: Any, tmp_path: Path) -> None:
    """A missing GPU and a missing program are INFRA in one line that names both ways on."""
    gpu = Hardware(name="b200", vendor="amd", gpu="No Such GPU", count=64)
    cases = [
        (make_spec(hw=gpu, **launchable()), "hardware-missing"),
        (make_spec(**launchable(command=("no-such-engine", "{model}"))), "engine-not-installed"),
    ]
    for spec, reason in cases:
        with (
            pytest.raises(InfraError) as caught,
            serve(spec, run_dir=tmp_path, questions=(), environ=ENVIRON),
        ):
            pass
        (line,) = caught.value.lines()
        assert caught.value.reason == reason
        assert "engine=external engine.base_url=http://HOST:PORT" in line
        assert "engine=sim" in line
    assert list(tmp_path.iterdir()) == []


def test_attach(make_spec: Any, tmp_path: Path) -> None:
    """A running server is used under its expected name with the named variable's key; nothing starts."""
    attach = {"name": "external", "kind": EngineKind.ATTACH, "base_url": "http://h:8000/v1/"}
    spec = make_spec(**attach, api_key_env="MY_KEY", expected_model="served")
    with serve(spec, run_dir=tmp_path, questions=(), environ={"MY_KEY": "k"}) as endpoint:
        assert (endpoint.base_url, endpoint.served_model, endpoint.api_key) == (
            "http://h:8000",
            "served",
            "k",
        )
        assert (endpoint.process, endpoint.build, endpoint.simulated) == (None, None, False)
    with serve(make_spec(**attach), run_dir=tmp_path, questions=(), environ={}) as endpoint:
        assert (endpoint.served_model, endpoint.api_key) == ("org/model", None)


@pytest.mark.parametrize(
    ("engine", "environ", "reason"),
    [
        ({"base_url": None}, {}, "base-url"),
        ({"base_url": "http://169.254.169.254"}, {}, "base-url"),
        ({"api_key_env": "MY_KEY"}, {}, "api-key-unset"),
        ({"api_key_env": "MY_KEY"}, {"MY_KEY": " "}, "api-key-unset"),
        ({"api_key_env": "MY_KEY"}, {"MY_KEY": "hunter2\r\nX: 1"}, "api-key-malformed"),
    ],
)
def test_attach_refused(
    make_spec: Any, tmp_path: Path, engine: dict[str, Any], environ: dict[str, str], reason: str
) -> None:
    """A bad base URL and an unset or malformed key are CONFIG, without the key in the message."""
    spec = make_spec(**{"name": "external", "kind": EngineKind.ATTACH, "base_url": "http://h", **engine})
    with pytest.raises(ConfigError) as caught, serve(spec, run_dir=tmp_path, questions=(), environ=environ):
        pass
    assert caught.value.reason == reason
    assert "hunter2" not in repr(caught.value.lines())


def test_two_runs_at_once(make_spec: Any, questions: tuple[Question, ...], tmp_path: Path) -> None:
    """Two runs on one machine have different ports, names and keys."""
    spec = make_spec(accuracy=0.5)
    with (
        serve(spec, run_dir=tmp_path / "r", questions=questions, environ=ENVIRON) as one,
        serve(spec, run_dir=tmp_path / "r2" / "r", questions=questions, environ=ENVIRON) as other,
    ):
        assert one.base_url != other.base_url
        assert one.served_model != other.served_model
        assert one.api_key != other.api_key


def test_a_folder_that_cannot_be_written(make_spec: Any, tmp_path: Path) -> None:
    """A run folder that is a file, or holds symlinks, is INFRA; the symlink's target is untouched."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "answer-server.json").symlink_to(tmp_path / "file")
    for name in ("file", "linked"):
        with (
            pytest.raises(InfraError) as caught,
            serve(make_spec(accuracy=0.5), run_dir=tmp_path / name, questions=(), environ=ENVIRON),
        ):
            pass
        assert caught.value.reason == "run-folder-unwritable"
    assert (tmp_path / "file").read_text() == "mine"


def test_a_server_that_does_not_come_up(make_spec: Any, tmp_path: Path) -> None:
    """An answer server that ends before it listens is INFRA with its last line and the log's path."""
    spec = make_spec(accuracy=0.5, dispersion=3.0)
    with pytest.raises(InfraError) as caught, serve(spec, run_dir=tmp_path, questions=(), environ=ENVIRON):
        pass
    assert caught.value.reason == "answer-server-start"
    assert "dispersion must be between 0 and 1" in caught.value.message
    assert "server.log" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["server.log"]


def test_a_sim_without_accuracy(make_spec: Any, tmp_path: Path) -> None:
    """A simulation must state its accuracy."""
    with (
        pytest.raises(ConfigError, match="accuracy"),
        serve(make_spec(), run_dir=tmp_path, questions=(), environ=ENVIRON),
    ):
        pass


PARENT = """
import sys, time
from pathlib import Path
sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]).parent)]
import conftest
from gatekit.engine.serve import serve
spec = conftest.make_spec.__wrapped__()(accuracy=0.5)
with serve(spec, run_dir=Path(sys.argv[2]), questions=(), environ={}) as endpoint:
    print(endpoint.process.pid, flush=True)
    if sys.argv[3] == "raise":
        raise RuntimeError("on purpose")
    time.sleep(60 if sys.argv[3] == "wait" else 0)
"""


@pytest.mark.parametrize("end", ["raise", signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_orphan(tmp_path: Path, end: str | signal.Signals, survivors: Survivors) -> None:
    """However the process that serves ends, its answer server is gone within five seconds."""
    mode = end if isinstance(end, str) else "wait"
    argv = [sys.executable, "-c", PARENT, str(Path(__file__).parent), str(tmp_path / "run"), mode]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT) as parent:
        assert parent.stdout
        server = int(parent.stdout.readline())
        if isinstance(end, signal.Signals):
            parent.send_signal(end)
        parent.wait(timeout=20)
    assert survivors([server], 5) == []
