"""What a server of our own has loaded: read in bounded time, the same to the end, and what it was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from gatekit.engine.serve import Endpoint
from gatekit.errors import InfraError
from gatekit.records.canonical import Plain
from gatekit.records.spec import Engine
from gatekit.report.escape import escape_terminal
from gatekit.run.daemon_thread import in_daemon_thread
from gatekit.run.server_info import text_at

T = TypeVar("T")
MODEL_PATH = "model_path"
"""The name under which `engine.effective` says where a server tells what it has loaded."""

_SHOWN_CHARACTERS = 200


async def files_loaded(endpoint: Endpoint, timeout_s: float) -> Mapping[str, str]:
    """What a record says of the model's files.

    Raises InfraError where they cannot be read in time, have changed since the start, or name code that nobody allowed.
    """
    return await _in_time(endpoint.files, timeout_s)


async def refuse_changed_files(endpoint: Endpoint, timeout_s: float) -> None:
    """Raise InfraError where the model's files have changed since they were loaded, or cannot be looked at in time."""
    await _in_time(endpoint.refuse_changed, timeout_s)


def refuse_other_weights(endpoint: Endpoint, engine: Engine, description: Mapping[str, Plain]) -> None:
    """Raise InfraError where the server tells that it has loaded another file or folder than it was given.

    A hub id is no path: what it comes to is the server's to say.
    """
    key = (engine.effective or {}).get(MODEL_PATH)
    told = text_at(description, key) if key is not None else None
    given = endpoint.weights
    if told is None or given is None or told == given or not _is_there(given) or _is_same(told, given):
        return
    shown = [escape_terminal(path, limit=_SHOWN_CHARACTERS) for path in (given, told)]
    raise InfraError(
        f"the server was given {shown[0]} and tells that it serves {shown[1]}",
        reason="wrong-weights",
        hint="which weights are served is model.name: no argument and no variable may say otherwise",
    )


async def _in_time(call: Callable[[], T], timeout_s: float) -> T:
    try:
        return await in_daemon_thread(call, timeout_s)
    except TimeoutError:
        raise InfraError(
            f"the model's files could not be read within {timeout_s:.0f} s",
            reason="files-unreadable",
            hint="check the disk or mount that they are on, or raise engine.startup_timeout_s",
        ) from None


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def _is_same(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except (OSError, ValueError):
        return False
