"""Why a verdict is what it is: a stable code, one sentence with the numbers, and the next step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gatekit.gate.criterion import mismatches
from gatekit.gate.enough import margin, n_to_decide, n_to_fail, n_to_pass
from gatekit.gate.exchangeable import HARDWARE
from gatekit.gate.lock_change import IF_LOOSER, WITH_REASON
from gatekit.gate.locked import Fault, LockFault
from gatekit.gate.repeats import TOO_ALIKE_Z, Dependence
from gatekit.gate.rung import Shortage
from gatekit.gate.trial import Trial
from gatekit.gate.wording import bare_percent, listed, p_value, percent, points, seen, short
from gatekit.records.answers import Counts
from gatekit.records.spec import Gate, Method, Spec
from gatekit.records.verdict import Churn, Outcome

_MEND = "mend what the failures of the lost questions name, then run again"
_LOCK = "derive it from history with the overrides of this run, and review it: gatekit thresholds recompute ... --write"
_ANEW = f"{_LOCK}{IF_LOOSER}"
_SWITCH = (
    "a variant keeps a lock of its own in another folder, gate.locks=FOLDER; if the series moved for good, review it "
    f"and replace the lock: gatekit thresholds recompute ... --write {WITH_REASON}"
)
DEPENDENT = "dependent-repeats"
_MOST_FIELDS = 4
_MOST_RUNS = 2
_MANY = 1000
_READ = "see the wrong answers: gatekit history show RUN --wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A stable kebab-case code, one sentence, and what to do next (empty when there is nothing to do)."""

    code: str
    text: str
    hint: str = ""


def mismatch(spec: Spec, counts: Counts) -> Reason | None:
    """Where the run differs from the protocol its gate was measured under; None where it does not."""
    other = mismatches(spec, counts.n)
    if not other:
        return None
    return Reason(
        code="protocol-mismatch",
        text=f"gate {spec.gate.name} was measured under {', '.join(other)}: its threshold says nothing here",
        hint=f"run under the protocol of gate.measured_under, or {_other_way(spec.gate)}",
    )


def _other_way(gate: Gate) -> str:
    if gate.method in (Method.STATIC_FLOOR, Method.EXACT_BINOMIAL):
        return "measure the gate again under this one"
    return "let history decide without the typed floor: gate.floor=null gate.measured_under=null"


def no_questions() -> Reason:
    """Nothing was asked."""
    hint = "set task.n to at least 1, or leave it out to ask all"
    return Reason(code="no-questions", text="no question was asked", hint=hint)


def too_short(shortage: Shortage, gate: Gate) -> Reason:
    """Fewer comparable runs than the method needs; which ones were left out, and why."""
    what = "1 comparable run" if shortage.have == 1 else f"{shortage.have} comparable runs"
    if shortage.per_question:
        what += " with answers per question"
    need = f"need {shortage.need}" + (" of different builds" if shortage.need > 1 else "")
    method = "" if shortage.method is Method.AUTO else f"{shortage.method.value}: "
    left_out = f"; left out: {listed(shortage.excluded)}" if shortage.excluded else ""
    return Reason(
        code="history-too-short",
        text=f"{method}{what}, {need}{left_out}",
        hint=_more_history(shortage, gate),
    )


def unlocked(found: LockFault) -> Reason:
    """A locked gate without a lock, or with one that does not hold: which fields differ, or which run was set aside."""
    lock = found.lock
    if lock is None:
        return Reason(code=found.fault.value, text="no lock: this spec has no threshold file in gate.locks", hint=_LOCK)
    of = f"the lock of {lock.spec}"
    if found.fault is Fault.OTHER_N:
        return Reason(
            code=found.fault.value, text=f"{of} holds for {lock.n} questions, this run has {found.n}", hint=_SWITCH
        )
    if found.fault is Fault.SET_ASIDE:
        return Reason(code=found.fault.value, text=f"{of} rests on {_set_aside(found.set_aside)}", hint=_ANEW)
    said = [f"{one.field}: {short(one.locked)} -> {short(one.now)}" for one in found.differences[:_MOST_FIELDS]]
    more = len(found.differences) - len(said)
    if more:
        said.append(f"{more} more")
    what = ", ".join(said) or f"key {short(lock.key)}, and that of this run is another or not known"
    return Reason(code=found.fault.value, text=f"{of} holds for another series than this run: {what}", hint=_SWITCH)


def _set_aside(runs: Mapping[str, str]) -> str:
    named = [f"run {run_id} ({why} since)" for run_id, why in list(runs.items())[:_MOST_RUNS]]
    more = [f"{len(runs) - _MOST_RUNS} more"] if len(runs) > _MOST_RUNS else []
    return " and ".join(named + more)


def _more_history(shortage: Shortage, gate: Gate) -> str:
    other = sorted(why.removeprefix(HARDWARE) for why in shortage.excluded if why.startswith(HARDWARE))
    if other:
        return f"gate.exchangeable_hardware=[{','.join(other)}] pools their runs, where that hardware changes no answer"
    if shortage.need > 1:
        return f"this run counts from now on: run other builds too, or choose gate=auto instead of {gate.method.value}"
    return "this run counts from now on; for a verdict at once set gate.observed to what a healthy build scored"


def passed(trial: Trial, changed: Churn | None) -> Reason:
    """Enough right answers, or no surprising pattern of wrong ones."""
    text = f"{_seen(trial)}, {_judged_by(trial, changed, is_drop=False)}{_open_aside(trial)}"
    return Reason(code="at-or-above-threshold", text=text)


def failed(trial: Trial, changed: Churn | None) -> Reason:
    """Too few right answers, by the test or by the floor; or so few only because of answers that were cut off."""
    if trial.is_floor_alone:
        floor = f"gate.floor needs at least {trial.criterion.floor}"
        return Reason(code="below-floor", text=f"{_seen(trial)}, {floor}{_open_aside(trial)}", hint=_READ)
    text = f"{_seen(trial)}, {_judged_by(trial, changed, is_drop=True)}{_open_aside(trial)}"
    if not trial.is_explained_by_truncation:
        return Reason(code="below-threshold", text=text, hint=_READ)
    cut = trial.counts.truncated
    what = "1 truncated answer" if cut == 1 else f"{cut} truncated answers"
    return Reason(
        code="truncation",
        text=f"{text}; {what} alone may explain it",
        hint="raise protocol.max_tokens and run again: answers were cut off",
    )


def sequential(trial: Trial, outcome: Outcome) -> Reason:
    """The sequential test crossed a boundary before every question was asked."""
    early = trial.rule.early
    assert early is not None
    if outcome is Outcome.FAIL:
        text = f"{_seen(trial)}: {early.method} finds a drop (false alarms at most {percent(early.alpha)})"
        return Reason(code="sequential-fail", text=text, hint=_READ)
    drop = points(margin(trial.gate))
    text = f"{_seen(trial)}: {early.method} excludes a drop of {drop} (missed at most {percent(early.beta)})"
    return Reason(code="sequential-pass", text=text)


def lost_decide(trial: Trial) -> Reason:
    """The verdict hangs on the lost answers."""
    text = f"{trial.counts.lost} of {trial.counts.n} answers were lost and decide the verdict: {_reach(trial)}"
    return Reason(code="lost-answers-decide", text=text, hint=_MEND)


def unasked_decide(trial: Trial) -> Reason:
    """The run stopped before its verdict was certain."""
    text = (
        f"{trial.counts.unasked} of {trial.counts.n} questions were not asked and decide the verdict: {_reach(trial)}"
    )
    return Reason(code="unasked-answers-decide", text=text, hint="run again and let it ask every question")


def dependent(alike: Dependence, judged: Reason) -> Reason:
    """Repeats are right or wrong together within a run, so that they are fewer answers than the rule counts."""
    runs = "1 earlier run" if alike.runs == 1 else f"{alike.runs} earlier runs"
    text = f"repeats of a question are too alike within a run for {judged.text}"
    over = f"over {alike.questions} questions and {runs}"
    hint = (
        "see whether the server samples (protocol.temperature), takes a seed of its own for all requests "
        "(protocol.seed, engine.seed), or caches answers"
    )
    named = ", ".join(alike.suspects[:_MOST_RUNS]) + (", ..." if len(alike.suspects) > _MOST_RUNS else "")
    if alike.suspects:
        hint += f"; it may be that of run {named} instead: gatekit history quarantine {alike.suspects[0]} --reason ..."
    return Reason(code=DEPENDENT, text=f"{text}: z = {alike.z:.1f} {over}, {TOO_ALIKE_Z:g} is the limit", hint=hint)


def too_many_lost(gate: Gate, counts: Counts) -> Reason:
    """More answers were lost than the gate allows."""
    share, limit = bare_percent(counts.lost / counts.n), bare_percent(gate.max_lost_share)
    text = f"{share} of the answers lost ({counts.lost} of {counts.n}), limit {limit}"
    return Reason(code="too-many-lost", text=text, hint=_MEND)


def inconclusive(trial: Trial) -> Reason:
    """Which of truncation, too few questions, or the zone between the two counts leaves the run undecided."""
    if trial.is_over_truncated:
        return _too_many_truncated(trial)
    if trial.is_drop:
        return _too_small(trial, "FAIL", n_to_fail(trial.criterion.planning))
    if trial.criterion.is_reference_missing:
        return _no_reference(trial)
    if not trial.criterion.enough.can_pass:
        return _too_small(trial, "PASS", n_to_pass(trial.criterion.planning))
    return _between(trial)


def _no_reference(trial: Trial) -> Reason:
    drop = points(margin(trial.gate))
    text = f"{_seen(trial)} reaches the floor, but without a healthy accuracy no run can exclude a drop of {drop}"
    hint = "this run counts from now on; for a verdict at once set gate.observed to what a healthy build scored"
    return Reason(code="no-reference", text=text, hint=hint)


def _too_many_truncated(trial: Trial) -> Reason:
    counts = trial.counts
    share, limit = bare_percent(counts.truncated / counts.n), bare_percent(trial.gate.max_truncated_share)
    return Reason(
        code="too-many-truncated",
        text=f"{share} truncated, limit {limit}: raise protocol.max_tokens",
        hint=f"{counts.truncated} answers were cut off; a higher limit is another protocol, with a history of its own",
    )


def _too_small(trial: Trial, verdict: str, needed: int | None) -> Reason:
    n, name = trial.counts.n, trial.gate.name
    if needed is None or needed <= n:
        never = "can never FAIL" if trial.rule.k_reject <= 0 else f"can never give a {verdict}"
        reach = "whatever the number of questions" if needed is None else f"at {n} questions with this history"
        text = f"{_seen(trial)}, but gate {name} {never}, {reach}"
        return Reason(code="gate-cannot-decide", text=text, hint="change gate.floor, gate.tolerance or gate.delta")
    healthy = trial.rule.reference_accuracy
    if trial.gate.observed is not None and healthy is not None and healthy <= margin(trial.gate):
        of = f"{trial.gate.observed.correct} of {trial.gate.observed.n}"
        text = f"{_seen(trial)}, but gate.observed, {of}, leaves no drop of {points(margin(trial.gate))} to find"
        return Reason(code="gate-cannot-decide", text=text, hint="set gate.observed to what a healthy build scored")
    what = "question" if trial.repeats == 1 else "answer"
    few = f"1 {what} is too few" if n == 1 else f"{n} {what}s are too few"
    limit = f"a margin of {points(margin(trial.gate))} needs at least {needed}"
    text = f"{_seen(trial)}, but {few} for a {verdict}: {limit}"
    asked = -(-needed // trial.repeats)
    return Reason(code="too-small", text=text, hint=f"set task.n to {asked} or more{_if_any(asked)}")


def _if_any(needed: int) -> str:
    """How many questions the task has is not known here; few tasks have very many."""
    return ", if the task has as many" if needed > _MANY else ""


def _between(trial: Trial) -> Reason:
    zone = f"under {trial.rule.k_reject} is a FAIL, {trial.k_pass} or more a PASS"
    if trial.rule.by_p_value:
        zone = f"no drop by its p-value, but a PASS takes {trial.rule.k_accept} or more"
    alpha = trial.rule.alpha if trial.rule.alpha is not None else trial.rule.realised_alpha
    needed = n_to_decide(trial.criterion.planning, trial.rule.n, alpha)
    n, larger = trial.rule.n, "accept a larger gate.delta"
    if needed is not None and needed > n:
        what = "questions" if trial.repeats == 1 else "answers"
        larger = f"one run of {n} {what} cannot tell, about {needed} could{_if_any(needed)}; or {larger}"
    other = "" if trial.rule.used else ", or take gate=auto: on history it needs fewer questions"
    return Reason(
        code="between-thresholds",
        text=f"{_seen(trial)}: {zone}, and in between the run cannot tell",
        hint=f"{larger}{other}",
    )


def _judged_by(trial: Trial, changed: Churn | None, *, is_drop: bool) -> str:
    if trial.rule.by_p_value:
        return _by_p_value(trial, changed, is_drop=is_drop)
    if not is_drop or trial.k_pass == trial.rule.k_reject:
        return _needed(trial)
    return f"at least {trial.rule.k_reject} needed not to fail ({trial.k_pass} to pass)"


def _by_p_value(trial: Trial, changed: Churn | None, *, is_drop: bool) -> str:
    p, alpha = trial.p_value(open_=is_drop), trial.rule.alpha
    assert p is not None
    assert alpha is not None
    side = "at or under" if is_drop else "over"
    text = f"p {p_value(p)} is {side} alpha = {alpha:.3g}"
    if changed is None:
        return text
    return f"{text} ({changed.right_to_wrong} turned wrong and {changed.wrong_to_right} right)"


def _reach(trial: Trial) -> str:
    counts = trial.counts
    if trial.allows_pass and not trial.is_drop and counts.truncated:
        limit = bare_percent(trial.gate.max_truncated_share)
        return f"cut off like {counts.truncated} others they would be over the limit of {limit}"
    return f"{counts.correct} to {counts.correct + counts.lost + counts.unasked} correct, {_needed(trial)}"


def _needed(trial: Trial) -> str:
    return f"{'about' if trial.rule.by_p_value else 'at least'} {trial.k_pass} needed"


def _seen(trial: Trial) -> str:
    counts = trial.counts
    if not counts.unasked:
        return seen(counts.correct, counts.n)
    asked = counts.n - counts.unasked
    return f"{counts.correct} of the {asked} asked correct" if asked else "no question asked"


def _open_aside(trial: Trial) -> str:
    lost, unasked = trial.counts.lost, trial.counts.unasked
    parts = []
    if lost:
        parts.append("1 lost answer" if lost == 1 else f"{lost} lost answers")
    if unasked:
        what = "unasked question" if trial.repeats == 1 else "unasked repeat"
        parts.append(f"1 {what}" if unasked == 1 else f"{unasked} {what}s")
    return f"; {' and '.join(parts)} cannot change the verdict" if parts else ""
