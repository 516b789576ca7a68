"""The record of one run: immutable, self-contained, digested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from gatekit.records.answers import Counts, Observation, cells, count
from gatekit.records.canonical import Plain, digest, from_plain, to_plain
from gatekit.records.spec import Spec
from gatekit.records.verdict import Verdict

RECORD_FORMAT = 1
RETRIED = "retried: "  # begins the event that counts, by kind, the faults which another attempt answered

_LATER: Mapping[str, tuple[str, ...]] = {
    "model": ("tags", "shipped", "sha256"),
    "hw": ("free_memory_share",),
    "protocol": (
        *("shots_as", "think_tags", "gen_prefix", "reasoning_effort", "chat_template_kwargs", "extra_body"),
        *("max_tokens_field", "send_model", "stream", "repeats"),
    ),
    "gate": ("max_empty_share",),
    "engine": (
        *("packaged", "install", "max_slots", "version_key", "info_path", "info_keys"),
        *("stall_timeout_s", "containment", "quantization", "pass_env", "effective", "log_values", "metrics_path"),
        *("metrics", "require_effective", "advisories", "foreign_listener"),
    ),
}
"""Keys of a spec that records of this format were once written without; each has a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """The question set as used: digests of the files and the ids that were asked and shown, in order.

    Questions that are repeated are all named once before any is named again.
    """

    name: str
    digests: Mapping[str, str]
    question_ids: tuple[int, ...]
    shot_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What was really served. `build` names the engine build (the treatment); None where unknown."""

    engine: str
    build: str | None
    model: str
    base_url: str
    simulated: bool
    details: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparability:
    """Everything that can move a score, field by field, and the digest of it: only equal keys compare."""

    key: str
    fields: Mapping[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run, whole: what was asked for, what was served, every answer, and the verdict.

    `served` is None when no server was reached; `observations` are in the order of `dataset.question_ids`, and
    none where only the total is known (an imported run). `previous` is the digest of the run before it in its
    series, None for the first one and for one that was kept while the database was away. `supersedes` is the id
    of the run whose answers this record scores anew, `rescored_at` when that was done. Times are UTC, ISO 8601.
    """

    format: int = RECORD_FORMAT
    run_id: str
    gatekit_version: str
    started_at: str
    finished_at: str
    spec: Spec
    dataset: Dataset
    comparability: Comparability
    served: Served | None
    counts: Counts
    observations: tuple[Observation, ...]
    verdict: Verdict
    events: tuple[str, ...] = ()
    previous: str | None = None
    supersedes: str | None = None
    rescored_at: str | None = None


def contradiction(record: RunRecord) -> str | None:
    """What a record says against itself, in a few words; None where it is of one piece."""
    if record.comparability.key != digest(record.comparability.fields):
        return "its comparability key is not the digest of its fields"
    planned = len(record.dataset.question_ids)
    if record.counts.n != planned:
        return f"it counts {record.counts.n} questions and names {planned}"
    why = _misnamed(record.dataset.question_ids, record.spec.protocol.repeats)
    if why is not None:
        return why
    asked = set(cells(record.dataset.question_ids))
    answered = {seen.cell for seen in record.observations}
    if len(answered) < len(record.observations) or not answered <= asked:
        return "it answers a question twice, or one that was not asked"
    if record.observations and count(record.observations, planned=planned) != record.counts:
        return "its counts are not those of its answers"
    return None


def _misnamed(question_ids: tuple[int, ...], repeats: int) -> str | None:
    """What is wrong with the ids of questions that are each asked `repeats` times, pass by pass."""
    if repeats == 1:
        return "it names a question twice" if len(set(question_ids)) < len(question_ids) else None
    first = question_ids[: len(question_ids) // repeats] if repeats > 1 else ()
    if len(set(first)) == len(first) and first * repeats == question_ids:
        return None
    return f"it does not name every question {repeats} times, pass by pass"


def record_to_plain(record: RunRecord) -> Plain:
    """The record as plain data, with `digest` (sha256 of the canonical JSON of all the rest) added.

    Keys that came later are left out where they say nothing: records from before them keep their digests.
    """
    plain = to_plain(record)
    for section, names in _LATER.items():
        defaults = {field.name: field.default for field in fields(getattr(record.spec, section))}
        for name in names:
            if getattr(getattr(record.spec, section), name) == defaults[name]:
                del plain["spec"][section][name]
    if record.rescored_at is None:
        del plain["rescored_at"]
    for seen in plain["observations"]:
        if seen["first_token_s"] is None:
            del seen["first_token_s"]
        if seen["repeat"] == 0:
            del seen["repeat"]
    plain["digest"] = digest(plain)
    return plain


def record_from_plain(data: Plain) -> RunRecord:
    """The record behind plain data. Raises ValueError when the digest does not match the content."""
    content = {key: value for key, value in data.items() if key != "digest"}
    if data.get("digest") != digest(content):
        raise ValueError("the record's digest does not match its content")
    return from_plain(RunRecord, content)
