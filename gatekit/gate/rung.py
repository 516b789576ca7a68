"""Which rung of the ladder a gate stands on: the method, and the earlier runs that it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gatekit.gate.exchangeable import Exchangeable
from gatekit.records.past import PastRun
from gatekit.records.spec import Gate, Method

_TYPED = (Method.STATIC_FLOOR, Method.EXACT_BINOMIAL)
PER_QUESTION = (Method.EXACT_MCNEMAR, Method.FLIP_PREDICTION, Method.EXACT_CONDITIONAL)
_TWO_RUNS = (Method.MODERATED_T, Method.FLIP_PREDICTION)
LAST_RUN = (Method.BETA_BINOMIAL_PREDICTIVE, Method.EXACT_MCNEMAR)
"""Rules that rest on the newest run of the norm alone; its others are counted as `OLDER`, and not used."""
OLDER = "older"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A method (never `auto`) with all that it needs, why it was chosen, and how many runs it leaves out, why."""

    method: Method
    why: str
    runs: tuple[PastRun, ...] = ()
    excluded: Mapping[str, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A method with less history than it needs: `have` of `need` runs, each of another build."""

    method: Method
    have: int
    need: int
    per_question: bool
    excluded: Mapping[str, int]


def choose(gate: Gate, history: Exchangeable) -> Rung | Shortage:
    """The gate's own method, or for `auto` the strongest that the history supports; a Shortage when none is.

    `auto`, strongest first: answers per question of two or more builds (exact_conditional) or of one
    (exact_mcnemar), totals of two or more (moderated_t) or of one (beta_binomial_predictive), a stated
    accuracy (exact_binomial), a floor (static_floor).
    """
    if gate.method is Method.AUTO:
        return _strongest(gate, history)
    return _asked_for(gate, history)


def _strongest(gate: Gate, history: Exchangeable) -> Rung | Shortage:
    totals, detailed = len(history.runs), sum(run.outcomes is not None for run in history.runs)
    if detailed:
        method = Method.EXACT_CONDITIONAL if detailed > 1 else Method.EXACT_MCNEMAR
        return _rung(method, history, f"auto: answers per question of {_builds(detailed)}")
    if totals:
        method = Method.MODERATED_T if totals > 1 else Method.BETA_BINOMIAL_PREDICTIVE
        return _rung(method, history, f"auto: totals of {_builds(totals)}, no answers per question")
    if gate.observed is not None:
        return _rung(Method.EXACT_BINOMIAL, history, "auto: no comparable run, but gate.observed")
    if gate.floor is not None:
        return _rung(Method.STATIC_FLOOR, history, "auto: no comparable run, but gate.floor")
    return Shortage(method=Method.AUTO, have=0, need=1, per_question=False, excluded=history.excluded)


def _asked_for(gate: Gate, history: Exchangeable) -> Rung | Shortage:
    method, why = gate.method, "gate.method asks for it"
    if method in _TYPED:
        return Rung(method=method, why=why, excluded={})
    per_question = method in PER_QUESTION
    need = 2 if method in _TWO_RUNS else 1
    have = sum(run.outcomes is not None or not per_question for run in history.runs)
    if have >= need:
        return _rung(method, history, why)
    if method is Method.BETA_BINOMIAL_PREDICTIVE and gate.observed is not None:
        return _rung(method, history, f"{why}; no comparable run, but gate.observed")
    return Shortage(method=method, have=have, need=need, per_question=per_question, excluded=history.excluded)


def _rung(method: Method, history: Exchangeable, why: str) -> Rung:
    excluded = Counter(history.excluded)
    runs = history.runs
    if method in PER_QUESTION:
        runs = tuple(run for run in runs if run.outcomes is not None)
        excluded["total only"] += len(history.runs) - len(runs)
    if method in LAST_RUN:
        excluded[OLDER] += max(0, len(runs) - 1)
        runs = runs[-1:]
    kept = {reason: number for reason, number in excluded.items() if number}
    return Rung(method=method, why=why, runs=runs, excluded=kept, notes=history.notes)


def _builds(number: int) -> str:
    return "1 build" if number == 1 else f"{number} distinct builds"
