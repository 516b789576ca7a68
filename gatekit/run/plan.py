"""Everything about a run that is known, and checked, before any server starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gatekit.engine.serve import check as check_engine
from gatekit.errors import ConfigError
from gatekit.history.durable_files import is_there
from gatekit.history.place import Place
from gatekit.history.records_folder import record_path
from gatekit.history.remember import check_ready
from gatekit.records.answers import Prompt
from gatekit.records.run import Comparability, Dataset
from gatekit.records.spec import Spec
from gatekit.run.asked import asked_by_run
from gatekit.task.prompts import build_prompts
from gatekit.task.score import Extractor
from gatekit.task.select import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will be asked and where it is kept."""

    spec: Spec
    run_id: str
    place: Place
    run_dir: Path
    selection: Selection
    dataset: Dataset
    comparability: Comparability
    extractor: Extractor

    @property
    def prompts(self) -> Iterator[Prompt]:
        """One per question, whatever its repeats, made while they are taken: all of them are large, and needed once."""
        return build_prompts(self.selection, self.spec.protocol)

    @property
    def answers(self) -> int:
        """How many answers a whole run has."""
        return len(self.dataset.question_ids)


def make_plan(spec: Spec, *, place: Place, run_id: str, cache_dir: Path, environ: Mapping[str, str]) -> Plan:
    """The plan of a run; its folder in the history at `place` is still to be made.

    Raises ConfigError for wrong input, InfraError for a machine, history or dataset that cannot be used.
    """
    check_engine(spec, environ)
    refuse_recorded(place.dir, run_id)
    # First what needs memory for a moment, then what brings the database: it takes the same memory again.
    asked = asked_by_run(spec, cache_dir=cache_dir)
    build_prompts(asked.selection, spec.protocol)  # says what is wrong with them
    warnings = check_ready(place)
    return Plan(
        spec=spec,
        run_id=run_id,
        place=place,
        run_dir=record_path(place.dir, run_id).parent,
        selection=replace(asked.selection, warnings=(*warnings, *asked.selection.warnings)),
        dataset=asked.dataset,
        comparability=asked.comparability,
        extractor=asked.extractor,
    )


def refuse_recorded(history_dir: Path, run_id: str) -> None:
    """Raise ConfigError where the run has a record; one that has none yet may go on."""
    path = record_path(history_dir, run_id)
    if is_there(path):
        what = f"run id {run_id!r} is taken: {path} exists"
        raise ConfigError.one(what, reason="run-id-taken", hint="choose another --run-id, or leave it out")
