"""One measurement: the server up, known and ready; every question asked; the server still the same."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gatekit.engine.serve import Endpoint, serve
from gatekit.errors import ExitCode, InfraError, Interrupted
from gatekit.records.answers import Cell, Observation, Status
from gatekit.records.run import Served
from gatekit.records.spec import EngineKind, Spec
from gatekit.run.client import Client
from gatekit.run.context import tight_contexts
from gatekit.run.counted import with_scope
from gatekit.run.empties import believed, still_open
from gatekit.run.ends import unended
from gatekit.run.identity import Identity, served, unverified
from gatekit.run.journal import Journal
from gatekit.run.journal_lines import Done, Kept
from gatekit.run.kept_answers import refuse_changed
from gatekit.run.observe import Observer, suspicions
from gatekit.run.one_pass import OnePass
from gatekit.run.plan import Plan
from gatekit.run.progress import Progress
from gatekit.run.server_process import log_tail
from gatekit.run.signals import DRAIN_S, Stop, stop_on_signals
from gatekit.run.stopping import NeverStopping, Stopping

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LOG_LINES = 50
_DRAINING = f"{DRAIN_S:g} s for answers in flight; a second one stops at once"
# Answers that came before one of these may not be those of the server that was to be measured.
_SPOIL = frozenset({"server-changed", "port-taken", "weights-changed"})
_MOST_SEED_DIGITS = 10


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
        pass_ = OnePass(plan, journal, endpoint, client, observer, progress, stopping)
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


def _interrupted(name: str, code: ExitCode, observer: Observer, plan: Plan) -> Interrupted:
    what = f"{name} after {observer.answered} of {plan.answers} answers: no verdict, no record"
    return Interrupted(what, exit_code=code, hint=f"the answers so far are in {plan.run_dir}")
