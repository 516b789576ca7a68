"""The earlier runs that a verdict may rest on, from the index alone: no record file is read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from gatekit.history.run_row import LETTERS, UNASKED, SeriesRow
from gatekit.records.answers import Status
from gatekit.records.canonical import Plain
from gatekit.records.past import Past, PastRun
from gatekit.records.run import Comparability
from gatekit.records.spec import Spec
from gatekit.records.verdict import Outcome

MOST_RUNS = 500
"""How far back one looks, in runs of the model: older ones say little, and reading stays quick."""

_NAMED_FIELDS = 3


def past_runs(history_dir: Path, spec: Spec, comparability: Comparability, *, exclude_run_id: str) -> Past:
    """The whole, healthy runs under the same comparability key, in the order in which they were added.

    A run never votes on itself. Left out and counted by reason: FAIL and INFRA runs, runs that stopped early,
    lost answers or cut off too many, and the model's runs under another key, by the fields that differ. One
    query. Raises InfraError when the index cannot be read.
    """
    from gatekit.history import index

    rows = index.series(
        history_dir,
        key=comparability.key,
        model=spec.model.name,
        exclude_run_id=exclude_run_id,
        limit=MOST_RUNS,
    )
    runs: list[PastRun] = []
    excluded: Counter[str] = Counter()
    for row in rows:
        why = _other_series(row, comparability) or _unusable(row)
        if why is None:
            runs.append(_past_run(row))
        else:
            excluded[why] += 1
    return Past(runs=tuple(runs), excluded=dict(excluded))


def _other_series(row: SeriesRow, comparability: Comparability) -> str | None:
    if row.comparability_key == comparability.key:
        return None
    then, now = _fields(row.key_fields), comparability.fields
    names = sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
    shown = names[:_NAMED_FIELDS] + (["..."] if len(names) > _NAMED_FIELDS else [])
    return f"other {', '.join(shown) or 'key'}"


def _fields(text: str) -> Mapping[str, Plain]:
    found = json.loads(text)
    return found if isinstance(found, dict) else {}


def _unusable(row: SeriesRow) -> str | None:
    if row.outcome in (Outcome.INFRA, Outcome.FAIL):
        return row.outcome.value
    if UNASKED in row.outcomes or not row.outcomes:
        return "stopped early"
    if row.lost or not row.measured:
        return "answers lost"
    return "too many truncated" if row.reason_code == "too-many-truncated" else None


def _past_run(row: SeriesRow) -> PastRun:
    return PastRun(
        run_id=row.run_id,
        build=row.build,
        hardware=row.hw,
        finished_at=row.finished_at,
        n=row.n,
        correct=row.correct,
        outcomes=bytes(map(LETTERS[Status.CORRECT].__eq__, row.outcomes)),
    )
