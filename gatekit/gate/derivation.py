"""How a stored verdict follows from its record, step by step, with the numbers put into the formulas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isclose

from gatekit.gate.decide import outcome_of
from gatekit.gate.early_steps import EarlyAgain, early_again
from gatekit.gate.early_stop import detailed_runs
from gatekit.gate.exchangeable import exchangeable
from gatekit.gate.history_steps import history_steps
from gatekit.gate.reasons import DEPENDENT
from gatekit.gate.repeat_steps import alike_again, repeat_steps
from gatekit.gate.retrial import Retrial, by_lock, is_lock_of, is_of_series, retrial
from gatekit.gate.rule import thresholds
from gatekit.gate.sensitivity import Sensitivity, sensitivity, sensitivity_on_history, verdict_of
from gatekit.gate.split import as_decided
from gatekit.gate.step import Step, count_steps, named, seen_step, some
from gatekit.gate.strata import turned
from gatekit.gate.typed_steps import typed_steps
from gatekit.gate.wording import p_value
from gatekit.records.answers import Counts
from gatekit.records.lock import Lock
from gatekit.records.past import Past, PastRun
from gatekit.records.run import RunRecord
from gatekit.records.spec import Method
from gatekit.records.verdict import Outcome, Rule, Verdict

_STOPPED = "the run stopped early: its verdict rests on the test that stopped it, not on these counts"
_TYPED = frozenset({Method.STATIC_FLOOR.value, Method.EXACT_BINOMIAL.value})
_SAME = 1e-9  # two p-values that differ by no more are one


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """The steps from a record to its verdict.

    `recomputed` is the outcome that the record gives today; None where it does not follow from the record and the
    runs at hand. `disagreement` says what differs from the stored verdict, in a sentence; None where nothing does.
    """

    steps: tuple[Step, ...]
    recomputed: Outcome | None
    disagreement: str | None
    sensitivity: Sensitivity | None


def derive(record: RunRecord, past: Past | None = None) -> Derivation:
    """The derivation of a record's verdict, computed anew.

    A rule that rests on earlier runs needs those named in `verdict.rule.used`, a locked gate its lock, and the
    sequential test `paired_sprt` the series as it was before the run, all in `past`; where some are missing the rule
    is shown as stored, and the missing ones are named.
    """
    rule = record.verdict.rule
    if rule is None or record.counts.n == 0:
        return _without_rule(record)
    if rule.method in _TYPED:
        return _typed(record, rule, past)
    again = retrial(record, rule, past)
    if isinstance(again, str):
        return _as_stored(record, rule, again)
    return _on_history(record, rule, again, past)


def _without_rule(record: RunRecord) -> Derivation:
    """A verdict that no rule led to: nothing was asked, or its threshold says nothing of this run."""
    none = "none: nothing was asked" if record.counts.n == 0 else f"none was applied: {record.verdict.reason}"
    steps = [Step(label="rule", text=none)]
    if record.counts.n:
        steps.append(seen_step(record.counts))
    return Derivation(steps=tuple(steps), recomputed=None, disagreement=None, sensitivity=None)


def _typed(record: RunRecord, rule: Rule, past: Past | None) -> Derivation:
    gate = as_decided(record.spec.gate, rule)
    spec, gate = replace(record.spec, gate=gate), replace(gate, method=Method(rule.method))
    if gate.method is not Method.STATIC_FLOOR:  # a floor that auto fell back on is judged as auto does
        spec = replace(spec, gate=gate)
    now, counts = verdict_of(spec, record.counts), record.counts
    missing = counts.lost + counts.unasked
    wrong = replace(counts, lost=0, unasked=0, wrong=counts.wrong + missing)
    right = replace(counts, lost=0, unasked=0, correct=counts.correct + missing)
    worst, best = (verdict_of(spec, ends).outcome for ends in (wrong, right))
    early = _early(record, rule, (), now.outcome, past)
    recomputed, told = _recomputed(record, now.outcome, early)
    found = thresholds(gate, rule.n)
    return Derivation(
        steps=(
            *typed_steps(gate, rule),
            *repeat_steps(record),
            *count_steps(gate, counts, worst, best),
            *(early.steps if early else ()),
            Step(label="verdict", text=told or _verdict_text(now, counts)),
        ),
        recomputed=recomputed,
        disagreement=_other_counts((found.k_reject, found.k_accept), rule) or _other_outcome(record, recomputed),
        sensitivity=None if recomputed is None or early else sensitivity(spec, counts),
    )


def _on_history(record: RunRecord, rule: Rule, again: Retrial, past: Past | None) -> Derivation:
    trial, gate = again.trial, again.trial.gate
    now = again.outcome()
    early = _early(record, rule, again.runs, now, past)
    recomputed, told = _recomputed(record, now, early)
    alike = alike_again(record, again.runs, now)
    if alike is not None and recomputed is now:
        recomputed, told = alike.outcome, alike.told
    return Derivation(
        steps=(
            *history_steps(gate, again),
            *_lock_of_today(record, rule, past),
            *repeat_steps(record),
            *count_steps(gate, record.counts, *_ends(again)),
            *(early.steps if early else ()),
            *(alike.steps if alike else ()),
            Step(label="verdict", text=told or _trial_text(again, now)),
        ),
        recomputed=recomputed,
        disagreement=_other_lock(record, rule, past)
        or _other_counts((trial.rule.k_reject, trial.rule.k_accept), rule)
        or _other_outcome(record, recomputed)
        or (None if early else _other_p_value(record, again, recomputed)),
        sensitivity=None if recomputed is not now or early else sensitivity_on_history(again),
    )


def _early(
    record: RunRecord, rule: Rule, runs: Sequence[PastRun], now: Outcome, past: Past | None
) -> EarlyAgain | None:
    """The sequential test, where it is what decides: the run was cut short, and its counts leave the verdict open.

    A test question by question rests on the whole norm, also where its rule takes none of it, or the last run alone.
    """
    if not record.counts.unasked or now is not Outcome.INCONCLUSIVE:
        return None
    builds = tuple(run for run in runs if run.outcomes is not None)
    wanted = None if rule.early is None else rule.early.builds
    if wanted is not None and wanted != len(builds) and past is not None:
        builds = detailed_runs(exchangeable(record.spec.gate, record.spec.hw.name, rule.n, past))
    return early_again(record, rule, builds)


def _recomputed(record: RunRecord, now: Outcome, early: EarlyAgain | None) -> tuple[Outcome | None, str | None]:
    """The outcome where the answers decide it; else None and the sentence that says what did."""
    verdict = record.verdict
    if verdict.outcome is Outcome.INFRA and verdict.reason in record.events:
        return None, f"the run itself failed, which no count changes: {verdict.reason}"
    if early is not None and early.outcome is not None:
        return early.outcome, f"{early.outcome.value}, by the sequential test"
    if record.counts.unasked > 0 and now is Outcome.INCONCLUSIVE:
        return None, _STOPPED
    return now, None


def _ends(again: Retrial) -> tuple[Outcome, Outcome]:
    """The outcomes with every missing answer wrong, and right."""
    ends = []
    for target in ("wrong", "right"):
        strata = again.trial.strata
        for source in ("lost", "unasked"):
            strata = turned(strata, sum(getattr(strata, source)), source=source, target=target)
        ends.append(again.outcome(strata))
    return ends[0], ends[1]


def _as_stored(record: RunRecord, rule: Rule, why: str) -> Derivation:
    steps = (named(rule), *_stored_rule(rule), Step(label="missing", text=why), seen_step(record.counts))
    return Derivation(steps=steps, recomputed=None, disagreement=None, sensitivity=None)


def _stored_rule(rule: Rule) -> Iterator[Step]:
    """A rule on earlier runs, as the record holds it."""
    accept = "" if rule.k_accept is None else f", k_accept = {rule.k_accept}"
    yield Step(label="counts", text=f"k_reject = {rule.k_reject} of {rule.n}{accept}, as stored")
    names = ("reference_accuracy", "alpha", "realised_alpha", "noticed_drop", "phi", "df", "psi")
    known = [(name, getattr(rule, name)) for name in names if getattr(rule, name) is not None]
    if known:
        yield Step(label="inputs", text=", ".join(f"{name} = {value:.4g}" for name, value in known))
    if rule.used:
        yield Step(label="rests on", text=some(rule.used, ", "))
    for reason, runs in rule.excluded.items():
        yield Step(label="left out", text=f"{runs}: {reason}")


def _other_lock(record: RunRecord, rule: Rule, past: Past | None) -> str | None:
    """Whether the lock at hand is another one than decided, and would decide otherwise."""
    lock = _newer_lock(record, rule, past)
    if lock is None or not is_of_series(lock, record):
        return None
    again = by_lock(record, rule, lock)
    outcome, _ = _recomputed(record, again.outcome(), None)
    if outcome is None or outcome is record.verdict.outcome or record.verdict.reason_code == DEPENDENT:
        return None
    now, then = _counts(lock.k_reject, lock.k_accept), _counts(rule.k_reject, rule.k_accept)
    said = f"the one that decided said {then}" if now != then else "so did the one that decided"
    return f"the lock of today is another one and says {now}; {said}"


def _lock_of_today(record: RunRecord, rule: Rule, past: Past | None) -> Iterator[Step]:
    """That there is another lock now than decided: a verdict stands by the counts of its own."""
    lock = _newer_lock(record, rule, past)
    if lock is not None and not is_of_series(lock, record):
        yield Step(label="lock today", text="another one, of another series: it says nothing of this run")
    elif lock is not None:
        counts = _counts(lock.k_reject, lock.k_accept)
        yield Step(label="lock today", text=f"another one, {counts}; the counts are those of the lock that decided")


def _newer_lock(record: RunRecord, rule: Rule, past: Past | None) -> Lock | None:
    lock = None if past is None else past.lock
    if rule.method != Method.LOCKED.value or lock is None or is_lock_of(lock, record.spec.gate, rule):
        return None
    return lock


def _other_counts(now: tuple[int, int | None], rule: Rule) -> str | None:
    then = (rule.k_reject, rule.k_accept)
    if now == then:
        return None
    return f"the rule gives {_counts(*now)} today; {_counts(*then)} is stored"


def _other_outcome(record: RunRecord, recomputed: Outcome | None) -> str | None:
    if recomputed is None or recomputed is record.verdict.outcome:
        return None
    return f"the counts give {recomputed.value} today, {record.verdict.outcome.value} is stored"


def _other_p_value(record: RunRecord, again: Retrial, recomputed: Outcome | None) -> str | None:
    then = record.verdict.p_value
    now = again.trial.p_value(open_=recomputed is Outcome.FAIL)
    if recomputed is None or now is None or then is None or isclose(now, then, rel_tol=_SAME):
        return None
    return f"the p-value is {now:.6g} today, {then:.6g} is stored"


def _counts(k_reject: int, k_accept: int | None) -> str:
    if k_accept is None:
        return f"FAIL below {k_reject}"
    return f"FAIL below {k_reject}, {'PASS from' if k_accept > k_reject else 'k_accept'} {k_accept}"


def _trial_text(again: Retrial, now: Outcome) -> str:
    """The comparison that decides: a p-value with alpha, or a count with the thresholds."""
    trial = again.trial
    if now not in (Outcome.PASS, Outcome.FAIL):
        return f"{now.value}: {outcome_of(trial)[1].text}"
    if not trial.rule.by_p_value or trial.is_floor_alone:
        return _comparison(trial.rule, trial.counts, now)
    p = trial.p_value(open_=now is Outcome.FAIL)
    assert p is not None
    assert trial.rule.alpha is not None
    relation = "<=" if now is Outcome.FAIL else ">"
    return f"p {p_value(p)} {relation} alpha = {trial.rule.alpha:.3g}: {now.value}"


def _verdict_text(now: Verdict, counts: Counts) -> str:
    """The comparison of one count with the thresholds, or what keeps it from being one."""
    if now.rule is None or now.outcome not in (Outcome.PASS, Outcome.FAIL):
        return f"{now.outcome.value}: {now.reason}"
    return _comparison(now.rule, counts, now.outcome)


def _comparison(rule: Rule, counts: Counts, now: Outcome) -> str:
    missing = counts.lost + counts.unasked
    k_pass = max(rule.k_reject, rule.k_accept or 0)
    right = f"{counts.correct} to {counts.correct + missing}" if missing else str(counts.correct)
    if now is Outcome.PASS:
        return f"{right} >= k_pass = {k_pass}: {now.value}"
    return f"{right} < k_reject = {rule.k_reject}: {now.value}"
