"""The command line of a launched engine, as an argv list."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gatekit.errors import ConfigError, Problem
from gatekit.records.spec import Spec
from gatekit.resources import weights_file

HOST = "127.0.0.1"
MODEL_TOKEN = "{model}"  # noqa: S105 - a placeholder, not a password

# The key that sets each knob, and the flags of which one must spell it.
_SPELLED_BY: Mapping[str, tuple[str, ...]] = {
    "engine.tensor_parallel_size": ("tensor_parallel_size",),
    "engine.data_parallel_size": ("data_parallel_size",),
    "engine.expert_parallel": ("expert_parallel", "expert_parallel_size"),
    "engine.max_model_len": ("max_model_len", "context_of_all_slots"),
    "engine.enforce_eager": ("enforce_eager",),
    "engine.kv_cache_dtype": ("kv_cache_dtype",),
    "engine.quantization": ("quantization",),
    "engine.seed": ("seed",),
    "model.revision": ("revision",),
    "model.trust_remote_code": ("trust_remote_code",),
}
# What an argument must not set behind the back of the rules and the record, even where the key is at its default.
_BY_KEY_ALONE = frozenset({"host", "port", "served_model_name", "revision", "trust_remote_code"})


def options_of_keys(spec: Spec) -> dict[str, str]:
    """The engine's options that are for keys to set, each with its key: those that are set, and those that guard.

    `gatekit` stands for the key of what gatekit sets itself. Raises ConfigError like `server_argv`.
    """
    knobs = _knobs(spec, port=0, served_model="", local=False)
    keys = {knob: key for key, spelt in _SPELLED_BY.items() for knob in spelt}
    keys |= {"kv_cache_dtype_values": "engine.kv_cache_dtype", "slots": "client.concurrency"}
    return {
        spelling: keys.get(knob, "gatekit")
        for knob, spelling in (spec.engine.flags or {}).items()
        if knob in _BY_KEY_ALONE or knobs.get(knob) is not None
    }


def server_argv(spec: Spec, *, port: int, served_model: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The argv that starts the spec's engine for its model.

    In this order: `engine.command` with `{model}` filled in; the common knobs in the order and the spelling
    of `engine.flags`, without those at their default (a true switch appears bare); the model's `server_args`
    for this engine; `engine.args`.

    Raises ConfigError when the engine has no command, spells a knob that does not exist or does not spell one that is
    set, or the model's name would be read as an option.
    """
    engine = spec.engine
    if not engine.command:
        raise ConfigError.one(
            f"engine {engine.name!r} has no command to start it",
            reason="engine-command",
            hint="set engine.command to a list such as [vllm, serve, '{model}']",
        )
    model = model_path(spec, environ)
    command = tuple(token.replace(MODEL_TOKEN, model) for token in engine.command)
    flags = _flags(spec, port=port, served_model=served_model, local=model != spec.model.name)
    return command + flags + tuple(spec.model.server_args.get(engine.name, ())) + engine.args


def model_path(spec: Spec, environ: Mapping[str, str]) -> str:
    """The model's hub id or path: the variable `model.path_env` when it is set, else the file that gatekit ships
    as `model.shipped`, else `model.name`."""
    override = path_override(spec, environ)
    shipped = str(weights_file(spec.model.shipped)) if spec.model.shipped else ""
    path = override or shipped or spec.model.name
    if path.startswith("-") or "\0" in path:
        source = spec.model.path_env if override else "model.name"
        raise ConfigError.one(
            f"{source} starts with '-' or holds a NUL: a server would not read it as a model",
            reason="model-path",
            hint="give a hub id or a path",
        )
    return path


def path_override(spec: Spec, environ: Mapping[str, str]) -> str:
    """What the variable `model.path_env` holds; empty when there is none, or it is not set."""
    return environ.get(spec.model.path_env, "") if spec.model.path_env else ""


def _flags(spec: Spec, *, port: int, served_model: str, local: bool) -> tuple[str, ...]:
    knobs = _knobs(spec, port=port, served_model=served_model, local=local)
    _refuse_unknown(spec, knobs)
    _refuse_unspelled(spec, knobs)
    argv: list[str] = []
    for knob, spelling in (spec.engine.flags or {}).items():
        value = knobs[knob]
        if value is True:
            argv.append(spelling)
        elif value is not None:
            argv += (spelling, str(value))
    return tuple(argv)


def _refuse_unknown(spec: Spec, knobs: Collection[str]) -> None:
    for knob in spec.engine.flags or {}:
        if knob not in knobs:
            raise ConfigError.one(
                f"engine.flags.{knob} is no knob of an engine",
                reason="unknown-knob",
                hint=f"the knobs are {', '.join(knobs)}",
            )


def _refuse_unspelled(spec: Spec, knobs: Mapping[str, str | int | None]) -> None:
    """Raise ConfigError for every knob that is set and that the engine has no flag for: it would have no effect."""
    flags = spec.engine.flags or {}
    problems = [
        Problem(
            where=key,
            what=f"{key} is set, and engine {spec.engine.name!r} has no flag for it: it would have no effect",
            reason="knob-not-spelled",
            hint=f"leave it out, or add its spelling as engine.flags.{spellings[0]}",
        )
        for key, spellings in _SPELLED_BY.items()
        if knobs[spellings[0]] is not None and not any(spelling in flags for spelling in spellings)
    ]
    if problems:
        raise ConfigError(problems)


def _knobs(spec: Spec, *, port: int, served_model: str, local: bool) -> dict[str, str | int | None]:
    """Every knob by its neutral name: None where it is at its default, True for a switch that is on."""
    engine, model = spec.engine, spec.model
    return {
        "host": HOST,
        "port": port,
        "served_model_name": served_model,
        "tensor_parallel_size": _unless_one(engine.tensor_parallel_size),
        "data_parallel_size": _unless_one(engine.data_parallel_size),
        "expert_parallel": engine.expert_parallel or None,
        "expert_parallel_size": engine.tensor_parallel_size if engine.expert_parallel else None,
        "max_model_len": engine.max_model_len,
        "enforce_eager": engine.enforce_eager or None,
        "kv_cache_dtype": engine.kv_cache_dtype,
        "kv_cache_dtype_values": engine.kv_cache_dtype,  # where keys and values have a flag each
        "seed": engine.seed,
        "revision": None if local else model.revision,  # a revision pins a hub id; a local path has none
        "quantization": engine.quantization,
        "trust_remote_code": model.trust_remote_code or None,
        "slots": _slots(spec),
        "context_of_all_slots": _context_of_all_slots(spec),
    }


def _slots(spec: Spec) -> int:
    """One for each request in flight, as far as the server goes."""
    return min(spec.client.concurrency, spec.engine.max_slots or spec.client.concurrency)


def _context_of_all_slots(spec: Spec) -> int | None:
    """The context that a server needs which shares it out: one of `max_model_len` for each slot.

    Raises ConfigError where such a server is not told: its default leaves a slot too little for a prompt.
    """
    if "context_of_all_slots" not in (spec.engine.flags or {}):
        return None
    if spec.engine.max_model_len is None:
        raise ConfigError.one(
            f"engine {spec.engine.name!r} shares one context among {_slots(spec)} requests and is not told its size",
            reason="context-missing",
            hint="set engine.max_model_len to the tokens that one request needs, such as 4096",
        )
    return spec.engine.max_model_len * _slots(spec)


def _unless_one(size: int) -> int | None:
    return size if size != 1 else None
