"""The files of a model that a server loads: where they are on this machine, and which bytes they hold."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gatekit.engine.argv import model_path
from gatekit.history.durable_files import open_regular
from gatekit.records.canonical import digest
from gatekit.records.spec import Spec
from gatekit.report.escape import escape_terminal

_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_BLOB = re.compile(r"[0-9a-f]{64}")
_WEIGHTS = frozenset({".safetensors", ".bin", ".gguf", ".pt", ".pth", ".msgpack", ".h5", ".onnx"})
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
# What a server reads beside weights; logs and lock files that somebody else keeps in the folder are none of it.
_READ_TOO = frozenset({".json", ".py", ".model", ".jinja", ".tiktoken"})
_VOCABULARIES = frozenset({"merges.txt", "vocab.txt"})
_MOST_FILES = 2000
_MOST_LOOKED_AT = 10_000
_DEEPEST = 8
_MOST_NAMED = 200
_MOST_JSON_BYTES = 64 * 2**20
_MOST_WEIGHT_BYTES = 2**30  # hashed, all in all: a digest that nobody asked for must not cost minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A folder of model files. `commit` is the hub's own name of them, None for a folder of one's own."""

    folder: Path
    commit: str | None = None


def find_snapshot(spec: Spec, env: Mapping[str, str], environ: Mapping[str, str]) -> Snapshot | None:
    """The folder that a server with the environment `env` would load; None where it has none yet, or takes one file.

    A hub id is looked up in the Hugging Face cache: the pinned revision, or the one that `main` was last.
    """
    name = model_path(spec, environ)
    path = Path(name)
    if path.is_dir():
        return Snapshot(folder=path)
    if not _HUB_ID.fullmatch(name) or path.exists():
        return None
    repository = _cache(env) / f"models--{name.replace('/', '--')}"
    commit = spec.model.revision if name == spec.model.name else None
    commit = commit or _commit_of_main(repository)
    if commit is None or not _COMMIT.fullmatch(commit):
        return None
    folder = repository / "snapshots" / commit
    return Snapshot(folder=folder, commit=commit) if folder.is_dir() else None


def is_complete(snapshot: Snapshot) -> bool:
    """Whether a server can load the snapshot without the network: config, weights, and all that their index names."""
    files = dict(model_files(snapshot))
    if "config.json" not in files or not all(path.is_file() for path in files.values()):
        return False
    wanted = {shard for index in _INDEXES if index in files for shard in _shards(files[index])}
    has_weights = any(path.suffix in _WEIGHTS for path in files.values())
    return has_weights and wanted <= files.keys()


def model_files(snapshot: Snapshot) -> Iterator[tuple[str, Path]]:
    """Names (relative, with /) and paths of the files, sorted; at most 2,000 of what `looked_at` sees."""
    yield from looked_at(snapshot).files[:_MOST_FILES]


def loadable_files(snapshot: Snapshot) -> Iterator[Path]:
    """Those of the files that a server loads: weights, configs, vocabularies, templates and code."""
    for _, path in looked_at(snapshot).files:
        if path.suffix in _WEIGHTS | _READ_TOO or path.name in _VOCABULARIES:
            yield path


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Names (relative, with /) and paths of files, sorted. `beyond` is where more may be that was not looked at."""

    files: tuple[tuple[str, Path], ...]
    beyond: str | None


def looked_at(snapshot: Snapshot) -> Listing:
    """The snapshot's files, behind links to folders too: at most 10,000, at most eight folders deep, none hidden."""
    walk = _Walk(snapshot.folder)
    found = list(itertools.islice(walk.files(snapshot.folder, _DEEPEST), _MOST_LOOKED_AT + 1))
    beyond = f"more than {_MOST_LOOKED_AT:,} files" if len(found) > _MOST_LOOKED_AT else walk.beyond
    return Listing(files=tuple(sorted(found[:_MOST_LOOKED_AT])), beyond=beyond)


def file_digests(snapshot: Snapshot) -> dict[str, str]:
    """What a record says of the files: `snapshot.commit`, a digest of all, and each of the first 200 by its name.

    Weights that lie in the Hugging Face cache keep the name that the hub gave them, their sha256; others are hashed up
    to 1 GiB in all. Everything else is hashed. What cannot be read, or is too large, is told by its size.
    """
    left = _MOST_WEIGHT_BYTES
    found: dict[str, str] = {}
    for name, path in model_files(snapshot):
        found[name], used = _described(path, left)
        left -= used
    told = {f"snapshot.file.{escape_terminal(name, limit=120)}": found[name] for name in list(found)[:_MOST_NAMED]}
    commit = {} if snapshot.commit is None else {"snapshot.commit": snapshot.commit}
    return {**commit, "snapshot.digest": digest(found), "snapshot.files": str(len(found)), **told}


def read_json(path: Path, *, limit: int = _MOST_JSON_BYTES) -> object:
    """The JSON value in a file. Raises OSError (for a pipe too) or ValueError (too large or too deep included)."""
    with os.fdopen(open_regular(path), "rb") as file:
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise ValueError(f"larger than {limit // 2**20} MiB")
    try:
        value: object = json.loads(raw.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _cache(env: Mapping[str, str]) -> Path:
    """The hub cache that a server with this environment has, as huggingface_hub finds it."""
    if env.get("HF_HUB_CACHE"):
        return Path(env["HF_HUB_CACHE"])
    home = env.get("XDG_CACHE_HOME") or str(Path(env.get("HOME") or "/nonexistent") / ".cache")
    return Path(env.get("HF_HOME") or Path(home) / "huggingface") / "hub"


def _commit_of_main(repository: Path) -> str | None:
    try:
        with os.fdopen(open_regular(repository / "refs" / "main"), encoding="ascii", errors="replace") as file:
            return file.read(64).strip()
    except OSError:
        return None


class _Walk:
    """One walk through a folder; `beyond` is the first place where it did not go on and a server might."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.beyond: str | None = None
        self._folders_left = _MOST_LOOKED_AT

    def files(self, folder: Path, deep: int, above: frozenset[object] = frozenset()) -> Iterator[tuple[str, Path]]:
        """Each file below the folder. A folder that lies in itself, by a link, is not entered again."""
        inside = above | {_identity(folder)}
        for entry in self._entries(folder):
            path = Path(entry.path)
            if not _is_folder(entry):
                yield path.relative_to(self.root).as_posix(), path
            elif entry.name.startswith(".") or _identity(path) in inside:
                continue
            elif deep > 1:
                yield from self.files(path, deep - 1, inside)
            else:
                self._cut(path, f"deeper than {_DEEPEST} folders")

    def _entries(self, folder: Path) -> list[os.DirEntry[str]]:
        self._folders_left -= 1
        if self._folders_left < 0:
            self._cut(folder, f"more than {_MOST_LOOKED_AT:,} folders")
            return []
        try:
            with os.scandir(folder) as entries:
                found = list(itertools.islice(entries, _MOST_LOOKED_AT + 1))
        except PermissionError:
            return []  # what this user may not read its server cannot load
        except OSError as problem:
            self._cut(folder, problem.strerror or "unreadable")
            return []
        if len(found) > _MOST_LOOKED_AT:
            self._cut(folder, f"more than {_MOST_LOOKED_AT:,}")
        return sorted(found, key=lambda entry: entry.name)

    def _cut(self, folder: Path, why: str) -> None:
        name = "" if folder == self.root else f" in {folder.relative_to(self.root).as_posix()}"
        self.beyond = self.beyond or f"files{name} ({why})"


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _shards(index: Path) -> Iterator[str]:
    try:
        value = read_json(index)
    except (OSError, ValueError):
        return
    weights = value.get("weight_map") if isinstance(value, dict) else None
    if isinstance(weights, dict):
        yield from {shard for shard in weights.values() if isinstance(shard, str)}


def _described(path: Path, left: int) -> tuple[str, int]:
    """What is said of one file, and how many bytes of weights were read for it."""
    try:
        status = path.stat()
    except OSError:
        return "missing", 0
    if not stat.S_ISREG(status.st_mode):
        return "no regular file", 0
    if (blob := _blob(path)) is not None:
        return f"sha256:{blob} by its name, {status.st_size} bytes", 0
    is_weight = path.suffix in _WEIGHTS
    if status.st_size > (left if is_weight else _MOST_JSON_BYTES):
        return f"{status.st_size} bytes", 0
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "unreadable", 0
    return f"sha256:{found}", status.st_size if is_weight else 0


def _blob(path: Path) -> str | None:
    """The sha256 by which the hub's cache names a large file; None for what lies elsewhere, or is no weight."""
    if path.suffix not in _WEIGHTS or not path.is_symlink():
        return None
    target = path.readlink()
    return target.name if target.parent.name == "blobs" and _BLOB.fullmatch(target.name) else None
