"""The folders that records name for their locks: a record may come from anyone, so it never leads out of here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path, PurePath

from gatekit.errors import ConfigError
from gatekit.history.place import Place
from gatekit.records.spec import Gate
from gatekit.spec.locks import DEFAULT_FOLDER


def lock_folder(gate: Gate, spec_name: str) -> Path:
    """`gate.locks`, below the working directory and in no hidden folder, links followed. Raises ConfigError."""
    why = _why_not(gate.locks)
    if why is not None:
        what = f"{spec_name}: its newest run keeps locks in {gate.locks}, which {why}"
        raise ConfigError.one(what, reason="locks-elsewhere", hint="recompute it by its config instead of --all-series")
    return Path(gate.locks)


def lock_folders(places: Iterable[Place], *more: Path) -> list[Path]:
    """The default folder, `more`, and every one that a gate of a run in these histories names and that is here.

    Raises InfraError where a history cannot be read.
    """
    from gatekit.history.index import gate_sections

    named = [json.loads(text).get("locks") for place in places for text in gate_sections(place)]
    here = {Path(text) for text in named if isinstance(text, str) and _why_not(text) is None}
    return sorted({DEFAULT_FOLDER, *more, *here})


def _why_not(text: str) -> str | None:
    named = PurePath(text)
    outside = "is not below this folder"
    if named.is_absolute() or ".." in named.parts:
        return outside
    try:
        below = Path(text).resolve().relative_to(Path.cwd().resolve())
    except (OSError, RuntimeError):  # a link that leads back to itself
        return "cannot be followed"
    except ValueError:  # another folder, or a name that no file can have
        return outside
    is_hidden = any(part.startswith(".") for part in (*named.parts, *below.parts))
    return "is in a hidden folder" if is_hidden else None
