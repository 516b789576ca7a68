"""Whether the server is the right one and really answers: process, HTTP, model list, one real completion."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gatekit.engine.serve import Endpoint
from gatekit.errors import InfraError
from gatekit.records.answers import Completion, Failure, FailureKind, Prompt
from gatekit.records.spec import Api, Spec
from gatekit.report.escape import escape_terminal
from gatekit.run.client import Client, Refusal, Reply
from gatekit.run.hints import hint
from gatekit.run.requests import bodies
from gatekit.run.server_info import described
from gatekit.run.server_process import log_tail

MODELS_PATH = "/v1/models"
_POLL_S = 0.25
_SHORT_S = 10.0
_AFTER_S = 5.0
_PAUSE_AFTER_S = 0.5
_WARM_UP = "Question: What is 1 + 1?\nAnswer:"
_HOPELESS = frozenset(
    {
        FailureKind.DNS,
        FailureKind.TLS,
        FailureKind.UNAUTHORIZED,
        FailureKind.REDIRECT,
        FailureKind.REJECTED,
        FailureKind.NOT_FOUND,
        FailureKind.WRONG_MODEL,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who answers: the model names it lists (None where it lists none), its version, and what else it says of itself.

    `info` is asked for once, before the run.
    """

    models: tuple[str, ...] | None
    version: str | None
    info: Mapping[str, str] = field(default_factory=dict)


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

    async def identity_again(self, before: Identity) -> Identity:
        """The identity after the run, asked for until all that was known before is known again, or for 5 s.

        What cannot be had by then is None.
        """
        end_s = time.monotonic() + _AFTER_S
        models, version = None, None
        while (left_s := end_s - time.monotonic()) > 0:
            found = await self._models(left_s)
            models = models if isinstance(found, Failure) else found
            version = await self._version(max(end_s - time.monotonic(), _PAUSE_AFTER_S)) or version
            has_models = models is not None or before.models is None
            if has_models and (version is not None or before.version is None):
                break
            await asyncio.sleep(_PAUSE_AFTER_S)
        return Identity(models=models, version=version)

    async def _known_identity(self) -> Identity:
        while isinstance(models := await self._models(_SHORT_S), Failure):
            await self._wait_or_give_up(models, "cannot be verified")
        expected = self.endpoint.served_model
        if models is not None and expected not in models:
            served = ", ".join(escape_terminal(name, limit=80) for name in models[:5]) or "no model"
            what = f"expected model {expected}, {self.endpoint.base_url} serves {served}"
            raise InfraError(what, reason="wrong-model", hint=hint(FailureKind.WRONG_MODEL, self.spec))
        return Identity(models=models, version=await self._version(_SHORT_S), info=await self._info(_SHORT_S))

    async def _models(self, timeout_s: float) -> tuple[str, ...] | Failure | None:
        """The model list now, None where the server has none (404), or why it cannot be read."""
        reply = await self.client.get(MODELS_PATH, timeout_s=timeout_s)
        if isinstance(reply, Refusal):
            return None if reply.failure.kind is FailureKind.NOT_FOUND else reply.failure
        names = _model_names(reply)
        if names is None:
            return Failure(kind=FailureKind.BAD_SHAPE, detail=f"{MODELS_PATH} is no list of models")
        return names

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

    async def _version(self, timeout_s: float) -> str | None:
        path = self.spec.engine.version_path
        reply = await self.client.get(path, timeout_s=timeout_s) if path else None
        version = reply.data.get(self.spec.engine.version_key) if isinstance(reply, Reply) else None
        return escape_terminal(version, limit=80) if isinstance(version, str) else None

    async def _info(self, timeout_s: float) -> dict[str, str]:
        path = self.spec.engine.info_path
        reply = await self.client.get(path, timeout_s=timeout_s) if path else None
        return described(reply.data, self.spec.engine.info_keys) if isinstance(reply, Reply) else {}

    async def _wait_or_give_up(self, failure: Failure, lack: str = "was not ready") -> None:
        self.tries += 1
        if failure.kind in _HOPELESS:
            code = failure.kind.value.replace("_", "-")
            raise InfraError(failure.detail, reason=code, hint=hint(failure.kind, self.spec))
        gone = self.watch()
        if gone is not None:
            raise InfraError(f"the server died while starting: {gone}", reason="server-died")
        if self._left_s() <= _POLL_S:
            waited_s = time.monotonic() - self.began_s
            what = f"{self.endpoint.base_url} {lack} after {waited_s:.0f} s and {self.tries} tries: "
            longer = "raise engine.startup_timeout_s if it is still loading" + self._where_to_look()
            raise InfraError(what + failure.detail, reason="not-ready", hint=longer)
        if failure.kind is not self.waits_for:
            self.waits_for = failure.kind
            self.on_wait(failure.detail)
        await asyncio.sleep(_POLL_S)

    def _left_s(self) -> float:
        passed_s = time.monotonic() - self.began_s
        return max(self.spec.engine.startup_timeout_s - passed_s, 0.01)

    def _where_to_look(self) -> str:
        if self.endpoint.process is None:
            return ", or check engine.base_url"
        last = log_tail(self.endpoint, 1)
        return f"; its log: {self.endpoint.process.log_path}" + (f", its last line: {last[0]}" if last else "")


def _model_names(reply: Reply) -> tuple[str, ...] | None:
    listed = reply.data.get("data")
    if not isinstance(listed, list):
        return None
    return tuple(str(item["id"]) for item in listed if isinstance(item, dict) and "id" in item)
