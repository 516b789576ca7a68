"""One run on one line: what lists, searches and comparisons need of a record."""

from __future__ import annotations

import json
from dataclasses import dataclass

from gatekit.records.answers import Status, statuses
from gatekit.records.run import RunRecord
from gatekit.records.verdict import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A record in brief. `path` is relative to the history folder; `build` is None where unknown.

    `measured` says that every planned question was asked and none was lost, so that the counts are an
    accuracy. In texts a lone surrogate stands as `\\udXXX`, because a database stores UTF-8 only.
    """

    run_id: str
    digest: str
    comparability_key: str
    spec_name: str
    model: str
    hw: str
    engine: str
    build: str | None
    protocol: str
    dataset: str
    n: int
    correct: int
    wrong: int
    no_answer: int
    truncated: int
    lost: int
    measured: bool
    outcome: Outcome
    reason_code: str
    simulated: bool
    started_at: str
    finished_at: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRow(RunRow):
    """A record in brief, with what a decision about a later run needs of it.

    `outcomes` has one letter per planned question, in asking order: c(orrect), w(rong), n(o answer), t(runcated),
    l(ost), and - where it was not asked. `key_fields` is the JSON of what the comparability key is made of.
    """

    outcomes: str
    key_fields: str


UNASKED = "-"
LETTERS = {status: status.value[0] for status in Status}


def run_row(record: RunRecord, digest: str) -> SeriesRow:
    """The row of a record whose content has this digest."""
    spec, served, counts = record.spec, record.served, record.counts
    build = served.build if served else None
    return SeriesRow(
        run_id=record.run_id,
        digest=digest,
        comparability_key=storable(record.comparability.key),
        spec_name=storable(spec.name),
        model=storable(spec.model.name),
        hw=storable(spec.hw.name),
        engine=storable(spec.engine.name),
        build=None if build is None else storable(build),
        protocol=storable(spec.protocol.name),
        dataset=storable(record.dataset.name),
        n=counts.n,
        correct=counts.correct,
        wrong=counts.wrong,
        no_answer=counts.no_answer,
        truncated=counts.truncated,
        lost=counts.lost,
        measured=_is_measured(record),
        outcome=record.verdict.outcome,
        reason_code=storable(record.verdict.reason_code),
        simulated=spec.simulated or (served is not None and served.simulated),
        started_at=storable(record.started_at),
        finished_at=storable(record.finished_at),
        path=f"runs/{record.run_id}/record.json",
        outcomes=_outcomes(record),
        key_fields=json.dumps(record.comparability.fields, sort_keys=True),
    )


def storable(text: str) -> str:
    """`text` with lone surrogates spelled out, so that it can be encoded as UTF-8."""
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def _outcomes(record: RunRecord) -> str:
    found = statuses(record.observations, record.dataset.question_ids)
    return "".join(UNASKED if status is None else LETTERS[status] for status in found)


def _is_measured(record: RunRecord) -> bool:
    counts = record.counts
    is_whole = 0 < counts.n == len(record.dataset.question_ids) and counts.lost == 0
    return is_whole and counts.unasked == 0 and record.verdict.outcome is not Outcome.INFRA
