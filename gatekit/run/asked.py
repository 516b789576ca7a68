"""What a spec asks, and so which runs it compares with: known before, and without, a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gatekit.errors import InfraError
from gatekit.gate.comparability import comparability
from gatekit.records.run import Comparability, Dataset
from gatekit.records.spec import EngineKind, Spec
from gatekit.task.dataset import GSM8K, GSM8K_SYNTH, QuestionSet, load
from gatekit.task.download import DOWNLOAD_FAILED
from gatekit.task.pinned import pinned_questions
from gatekit.task.score import EXTRACTORS, Extractor
from gatekit.task.select import Selection, needs_train, select


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The selected questions, the dataset as recorded, the key that follows, and what reads the answers.

    `selection` has every question once; `dataset.question_ids` names it once for each of the protocol's repeats.
    """

    selection: Selection
    dataset: Dataset
    comparability: Comparability
    extractor: Extractor


def asked_by_run(spec: Spec, *, cache_dir: Path) -> Asked:
    """What a run of this spec asks, its questions loaded. Raises ConfigError, InfraError as `load`."""
    questions, warnings = _questions(spec, cache_dir)
    return _asked(spec, questions, warnings)


def comparability_of(spec: Spec, *, cache_dir: Path) -> Comparability:
    """The key that a run of this spec has. Raises as `asked_of`."""
    return asked_of(spec, cache_dir=cache_dir).comparability


def asked_of(spec: Spec, *, cache_dir: Path) -> Asked:
    """What a run of this spec asks, without its dataset where that is bundled, or pinned and known.

    The texts of the questions are only placeholders then. A rehearsal (`engine=sim`) of a dataset that is
    downloaded takes other questions where that fails, so that its key is known only by trying, as the run does.
    Raises ConfigError, InfraError as `load`.
    """
    downloads = spec.task.dataset == GSM8K and spec.task.path is None
    is_rehearsal = spec.engine.kind is EngineKind.SIM and downloads
    known = None if is_rehearsal else pinned_questions(spec.task, with_train=needs_train(spec.protocol))
    if known is None:
        return asked_by_run(spec, cache_dir=cache_dir)
    return _asked(spec, known, ())


def _asked(spec: Spec, questions: QuestionSet, warnings: tuple[str, ...]) -> Asked:
    selection = select(questions, spec.task, spec.protocol)
    dataset = _dataset(questions, selection, spec.protocol.repeats)
    extractor = EXTRACTORS[spec.protocol.extractor]
    return Asked(
        selection=replace(selection, warnings=(*warnings, *selection.warnings)),
        dataset=dataset,
        comparability=comparability(spec, dataset, extractor.version),
        extractor=extractor,
    )


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


def _dataset(questions: QuestionSet, selection: Selection, repeats: int) -> Dataset:
    return Dataset(
        name=questions.name,
        digests=questions.digests,
        question_ids=tuple(question.id for question in selection.questions) * repeats,
        shot_ids=tuple(question.id for question in selection.shots),
    )
