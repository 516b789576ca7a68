"""The room's front: one spec, from plan to stored record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from gatekit import __version__
from gatekit.errors import ConfigError, InfraError
from gatekit.gate.decide import decide, sequential_test
from gatekit.gate.settled import settler
from gatekit.history.past import past_runs
from gatekit.history.place import connected, place_of
from gatekit.history.records_folder import JOURNAL_NAME, create_run_dir
from gatekit.history.remember import KeptError, remember
from gatekit.records.answers import count, statuses
from gatekit.records.lock import Lock
from gatekit.records.past import Past
from gatekit.records.run import RECORD_FORMAT, RunRecord
from gatekit.records.secrets import without_secrets
from gatekit.records.spec import EngineKind, Spec
from gatekit.records.verdict import Outcome, Verdict
from gatekit.run.journal import Journal
from gatekit.run.journal_lines import Header
from gatekit.run.measure import Measured, measure
from gatekit.run.plan import Plan, make_plan, refuse_recorded
from gatekit.run.progress import Progress
from gatekit.run.resume import refuse_other, take_over
from gatekit.run.stopping import EarlyStopping, NeverStopping, Stopping
from gatekit.run.weights_note import weights_notes

# These only cost answers; what was measured before them stands. Any other failure spoils the whole run.
_COST_ANSWERS = frozenset({"server-died", "server-unreachable", "deadline"})
_TO_THE_SECOND = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a run takes from the world: environment, clock, cache folder, and who watches."""

    environ: Mapping[str, str]
    now: Callable[[], datetime]
    cache_dir: Path
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run that came to a verdict. `path` is None when its record could not be stored; `storage_failure` says why,
    or, where there is a path, why it is not in the index."""

    record: RunRecord
    path: Path | None
    storage_failure: InfraError | None = None


def execute(
    spec: Spec, *, run_id: str, around: Surroundings, lock: Lock | None = None, takes_over: str | None = None
) -> Finished:
    """The verdict of one spec, with its record stored. `lock` is its locked threshold where it has one.

    A run of this id that was begun and has no record goes on: only the questions that its journal lacks are asked.
    One that `takes_over` the answers of another run begins with them.

    Raises ConfigError for wrong input, also where the run was begun with another spec or questions or is going on
    elsewhere; InfraError for a dataset, GPU, program or storage that is missing before any question is asked, and
    for another server than the one that began the run; Interrupted after SIGINT, SIGTERM or SIGHUP. What goes wrong
    later is a verdict.
    """
    around.progress.phase("checking machine, history and dataset")
    with connected(place_of(spec.history, around.environ)) as place:
        plan = make_plan(spec, place=place, run_id=run_id, cache_dir=around.cache_dir, environ=around.environ)
        past = replace(past_runs(place, spec, plan.comparability, exclude_run_id=run_id), lock=lock)
    header = _header(plan, _utc(around.now()))
    if takes_over is not None:
        take_over(plan.place.dir, header, takes_over)
        around.progress.phase(f"run {takes_over} has its verdict: its answers go on as run {run_id}")
    with Journal(create_run_dir(plan.place.dir, run_id) / JOURNAL_NAME) as journal:
        refuse_recorded(plan.place.dir, run_id)  # whoever held the journal until now may have written one
        if journal.kept is not None:
            refuse_other(journal.kept, header)
        journal.begin(header)
        try:
            return _finish(plan, journal, header, past, around)
        except (ConfigError, InfraError):  # no server, no answer, no verdict
            journal.discard(is_copy=takes_over is not None)
            raise


def _header(plan: Plan, began_at: str) -> Header:
    return Header(
        record=RECORD_FORMAT,
        run_id=plan.run_id,
        gatekit_version=__version__,
        began_at=began_at,
        spec=without_secrets(plan.spec),
        comparability=plan.comparability,
    )


def _finish(plan: Plan, journal: Journal, now: Header, past: Past, around: Surroundings) -> Finished:
    """`now` is the header that a run which begins now would have."""
    header = now if journal.kept is None else journal.kept.header
    stopping = _stopping(plan, past)
    measured = measure(plan, journal, environ=around.environ, progress=around.progress, stopping=stopping)
    future = _future(past, now.began_at)  # what ended since the first part began is no wonder
    weights = tuple(weights_notes(measured.served, past, plan.place))
    warnings = (*plan.selection.warnings, *measured.warnings, *weights, *stopping.notes, *future)
    record = RunRecord(
        run_id=plan.run_id,
        gatekit_version=__version__,
        started_at=header.began_at,
        finished_at=_utc(around.now()),
        spec=without_secrets(plan.spec),
        dataset=plan.dataset,
        comparability=plan.comparability,
        served=measured.served,
        counts=count(measured.observations, planned=len(plan.dataset.question_ids)),
        observations=measured.observations,
        verdict=_verdict(plan, measured, past, warnings),
        events=(*_other_version(header), *_events(measured)),
    )
    try:
        path, stored = remember(plan.place, record)
        return Finished(record=stored, path=path)
    except KeptError as error:
        return Finished(record=error.record, path=error.path, storage_failure=error)
    except InfraError as error:
        return Finished(record=record, path=None, storage_failure=error)


def _other_version(header: Header) -> tuple[str, ...]:
    """What a record says of a run that another gatekit began."""
    began_with = header.gatekit_version
    return () if began_with == __version__ else (f"begun by gatekit {began_with}, resumed by {__version__}",)


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _events(measured: Measured) -> tuple[str, ...]:
    failure = None if measured.failure is None else measured.failure.message
    return (*measured.events, *(event for event in (measured.stopped_early, failure) if event is not None))


def _stopping(plan: Plan, past: Past) -> Stopping:
    """Asks no more than the verdict needs; made before any server starts, so that a gate without what it needs
    is found now. Recorded answers cost nothing, so that a replay is always whole."""
    spec, n = plan.spec, len(plan.dataset.question_ids)
    if spec.engine.kind is EngineKind.REPLAY:
        return NeverStopping()
    return EarlyStopping(
        n,
        settled=settler(spec, n, past),
        decides=lambda found: decide(spec, found, past).outcome,
        test=sequential_test(spec, n, past),
        stop_on_pass=spec.gate.stop_on_pass,
    )


def _future(past: Past, started_at: str) -> tuple[str, ...]:
    """A run that was there when this part of the run began, and is dated after it: a clock was wrong, and only the
    order of arrival can be trusted."""
    late = [run for run in past.runs if run.finished_at[:_TO_THE_SECOND] > started_at[:_TO_THE_SECOND]]
    if not late:
        return ()
    what = f"run {late[-1].run_id} is dated {late[-1].finished_at}, after this one"
    return (f"a clock was wrong: {what}; earlier runs are taken in order of arrival",)


def _verdict(plan: Plan, measured: Measured, past: Past, warnings: tuple[str, ...]) -> Verdict:
    verdict = decide(plan.spec, statuses(measured.observations, plan.dataset.question_ids), past)
    failure = measured.failure
    stands = verdict.outcome is Outcome.FAIL and failure is not None and failure.reason in _COST_ANSWERS
    if failure is not None and not stands:
        verdict = replace(
            verdict,
            outcome=Outcome.INFRA,
            reason_code=failure.reason,
            reason=failure.message,
            hint=failure.hint,
        )
    elif failure is not None:
        warnings = (*warnings, failure.message)
    return replace(verdict, warnings=(*warnings, *verdict.warnings))
