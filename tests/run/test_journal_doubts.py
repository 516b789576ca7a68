"""What a journal keeps of answers that came after a connection was lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gatekit.errors import InfraError
from gatekit.records.answers import Failure, FailureKind, Observation, Status
from gatekit.records.run import Comparability
from gatekit.run import kept_text
from gatekit.run.journal import Journal, read_journal
from gatekit.run.journal_lines import Done, Header, Kept, ServerSeen, line_of
from gatekit.run.resume import take_over
from spec_builders import spec_of

HEADER = Header(
    record=1,
    run_id="night",
    gatekit_version="0.1.0",
    began_at="2026-01-01T00:00:00Z",
    spec=spec_of(),
    comparability=Comparability(key="sha256:0", fields={"n": 9}),
)
Part = Callable[[Journal], None]


def right(*ids: int, attempts: int = 1) -> Part:
    """So many right answers."""

    def write(journal: Journal) -> None:
        for one in ids:
            journal.answer(
                Observation(question_id=one, status=Status.CORRECT, expected="4", text="4", attempts=attempts)
            )

    return write


def lost(question_id: int) -> Part:
    """A question without an answer."""
    why = Failure(kind=FailureKind.TIMEOUT, detail="no answer")
    seen = Observation(question_id=question_id, status=Status.LOST, expected="4", attempts=5, failure=why)
    return lambda journal: journal.answer(seen)


def server(journal: Journal) -> None:
    """Who answers."""
    journal.server(ServerSeen(version="1"))


def doubt(journal: Journal) -> None:
    """A connection was lost."""
    journal.doubt("connection lost: Server disconnected")


def confirmed(doubts: int = 1) -> Part:
    """The server is the same."""
    return lambda journal: journal.confirmed(doubts)


def written(folder: Path, *parts: Part) -> Path:
    """The journal that has these lines behind its header."""
    path = folder / "journal.jsonl"
    with Journal(path) as journal:
        journal.begin(HEADER)
        for write in parts:
            write(journal)
    return path


def read(path: Path) -> Kept:
    found = read_journal(path)
    assert found is not None
    return found


def ids(kept: Kept) -> list[tuple[int, int]]:
    """The questions that were kept, with the numbers of their lines."""
    return [(seen.question_id, line) for seen, line in zip(kept.answers, kept.lines, strict=True)]


def end(journal: Journal) -> None:
    journal.end("SIGTERM")


def done(journal: Journal) -> None:
    journal.done(Done(served=None, stopped_early=None, warnings=()))


CASES: dict[str, tuple[tuple[Part, ...], list[tuple[int, int]], int]] = {
    "no doubt": ((server, right(1, 2)), [(1, 3), (2, 4)], 0),
    "killed in doubt": ((server, right(1), doubt, right(2, 3)), [(1, 3)], 2),
    "ended in doubt": ((server, right(1), doubt, right(2), end), [(1, 3)], 1),
    "said to be done": ((server, right(1), doubt, right(2), done), [(1, 3)], 1),
    "no answer since": ((server, right(1), doubt), [(1, 3)], 0),
    "confirmed": ((server, right(1), doubt, right(2), confirmed(), right(3)), [(1, 3), (2, 5), (3, 7)], 0),
    "the first of two is confirmed": (
        (server, doubt, right(1), doubt, right(2), confirmed(), right(3)),
        [(1, 4)],
        2,
    ),
    "both are confirmed": ((server, doubt, right(1), doubt, right(2), confirmed(2)), [(1, 4), (2, 6)], 0),
    "in doubt again": ((server, doubt, right(1), confirmed(), doubt, right(2)), [(1, 4)], 1),
    "asked again": ((server, right(1), doubt, right(2), server, right(2)), [(1, 3), (2, 7)], 0),
    "asked again and in doubt again": (
        (server, right(1), doubt, right(2), server, right(2), doubt, right(3)),
        [(1, 3), (2, 7)],
        1,
    ),
    "what a part doubted another cannot confirm": ((server, doubt, right(1), server, doubt, confirmed()), [], 0),
    "what was lost is no answer": ((server, right(1), doubt, lost(2), right(3)), [(1, 3), (2, 5)], 1),
    "lost before it": ((server, lost(2), server, doubt, right(2, attempts=6)), [(2, 3)], 1),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_kept(tmp_path: Path, name: str) -> None:
    """Answers between a lost connection and the end of their part are kept only where their server was confirmed."""
    parts, expected, unconfirmed = CASES[name]
    path = written(tmp_path, *parts)
    kept = read(path)
    assert (ids(kept), kept.unconfirmed, kept.size) == (expected, unconfirmed, path.stat().st_size)
    held = [line for line in path.read_bytes().splitlines(keepends=True) if line.startswith(b'{"answer":')]
    assert kept.answers_size == sum(map(len, held)), "the size of a run is that of all that its journal holds"


def test_what_was_lost_before_is_lost_again(tmp_path: Path) -> None:
    """A question that lost its answer and got one in doubt is one that lost its answer, with those attempts."""
    parts, _, _ = CASES["lost before it"]
    (seen,) = read(written(tmp_path, *parts)).answers
    assert (seen.status, seen.attempts) == (Status.LOST, 5)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (line_of("confirmed", 1), "confirms what nobody doubted"),
        (line_of("doubt", "x") + line_of("confirmed", 2), "confirms what nobody doubted"),
        (line_of("doubt", "x") + line_of("confirmed", 0), "confirms what nobody doubted"),
        (line_of("doubt", "x") + line_of("confirmed", -1), "confirms what nobody doubted"),
        (b'{"doubt":"x"}\n{"confirmed":true}\n', "confirms what nobody doubted"),
        (line_of("doubt", 1), "a text is missing"),
        (
            line_of("doubt", "x")
            + line_of("answer", Observation(question_id=1, status=Status.CORRECT, expected="4", attempts=1)),
            "a second time",
        ),
    ],
)
def test_lines_that_no_gatekit_wrote(tmp_path: Path, line: bytes, why: str) -> None:
    """A doubt without a text, what confirms more than was in doubt, and a second answer are no lines of a journal."""
    path = written(tmp_path, server, right(1))
    with path.open("ab") as file:
        file.write(line)
    with pytest.raises(InfraError, match=why):
        read_journal(path)


def test_the_next_run_takes_over_what_is_sure(tmp_path: Path) -> None:
    """A run that goes on with another one's answers keeps those that this one would have kept."""
    folder = tmp_path / "runs" / "night"
    folder.mkdir(parents=True)
    written(folder, server, right(1), doubt, right(2, 3), end)
    take_over(tmp_path, replace(HEADER, run_id="night-r2"), "night")
    kept = read(tmp_path / "runs" / "night-r2" / "journal.jsonl")
    assert (ids(kept), kept.unconfirmed, kept.header.continues) == ([(1, 3)], 2, "night")


def test_the_budget_counts_what_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who writes and who reads count the same bytes, so that no journal grows beyond what can be read."""
    path = written(tmp_path, server, right(1), doubt, right(2))
    size = read(path).answers_size
    monkeypatch.setattr(kept_text, "MAX_ANSWERS_BYTES", size + size // 2)
    with Journal(path) as journal:
        journal.begin(HEADER)
        server(journal)
        right(2)(journal)
        with pytest.raises(InfraError, match="take more than"):
            right(3)(journal)
    assert ids(read(path)) == [(1, 3), (2, 7)]
