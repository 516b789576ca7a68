"""One pass over a server: it is ready and known, everything missing is asked, and it is still the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gatekit.engine.serve import Endpoint
from gatekit.errors import InfraError
from gatekit.records.answers import Completion, Failure, FailureKind
from gatekit.run.client import Client
from gatekit.run.collector import seldom_collecting
from gatekit.run.context import within_context
from gatekit.run.empties import still_open, while_asking
from gatekit.run.hints import hint
from gatekit.run.identity import Identity
from gatekit.run.journal import Journal
from gatekit.run.journal_lines import Kept, ServerSeen
from gatekit.run.loop import Answer, Asking
from gatekit.run.observe import Observer
from gatekit.run.plan import Plan
from gatekit.run.port_watch import watched
from gatekit.run.progress import Progress
from gatekit.run.readiness import Readiness
from gatekit.run.recheck import Recheck
from gatekit.run.requests import bodies
from gatekit.run.same_server import refuse_another, seen, with_what_was_known
from gatekit.run.signals import Stop, StoppedError, unless_stopped
from gatekit.run.stopping import Stopping, StopReason
from gatekit.task.answer_text import answer_under

_READY = "ready after"


class OnePass:
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
        known = self._known(identity)
        try:
            recheck = Recheck(readiness.identification, known, self.journal, self._note)
            if known != identity:
                recheck.begin_in_doubt("the server does not tell what it told when the run began")
            failure = await self._ask(stop, recheck)
            self.observer.tell_all()
            if failure is None and not stop.is_set():
                self.identity = await unless_stopped(recheck.look(), stop)
                self.warnings += self.identity.warnings
            unconfirmed = self._unconfirmed(recheck)
            failure = failure or unconfirmed
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

    def _known(self, identity: Identity) -> Identity:
        """What is known of the server: what it says, and what it said when earlier parts of the run asked it."""
        kept = self.journal.kept
        if kept is None or self.endpoint.process is not None:
            return identity
        return with_what_was_known(identity, kept.servers)

    def _unconfirmed(self, recheck: Recheck) -> InfraError | None:
        """Why answers are lost that may be another server's; whoever goes on asks for them again."""
        places = recheck.unconfirmed
        if not places:
            return None
        self.stopped = None
        what = f"{len(places)} answers may be of another server: it does not say again all that was known of it before"
        self.observer.lose(places, Failure(kind=FailureKind.UNCONFIRMED, detail=what))
        return InfraError(what, reason="server-unconfirmed", hint="see who answers at engine.base_url")

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
            self.recheck.before_answer(self.asking.lost_connection, answer.index)
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
