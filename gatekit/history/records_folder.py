"""The immutable run records: `<history>/runs/<run id>/record.json`, one file per run, never changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gatekit.errors import ConfigError, InfraError
from gatekit.history.durable_files import (
    is_there,
    link_refused,
    make_folder,
    probe_folder,
    read_bounded,
    storage_error,
    write_once,
)
from gatekit.history.record_form import checked_record
from gatekit.records.canonical import Plain, canonical_json, canonical_pieces
from gatekit.records.run import RunRecord, record_to_plain

MAX_RECORD_BYTES = 256 * 1024 * 1024
JOURNAL_NAME = "journal.jsonl"
RUN_ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SHOWN_CHARACTERS = 200
_LONGEST_ID = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A run record as a file holds it: its plain data with `digest`, and the record built from them."""

    path: Path
    plain: Plain
    record: RunRecord

    @property
    def digest(self) -> str:
        """`sha256:...` of the record's content."""
        return str(self.plain["digest"])


def check_run_id(run_id: str) -> str:
    """`run_id` itself. Raises ConfigError unless it matches RUN_ID_PATTERN, and so is a safe folder name."""
    if RUN_ID_PATTERN.fullmatch(run_id):
        return run_id
    raise ConfigError.one(
        f"run id {run_id[:_LONGEST_ID]!r} is not allowed",
        reason="bad-run-id",
        hint="use 1 to 128 letters, digits, dots, underscores and hyphens, the first a letter or a digit",
    )


def check_writable(history_dir: Path) -> None:
    """Make the history folder and prove that it can be written. Raises InfraError; call it before a run."""
    try:
        probe_folder(history_dir)
    except (OSError, ValueError) as error:
        raise storage_error("write in", history_dir, error) from error


def create_run_dir(history_dir: Path, run_id: str) -> Path:
    """The folder of a run, made (0700) if missing. Raises ConfigError on a bad id, InfraError on storage.

    A link is refused: what it leads to is no part of the history.
    """
    folder = record_path(history_dir, run_id).parent
    try:
        if folder.is_symlink():
            raise link_refused(folder)
        make_folder(folder)
    except (OSError, ValueError) as error:
        raise storage_error("make", folder, error) from error
    return folder


def record_path(history_dir: Path, run_id: str) -> Path:
    """Where the record of a run is, or would be. Raises ConfigError on a bad id."""
    return history_dir / "runs" / check_run_id(run_id) / "record.json"


def record_paths(history_dir: Path) -> Iterator[Path]:
    """Every record file of the history, sorted by run id: also one that is a link to nowhere, or in a folder that
    cannot be looked into, which reading it says. Raises InfraError when the folder is unreadable."""
    runs = history_dir / "runs"
    try:
        names = sorted(folder.name for folder in runs.iterdir())
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise storage_error("read", runs, error) from error
    yield from (path for path in (runs / name / "record.json" for name in names) if _is_recorded(path))


def unfinished_runs(history_dir: Path) -> tuple[str, ...]:
    """The ids of the runs that have a journal and no record, sorted; one may be going on. None where the folder of
    runs cannot be read, which reading the records says."""
    try:
        journals = sorted((history_dir / "runs").glob(f"*/{JOURNAL_NAME}"))
    except (OSError, ValueError):
        return ()
    return tuple(path.parent.name for path in journals if not _is_recorded(path.parent / "record.json"))


def _is_recorded(path: Path) -> bool:
    """Whether a record was written: a run that was interrupted has a folder, and no record in it."""
    try:
        path.lstat()
    except FileNotFoundError:
        return path.parent.is_symlink() and not is_there(path.parent)
    except NotADirectoryError:
        return False
    except OSError:
        return True
    return True


def write_record(history_dir: Path, record: RunRecord) -> Path:
    """The file that now holds `record`: canonical JSON and a newline, on the disk when this returns.

    Writing the same content again changes nothing. Raises InfraError when the run id already has other
    content, naming both digests, when nobody could read it again because of its size, and when storage fails.
    """
    path = create_run_dir(history_dir, record.run_id) / "record.json"
    plain = record_to_plain(record)
    data = b"".join((*canonical_pieces(plain), b"\n"))
    if len(data) > MAX_RECORD_BYTES:
        what = f"the record of run {record.run_id} has {len(data)} bytes, more than the limit of {MAX_RECORD_BYTES}"
        raise InfraError(what, reason="record-too-large", hint="ask for fewer answers, or for shorter ones")
    try:
        written = write_once(path, data)
    except OSError as error:
        raise storage_error("write", path, error) from error
    if not written:
        _refuse_other_content(path, plain["digest"])
    return path


def read_record(path: Path) -> RunRecord:
    """The record in the file `path`, checked. Raises InfraError: see `read_stored`."""
    return read_stored(path).record


def read_stored(path: Path) -> StoredRecord:
    """The record in the file `path` with its plain data.

    Raises InfraError naming the path and the cause when the file cannot be read, is larger than
    MAX_RECORD_BYTES, is not a record by `schemas/record.schema.json`, or is not byte for byte what its
    digest promises.
    """
    try:
        data = read_bounded(path, MAX_RECORD_BYTES)
    except FileNotFoundError as error:
        raise InfraError(
            f"there is no record {path}",
            reason="record-missing",
            hint="look in the history folder of the machine that made the run, else bring it back from a copy",
        ) from error
    except OSError as error:
        raise storage_error("read", path, error) from error
    try:
        plain = json.loads(data.decode("utf-8", errors="surrogatepass"))
        record = checked_record(plain)
        is_canonical = canonical_json(plain) + b"\n" == data
    except (ValueError, RecursionError) as error:
        _refuse_broken(path, str(error))
    # The digest covers values only; this covers the bytes: repeated keys, spaces, another spelling.
    if not is_canonical:
        _refuse_broken(path, "its bytes are not in canonical form")
    return StoredRecord(path=path, plain=plain, record=record)


def _refuse_other_content(path: Path, digest: str) -> None:
    there = read_stored(path).digest
    if there != digest:
        raise InfraError(
            f"{path} already holds {there}, not {digest}; a record is never overwritten",
            reason="run-id-taken",
            hint="run again under another run id",
        )


def _refuse_broken(path: Path, why: str) -> NoReturn:
    raise InfraError(
        f"run record {path} is broken: {why[:_SHOWN_CHARACTERS]}",
        reason="record-broken",
        hint="restore the file from a copy, or move its folder out of runs/",
    )
