"""Which settings of a server a spec asks for: by its keys, by the model, by the arguments of its command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gatekit.records.spec import EngineKind, Spec

# What gatekit sets itself, or what is said in other units than a server tells it in.
_NO_SETTINGS = frozenset({"host", "port", "served_model_name", "slots", "context_of_all_slots"})
_SWITCHES = frozenset({"enforce_eager", "expert_parallel", "trust_remote_code"})
_SAME_AS: Mapping[str, str] = {"kv_cache_dtype_values": "kv_cache_dtype"}
_SHORTEST_BEGINNING = len("--x")


def wishes(spec: Spec, told: frozenset[str]) -> dict[str, str]:
    """The settings that were asked for, by name; an argument goes before a key.

    `told` are those for which the engine says where to read them. Beside them stand the ones that nothing tells. What
    is at its default is no wish, and nothing is asked of a simulated server.
    """
    if spec.simulated:
        return {}
    found = {name: str(value) for name, value in _by_key(spec, told).items() if value is not None}
    return {**found, **_by_argument(spec, told)}


def _by_key(spec: Spec, told: frozenset[str]) -> Mapping[str, str | int | None]:
    engine, model = spec.engine, spec.model
    is_attached = engine.kind is EngineKind.ATTACH
    experts = engine.tensor_parallel_size if engine.expert_parallel and "expert_parallel_size" in told else None
    knobs: dict[str, str | int | None] = {
        "quantization": engine.quantization or model.quantization,
        "tensor_parallel_size": engine.tensor_parallel_size if engine.tensor_parallel_size > 1 else None,
        "data_parallel_size": engine.data_parallel_size if engine.data_parallel_size > 1 else None,
        "expert_parallel": (engine.expert_parallel and ("expert_parallel" in told or experts is None)) or None,
        "expert_parallel_size": experts,
        "max_model_len": engine.max_model_len,
        "enforce_eager": engine.enforce_eager or None,
        "kv_cache_dtype": engine.kv_cache_dtype,
        "seed": engine.seed if is_attached or "seed" in told or _draws(spec) else None,
    }
    if is_attached:  # whose files nobody here has seen
        return {**knobs, "revision": model.revision, "sha256": model.sha256}
    trusts: bool | None = model.trust_remote_code
    return {
        **knobs,
        "revision": model.revision,
        "trust_remote_code": trusts if trusts or "trust_remote_code" in told else None,
    }


def _draws(spec: Spec) -> bool:
    """Whether the server's own seed can move an answer: engine files set one, and greedy decoding never uses it."""
    return spec.protocol.temperature != 0 and spec.protocol.seed is None


def _by_argument(spec: Spec, told: frozenset[str]) -> dict[str, str]:
    """The settings of arguments: spelled as the engine's `flags` do, or as a told setting is named."""
    arguments = (*spec.model.server_args.get(spec.engine.name, ()), *spec.engine.args)
    spellings = {"--" + name.replace("_", "-"): name for name in told}
    spellings |= {spelling: name for name, spelling in (spec.engine.flags or {}).items() if name not in _NO_SETTINGS}
    return dict(_settings(arguments, spellings))


def _settings(arguments: tuple[str, ...], spellings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for at, argument in enumerate(arguments):
        option, equals, value = argument.partition("=")
        spelling = _spelled(option, spellings)
        if spelling is None:
            continue
        name = _SAME_AS.get(spellings[spelling], spellings[spelling])
        following = arguments[at + 1] if at + 1 < len(arguments) else ""
        value = value if equals else following
        if name in _SWITCHES and not equals:
            yield name, "True"
        elif value and not value.startswith("-"):
            yield name, value


def _spelled(option: str, spellings: Mapping[str, str]) -> str | None:
    """The option as it is spelled there: servers read `_` as `-`, and the beginning of one option's name as it."""
    if option in spellings:
        return option
    if not option.startswith("--") or len(option) < _SHORTEST_BEGINNING:
        return None
    option = option.replace("_", "-")
    begun = [spelling for spelling in spellings if spelling.replace("_", "-").startswith(option)]
    whole = [spelling for spelling in begun if spelling.replace("_", "-") == option]
    return whole[0] if whole else begun[0] if len(begun) == 1 else None
