"""A real engine, started for one run."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gatekit.engine.argv import HOST, model_path, server_argv
from gatekit.engine.endpoint import Endpoint
from gatekit.engine.environment import RUN_MARKER, engine_environment
from gatekit.engine.hardware import missing, probe
from gatekit.engine.launch import start, tethered
from gatekit.engine.port import free_port
from gatekit.engine.program import find_program
from gatekit.engine.run_folder import LOG_NAME, served_model_name
from gatekit.engine.weights import served_weights
from gatekit.errors import InfraError
from gatekit.records.spec import Spec

_WAYS_ON = "use a running server with engine=external engine.base_url=http://HOST:PORT, or try engine=sim"


def check_machine(spec: Spec, env: Mapping[str, str]) -> str:
    """The path of the engine's program on a machine with the hardware that the spec asks for.

    `env` is the environment that the engine would get. Raises InfraError, with the ways on, when the hardware
    or the program is missing.
    """
    if lack := missing(spec.hw, probe(environ=env)):
        raise InfraError(lack, reason="hardware-missing", hint=_WAYS_ON)
    program = find_program(spec.engine, env["PATH"])
    if program is None:
        name = (spec.engine.command or ("",))[0]
        raise InfraError(
            f"engine={spec.engine.name} needs the program {name!r}, which is not installed here",
            reason="engine-not-installed",
            hint=f"install it with `{spec.engine.install}`, or {_WAYS_ON}" if spec.engine.install else _WAYS_ON,
        )
    return program


@contextmanager
def launched(spec: Spec, *, run_dir: Path, environ: Mapping[str, str]) -> Iterator[Endpoint]:
    """The endpoint of the started engine, which may not listen yet; it is gone when the block is left.

    It listens on 127.0.0.1 under a name made for this run, or under the model's own where it takes no other. Where
    `engine.api_key_env` names the variable from which the engine reads its key, the key is made for this run too.
    Raises ConfigError for a wrong command; InfraError for a missing GPU or program, other weights than those that
    are pinned, and a failed start.
    """
    port, env = free_port(), engine_environment(spec, environ)
    is_named = "served_model_name" in (spec.engine.flags or {})
    served_model = served_model_name(run_dir) if is_named else model_path(spec, environ)
    argv = server_argv(spec, port=port, served_model=served_model, environ=environ)
    program = check_machine(spec, env)
    weights = served_weights(spec, environ)
    env[RUN_MARKER] = run_dir.name
    api_key = secrets.token_urlsafe(24) if spec.engine.api_key_env else None
    if spec.engine.api_key_env and api_key:
        env[spec.engine.api_key_env] = api_key
    command = tethered((program, *argv[1:]))
    with start(command, env=env, log_path=run_dir / LOG_NAME, lifeline=True) as process:
        yield Endpoint(
            base_url=f"http://{HOST}:{port}",
            served_model=served_model,
            api_key=api_key,
            process=process,
            details={"command": shlex.join((program, *argv[1:])), "log": str(process.log_path), **weights},
            simulated=False,
        )
