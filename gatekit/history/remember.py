"""Remembering a run: the record file first, because it is the truth; then the index, which can be rebuilt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gatekit.errors import InfraError
from gatekit.history.records_folder import check_writable, read_stored, record_paths, write_record
from gatekit.history.run_row import SeriesRow, run_row
from gatekit.records.run import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What a rebuild did: records added to the index, records that were in it, one line per problem."""

    added: int
    known: int
    problems: tuple[str, ...]


def check_ready(history_dir: Path) -> None:
    """Raise InfraError unless a run can be remembered here; makes the folder and the index if missing."""
    from gatekit.history import index

    check_writable(history_dir)
    index.prepare(history_dir)


def remember(history_dir: Path, record: RunRecord) -> Path:
    """The file that now holds `record`, which is also in the index.

    Raises InfraError when the record cannot be written, and when only the index failed: the record is kept
    then, and the hint says where and how it gets into the index.
    """
    from gatekit.history import index

    path = write_record(history_dir, record)
    try:
        index.add(history_dir, record)
    except InfraError as error:
        kept = f"the record itself is kept in {path}"
        raise InfraError(error.message, reason=error.reason, hint=f"{kept}; {error.hint}") from error
    return path


def rebuild(history_dir: Path) -> Rebuilt:
    """Add every record that the index misses, in the order in which the runs finished.

    The order of runs that are in the index stays. A record that cannot be read or added is a problem, never
    skipped in silence. Raises InfraError when the index itself cannot be used.
    """
    from gatekit.history import index

    rows, problems = _rows(history_dir)
    added = known = 0
    for row in sorted(rows, key=lambda row: (row.finished_at, row.run_id)):
        try:
            is_new = index.add_row(history_dir, row)
        except InfraError as error:
            if error.reason != "run-id-taken":
                raise
            problems.extend(error.lines())
            continue
        added, known = added + is_new, known + (not is_new)
    return Rebuilt(added=added, known=known, problems=tuple(problems))


def _rows(history_dir: Path) -> tuple[list[SeriesRow], list[str]]:
    rows, problems = [], []
    for path in record_paths(history_dir):
        try:
            stored = read_stored(path)
        except InfraError as error:
            problems.extend(error.lines())
            continue
        if path.parent.name == stored.record.run_id:
            rows.append(run_row(stored.record, stored.digest))
        else:
            problems.append(f"{path} is the record of run {stored.record.run_id}, in the folder of another run")
    return rows, problems
