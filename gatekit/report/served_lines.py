"""What was served, as facts: build and address, what is on in it, its files, and how it was started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gatekit.records.canonical import to_plain
from gatekit.records.run import RunRecord, Served
from gatekit.records.served_details import COMMIT, EFFECTIVE, METRICS_OF, READY, WEIGHTS
from gatekit.records.spec import EngineKind, Spec

_DIGEST_CHARACTERS = 19
_COMMAND_CHARACTERS = 4000
_SNAPSHOT = "snapshot."
_STARTED = "started as"

Line = tuple[str, str]


def served_lines(record: RunRecord) -> Iterator[Line]:
    """The facts, as label and text; of a simulated server only the first."""
    served = record.served
    if served is None:
        yield "served", "nothing: no server was ready"
        return
    what = served.build or f"{served.engine}, build unknown"
    simulated = ", SIMULATED" if served.simulated else ""
    if READY in served.details:
        yield "served", f"nothing: {served.engine} was started at {served.base_url} and never ready{simulated}"
    else:
        yield "served", f"{what} as {served.model} at {served.base_url}{simulated}"
    if not served.simulated:
        yield from _settings(served, record.spec)
        yield from _files(served.details)
        yield from _start(served.details)


def most_characters(label: str, usual: int) -> int:
    """How much of a fact is shown: a command line is of use as a whole."""
    return _COMMAND_CHARACTERS if label == _STARTED else usual


def served_plain(record: RunRecord) -> Any:
    """The same for programs: what was served as plain data, the digests of single files left to the record."""
    if record.served is None:
        return None
    plain = to_plain(record.served)
    details = plain["details"]
    plain["details"] = {name: details[name] for name in details if not name.startswith(f"{_SNAPSHOT}file.")}
    return plain


def _settings(served: Served, spec: Spec) -> Iterator[Line]:
    told = {name.removeprefix(EFFECTIVE): value for name, value in served.details.items() if name.startswith(EFFECTIVE)}
    if told:
        scope = served.details.get(METRICS_OF)
        counted = f"; what it counted is of {scope}" if scope is not None else ""
        yield "in effect", ", ".join(f"{name} {value}" for name, value in told.items()) + counted
    logs = {} if spec.engine.kind is EngineKind.ATTACH else (spec.engine.log_values or {})
    missing = [name for name in {**(spec.engine.effective or {}), **logs} if name not in told]
    if missing and READY not in served.details:
        yield "not told", ", ".join(missing)


def _files(details: Mapping[str, str]) -> Iterator[Line]:
    if WEIGHTS in details:
        yield "weights", f"sha256:{details[WEIGHTS]}"
    if f"{_SNAPSHOT}digest" in details:
        commit = f"commit {details[COMMIT]}, " if COMMIT in details else ""
        files = details.get(f"{_SNAPSHOT}files", "?")
        digest = details[f"{_SNAPSHOT}digest"][:_DIGEST_CHARACTERS]
        yield "files", f"{commit}{files} files, all of them {digest}; each of them: the record"


def _start(details: Mapping[str, str]) -> Iterator[Line]:
    if "command" in details:
        yield _STARTED, details["command"]
    if "containment" in details:
        yield "contained by", details["containment"]
