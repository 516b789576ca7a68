"""How much text a run keeps: whatever was recorded can be read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gatekit.errors import InfraError
from gatekit.history.records_folder import MAX_RECORD_BYTES
from gatekit.records.answers import Completion, Observation, Question, Status
from gatekit.records.run import Comparability
from gatekit.run import kept_text
from gatekit.run.journal import Journal, read_journal
from gatekit.run.journal_lines import Header, ServerSeen, line_of
from gatekit.run.kept_text import MAX_ANSWERS_BYTES, kept_reasoning
from gatekit.run.loop import Answer
from gatekit.run.observe import observe
from gatekit.task.score import EXTRACTORS
from spec_builders import spec_of

KIB = 1024
MOST_ANSWERS = 64 * 1319  # a whole GSM8K with the most repeats
SEEN = Observation(question_id=1, status=Status.CORRECT, expected="4", text="x" * 1000, attempts=1)
HEADER = Header(
    record=1,
    run_id="night",
    gatekit_version="0.1.0",
    began_at="2026-01-01T00:00:00Z",
    spec=spec_of(),
    comparability=Comparability(key="sha256:0", fields={"n": 3}),
)


@pytest.mark.parametrize("text", [None, "", "a", "é" * 32 * KIB])
def test_what_is_short_is_kept_whole(text: str | None) -> None:
    """Reasoning of up to 32 KiB is kept as it came."""
    assert kept_reasoning(text) == text


@pytest.mark.parametrize("size", [33 * KIB, 10**6, 2**20])
def test_of_long_reasoning_both_ends_are_kept(size: int) -> None:
    """Its first and last 16 KiB stay, with how much was left out, and what was kept so is never shortened again."""
    text = "a" * (size // 2) + "z" * (size - size // 2)
    found = kept_reasoning(text)
    assert found is not None
    assert found.startswith("a" * 16 * KIB + f"\n[... {size - 32 * KIB:,} characters left out ...]\n")
    assert found.endswith("\n" + "z" * 16 * KIB)
    assert kept_reasoning(found) == found


def test_an_observation_holds_the_kept_form() -> None:
    """What journal, record and memory hold of an answer is its text and the kept form of its reasoning."""
    result = Completion(text="#### 4", reasoning="r" * 10**6, finish_reason="stop")
    answer = Answer(index=0, result=result, attempts=1, latency_s=1.0)
    seen = observe(answer, Question(id=1, text="", reference="#### 4"), EXTRACTORS["gatekit"])
    assert seen.text == "#### 4"
    assert seen.reasoning == kept_reasoning("r" * 10**6)


def test_a_full_run_fits_into_a_record() -> None:
    """The texts of a run, and a line for each answer that was never asked, are less than readers take."""
    unasked = len(line_of("answer", replace(SEEN, text="x" * 200)))
    assert MAX_ANSWERS_BYTES + MOST_ANSWERS * unasked < MAX_RECORD_BYTES


def test_the_budget_is_counted_over_all_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer that would be too much is not written; going on counts what is there, and refuses more than that."""
    path = tmp_path / "journal.jsonl"
    line = len(line_of("answer", SEEN))
    monkeypatch.setattr(kept_text, "MAX_ANSWERS_BYTES", 3 * line)
    with Journal(path) as journal:
        journal.begin(HEADER)
        journal.server(ServerSeen())
        for number in (1, 2):
            journal.answer(replace(SEEN, question_id=number))
    with Journal(path) as journal:
        journal.begin(HEADER)
        journal.answer(replace(SEEN, question_id=3))
        size = path.stat().st_size
        with pytest.raises(InfraError, match="after 3 answers") as caught:
            journal.answer(replace(SEEN, question_id=4))
        assert caught.value.reason == "answers-too-large"
        assert "protocol.max_tokens" in caught.value.hint
    assert path.stat().st_size == size
    monkeypatch.setattr(kept_text, "MAX_ANSWERS_BYTES", 3 * line - 1)
    with pytest.raises(InfraError) as caught:
        read_journal(path)
    assert caught.value.reason == "answers-too-large"
