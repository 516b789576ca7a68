"""Everything about a run that is known, and checked, before any server starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gatekit.engine.serve import check as check_engine
from gatekit.errors import ConfigError, InfraError
from gatekit.gate.comparability import comparability
from gatekit.history.records_folder import create_run_dir, record_path
from gatekit.history.remember import check_ready
from gatekit.records.answers import Prompt
from gatekit.records.run import Comparability, Dataset
from gatekit.records.spec import EngineKind, Spec
from gatekit.task.dataset import GSM8K_SYNTH, QuestionSet, load
from gatekit.task.download import DOWNLOAD_FAILED
from gatekit.task.prompts import build_prompts
from gatekit.task.score import EXTRACTORS, Extractor
from gatekit.task.select import Selection, needs_train, select


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will be asked and where it is kept."""

    spec: Spec
    run_id: str
    run_dir: Path
    selection: Selection
    prompts: tuple[Prompt, ...]
    dataset: Dataset
    comparability: Comparability
    extractor: Extractor


def make_plan(spec: Spec, *, run_id: str, cache_dir: Path, environ: Mapping[str, str]) -> Plan:
    """The plan of a run, its folder made.

    Raises ConfigError for wrong input, InfraError for a machine, history or dataset that cannot be used.
    """
    check_engine(spec, environ)
    history_dir = Path(spec.history.dir)
    _refuse_taken(history_dir, run_id)
    check_ready(history_dir)
    questions, warnings = _questions(spec, cache_dir)
    selection = select(questions, spec.task, spec.protocol)
    selection = replace(selection, warnings=(*warnings, *selection.warnings))
    dataset = _dataset(questions, selection)
    extractor = EXTRACTORS[spec.protocol.extractor]
    return Plan(
        spec=spec,
        run_id=run_id,
        run_dir=create_run_dir(history_dir, run_id),
        selection=selection,
        prompts=build_prompts(selection, spec.protocol),
        dataset=dataset,
        comparability=comparability(spec, dataset, extractor.version),
        extractor=extractor,
    )


def _refuse_taken(history_dir: Path, run_id: str) -> None:
    folder = record_path(history_dir, run_id).parent
    if folder.exists():
        what = f"run id {run_id!r} is taken: {folder} exists"
        raise ConfigError.one(what, reason="run-id-taken", hint="choose another --run-id, or leave it out")


def _questions(spec: Spec, cache_dir: Path) -> tuple[QuestionSet, tuple[str, ...]]:
    """The task's questions. A rehearsal (`engine=sim`) that cannot download them takes the bundled ones."""
    with_train = needs_train(spec.protocol)
    try:
        return load(spec.task, cache_dir=cache_dir, with_train=with_train), ()
    except InfraError as error:
        if spec.engine.kind is not EngineKind.SIM or error.reason != DOWNLOAD_FAILED:
            raise
        bundled = replace(spec.task, dataset=GSM8K_SYNTH)
        warning = f"rehearsed on {GSM8K_SYNTH} instead of {spec.task.dataset}: {error.message}"
        return load(bundled, cache_dir=cache_dir, with_train=with_train), (warning,)


def _dataset(questions: QuestionSet, selection: Selection) -> Dataset:
    return Dataset(
        name=questions.name,
        digests=questions.digests,
        question_ids=tuple(question.id for question in selection.questions),
        shot_ids=tuple(question.id for question in selection.shots),
    )
