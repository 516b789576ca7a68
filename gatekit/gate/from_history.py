"""Rules from earlier runs: the next count as predicted, the test, and the rule with its error rates."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, log, sqrt

from gatekit.gate.alpha import nominal_alpha
from gatekit.gate.drop_test import ConditionalTest, CountTest, DropTest
from gatekit.gate.flips import flip_variance, questions, right_before
from gatekit.gate.needs import check_drop, stated_observed
from gatekit.gate.prior import own_prior
from gatekit.gate.rule import POWER, binding_floor, floor_notes, zone_notes
from gatekit.gate.rung import Rung
from gatekit.gate.wording import percent
from gatekit.records.lock import Prior
from gatekit.records.past import PastRun
from gatekit.records.spec import Gate, Method
from gatekit.records.verdict import Rule
from gatekit.stats.conditional import critical_p, log_critical_p
from gatekit.stats.exact import exact
from gatekit.stats.flip_prediction import flip_prediction
from gatekit.stats.flips import moderated_t
from gatekit.stats.next_count import (
    NextCount,
    accept_from,
    binomial_variance,
    count_tail,
    noticed_loss,
    reject_below,
    widened,
)
from gatekit.stats.overdispersion import guarded_p
from gatekit.stats.predictive import predicted_counts

LEAST_FREEDOM = 1e-6  # stands for none: the prior does not speak
_SURPRISING = 0.01  # for the note on totals that scatter more than flips


@dataclass(frozen=True, slots=True, kw_only=True)
class FromHistory:
    """A rule from earlier runs. `before` says of each question how many of them got it right; () if unused.

    `alone` is the count that it asks for without gate.floor.
    """

    rule: Rule
    test: DropTest
    predicted: NextCount
    guarded: Fraction
    alone: int
    before: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """What the next count is predicted to be, and what the rule says about it beside."""

    predicted: NextCount
    mean: Fraction
    phi: float | None = None
    psi: float | None = None
    notes: tuple[str, ...] = field(default=())


def from_history(gate: Gate, n: int, rung: Rung, prior: Prior | None = None) -> FromHistory:
    """The rule that a rung with history, or the beta-binomial one with a stated baseline, leads to.

    `prior` is the spread assumed before the history speaks, the gate's own when None. Raises ConfigError when
    the gate has no false-alarm rate, or an impossible baseline.
    """
    alpha, prior = nominal_alpha(gate), prior or own_prior(gate)
    if rung.method is Method.BETA_BINOMIAL_PREDICTIVE:
        return _from_baseline(gate, n, rung, alpha)
    if rung.method is Method.MODERATED_T:
        return _from_count(gate, n, rung, alpha, _totals(prior, n, rung.runs, alpha))
    before = right_before(rung.runs)
    if rung.method is Method.FLIP_PREDICTION:
        return _from_count(gate, n, rung, alpha, _flips(prior, rung.runs, questions(before, len(rung.runs)), alpha))
    return _from_answers(gate, n, rung, alpha, before, prior)


def _from_baseline(gate: Gate, n: int, rung: Rung, alpha: float) -> FromHistory:
    """One earlier total, as if of other questions: conservative on the same ones."""
    if rung.runs:
        correct, size = rung.runs[-1].correct, rung.runs[-1].n
    else:
        observed = stated_observed(gate)
        correct, size = observed.correct, observed.n
    mean = Fraction(n * correct, size)
    sd = sqrt(binomial_variance(mean, n) * (1 + Fraction(n, size)))
    predicted = NextCount(mean=float(mean), sd=sd, df=inf, counts=predicted_counts(correct, size, n))
    return _from_count(gate, n, rung, alpha, _Base(predicted=predicted, mean=mean))


def _from_count(gate: Gate, n: int, rung: Rung, alpha: float, base: _Base) -> FromHistory:
    k_reject = reject_below(base.predicted, alpha)
    test = CountTest(k_reject=k_reject, tail=lambda count: count_tail(base.predicted, count))
    realised = count_tail(base.predicted, k_reject - 1)
    rule = _rule(gate, n, rung, alpha, base, k_reject=k_reject, realised=realised)
    guarded = healthy_accuracy(base.mean, n)
    return FromHistory(rule=rule, test=test, predicted=base.predicted, guarded=guarded, alone=k_reject)


def _from_answers(gate: Gate, n: int, rung: Rung, alpha: float, before: tuple[int, ...], prior: Prior) -> FromHistory:
    """The p-value decides; the count is what it comes to if the flips are those of the earlier runs."""
    runs = rung.runs
    sizes = questions(before, len(runs))
    if len(runs) == 1:
        base = _totals(prior, n, runs, alpha)
        test = ConditionalTest(questions=sizes, critical=alpha, log_critical=log(alpha))
    else:
        base, test = _guarded_flips(prior, runs, sizes, alpha)
    alone, guarded = reject_below(base.predicted, alpha), healthy_accuracy(base.mean, n)
    rule = _rule(gate, n, rung, alpha, base, k_reject=alone, realised=None)
    return FromHistory(rule=rule, test=test, predicted=base.predicted, guarded=guarded, alone=alone, before=before)


def _guarded_flips(
    prior: Prior, runs: tuple[PastRun, ...], sizes: tuple[int, ...], alpha: float
) -> tuple[_Base, ConditionalTest]:
    """The count predicted from flips and the conditional test, both widened by what totals scatter beyond."""
    flips = _flips(prior, runs, sizes, alpha)
    totals = [run.correct for run in runs]
    guard = guarded_p(0.5, totals, flip_variance(sizes), max(prior.nu_psi, LEAST_FREEDOM), prior.psi0)
    spread = NextCount(
        mean=flips.predicted.mean,
        sd=flips.predicted.sd * sqrt(guard.psi),
        df=min(flips.predicted.df, guard.df),
    )
    notes = _scatter_notes(guard.psi, guard.dispersion_p)
    base = _Base(predicted=spread, mean=flips.mean, phi=flips.phi, psi=guard.psi, notes=notes)
    test = ConditionalTest(
        questions=sizes,
        critical=critical_p(alpha, guard.psi, guard.df),
        log_critical=log_critical_p(alpha, guard.psi, guard.df),
        psi=guard.psi,
        df=guard.df,
    )
    return base, test


def _totals(prior: Prior, n: int, runs: tuple[PastRun, ...], alpha: float) -> _Base:
    """From totals: their own scatter, shrunk towards the prior."""
    totals = [run.correct for run in runs]
    freedom = max(prior.nu0, LEAST_FREEDOM if len(runs) > 1 else 1.0)
    found = moderated_t(n, totals, alpha, prior.phi0, freedom)
    mean = Fraction(sum(totals), len(runs))
    v = binomial_variance(mean, n)
    sd = sqrt(found.phi_moderated * v * (1 + Fraction(1, len(runs))))
    plain = NextCount(mean=float(mean), sd=sd, df=found.df)
    predicted = widened(plain, v, alpha)
    notes = () if predicted == plain else ("equal totals: the margin is one binomial standard deviation",)
    return _Base(predicted=predicted, mean=mean, phi=found.phi_moderated, notes=notes)


def _flips(prior: Prior, runs: tuple[PastRun, ...], sizes: tuple[int, ...], alpha: float) -> _Base:
    """From the questions that changed sides between the runs."""
    k = len(runs)
    found = flip_prediction(k, dict(enumerate(sizes)), alpha, prior.phi0, max(prior.nu0, LEAST_FREEDOM))
    mean = Fraction(sum(run.correct for run in runs), k)
    predicted = NextCount(mean=float(mean), sd=found.sd, df=found.df)
    return _Base(predicted=predicted, mean=mean, phi=found.phi_moderated)


def _rule(gate: Gate, n: int, rung: Rung, alpha: float, base: _Base, *, k_reject: int, realised: float | None) -> Rule:
    predicted, floor = base.predicted, binding_floor(gate, n)
    check_drop(gate, healthy_accuracy(base.mean, n))
    if floor > k_reject:  # it decides alone, and the rate of the rule is not its own
        k_reject, realised = floor, count_tail(predicted, floor - 1)
    k_accept = None
    if gate.delta is not None:
        k_accept = max(0, accept_from(predicted, n * exact(gate.delta), gate.beta))
    loss = noticed_loss(predicted, k_reject, POWER)
    return Rule(
        method=rung.method.value,
        n=n,
        k_reject=k_reject,
        k_accept=k_accept,
        reference_accuracy=float(base.mean / n),
        alpha=alpha,
        realised_alpha=realised,
        sigmas=float(base.mean - k_reject) / sqrt(binomial_variance(base.mean, n)),
        noticed_drop=None if loss is None else loss / n,
        power=POWER,
        notes=(*zone_notes(k_reject, k_accept), *floor_notes(gate, n), *base.notes, *rung.notes),
        why=rung.why,
        used=tuple(run.run_id for run in rung.runs),
        excluded=rung.excluded,
        phi=base.phi,
        df=None if predicted.df == inf else predicted.df,
        psi=base.psi,
    )


def healthy_accuracy(mean: Fraction, n: int) -> Fraction:
    """The healthy accuracy; a perfect history does not prove 1."""
    return mean / n if mean < n else Fraction(2 * n + 1, 2 * n + 2)


def _scatter_notes(psi: float, dispersion_p: float | None) -> tuple[str, ...]:
    if dispersion_p is None or dispersion_p > _SURPRISING:
        return ()
    chance = f"chi-square p = {percent(dispersion_p)}"
    return (f"earlier totals scatter more than flips explain ({chance}): psi {psi:.2f} widens the p-value",)
