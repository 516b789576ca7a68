"""The bundled answer server, started for one run: a simulated model or a recording."""

from __future__ import annotations

import json
import secrets
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gatekit.engine.answer_config import AnswerConfig
from gatekit.engine.argv import HOST
from gatekit.engine.endpoint import Endpoint
from gatekit.engine.environment import bundled_environment
from gatekit.engine.launch import ServerProcess, start
from gatekit.engine.replay import Recording, read_answers
from gatekit.engine.run_folder import LOG_NAME, served_model_name, write_private
from gatekit.engine.run_mark import run_mark
from gatekit.errors import ConfigError, InfraError
from gatekit.records.answers import Cell, Question
from gatekit.records.canonical import canonical_json, digest, to_plain
from gatekit.records.spec import Engine, EngineKind, Faults, Latency, Protocol, Spec

_LISTEN_TIMEOUT_S = 60.0
_POLL_S = 0.01
_DIGEST_DIGITS = 12
_FLIP_SEEDS = 2**31


@contextmanager
def bundled(
    spec: Spec,
    *,
    run_dir: Path,
    questions: Sequence[Question],
    environ: Mapping[str, str],
    answered: Iterable[Cell] = (),
) -> Iterator[Endpoint]:
    """The endpoint of a listening answer server that knows the questions; it is gone when the block is left.

    `answered` are the repeats of questions that it will not be asked for, because an earlier part of the run was.
    Raises ConfigError for a sim without accuracy and for answers that do not fit; InfraError for corrupt
    answers and for a server that does not come to listen.
    """
    config, details = _configure(spec, served_model_name(run_dir), questions)
    config = _repeated(config, spec.protocol, answered)
    files = run_dir / "answer-server.json", run_dir / "answer-server-questions.jsonl"
    config = replace(config, questions=str(files[1].absolute()), api_key=secrets.token_urlsafe(24))
    argv = (sys.executable, "-P", "-m", "gatekit.engine.answer_server", str(files[0].absolute()))
    env = bundled_environment(environ) | run_mark(run_dir.name)
    try:
        write_private(files[0], canonical_json(to_plain(config)))
        write_private(files[1], b"".join(canonical_json(to_plain(q)) + b"\n" for q in questions))
        with start(argv, env=env, log_path=run_dir / LOG_NAME, lifeline=True) as process:
            port = _await_port(process)
            _remove(*files)
            yield Endpoint(
                base_url=f"http://{HOST}:{port}",
                served_model=config.served_model,
                api_key=config.api_key,
                process=process,
                build=config.build,
                details={**details, "log": str(process.log_path)},
                simulated=True,
            )
    finally:
        _remove(*files)


def _repeated(config: AnswerConfig, protocol: Protocol, answered: Iterable[Cell]) -> AnswerConfig:
    if protocol.repeats == 1:
        return config
    return replace(config, repeats=protocol.repeats, first_seed=protocol.seed, answered=tuple(answered))


def _configure(spec: Spec, served_model: str, questions: Sequence[Question]) -> tuple[AnswerConfig, dict[str, str]]:
    """What the server is told but for its key and files, and what the record says of it."""
    if spec.engine.kind is EngineKind.SIM:
        return _sim(spec.engine, served_model)
    return _replay(spec, served_model, questions)


def _sim(engine: Engine, served_model: str) -> tuple[AnswerConfig, dict[str, str]]:
    if engine.accuracy is None:
        raise ConfigError.one(
            f"engine {engine.name!r} simulates a model but has no accuracy",
            reason="sim-accuracy",
            hint="set engine.accuracy=0.9",
        )
    # Without a stated dispersion every answer is an independent draw: the binomial law.
    model = {
        "accuracy": engine.accuracy,
        "dispersion": 1.0 if engine.dispersion is None else engine.dispersion,
        "seed": engine.seed or 0,
    }
    flip_seed = secrets.randbelow(_FLIP_SEEDS) if engine.flip_seed is None else engine.flip_seed
    config = AnswerConfig(
        kind=EngineKind.SIM,
        served_model=served_model,
        build=f"sim-{_short(digest(model))}",
        questions="",
        accuracy=model["accuracy"],
        dispersion=model["dispersion"],
        seed=engine.seed or 0,
        flip_seed=flip_seed,
        latency=engine.latency or Latency(),
        faults=engine.faults or Faults(),
    )
    return config, {**{name: str(value) for name, value in model.items()}, "flip_seed": str(flip_seed)}


def _replay(spec: Spec, served_model: str, questions: Sequence[Question]) -> tuple[AnswerConfig, dict[str, str]]:
    engine = spec.engine
    if engine.answers is None:
        raise ConfigError.one(
            f"engine {engine.name!r} replays recorded answers but names no file",
            reason="answers-file",
            hint="set engine.answers to a run's record.json",
        )
    path = Path(engine.answers).absolute()
    recording = read_answers(path, engine.variant)
    _check_repeats(path, recording, spec.protocol)
    unanswered = sum(
        recording.find(question, repeat) is None for question in questions for repeat in range(spec.protocol.repeats)
    )
    other_dataset = recording.dataset not in (None, spec.task.dataset)
    if other_dataset or (questions and unanswered == len(questions) * spec.protocol.repeats):
        raise ConfigError.one(
            f"engine.answers: {path} answers none of the {len(questions)} questions of {spec.task.dataset}",
            reason="answers-elsewhere",
            hint=f"it was recorded with task={recording.dataset}" if other_dataset else "choose the task it answers",
        )
    config = AnswerConfig(
        kind=EngineKind.REPLAY,
        served_model=served_model,
        build=f"replay-{_short(recording.sha256)}" + (f"-{engine.variant}" if engine.variant else ""),
        questions="",
        seed=engine.seed or 0,
        latency=engine.latency or Latency(),
        faults=engine.faults or Faults(),
        answers=str(path),
        variant=engine.variant,
        answers_sha256=recording.sha256,
    )
    details = {"answers": str(path), "answers_sha256": recording.sha256, "unanswered": str(unanswered)}
    return config, details | ({"variant": engine.variant} if engine.variant else {})


def _check_repeats(path: Path, recording: Recording, protocol: Protocol) -> None:
    if recording.repeats >= protocol.repeats:
        return
    has = "one answer" if recording.repeats == 1 else f"{recording.repeats} answers"
    raise ConfigError.one(
        f"engine.answers: {path} has {has} to each question, and protocol.repeats={protocol.repeats} asks for more",
        reason="too-few-repeats",
        hint=f"set protocol.repeats={recording.repeats}: an answer that is played twice is no second one",
    )


def _await_port(process: ServerProcess) -> int:
    deadline = time.monotonic() + _LISTEN_TIMEOUT_S
    while time.monotonic() < deadline:
        ended = process.poll()
        for line in process.head().splitlines():
            if line.startswith('{"port":') and line.endswith("}"):
                return int(json.loads(line)["port"])
        if ended is not None:
            raise _not_listening(process, f"exited with code {ended}")
        time.sleep(_POLL_S)
    raise _not_listening(process, f"did not listen within {_LISTEN_TIMEOUT_S:.0f} s")


def _not_listening(process: ServerProcess, what: str) -> InfraError:
    process.stop(0)  # the log is complete only then
    last = process.tail(1)
    return InfraError(
        f"the bundled answer server {what}" + (f", saying: {last}" if last else ""),
        reason="answer-server-start",
        hint=f"see {process.log_path}",
    )


def _short(hexadecimal: str) -> str:
    return hexadecimal.removeprefix("sha256:")[:_DIGEST_DIGITS]


def _remove(*paths: Path) -> None:
    """Removes files that hold the run's key; the server has read them by the time it listens."""
    for path in paths:
        path.unlink(missing_ok=True)
