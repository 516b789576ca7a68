"""One measurement: the server up, known and ready; every question asked; the server still the same."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gatekit.engine.serve import Endpoint, serve
from gatekit.errors import ExitCode, InfraError, Interrupted
from gatekit.records.answers import Observation
from gatekit.records.run import Served
from gatekit.run.client import Client
from gatekit.run.journal import Journal
from gatekit.run.loop import Answer, Asking
from gatekit.run.observe import Observer, suspicions
from gatekit.run.plan import Plan
from gatekit.run.progress import Progress
from gatekit.run.readiness import Identity, Readiness
from gatekit.run.requests import bodies
from gatekit.run.signals import Stop, StoppedError, stop_on_signals, unless_stopped
from gatekit.run.stopping import NeverStopping, Stopping, StopReason

JOURNAL_NAME = "journal.jsonl"
_TAIL_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One observation per question, who answered (None: nobody was ready), and what went wrong, if at all.

    `stopped_early` says why the remaining questions were not needed; they have no observation then. `warnings`
    is what could not be verified or looks wrong, `events` what else is worth keeping.
    """

    observations: tuple[Observation, ...]
    served: Served | None
    failure: InfraError | None
    stopped_early: str | None = None
    warnings: tuple[str, ...] = ()
    events: tuple[str, ...] = ()


def measure(
    plan: Plan, *, environ: Mapping[str, str], progress: Progress, stopping: Stopping | None = None
) -> Measured:
    """What asking brought; every process that it started is gone.

    Without `stopping` every question is asked.

    Raises InfraError when the engine cannot be started at all, and Interrupted after a signal.
    """
    progress.phase(f"starting engine {plan.spec.engine.name}")
    known = plan.selection.questions
    with serve(plan.spec, run_dir=plan.run_dir, questions=known, environ=environ) as endpoint:
        return asyncio.run(_measure(plan, endpoint, progress, stopping or NeverStopping()))


async def _measure(plan: Plan, endpoint: Endpoint, progress: Progress, stopping: Stopping) -> Measured:
    client = Client(
        endpoint.base_url,
        api_key=endpoint.api_key,
        request_timeout_s=plan.spec.client.request_timeout_s,
    )
    with stop_on_signals() as stop, Journal(plan.run_dir / JOURNAL_NAME) as journal:
        observer = Observer(plan, journal, progress)
        async with client:
            pass_ = _Pass(plan, endpoint, client, observer, progress, stopping)
            failure = await pass_.run(stop)
        if stop.signal is not None:
            raise _interrupted(stop.signal, observer.done, plan)
    stopped = pass_.stopped
    observations = observer.in_order(failure) if stopped is None else observer.finished()
    unverified = _unverified(endpoint, pass_.identity)
    return Measured(
        observations=observations,
        served=_served(plan, endpoint, pass_.identity),
        failure=failure,
        stopped_early=None if stopped is None else stopped.text,
        warnings=(*unverified, *pass_.warnings, *suspicions(observations)),
        events=pass_.events,
    )


def _unverified(endpoint: Endpoint, identity: Identity | None) -> tuple[str, ...]:
    if identity is None or identity.models is not None:
        return ()
    return (f"not verified: {endpoint.base_url} lists no models, so that any model may have answered",)


class _Pass:
    """Readiness, questions, identity: in this order, once."""

    def __init__(
        self,
        plan: Plan,
        endpoint: Endpoint,
        client: Client,
        observer: Observer,
        progress: Progress,
        stopping: Stopping,
    ) -> None:
        self.plan = plan
        self.endpoint = endpoint
        self.client = client
        self.observer = observer
        self.progress = progress
        self.stopping = stopping
        self.identity: Identity | None = None
        self.stopped: StopReason | None = None
        self.warnings: tuple[str, ...] = ()
        self.events: tuple[str, ...] = ()

    async def run(self, stop: Stop) -> InfraError | None:
        """What went wrong, or None; returns early when a signal came."""
        watch = _watch(self.endpoint)
        waiting = f"waiting for {self.endpoint.base_url}"
        self.progress.phase(waiting)
        readiness = Readiness(
            self.plan.spec,
            self.endpoint,
            self.client,
            watch,
            on_wait=lambda why: self.progress.phase(f"{waiting}: {why}"),
        )
        try:
            self.identity = await unless_stopped(readiness.wait(), stop)
            self.events += (f"ready after {time.monotonic() - readiness.began_s:.1f} s",)
            self.progress.phase(f"asking {len(self.plan.prompts)} questions")
            asking = self._asking(watch)
            failure = await asking.run(stop)
            self.stopped = asking.stopped
            if failure is None and not stop.is_set():
                self._compare(self.identity, await readiness.identity_again())
        except StoppedError:
            return None
        except InfraError as error:
            return error
        return failure

    def _compare(self, before: Identity, after: Identity | None) -> None:
        """Two known and different answers are a change; what could not be asked again is said, and no change."""
        if after is None:
            self.warnings += ("not verified: who answered could not be asked again after the run",)
            return
        models, versions = (before.models, after.models), (before.version, after.version)
        if any(None not in pair and pair[0] != pair[1] for pair in (models, versions)):
            what = f"the server changed during the run: {before.models} {before.version} before, "
            what += f"{after.models} {after.version} after"
            raise InfraError(what, reason="server-changed", hint="answers of two servers are never pooled")

    def _asking(self, watch: Callable[[], str | None]) -> Asking:
        spec = self.plan.spec
        return Asking(
            self.client,
            bodies(self.plan.prompts, spec.protocol, self.endpoint.served_model),
            api=spec.protocol.api,
            limits=spec.client,
            expected_model=self.endpoint.served_model,
            on_answer=self._take,
            watch=watch,
            stopping=self.stopping,
        )

    def _take(self, answer: Answer) -> None:
        self.stopping.answered(answer.index, self.observer.add(answer))


def _watch(endpoint: Endpoint) -> Callable[[], str | None]:
    """Why the server's process is gone, or None while it lives (or was never ours)."""
    process = endpoint.process

    def gone() -> str | None:
        code = None if process is None else process.poll()
        if process is None or code is None:
            return None
        tail = process.tail(_TAIL_LINES).strip().replace("\n", " | ")
        return f"exit code {code}, log {process.log_path}" + (f", its end: {tail}" if tail else "")

    return gone


def _interrupted(number: signal.Signals, done: int, plan: Plan) -> Interrupted:
    what = f"{number.name} after {done} of {len(plan.prompts)} questions: no verdict, no record"
    code = ExitCode.INTERRUPTED if number is signal.SIGINT else ExitCode.TERMINATED
    return Interrupted(what, exit_code=code, hint=f"the answers so far are in {plan.run_dir / JOURNAL_NAME}")


def _served(plan: Plan, endpoint: Endpoint, identity: Identity | None) -> Served | None:
    if identity is None:
        return None
    build = endpoint.build
    if build is None and identity.version is not None:
        build = f"{plan.spec.engine.name}-{identity.version}"
    return Served(
        engine=plan.spec.engine.name,
        build=build,
        model=endpoint.served_model,
        base_url=endpoint.base_url,
        simulated=endpoint.simulated,
        details=endpoint.details,
    )
