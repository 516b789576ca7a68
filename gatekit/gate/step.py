"""One line of a derivation, and the lines that every rule has in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gatekit.gate.wording import bare_percent
from gatekit.records.answers import Counts
from gatekit.records.spec import Gate
from gatekit.records.verdict import Early, Outcome, Rule
from gatekit.stats.exact import exact

_MOST_SHOWN = 12
_MOST_CHARACTERS = 450  # a line that is cut off would not say how many more there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of a derivation: what it is about, and the sentence or formula."""

    label: str
    text: str


def named(rule: Rule) -> Step:
    """The rule, and why it was chosen."""
    return Step(label="rule", text=f"{rule.method}: {rule.why}" if rule.why else rule.method)


def alpha_step(gate: Gate, alpha: float, early: Early | None = None) -> Step:
    """The false-alarm rate, and what it comes from; that of a rule beside a sequential test is its own share."""
    if early is not None:
        text = f"{alpha:.3g}, the rule's share of {early.asked_alpha:.3g}: the rest is for the sequential test"
        return Step(label="alpha", text=text)
    if gate.alpha is None and gate.sigmas is not None:
        return Step(label="alpha", text=f"P(Z < -{gate.sigmas:g}) = {alpha:.3g}, the normal tail")
    if gate.alpha is not None or gate.budget is None:
        return Step(label="alpha", text=f"{alpha:.3g}, as stated")
    nights, gates = gate.budget.nights, gate.budget.gates
    over = "1 gate" if gates == 1 else f"{gates} gates"
    text = f"1 - (1 - 1/{nights})^(1/{gates}) = {alpha:.3g}: one false alarm in {nights} nights over {over}"
    return Step(label="alpha", text=text)


def floor_step(floor: int, k_reject: int, n: int) -> Step:
    """What gate.floor asks for beside the rule's own count."""
    text = f"gate.floor asks for {floor} of {n} beside it, the larger count binds: {max(floor, k_reject)}"
    return Step(label="floor", text=text)


def seen_step(counts: Counts) -> Step:
    """How the questions ended."""
    names = ("correct", "wrong", "no_answer", "truncated", "lost", "unasked")
    shown = [name for name in names if getattr(counts, name) or name in ("correct", "wrong")]
    parts = " + ".join(f"{getattr(counts, name)} {name.replace('_', ' ')}" for name in shown)
    return Step(label="seen", text=f"{parts} = {counts.n}")


def count_steps(gate: Gate, counts: Counts, worst: Outcome, best: Outcome) -> Iterator[Step]:
    """The counts, the outcomes with every missing answer wrong (`worst`) and right, and the limits in reach."""
    yield seen_step(counts)
    missing = counts.lost + counts.unasked
    if missing:
        low, high = f"{counts.correct}, {worst.value}", f"{counts.correct + missing}, {best.value}"
        yield Step(label="two-sided", text=f"all {missing} missing answers wrong: {low}; all right: {high}")
    else:
        yield Step(label="two-sided", text="no answer is missing: one count, one verdict")
    for name, limit in (("lost", gate.max_lost_share), ("truncated", gate.max_truncated_share)):
        number = getattr(counts, name)
        if number:
            yield Step(label=name, text=_limit(number, counts.n, limit))


def _limit(number: int, n: int, share: float) -> str:
    relation = "over" if number > exact(share) * n else "within"
    return f"{number} of {n} ({bare_percent(number / n)}), {relation} the limit of {bare_percent(share)}"


def some(texts: Sequence[str], between: str) -> str:
    """The first dozen texts, fewer where they are long, and how many more there are.

    >>> some(["a", "b"], ", "), some(["x" * 300, "y" * 300], ", ")[298:]
    ('a, b', 'xx, ... (1 more)')
    """
    shown = list(texts[:_MOST_SHOWN])
    while len(shown) > 1 and len(between.join(shown)) > _MOST_CHARACTERS:
        shown.pop()
    more = len(texts) - len(shown)
    return between.join(shown) + (f"{between}... ({more} more)" if more > 0 else "")
