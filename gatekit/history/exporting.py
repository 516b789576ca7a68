"""The history as one file for others: whole records with their acts as JSON lines, or a row a run as CSV or Parquet."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Protocol

from gatekit.errors import ConfigError, InfraError
from gatekit.history.acts import StoredAct, act_digest, act_path, read_act
from gatekit.history.durable_files import is_there, storage_error, sync_folder
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import history_command
from gatekit.history.records_folder import read_stored, record_path
from gatekit.history.run_row import RunRow
from gatekit.history.totals import FORMULA_STARTS
from gatekit.records.act import Act
from gatekit.records.canonical import canonical_json, to_plain

NEUTRAL = "'"
_ALL = 2**62
_SHOWN_IDS = 5
_COUNTS = ("n", "correct", "wrong", "no_answer", "truncated", "lost", "unasked")
_FLAGS = ("measured", "simulated", "quarantined")
_COLUMNS = (
    "run_id",
    "started_at",
    "finished_at",
    "spec_name",
    "model",
    "hw",
    "engine",
    "build",
    "protocol",
    "dataset",
    *_COUNTS,
    "accuracy",
    "outcome",
    "reason_code",
    *_FLAGS,
    "comparability_key",
    "digest",
    "previous",
    "supersedes",
)


class Format(StrEnum):
    """`jsonl`: one whole record a line, then the acts about them. `csv`, `parquet`: one row a run."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which runs: of one spec, of one model, under one comparability key (or the beginning of one); all of them
    where nothing is named."""

    spec_name: str | None = None
    model: str | None = None
    key: str | None = None


class Sink(Protocol):
    """What bytes are written to."""

    def write(self, data: bytes, /) -> object:
        """Take these bytes."""


Write = Callable[[Place, Sequence[RunRow], Sink], None]


def chosen_runs(place: Place, chosen: Chosen, *, with_superseded: bool = False) -> tuple[RunRow, ...]:
    """The chosen runs in the order in which they were added, and on demand those whose place they took: without
    them nobody can tell what they supersede. Raises ConfigError when there are none."""
    from gatekit.history import index

    rows = index.list_runs(place, limit=_ALL, spec_name=chosen.spec_name, model=chosen.model)
    found = tuple(row for row in reversed(rows) if _has_key(row, chosen.key))
    if not found:
        hint = f"see `{history_command(place, 'list')}`"
        raise ConfigError.one(f"no such runs in {place.shown}", reason="nothing-to-export", hint=hint)
    if with_superseded and any(row.supersedes for row in found):
        return _with_superseded(index.list_runs(place, limit=_ALL), found)
    return found


def only_here(place: Place, rows: Sequence[RunRow]) -> tuple[RunRow, ...]:
    """Those of the runs whose records this folder holds: of a shared database the others are on other machines.

    Raises InfraError where that cannot be told.
    """
    return tuple(row for row in rows if is_there(record_path(place.dir, row.run_id)))


def acts_about(place: Place, rows: Sequence[RunRow]) -> tuple[StoredAct, ...]:
    """What was decided about these runs, or about a series of one of them, in the order of arrival.

    Raises InfraError for an act file that is broken.
    """
    from gatekit.history import index

    targets = {row.run_id for row in rows} | {row.comparability_key for row in rows}
    return tuple(_stored_act(place, act) for act in index.acts(place) if act.target in targets)


def export(place: Place, rows: Sequence[RunRow], target: Path, format_: Format, *, force: bool) -> None:
    """Write the runs to a new file (0600), whole or not at all; with `force` in the place of another.

    Raises ConfigError when the file exists or cannot be made, InfraError as `write_to`.
    """
    write = _WRITERS[format_]
    with _whole_file(target, force=force) as file:
        write(place, rows, file)


def write_to(place: Place, rows: Sequence[RunRow], sink: Sink, format_: Format) -> None:
    """Write the runs to `sink`. Raises InfraError when a record cannot be read, ConfigError when pyarrow is missing."""
    _WRITERS[format_](place, rows, sink)


def neutral(text: str) -> str:
    """`text` as a spreadsheet takes it for a text: one that begins with = + - @ tab or CR gets a quote in front.

    So does one that begins with a quote: taking one leading quote away gives back every text.

    >>> neutral("=1+1"), neutral("'quoted'"), neutral("plain")
    ("'=1+1", "''quoted'", 'plain')
    """
    return NEUTRAL + text if text.startswith((*FORMULA_STARTS, NEUTRAL)) else text


def _has_key(row: RunRow, key: str | None) -> bool:
    return key is None or row.comparability_key.startswith((key, f"sha256:{key}"))


def _refuse_elsewhere(place: Place, rows: Sequence[RunRow]) -> None:
    here = {row.run_id for row in only_here(place, rows)}
    missing = [row.run_id for row in rows if row.run_id not in here]
    if not missing:
        return
    shown = ", ".join(missing[:_SHOWN_IDS]) + (", ..." if len(missing) > _SHOWN_IDS else "")
    of_others = "made on other machines, whose folders hold their records"
    why = of_others if place.url is not None else f"without a record in {place.dir / 'runs'}"
    raise InfraError(
        f"{len(missing)} of {len(rows)} runs are {why}: {shown}",
        reason="records-elsewhere",
        hint="give --only-here to leave them out and export them there; CSV and Parquet need no records",
    )


def _jsonl(place: Place, rows: Sequence[RunRow], sink: Sink) -> None:
    _refuse_elsewhere(place, rows)
    for row in rows:
        stored = read_stored(record_path(place.dir, row.run_id))
        if stored.digest != row.digest:
            raise InfraError(
                f"{stored.path} holds {stored.digest}, the index says {row.digest}",
                reason="record-differs",
                hint=f"`{history_command(place, 'verify')}` says more",
            )
        sink.write(canonical_json(stored.plain) + b"\n")

    for act in acts_about(place, rows):
        sink.write(canonical_json(to_plain(act.act) | {"digest": act.digest}) + b"\n")


def _stored_act(place: Place, act: Act) -> StoredAct:
    """As its file holds it; one that was made on another machine is in the database alone."""
    path = act_path(place, act.act_id)
    return read_act(path) if is_there(path) else StoredAct(path=path, act=act, digest=act_digest(act))


def _with_superseded(rows: Sequence[RunRow], found: Sequence[RunRow]) -> tuple[RunRow, ...]:
    by_id = {row.run_id: row for row in rows}
    wanted = {row.run_id for row in found}
    todo = list(found)
    while todo:
        target = todo.pop().supersedes
        if target in by_id and target not in wanted:
            wanted.add(target)
            todo.append(by_id[target])
    return tuple(row for row in reversed(rows) if row.run_id in wanted)


def _csv(place: Place, rows: Sequence[RunRow], sink: Sink) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for cells in _cells(place, rows):
        writer.writerow(["" if cell is None else neutral(cell) if isinstance(cell, str) else cell for cell in cells])
    sink.write(text.getvalue().encode("utf-8"))


def _parquet(place: Place, rows: Sequence[RunRow], sink: Sink) -> None:
    try:
        import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
        from pyarrow import parquet
    except ImportError as error:
        raise ConfigError.one(
            "Parquet needs pyarrow, which is not installed",
            reason="pyarrow-missing",
            where="--format",
            hint="pip install 'gatekit[parquet]', or --format csv",
        ) from error
    kinds = dict.fromkeys(_COLUMNS, pa.string())
    kinds |= dict.fromkeys(_COUNTS, pa.int64()) | dict.fromkeys(_FLAGS, pa.bool_())
    kinds["accuracy"] = pa.float64()
    columns = list(zip(*_cells(place, rows), strict=True))
    arrays = [pa.array(column, kinds[name]) for name, column in zip(_COLUMNS, columns, strict=True)]
    parquet.write_table(pa.table(arrays, names=list(_COLUMNS)), sink)


def _cells(place: Place, rows: Sequence[RunRow]) -> Iterator[tuple[object, ...]]:
    from gatekit.history import index

    set_aside = index.quarantined(place)
    for row in rows:
        known = {"accuracy": accuracy(row), "outcome": row.outcome.value, "quarantined": row.run_id in set_aside}
        yield tuple(known[name] if name in known else getattr(row, name) for name in _COLUMNS)


def accuracy(row: RunRow) -> float | None:
    """The share of right answers; None where an answer was lost or not asked for, so that it is not known."""
    return row.correct / row.n if row.n and not row.lost and not row.unasked else None


_WRITERS: dict[Format, Write] = {Format.JSONL: _jsonl, Format.CSV: _csv, Format.PARQUET: _parquet}


@contextmanager
def _whole_file(target: Path, *, force: bool) -> Iterator[IO[bytes]]:
    _refuse_existing(target, force=force)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        what = f"cannot write {target}: {error.strerror}"
        raise ConfigError.one(what, reason="bad-export-file", hint="name a file in a folder that exists") from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force:
            temporary.replace(target)
        else:
            target.hardlink_to(temporary)  # unlike a rename it fails where the name is taken
        sync_folder(target.parent)
    except FileExistsError:
        _refuse_existing(target, force=False)
        raise
    except OSError as error:
        raise storage_error("write", target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _refuse_existing(target: Path, *, force: bool) -> None:
    if target.is_dir():
        raise ConfigError.one(f"{target} is a folder", reason="bad-export-file", hint="name a file")
    if not force and os.path.lexists(target):
        hint = "name another file, or give --force"
        raise ConfigError.one(f"{target} exists", reason="export-exists", hint=hint)
