"""Whether the server that goes on with a run is the one that began it: answers of two are never pooled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from gatekit.engine.serve import Endpoint
from gatekit.errors import InfraError
from gatekit.report.escape import escape_terminal
from gatekit.run.identity import Identity
from gatekit.run.journal_lines import ServerSeen

_NAMES: Mapping[str, str] = {
    "models": "model list",
    "version": "version",
    "build": "build",
    "weights_sha256": "weights (sha256)",
    "fingerprint": "system_fingerprint",
}
_SHOWN_CHARACTERS = 120
_SHOWN_MODELS = 5


def seen(endpoint: Endpoint, identity: Identity) -> ServerSeen:
    """What a journal says of this server.

    A server of our own is named anew at each start, so that its list and its fingerprint say nothing.
    """
    models = None if endpoint.process is not None else identity.models
    return ServerSeen(
        models=None if models is None else tuple(sorted(set(models))),
        version=identity.version,
        build=endpoint.build,
        weights_sha256=endpoint.details.get("weights_sha256"),
        model_said=None if endpoint.process is not None else dict(identity.model_said),
        fingerprint=None if endpoint.process is not None else identity.fingerprint,
        flip_seed=endpoint.details.get("flip_seed") if endpoint.simulated else None,
    )


def with_what_was_known(now: Identity, before: Sequence[ServerSeen]) -> Identity:
    """The identity, with the model list and the version that an earlier part was told last where it tells none."""
    models = next((one.models for one in reversed(before) if one.models is not None), None)
    version = next((one.version for one in reversed(before) if one.version is not None), None)
    return replace(
        now,
        models=models if now.models is None else now.models,
        version=version if now.version is None else now.version,
    )


def refuse_another(before: Sequence[ServerSeen], now: ServerSeen) -> tuple[str, ...]:
    """The warnings for what one of the earlier servers said of itself and this one does not, or the other way round.

    Raises InfraError where both are known and differ. The seed of a simulated model's flips is no identity.
    """
    warnings: dict[str, None] = {}
    for one in before:
        for name, old, new in _pairs(one, now):
            if old is not None and new is not None and old != new:
                what = f"the server is another than the one that began the run: {name} {_shown(old)} then"
                hint = "its answers are kept: resume when the first server is back, or run again under another run id"
                raise InfraError(f"{what}, {_shown(new)} now", reason="server-changed", hint=hint)
            if old is not None and new is None:
                warnings[f"not verified: the server's {name} is not known any more since the run was resumed"] = None
            if old is None and new is not None:
                warnings[f"not verified: the server's {name} was not known before the run was resumed"] = None
    return tuple(warnings)


def _pairs(before: ServerSeen, now: ServerSeen) -> Iterator[tuple[str, object, object]]:
    for field in fields(ServerSeen):
        if field.name in _NAMES:
            yield _NAMES[field.name], getattr(before, field.name), getattr(now, field.name)
    if now.model_said is not None:
        for name, old in (before.model_said or {}).items():
            yield f"model's {name}", old, now.model_said.get(name)


def _shown(value: object) -> str:
    text = ", ".join(map(str, value[:_SHOWN_MODELS])) if isinstance(value, tuple) else str(value)
    return escape_terminal(text or "none", limit=_SHOWN_CHARACTERS)
