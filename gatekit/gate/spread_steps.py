"""How far the next count may scatter, and the counts that follow, with the numbers put in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import inf

from gatekit.gate.flips import flip_variance
from gatekit.gate.from_history import LEAST_FREEDOM
from gatekit.gate.prior import own_prior
from gatekit.gate.step import Step, some
from gatekit.records.past import PastRun
from gatekit.records.spec import Gate
from gatekit.records.verdict import Rule
from gatekit.stats.exact import exact
from gatekit.stats.flip_prediction import flip_prediction
from gatekit.stats.flips import moderated_t
from gatekit.stats.next_count import NextCount, accept_from, reject_below, t_quantile


def total_steps(gate: Gate, n: int, runs: Sequence[PastRun], alpha: float) -> Iterator[Step]:
    """phi from the scatter of totals, shrunk towards the prior."""
    totals = [run.correct for run in runs]
    k, prior = len(totals), own_prior(gate)
    found = moderated_t(n, totals, alpha, prior.phi0, max(prior.nu0, 1.0 if k == 1 else LEAST_FREEDOM))
    mean = Fraction(sum(totals), k)
    v = mean * (1 - mean / n)
    yield Step(label="mean", text=f"S = {_mean_text(totals)}; v = S (1 - S/n) = {float(v):.5g}")
    if found.phi_hat is None:
        yield Step(label="spread", text=f"phi = phi0 = {prior.phi0:g} on nu = {found.df:g}: one run shows no scatter")
        return
    squares = found.phi_hat * float(v)
    own = f"s^2 = {squares:.5g}, phi_hat = s^2 / v = {found.phi_hat:.4g}"
    shrunk = f"({prior.nu0:g} x {prior.phi0:g} + {k - 1} x {found.phi_hat:.4g}) / {found.df:g}"
    yield Step(label="spread", text=f"{own}; phi = {shrunk} = {found.phi_moderated:.4g} on nu = {found.df:g}")


def flip_steps(gate: Gate, sizes: Sequence[int], alpha: float) -> Iterator[Step]:
    """phi from the questions that changed sides, shrunk towards the prior."""
    k, n, prior = len(sizes) - 1, sum(sizes), own_prior(gate)
    found = flip_prediction(k, dict(enumerate(sizes)), alpha, prior.phi0, max(prior.nu0, LEAST_FREEDOM))
    v, variance = found.mean * (1 - found.mean / n), flip_variance(sizes)
    flipped = sum(sizes[1:k])
    yield Step(label="mean", text=f"S = {found.mean:.6g}; v = S (1 - S/n) = {v:.5g}")
    own = f"V = sum k/(k-1) p_i (1 - p_i) = {variance:.5g} over {flipped} questions that flipped"
    phi_hat = f", phi_hat = V / v = {found.phi_flip:.4g}" if found.phi_flip is not None else ""
    d = found.df - prior.nu0
    own_df = f" on d = {d:.4g}" if d < inf else ""
    shrunk = f"phi = {found.phi_moderated:.4g} on nu = {found.df:.4g} (prior {prior.phi0:g} on {prior.nu0:g})"
    yield Step(label="spread", text=f"{own}{phi_hat}{own_df}; {shrunk}")


def threshold_steps(gate: Gate, rule: Rule, predicted: NextCount) -> Iterator[Step]:
    """The counts: what a drop is, or what the p-value comes to if as many questions flip as before."""
    assert rule.alpha is not None
    k = reject_below(predicted, rule.alpha)
    t = t_quantile(predicted.df, rule.alpha)
    sd = f"sd = {predicted.sd:.4g}, t = {t:.4g} ({'normal' if predicted.df == inf else f'nu = {predicted.df:.4g}'})"
    about = "about " if rule.by_p_value else ""
    sum_text = f"floor({predicted.mean:.6g} - {-t * predicted.sd:.4g} + 1/2)"
    yield Step(label="k_reject", text=f"{sd}: k_reject = floor(S + t sd + 1/2) = {sum_text} = {about}{k}")
    if gate.delta is not None:
        lost = exact(gate.delta) * rule.n
        accept = max(0, accept_from(predicted, lost, gate.beta))
        text = f"k_accept = ceil(S - n delta - t_beta sd + 1/2), n delta = {float(lost):.5g}, beta = {gate.beta:g}"
        yield Step(label="k_accept", text=f"{text}: {accept}")


def _mean_text(totals: Sequence[int]) -> str:
    mean = Fraction(sum(totals), len(totals))
    if len(totals) == 1:
        return f"{totals[0]}, one run"
    return f"({some([str(total) for total in totals], ' + ')}) / {len(totals)} = {float(mean):.6g}"
