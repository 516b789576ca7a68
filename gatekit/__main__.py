"""The process's edge: whatever happens, imports included, ends in one of gatekit's exit codes."""

from __future__ import annotations

import os
import sys


def _is_module() -> bool:
    """Whether Python was told `-m gatekit`, and looks for modules in the working directory first."""
    if __name__ != "__main__" or __spec__ is None or sys.flags.safe_path or not sys.path:
        return False
    try:
        return sys.path[0] in ("", os.getcwd())  # noqa: PTH109 - a text, and nothing more is imported yet
    except OSError:
        return sys.path[0] == ""


# A yaml.py that somebody leaves there would run; gatekit's own modules are found through its package.
if _is_module():
    del sys.path[0]

import contextlib  # noqa: E402 - not from the working directory

_INTERNAL = 70
_INTERRUPTED = 130


def main() -> None:
    """Run the command line and leave with its exit code."""
    code = _INTERNAL
    _occupy_standard_descriptors()
    try:
        from gatekit.cli.main import main as command_line

        code = int(command_line(sys.argv[1:]))
    except KeyboardInterrupt as error:
        code = getattr(error, "exit_code", _INTERRUPTED)
        _say("gatekit: stopped by a signal [interrupted]")
    except BaseException as error:  # an exit code of 1 must never mean a crash
        _report_bug(error)
    _leave(code)


def _occupy_standard_descriptors() -> None:
    # A descriptor that the caller closed would be given to the next file, and a print would write into it.
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _report_bug(error: BaseException) -> None:
    said = str(error)[:200].replace("##", "#\\x23")  # a CI service could take it for a command
    what = f"gatekit: internal error: {type(error).__name__}: {said!a}"
    try:
        import tempfile
        import traceback

        handle, path = tempfile.mkstemp(prefix="gatekit-crash-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            traceback.print_exception(error, file=file)
        what += f"; a bug in gatekit, not a verdict; details in {path} [internal]"
    except BaseException:  # a full disk must not change the exit code
        what += "; a bug in gatekit, not a verdict [internal]"
    if "--json" in sys.argv:
        import json

        document = {"verdict": "INTERNAL", "exit_code": _INTERNAL, "reason_code": "internal", "reason": what}
        _say(json.dumps(document), to_stdout=True)
    _say(what)


def _say(text: str, *, to_stdout: bool = False) -> None:
    stream = sys.stdout if to_stdout else sys.stderr
    if stream is not None:  # print would take stdout for it
        with contextlib.suppress(OSError, ValueError):
            print(text, file=stream)


def _leave(code: int) -> None:
    # Python would turn a reader that went away into exit code 120, and a verdict would be lost.
    for stream in filter(None, (sys.stdout, sys.stderr)):  # a closed descriptor is None
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


if __name__ == "__main__":
    main()
