"""`gatekit run --matrix`: several specs on this machine, one table, one exit code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import environment, gatekit, here
from gatekit.cli.main import main

QUICK = ("engine.latency.median_s=0",)
MATRIX = """\
description: A good model, a bad one and a machine that is not here
rows:
  - {model: laguna_int4, hw: b200, set: {task.n: 60}}
  - {model: simulated, set: {task.n: 60}}
  - {model: simulated, set: {task.n: 60, engine.accuracy: 0.2}}
include:
  - {model: simulated, set: {task.n: 70}}
"""
SLOW = """\
description: Runs that take a while
rows:
  - {model: simulated, set: {task.n: 60, engine.latency.median_s: 0}}
  - {model: simulated, set: {task.n: 1000, engine.latency.median_s: 0.3, client.concurrency: 4}}
  - {model: simulated, set: {task.n: 80}}
"""


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A team's folder with the matrix m."""
    folder = tmp_path / "ours" / "matrix"
    folder.mkdir(parents=True)
    (folder / "m.yaml").write_text(MATRIX)
    return folder


def test_one_after_another(tmp_path: Path, ours: Path) -> None:
    """What is wrong with one does not keep the next from running; FAIL outranks INFRA; every spec is in the summary."""
    ran = here(tmp_path, "run", "--matrix", "m", "--config-dir", "ours")
    assert ran.code == 1
    rows = [line.split()[:2] for line in ran.out.splitlines() if line.split()[:1] and line.split()[0].isupper()]
    assert rows[1:] == [
        ["INFRA", "laguna_int4-b200-vllm"],
        ["PASS", "simulated-cpu-sim[task.n=60]"],
        ["FAIL", "simulated-cpu-sim[task.n=60,engine.accuracy=0.2]"],
        ["PASS", "simulated-cpu-sim[task.n=70]"],
    ]
    assert "4 specs, nothing left out: 1 INFRA, 2 PASS, 1 FAIL; exit 1" in ran.out
    assert "no NVIDIA GPU" in ran.out
    said = [line for line in ran.err.splitlines() if line.startswith("gatekit: 2/4 ")]
    assert len(said) == 2
    assert said[0].endswith(": started")
    assert ": PASS, " in said[1]


def test_one_document(tmp_path: Path, ours: Path) -> None:
    """With --json stdout is one document: every run with its verdict, what was left out, and the exit code."""
    ran = here(tmp_path, "--matrix", "m", "--config-dir", "ours", "--json")
    assert ran.code == ran.data["exit_code"] == 1
    assert [one["verdict"] for one in ran.data["runs"]] == ["INFRA", "PASS", "FAIL", "PASS"]
    assert ran.data["not_run"] == ran.data["left_out"] == []
    assert len({one["name"] for one in ran.data["runs"]}) == 4
    assert Path(tmp_path / ran.data["runs"][1]["record"]).is_file()


def test_a_rehearsal_without_gpus(tmp_path: Path) -> None:
    """Overrides go to every row: a matrix of GPU servers is rehearsed with the simulated one."""
    ran = here(
        tmp_path,
        "run",
        "--matrix",
        "small",
        "engine=sim",
        "task=gsm8k_synth",
        "task.n=60",
        "gate.measured_under=null",
        *QUICK,
    )
    assert ran.code == 0
    assert "laguna_int4-b200-sim" in ran.out
    assert "2 PASS; exit 0" in ran.out


def test_only_one_of_them(tmp_path: Path, ours: Path) -> None:
    """--only runs the named spec of the matrix."""
    ran = here(
        tmp_path, "run", "--matrix", "m", "--config-dir", "ours", "--only", "simulated-cpu-sim[task.n=70]", "--json"
    )
    assert ran.code == 0
    assert [one["name"] for one in ran.data["runs"]] == ["simulated-cpu-sim[task.n=70]"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-m", "--matrix", "small"), "bad-arguments"),
        (("--matrix", "small", "--run-id", "x"), "bad-arguments"),
        (("--matrix", "smal"), "unknown-matrix"),
        (("--matrix", "../small"), "unknown-matrix"),
        (("--matrix", ""), "unknown-matrix"),
        (("--matrix", "small", "word"), "bad-override"),
        (("--matrix", "small", "matrix=blackwell"), "matrix"),
        (("--matrix", "small", "--matrix", "blackwell"), "bad-arguments"),
        (("--only", "x"), "bad-arguments"),
    ],
)
def test_refused_in_one_line(tmp_path: Path, arguments: tuple[str, ...], reason: str) -> None:
    """What contradicts itself or names nothing is one line and exit 2; nothing runs."""
    ran = here(tmp_path, "run", *arguments)
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.err.splitlines()
    assert line.endswith(f"[{reason}]")
    assert not (tmp_path / ".gatekit").exists()


def test_problems_are_found_before_anything_starts(tmp_path: Path, ours: Path) -> None:
    """One wrong row of many: every problem is told, and not even the first row runs."""
    (ours / "m.yaml").write_text(MATRIX + "  - {model: simulated, set: {task.n: -1}}\n  - {model: nope}\n")
    ran = here(tmp_path, "run", "--matrix", "m", "--config-dir", "ours")
    assert (ran.code, ran.out) == (2, "")
    assert "ours/matrix/m.yaml:8:38: task.n: -1 is out of range" in ran.err
    assert "ours/matrix/m.yaml:9:13: model=nope: no such model" in ran.err
    assert not (tmp_path / ".gatekit").exists()


def test_a_broken_lock_is_found_before_anything_starts(tmp_path: Path, ours: Path) -> None:
    """A lock that would be refused when its row's turn came is refused now."""
    (ours / "m.yaml").write_text(
        "description: x\nrows: [{model: simulated}, {model: simulated, gate: locked, set: {task.n: 60}}]\n"
    )
    locks = tmp_path / "conf" / "thresholds"
    locks.mkdir(parents=True)
    (locks / "simulated-cpu-sim.lock.yaml").write_text("k_reject: 1\n")
    ran = here(tmp_path, "run", "--matrix", "m", "--config-dir", "ours")
    assert ran.code == 2
    assert "simulated-cpu-sim.lock.yaml" in ran.err
    assert "started" not in ran.err
    assert not (tmp_path / ".gatekit").exists()


def _started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gatekit", "run", "--matrix", "m", "--config-dir", "ours", *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_matrix(tmp_path: Path, ours: Path, number: signal.Signals, code: int) -> None:
    """Ctrl-C ends with the table of what was done and of what was not run."""
    (ours / "m.yaml").write_text(SLOW)
    running = _started(tmp_path)
    assert running.stderr is not None
    while "2/3" not in running.stderr.readline():
        assert running.poll() is None
    time.sleep(1)
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert running.returncode == code
    verdicts = [
        line.split("  ")[0] for line in out.splitlines() if "simulated-cpu-sim" in line and "matrix" not in line
    ]
    assert verdicts[:3] == ["PASS", "interrupted", "not run"]
    assert f"1 PASS, 1 interrupted, 1 not run; exit {code}" in out
    assert "[interrupted]" in err


def test_an_interrupted_document(tmp_path: Path, ours: Path) -> None:
    """With --json the document names what was not run."""
    (ours / "m.yaml").write_text(SLOW)
    running = _started(tmp_path, "--json")
    assert running.stderr is not None
    while "2/3" not in running.stderr.readline():
        assert running.poll() is None
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    document = json.loads(out)
    assert running.returncode == document["exit_code"] == 130
    assert document["interrupted"]
    assert [one["verdict"] for one in document["runs"]] == ["PASS"]
    assert len(document["not_run"]) == 2


def test_an_interrupted_sweep_shows_what_was_done(tmp_path: Path) -> None:
    """A sweep, too, ends with the verdicts it came to."""
    running = subprocess.Popen(
        [sys.executable, "-m", "gatekit", "-m", "task.n=60,1000", "engine.latency.median_s=0.3"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    while "asking 1000 questions" not in running.stderr.readline():
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    assert out.splitlines()[-1].split()[:2] == ["PASS", "task.n=60"]


def test_a_live_table_on_a_terminal(tmp_path: Path, ours: Path) -> None:
    """On a terminal one table shows every spec with its state, verdict and count; stdout has the summary alone."""
    (ours / "m.yaml").write_text(SLOW.replace("1000, engine.latency.median_s: 0.3, client.concurrency: 4", "70"))
    ours_end, its_end = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "gatekit", "run", "--matrix", "m", "--config-dir", "ours"],
        cwd=tmp_path,
        env=environment({"TERM": "xterm", "COLUMNS": "140", "LINES": "30"}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=its_end,
    )
    os.close(its_end)
    drawn = b""
    while running.poll() is None:
        if select.select([ours_end], [], [], 0.1)[0]:
            try:
                drawn += os.read(ours_end, 65536)
            except OSError:  # nobody writes to it any more
                break
    running.wait(timeout=60)
    os.close(ours_end)
    assert running.stdout is not None
    out = running.stdout.read()
    running.stdout.close()
    assert running.returncode == 0
    assert b"\x1b" not in out
    assert b"3 PASS; exit 0" in out
    text = drawn.decode()
    for word in ("STATE", "ELAPSED", "waiting", "done", "PASS", "simulated-cpu-sim[task.n=80]"):
        assert word in text
    assert "started" not in text


def test_verdicts_that_nobody_can_read(tmp_path: Path, ours: Path) -> None:
    """On a full disk the verdicts are lost, which is no PASS; a FAIL is still a FAIL."""
    for only, code in (("simulated-cpu-sim[task.n=70]", 3), ("simulated-cpu-sim[task.n=60,engine.accuracy=0.2]", 1)):
        told = io.StringIO()
        full = open("/dev/full", "w", encoding="utf-8")  # noqa: PTH123, SIM115 - a device, whose close fails too
        with contextlib.chdir(tmp_path), contextlib.redirect_stdout(full), contextlib.redirect_stderr(told):
            ended = main(["run", "--matrix", "m", "--config-dir", "ours", "--only", only])
        with contextlib.suppress(OSError):
            full.close()
        assert ended == code
        assert "[stdout-failed]" in told.getvalue()


def test_a_bug_in_one_of_them(tmp_path: Path, ours: Path) -> None:
    """A crash of ours in one spec is exit 70 with its details in a file; the others run, and stdout is one document."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (ours / "m.yaml").write_text(MATRIX.replace("engine.accuracy: 0.2", "engine.seed: 3"))
    (broken / "sitecustomize.py").write_text(
        "import gatekit.run.execute as execute\n"
        "genuine = execute.make_plan\n"
        "def make_plan(spec, **more):\n"
        "    if spec.engine.seed == 3:\n"
        "        raise ZeroDivisionError('ours')\n"
        "    return genuine(spec, **more)\n"
        "execute.make_plan = make_plan\n"
    )
    arguments = ("run", "--matrix", "m", "--config-dir", "ours", "--json")
    ran = gatekit(tmp_path, *arguments, extra={"PYTHONPATH": str(broken), "TMPDIR": str(tmp_path)})
    assert ran.code == ran.data["exit_code"] == 70
    assert [one["verdict"] for one in ran.data["runs"]] == ["INFRA", "PASS", "INTERNAL", "PASS"]
    assert "ZeroDivisionError" in ran.err
    (crash,) = tmp_path.glob("gatekit-crash-*.txt")
    assert "make_plan" in crash.read_text()
