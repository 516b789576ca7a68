"""Who answers: the model names, the version and the description that a server gives of itself, before and after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from gatekit.engine.advisories import advised
from gatekit.engine.serve import Endpoint
from gatekit.engine.supply import REMOTE_CODE
from gatekit.errors import InfraError
from gatekit.records.answers import Failure, FailureKind
from gatekit.records.canonical import Plain
from gatekit.records.run import Served
from gatekit.records.served_details import COMMIT, NEVER, READY
from gatekit.records.spec import EngineKind, Spec
from gatekit.report.escape import escape_terminal
from gatekit.run.client import Client, Refusal, Reply
from gatekit.run.effective import PREFIX, log_values, metric_values, not_effective
from gatekit.run.hints import hint
from gatekit.run.model_list import ModelList, model_list
from gatekit.run.port_watch import refuse_stranger
from gatekit.run.served_files import files_loaded, refuse_changed_files, refuse_other_weights
from gatekit.run.server_info import described, settings
from gatekit.run.untold import untold_metrics, untold_settings, untold_version

MODELS_PATH = "/v1/models"
_SHORT_S = 10.0
_AFTER_S = 5.0
_ONCE_MORE_S = 2.0
_PAUSE_AFTER_S = 0.5
_VERSION_TRIES = 5
# The server has a version, or may have one, and just did not tell it.
_NOT_TOLD = frozenset(
    {
        FailureKind.REFUSED,
        FailureKind.DISCONNECTED,
        FailureKind.TIMEOUT,
        FailureKind.RATE_LIMITED,
        FailureKind.SERVER_ERROR,
    }
)
_NOT_IMPLEMENTED = 501
_SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who answers: the model names it lists (None where it lists none), its version, and what else it says of itself.

    `model_said` is what the list says of the model that is asked, `fingerprint` that of the first answer. `info` is
    asked for once, before the run, and metrics after it; `warnings` is what speaks against it.
    """

    models: tuple[str, ...] | None
    version: str | None
    model_said: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str | None = None
    info: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Identification:
    """Asks one server who it is. `known` is what it has said so far, None as long as it said nothing."""

    def __init__(self, spec: Spec, endpoint: Endpoint, client: Client) -> None:
        self.spec = spec
        self.endpoint = endpoint
        self.client = client
        self.known: Identity | None = None

    async def models(self, timeout_s: float) -> ModelList | Failure | None:
        """The model list now, None where the server has none (404), or why it cannot be read."""
        reply = await self.client.get(MODELS_PATH, timeout_s=timeout_s)
        if isinstance(reply, Refusal):
            return None if reply.failure.kind is FailureKind.NOT_FOUND else reply.failure
        models = model_list(reply.data, self.endpoint.served_model)
        if models is None:
            return Failure(kind=FailureKind.BAD_SHAPE, detail=f"{MODELS_PATH} is no list of models")
        return models

    def expected_among(self, models: ModelList | None) -> ModelList | None:
        """The listed models. Raises InfraError when the expected one is not among them."""
        expected = self.endpoint.served_model
        self.known = _identity(models, version=None, fingerprint=None, info=_listed(models), warnings=())
        if models is not None and expected not in models.names:
            listed = ", ".join(escape_terminal(name, limit=80) for name in models.names[:_SHOWN_NAMES]) or "no model"
            what = f"expected model {expected}, {self.endpoint.base_url} serves {listed}"
            raise InfraError(what, reason="wrong-model", hint=hint(FailureKind.WRONG_MODEL, self.spec))
        return models

    async def before(self, models: ModelList | None, *, files_within_s: float = _SHORT_S) -> Identity:
        """The identity of a server that is ready and lists `models`, with what is really on in it.

        Raises InfraError for a stranger on the port, an advisory that refuses it, code of the model's that nobody
        allowed, files of it that changed, that cannot be read in time or are not those that the server tells, and,
        where the spec asks for that, for a setting that is not in effect.
        """
        is_ours = refuse_stranger(self.endpoint)
        version, untold = await self._version_before()
        fingerprint = self.client.fingerprints.first
        listener = {"listener": "the started server"} if is_ours else {}
        signed = {} if fingerprint is None else {"system_fingerprint": fingerprint}
        info = {**listener, **_listed(models), **signed}
        self.known = _identity(models, version=version, fingerprint=fingerprint, info=info, warnings=())
        description, found, lacking = await self._settings(_SHORT_S)
        info |= {**described(description, self.spec.engine.info_keys), **_as_details(found)}
        self.known = replace(self.known, info=info)
        files = await files_loaded(self.endpoint, files_within_s)
        self.known = replace(self.known, info={**files, **info})
        refuse_other_weights(self.endpoint, self.spec.engine, description)
        warnings = (
            *_unowned(self.endpoint, is_ours),
            *untold,
            *(() if untold or self.endpoint.build is not None else untold_version(self.spec.engine, version)),
            *lacking,
            *not_effective(self.spec, {**_from_elsewhere(models, files), **found}),
            *self._advised(version, files.get(REMOTE_CODE)),
        )
        return replace(self.known, warnings=warnings)

    async def so_far(self) -> Identity | None:
        """What a server that will not be asked has said of itself; version and settings are asked for once more."""
        if self.known is None or self.known.version is not None:
            return self.known
        version = await self._version(_ONCE_MORE_S)
        description, found, _ = await self._settings(_ONCE_MORE_S)
        info = {**self.known.info, **described(description, self.spec.engine.info_keys), **_as_details(found)}
        return replace(self.known, version=version if isinstance(version, str) else None, info=info)

    async def after(self, before: Identity) -> Identity:
        """The identity after the run, asked for until all that was known before is known again, or for 5 s.

        What cannot be had by then is None. Raises InfraError for a stranger on the port, for answers of two servers
        and for files of the model that changed.
        """
        end_s = time.monotonic() + _AFTER_S
        models: ModelList | None = None
        version: str | None = None
        while (left_s := end_s - time.monotonic()) > 0:
            found = await self.models(left_s)
            models = models if isinstance(found, Failure) else found
            told = await self._version(max(end_s - time.monotonic(), _PAUSE_AFTER_S))
            version = told if isinstance(told, str) else version
            has_models = models is not None or before.models is None
            if has_models and (version is not None or before.version is None):
                break
            await asyncio.sleep(_PAUSE_AFTER_S)
        is_ours = refuse_stranger(self.endpoint)
        self.client.fingerprints.refuse_two()
        await refuse_changed_files(self.endpoint, _SHORT_S)
        metrics, lacking = await self._metrics(_SHORT_S, before)
        warnings = (
            *lacking,
            *(_unowned(self.endpoint, is_ours) if is_ours is False else ()),
            *self.client.fingerprints.warnings(),
        )
        return _identity(models, version=version, fingerprint=before.fingerprint, info=metrics, warnings=warnings)

    async def _version_before(self) -> tuple[str | None, tuple[str, ...]]:
        """The version, asked for a few times while the server only fails to tell it, and a warning if it still does."""
        end_s = time.monotonic() + _SHORT_S
        tries = 0
        while isinstance(told := await self._version(max(end_s - time.monotonic(), _PAUSE_AFTER_S)), Failure):
            tries += 1
            if tries == _VERSION_TRIES or time.monotonic() + _PAUSE_AFTER_S > end_s:
                return None, (f"not verified: the server's version could not be read: {told.detail}",)
            await asyncio.sleep(_PAUSE_AFTER_S)
        return told, ()

    async def _version(self, timeout_s: float) -> str | Failure | None:
        """The version now, None where the server has none, or why it did not tell."""
        path = self.spec.engine.version_path
        reply = await self.client.get(path, timeout_s=timeout_s) if path else None
        if isinstance(reply, Refusal) and reply.failure.kind in _NOT_TOLD and reply.status != _NOT_IMPLEMENTED:
            return reply.failure
        version = reply.data.get(self.spec.engine.version_key) if isinstance(reply, Reply) else None
        return escape_terminal(version, limit=80) if isinstance(version, str) else None

    async def _settings(self, timeout_s: float) -> tuple[Mapping[str, Plain], dict[str, str], tuple[str, ...]]:
        """How the server describes itself, what that and its log tell of its settings, and warnings of what they lack.

        Where both tell a setting, the description counts.
        """
        engine, process, key = self.spec.engine, self.endpoint.process, self.endpoint.api_key
        reply = await self.client.get(engine.info_path, timeout_s=timeout_s) if engine.info_path else None
        description = reply.data if isinstance(reply, Reply) else {}
        logged = None if process is None else log_values(process.log_path, engine.log_values or {})
        told = {**(logged or {}), **settings(description, engine.effective or {})}
        found = {name: value.replace(key, "***") if key else value for name, value in told.items()}
        why = reply.failure.detail if isinstance(reply, Refusal) else None
        return description, found, untold_settings(engine, why, description, logged)

    def _advised(self, version: str | None, remote_code: str | None) -> tuple[str, ...]:
        trusted = self.spec.model.trust_remote_code and self.spec.engine.kind is EngineKind.LAUNCH
        return advised(self.spec.engine, version, remote_code=remote_code, trusted=trusted)

    async def _metrics(self, timeout_s: float, before: Identity) -> tuple[dict[str, str], tuple[str, ...]]:
        """What the server has counted, by the names in the record, and warnings of what it does not count."""
        engine = self.spec.engine
        if engine.metrics_path is None or not engine.metrics:
            return {}, ()
        text = await self.client.text(engine.metrics_path, timeout_s=timeout_s)
        found = metric_values(text or "", engine.metrics)
        speculative = before.info.get(f"{PREFIX}speculative")
        return _as_details(found), tuple(untold_metrics(engine, found, text, speculative))


def confirmed(before: Identity, after: Identity) -> Identity:
    """The identity before the run with what was learned after it; its warnings are what could not be asked again.

    Raises InfraError for two known and different answers: they are a change. What could not be asked again is none. A
    version that was not known before is, from then on, the one to compare with.
    """
    if _differ(_set(before.models), _set(after.models)) or _differ(before.version, after.version):
        _refuse_change(_shown(before), _shown(after))
    for name, (old, new) in _said_pairs(before, after).items():
        if _differ(old, new):
            _refuse_change(f"{name} {old}", str(new))
    missing = " and ".join(_untold(before, after))
    unsure = (f"not verified: {missing} could not be checked after the run",) if missing else ()
    version = after.version if before.version is None else before.version
    info = {**before.info, **after.info}
    return replace(before, version=version, info=info, warnings=(*unsure, *after.warnings))


def is_whole(before: Identity, after: Identity) -> bool:
    """Whether all that was known before was told again, and anything was known: else no two servers are told apart."""
    return (before.models is not None or before.version is not None) and not _untold(before, after)


def unverified(endpoint: Endpoint, identity: Identity | None, answered: Collection[str]) -> tuple[str, ...]:
    """The warning for a server that lists no models; `answered` are the names that its answers carried."""
    if identity is None or identity.models is not None:
        return ()
    what = f"not verified: {endpoint.base_url} lists no models"
    if answered:
        return (f"{what}; that {endpoint.served_model} answered is what its answers say",)
    return (f"{what} and its answers name none: any model may have answered",)


def served(spec: Spec, endpoint: Endpoint, identity: Identity | None) -> Served | None:
    """What the record says of the server; None where nobody was reached.

    Of one that was started and told nothing, the record says how it was started, and that it was never ready.
    """
    if identity is None and endpoint.process is None:
        return None
    build = endpoint.build
    if build is None and identity is not None and identity.version is not None:
        build = f"{spec.engine.name}-{identity.version}"
    told = {READY: NEVER} if identity is None else identity.info
    return Served(
        engine=spec.engine.name,
        build=build,
        model=endpoint.served_model,
        base_url=endpoint.base_url,
        simulated=endpoint.simulated,
        details={**told, **endpoint.details},
    )


def _listed(models: ModelList | None) -> dict[str, str]:
    return {} if models is None else {f"listed.{name}": value for name, value in models.said.items()}


def _as_details(found: Mapping[str, str]) -> dict[str, str]:
    return {PREFIX + name: value for name, value in found.items()}


def _from_elsewhere(models: ModelList | None, files: Mapping[str, str]) -> dict[str, str]:
    """The settings that the list of models and the files of a started server tell."""
    places = {
        "max_model_len": None if models is None else models.said.get("max_model_len"),
        "revision": files.get(COMMIT),
    }
    return {name: value for name, value in places.items() if value is not None}


def _unowned(endpoint: Endpoint, is_ours: bool | None) -> tuple[str, ...]:
    """The warning for a started server on whose port another process listens, or nobody can tell who does."""
    if endpoint.process is None or is_ours:
        return ()
    if is_ours is None:
        return (f"not verified: which process listens at {endpoint.base_url} cannot be seen",)
    return (f"not verified: another process than the started server listens at {endpoint.base_url}",)


def _identity(
    models: ModelList | None,
    *,
    version: str | None,
    fingerprint: str | None,
    info: Mapping[str, str],
    warnings: tuple[str, ...],
) -> Identity:
    return Identity(
        models=None if models is None else models.names,
        version=version,
        model_said={} if models is None else models.said,
        fingerprint=fingerprint,
        info=info,
        warnings=warnings,
    )


def _refuse_change(before: str, after: str) -> NoReturn:
    what = f"the server changed during the run: {before} before, {after} after"
    raise InfraError(what, reason="server-changed", hint="answers of two servers are never pooled")


def _untold(before: Identity, after: Identity) -> list[str]:
    """The names of what was known before and is not now."""
    pairs = {"the model list": (before.models, after.models), "the version": (before.version, after.version)}
    if after.models is not None:
        pairs |= {f"the model's {name}": pair for name, pair in _said_pairs(before, after).items()}
    return [name for name, (old, new) in pairs.items() if old is not None and new is None]


def _said_pairs(before: Identity, after: Identity) -> dict[str, tuple[str | None, str | None]]:
    """What the list says of the asked model, before and after, by key."""
    return {name: (old, after.model_said.get(name)) for name, old in before.model_said.items()}


def _set(models: tuple[str, ...] | None) -> frozenset[str] | None:
    """The order of a model list is no part of who answers."""
    return None if models is None else frozenset(models)


def _differ(before: object, after: object) -> bool:
    return before is not None and after is not None and before != after


def _shown(identity: Identity) -> str:
    names = identity.models or ()
    listed = ", ".join(escape_terminal(name, limit=80) for name in names[:_SHOWN_NAMES]) or "no model"
    more = ", ..." if len(names) > _SHOWN_NAMES else ""
    return f"{listed}{more}" + (f" version {identity.version}" if identity.version else "")
