"""Whether the server is the right one and really answers: process, HTTP, model list, one real completion."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from gatekit.engine.launch import ServerProcess
from gatekit.engine.loading import Loading, sample
from gatekit.engine.serve import Endpoint
from gatekit.errors import InfraError
from gatekit.records.answers import Completion, Failure, FailureKind
from gatekit.records.spec import Spec
from gatekit.run.client import Client, Refusal
from gatekit.run.hints import hint
from gatekit.run.identity import MODELS_PATH, Identification, Identity
from gatekit.run.model_list import ModelList
from gatekit.run.port_watch import refuse_stranger
from gatekit.run.requests import bodies
from gatekit.run.server_process import log_tail
from gatekit.task.prompts import prompt_of

_POLL_S = 0.25
_FIRST_POLL_S = 0.05
_SHORT_S = 10.0
_WATCH_S = 0.5
_TELL_EVERY_S = 10.0
_WORTH_A_NOTE_S = 60.0
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
        self.identification = Identification(spec, endpoint, client)
        self.watch = watch
        self.on_wait = on_wait
        self.began_s = time.monotonic()
        self.tries = 0
        self.waits_for: FailureKind | None = None
        self.notes: tuple[str, ...] = ()

    async def wait(self) -> Identity:
        """The server's identity once it has given one real completion.

        Raises InfraError when it dies, is somebody else, refuses for good, stalls for `engine.stall_timeout_s`, or does
        not answer in time. Meanwhile a started server is watched: no request that hangs hides its death.
        """
        if self.endpoint.process is None:
            return await self._ready()
        watching = asyncio.create_task(self._watch_it_load(self.endpoint.process))
        ready = asyncio.create_task(self._ready())
        try:
            await asyncio.wait((watching, ready), return_when=asyncio.FIRST_COMPLETED)
            return ready.result() if ready.done() else watching.result()
        finally:
            watching.cancel()
            ready.cancel()
            await asyncio.gather(watching, ready, return_exceptions=True)

    async def _watch_it_load(self, process: ServerProcess) -> NoReturn:
        """Says every few seconds what moves. Raises InfraError when the server is gone, a stranger's, or stalled."""
        loading = Loading(partial(sample, process))
        tell_s = _TELL_EVERY_S
        while True:
            await asyncio.sleep(_WATCH_S)
            self._refuse_dead()
            await asyncio.to_thread(loading.look)
            if loading.passed_s >= tell_s:
                tell_s = loading.passed_s + _TELL_EVERY_S
                self.on_wait(loading.told())
            if loading.longest_pause_s >= _WORTH_A_NOTE_S:
                self.notes = (f"no sign of life for {loading.longest_pause_s:.0f} s while starting",)
            self._refuse_stalled(loading.pause_s)

    def _refuse_dead(self) -> None:
        gone = self.watch()
        if gone is not None:
            raise InfraError(f"the server died while starting: {gone}", reason="server-died")

    def _refuse_stalled(self, pause_s: float) -> None:
        limit_s = self.spec.engine.stall_timeout_s
        if limit_s is not None and pause_s >= limit_s:
            what = f"{self.endpoint.base_url} gave no sign of life for {pause_s:.0f} s while starting"
            longer = "raise engine.stall_timeout_s if it is only slow" + self._where_to_look()
            raise InfraError(f"{what}: no output, no memory, no CPU", reason="server-stalled", hint=longer)

    async def _ready(self) -> Identity:
        await self._until_healthy()
        refuse_stranger(self.endpoint)
        models = await self._expected_models()
        while isinstance(failure := await self._warm_up(), Failure):
            await self._wait_or_give_up(failure)
        return await self.identification.before(models, files_within_s=max(self._left_s(), _SHORT_S))

    async def _expected_models(self) -> ModelList | None:
        while isinstance(models := await self.identification.models(min(_SHORT_S, self._left_s())), Failure):
            await self._wait_or_give_up(models, "cannot be verified")
        return self.identification.expected_among(models)

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
        body = bodies([prompt_of(_WARM_UP, protocol, -1)], protocol, self.endpoint.served_model)[0]
        limit_s = min(self.spec.client.request_timeout_s, self._left_s())
        result = await self.client.ask(protocol.api, body, expected_model=self.endpoint.served_model, timeout_s=limit_s)
        return result.failure if isinstance(result, Refusal) else result

    async def _wait_or_give_up(self, failure: Failure, lack: str = "was not ready") -> None:
        self.tries += 1
        self._refuse_dead()
        if failure.kind in _HOPELESS:
            refuse_stranger(self.endpoint)
            code = failure.kind.value.replace("_", "-")
            raise InfraError(failure.detail, reason=code, hint=hint(failure.kind, self.spec))
        if self._left_s() <= _POLL_S:
            waited_s = time.monotonic() - self.began_s
            what = f"{self.endpoint.base_url} {lack} after {waited_s:.0f} s and {self.tries} tries: "
            longer = "raise engine.startup_timeout_s if it is still loading" + self._where_to_look()
            raise InfraError(what + failure.detail, reason="not-ready", hint=longer)
        if failure.kind is not self.waits_for:
            self.waits_for = failure.kind
            self.on_wait(self._limit_named() + failure.detail)
        await asyncio.sleep(min(_FIRST_POLL_S * self.tries, _POLL_S))

    def _limit_named(self) -> str:
        """How long it waits, for a server whose loading cannot be watched."""
        return "" if self.endpoint.process is not None else f"up to {self.spec.engine.startup_timeout_s:g} s: "

    def _left_s(self) -> float:
        passed_s = time.monotonic() - self.began_s
        return max(self.spec.engine.startup_timeout_s - passed_s, 0.01)

    def _where_to_look(self) -> str:
        if self.endpoint.process is None:
            return ", or check engine.base_url"
        last = log_tail(self.endpoint, 1)
        return f"; its log: {self.endpoint.process.log_path}" + (f", its last line: {last[0]}" if last else "")
