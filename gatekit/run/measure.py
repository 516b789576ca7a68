"""One measurement: the server up, known and ready; every question asked; the server still the same."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from gatekit.engine.serve import Endpoint, serve
from gatekit.errors import ExitCode, InfraError, Interrupted
from gatekit.records.answers import Observation
from gatekit.records.run import Served
from gatekit.report.escape import escape_terminal
from gatekit.run.client import Client
from gatekit.run.hints import hint
from gatekit.run.journal import Journal
from gatekit.run.loop import Answer, Asking
from gatekit.run.observe import Observer, suspicions
from gatekit.run.plan import Plan
from gatekit.run.progress import Progress
from gatekit.run.readiness import Identity, Readiness
from gatekit.run.requests import bodies
from gatekit.run.server_process import gone, log_tail
from gatekit.run.signals import Stop, StoppedError, stop_on_signals, unless_stopped
from gatekit.run.stopping import NeverStopping, Stopping, StopReason

JOURNAL_NAME = "journal.jsonl"
_LOG_LINES = 50
_SHOWN_NAMES = 5


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
    unverified = _unverified(endpoint, pass_.identity, client.models_answered)
    log = () if failure is None else tuple(f"server log: {line}" for line in log_tail(endpoint, _LOG_LINES))
    return Measured(
        observations=observations,
        served=_served(plan, endpoint, pass_.identity),
        failure=failure,
        stopped_early=None if stopped is None else stopped.text,
        warnings=(*unverified, *pass_.warnings, *suspicions(observations)),
        events=(*pass_.events, *log),
    )


def _unverified(endpoint: Endpoint, identity: Identity | None, answered: Collection[str]) -> tuple[str, ...]:
    if identity is None or identity.models is not None:
        return ()
    what = f"not verified: {endpoint.base_url} lists no models"
    if answered:
        return (f"{what}; that {endpoint.served_model} answered is what its answers say",)
    return (f"{what} and its answers name none: any model may have answered",)


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
        watch = partial(gone, self.endpoint)
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
            self.events += tuple(asking.events)
            if failure is None and not stop.is_set():
                self._compare(self.identity, await unless_stopped(readiness.identity_again(self.identity), stop))
        except StoppedError:
            return None
        except InfraError as error:
            return error
        return failure

    def _compare(self, before: Identity, after: Identity) -> None:
        """Two known and different answers are a change; what could not be asked again is said, and no change."""
        if _differ(_set(before.models), _set(after.models)) or _differ(before.version, after.version):
            what = f"the server changed during the run: {_shown(before)} before, {_shown(after)} after"
            raise InfraError(what, reason="server-changed", hint="answers of two servers are never pooled")
        pairs = {"the model list": (before.models, after.models), "the version": (before.version, after.version)}
        missing = " and ".join(name for name, (old, new) in pairs.items() if old is not None and new is None)
        if missing:
            self.warnings += (f"not verified: {missing} could not be checked after the run",)

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
            hint=lambda kind: hint(kind, spec),
        )

    def _take(self, answer: Answer) -> None:
        self.stopping.answered(answer.index, self.observer.add(answer))


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
        details={**identity.info, **endpoint.details},
    )
