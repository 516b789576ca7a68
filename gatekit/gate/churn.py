"""Questions that changed sides against the last run that counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gatekit.gate.strata import Statuses
from gatekit.records.answers import Status
from gatekit.records.past import PastRun
from gatekit.records.verdict import Churn
from gatekit.stats.churn import churn_tail, mean_churn


def churn(runs: Sequence[PastRun], statuses: Statuses) -> Churn | None:
    """The churn of a run against the last of `runs` whose answers are known; None without one.

    Only questions with an answer count, on both sides: what was lost or not asked changed nothing. The p-value
    is that of `gatekit.stats.churn.churn_tail`, against the churn among the earlier runs on these questions.
    """
    detailed = [run for run in runs if run.outcomes is not None]
    answered = np.array([status is not None and status is not Status.LOST for status in statuses], dtype=bool)
    if not detailed:
        return None
    before = np.array([np.frombuffer(run.outcomes or b"", dtype=np.bool_) for run in detailed])[:, answered]
    now = np.array([status is Status.CORRECT for status in statuses], dtype=bool)[answered]
    fell, rose = int(np.sum(before[-1] & ~now)), int(np.sum(~before[-1] & now))
    return Churn(
        run_id=detailed[-1].run_id,
        right_to_wrong=fell,
        wrong_to_right=rose,
        p_value=_p_value(before, fell + rose) if len(detailed) > 1 and answered.any() else None,
    )


def _p_value(before: np.ndarray[tuple[int, int], np.dtype[np.bool_]], changed: int) -> float:
    runs, n = before.shape
    questions = np.bincount(before.sum(axis=0), minlength=runs + 1).tolist()
    return churn_tail(n, mean_churn(questions), runs, changed)
