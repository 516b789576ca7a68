"""Recorded completions, read from real files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gatekit.engine import replay
from gatekit.engine.replay import read_answers
from gatekit.engine.serve import serve
from gatekit.errors import ConfigError, InfraError
from gatekit.records.answers import Completion, Failure, FailureKind, Observation, Question, Status, count
from gatekit.records.run import Comparability, Dataset, RunRecord, record_to_plain
from gatekit.records.spec import EngineKind
from gatekit.records.verdict import Outcome, Verdict

OBSERVATIONS = (
    Observation(
        question_id=0,
        status=Status.CORRECT,
        predicted="2",
        text="#### 2",
        reasoning="hm",
        finish_reason="stop",
        prompt_tokens=9,
        completion_tokens=3,
        attempts=1,
    ),
    Observation(question_id=5, status=Status.WRONG, text="#### 7", finish_reason="stop", attempts=2),
    Observation(question_id=6, status=Status.TRUNCATED, reasoning="so", finish_reason="length", attempts=1),
    Observation(question_id=7, status=Status.NO_ANSWER, finish_reason="tool_calls", attempts=1),
    Observation(
        question_id=9,
        status=Status.LOST,
        attempts=3,
        failure=Failure(kind=FailureKind.TIMEOUT, detail="too slow"),
    ),
)


@pytest.fixture
def record(make_spec: Any) -> dict[str, Any]:
    """A run record with one answer of each kind."""
    plain = record_to_plain(
        RunRecord(
            run_id="r1",
            gatekit_version="0.1.0",
            started_at="2026-01-01T00:00:00Z",
            finished_at="2026-01-01T00:01:00Z",
            spec=make_spec(),
            dataset=Dataset(name="gsm8k", digests={}, question_ids=(0, 5, 6, 7, 9), shot_ids=()),
            comparability=Comparability(key="k", fields={}),
            served=None,
            counts=count(OBSERVATIONS),
            observations=OBSERVATIONS,
            verdict=Verdict(outcome=Outcome.PASS, reason_code="passed", reason="fine"),
        )
    )
    return dict(plain)


def ask(number: int, text: str = "?") -> Question:
    return Question(id=number, text=text, reference="")


@pytest.mark.parametrize("indent", [None, 2])
def test_a_record(tmp_path: Path, record: dict[str, Any], indent: int | None) -> None:
    """A record gives back each completion as it came, unknown counts included, and nothing for lost ones."""
    path = tmp_path / "record.json"
    path.write_text(json.dumps(record, indent=indent))
    recording = read_answers(path, None)
    assert recording.find(ask(0)) == Completion(
        text="#### 2", reasoning="hm", finish_reason="stop", prompt_tokens=9, completion_tokens=3
    )
    assert recording.find(ask(5)) == Completion(text="#### 7", finish_reason="stop")
    assert recording.find(ask(6)) == Completion(text=None, reasoning="so", finish_reason="length")
    assert recording.find(ask(7)) == Completion(text=None, finish_reason="tool_calls", has_tool_calls=True)
    assert recording.find(ask(9)) is None
    assert recording.find(ask(1)) is None
    assert recording.dataset == "gsm8k"


def test_the_real_solutions(gsm8k_dir: Path) -> None:
    """Every column of OpenAI's solutions answers all 1319 test questions with its own text."""
    path = gsm8k_dir / "example_model_solutions.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for variant in ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"):
        recording = read_answers(path, variant)
        for row in rows:
            completion = recording.find(ask(0, row["question"]))
            assert completion
            assert (completion.text, completion.finish_reason) == (row[variant]["solution"], "stop")


@pytest.mark.parametrize("variant", [None, "7b", "question", "ground_truth"])
def test_an_unknown_variant(tmp_path: Path, variant: str | None) -> None:
    """A column that is no column of solutions is CONFIG, and the real ones are named."""
    row = {"question": "q", "ground_truth": "A: 1", "6b": {"solution": "s"}, "175b": {"solution": "t"}}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    with pytest.raises(ConfigError) as caught:
        read_answers(tmp_path / "a.jsonl", variant)
    assert (caught.value.reason, caught.value.hint) == (
        "unknown-variant",
        "set engine.variant to one of 6b, 175b",
    )


def test_a_variant_of_a_record(tmp_path: Path, record: dict[str, Any]) -> None:
    """A record has no variants."""
    (tmp_path / "r.json").write_text(json.dumps(record))
    with pytest.raises(ConfigError, match="no variants"):
        read_answers(tmp_path / "r.json", "6b")


def test_a_flipped_bit(tmp_path: Path, record: dict[str, Any]) -> None:
    """A record whose content does not match its digest is corrupt, and so is a newer one unreadable."""
    record["observations"][1]["text"] = "#### 8"
    (tmp_path / "r.json").write_text(json.dumps(record))
    with pytest.raises(InfraError, match="digest"):
        read_answers(tmp_path / "r.json", None)
    (tmp_path / "r.json").write_text(json.dumps(record | {"format": 99}))
    with pytest.raises(InfraError, match="newer gatekit"):
        read_answers(tmp_path / "r.json", None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"not json",
        b"\xff\xfe\x00",
        b"[1, 2]",
        b'{"question": "q"}',
        b'{"question": 1, "6b": {"solution": "s"}}',
        b'{"observations": 3}',
        b'{"observations": [], "digest": "sha256:0"}',
        b'{"question": "q", "6b": {"solution": "s"}}\n{"question": "r", "6b": {"solu',
        b'{"question": "q", "6b": {"solution": "s"}}\n{"question": "r", "6b": {"solution": 3}}',
        b"[" * 100_000,
    ],
)
def test_corrupt_files(tmp_path: Path, content: bytes) -> None:
    """A cut, empty or foreign file is INFRA in one short line that names it."""
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(InfraError) as caught:
        read_answers(tmp_path / "a.jsonl", "6b" if b"observations" not in content else None)
    assert caught.value.reason == "answers-corrupt"
    assert "a.jsonl" in caught.value.message
    assert len(caught.value.message) < 400


def test_no_regular_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file, a folder, a device, a pipe and a huge file are CONFIG at once, with flat memory."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * 1001)
    monkeypatch.setattr(replay, "MOST_BYTES", 1000)
    for path in (tmp_path / "none", tmp_path, Path("/dev/zero"), tmp_path / "pipe", tmp_path / "large"):
        with pytest.raises(ConfigError) as caught:
            read_answers(path, None)
        assert caught.value.reason == "answers-file"


def test_equal_content_equal_digest(tmp_path: Path, record: dict[str, Any]) -> None:
    """The digest is that of the file's bytes, whatever its name."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(json.dumps(record))
    first, second = (read_answers(tmp_path / name, None) for name in ("a", "b"))
    assert first == second
    assert replace(first, sha256="") != first


def test_a_record_of_another_dataset(tmp_path: Path, record: dict[str, Any], make_spec: Any) -> None:
    """Question ids mean something only within their dataset: a record of another one is refused."""
    (tmp_path / "r.json").write_text(json.dumps(record))
    spec = make_spec(kind=EngineKind.REPLAY, answers=str(tmp_path / "r.json"))
    spec = replace(spec, task=replace(spec.task, dataset="synthetic"))
    run_dir = tmp_path / "run"
    with (
        pytest.raises(ConfigError, match="questions of synthetic"),
        serve(spec, run_dir=run_dir, questions=(ask(0),), environ={}),
    ):
        pass
    assert list(run_dir.iterdir()) == []
