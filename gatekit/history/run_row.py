"""One run on one line: what lists, searches and decisions about later runs need of a record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from gatekit.records.answers import Status, statuses
from gatekit.records.canonical import Plain, canonical_json, digest, to_plain
from gatekit.records.run import RunRecord
from gatekit.records.verdict import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A record in brief. `path` is relative to the history folder; `build` is None where unknown.

    `previous`, `supersedes` and `rescored_at` are those of the record; `gate` is the digest of its spec's gate
    section, None where an older gatekit indexed the run and the record is gone. `measured` says that every planned
    question was asked and none was lost, so that the counts are an accuracy. In texts a lone surrogate stands as
    `\\udXXX` and a zero byte as `\\x00`, because a database stores UTF-8 only.
    """

    run_id: str
    digest: str
    previous: str | None
    supersedes: str | None
    comparability_key: str
    gate: str | None
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
    unasked: int
    measured: bool
    outcome: Outcome
    reason_code: str
    simulated: bool
    started_at: str
    finished_at: str
    path: str
    rescored_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRow(RunRow):
    """A record in brief with its answers: `right` is np.packbits of one bit a question, in asking order, 1 right.

    None where only the total is known, where a question was not asked, and where the counts are not of the answers.
    """

    right: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRow(SeriesRow):
    """What goes into the index: the row, and the texts that are kept once for all runs that share them.

    `key_fields` is the JSON of what the comparability key is made of, `gate_section` that of the spec's gate.
    """

    key_fields: str
    gate_section: str | None


def run_row(record: RunRecord, record_digest: str, *, gate_section: Plain = None) -> NewRow:
    """The row of a record whose content has this digest.

    `gate_section` is the gate's section as the record's file holds it: one of an older gatekit has fewer fields.
    """
    spec, served, counts = record.spec, record.served, record.counts
    build = served.build if served else None
    gate = to_plain(spec.gate) if gate_section is None else gate_section
    return NewRow(
        run_id=record.run_id,
        digest=record_digest,
        previous=None if record.previous is None else storable(record.previous),
        supersedes=None if record.supersedes is None else storable(record.supersedes),
        comparability_key=storable(record.comparability.key),
        gate=digest(gate),
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
        unasked=counts.unasked,
        measured=_is_measured(record),
        outcome=record.verdict.outcome,
        reason_code=storable(record.verdict.reason_code),
        simulated=spec.simulated or (served is not None and served.simulated),
        started_at=storable(record.started_at),
        finished_at=storable(record.finished_at),
        path=f"runs/{record.run_id}/record.json",
        rescored_at=None if record.rescored_at is None else storable(record.rescored_at),
        right=_right(record),
        key_fields=json.dumps(record.comparability.fields, sort_keys=True),
        gate_section=storable(canonical_json(gate).decode("utf-8", errors="surrogatepass")),
    )


def storable(text: str) -> str:
    """`text` with lone surrogates and zero bytes spelled out, so that every database can keep it."""
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8").replace("\0", "\\x00")


def packed(answers: Sequence[bool]) -> bytes:
    """One bit an answer, the first one highest, as np.packbits.

    >>> packed([True, False, True]).hex(), packed([]).hex()
    ('a0', '')
    """
    missing = -len(answers) % 8
    bits = "".join("1" if right else "0" for right in answers) + "0" * missing
    return int(bits, 2).to_bytes(len(bits) // 8, "big") if bits else b""


def _right(record: RunRecord) -> bytes | None:
    found = statuses(record.observations, record.dataset.question_ids)
    right = [status is Status.CORRECT for status in found]
    if not found or None in found or (len(right), sum(right)) != (record.counts.n, record.counts.correct):
        return None
    return packed(right)


def _is_measured(record: RunRecord) -> bool:
    counts = record.counts
    is_planned = not record.observations or counts.n == len(record.dataset.question_ids)
    is_whole = counts.n > 0 and counts.lost == 0 and counts.unasked == 0 and is_planned
    return is_whole and record.verdict.outcome is not Outcome.INFRA
