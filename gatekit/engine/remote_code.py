"""Whether a model's files name code to be run, and whether the spec allows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gatekit.engine.advisories import NO_REMOTE_CODE
from gatekit.engine.snapshot import Snapshot, looked_at, read_json
from gatekit.errors import InfraError
from gatekit.records.spec import Model
from gatekit.report.escape import escape_terminal

_MOST_CONFIG_BYTES = 16 * 2**20
# `auto_map` and `custom_pipelines` name classes in files of the repository; transformers imports those.
_NAMES_CODE = frozenset({"auto_map", "custom_pipelines"})
# Kernels by this key come from another repository of the hub (CVE-2026-4372).
_NAMES_REPOSITORY = frozenset({"_attn_implementation_internal", "_attn_implementation", "attn_implementation"})
_CONFIG = "config.json"
_GENERATION_CODE = "custom_generate/generate.py"
_MOST_VALUES = 200_000


def remote_code(snapshot: Snapshot) -> str:
    """What the files name to be run, such as `auto_map in config.json`; `none` for nothing.

    A config that cannot be read counts as one that does, and so do files that were not looked at: what is in them is
    not known.
    """
    listing = looked_at(snapshot)
    by_name = ((name, snapshot.folder / name) for name in (_GENERATION_CODE, _CONFIG))
    for name, path in (*filter(_is_there, by_name), *listing.files):
        if name == _GENERATION_CODE:
            return name
        if name.endswith(".json") and "config" in name.rpartition("/")[2]:
            found = _in_config(path)
            if found is not None:
                return f"{found} in {escape_terminal(name, limit=120)}"
    if listing.beyond is not None:
        return f"something not looked at: {escape_terminal(listing.beyond, limit=120)}"
    return NO_REMOTE_CODE


def refuse_remote_code(model: Model, found: str) -> None:
    """Raise InfraError for code that the model brings and the spec does not allow."""
    if found == NO_REMOTE_CODE or (model.trust_remote_code and model.allow_remote_code):
        return
    raise InfraError(
        f"model {model.name} brings code of its own ({found}), which nobody allowed to run",
        reason="remote-code-refused",
        hint="read it, then set model.trust_remote_code and model.allow_remote_code to true and pin model.revision",
    )


def _is_there(file: tuple[str, Path]) -> bool:
    try:
        file[1].stat()
    except OSError:
        return False
    return True


def _in_config(path: Path) -> str | None:
    try:
        value = read_json(path, limit=_MOST_CONFIG_BYTES)
    except (OSError, ValueError) as problem:
        return f"something unreadable ({escape_terminal(str(problem), limit=80)})"
    return next(_named(value), None)


def _named(value: object) -> Iterator[str]:
    todo, seen = [value], 0
    while todo:
        seen += 1
        if seen > _MOST_VALUES:
            yield "something too long to be read"
            return
        one = todo.pop()
        if isinstance(one, list):
            todo += one
        elif isinstance(one, dict):
            for key, inner in one.items():
                if key in _NAMES_CODE and inner:
                    yield key
                if key in _NAMES_REPOSITORY and isinstance(inner, str) and "/" in inner:
                    yield key
                if key == "trust_remote_code" and inner is True:
                    yield key
            todo += one.values()
