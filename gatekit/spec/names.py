"""What the names of options promise, and whether the options keep it.

Only words that can mean one thing are read. What an option does not state is no contradiction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gatekit.records.spec import Engine, Spec
from gatekit.spec.lint import Finding, Kind, Modelled

_WORDS = re.compile(r"[A-Za-z0-9]+")
_COUNT = re.compile(r"(?<=[0-9_-])x([1-9][0-9]?)\Z", re.IGNORECASE)
_SHOTS = re.compile(r"([0-9]{1,2})_?shot", re.IGNORECASE)
_SIZES = re.compile(r"(tp|dp)([1-9][0-9]{0,2})")
_SIZE_KEYS = {"tp": "tensor_parallel_size", "dp": "data_parallel_size"}
# Each word for a number format, and what `quantization` may say under it.
_FORMATS: Mapping[str, frozenset[str]] = {
    "fp8": frozenset({"fp8", "mxfp8"}),
    "mxfp8": frozenset({"mxfp8"}),
    "int8": frozenset({"int8"}),
    "int4": frozenset({"int4"}),
    "fp4": frozenset({"nvfp4", "mxfp4", "fp4"}),
    "nvfp4": frozenset({"nvfp4"}),
    "mxfp4": frozenset({"mxfp4"}),
}
_KNOWN_FORMATS = frozenset(_FORMATS) | frozenset({"bf16", "fp16"})
_BACKENDS = ("triton", "flashinfer", "cutlass", "marlin", "trtllm", "aiter", "deepgemm", "fa2", "fa3", "fa4")
_ON = frozenset({"1", "true"})

Promise = Callable[[Modelled], Iterator[Finding]]


def count_in(name: str) -> int | None:
    """The number of GPUs that a machine's name states.

    >>> count_in("h100x8"), count_in("mi300x"), count_in("rtx4090")
    (8, None, None)
    """
    found = _COUNT.search(name)
    return int(found[1]) if found else None


def placeholder(option: str) -> str:
    """What stands for the weights of a new model until somebody names them."""
    return f"org/{option}"


def promises_of_a_model(model: Modelled) -> Iterator[Finding]:
    """Where the name of a model's option disagrees with its spec."""
    for promise in (_weights, _format, _shots, _api, _sizes, _eager, _backend):
        yield from promise(model)


def _weights(model: Modelled) -> Iterator[Finding]:
    if model.spec.model.name == placeholder(model.option):
        yield Finding(
            id="weights-not-named",
            kind=Kind.WARNING,
            where=model.place("model.name"),
            what=f"model.name is {model.spec.model.name}",
            why="that stands for the weights in a file that `gatekit init` made",
            hint="write their hub id or path",
        )


def promises_of_a_machine(name: str, data: Mapping[str, Any], where: str, gpus: frozenset[str]) -> Iterator[Finding]:
    """Where the name of a machine disagrees with its file; `gpus` are all GPUs that any machine has, in lower case."""
    count, stated = count_in(name), data.get("count")
    if count is not None and isinstance(stated, int) and stated != count:
        yield _disagrees("name-gpu-count", where, f"hw={name} says {count} GPUs, count is {stated}")
    stem, gpu = _COUNT.sub("", name).rstrip("_-").lower(), data.get("gpu")
    if isinstance(gpu, str) and stem in gpus and gpu.lower() != stem:
        yield _disagrees("name-gpu", where, f"hw={name} says {stem.upper()}, gpu is {gpu}")


def promises_of_a_protocol(name: str, data: Mapping[str, Any], where: str) -> Iterator[Finding]:
    """Where the name of a protocol disagrees with its file."""
    shots, stated = _SHOTS.search(name), data.get("shots")
    if shots and isinstance(stated, int) and stated != int(shots[1]):
        yield _disagrees("name-shots", where, f"protocol={name} says {int(shots[1])} shots, shots is {stated}")
    named = {"chat", "completions"} & set(_words(name))
    api = data.get("api")
    if len(named) == 1 and isinstance(api, str) and api not in named:
        yield _disagrees("name-api", where, f"protocol={name} says {named.pop()}, api is {api}")


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _disagrees(identity: str, where: str, what: str, kind: Kind = Kind.ERROR) -> Finding:
    why = "whoever reads a verdict believes the name"
    return Finding(id=identity, kind=kind, where=where, what=what, why=why, hint="rename it, or mend the value")


def _format(model: Modelled) -> Iterator[Finding]:
    stated = model.spec.model.quantization
    places = ((f"model={model.option}", model.option), ("model.name", model.spec.model.name.rsplit("/", 1)[-1]))
    for shown, name in places:
        named = [word for word in _words(name) if word in _FORMATS]
        if not named:
            continue
        if stated is None:
            what = f"{shown} says {named[0]}, model.quantization is not stated"
            yield _disagrees("format-not-stated", model.where, what, Kind.WARNING)
            return
        if stated in _KNOWN_FORMATS and not any(stated in _FORMATS[word] for word in named):
            where = model.place("model.quantization")
            yield _disagrees("name-format", where, f"{shown} says {named[0]}, model.quantization is {stated}")
            return


def _shots(model: Modelled) -> Iterator[Finding]:
    found, stated = _SHOTS.search(model.option), model.spec.protocol.shots
    if found and int(found[1]) != stated:
        what = f"model={model.option} says {int(found[1])} shots, protocol.shots is {stated}"
        yield _disagrees("name-shots", model.place("protocol.shots"), what)


def _api(model: Modelled) -> Iterator[Finding]:
    # Weights are called chat as well: only the other word is a promise.
    api = model.spec.protocol.api.value
    if "completions" in _words(model.option) and "chat" not in _words(model.option) and api != "completions":
        yield _disagrees(
            "name-api", model.place("protocol.api"), f"model={model.option} says completions, api is {api}"
        )


def _sizes(model: Modelled) -> Iterator[Finding]:
    for word in _words(model.option):
        found = _SIZES.fullmatch(word)
        if found is None:
            continue
        key = _SIZE_KEYS[found[1]]
        stated: int = getattr(model.spec.engine, key)
        if stated != int(found[2]):
            what = f"model={model.option} says {word}, engine.{key} is {stated}"
            yield _disagrees("name-parallel", model.place(f"engine.{key}"), what)


def _eager(model: Modelled) -> Iterator[Finding]:
    if "eager" in _words(model.option) and not model.spec.engine.enforce_eager:
        what = f"model={model.option} says eager, engine.enforce_eager is false"
        yield _disagrees("name-eager", model.place("engine.enforce_eager"), what)


def _backend(model: Modelled) -> Iterator[Finding]:
    named = [word for word in _words(model.option) if word in _BACKENDS]
    chosen = backends(model.spec)
    if len(named) != 1 or model.spec.simulated:
        return
    if not chosen:
        what = f"model={model.option} says {named[0]}, and no argument or variable chooses a backend"
        yield _disagrees("backend-not-stated", model.where, what, Kind.WARNING)
    elif named[0] not in chosen:
        what = f"model={model.option} says {named[0]}, its backend is {', '.join(sorted(chosen))}"
        yield _disagrees("name-backend", model.place("model.server_args"), what)


def backends(spec: Spec) -> frozenset[str]:
    """The known backends that the arguments and variables of a server choose, in lower case."""
    texts = [*_backend_arguments(spec.engine, spec.model.server_args.get(spec.engine.name, ()))]
    env = {**spec.engine.env, **spec.model.server_env.get(spec.engine.name, {})}
    texts += [value for key, value in env.items() if "BACKEND" in key.upper()]
    texts += [key for key, value in env.items() if value.lower() in _ON]
    return frozenset(word for word in _BACKENDS for text in texts if word in text.lower().replace("-", ""))


def _backend_arguments(engine: Engine, own: tuple[str, ...]) -> Iterator[str]:
    args = [*own, *engine.args]
    for arg, following in zip(args, [*args[1:], ""], strict=False):
        flag, sign, value = arg.partition("=")
        if flag.startswith("--") and "backend" in flag:
            yield value if sign else following
