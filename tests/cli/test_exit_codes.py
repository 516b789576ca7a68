"""The frozen process interface: one test per row of the table of exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import Ran, environment, gatekit, here, record, servers, start, wait_for_answers

QUICK = ("task.n=120", "engine.latency.median_s=0")
GATE = "gate.observed={correct: 114, n: 120}"


def test_0_pass(tmp_path: Path) -> None:
    """Measured, and good enough."""
    ran = here(tmp_path, *QUICK, GATE, "--json")
    assert (ran.code, ran.data["verdict"], ran.data["exit_code"]) == (0, "PASS", 0)


def test_1_fail(tmp_path: Path) -> None:
    """Measured, and a regression."""
    ran = here(tmp_path, *QUICK, GATE, "engine.accuracy=0.70", "--json")
    assert (ran.code, ran.data["verdict"], ran.data["exit_code"]) == (1, "FAIL", 1)


@pytest.mark.parametrize(
    "arguments", [("modle=x",), ("frobnicate",), ("--frobnicate",), ("-m",), ("task.n=0", "--json")]
)
def test_2_config(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Wrong input: one line, nothing started, nothing written."""
    if arguments == ("-m",):
        arguments = ("-m", "model=")
    ran = gatekit(tmp_path, *arguments)
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
    if "--json" in arguments:
        assert (ran.data["verdict"], ran.data["exit_code"]) == ("CONFIG", 2)


def test_3_infra_server_dies(tmp_path: Path) -> None:
    """A server that dies midway is no verdict about accuracy; it says where and why, and keeps the answers."""
    ran = here(tmp_path, *QUICK, GATE, "engine.faults.die_after=60", "--json")
    assert (ran.code, ran.data["verdict"], ran.data["reason_code"]) == (3, "INFRA", "server-died")
    assert "after 60 of 120 answers: exit code 9" in ran.data["reason"]
    assert ran.data["accuracy"] is None
    assert ran.data["counts"]["lost"] == 60


def test_3_infra_before_the_start(tmp_path: Path) -> None:
    """A machine without the GPU, or without vLLM, is named in one line with the two ways on."""
    ran = here(tmp_path, "model=laguna_int4", "hw=b200", "--json")
    assert (ran.code, ran.data["verdict"]) == (3, "INFRA")
    last = ran.err.splitlines()[-1]
    assert "engine=external engine.base_url=" in last
    assert "engine=sim" in last
    assert "B200" in last or "vllm" in last


def test_4_inconclusive(tmp_path: Path) -> None:
    """One question supports no verdict, whatever its answer; the n needed is named."""
    ran = gatekit(tmp_path, "task.n=1", "--json")
    assert (ran.code, ran.data["verdict"], ran.data["reason_code"]) == (4, "INCONCLUSIVE", "too-small")


def test_4_may_be_let_through(tmp_path: Path) -> None:
    """--allow-inconclusive turns 4 into 0, loudly, and nothing else."""
    ran = here(tmp_path, "task.n=1", "--allow-inconclusive")
    assert ran.code == 0
    assert "let through" in ran.err
    assert here(tmp_path, *QUICK, GATE, "engine.accuracy=0.7", "--allow-inconclusive").code == 1
    assert here(tmp_path, *QUICK, GATE, "engine.faults.die_after=9", "--allow-inconclusive").code == 3


@pytest.mark.parametrize("module", ["scipy", "hydra", "aiohttp", "sqlalchemy", "jsonschema"])
def test_70_an_exception_while_importing(tmp_path: Path, module: str) -> None:
    """A library that cannot be imported is a bug or a broken installation, never exit code 1."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / f"{module}.py").write_text("raise RuntimeError('broken on purpose')\n")
    beyond_plain = "gate.observed={correct: 100, n: 120}"  # what only Hydra reads
    ran = gatekit(tmp_path, *QUICK, beyond_plain, extra={"PYTHONPATH": str(broken)})
    assert ran.code == 70
    assert "broken on purpose" in ran.err
    assert "[internal]" in ran.err.splitlines()[-1]


def test_70_in_the_first_import(tmp_path: Path) -> None:
    """Even the first module of the command line may fail to import."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "difflib.py").write_text("raise SystemExit(1)\n")
    ran = gatekit(tmp_path, "--help", extra={"PYTHONPATH": str(broken)})
    assert ran.code == 70


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_130_and_143_interrupted(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """A signal ends the run within seconds: the server is gone, the answers are kept, there is no verdict."""
    run_id = f"stop-{number.name}-{os.getpid()}"
    process = start(tmp_path, "engine.latency.median_s=0.5", "--run-id", run_id)
    wait_for_answers(tmp_path, run_id, 3)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, "")
    assert f"{number.name} after" in err
    assert "[interrupted]" in err
    assert servers(run_id) == []
    assert not (tmp_path / ".gatekit" / "runs" / run_id / "record.json").exists()


def test_interrupted_while_the_server_starts(tmp_path: Path) -> None:
    """Ctrl-C before the first question ends the run the same way."""
    process = start(tmp_path, "engine=external", "engine.base_url=http://127.0.0.1:9", "--run-id", "early")
    deadline = time.monotonic() + 30
    assert process.stderr is not None
    while "waiting for" not in process.stderr.readline():
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130


def test_a_killed_gatekit_leaves_no_server(tmp_path: Path) -> None:
    """SIGKILL cannot be handled, and still no server is left after five seconds."""
    run_id = f"killed-{os.getpid()}"
    process = start(tmp_path, "engine.latency.median_s=0.5", "--run-id", run_id)
    wait_for_answers(tmp_path, run_id, 3)
    assert len(servers(run_id)) >= 2
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 5
    while servers(run_id):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_several_specs_fold_into_one_code(tmp_path: Path) -> None:
    """A sweep runs every spec and exits with the worst code: 2 > 1 > 3 > 4 > 0."""
    ran = here(tmp_path, "-m", *QUICK, GATE, "engine.accuracy=0.95,0.7", "--json")
    assert ran.code == 1
    assert [one["verdict"] for one in ran.data["runs"]] == ["PASS", "FAIL"]
    ran = here(tmp_path, "-m", *QUICK, GATE, "engine.faults.die_after=null,9", "--json")
    assert (ran.code, ran.data["exit_code"]) == (3, 3)


def test_a_reader_that_goes_away_keeps_the_verdict(tmp_path: Path) -> None:
    """`gatekit | head -1` exits with the verdict's code, not with 120 or a traceback."""
    command = f"{sys.executable} -m gatekit {' '.join(QUICK)} engine.accuracy=0.5 2>err | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.stdout.strip() == "1"
    assert "Traceback" not in (tmp_path / "err").read_text()


@pytest.mark.parametrize(("redirection", "code"), [(">&-", 3), (">/dev/full", 3), ("2>&-", 0), ("<&- >&- 2>&-", 3)])
def test_a_stdout_that_cannot_be_written(tmp_path: Path, redirection: str, code: int) -> None:
    """A verdict that nobody can read, on a closed stdout or a full disk, is no PASS; stderr may be closed."""
    command = f"{sys.executable} -m gatekit {' '.join(QUICK)} {redirection}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_a_full_stdout_keeps_a_fail(tmp_path: Path) -> None:
    """A regression stays a regression when its explanation cannot be written."""
    command = f"{sys.executable} -m gatekit {' '.join(QUICK)} engine.accuracy=0.5 >/dev/full"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 1


def test_a_taken_run_id_is_wrong_input(tmp_path: Path) -> None:
    """A run id that exists is refused before anything starts, and the first run is untouched."""
    first = here(tmp_path, *QUICK, "--run-id", "night", "--json")
    before = (tmp_path / first.data["record"]).read_bytes()
    second = here(tmp_path, *QUICK, "--run-id", "night")
    assert second.code == 2
    assert "starting engine" not in second.err
    assert (tmp_path / first.data["record"]).read_bytes() == before


def test_a_storage_that_fails_is_not_a_verdict(tmp_path: Path) -> None:
    """A history folder that cannot be made is found before any server is started."""
    (tmp_path / ".gatekit").write_text("a file\n")
    ran = here(tmp_path, *QUICK)
    assert ran.code == 3
    assert "starting engine" not in ran.err
    assert (tmp_path / ".gatekit").read_text() == "a file\n"


def test_the_record_says_that_it_was_simulated(tmp_path: Path, gsm8k_dir: Path) -> None:
    """`engine=sim` runs the same spec as the real engine, and the record says that nobody was measured."""
    arguments = ("model=laguna_int4", "hw=b200", "engine=sim", "engine.latency.median_s=0")
    ran: Ran = here(tmp_path, *arguments, f"task.path={gsm8k_dir}", "--json")
    assert (ran.code, ran.data["verdict"], ran.data["simulated"]) == (0, "PASS", True)
    kept = record(ran, tmp_path)
    assert kept["served"]["simulated"] is True
    assert kept["comparability"]["fields"]["simulated"] is True
    assert kept["spec"]["model"]["name"] == "poolside/Laguna-XS-2.1-INT4"
