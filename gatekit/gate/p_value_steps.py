"""The p-value of a run, with the numbers put in: at both ends where answers are missing, and which of them decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from gatekit.gate.flips import flip_variance
from gatekit.gate.from_history import LEAST_FREEDOM
from gatekit.gate.prior import own_prior
from gatekit.gate.retrial import Retrial
from gatekit.gate.step import Step, some
from gatekit.gate.wording import from_log, tail
from gatekit.records.spec import Gate
from gatekit.records.verdict import Outcome
from gatekit.stats.conditional import UNDERFLOW, conditional_tail, log_conditional_tail
from gatekit.stats.exact import squared_deviations
from gatekit.stats.next_count import NextCount, count_tail
from gatekit.stats.overdispersion import Guarded, guarded_p


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """The right answers of each stratum with every missing answer wrong, or every one right."""

    right: tuple[int, ...]
    name: str

    def labelled(self, label: str, short: str) -> str:
        """`label` where nothing is missing and there is one end; else the short one with the end's name."""
        return f"{short} if {self.name}" if self.name else label


def conditional_steps(gate: Gate, again: Retrial, sizes: Sequence[int]) -> Iterator[Step]:
    """The exact conditional p-value of the run."""
    guard = None
    if len(sizes) > 2:
        totals, variance = [run.correct for run in again.runs], flip_variance(sizes)
        guard = _guard(gate, totals, variance)
        yield _psi_step(gate, totals, variance, guard)
    for end in _ends(again):
        yield from _sides(sizes, end) if guard is None else _table(again, sizes, end, guard)
    yield from _deciding(again)


def tail_steps(again: Retrial) -> Iterator[Step]:
    """The p-value of the count, for a rule whose count decides; nothing where what it predicts is not known."""
    predicted = again.trial.criterion.predicted
    if predicted is None:
        return
    for end in _ends(again):
        correct = sum(end.right)
        text = f"{_count_formula(predicted, correct)} {tail(count_tail(predicted, correct), 4)}"
        yield Step(label=end.labelled("p", "p"), text=text)
    yield from _deciding(again)


def _count_formula(predicted: NextCount, correct: int) -> str:
    counts = predicted.counts
    if counts is not None:
        return f"p = P(Y <= {correct}), Y ~ BetaBin({counts.n}, {counts.a:.6g}, {counts.b:.6g}),"
    t = "normal T" if predicted.df == inf else f"T on {predicted.df:.4g} degrees of freedom"
    return f"p = P(T <= ({correct} + 1/2 - {predicted.mean:.6g}) / {predicted.sd:.4g}), {t},"


def _ends(again: Retrial) -> tuple[_End, ...]:
    strata = again.trial.strata
    if not _missing(again):
        return (_End(right=strata.right, name=""),)
    worst, best = strata.right, strata.right_if(open_=True)
    return _End(right=worst, name="wrong"), _End(right=best, name="right")


def _missing(again: Retrial) -> int:
    return again.trial.counts.lost + again.trial.counts.unasked


def _deciding(again: Retrial) -> Iterator[Step]:
    """Which end the verdict rests on: that at which it is hardest to hold."""
    missing, outcome = _missing(again), again.outcome()
    if not missing:
        return
    answers = "the missing answer" if missing == 1 else f"all {missing} missing answers"
    if again.trial.is_floor_alone:
        text = "not p: the count is below gate.floor at both ends"
    elif outcome is Outcome.FAIL:
        text = f"p with {answers} right, the largest that can be: the FAIL stands in spite of it"
    elif outcome is Outcome.PASS:
        text = f"p with {answers} wrong, the smallest that can be: the PASS stands in spite of it"
    else:
        text = "neither end by itself: no verdict follows from the p-value alone"
    yield Step(label="decides", text=text)


def _sides(sizes: Sequence[int], end: _End) -> Iterator[Step]:
    fell, rose = sizes[1] - end.right[1], end.right[0]
    sides = f"b = {fell} right to wrong, c = {rose} wrong to right"
    text = f"{sides}: p = P(Bin({fell + rose}, 1/2) <= {rose}) = {_plain(sizes, end)}"
    yield Step(label=end.labelled("p", "p"), text=text)


def _table(again: Retrial, sizes: Sequence[int], end: _End, guard: Guarded) -> Iterator[Step]:
    k, right = len(sizes) - 1, end.right
    table = [sizes[t] - right[t] + right[t - 1] for t in range(1, k + 1)]
    shown = some([f"t={t}: {m}" for t, m in enumerate(table, 1) if m], ", ") or "none"
    text = f"questions with t right answers in {k} runs and this one: {shown}"
    yield Step(label=end.labelled("t table", "t"), text=text)
    text = f"P(sum Bin(m_t, t/{k + 1}) <= {sum(right[:k])}) = {_plain(sizes, end)}"
    seen = f"right now in {sum(right[:k])} of those not all earlier runs got right"
    yield Step(label=end.labelled("p", "p"), text=f"{text}: {seen}")
    text = f"{'guarded ' if end.name else ''}p = T_{guard.df:g}(Phi^-1({_plain(sizes, end)}) / sqrt({guard.psi:.4g}))"
    widened = again.trial.criterion.test.p_value(end.right)
    assert widened is not None
    yield Step(label=end.labelled("guarded p", "p'"), text=f"{text} {tail(widened, 4)}")


def _plain(sizes: Sequence[int], end: _End) -> str:
    plain = conditional_tail(sizes, end.right)
    return f"{plain:.4g}" if plain >= UNDERFLOW else from_log(log_conditional_tail(sizes, end.right))


def _guard(gate: Gate, totals: Sequence[int], variance: float) -> Guarded:
    prior = own_prior(gate)
    return guarded_p(0.5, totals, variance, max(prior.nu_psi, LEAST_FREEDOM), prior.psi0)


def _psi_step(gate: Gate, totals: Sequence[int], variance: float, guard: Guarded) -> Step:
    prior = own_prior(gate)
    ratio = f"{float(squared_deviations(totals)) / variance:.4g}" if variance else "0"
    terms = f"({prior.nu_psi:g} x {prior.psi0:g} + {ratio}) / {guard.df:g}"
    return Step(label="psi", text=f"(k-1) s^2 / V = {ratio}; psi = max(1, {terms}) = {guard.psi:.4g}")
