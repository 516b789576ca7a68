"""Whether the server is the right one and really answers: process, HTTP, model list, one real completion."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from gatekit.engine.serve import Endpoint
from gatekit.errors import InfraError
from gatekit.records.answers import Completion, Failure, FailureKind, Prompt
from gatekit.records.spec import Api, Spec
from gatekit.report.escape import escape_terminal
from gatekit.run.client import Client, Refusal, Reply
from gatekit.run.requests import bodies

MODELS_PATH = "/v1/models"
_POLL_S = 0.25
_SHORT_S = 10.0
_TRIES_AFTER = 5
_PAUSE_AFTER_S = 1.0
_WARM_UP = "Question: What is 1 + 1?\nAnswer:"
_HOPELESS = {
    FailureKind.DNS: "check engine.base_url",
    FailureKind.TLS: "name your certificate authority in SSL_CERT_FILE, or use http:// on loopback",
    FailureKind.UNAUTHORIZED: "name the variable that holds the key: engine.api_key_env=NAME",
    FailureKind.REDIRECT: "give the final address as engine.base_url",
    FailureKind.REJECTED: "see the server's log",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who answers: the model names it lists (None where it lists none) and its version."""

    models: tuple[str, ...] | None
    version: str | None


class Readiness:
    """Waits until one endpoint is ready, for at most the spec's start-up time."""

    def __init__(
        self,
        spec: Spec,
        endpoint: Endpoint,
        client: Client,
        watch: Callable[[], str | None],
        on_wait: Callable[[str], None],
    ) -> None:
        self.spec = spec
        self.endpoint = endpoint
        self.client = client
        self.watch = watch
        self.on_wait = on_wait
        self.began_s = time.monotonic()
        self.tries = 0
        self.waits_for: FailureKind | None = None

    async def wait(self) -> Identity:
        """The server's identity once it has given one real completion.

        Raises InfraError when it dies, is somebody else, refuses for good, or does not answer in time.
        """
        await self._until_healthy()
        identity = await self._known_identity()
        while isinstance(failure := await self._warm_up(), Failure):
            await self._wait_or_give_up(failure)
        return identity

    async def identity_again(self) -> Identity | None:
        """The identity after the run; None when it cannot be had within a few tries.

        Raises InfraError when the expected model is not listed any more.
        """
        for _ in range(_TRIES_AFTER):
            found = await self._identity()
            if isinstance(found, Identity):
                return found
            await asyncio.sleep(_PAUSE_AFTER_S)
        return None

    async def _known_identity(self) -> Identity:
        while isinstance(found := await self._identity(), Failure):
            await self._wait_or_give_up(found)
        return found

    async def _identity(self) -> Identity | Failure:
        """The model list and version now, or why there is none. A server without a list (404) has models None."""
        reply = await self.client.get(MODELS_PATH, timeout_s=_SHORT_S)
        models = _model_names(reply) if isinstance(reply, Reply) else None
        if isinstance(reply, Refusal) and reply.failure.kind is not FailureKind.NOT_FOUND:
            return reply.failure
        if isinstance(reply, Reply) and models is None:
            return Failure(kind=FailureKind.BAD_SHAPE, detail=f"{MODELS_PATH} is no list of models")
        expected = self.endpoint.served_model
        if models is not None and expected not in models:
            served = ", ".join(escape_terminal(name, limit=80) for name in models[:5]) or "no model"
            what = f"expected model {expected}, {self.endpoint.base_url} serves {served}"
            hint = "set engine.expected_model to the served name if it is the same model"
            raise InfraError(what, reason="wrong-model", hint=hint)
        return Identity(models=models, version=await self._version())

    async def _until_healthy(self) -> None:
        path = self.spec.engine.health_path or MODELS_PATH
        while True:
            status = await self.client.status(path, timeout_s=min(_SHORT_S, self._left_s()))
            # A server without a health route answers 404: it is up.
            if isinstance(status, int) and (status < 400 or status == 404):
                return
            if isinstance(status, Refusal):
                failure = status.failure
            else:
                kind = FailureKind.UNAUTHORIZED if status in (401, 403) else FailureKind.SERVER_ERROR
                failure = Failure(kind=kind, detail=f"{path}: HTTP {status}")
            await self._wait_or_give_up(failure)

    async def _warm_up(self) -> Completion | Failure:
        protocol = self.spec.protocol
        is_chat = protocol.api is Api.CHAT
        prompt = Prompt(
            question_id=-1,
            text=None if is_chat else _WARM_UP,
            messages=(("user", _WARM_UP),) if is_chat else None,
        )
        (body,) = bodies([prompt], protocol, self.endpoint.served_model)
        limit_s = min(self.spec.client.request_timeout_s, self._left_s())
        result = await self.client.ask(protocol.api, body, expected_model=self.endpoint.served_model, timeout_s=limit_s)
        return result.failure if isinstance(result, Refusal) else result

    async def _version(self) -> str | None:
        path = self.spec.engine.version_path
        reply = await self.client.get(path, timeout_s=_SHORT_S) if path else None
        version = reply.data.get("version") if isinstance(reply, Reply) else None
        return escape_terminal(version, limit=80) if isinstance(version, str) else None

    async def _wait_or_give_up(self, failure: Failure) -> None:
        self.tries += 1
        self._refuse_hopeless(failure)
        gone = self.watch()
        if gone is not None:
            raise InfraError(f"the server died while starting: {gone}", reason="server-died")
        if self._left_s() <= _POLL_S:
            waited_s = time.monotonic() - self.began_s
            what = f"{self.endpoint.base_url} was not ready after {waited_s:.0f} s and {self.tries} tries: "
            hint = "raise engine.startup_timeout_s if it is still loading" + self._where_to_look()
            raise InfraError(what + failure.detail, reason="not-ready", hint=hint)
        if failure.kind is not self.waits_for:
            self.waits_for = failure.kind
            self.on_wait(failure.detail)
        await asyncio.sleep(_POLL_S)

    def _refuse_hopeless(self, failure: Failure) -> None:
        if failure.kind in _HOPELESS:
            key = self.spec.engine.api_key_env
            is_bad_key = failure.kind is FailureKind.UNAUTHORIZED and key is not None
            hint = f"check the value of {key}" if is_bad_key else _HOPELESS[failure.kind]
            raise InfraError(failure.detail, reason=_code(failure.kind), hint=hint)
        if failure.kind is FailureKind.NOT_FOUND:
            other = Api.COMPLETIONS if self.spec.protocol.api is Api.CHAT else Api.CHAT
            hint = f"if the server only speaks the other route: protocol.api={other.value} (another protocol)"
            raise InfraError(failure.detail, reason=_code(failure.kind), hint=hint)
        if failure.kind is FailureKind.WRONG_MODEL:
            hint = "set engine.expected_model to the served name if it is the same model"
            raise InfraError(failure.detail, reason=_code(failure.kind), hint=hint)

    def _left_s(self) -> float:
        passed_s = time.monotonic() - self.began_s
        return max(self.spec.engine.startup_timeout_s - passed_s, 0.01)

    def _where_to_look(self) -> str:
        process = self.endpoint.process
        return ", or check engine.base_url" if process is None else f"; its log: {process.log_path}"


def _code(kind: FailureKind) -> str:
    return kind.value.replace("_", "-")


def _model_names(reply: Reply) -> tuple[str, ...] | None:
    listed = reply.data.get("data")
    if not isinstance(listed, list):
        return None
    return tuple(str(item["id"]) for item in listed if isinstance(item, dict) and "id" in item)
