"""The screen of a verdict that rests on history."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gatekit.errors import ExitCode
from gatekit.gate.decide import decide
from gatekit.records.answers import Observation, count
from gatekit.records.past import Past
from gatekit.records.run import Comparability, Dataset, RunRecord
from gatekit.records.spec import Method, Spec
from gatekit.report.summary import summarise
from gatekit.report.terminal import explain
from gatekit.spec.resolve import config_dirs, resolve
from past_builders import detailed, flipped, statuses

N = 200


def record(spec: Spec, answers: str, past: Past) -> RunRecord:
    """The record of a run with these answers."""
    ended = statuses(answers)
    observations = tuple(
        Observation(question_id=place, status=status, attempts=1)
        for place, status in enumerate(ended)
        if status is not None
    )
    return RunRecord(
        run_id="tonight",
        gatekit_version="0",
        started_at="2026-11-30T03:00:00Z",
        finished_at="2026-11-30T03:10:00Z",
        spec=spec,
        dataset=Dataset(name="gsm8k", digests={}, question_ids=tuple(range(N)), shot_ids=()),
        comparability=Comparability(key="sha256:0", fields={}),
        served=None,
        counts=count(observations, planned=N),
        observations=observations,
        verdict=decide(spec, ended, past),
    )


def lines(text: str) -> dict[str, str]:
    """The facts by their labels, wrapped lines joined."""
    facts: dict[str, str] = {}
    label = ""
    for line in text.splitlines():
        if line.startswith("  "):
            label = line[2:15].strip() or label
            facts[label] = f"{facts[label]} {line[15:]}" if not line[2:15].strip() else line[15:]
    return facts


@pytest.fixture(scope="module")
def spec() -> Spec:
    """The default spec with gate=auto, at alpha 1 %."""
    return resolve(["gate=auto", "gate.observed=null", "gate.alpha=0.01"], dirs=config_dirs([], {}))


HISTORY = Past(
    runs=detailed([flipped(N, range(20)), flipped(N, range(5, 25)), flipped(N, range(9, 29))], hardware="cpu").runs,
    excluded={"INFRA": 2},
)


def test_a_p_value_rule_is_explained(spec: Spec) -> None:
    """Rung and why, runs and what was left out, p-value, spread, and churn are on the screen."""
    shown = lines(explain(record(spec, flipped(N, range(12, 32)), HISTORY)))
    assert shown["rule"].startswith("exact_conditional: FAIL where p is at most 0.01, which is about below ")
    assert shown["why"] == "auto: answers per question of 3 distinct builds"
    assert shown["history"] == "3 runs, one per build: r0 to r2"
    assert shown["left out"] == "2 INFRA"
    assert shown["false alarms"] == "at most 1 % of runs of an unchanged model"
    assert shown["spread"].startswith("phi 0.")
    assert "psi 1.0" in shown["spread"]
    assert shown["p-value"].startswith("p = 0.")
    assert shown["churn"].startswith("3 right to wrong, 3 wrong to right since run r2; as many by chance: p = ")


def test_a_count_rule_is_explained(spec: Spec) -> None:
    """A rule on totals shows its counts and how often they raise a false alarm."""
    gate = replace(spec.gate, method=Method.MODERATED_T, delta=0.02)
    shown = lines(explain(record(replace(spec, gate=gate), flipped(N, range(20)), HISTORY)))
    assert shown["rule"].startswith("moderated_t: FAIL below 17")
    assert "INCONCLUSIVE" in shown["rule"]
    assert "asked for at most 1 %" in shown["false alarms"]


def test_a_run_that_stopped_early_says_so(spec: Spec) -> None:
    """Questions that were not asked are counted, and no accuracy is made up for them."""
    stopped = record(spec, "w" * 80 + "-" * 120, HISTORY)
    assert lines(explain(stopped))["seen"].endswith("0 lost, 120 not asked; 200 in all")
    found = summarise(stopped, exit_code=ExitCode.FAIL, stored_at=None)
    assert (found["verdict"], found["accuracy"]) == ("FAIL", None)
    assert found["p_value"] == stopped.verdict.p_value
    assert found["churn"] == {"run_id": "r2", "right_to_wrong": 60, "wrong_to_right": 0, "p_value": pytest.approx(0)}
    assert found["cause"] is None


def test_names_from_elsewhere_are_harmless(spec: Spec) -> None:
    """Run ids, hardware and reasons come from files: no control character of theirs reaches the terminal."""
    evil = "x\x1b[31m\u202e"
    past = Past(runs=HISTORY.runs, excluded={f"hardware {evil}": 1})
    text = explain(record(spec, flipped(N, range(20)), past))
    assert "\x1b" not in text
    assert "\u202e" not in text
