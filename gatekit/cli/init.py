"""`gatekit init GROUP NAME`: a new config file in a folder of one's own, valid as it stands."""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gatekit.cli.arguments import HelpWanted, Parser, parse
from gatekit.cli.output import put, warn
from gatekit.cli.quantities import measured, whole, within
from gatekit.cli.share import share
from gatekit.errors import ConfigError, ExitCode
from gatekit.report.escape import escape_terminal
from gatekit.spec.folders import naming

if TYPE_CHECKING:
    from gatekit.spec.library import Library

_HELP = """\
gatekit init: a new config file in a folder of your own, with every key it may have and what it means

  python -m gatekit init model NAME --name ORG/MODEL [--engine vllm] [--protocol chat_5shot] [--quantization fp8] ...
  python -m gatekit init hw NAME [--like b200] [--vendor V] [--architecture A] [--gpu G] [--count N]
  python -m gatekit init engine NAME [--like vllm]
  python -m gatekit init protocol NAME [--like chat_5shot] [--api chat] [--shots N] [--max-tokens N]
  python -m gatekit init matrix NAME [--model M]... [--hw H]...

The file goes to FOLDER/GROUP/NAME.yaml: FOLDER is --config-dir, else the first of GATEKIT_CONF_PATH, else ./conf.
No file is ever overwritten. On a terminal what no option says is asked; elsewhere, and in CI, nothing is.
`gatekit init GROUP --help` lists the options.
"""
_GROUPS = ("model", "hw", "engine", "protocol", "matrix")
_DEFAULT_FOLDER = "conf"
_MOST_CHARACTERS = 500

_LIKE = ("--like", "OPTION", "start from the values of this option (default: of one of the same name)")
_OPTIONS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "model": (
        ("--name", "ORG/MODEL", "hub id or path of the weights"),
        ("--engine", "ENGINE", "the engine that serves it (default vllm)"),
        ("--base-url", "URL", "address of the running server, for --engine external"),
        ("--protocol", "PROTOCOL", "how it is asked (default chat_5shot)"),
        ("--task", "TASK", "the questions (default gsm8k)"),
        ("--gate", "GATE", "the decision rule (default auto)"),
        ("--hw", "HW", "the machine (default: chosen at each run)"),
        ("--quantization", "FORMAT", "number format of the weights: int4, nvfp4, fp8, ..."),
        ("--revision", "COMMIT", "full commit of the weights, 40 hex digits"),
        ("--tensor-parallel-size", "N", "GPUs that share each layer"),
        ("--max-model-len", "N", "context length in tokens"),
        ("--max-tokens", "N", "longest answer in tokens"),
        ("--floor", "F", "accuracy that must be reached, such as 0.90"),
        ("--observed", "CORRECT/N", "what a healthy build scored, such as 1161/1319"),
    ),
    "hw": (
        _LIKE,
        ("--vendor", "VENDOR", "nvidia, amd or none"),
        ("--architecture", "NAME", "GPU architecture, such as hopper"),
        ("--gpu", "NAME", "part of the GPU's name as its driver reports it, such as H100"),
        ("--count", "N", "GPUs (default: what a name such as h100x8 says, else 1)"),
        ("--memory-gib", "G", "memory of one GPU in GiB"),
    ),
    "engine": (_LIKE,),
    "protocol": (
        _LIKE,
        ("--api", "ROUTE", "chat or completions"),
        ("--shots", "N", "worked examples before the question"),
        ("--max-tokens", "N", "longest answer in tokens"),
    ),
    "matrix": (
        ("--description", "TEXT", "what it is for, in a sentence"),
        ("--model", "MODEL", "a model of its row; may be repeated"),
        ("--hw", "HW", "a machine of its row; may be repeated"),
    ),
}
_STANDS_FOR = {
    "base_url": "the address of your server",
    "answers": "the file with your answers",
    "max_model_len": "the tokens that one request needs",
}
_TYPES: Mapping[str, Callable[[str], object]] = {
    "--tensor-parallel-size": whole(1, 1024),
    "--max-model-len": whole(1, 100_000_000),
    "--max-tokens": whole(1, 1_000_000),
    "--shots": whole(0, 64),
    "--count": whole(0, 1024),
    "--memory-gib": whole(1, 100_000),
    "--floor": share(within(0, 1)),
    "--observed": measured,
}


def run(arguments: Sequence[str], *, environ: Mapping[str, str]) -> ExitCode:
    """Write one new file, and print which and what to do next. Raises ConfigError, InfraError; then there is none."""
    from gatekit.cli.asking import somebody_is_there
    from gatekit.cli.scaffolds import scaffold
    from gatekit.spec.library import Library
    from gatekit.spec.new_file import refuse_installed, taken, write_new
    from gatekit.spec.resolve import CONF_PATH_VARIABLE, config_dirs
    from gatekit.spec.scaffold import check_name

    options = _parse(arguments)
    check_name(options.group, options.option)
    in_variable = [name for name in environ.get(CONF_PATH_VARIABLE, "").split(":") if name]
    first, *others = [*options.config_dir, *in_variable] or [_DEFAULT_FOLDER]
    if not first:
        raise ConfigError.one("--config-dir names no folder", reason="no-config-dir", hint="name it, such as ./conf")
    folder = Path(first)
    path = folder / options.group / f"{options.option}.yaml"
    refuse_installed(folder)
    if os.path.lexists(path):
        raise taken(path)
    library = Library(config_dirs([name for name in (first, *others) if name != first or folder.is_dir()], {}))
    text = scaffold(options, library, path, may_ask=somebody_is_there(environ))
    write_new(folder, options.group, path.name, text)
    _say_shadowed(options, library, path)
    put("\n".join([f"wrote {escape_terminal(str(path))}", "next:", *_next(options, path, in_variable)]))
    if options.group == "model" and options.name is None:
        warn(f"model.name stands for your weights: write their hub id or path into {path}")
    for key in getattr(options, "stands_in", ()):
        warn(f"engine.{key} stands for {_STANDS_FOR[key]}: write it into {path}")
    return ExitCode.PASS


def _parse(arguments: Sequence[str]) -> Namespace:
    group = _group(arguments)
    parser = Parser(f"gatekit init {group}", f"A new config file of group {group}.")
    parser.add_argument("group", choices=(group,), help=argparse.SUPPRESS, metavar=group)
    parser.add_argument("option", metavar="NAME", help=f"its name, as in {group}=NAME")
    what = "the folder of your config groups (default: the first of GATEKIT_CONF_PATH, else ./conf)"
    parser.add_argument("--config-dir", action="append", default=[], metavar="DIR", help=what)
    for flag, metavar, line in _OPTIONS[group]:
        if "may be repeated" in line:
            parser.add_argument(flag, action="append", metavar=metavar, help=line)
        else:
            parser.add_argument(flag, type=_TYPES.get(flag, _printable), metavar=metavar, help=line)
    return parse(parser, arguments)


def _group(arguments: Sequence[str]) -> str:
    """The first word that is no option and no option's value."""
    words = iter(arguments)
    for word in words:
        if word in ("-h", "--help"):
            raise HelpWanted(_HELP)
        if word in _GROUPS:
            return word
        if not word.startswith("-"):
            near = difflib.get_close_matches(word, _GROUPS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(_GROUPS)}"
            what = f"init makes no {escape_terminal(word, 40)!r}"
            raise ConfigError.one(what, reason="unknown-group", hint=hint)
        if word.startswith("--") and "=" not in word:
            next(words, None)
    raise ConfigError.one("init what?", reason="bad-arguments", hint=f"gatekit init {'|'.join(_GROUPS)} NAME")


def _printable(text: str) -> str:
    if text and len(text) <= _MOST_CHARACTERS and text.isprintable():
        return text
    raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a text of up to {_MOST_CHARACTERS} printable characters")


def _say_shadowed(options: Namespace, library: Library, path: Path) -> None:
    from gatekit.spec.shadowing import Shadowing

    hidden = tuple(each for each in library.files(options.group, options.option) if not each.samefile(path))
    if hidden:
        shadowing = Shadowing(option=f"{options.group}={options.option}", used=path, hidden=hidden)
        warn(f"{shadowing.line()} [shadowed]")


def _next(options: Namespace, path: Path, in_variable: Sequence[str]) -> list[str]:
    """The commands that check the new file, and that use it without a GPU."""
    from gatekit.resources import conf_dir

    folder = path.parents[1]
    is_known = any(folder.samefile(each) for each in (*in_variable, str(conf_dir())))
    folders = [] if is_known else naming([str(folder)])
    name = f"{options.group}={options.option}"
    has_server = bool(getattr(options, "base_url", None)) or "base_url" in getattr(options, "stands_in", ())
    use = {
        "model": ["gatekit", *(["plan", name] if has_server else [name, "engine=sim", "task=gsm8k_synth"])],
        "hw": ["gatekit", "plan", name],
        "engine": ["gatekit", "plan", name, *getattr(options, "needs", ())],
        "protocol": ["gatekit", name],
        "matrix": ["gatekit", "plan", options.option],
    }
    shown = f"./{path}" if str(path).startswith("-") else str(path)
    commands = (["gatekit", "validate", shown], [*use[options.group], *folders])
    return [f"  {shlex.join(command)}" for command in commands]
