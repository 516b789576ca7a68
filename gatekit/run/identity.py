"""Who answers: the model names, the version and the description that a server gives of itself, before and after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from gatekit.engine.advisories import advised
from gatekit.engine.serve import Endpoint
from gatekit.engine.supply import REMOTE_CODE
from gatekit.errors import InfraError
from gatekit.records.answers import Failure, FailureKind
from gatekit.records.canonical import Plain
from gatekit.records.run import Served
from gatekit.records.spec import EngineKind, Spec
from gatekit.report.escape import escape_terminal
from gatekit.run.client import Client, Refusal, Reply
from gatekit.run.effective import PREFIX, metric_values, not_effective, read_back
from gatekit.run.hints import hint
from gatekit.run.port_watch import refuse_stranger
from gatekit.run.server_info import described, settings

MODELS_PATH = "/v1/models"
_SHORT_S = 10.0
_AFTER_S = 5.0
_PAUSE_AFTER_S = 0.5
_SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who answers: the model names it lists (None where it lists none), its version, and what else it says of itself.

    `info` is asked for once, before the run, and metrics after it; `warnings` is what speaks against it.
    """

    models: tuple[str, ...] | None
    version: str | None
    info: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Identification:
    """Asks one server who it is."""

    def __init__(self, spec: Spec, endpoint: Endpoint, client: Client) -> None:
        self.spec = spec
        self.endpoint = endpoint
        self.client = client

    async def models(self, timeout_s: float = _SHORT_S) -> tuple[str, ...] | Failure | None:
        """The model list now, None where the server has none (404), or why it cannot be read."""
        reply = await self.client.get(MODELS_PATH, timeout_s=timeout_s)
        if isinstance(reply, Refusal):
            return None if reply.failure.kind is FailureKind.NOT_FOUND else reply.failure
        names = _model_names(reply)
        if names is None:
            return Failure(kind=FailureKind.BAD_SHAPE, detail=f"{MODELS_PATH} is no list of models")
        return names

    def expected_among(self, models: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """The listed models. Raises InfraError when the expected one is not among them."""
        expected = self.endpoint.served_model
        if models is not None and expected not in models:
            listed = ", ".join(escape_terminal(name, limit=80) for name in models[:_SHOWN_NAMES]) or "no model"
            what = f"expected model {expected}, {self.endpoint.base_url} serves {listed}"
            raise InfraError(what, reason="wrong-model", hint=hint(FailureKind.WRONG_MODEL, self.spec))
        return models

    async def before(self, models: tuple[str, ...] | None) -> Identity:
        """The identity of a server that is ready and lists `models`, with what is really on in it.

        Raises InfraError for a stranger on the port, an advisory that refuses it, code of the model's that nobody
        allowed, and, where the spec asks for that, for a setting that is not in effect.
        """
        is_ours = refuse_stranger(self.endpoint)
        version = await self._version(_SHORT_S)
        description = await self._description(_SHORT_S)
        files = await asyncio.to_thread(self.endpoint.files)
        found = self._settings(description)
        engine = self.spec.engine
        warnings = (
            *_unowned(self.endpoint, is_ours),
            *not_effective(self.spec, found),
            *advised(
                engine,
                version,
                remote_code=files.get(REMOTE_CODE),
                trusted=self.spec.model.trust_remote_code and engine.kind is EngineKind.LAUNCH,
            ),
        )
        told = {PREFIX + name: value for name, value in found.items()}
        listener = {"listener": "the started server"} if is_ours else {}
        info = {**listener, **files, **described(description, engine.info_keys), **told}
        return Identity(models=models, version=version, info=info, warnings=warnings)

    async def after(self, before: Identity) -> Identity:
        """The identity after the run, asked for until all that was known before is known again, or for 5 s.

        What cannot be had by then is None.
        """
        end_s = time.monotonic() + _AFTER_S
        models, version = None, None
        while (left_s := end_s - time.monotonic()) > 0:
            found = await self.models(left_s)
            models = models if isinstance(found, Failure) else found
            version = await self._version(max(end_s - time.monotonic(), _PAUSE_AFTER_S)) or version
            has_models = models is not None or before.models is None
            if has_models and (version is not None or before.version is None):
                break
            await asyncio.sleep(_PAUSE_AFTER_S)
        is_ours = refuse_stranger(self.endpoint)
        metrics = await self._metrics(_SHORT_S)
        warnings = _unowned(self.endpoint, is_ours) if is_ours is False else ()
        return Identity(models=models, version=version, info=metrics, warnings=warnings)

    async def _version(self, timeout_s: float) -> str | None:
        path = self.spec.engine.version_path
        reply = await self.client.get(path, timeout_s=timeout_s) if path else None
        version = reply.data.get(self.spec.engine.version_key) if isinstance(reply, Reply) else None
        return escape_terminal(version, limit=80) if isinstance(version, str) else None

    async def _description(self, timeout_s: float) -> Mapping[str, Plain]:
        path = self.spec.engine.info_path
        reply = await self.client.get(path, timeout_s=timeout_s) if path else None
        return reply.data if isinstance(reply, Reply) else {}

    def _settings(self, description: Mapping[str, Plain]) -> dict[str, str]:
        process, key = self.endpoint.process, self.endpoint.api_key
        told = settings(description, self.spec.engine.effective or {})
        found = read_back(self.spec.engine, told, None if process is None else process.log_path)
        return {name: value.replace(key, "***") if key else value for name, value in found.items()}

    async def _metrics(self, timeout_s: float) -> dict[str, str]:
        engine = self.spec.engine
        if engine.metrics_path is None or not engine.metrics:
            return {}
        text = await self.client.text(engine.metrics_path, timeout_s=timeout_s)
        return {PREFIX + name: value for name, value in metric_values(text or "", engine.metrics).items()}


def confirmed(before: Identity, after: Identity) -> Identity:
    """The identity before the run with what was learned after it; its warnings are what could not be asked again.

    Raises InfraError for two known and different answers: they are a change. What could not be asked again is none.
    """
    if _differ(_set(before.models), _set(after.models)) or _differ(before.version, after.version):
        what = f"the server changed during the run: {_shown(before)} before, {_shown(after)} after"
        raise InfraError(what, reason="server-changed", hint="answers of two servers are never pooled")
    pairs = {"the model list": (before.models, after.models), "the version": (before.version, after.version)}
    missing = " and ".join(name for name, (old, new) in pairs.items() if old is not None and new is None)
    unsure = (f"not verified: {missing} could not be checked after the run",) if missing else ()
    return replace(before, info={**before.info, **after.info}, warnings=(*unsure, *after.warnings))


def unverified(endpoint: Endpoint, identity: Identity | None, answered: Collection[str]) -> tuple[str, ...]:
    """The warning for a server that lists no models; `answered` are the names that its answers carried."""
    if identity is None or identity.models is not None:
        return ()
    what = f"not verified: {endpoint.base_url} lists no models"
    if answered:
        return (f"{what}; that {endpoint.served_model} answered is what its answers say",)
    return (f"{what} and its answers name none: any model may have answered",)


def served(spec: Spec, endpoint: Endpoint, identity: Identity | None) -> Served | None:
    """What the record says of the server; None where nobody was ready."""
    if identity is None:
        return None
    build = endpoint.build
    if build is None and identity.version is not None:
        build = f"{spec.engine.name}-{identity.version}"
    return Served(
        engine=spec.engine.name,
        build=build,
        model=endpoint.served_model,
        base_url=endpoint.base_url,
        simulated=endpoint.simulated,
        details={**identity.info, **endpoint.details},
    )


def _unowned(endpoint: Endpoint, is_ours: bool | None) -> tuple[str, ...]:
    """The warning for a port on which not the started server listens; where that cannot be told nothing is said."""
    if is_ours is not False:
        return ()
    return (f"not verified: another process than the started server listens at {endpoint.base_url}",)


def _model_names(reply: Reply) -> tuple[str, ...] | None:
    listed = reply.data.get("data")
    if not isinstance(listed, list):
        return None
    return tuple(str(item["id"]) for item in listed if isinstance(item, dict) and "id" in item)


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
