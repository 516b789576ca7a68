"""What was composed: plain data, the choices behind it, and where every value was written."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any

from gatekit.errors import Problem
from gatekit.records import spec as records
from gatekit.records.secrets import masked_url
from gatekit.service_keys import without_keys
from gatekit.spec.reader import Document, KeyPath, display

# What stands here, or under a key that nobody knows, may be a secret that somebody put into the wrong place.
_PRIVATE = frozenset(
    {
        ("engine", "args"),
        ("engine", "command"),
        ("engine", "env"),
        ("engine", "base_url"),
        ("engine", "api_key_env"),
        ("history", "url"),
        ("history", "url_env"),
        ("model", "server_args"),
        ("model", "server_env"),
        ("model", "path_env"),
    }
)
_SECTIONS = {
    "model": records.Model,
    "hw": records.Hardware,
    "engine": records.Engine,
    "protocol": records.Protocol,
    "task": records.Task,
    "gate": records.Gate,
    "history": records.History,
    "client": records.Client,
}
_SHOWN = {(section, field.name) for section, cls in _SECTIONS.items() for field in fields(cls)} - _PRIVATE
_OPTION_NAMES = re.compile(r"[\w./, *()-]*")
_KEY = re.compile(r"\s*[+~]*\s*[\w./-]*(?:@[\w./:-]*)?\s*")
_BARE_WORD = re.compile(r"[+~]*[\w./@-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_VARIABLES = frozenset({("history", "url_env"), ("model", "path_env")})
_QUOTES = "'\""
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?/?")


def is_private(path: KeyPath) -> bool:
    """Whether the value at `path` is never repeated: a secret may have been put there by mistake."""
    return len(path) < 2 or path[:2] in _PRIVATE


def shown_override(text: str) -> str:
    """An override as it may be shown: the value is left out where secrets go astray, and of a URL the password.

    >>> shown_override("engine.env.KEY=abc"), shown_override("task.n=7")
    ('engine.env.KEY=...', 'task.n=7')
    >>> shown_override("engine.base_url=http://127.0.0.1:80"), shown_override("engine.base_url=http://k:s@h")
    ('engine.base_url=http://127.0.0.1:80', 'engine.base_url=...')
    >>> shown_override("history.url=postgresql://ci:x@db/gates"), shown_override("postgresql://ci:x@db/gates?a=b")
    ('history.url=postgresql://ci:***@db/gates', 'postgresql...')
    """
    return without_keys(_shown(text))


def _shown(text: str) -> str:
    key, sign, value = text.partition("=")
    if not sign or _KEY.fullmatch(key) is None:
        word = _BARE_WORD.match(text)
        return text if word is None or word.group() == text else f"{word.group()}..."
    path = tuple(key.strip().lstrip("+~").strip().split("."))
    if path == ("history", "url"):
        return f"{key}={_shown_url(value)}"
    if path == ("engine", "base_url") and _ADDRESS.fullmatch(value):
        return text
    is_choice = len(path) == 1 and path[0] in _SECTIONS and _OPTION_NAMES.fullmatch(value)
    is_variable = path in _VARIABLES and _VARIABLE.fullmatch(value)
    return text if is_choice or is_variable or path[:2] in _SHOWN else f"{key}=..."


def _shown_url(value: str) -> str:
    """The URL of an override, masked inside its quotes."""
    quote = value[:1] if len(value) > 1 and value[0] in _QUOTES and value[-1] == value[0] else ""
    bare = value[1:-1] if quote else value
    is_none = bare in ("", "null")
    return f"{quote}{bare if is_none else masked_url(bare)}{quote}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """A composed config as plain data, which option of each group it took, and where every value stands.

    Values at `broken` places could not be read, or may be others once the rest is mended; `notes` say what was left
    out. There are some of both only while files are validated. `engines` are the names of all engines of the folders,
    None where nobody looked.
    """

    data: dict[str, Any]
    choices: dict[str, str]
    overrides: tuple[str, ...]
    documents: tuple[tuple[KeyPath, Document], ...]
    broken: frozenset[KeyPath] = frozenset()
    notes: tuple[Problem, ...] = ()
    engines: frozenset[str] | None = None

    def locate(self, path: KeyPath, *, key: bool = False) -> str:
        """Where the value (with `key`: the key) at `path` was written: an override or `file:line:column`."""
        prefixes = [path[:depth] for depth in range(len(path), 0, -1)]
        found = (self._override(prefix) for prefix in prefixes if len(prefix) > 1)
        in_files = (self._file(prefix, key=key and prefix == path) for prefix in prefixes)
        choices = (self._override(prefix) for prefix in prefixes if len(prefix) == 1)
        whole = (display(document.path) for _, document in self.documents)
        return next(filter(None, chain(found, in_files, choices, whole)), "")

    def chooses(self, group: str) -> bool:
        """Whether the command line or a model file chooses an option of `group`, rather than the root default."""
        return self.chosen_at(group) is not None

    def chosen_at(self, group: str) -> str | None:
        """Where the option of `group` is chosen: an override, or the place in a model file; None for the default."""
        if any(text.partition("=")[0] == group for text in self.overrides):
            return self._override((group,))
        wanted = f"override /{group}"
        for package, document in self.documents:
            entries = (document.data.get("defaults") or []) if not package else []
            for index, entry in enumerate(entries):
                if isinstance(entry, dict) and wanted in entry:
                    mark = document.values["defaults", index]
                    return f"{display(document.path)}:{mark.line}:{mark.column}"
        return None

    def is_overridden(self, path: KeyPath) -> bool:
        """Whether the command line sets the value at `path`, or one that it is in."""
        names = {".".join(map(str, path[:depth])) for depth in range(2, len(path) + 1)}
        return any(text.lstrip("+~").partition("=")[0] in names for text in self.overrides)

    def is_in_a_model(self, path: KeyPath) -> bool:
        """Whether a model file sets the value at `path`, rather than an option's file."""
        return any(path in document.values for package, document in self.documents if not package)

    def file_of(self, path: KeyPath) -> Path | None:
        """The file that the value at `path` comes from; None where no file says it."""
        for package, document in self.documents:
            if path[: len(package)] == package and path[len(package) :] in document.values:
                return document.path
        return None

    def _override(self, path: KeyPath) -> str | None:
        name = ".".join(str(part) for part in path)
        for text in reversed(self.overrides):
            if text.lstrip("+~").partition("=")[0] == name:
                return f"override {shown_override(text).lstrip('+')}"
        return None

    def _file(self, path: KeyPath, *, key: bool) -> str | None:
        for package, document in self.documents:
            inside = path[len(package) :]
            marks = document.keys if key else document.values
            if path[: len(package)] == package and inside in marks and inside:
                mark = marks[inside]
                return f"{display(document.path)}:{mark.line}:{mark.column}"
        return None
