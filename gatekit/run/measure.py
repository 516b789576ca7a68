"""One measurement: the server up, known and ready; every question asked; the server still the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gatekit.engine.serve import Endpoint, serve
from gatekit.errors import ExitCode, InfraError, Interrupted
from gatekit.records.answers import Cell, Completion, Observation, Status
from gatekit.records.run import Served
from gatekit.records.spec import EngineKind, Spec
from gatekit.run.client import Client
from gatekit.run.collector import seldom_collecting
from gatekit.run.context import tight_contexts, within_context
from gatekit.run.counted import with_scope
from gatekit.run.empties import believed, still_open, while_asking
from gatekit.run.ends import unended
from gatekit.run.hints import hint
from gatekit.run.identity import Identity, served, unverified
from gatekit.run.journal import Journal
from gatekit.run.journal_lines import Done, Kept, ServerSeen
from gatekit.run.kept_answers import refuse_changed
from gatekit.run.loop import Answer, Asking
from gatekit.run.observe import Observer, suspicions
from gatekit.run.plan import Plan
from gatekit.run.port_watch import watched
from gatekit.run.progress import Progress
from gatekit.run.readiness import Readiness
from gatekit.run.recheck import Recheck
from gatekit.run.requests import bodies
from gatekit.run.same_server import refuse_another, seen
from gatekit.run.server_process import log_tail
from gatekit.run.signals import DRAIN_S, Stop, StoppedError, stop_on_signals, unless_stopped
from gatekit.run.stopping import NeverStopping, Stopping, StopReason
from gatekit.task.answer_text import answer_under

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LOG_LINES = 50
_DRAINING = f"{DRAIN_S:g} s for answers in flight; a second one stops at once"
# Answers that came before one of these may not be those of the server that was to be measured.
_SPOIL = frozenset({"server-changed", "port-taken", "weights-changed"})
_MOST_SEED_DIGITS = 10
_READY = "ready after"


# asyncio spells out the result of a task when it puts the signal handlers back: megabytes of answers.
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Measured:
    """One observation per question and repeat, who answered (None: nobody was ready), and what went wrong, if at all.

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
    plan: Plan,
    journal: Journal,
    *,
    environ: Mapping[str, str],
    progress: Progress,
    stopping: Stopping | None = None,
) -> Measured:
    """What asking brought; every process that it started is gone.

    What the journal kept of earlier parts is not asked again, and where nothing is missing no server is started.
    Without `stopping` every other question is asked.

    Raises InfraError when the engine cannot be started at all, or is another than the one that began the run, and
    Interrupted after a signal.
    """
    kept = journal.kept
    observer = Observer(plan, journal, progress, () if kept is None else kept.answers)
    stopping = stopping or NeverStopping()
    if kept is not None:
        refuse_changed(kept, plan.extractor, journal.path)
        if kept.done is not None and _holds(kept.done, observer, stopping):
            return _measured_before(plan, observer, kept, kept.done)
    progress.phase(_beginning(plan.spec))
    served_as = _same_flips(plan.spec, kept)
    known, answered = plan.selection.questions, _answered(kept)
    try:
        with serve(served_as, run_dir=plan.run_dir, questions=known, environ=environ, answered=answered) as endpoint:
            measured = asyncio.run(_measure(plan, journal, endpoint, observer, progress, stopping))
        return replace(measured, warnings=(*endpoint.notices, *measured.warnings))
    except KeyboardInterrupt as error:  # before asking, or the second one while the server stops
        code = getattr(error, "exit_code", ExitCode.INTERRUPTED)
        name = "SIGINT" if code is ExitCode.INTERRUPTED else "SIGTERM"
        journal.end(name)
        raise _interrupted(name, code, observer, plan) from None


def _beginning(spec: Spec) -> str:
    """The phase before the first request: a server that is there is not started."""
    is_there = spec.engine.kind is EngineKind.ATTACH
    return f"looking at engine {spec.engine.name}" if is_there else f"starting engine {spec.engine.name}"


def _holds(done: Done, observer: Observer, stopping: Stopping) -> bool:
    """Whether the answers that a run is said to be done with are there: all of them, or as many as it stopped at."""
    there = dict(observer.ended())
    if done.stopped_early is None:
        return len(there) == observer.planned
    statuses = [still_open(there[index]) if index in there else None for index in range(observer.planned)]
    return stopping.suffices(statuses)


def _measured_before(plan: Plan, observer: Observer, kept: Kept, done: Done) -> Measured:
    """What an earlier part measured to its end."""
    observer.tell_all()
    scored = tuple(seen for _, seen in sorted(observer.ended()))
    return Measured(
        observations=believed(scored, plan.spec.gate.max_empty_share),
        served=done.served,
        failure=None,
        stopped_early=done.stopped_early,
        warnings=done.warnings,
        events=(*kept.events, "resumed when every answer was there: no server was started"),
    )


def _same_flips(spec: Spec, kept: Kept | None) -> Spec:
    """The spec to serve: a simulated model that goes on flips as it did."""
    seed = kept.servers[0].flip_seed if kept is not None and kept.servers else None
    is_known = seed is not None and len(seed) <= _MOST_SEED_DIGITS and seed.isascii() and seed.isdecimal()
    if spec.engine.kind is not EngineKind.SIM or spec.engine.flip_seed is not None or not is_known:
        return spec
    return replace(spec, engine=replace(spec.engine, flip_seed=int(seed or 0)))


def _answered(kept: Kept | None) -> tuple[Cell, ...]:
    """What is not asked again."""
    return tuple(seen.cell for seen in (kept.answers if kept else ()) if seen.status is not Status.LOST)


async def _measure(
    plan: Plan, journal: Journal, endpoint: Endpoint, observer: Observer, progress: Progress, stopping: Stopping
) -> Measured:
    client = Client(
        endpoint.base_url,
        api_key=endpoint.api_key,
        request_timeout_s=plan.spec.client.request_timeout_s,
        streams=plan.spec.protocol.stream,
        hidden=endpoint.hidden,
    )
    with stop_on_signals(lambda number: progress.phase(f"{number.name}: {_DRAINING}")) as stop:
        pass_ = _Pass(plan, journal, endpoint, client, observer, progress, stopping)
        async with client, _syncing(journal, observer):
            failure = await pass_.run(stop)
        if stop.signal is not None:
            _stopped_by(stop, journal, endpoint)
            code = ExitCode.INTERRUPTED if stop.signal.name == "SIGINT" else ExitCode.TERMINATED
            raise _interrupted(stop.signal.name, code, observer, plan)
    stopped = pass_.stopped
    scored = observer.in_order(failure) if stopped is None else observer.finished()
    observations = believed(scored, plan.spec.gate.max_empty_share)
    unsure = (
        *unverified(endpoint, pass_.identity if pass_.was_ready else None, client.models_answered),
        *unended(client.unended),
    )
    log = () if failure is None else tuple(f"server log: {line}" for line in log_tail(endpoint, _LOG_LINES))
    measured = Measured(
        observations=observations,
        served=_with_scope(plan.spec, endpoint, pass_.identity, journal.kept),
        failure=failure,
        stopped_early=None if stopped is None else stopped.text,
        warnings=(*unsure, *pass_.warnings, *suspicions(observations), *tight_contexts(observations, plan.spec)),
        events=(*pass_.events, *log),
    )
    _close(journal, measured, has_asked=pass_.asking is not None)
    return measured


def _with_scope(spec: Spec, endpoint: Endpoint, identity: Identity | None, kept: Kept | None) -> Served | None:
    is_resumed = kept is not None and bool(kept.servers)
    return with_scope(served(spec, endpoint, identity), spec, is_resumed=is_resumed)


def _stopped_by(stop: Stop, journal: Journal, endpoint: Endpoint) -> None:
    journal.end(stop.signal.name if stop.signal is not None else "")
    if stop.is_hasty and endpoint.process is not None:
        endpoint.process.stop(0)


def _close(journal: Journal, measured: Measured, *, has_asked: bool) -> None:
    """Write how it ended, and so whether the rest may be asked later."""
    failure = measured.failure
    if failure is None:
        end = Done(served=measured.served, stopped_early=measured.stopped_early, warnings=measured.warnings)
        journal.done(end)
    elif failure.reason in _SPOIL and has_asked:
        journal.spoil(failure.message)
    else:
        journal.end(failure.reason)


@asynccontextmanager
async def _syncing(journal: Journal, observer: Observer) -> AsyncIterator[None]:
    """Inside of it answers reach the disk, and are told of, a moment after they came."""
    task = asyncio.create_task(journal.sync_often(observer.tell))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _Pass:
    """Readiness, questions, identity: in this order, once."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        endpoint: Endpoint,
        client: Client,
        observer: Observer,
        progress: Progress,
        stopping: Stopping,
    ) -> None:
        self.plan = plan
        self.journal = journal
        self.endpoint = endpoint
        self.client = client
        self.observer = observer
        self.progress = progress
        self.stopping = stopping
        self._look = watched(endpoint)
        self.identity: Identity | None = None
        self.was_ready = False
        self.stopped: StopReason | None = None
        self.asking: Asking | None = None
        self.recheck: Recheck | None = None
        self._events_kept = 0
        self._version: str | None = None
        self.warnings: tuple[str, ...] = ()
        self.events: tuple[str, ...] = () if journal.kept is None else journal.kept.events

    async def run(self, stop: Stop) -> InfraError | None:
        """What went wrong, or None; returns early when a signal came.

        Raises InfraError for another server than the one that began the run: nothing was asked then.
        """
        try:
            readiness, identity = await self._ready(stop)
        except StoppedError:
            return None
        except InfraError as error:
            return error
        self._goes_on(seen(self.endpoint, identity))
        try:
            recheck = Recheck(readiness.identification, identity, self.journal, self._note)
            failure = await self._ask(stop, recheck)
            self.observer.tell_all()
            if failure is None and not stop.is_set():
                self.identity = await unless_stopped(recheck.look(), stop)
                self.warnings += self.identity.warnings
        except StoppedError:
            return None
        except InfraError as error:
            return error
        return failure

    def watch(self) -> str | None:
        """Why the server's process is gone. Raises InfraError for a stranger on its port, and for answers of two."""
        self.client.fingerprints.refuse_two()
        return self._look()

    async def _ready(self, stop: Stop) -> tuple[Readiness, Identity]:
        waiting = f"waiting for {self.endpoint.base_url}"
        self.progress.phase(waiting)
        readiness = Readiness(
            self.plan.spec,
            self.endpoint,
            self.client,
            self.watch,
            on_wait=lambda why: self.progress.phase(f"{waiting}: {why}"),
        )
        try:
            self.identity = await unless_stopped(readiness.wait(), stop)
        except InfraError as error:
            if error.reason != "port-taken":  # else it was somebody else who said it
                self.identity = await unless_stopped(readiness.identification.so_far(), stop)
            raise
        self.was_ready = True
        self.warnings += self.identity.warnings
        self.events += (f"{_READY} {time.monotonic() - readiness.began_s:.1f} s", *readiness.notes)
        return readiness, self.identity

    def _goes_on(self, server: ServerSeen) -> None:
        """Take up what earlier parts left, if this is their server, and write that it answers from here on."""
        kept = self.journal.kept
        earlier: tuple[str, ...] = () if kept is None else kept.events
        new = self.events[len(earlier) :]
        if kept is not None:
            self.warnings += refuse_another(kept.servers, server)
            for index, observation in self.observer.in_order_of_completion():
                self.stopping.dispatched(index)
                self.stopping.answered(index, still_open(observation))
            new = (_resumed(self.observer, self.plan.answers, kept), *new)
        self.journal.server(server)
        self._version = server.version
        for event in new:
            self.journal.event(event)
        self.events = (*earlier, *new)

    def _note(self, identity: Identity) -> None:
        """Write who answers once more where its version became known, so that whoever goes on compares with it."""
        if identity.version != self._version:
            self._version = identity.version
            self.journal.server(seen(self.endpoint, identity))

    async def _ask(self, stop: Stop, recheck: Recheck) -> InfraError | None:
        """Ask what is missing, unless what is there is enough. Raises InfraError once another server answers."""
        missing = self.observer.missing
        self.stopped = self.stopping.verdict()
        if not missing or self.stopped is not None:
            return None
        self.observer.tell_all()
        planned, repeats = self.plan.answers, self.plan.spec.protocol.repeats
        what = f"{planned}" if len(missing) == planned else f"the {len(missing)} missing ones of {planned}"
        units = "questions" if repeats == 1 else f"answers ({repeats} repeats of {planned // repeats} questions)"
        self.progress.phase(f"asking {what} {units}")
        self.recheck = recheck
        self.asking = self._asking(_until(stop, missing))
        asking, checking = asyncio.create_task(self.asking.run(stop.at_once)), asyncio.create_task(recheck.run())
        try:
            with seldom_collecting():
                await asyncio.wait({asking, checking}, return_when=asyncio.FIRST_COMPLETED)
                failure = asking.result() if asking.done() else await checking
        finally:
            for task in (asking, checking):
                task.cancel()
            await asyncio.gather(asking, checking, return_exceptions=True)
            self._keep_events(self.asking)
        self.stopped = self.asking.stopped
        return failure

    def _keep_events(self, asking: Asking) -> None:
        """What happens on the way is in the journal as soon as the next answer is."""
        for event in asking.events[self._events_kept :]:
            self._events_kept += 1
            self.events += (event,)
            self.journal.event(event)

    def _asking(self, todo: Iterator[int]) -> Asking:
        spec = self.plan.spec
        return Asking(
            self.client,
            bodies(self.plan.prompts, spec.protocol, self.endpoint.served_model),
            api=spec.protocol.api,
            limits=spec.client,
            expected_model=self.endpoint.served_model,
            on_answer=self._take,
            watch=self.watch,
            stopping=self.stopping,
            hint=lambda kind: hint(kind, spec, has_answered=True),
            todo=todo,
            answered=self.observer.answered,
        )

    def _take(self, answer: Answer) -> None:
        if isinstance(answer.result, Completion):
            read = within_context(answer_under(self.plan.spec.protocol, answer.result), self.plan.spec)
            answer = answer if read is answer.result else replace(answer, result=read)
        if self.asking is not None and self.recheck is not None:
            self.recheck.before_answer(self.asking.lost_connection)
        observation = self.observer.add(answer)
        if self.asking is not None:
            self._keep_events(self.asking)
        self.stopping.answered(answer.index, while_asking(answer, observation.status))


def _until(stop: Stop, missing: Sequence[int]) -> Iterator[int]:
    """The missing questions, none any more once a signal came."""
    for index in missing:
        if stop.is_set():
            return
        yield index


def _resumed(observer: Observer, planned: int, kept: Kept) -> str:
    why = "was killed" if kept.end is None else f"ended by {kept.end}"
    why = why if kept.done is None else "said that every answer was there"
    starts = sum(event.startswith(_READY) for event in kept.events) + 1
    told = f"resumed at {observer.answered} of {planned} answers, after the part before {why}; server start {starts}"
    if not kept.unconfirmed:
        return told
    return f"{told}; asked again: {kept.unconfirmed} answers of a server that was not confirmed after a lost connection"


def _interrupted(name: str, code: ExitCode, observer: Observer, plan: Plan) -> Interrupted:
    what = f"{name} after {observer.answered} of {plan.answers} answers: no verdict, no record"
    return Interrupted(what, exit_code=code, hint=f"the answers so far are in {plan.run_dir}")
