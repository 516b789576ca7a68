"""The front of this room: an endpoint that answers a spec's questions for as long as it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from gatekit.engine.argv import server_argv
from gatekit.engine.attach import attached
from gatekit.engine.bundled import bundled
from gatekit.engine.endpoint import Endpoint
from gatekit.engine.environment import engine_environment
from gatekit.engine.launched import check_machine, launched
from gatekit.engine.model_place import model_not_here
from gatekit.engine.run_folder import make_run_folder
from gatekit.records.answers import Cell, Question
from gatekit.records.spec import EngineKind, Spec

__all__ = ["Endpoint", "check", "serve"]


@contextmanager
def serve(
    spec: Spec,
    *,
    run_dir: Path,
    questions: Sequence[Question],
    environ: Mapping[str, str],
    answered: Iterable[Cell] = (),
) -> Iterator[Endpoint]:
    """The endpoint of the spec's engine; every process behind it is gone when the block is left.

    `questions` are all that the bundled server may be asked, `answered` what it will not be asked again. A launched
    engine is started, not awaited: asking it is the caller's part. A server's log goes to `run_dir`, which is made
    when it is missing.

    Raises ConfigError for a wrong base URL, key, command or recording; InfraError for a missing GPU or
    program, a process that does not start, and a folder that cannot be written.
    """
    make_run_folder(run_dir)
    with _endpoint(spec, run_dir, questions, environ, answered) as endpoint:
        yield endpoint


def check(spec: Spec, environ: Mapping[str, str]) -> None:
    """Raise ConfigError or InfraError if `serve` could not even begin; starts and writes nothing."""
    if spec.engine.kind is EngineKind.ATTACH:
        attached(spec, environ)
    elif spec.engine.kind is EngineKind.LAUNCH:
        server_argv(spec, port=0, served_model="", environ=environ)
        check_machine(spec, engine_environment(spec, environ))
        model_not_here(spec, environ)


def _endpoint(
    spec: Spec, run_dir: Path, questions: Sequence[Question], environ: Mapping[str, str], answered: Iterable[Cell]
) -> AbstractContextManager[Endpoint]:
    if spec.engine.kind is EngineKind.ATTACH:
        return nullcontext(attached(spec, environ))
    if spec.engine.kind is EngineKind.LAUNCH:
        return launched(spec, run_dir=run_dir, environ=environ)
    return bundled(spec, run_dir=run_dir, questions=questions, environ=environ, answered=answered)
