"""A run scored anew from its saved answers: a new record that supersedes the old one, which is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NoReturn

from gatekit import __version__
from gatekit.errors import ConfigError
from gatekit.gate.decide import decide
from gatekit.gate.reasons import DEPENDENT
from gatekit.history.durable_files import is_there
from gatekit.history.past import past_runs
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import history_command
from gatekit.history.records_folder import StoredRecord, record_path
from gatekit.history.remember import remember
from gatekit.records.answers import Observation, count, statuses
from gatekit.records.canonical import digest
from gatekit.records.lock import Lock
from gatekit.records.run import Comparability, RunRecord
from gatekit.records.verdict import Outcome, Verdict

_LONGEST_ID = 128
_TAIL_DIGITS = 12
# These a decision gives by itself, from the lost answers; any other INFRA came from the server or the machine.
_OF_THE_COUNTS = frozenset({"lost-answers-decide", "too-many-lost"})
_CHURN = "churn:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A way to read answers: the extractor's name and version, and how it scores an answer that was saved."""

    name: str
    version: str
    score: Callable[[Observation], Observation]


def is_read_by(record: RunRecord, reader: Reader) -> bool:
    """Whether the record was scored by this very extractor, in this version."""
    fields = record.comparability.fields
    return (fields.get("extractor_version"), record.spec.protocol.extractor) == (reader.version, reader.name)


def rescored_id(run_id: str, reader: Reader) -> str:
    """The id of the run scored anew; it follows from both, so that doing it twice is doing it once."""
    found = f"{run_id}.{reader.version}"
    if len(found) <= _LONGEST_ID:
        return found
    tail = digest([run_id, reader.version]).removeprefix("sha256:")[:_TAIL_DIGITS]
    return f"{run_id[: _LONGEST_ID - _TAIL_DIGITS - 1]}.{tail}"


def why_not(record: RunRecord) -> str | None:
    """Why a run cannot be scored anew; None where it can."""
    if not record.observations:
        return "it has no texts of answers, only its total is known"
    if all(seen.text is None for seen in record.observations):
        return "none of its answers has a text"
    return None


def rescore(
    place: Place,
    stored: StoredRecord,
    reader: Reader,
    *,
    now: datetime,
    reason: str | None = None,
    lock: Lock | None = None,
) -> RunRecord:
    """The new record, remembered: the saved answers as `reader` reads them, and the verdict that follows.

    The verdict is decided against the past of the new comparability key, by `lock` where the gate is locked; a run
    that was INFRA for more than its lost answers stays so. Raises ConfigError when the run cannot be scored, or its
    gate cannot decide; InfraError as `remember`.
    """
    old = stored.record
    why = why_not(old)
    if why is not None:
        _refuse(place, old, why)
    try:
        observations = tuple(map(reader.score, old.observations))
    except ValueError as error:
        _refuse(place, old, str(error))
    new_id = rescored_id(old.run_id, reader)
    spec = replace(old.spec, protocol=replace(old.spec.protocol, extractor=reader.name))
    key = _comparability(old.comparability, reader)
    past = replace(past_runs(place, spec, key, exclude_run_id=new_id), lock=lock)
    rescored_at = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = f"scored anew from run {old.run_id} by {reader.version} on {rescored_at}"
    record = replace(
        old,
        run_id=new_id,
        gatekit_version=__version__,
        spec=spec,
        comparability=key,
        counts=count(observations, planned=len(old.dataset.question_ids)),
        observations=observations,
        verdict=_verdict(old.verdict, decide(spec, statuses(observations, old.dataset.question_ids), past)),
        events=(*old.events, said if not reason else f"{said}: {reason}"),
        previous=None,
        supersedes=old.run_id,
        rescored_at=rescored_at,
    )
    return remember(place, record)[1]


def is_rescored(place: Place, run_id: str, reader: Reader) -> bool:
    """Whether this run was scored anew by this extractor before."""
    return is_there(record_path(place.dir, rescored_id(run_id, reader)))


def _comparability(old: Comparability, reader: Reader) -> Comparability:
    fields = {**old.fields, "extractor_version": reader.version, "protocol.extractor": reader.name}
    return Comparability(key=digest(fields), fields=fields)


def _verdict(old: Verdict, new: Verdict) -> Verdict:
    """What was wrong with the run itself stays wrong: its warnings, an INFRA that no count explains, and repeats that
    hang together where no earlier run tells whether they still do."""
    kept = tuple(line for line in old.warnings if line not in new.warnings and not line.startswith(_CHURN))
    new = replace(new, warnings=(*kept, *new.warnings))
    is_untold = old.reason_code == DEPENDENT and (new.rule is None or not new.rule.used)
    if not is_untold and (old.outcome is not Outcome.INFRA or old.reason_code in _OF_THE_COUNTS):
        return new
    return replace(new, outcome=old.outcome, reason_code=old.reason_code, reason=old.reason, hint=old.hint)


def _refuse(place: Place, record: RunRecord, why: str) -> NoReturn:
    raise ConfigError.one(
        f"run {record.run_id} cannot be scored anew: {why}",
        reason="nothing-to-rescore",
        hint=f"name a run whose answers were saved; see `{history_command(place, 'list')}`",
    )
