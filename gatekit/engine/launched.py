"""A real engine, started for one run."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gatekit.engine.argv import HOST, model_path, server_argv
from gatekit.engine.containment import containment, tethered
from gatekit.engine.endpoint import Endpoint
from gatekit.engine.environment import engine_environment
from gatekit.engine.gpu_release import still_held
from gatekit.engine.gpus import memory_in_use
from gatekit.engine.handed_secrets import passed_secrets
from gatekit.engine.hardware import check_hardware
from gatekit.engine.launch import start
from gatekit.engine.lifeline import TERM_GRACE_S
from gatekit.engine.model_place import model_not_here
from gatekit.engine.port import free_port
from gatekit.engine.program import find_program
from gatekit.engine.reap import leftovers_that_stay
from gatekit.engine.run_folder import LOG_NAME, served_model_name
from gatekit.engine.run_mark import run_mark
from gatekit.engine.supply import Supply, checked_environment
from gatekit.engine.weights import served_weights
from gatekit.errors import InfraError
from gatekit.records.spec import Spec

_SHOWN_PIDS = 5
_WAYS_ON = "use a running server with engine=external engine.base_url=http://HOST:PORT, or try engine=sim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The path of an engine's program, and what a record says of the GPUs that the engine gets."""

    program: str
    gpus: Mapping[str, str]


def check_machine(spec: Spec, env: Mapping[str, str]) -> Machine:
    """The engine's program on a machine with the hardware that the spec asks for.

    `env` is the environment that the engine would get. Raises InfraError, with the ways on, when the hardware
    is missing, broken or held by others, or the program is missing.
    """
    gpus = check_hardware(spec.hw, env, ways_on=_WAYS_ON)
    program = find_program(spec.engine, env["PATH"])
    if program is None:
        name = (spec.engine.command or ("",))[0]
        raise InfraError(
            f"engine={spec.engine.name} needs the program {name!r}, which is not installed here",
            reason="engine-not-installed",
            hint=f"install it with `{spec.engine.install}`, or {_WAYS_ON}" if spec.engine.install else _WAYS_ON,
        )
    return Machine(program=program, gpus=gpus)


@contextmanager
def launched(spec: Spec, *, run_dir: Path, environ: Mapping[str, str]) -> Iterator[Endpoint]:
    """The endpoint of the started engine, which may not listen yet; it is gone when the block is left.

    It listens on 127.0.0.1 under a name made for this run, or under the model's own where it takes no other. Where
    `engine.api_key_env` names the variable from which the engine reads its key, the key is made for this run too.
    Raises ConfigError for a wrong command; InfraError for a missing GPU or program, other weights than those that
    are pinned, code of the model's that nobody allowed, and a failed start.
    """
    port, env = free_port(), engine_environment(spec, environ)
    is_named = "served_model_name" in (spec.engine.flags or {})
    served_model = served_model_name(run_dir) if is_named else model_path(spec, environ)
    argv = server_argv(spec, port=port, served_model=served_model, environ=environ)
    machine = check_machine(spec, env)
    supply = Supply(spec, env, environ)
    weights = served_weights(spec, environ)
    env = checked_environment(spec, env, environ)
    held = containment(spec.engine.containment)
    api_key = secrets.token_urlsafe(24) if spec.engine.api_key_env else None
    if spec.engine.api_key_env and api_key:
        env[spec.engine.api_key_env] = api_key
    env |= run_mark(run_dir.name)
    notices = [*model_not_here(spec, environ), *_leftover_notice()]
    memory = memory_in_use(env)
    command = tethered((machine.program, *argv[1:]), held)
    hidden = passed_secrets(spec, environ)
    in_log = (api_key, *hidden) if api_key else hidden
    with start(command, env=env, log_path=run_dir / LOG_NAME, lifeline=True, hidden=in_log) as process:
        yield Endpoint(
            base_url=f"http://{HOST}:{port}",
            served_model=served_model,
            api_key=api_key,
            hidden=hidden,
            process=process,
            details={
                "command": shlex.join((machine.program, *argv[1:])),
                "log": str(process.log_path),
                "containment": held.value,
                **weights,
                **machine.gpus,
            },
            simulated=False,
            foreign_listener=spec.engine.foreign_listener,
            notices=notices,
            files=supply.loaded,
            refuse_changed=supply.refuse_changed,
            weights=model_path(spec, environ),
        )
    if (late := still_held(memory, lambda: memory_in_use(env))) is not None:
        notices.append(late)


def _leftover_notice() -> Iterator[str]:
    """That processes of earlier runs are still here, and how they are stopped."""
    left = leftovers_that_stay(TERM_GRACE_S + 1.0)
    if left:
        pids = ", ".join(str(one.pid) for one in left[:_SHOWN_PIDS]) + (", ..." if len(left) > _SHOWN_PIDS else "")
        runs = sorted({one.run for one in left})
        what = f"run {runs[0]}, whose gatekit is gone" if len(runs) == 1 else f"{len(runs)} runs without a gatekit"
        yield f"left over on this machine from {what}: pid {pids}; `gatekit reap --kill` stops them"
