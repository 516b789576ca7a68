"""What a new config file says: what the options say, what is answered, and defaults that are valid together."""

from __future__ import annotations

import difflib
import re
import tempfile
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gatekit.cli.asking import ask, choose
from gatekit.errors import ConfigError, Problem
from gatekit.spec.composition import Composition
from gatekit.spec.library import Library
from gatekit.spec.names import count_in, placeholder
from gatekit.spec.scaffold import matrix_text, model_text, option_text

_NONE = "none"
_FORMATS = (_NONE, "fp8", "int8", "int4", "nvfp4", "mxfp4")
# What an engine of that kind, or with that flag, lacks until somebody uses it.
_TO_BE_COMPLETE: Mapping[str, tuple[str, Any]] = {
    "attach": ("base_url", "http://127.0.0.1:8000"),
    "replay": ("answers", "answers.jsonl"),
    "context_of_all_slots": ("max_model_len", 4096),
}


def scaffold(options: Namespace, library: Library, path: Path, *, may_ask: bool) -> str:
    """The text for the new file at `path`, proven to be valid. Raises ConfigError where the options make it invalid."""
    make = _MAKERS[options.group]
    text, overrides = make(options, library, may_ask)
    _prove(options, text, overrides, library, path)
    return text


def _model(options: Namespace, library: Library, may_ask: bool) -> tuple[str, list[str]]:
    if may_ask:
        _ask_about_model(options, library)
    chosen = {
        "engine": options.engine or "vllm",
        "protocol": options.protocol or "chat_5shot",
        "task": options.task or "gsm8k",
        "gate": options.gate or "auto",
    }
    chosen |= {"hw": options.hw} if options.hw else {}
    documents = {group: _document(library, group, option) for group, option in chosen.items()}
    sections: dict[str, dict[str, Any]] = {
        "model": _given(options, "quantization", "revision") | {"name": options.name or placeholder(options.option)},
        "engine": _given(options, "base_url", "tensor_parallel_size", "max_model_len"),
        "protocol": _given(options, "max_tokens"),
    }
    options.stands_in = _to_be_completed({**documents["engine"], **sections["engine"]})
    sections["engine"] |= options.stands_in
    sections["gate"] = _numbers(options, {**documents["protocol"], **sections["protocol"]})
    text = model_text(options.option, chosen=chosen, documents=documents, values=sections)
    return text, [f"model={options.option}"]


def _to_be_completed(engine: Mapping[str, Any]) -> dict[str, Any]:
    """What an engine lacks until somebody uses it, with values that stand for the real ones."""
    said = {str(engine.get("kind")), *(engine.get("flags") or ())}
    return {key: value for lacking, (key, value) in _TO_BE_COMPLETE.items() if lacking in said and not engine.get(key)}


def _numbers(options: Namespace, protocol: Mapping[str, Any]) -> dict[str, Any]:
    """The hand-typed numbers of a gate, and the protocol that they belong to."""
    gate = _given(options, "floor")
    if options.observed is not None:
        correct, n = options.observed
        gate["observed"] = {"correct": correct, "n": n}
    if gate:
        gate["measured_under"] = {key: protocol[key] for key in ("api", "shots", "max_tokens") if key in protocol}
    return gate


def _ask_about_model(options: Namespace, library: Library) -> None:
    options.name = options.name or ask("hub id or path of the weights", placeholder(options.option))
    for group, default in (("engine", "vllm"), ("protocol", "chat_5shot")):
        if getattr(options, group) is None:
            setattr(options, group, choose(f"{group}:", library.options(group), default))
    if options.hw is None:
        machine = choose("hw (none: chosen at each run):", (_NONE, *library.options("hw")), _NONE)
        options.hw = None if machine == _NONE else machine
    if options.quantization is None:
        number_format = choose("quantization:", _FORMATS, _NONE)
        options.quantization = None if number_format == _NONE else number_format


def _hw(options: Namespace, library: Library, may_ask: bool) -> tuple[str, list[str]]:
    like = _namesake(options, library)
    if may_ask and like is None and options.vendor is None:
        options.vendor = choose("vendor:", ("nvidia", "amd", "none"), "nvidia")
    in_name = count_in(options.option)
    values: dict[str, Any] = {"vendor": "nvidia", "count": 0 if options.vendor == "none" else 1}
    values |= {} if in_name is None else {"count": in_name}
    values |= {} if like is None else _alone(library, "hw", like)
    values |= _given(options, "vendor", "architecture", "gpu", "count", "memory_gib")
    if (values["vendor"] == "none") != (values["count"] == 0):
        what = f"vendor {values['vendor']} with count {values['count']}"
        hint = "a machine with GPUs has a vendor and counts them; one without has --vendor none and --count 0"
        raise ConfigError.one(what, reason="bad-arguments", hint=hint)
    return option_text("hw", options.option, values), [f"hw={options.option}"]


def _engine(options: Namespace, library: Library, may_ask: bool) -> tuple[str, list[str]]:
    like = _namesake(options, library)
    if like is None:
        like = choose("like which engine?", library.options("engine"), "vllm") if may_ask else "vllm"
    values = _alone(library, "engine", like)
    options.needs = [f"engine.{key}={value}" for key, value in _to_be_completed(values).items()]
    return option_text("engine", options.option, values), [f"engine={options.option}", *options.needs]


def _protocol(options: Namespace, library: Library, may_ask: bool) -> tuple[str, list[str]]:
    like = _namesake(options, library)
    if like is None:
        like = choose("like which protocol?", library.options("protocol"), "chat_5shot") if may_ask else "chat_5shot"
    values = _alone(library, "protocol", like) | _given(options, "api", "shots", "max_tokens")
    return option_text("protocol", options.option, values), [f"protocol={options.option}"]


def _matrix(options: Namespace, library: Library, may_ask: bool) -> tuple[str, list[str]]:
    if may_ask and options.model is None:
        options.model = [choose("model of the first row:", library.options("model"), "simulated")]
    models = options.model or ["simulated"]
    if options.hw is None:
        fitting = _machine(models, library)
        options.hw = [choose("on:", library.options("hw"), fitting) if may_ask else fitting]
    row = {"model": _one_or_all(models), "hw": _one_or_all(options.hw)}
    description = options.description or f"The gates of {options.option}."
    return matrix_text(options.option, description=description, rows=[row]), []


def _machine(models: Sequence[str], library: Library) -> str:
    """The machine that the first model chooses, or else the first that all of the models fit."""
    for model in models:
        _document(library, "model", model)
    compositions = [library.compose([f"model={model}"]) for model in models]
    machine = compositions[0].choices["hw"]
    needs_gpus = any("tensor_parallel_size" in _flags(one) for one in compositions)
    if compositions[0].chooses("hw") or not needs_gpus:
        return machine
    for other in sorted(library.options("hw"), key=lambda name: (count_in(name) or 1, name)):
        try:
            specs = [library.resolve([f"model={model}", f"hw={other}"]) for model in models]
        except ConfigError:
            continue
        if all(spec.hw.count > 0 for spec in specs):
            return other
    return machine


def _flags(composition: Composition) -> Mapping[str, Any]:
    """The flags of its engine; none where a file says something else in their place."""
    engine = composition.data.get("engine")
    flags = engine.get("flags") if isinstance(engine, dict) else None
    return flags if isinstance(flags, dict) else {}


_MAKERS: Mapping[str, Callable[[Namespace, Library, bool], tuple[str, list[str]]]] = {
    "model": _model,
    "hw": _hw,
    "engine": _engine,
    "protocol": _protocol,
    "matrix": _matrix,
}


def _one_or_all(names: list[str]) -> str | list[str]:
    return names[0] if len(names) == 1 else names


def _given(options: Namespace, *keys: str) -> dict[str, Any]:
    return {key: value for key in keys if (value := getattr(options, key)) is not None}


def _document(library: Library, group: str, option: str) -> Mapping[str, Any]:
    known = library.options(group)
    if option not in known:
        near = difflib.get_close_matches(option, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise ConfigError.one(f"{group}={option}: no such {group}", reason="unknown-option", hint=hint)
    document = library.document(group, option)
    return {} if document is None else document.data


def _namesake(options: Namespace, library: Library) -> str | None:
    """The option to start from: the one that is named, or else the one whose place the new file takes."""
    known: str | None = options.like
    return options.option if known is None and options.option in library.options(options.group) else known


def _alone(library: Library, group: str, option: str) -> dict[str, Any]:
    """All that an option's file says, with those that it builds on. Raises ConfigError where it cannot be read."""
    _document(library, group, option)
    values = library.alone(group, option)
    if values is None:
        what = f"{group}={option} builds on other files in a way that cannot be copied"
        raise ConfigError.one(what, reason="bad-arguments", hint="--like takes one that stands alone")
    return dict(values)


def _prove(options: Namespace, text: str, overrides: list[str], library: Library, path: Path) -> None:
    """Raise the ConfigError that a run would end with if the text stood in its place."""
    with tempfile.TemporaryDirectory(prefix="gatekit-init.") as name:
        folder = Path(name).resolve()
        (folder / options.group).mkdir()
        (folder / options.group / path.name).write_text(text, encoding="utf-8")
        try:
            _resolve(options, overrides, (folder, *library.dirs))
        except ConfigError as error:
            # The file is not there yet: its lines would lead nowhere.
            raise ConfigError([_elsewhere(one, name) for one in error.problems]) from None


def _elsewhere(problem: Problem, folder: str) -> Problem:
    """The problem without a place in that folder."""
    asked = re.compile(rf" \(asked for at [^()]*{re.escape(folder)}[^()]*\)\Z")
    return replace(problem, where="" if folder in problem.where else problem.where, what=asked.sub("", problem.what))


def _resolve(options: Namespace, overrides: list[str], dirs: tuple[Path, ...]) -> None:
    if options.group == "matrix":
        from gatekit.spec.matrix.plan import plan

        problems = plan(options.option, Library(dirs)).problems
        if problems:
            raise ConfigError(problems)
    elif options.group == "model" and options.hw is None:
        from gatekit.spec.selection import on_some_machine

        on_some_machine(overrides, dirs=dirs)
    else:
        Library(dirs).resolve(overrides)
