"""What a gate's threshold really does: its false alarms, its blind spot, and what is wrong with it, by id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, sqrt

from gatekit.errors import ConfigError
from gatekit.gate.criterion import Criterion, binding_gate
from gatekit.gate.needs import observed_accuracy
from gatekit.gate.reasons import mismatch
from gatekit.gate.rule import DEFAULT_DELTA, POWER, binding_floor, thresholds
from gatekit.gate.split import share_of
from gatekit.gate.split_criterion import criterion
from gatekit.gate.wording import accuracy, percent, points
from gatekit.records.answers import Counts
from gatekit.records.past import Past
from gatekit.records.spec import EarlyStop, Gate, Method, Observed, Spec
from gatekit.stats.binomial import lower_tail, upper_tail
from gatekit.stats.exact import exact
from gatekit.stats.power import noticed_drop
from gatekit.stats.predictive import predictive_pmf

NOISE = 0.05  # a healthy model that fails more often than one run in twenty teaches people to ignore the gate
_HALF_POINT = Fraction(1, 200)
_UNCERTAIN = 2.0  # how many times more false alarms than stated are worth a word
_ALONE = (Method.STATIC_FLOOR, Method.EXACT_BINOMIAL)
EARLY_STOP, NO_EARLY_STOP = "early-stop", "no-early-stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """How often a run of a model of this accuracy fails."""

    accuracy: float
    fails: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DropChance:
    """How often a run fails, and how often it passes, after a drop of this size; the rest has no verdict."""

    drop: float
    fails: float
    passes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """How many failed requests, and which share of all, still let a healthy run pass where they score as wrong.

    With so many the count is expected to be what is needed, so that only `passes` of such runs do pass.
    """

    requests: int
    share: float
    passes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something to know about a gate: a stable id and one sentence with its numbers."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A threshold in numbers. All rates are those of fresh questions (binomial).

    FAIL below `k_reject` of n, PASS from `k_pass`, no verdict between; `k_accept` is what excludes the drop that a
    PASS must exclude (None: it must exclude none), and `k_pass` the larger of the two.
    `reference` is the healthy accuracy: measured, stated, or (`is_assumed`) the typed floor itself; `sigmas`
    its distance from the threshold in standard deviations. `false_alarms` has one entry, or two where the
    reference is assumed: at it and half a point above. `hidden` is None where no failed request scores as wrong,
    as in every gate of a spec.
    """

    k_reject: int
    k_accept: int | None
    k_pass: int
    guarded: float
    reference: float
    is_assumed: bool
    sigmas: float | None
    false_alarms: tuple[Chance, ...]
    drops: tuple[DropChance, ...]
    noticed_drop: float | None
    hidden: Hidden | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """One gate at n questions; `figures` is None for a rule that has none before it has history."""

    name: str
    method: str
    n: int
    figures: Figures | None
    findings: tuple[Finding, ...]

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the findings."""
        return frozenset(finding.id for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    gate: Gate
    n: int
    k: int
    k_accept: int | None
    guarded: Fraction
    reference: Fraction
    is_assumed: bool
    is_strict: bool
    is_foreign: bool  # another harness's, which scores failed requests as wrong

    def fails(self, p: Fraction) -> float:
        return lower_tail(self.k, self.n, _inside(p))

    def passes(self, p: Fraction) -> float:
        return upper_tail(self.k_pass, self.n, _inside(p))

    @property
    def k_pass(self) -> int:
        return max(self.k, self.k_accept or 0)

    @property
    def dropped(self) -> Fraction:
        return self.reference - exact(self.margin)

    @property
    def floor_count(self) -> int | None:
        """What a floor asks for beside the rule; None where there is none beside it."""
        beside = self.gate.floor is not None and self.gate.method is not Method.STATIC_FLOOR
        return binding_floor(self.gate, self.n) if beside else None

    @property
    def alone(self) -> int:
        """The count of the rule without the floor beside it."""
        return self.k if self.floor_count is None else thresholds(replace(self.gate, floor=None), self.n).k_reject

    @property
    def floor_binds(self) -> bool:
        return self.floor_count is not None and self.floor_count > self.alone

    @property
    def margin(self) -> float:
        return DEFAULT_DELTA if self.gate.delta is None else self.gate.delta


def _inside(p: Fraction) -> Fraction:
    return min(Fraction(1), max(Fraction(0), p))


def audit_spec(spec: Spec, n: int) -> Audit:
    """The audit of a spec's gate at n questions.

    Raises ConfigError as `gatekit.gate.rule.rule` does.
    """
    gate, early = binding_gate(spec, n), _early_findings(spec, n)
    if any(one.id == EARLY_STOP for one in early):
        gate = replace(share_of(replace(gate, method=_audited_as(gate) or gate.method)), method=gate.method)
    found = audit_gate(gate, n, name=spec.name)
    return replace(found, findings=(*_mismatch(spec, n), *found.findings, *early))


def _mismatch(spec: Spec, n: int) -> Iterator[Finding]:
    other = mismatch(spec, Counts(n=n, correct=n, wrong=0, no_answer=0, truncated=0, lost=0))
    if other is None:
        return
    what = "every verdict is INCONCLUSIVE"
    if spec.gate.method is Method.LOCKED:
        what = "gate.floor does not bind beside a lock, which decides alone"
    yield Finding(id=other.code, text=f"{what}: {other.text}")


def _early_findings(spec: Spec, n: int) -> tuple[Finding, ...]:
    """Whether a sequential test takes its share of the error rates, and what that comes to; or why there is none.

    A rule that needs history is asked as the one that it is audited as, which needs none.
    """
    gate, name = binding_gate(spec, n), spec.gate.early_stop.value
    method = _audited_as(gate)
    if gate.early_stop is EarlyStop.NONE or method is None:
        return ()
    try:
        found = criterion(replace(spec, gate=replace(gate, method=method)), n, Past())
    except ConfigError as error:
        text = "; ".join(problem.what for problem in error.problems)
        return (Finding(id=NO_EARLY_STOP, text=f"a run is refused: {text}"),)
    if not isinstance(found, Criterion) or found.rule.early is None:
        note = found.early_note if isinstance(found, Criterion) else ""
        return (Finding(id=NO_EARLY_STOP, text=note or f"no early stop: {name} has nothing to test"),)
    early = found.rule.early
    rates = f"the rule has half of alpha {early.asked_alpha:.3g} and of beta {early.asked_beta:.3g}, as in the figures"
    more = f"stopping early adds at most {percent(early.alpha)} of false alarms and {percent(early.beta)} of misses"
    return (Finding(id=EARLY_STOP, text=f"beside {name} {rates}; {more}"),)


def audit_typed(gate: Gate, n: int, *, healthy: float | None, strict: bool) -> Audit:
    """The audit of a hand-set floor of another harness, which scores failed requests as wrong.

    `healthy` is the stated accuracy of a healthy model, `strict` says that the score must exceed the floor
    instead of reaching it. Raises ConfigError as `gatekit.gate.rule.rule` does.
    """
    case = replace(_case(gate, n), is_foreign=True)
    if healthy is not None:
        case = replace(case, reference=exact(healthy), is_assumed=False)
    if strict:
        case = replace(case, k=floor(case.guarded * n) + 1, is_strict=True)
    return _audited(case, gate.name, ())


def audit_gate(gate: Gate, n: int, *, name: str) -> Audit:
    """The audit of a gate at n questions; a rule that needs history as the one it is without.

    Raises ConfigError as `gatekit.gate.rule.rule` does.
    """
    if gate.method in _ALONE:
        return _audited(_case(gate, n), name, ())
    method = _without_history(gate)
    text = f"{gate.method.value} takes its threshold from {_source(gate)}"
    if _decides_nothing(gate):
        text += " (without it every verdict is INCONCLUSIVE)"
    if method is None:
        why = f"{text}; there are no figures without it: see gatekit power for what it can notice"
        finding = Finding(id="needs-history", text=why)
        return Audit(name=name, method=gate.method.value, n=n, figures=None, findings=(finding,))
    case = _case(replace(gate, method=method), n)
    what = f"the floor, which binds beside {method.value}" if case.floor_binds else f"{method.value}, which needs none"
    finding = Finding(id="needs-history", text=f"{text}; the figures are those of {what}")
    return _audited(case, name, (finding,))


def _audited_as(gate: Gate) -> Method | None:
    """The method that the figures are those of; None where there are none."""
    return gate.method if gate.method in _ALONE else _without_history(gate)


def _decides_nothing(gate: Gate) -> bool:
    """Whether a run without history has no verdict, instead of that of a weaker rule."""
    falls_back = gate.method is Method.AUTO
    return not falls_back and not (gate.method is Method.BETA_BINOMIAL_PREDICTIVE and gate.observed is not None)


def _source(gate: Gate) -> str:
    if gate.method is Method.LOCKED:
        return f"a lock file in {gate.locks} (gatekit thresholds show)"
    return "a history of comparable runs"


def _without_history(gate: Gate) -> Method | None:
    has_alpha = gate.alpha is not None or gate.sigmas is not None or gate.budget is not None
    if gate.observed is not None and has_alpha:
        return Method.EXACT_BINOMIAL
    return None if gate.floor is None else Method.STATIC_FLOOR


def _case(gate: Gate, n: int) -> _Case:
    found = thresholds(gate, n)
    is_assumed = gate.observed is None
    reference = exact(gate.floor or 0.0) if gate.observed is None else observed_accuracy(gate.observed)
    return _Case(
        gate=gate,
        n=n,
        k=found.k_reject,
        k_accept=found.k_accept,
        guarded=found.guarded,
        reference=reference,
        is_assumed=is_assumed,
        is_strict=False,
        is_foreign=False,
    )


def _audited(case: _Case, name: str, before: tuple[Finding, ...]) -> Audit:
    figures = _figures(case)
    return Audit(
        name=name,
        method=case.gate.method.value,
        n=case.n,
        figures=figures,
        findings=(*before, *_findings(case, figures)),
    )


def _figures(case: _Case) -> Figures:
    reference, n = case.reference, case.n
    deviation = sqrt(n * reference * (1 - reference))
    healthy = [reference]
    if case.is_assumed:
        healthy.append(min(Fraction(1), reference + _HALF_POINT))
    drops = dict.fromkeys((case.margin, DEFAULT_DELTA))
    return Figures(
        k_reject=case.k,
        k_accept=case.k_accept,
        k_pass=case.k_pass,
        guarded=float(case.guarded),
        reference=float(reference),
        is_assumed=case.is_assumed,
        sigmas=float(n * reference - case.k) / deviation if deviation else None,
        false_alarms=tuple(Chance(accuracy=float(p), fails=case.fails(p)) for p in healthy),
        drops=tuple(_drop_chance(case, drop) for drop in drops),
        noticed_drop=noticed_drop(n, case.k, reference, POWER),
        hidden=_hidden(case) if case.is_foreign else None,
    )


def _drop_chance(case: _Case, drop: float) -> DropChance:
    left = case.reference - exact(drop)
    return DropChance(drop=drop, fails=case.fails(left), passes=case.passes(left))


def _hidden(case: _Case) -> Hidden:
    """m failures leave n - m questions, of which the reference share is right: m = n (1 - needed / reference)."""
    needed = case.guarded if case.gate.method is Method.STATIC_FLOOR else Fraction(case.k, case.n)
    share = max(Fraction(0), 1 - needed / case.reference) if case.reference else Fraction(0)
    requests = floor(share * case.n)
    passes = upper_tail(case.k_pass, case.n - requests, case.reference)
    return Hidden(requests=requests, share=requests / case.n, passes=passes)


def _findings(case: _Case, figures: Figures) -> Iterator[Finding]:
    yield from _tolerance(case)
    yield from _floor_beside(case)
    yield from _delta(case)
    if case.k <= 0:
        yield Finding(id="vacuous", text="no correct answer is needed, so this gate can never fail")
        return
    if case.k > case.n:
        yield Finding(id="never-passes", text=f"{case.k} of {case.n} are needed: this gate can never pass")
        return
    yield from _reference(case, figures)
    yield from _noise(case, figures)
    yield from _blindness(case, figures)
    yield from _zone(case)
    yield from _operator(case)
    yield from _failures(case, figures)


def _tolerance(case: _Case) -> Iterator[Finding]:
    gate = case.gate
    if gate.floor is None or not gate.tolerance:
        return
    count = case.k if case.floor_count is None else case.floor_count
    enforced = f"{accuracy(_enforced(gate))} is enforced ({count} of {case.n})"
    text = f"{accuracy(gate.floor)} is typed, {enforced}: the tolerance is {gate.tolerance:g}"
    yield Finding(id="hidden-tolerance", text=text)


def _enforced(gate: Gate) -> float:
    return float(max(Fraction(0), exact(gate.floor or 0.0) - exact(gate.tolerance)))


def _floor_beside(case: _Case) -> Iterator[Finding]:
    """A floor beside a rule decides alone where it asks for more, and nothing where it does not."""
    if case.floor_count is None:
        return
    method, alone = case.gate.method.value, case.alone
    asked = f"the floor {accuracy(_enforced(case.gate))} asks for {case.floor_count} of {case.n}, {method} for {alone}"
    if not case.floor_binds:
        yield Finding(id="floor-idle", text=f"{asked}: the rule decides, not the floor")
        return
    own = lower_tail(alone, case.n, case.reference)
    rates = f"fails {percent(case.fails(case.reference))} of healthy runs instead of {percent(own)}"
    text = f"{asked}: the floor decides, and {rates}; gate.floor=null lets the rule decide"
    yield Finding(id="floor-binds", text=text)


def _delta(case: _Case) -> Iterator[Finding]:
    """What is wrong with the drop that a PASS shall exclude."""
    delta = case.gate.delta
    if delta is None or case.is_foreign:
        return
    if case.gate.method is Method.STATIC_FLOOR and case.gate.observed is None:
        text = f"excluding a drop of {points(delta)} needs gate.observed to drop from: a run is refused"
        yield Finding(id="delta-needs-observed", text=text)
    elif exact(delta) >= case.reference:
        healthy = accuracy(float(case.reference))
        text = (
            f"a drop of {points(delta)} from a healthy accuracy of {healthy} leaves nothing that a PASS could exclude"
        )
        yield Finding(id="delta-too-large", text=text)


def _noise(case: _Case, figures: Figures) -> Iterator[Finding]:
    healthy = figures.false_alarms[-1]
    if healthy.fails <= NOISE:
        return
    rate = f"in {percent(healthy.fails)} of runs"
    what = f"a healthy model of accuracy {accuracy(healthy.accuracy)} fails {rate}"
    if case.is_assumed:
        above = points(healthy.accuracy - figures.reference)
        what = (
            f"a hypothetical model of accuracy {accuracy(healthy.accuracy)}, {above} above the floor, would fail {rate}"
        )
    yield Finding(id="gate-in-noise", text=what)


def _blindness(case: _Case, figures: Figures) -> Iterator[Finding]:
    dropped = figures.drops[0]
    if dropped.passes <= case.gate.beta:
        return
    from_here = f"below {accuracy(figures.reference)}"
    if figures.noticed_drop is None:
        seen = f"no drop {from_here} is noticed in {percent(POWER)} of runs"
    else:
        seen = f"{percent(POWER)} are noticed from {points(figures.noticed_drop)} on"
    text = f"a drop of {points(dropped.drop)} {from_here} passes in {passing(dropped.passes)} of runs; {seen}"
    yield Finding(id="gate-blind", text=text)


def passing(passes: float) -> str:
    """A share of runs that pass, with two decimals where it is nearly all of them.

    >>> passing(0.45), passing(0.99862), passing(1 - 1e-9)
    ('45 %', '99.86 %', 'over 99.99 %')
    """
    if passes < 0.99:
        return percent(passes)
    return f"{100 * passes:.2f} %" if passes < 0.99995 else "over 99.99 %"


def _zone(case: _Case) -> Iterator[Finding]:
    if case.k_pass <= case.k:
        return
    healthy, dropped = (1 - case.fails(p) - case.passes(p) for p in (case.reference, case.dropped))
    runs = f"{percent(healthy)} of healthy runs, {percent(dropped)} of those after a drop of {points(case.margin)}"
    yield Finding(id="underpowered", text=f"{case.k} to {case.k_pass - 1} correct give no verdict: {runs}")


def _reference(case: _Case, figures: Figures) -> Iterator[Finding]:
    if case.is_assumed:
        floor_itself = accuracy(figures.reference)
        text = f"no healthy accuracy is stated: the figures take {floor_itself}, the floor itself, as healthy"
        yield Finding(id="no-reference", text=text)
    elif case.gate.observed is not None:
        yield from _uncertainty(case, case.gate.observed, figures.false_alarms[0].fails)


def _uncertainty(case: _Case, observed: Observed, stated: float) -> Iterator[Finding]:
    pmf = predictive_pmf(case.n, observed.correct + 0.5, observed.n - observed.correct + 0.5)
    counted = float(pmf[: case.k].sum())
    if counted > _UNCERTAIN * stated and percent(counted) != percent(stated):
        what = f"the reference is itself one measurement of {observed.n} questions"
        text = f"{what}: with its error counted, {percent(counted)} of healthy runs fail instead of {percent(stated)}"
        yield Finding(id="reference-uncertain", text=text)


def _operator(case: _Case) -> Iterator[Finding]:
    """Only where the floor is a whole count do `>` and `>=` differ."""
    whole = case.guarded * case.n
    if case.gate.method is not Method.STATIC_FLOOR or whole.denominator != 1:
        return
    equal = int(whole)
    loose, tight = (lower_tail(k, case.n, case.reference) for k in (equal, equal + 1))
    both = f"'>=' needs {equal} and fails {percent(loose)} of healthy runs, '>' needs {equal + 1}: {percent(tight)}"
    used = ">" if case.is_strict else ">="
    text = f"{accuracy(float(case.guarded))} of {case.n} is exactly {equal}: {both}; this gate is '{used}'"
    yield Finding(id="strict-differs", text=text)


def _failures(case: _Case, figures: Figures) -> Iterator[Finding]:
    hidden = figures.hidden
    if hidden is None or hidden.share <= case.gate.max_lost_share:
        return
    lost = f"scored as wrong, {hidden.requests} failed requests of {case.n} ({percent(hidden.share)})"
    text = f"{lost} stay green in {percent(hidden.passes)} of healthy runs, and fewer in more of them"
    yield Finding(id="failures-hidden", text=text)
