"""Whether the record files of a few runs are still what the index knows, without reading what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from gatekit.errors import InfraError
from gatekit.history.durable_files import read_bounded, storage_error
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import history_command
from gatekit.history.records_folder import MAX_RECORD_BYTES, record_path

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Indexed:
    """A history, and the digests by which its index knows runs that were asked for already."""

    place: Place
    digests: Mapping[str, str] = field(default_factory=dict)

    def of(self, run_ids: Sequence[str]) -> Indexed:
        """The digests of these runs, from one query."""
        from gatekit.history import index

        return Indexed(self.place, index.digests_of(self.place, run_ids))


def check_records(indexed: Indexed, run_ids: Sequence[str]) -> None:
    """Raise InfraError, naming the first of them, where the record of one of these runs is not what the index knows.

    The index says what every run came to, so that a record that was changed behind its back would go unnoticed. A
    file that is not on this machine, which shares its index with others, is none. Costs a read and a digest a file.
    """
    place = indexed.place
    known = indexed if indexed.digests.keys() >= set(run_ids) else indexed.of(run_ids)
    changed = [one for one in run_ids if one in known.digests and not _is_intact(place, one, known.digests[one])]
    if changed:
        more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
        runs = f"{', '.join(changed[:_MOST_NAMED])}{more}"
        verify = history_command(place, "verify")
        raise InfraError(
            f"no lock is written: the record of run {runs} was changed since it was indexed",
            reason="record-changed",
            hint=f"restore it from a copy (`{verify}` says more), or quarantine the run",
        )


def _is_intact(place: Place, run_id: str, digest: str) -> bool:
    """Whether the file is a record with this digest, byte for byte; also where there is no file.

    A record is canonical JSON, so that without its own field `digest` its bytes are those that the digest is of.
    """
    path = record_path(place.dir, run_id)
    try:
        data = read_bounded(path, MAX_RECORD_BYTES)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise storage_error("read", path, error) from error
    before, field, after = data.partition(f'"digest":"{digest}",'.encode())
    is_one_line = after.endswith(b"}\n")
    return bool(field) and is_one_line and f"sha256:{sha256(before + after[:-1]).hexdigest()}" == digest
