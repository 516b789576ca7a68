"""The command line: which command, how it is told that something is wrong, and the exit code."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType

from gatekit import __version__
from gatekit.cli.arguments import HelpWanted
from gatekit.cli.crash import machine_fault
from gatekit.cli.memory_limit import refuse_little_memory
from gatekit.cli.output import put, warn
from gatekit.errors import ConfigError, ExitCode, GatekitError, InfraError, Interrupted
from gatekit.records.secrets import masked_text

HELP = """\
gatekit: is this build of an LLM inference server still accurate?

usage:
  python -m gatekit [GROUP=OPTION] [KEY=VALUE] ...   run one gate and give its verdict
  python -m gatekit -m GROUP=A,B ...                 run several, one after another
  python -m gatekit run --matrix NAME [KEY=VALUE]    run every spec of a matrix, one after another
  python -m gatekit plan MATRIX|GROUP=OPTION ...     print what would run, run nothing; --list shows the matrices
  python -m gatekit validate [PATH] ...              every mistake in config files, each at its line
  python -m gatekit history list|show|compare|plot   the runs so far (and verify, import, export, quarantine, ...)
  python -m gatekit explain RUN                      how a verdict follows from its record
  python -m gatekit thresholds recompute ...         locks from comparable history, as a reviewable diff
  python -m gatekit power --p0 P [--n N] ...         what n questions can notice
  python -m gatekit audit [GROUP=OPTION] ...         what the thresholds of the configs really do
  python -m gatekit init model|hw|engine|... NAME    a new config file in your own folder
  python -m gatekit lint [--history DIR]             what no gate covers, and names that say otherwise
  python -m gatekit reap [--kill]                    servers that a killed run left on this machine

examples:
  python -m gatekit                                  the default: a simulated model, no GPU, no network
  python -m gatekit model=laguna_int4 hw=b200        start the server on this machine and gate it
  python -m gatekit model=laguna_int4 hw=b200 engine=external engine.base_url=http://127.0.0.1:8000
  python -m gatekit engine.accuracy=0.70             watch a regression fail

options:
  -m, --multirun         sweep: every combination of the comma-separated values
  --matrix NAME          the specs of a matrix; --only SPEC for one of them
  --cfg                  as plan
  --config-dir DIR       a folder of your own config groups; its files come before the shipped ones
  --run-id NAME          name the run (letters, digits, . _ -); one that was cut off, or ended as INFRA, goes on
  --resume RUN           go on with a run that was cut off: only what it lacks is asked; --dir for its history
  --json                 one JSON document on stdout instead of text
  --allow-inconclusive   exit 0 instead of 4 when the evidence supports no verdict
  --version, --help

groups: model, hw, engine, protocol, task, gate, history
exit codes: 0 PASS, 1 FAIL (a measured regression), 2 wrong input, 3 INFRA, 4 INCONCLUSIVE,
  70 a bug in gatekit, 130 and 143 interrupted
"""

_VALUED_OPTIONS = (
    *("--config-dir", "--run-id", "--resume", "--matrix", "--only"),
    *("--dir", "--url", "--reason", "--as-of", "--key", "--format"),
)

Command = Callable[[Sequence[str]], ExitCode]


class _Terminated(KeyboardInterrupt):
    exit_code = ExitCode.TERMINATED


def main(arguments: Sequence[str]) -> ExitCode:
    """The exit code of one command line; everything a user needs to know is printed."""
    _unwind_on_termination()
    _never_fail_on_characters()
    try:
        try:
            return _run(arguments)
        except HelpWanted as wish:
            put(wish.text)
            return ExitCode.PASS
    except GatekitError as error:
        code = error.signal_code if isinstance(error, Interrupted) else error.exit_code
        say_error(error, code, as_json="--json" in arguments)
        return code
    except Exception as error:
        fault = machine_fault(error)
        if fault is None:
            raise
        say_error(fault, fault.exit_code, as_json="--json" in arguments)
        return fault.exit_code


def say_error(error: GatekitError, code: ExitCode, *, as_json: bool) -> None:
    """One line per problem on stderr, and with `as_json` the same as a document on stdout."""
    if as_json:
        from gatekit.report.summary import summarise_error

        with contextlib.suppress(InfraError):
            put(json.dumps(summarise_error(error, code)))
    for line in error.lines():
        warn(line)


def _run(arguments: Sequence[str]) -> ExitCode:
    if arguments and arguments[0] in ("-h", "--help", "help"):
        raise HelpWanted(HELP)
    if "--version" in arguments:
        raise HelpWanted(f"gatekit {__version__}")
    _refuse_no_folder()
    name, rest = _command(arguments)
    if name not in _WITHOUT_NUMBERS:
        refuse_little_memory(os.environ)
    return commands()[name](rest)


def _refuse_no_folder() -> None:
    """Every name that is typed or printed is relative to a working directory, which somebody may have deleted."""
    try:
        os.getcwd()  # noqa: PTH109 - it is there only for the error
    except OSError as error:
        what = f"the working directory cannot be used: {error.strerror}"
        raise ConfigError.one(what, reason="no-working-directory", hint="cd to one that is there") from None


def _command(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The command's name and what follows it; a line that starts with an override or option is a run."""
    index = _first_word(arguments)
    if index is None:
        return "run", arguments
    first = arguments[index]
    if first in commands():
        return first, [*arguments[:index], *arguments[index + 1 :]]
    known = list(commands())
    near = difflib.get_close_matches(first, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"commands are {', '.join(known)}; overrides are KEY=VALUE"
    hint = _meant_matrix(first, arguments) or hint
    raise ConfigError.one(f"unknown command {masked_text(first)!r}", reason="unknown-command", hint=hint)


def _meant_matrix(word: str, arguments: Sequence[str]) -> str:
    """How the matrix is run that the word names or nearly names; nothing where there is none."""
    from gatekit.resources import conf_dir
    from gatekit.spec.matrix.words import meant_by

    typed = [value for option, value in pairwise(arguments) if option == "--config-dir"]
    typed += [text.partition("=")[2] for text in arguments if text.startswith("--config-dir=")]
    named = [*typed, *os.environ.get("GATEKIT_CONF_PATH", "").split(":")]
    with contextlib.suppress(OSError):
        return meant_by(word, [*map(Path, filter(None, named)), conf_dir()], typed)
    return ""


def _first_word(arguments: Sequence[str]) -> int | None:
    """Where the first argument stands that is neither an option, an option's value nor an override."""
    is_value = False
    for index, argument in enumerate(arguments):
        if not is_value and not argument.startswith(("-", "+", "~")) and "=" not in argument:
            return index
        is_value = argument in _VALUED_OPTIONS
    return None


_WITHOUT_NUMBERS = frozenset({"validate", "reap"})
"""Commands that load neither NumPy nor SciPy."""


def commands() -> dict[str, Command]:
    """The commands by name."""
    return {
        "run": _gate,
        "plan": _plan,
        "validate": _validate,
        "history": _history,
        "explain": _explain,
        "power": _power,
        "audit": _audit,
        "thresholds": _thresholds,
        "init": _init,
        "lint": _lint,
        "reap": _reap,
    }


def _gate(arguments: Sequence[str]) -> ExitCode:
    from gatekit.cli.run import run

    return run(arguments, environ=os.environ)


def _plan(arguments: Sequence[str]) -> ExitCode:
    from gatekit.cli.plan import run

    return run(arguments, environ=os.environ)


def _validate(arguments: Sequence[str]) -> ExitCode:
    from gatekit.cli.validate import run

    return run(arguments, environ=os.environ)


def _history(arguments: Sequence[str]) -> ExitCode:
    from gatekit.cli.history.command import run

    return run(arguments)


def _explain(arguments: Sequence[str]) -> ExitCode:
    from gatekit.cli.explain import run

    return run(arguments)


def _power(arguments: Sequence[str]) -> ExitCode:
    from gatekit.cli.power import run

    return run(arguments)


def _audit(arguments: Sequence[str]) -> ExitCode:
    from gatekit.cli.audit import run

    return run(arguments, environ=os.environ)


def _thresholds(arguments: Sequence[str]) -> ExitCode:
    from gatekit.cli.thresholds.command import run

    return run(arguments, environ=os.environ)


def _init(arguments: Sequence[str]) -> ExitCode:
    from gatekit.cli.init import run

    return run(arguments, environ=os.environ)


def _lint(arguments: Sequence[str]) -> ExitCode:
    from gatekit.cli.lint import run

    return run(arguments, environ=os.environ)


def _reap(arguments: Sequence[str]) -> ExitCode:
    from gatekit.cli.reap import run

    return run(arguments)


def _unwind_on_termination() -> None:
    """SIGTERM and SIGHUP unwind like Ctrl-C, so that every server is stopped; nohup's choice is kept.

    In another thread than the main one they are the caller's: Python gives signals to the main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        return

    def unwind(number: int, frame: FrameType | None) -> None:
        raise _Terminated

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, unwind)


def _never_fail_on_characters() -> None:
    """An ASCII terminal shows escapes instead of raising UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
