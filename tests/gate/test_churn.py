"""Questions that changed sides."""

from __future__ import annotations

import pytest

from gatekit.gate.churn import churn
from gatekit.records.verdict import Churn
from past_builders import detailed, flipped, statuses, totals

N = 50


def test_churn_is_counted_against_the_last_run() -> None:
    """b and c are against the most recent run, whichever came before."""
    past = detailed([flipped(N, range(9)), flipped(N, [0, 1])])
    found = churn(past.runs, statuses(flipped(N, [1, 2, 3])))
    assert found is not None
    assert (found.run_id, found.right_to_wrong, found.wrong_to_right) == ("r1", 2, 1)


def test_unknown_answers_changed_nothing() -> None:
    """Lost and unasked questions are no churn, and no part of the questions it is judged by."""
    past = detailed([flipped(N, [0]), flipped(N, [1])])
    answers = "l" * 10 + "-" * 10 + "c" * 30
    found = churn(past.runs, statuses(answers))
    assert found is not None
    assert (found.right_to_wrong, found.wrong_to_right) == (0, 0)
    assert found.p_value == pytest.approx(1.0)
    nothing = churn(past.runs, statuses("-" * N))
    assert nothing is not None
    assert nothing.p_value is None


def test_without_answers_per_question_there_is_none() -> None:
    """Totals show no churn, and a single run shows how many but not how surprising."""
    assert churn(totals([45], N).runs, statuses("c" * N)) is None
    alone = churn(detailed([flipped(N, [1])]).runs, statuses("c" * N))
    assert alone == Churn(run_id="r0", right_to_wrong=0, wrong_to_right=1, p_value=None)
