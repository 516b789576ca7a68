"""The room's front: one spec, from plan to stored record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from gatekit import __version__
from gatekit.errors import InfraError
from gatekit.gate.decide import decide
from gatekit.history.remember import remember
from gatekit.records.answers import count
from gatekit.records.run import RunRecord
from gatekit.records.spec import Spec
from gatekit.records.verdict import Outcome, Verdict
from gatekit.run.measure import Measured, measure
from gatekit.run.plan import make_plan
from gatekit.run.progress import Progress

# These only cost answers; what was measured before them stands. Any other failure spoils the whole run.
_COST_ANSWERS = frozenset({"server-died", "server-unreachable", "deadline"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a run takes from the world: environment, clock, cache folder, and who watches."""

    environ: Mapping[str, str]
    now: Callable[[], datetime]
    cache_dir: Path
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run that came to a verdict. `path` is None when its record could not be stored: `storage_failure`."""

    record: RunRecord
    path: Path | None
    storage_failure: InfraError | None = None


def execute(spec: Spec, *, run_id: str, around: Surroundings) -> Finished:
    """The verdict of one spec, with its record stored.

    Raises ConfigError for wrong input; InfraError for a dataset, GPU, program or storage that is missing
    before any question is asked; Interrupted after SIGINT, SIGTERM or SIGHUP. What goes wrong later is a
    verdict.
    """
    around.progress.phase("checking machine, history and dataset")
    plan = make_plan(spec, run_id=run_id, cache_dir=around.cache_dir, environ=around.environ)
    started_at = _utc(around.now())
    measured = measure(plan, environ=around.environ, progress=around.progress)
    record = RunRecord(
        run_id=run_id,
        gatekit_version=__version__,
        started_at=started_at,
        finished_at=_utc(around.now()),
        spec=spec,
        dataset=plan.dataset,
        comparability=plan.comparability,
        served=measured.served,
        counts=count(measured.observations),
        observations=measured.observations,
        verdict=_verdict(spec, measured, plan.selection.warnings),
        events=() if measured.failure is None else (measured.failure.message,),
    )
    try:
        return Finished(record=record, path=remember(Path(spec.history.dir), record))
    except InfraError as error:
        return Finished(record=record, path=None, storage_failure=error)


def _utc(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _verdict(spec: Spec, measured: Measured, warnings: tuple[str, ...]) -> Verdict:
    verdict = decide(spec, count(measured.observations))
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
