"""Whole run records, made in code, and the places they are remembered in."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gatekit.history.place import Place
from gatekit.records.answers import Failure, FailureKind, Observation, Status, count
from gatekit.records.canonical import digest
from gatekit.records.run import Comparability, Dataset, RunRecord, Served
from gatekit.records.spec import SplitFile
from gatekit.records.verdict import Interval, Outcome, Rule, Verdict
from postgres_server import PostgresServer, binaries
from spec_builders import spec_of

MakeRecord = Callable[..., RunRecord]

_SPEC = spec_of(
    "tiny-cpu",
    model={"name": "org/tiny", "revision": None}
    | {"server_args": {"vllm": ("--enforce-eager",)}, "server_env": {"vllm": {"A": "1"}}},
    hw={"gpu": "B200", "count": 1, "memory_gib": 180.0},
    engine={"command": ("vllm", "serve"), "flags": {"tensor_parallel_size": "--tp"}},
    protocol={
        "name": "chat",
        "shot_template": "Q: {question}\nA: {answer}\n",
        "question_template": "Q: {question}\nA:",
        "stop": ("Q:",),
        "max_tokens": 256,
        "extractor": "gatekit",
    },
    task={"n": 4, "files": {"test": SplitFile(sha256="0" * 64, rows=4, url="https://x")}},
    gate={"name": "floor", "floor": 0.5},
    history={"dir": ".gatekit"},
    client={"deadline_s": 600.0},
)
_RULE = Rule(
    method="static_floor",
    n=4,
    k_reject=2,
    k_accept=None,
    reference_accuracy=0.9,
    alpha=None,
    realised_alpha=0.0037,
    sigmas=2.7,
    noticed_drop=0.6,
    power=0.9,
)


def _observation(question_id: int, status: Status) -> Observation:
    failure = Failure(kind=FailureKind.TIMEOUT, detail="no answer in 60 s") if status is Status.LOST else None
    text = None if failure else f"the answer is \U0001f600 {question_id}\u202e\x1b[31m"
    return Observation(
        question_id=question_id,
        status=status,
        predicted=str(question_id),
        text=text,
        finish_reason="stop",
        prompt_tokens=812,
        completion_tokens=60,
        latency_s=0.25,
        attempts=1,
        failure=failure,
    )


def _rule(outcome: Outcome, statuses: tuple[Status, ...], n: int) -> Rule:
    """A rule that the outcome can have followed from."""
    k_reject = n + 1 if outcome is Outcome.FAIL else min(_RULE.k_reject, statuses.count(Status.CORRECT))
    return replace(_RULE, n=n, k_reject=k_reject)


def _make_record(
    run_id: str = "run-1",
    *,
    statuses: tuple[Status, ...] = (Status.CORRECT, Status.CORRECT, Status.CORRECT, Status.WRONG),
    outcome: Outcome = Outcome.PASS,
    spec_name: str = "tiny-cpu",
    model: str = "org/tiny",
    build: str | None = "0.10.1",
    key_fields: dict[str, object] | None = None,
    finished_at: str = "2026-11-30T03:00:09+00:00",
    planned: int | None = None,
    previous: str | None = None,
    supersedes: str | None = None,
) -> RunRecord:
    fields = key_fields or {"max_tokens": 256}
    observations = tuple(_observation(number, status) for number, status in enumerate(statuses))
    return RunRecord(
        run_id=run_id,
        gatekit_version="0.1.0",
        started_at="2026-11-30T03:00:00.25+00:00",
        finished_at=finished_at,
        spec=replace(_SPEC, name=spec_name, model=replace(_SPEC.model, name=model)),
        dataset=Dataset(
            name="gsm8k",
            digests={"test": "sha256:" + "0" * 64},
            question_ids=tuple(range(len(statuses) if planned is None else planned)),
            shot_ids=(0, 1, 2, 3, 4),
        ),
        comparability=Comparability(key=digest(fields), fields=fields),
        served=Served(
            engine="vllm",
            build=build,
            model=model,
            base_url="http://127.0.0.1:8000",
            simulated=False,
            details={"gpu": "B200"},
        ),
        counts=count(observations),
        observations=observations,
        verdict=Verdict(
            outcome=outcome,
            reason_code="floor-met",
            reason="3 of 4 is at least 2",
            rule=_rule(outcome, statuses, len(statuses) if planned is None else planned),
            interval=Interval(low=0.2, high=0.99, confidence=0.95),
        ),
        events=("server ready after 12 s",),
        previous=previous,
        supersedes=supersedes,
    )


@pytest.fixture
def make_record() -> MakeRecord:
    """Builds a whole record; its keywords change what a test is about."""
    return _make_record


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real server; without PostgreSQL's programs a test is skipped, and in CI it fails."""
    programs = binaries()
    if programs is None:
        _unavailable("needs PostgreSQL: apt-get install postgresql")
        return
    server = PostgresServer(programs)
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty history, once with each database."""
    if request.param == "sqlite":
        return Place(dir=tmp_path)
    server: PostgresServer = request.getfixturevalue("postgres")
    return Place(dir=tmp_path, url=server.url(server.new_database()))


@pytest.fixture
def postgres_place(postgres: PostgresServer, tmp_path: Path) -> Place:
    """An empty history with a PostgreSQL database."""
    return Place(dir=tmp_path, url=postgres.url(postgres.new_database()))


def _unavailable(why: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"{why} (required in CI)")
    pytest.skip(why)


@pytest.fixture
def mounted_tmpfs() -> Iterator[Callable[[str], Path]]:
    """Mounts a tmpfs with the given options; skips where that is not allowed, and in CI fails."""
    folder = Path(tempfile.mkdtemp(prefix="gatekit-tmpfs-"))

    def mount(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            _unavailable(f"needs the right to mount: {done.stderr.strip()}")
        return folder

    yield mount
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True)
    folder.rmdir()
