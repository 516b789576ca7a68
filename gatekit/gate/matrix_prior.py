"""The prior of a whole matrix: what its series know together about the spread that none of them knows alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gatekit.gate.exchangeable import Exchangeable
from gatekit.gate.flips import flip_variance, questions, right_before
from gatekit.gate.prior import own_prior
from gatekit.records.lock import Prior
from gatekit.records.past import PastRun
from gatekit.records.spec import Gate
from gatekit.stats.pooling import Prior as PooledRatios
from gatekit.stats.pooling import SeriesTotals, pool_phi, pool_psi


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What one series says about the spread: its totals, and those of its runs with answers with their flips."""

    totals: SeriesTotals
    detailed: SeriesTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """The spread that a matrix shows: of totals and of whole runs; None where fewer than two series say something."""

    phi: PooledRatios | None = None
    psi: PooledRatios | None = None


def matrix_prior(gate: Gate, series: Sequence[Exchangeable]) -> Prior:
    """phi0, nu0, psi0 and nu_psi pooled over the runs that count in each series, its own among them.

    phi comes from all totals, psi from the series whose runs hold their answers. Where fewer than two series
    say something about the one or the other, the gate's own values stand; `series` is how many did, 0 if none
    was pooled.
    """
    return prior_from(gate, pool([spread for spread in map(spread_of, series) if spread is not None]))


def spread_of(series: Exchangeable) -> Spread | None:
    """The few numbers of a series that are pooled; None for one without runs."""
    runs = series.runs
    return Spread(totals=SeriesTotals(n=runs[0].n, correct=_totals(runs)), detailed=_detailed(runs)) if runs else None


def pool(spreads: Sequence[Spread]) -> Pooled:
    """What the series of a matrix say together; their order is irrelevant, to the last bit."""
    return Pooled(
        phi=pool_phi(_in_order(spread.totals for spread in spreads)),
        psi=pool_psi(_in_order(spread.detailed for spread in spreads)),
    )


def prior_from(gate: Gate, pooled: Pooled) -> Prior:
    """The prior of one gate of a matrix: what was pooled, else the gate's own."""
    own, phi, psi = own_prior(gate), pooled.phi, pooled.psi
    return Prior(
        phi0=own.phi0 if phi is None else phi.scale,
        nu0=own.nu0 if phi is None else phi.freedom,
        psi0=own.psi0 if psi is None else psi.scale,
        nu_psi=own.nu_psi if psi is None else psi.freedom,
        series=max(0 if phi is None else phi.series, 0 if psi is None else psi.series),
    )


def _in_order(series: Iterable[SeriesTotals]) -> list[SeriesTotals]:
    """Sums of floats depend on their order."""
    return sorted(series, key=lambda one: (one.n, one.correct, one.flip_variance or 0.0))


def _totals(runs: Sequence[PastRun]) -> tuple[int, ...]:
    return tuple(run.correct for run in runs)


def _detailed(runs: Sequence[PastRun]) -> SeriesTotals:
    """The totals of the runs with answers, and the variance that the flips between them explain."""
    known = tuple(run for run in runs if run.outcomes is not None)
    variance = flip_variance(questions(right_before(known), len(known))) if len(known) > 1 else None
    return SeriesTotals(n=runs[0].n, correct=_totals(known), flip_variance=variance)
