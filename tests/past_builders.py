"""Earlier runs and statuses, made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gatekit.records.answers import Status
from gatekit.records.past import Past, PastRun

RIGHT, WRONG = Status.CORRECT, Status.WRONG


def run(name: str, answers: str | None, *, n: int = 0, correct: int = 0, **fields: str | None) -> PastRun:
    """A run named `name` of a build of its own: `answers` is one letter a question, c for right; or only a total."""
    outcomes = None if answers is None else bytes(letter == "c" for letter in answers)
    known = {"build": f"build-{name}", "hardware": "b200", "finished_at": "2026-11-30T03:00:00Z"} | fields
    return PastRun(
        run_id=name,
        n=n if outcomes is None else len(outcomes),
        correct=correct if outcomes is None else sum(outcomes),
        outcomes=outcomes,
        **known,  # type: ignore[arg-type]  # texts, but for an unknown build
    )


def totals(counts: Iterable[int], n: int) -> Past:
    """Runs of distinct builds of which only the totals are known."""
    return Past(runs=tuple(run(f"t{i}", None, n=n, correct=count) for i, count in enumerate(counts)))


def detailed(answers: Iterable[str], *, hardware: str = "b200") -> Past:
    """Runs of distinct builds with their answers."""
    return Past(runs=tuple(run(f"r{i}", text, hardware=hardware) for i, text in enumerate(answers)))


def flipped(n: int, wrong: Sequence[int]) -> str:
    """n answers, right but for those at the given places."""
    missed = set(wrong)
    return "".join("w" if place in missed else "c" for place in range(n))


def statuses(answers: str) -> tuple[Status | None, ...]:
    """c, w, n, t, l and - as statuses."""
    letters: dict[str, Status | None] = {status.value[0]: status for status in Status}
    return tuple((letters | {"-": None})[letter] for letter in answers)
