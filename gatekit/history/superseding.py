"""Whether a record may take the place of another: the same answers, read by another extractor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gatekit.history.changes import differing, key_fields
from gatekit.history.place import Place
from gatekit.records.canonical import Plain

_OF_THE_EXTRACTOR = frozenset({"extractor_version", "protocol.extractor"})
_NAMED_FIELDS = 3
_NAMES_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A run as far as superseding goes: what its comparability key is made of, and the run it supersedes."""

    fields: Mapping[str, Plain]
    supersedes: str | None = None


def known_standings(place: Place, run_ids: Iterable[str]) -> dict[str, Standing]:
    """Those of these runs, and of the runs that they supersede, that the history knows."""
    import sqlalchemy as sa

    from gatekit.history.database import reading
    from gatekit.history.tables import keys, runs

    found: dict[str, Standing] = {}
    wanted = list(dict.fromkeys(run_ids))
    with reading(place) as connection:
        while wanted and connection is not None:
            some, wanted = wanted[:_NAMES_AT_ONCE], wanted[_NAMES_AT_ONCE:]
            query = sa.select(runs.c.run_id, runs.c.supersedes, keys.c.fields).where(runs.c.run_id.in_(some))
            for run_id, supersedes, text in connection.execute(
                query.join_from(runs, keys, runs.c.comparability_key == keys.c.key)
            ):
                found[run_id] = Standing(fields=key_fields(text), supersedes=supersedes)
                if supersedes is not None and supersedes not in found:
                    wanted.append(supersedes)
    return found


def why_not_superseding(run_id: str, standings: Mapping[str, Standing]) -> str | None:
    """Why a run among these cannot supersede the one that it names; None where it can."""
    own = standings[run_id]
    target = own.supersedes
    if target is None:
        return None
    if target == run_id:
        return "it supersedes itself"
    if target not in standings:
        return f"it supersedes run {target}, which is neither in this file nor in the history"
    if _comes_back(run_id, standings):
        return f"it supersedes run {target}, which supersedes it in turn"
    other = [name for name in differing(standings[target].fields, own.fields) if name not in _OF_THE_EXTRACTOR]
    if other:
        names = ", ".join(other[:_NAMED_FIELDS])
        return f"it supersedes run {target}, which differs in more than its extractor: {names}"
    return None


def _comes_back(run_id: str, standings: Mapping[str, Standing]) -> bool:
    passed: set[str] = set()
    here: str | None = run_id
    while here is not None and here not in passed:
        passed.add(here)
        here = standings[here].supersedes if here in standings else None
    return here is not None
