"""Checked runs into the history: each in its file, then all of them in the index; stopped anywhere, and done again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from gatekit.errors import ExitCode, InfraError, Interrupted
from gatekit.history.durable_files import is_there, storage_error, write_once
from gatekit.history.place import Place
from gatekit.history.records_folder import StoredRecord, create_run_dir, read_stored, record_path
from gatekit.history.run_row import NewRow, run_row
from gatekit.records.canonical import Plain, canonical_json, from_plain
from gatekit.records.run import RunRecord

_AGAIN = "import the same file again: it completes what is missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """How many runs of the file are new in the history and how many were in it, and what to know about them.

    `first` and `last` are the ids of its runs in the order of the file, `acts` how many of its acts are new, and
    `changes` what counts otherwise by them, one line each.
    """

    added: int
    known: int
    first: str
    last: str
    acts: int = 0
    flags: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Progress:
    total: int
    written: int = 0

    @property
    def text(self) -> str:
        return f"the import stopped after {self.written} of {self.total} records"


def take_in(place: Place, plains: Iterable[Plain], *, total: int) -> tuple[int, int]:
    """How many of these records are new, and how many were known. Their digests were checked.

    Raises InfraError, and Interrupted after a signal, saying how far it came: importing again completes it.
    """
    from gatekit.history import index

    index.prepare(place)  # records without an index would look like a history that lost it
    progress = _Progress(total=total)
    try:
        added = index.add_many(place, _rows(place, plains, progress))
    except InfraError as error:
        raise InfraError(f"{progress.text}: {error.message}", reason=error.reason, hint=_next(error)) from error
    except KeyboardInterrupt as error:
        code = getattr(error, "exit_code", ExitCode.INTERRUPTED)
        raise Interrupted(progress.text, exit_code=code, hint=_AGAIN) from error
    if added.problems:
        raise InfraError(added.problems[0], reason="run-id-taken", hint="two runs need two run ids")
    return added.added, added.known


def stored_run(place: Place, run_id: str) -> StoredRecord | None:
    """The record that the history's folder holds of a run; None where there is none."""
    path = record_path(place.dir, run_id)
    return read_stored(path) if is_there(path) else None


def refuse_other(where: str, run_id: str, its_digest: str, there: str, other_digest: str) -> NoReturn:
    """Raise the InfraError of a run id with other content; nothing was written yet."""
    raise InfraError(
        f"{where}: run {run_id} is {its_digest}, but {there} holds {other_digest}; a run is never changed",
        reason="run-id-taken",
        hint="nothing was imported; two runs need two run ids",
    )


def _next(error: InfraError) -> str:
    return f"{error.hint}; then {_AGAIN}" if error.hint else _AGAIN


def _rows(place: Place, plains: Iterable[Plain], progress: _Progress) -> Iterator[NewRow]:
    for plain in plains:
        yield _row(place, plain)
        progress.written += 1


def _row(place: Place, plain: Plain) -> NewRow:
    """The row of a record that is in its file now: its bytes are those of `plain`, whichever gatekit wrote it."""
    record = from_plain(RunRecord, {key: value for key, value in plain.items() if key != "digest"})
    path = create_run_dir(place.dir, record.run_id) / "record.json"
    try:
        is_new = write_once(path, canonical_json(plain) + b"\n")
    except OSError as error:
        raise storage_error("write", path, error) from error
    if not is_new:
        there = read_stored(path)
        if there.digest != plain["digest"]:
            what = f"{path} holds {there.digest} now, not {plain['digest']}; a record is never overwritten"
            raise InfraError(what, reason="run-id-taken", hint="two runs need two run ids")
    return run_row(record, plain["digest"], gate_section=plain["spec"]["gate"])
