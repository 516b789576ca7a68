"""Nights of a simulated model as a history keeps them, made without a server: tens of milliseconds each.

For tests of what is done with a history; what a run itself does is for `nights`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gatekit import __version__
from gatekit.engine.answer_config import AnswerConfig
from gatekit.engine.answerer import answerer
from gatekit.engine.bundled import _repeated, _sim
from gatekit.engine.generation import Limits, tokens
from gatekit.engine.run_folder import served_model_name
from gatekit.gate.decide import decide
from gatekit.history.past import past_runs
from gatekit.history.place import place_of
from gatekit.history.remember import remember
from gatekit.records.answers import Observation, Prompt, count, statuses
from gatekit.records.run import RunRecord, Served
from gatekit.records.spec import Spec
from gatekit.resources import conf_dir
from gatekit.run.loop import Answer
from gatekit.run.observe import observe
from gatekit.run.plan import Plan, make_plan
from gatekit.spec.resolve import resolve
from nights import Night


def keep_nights(folder: Path, nights: Sequence[Night], *overrides: str, dirs: tuple[Path, ...] = ()) -> list[RunRecord]:
    """The records that these nights would leave, without a server: the simulated model's own answers, scored, judged
    by the history that is there, and remembered. `test_nights` holds them to those of a run, but none is stopped early.

    `dirs` are config folders before the shipped one.
    """
    own = ["engine.latency={}", f"history.dir={folder / '.gatekit'}"]
    spec = resolve([*overrides, *own], dirs=(*dirs, conf_dir()))
    return [_kept(folder, night, spec) for night in nights]


def _kept(folder: Path, night: Night, spec: Spec) -> RunRecord:
    tonight = replace(spec, engine=replace(spec.engine, accuracy=night.accuracy, flip_seed=night.flips))
    place = place_of(tonight.history, {})
    plan = make_plan(tonight, place=place, run_id=night.run_id, cache_dir=folder / "cache", environ={})
    past = past_runs(place, tonight, plan.comparability, exclude_run_id=night.run_id)
    config, details = _sim(tonight.engine, served_model_name(plan.run_dir))
    observations = _answers(plan, _repeated(config, tonight.protocol, ()))
    found = decide(tonight, statuses(observations, plan.dataset.question_ids), past)
    record = RunRecord(
        run_id=night.run_id,
        gatekit_version=__version__,
        started_at=f"{night.day}T03:00:00Z",
        finished_at=f"{night.day}T03:00:00Z",
        spec=tonight,
        dataset=plan.dataset,
        comparability=plan.comparability,
        served=Served(
            engine=tonight.engine.name,
            build=config.build,
            model=config.served_model,
            base_url="http://127.0.0.1:1",
            simulated=True,
            details={"system_fingerprint": config.build or "", **details},
        ),
        counts=count(observations, planned=len(plan.dataset.question_ids)),
        observations=observations,
        verdict=replace(found, warnings=(*plan.selection.warnings, *found.warnings)),
    )
    return remember(place, record)[1]


def _answers(plan: Plan, config: AnswerConfig) -> tuple[Observation, ...]:
    """What the simulated model answers, pass by pass, as observed."""
    questions, protocol = plan.selection.questions, plan.spec.protocol
    who = answerer(config, questions)
    prompts = [_text(prompt) for prompt in plan.prompts]
    limits = Limits(stop=protocol.stop, max_tokens=protocol.max_tokens)
    seen: list[Observation] = []
    for repeat in range(protocol.repeats):
        for question, prompt in zip(questions, prompts, strict=True):
            ended = who.answer(question, limits, repeat)
            assert ended is not None
            completion = replace(ended.completion, prompt_tokens=tokens(prompt))
            answer = Answer(index=len(seen), result=completion, attempts=1, latency_s=0.01)
            seen.append(observe(answer, question, plan.extractor, repeat=repeat))
    return tuple(seen)


def _text(prompt: Prompt) -> str:
    return "\n".join(content for _, content in prompt.messages or ()) if prompt.text is None else prompt.text
