"""Published faults of an engine's version, and what they mean for a run."""

from __future__ import annotations

from collections.abc import Iterator

from gatekit.engine.versions import names_a_release, version_key
from gatekit.errors import InfraError
from gatekit.records.spec import Advisory, Engine, Refuses

NO_REMOTE_CODE = "none"


def advised(engine: Engine, version: str | None, *, remote_code: str | None, trusted: bool) -> tuple[str, ...]:
    """The warnings of the advisories that a server's version has.

    `remote_code` is what the model's files name to be run (`none` for nothing, None where they were not seen);
    `trusted` says whether the server may run it. Raises InfraError for an advisory that refuses remote code where
    there is some, or the server may run what was not seen.
    """
    if not engine.advisories:
        return ()
    is_there = remote_code not in (None, NO_REMOTE_CODE) or (trusted and remote_code is None)
    if version is None or not names_a_release(version):
        told = "tells no version" if version is None else f"calls itself {version}, which names no release"
        what = f"not verified: engine {engine.name} {told}, so that its {len(engine.advisories)} advisories say nothing"
        return (what,) if is_there else ()
    found = tuple(_of(engine.advisories, version))
    for advisory in found:
        if advisory.refuses is Refuses.REMOTE_CODE and is_there:
            code = "the model brings code of its own"
            if remote_code is None:
                code = "model.trust_remote_code lets the model run code, of which nothing could be seen here"
            raise InfraError(
                f"{_told(engine, version, advisory)}, and {code}",
                reason="version-advisory",
                hint=f"use {engine.name} {advisory.below} or later; see {advisory.link}",
            )
    return tuple(f"{_told(engine, version, advisory)}; see {advisory.link}" for advisory in found)


def _of(advisories: tuple[Advisory, ...], version: str) -> Iterator[Advisory]:
    ours = version_key(version)
    for advisory in advisories:
        below, since = version_key(advisory.below), version_key(advisory.since or "0.dev0")
        if ours is not None and below is not None and since is not None and since <= ours < below:
            yield advisory


def _told(engine: Engine, version: str, advisory: Advisory) -> str:
    return f"{engine.name} {version} has {advisory.id}: {advisory.what} (mended in {advisory.below})"
