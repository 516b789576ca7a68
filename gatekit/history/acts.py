"""What people decided about the history: `<history>/acts/<act id>.json`, one file an act, never changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from gatekit.errors import ConfigError, GatekitError, InfraError
from gatekit.history.durable_files import make_folder, read_bounded, storage_error, write_once
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import sync_hint
from gatekit.records.act import Act, ActKind
from gatekit.records.canonical import Plain, canonical_json, digest, from_plain, to_plain
from gatekit.records.secrets import holds_password
from gatekit.report.escape import escape_terminal
from gatekit.resources import schema
from gatekit.service_keys import holds_key

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

ACTS_FOLDER = "acts"
MAX_ACT_BYTES = 64 * 1024
MAX_REASON_CHARACTERS = 2000
_SHOWN_CHARACTERS = 200
_LINE_CHARACTERS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAct:
    """An act as its file holds it; `digest` is that of its content."""

    path: Path
    act: Act
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """That a run does not count, by an act about it or about the run whose answers it reads."""

    run_id: str
    act: Act

    def line(self) -> str:
        """It in one line, safe for a terminal."""
        copied = "" if self.act.target == self.run_id else f", as a copy of the answers of run {self.act.target}"
        said = f"quarantined on {self.act.made_at}{copied}: {self.act.reason} (act {self.act.act_id})"
        return escape_terminal(said, _LINE_CHARACTERS)


def make_act(kind: ActKind, target: str, *, reason: str, now: datetime, after: str | None = None) -> Act:
    """The act of this moment. Raises ConfigError when the reason is empty, too long, or holds a password.

    The id ends in six digits of the digest of the rest: the same act in the same second is one.
    """
    reason = reason.strip()
    if not 1 <= len(reason) <= MAX_REASON_CHARACTERS:
        what = "the reason is empty" if not reason else f"the reason is longer than {MAX_REASON_CHARACTERS} characters"
        raise ConfigError.one(what, reason="bad-reason", where="--reason", hint="say why, in a sentence")
    refuse_password(reason)
    moment = now.astimezone(UTC)
    made_at = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    tail = digest([kind.value, target, after, reason, made_at]).removeprefix("sha256:")[:6]
    act_id = f"{moment.strftime('%Y%m%dT%H%M%SZ')}-{kind.value}-{tail}"
    return Act(act_id=act_id, kind=kind, target=target, after=after, reason=reason, made_at=made_at)


def refuse_password(reason: str) -> None:
    """Raise ConfigError for a reason that holds a URL with a password, or the key of a service: it would be kept
    for good."""
    if holds_password(reason):
        what = "the reason holds a URL with a password, and a reason is kept"
        raise ConfigError.one(what, reason="bad-reason", where="--reason", hint="leave the password out")
    if holds_key(reason):
        what = "the reason holds what looks like the key of a service, and a reason is kept"
        raise ConfigError.one(what, reason="bad-reason", where="--reason", hint="leave the key out")


def act_digest(act: Act) -> str:
    """`sha256:...` of the act's content."""
    return digest(to_plain(act))


def act_path(place: Place, act_id: str) -> Path:
    """Where the file of an act is, or would be."""
    return place.dir / ACTS_FOLDER / f"{act_id}.json"


def write_act(place: Place, act: Act) -> Path:
    """The file that now holds `act` (0600), durable. Raises InfraError when its id has other content."""
    path = act_path(place, act.act_id)
    plain = to_plain(act)
    try:
        make_folder(path.parent)
        written = write_once(path, canonical_json(plain | {"digest": digest(plain)}) + b"\n")
    except OSError as error:
        raise storage_error("write", path, error) from error
    if not written and read_act(path).digest != digest(plain):
        raise InfraError(
            f"{path} already holds another act; an act is never overwritten",
            reason="act-id-taken",
            hint="try again in a second",
        )
    return path


def record_act(place: Place, act: Act) -> Path:
    """The file that now holds `act`, which is also in the index.

    Raises InfraError when it cannot be written, and when only the index failed: the hint says then how the act
    gets into it.
    """
    from gatekit.history import index

    path = write_act(place, act)
    try:
        index.add_act(place, act, act_digest(act))
    except GatekitError as error:
        kept = f"the act itself is kept in {path}, and {sync_hint(place)}"
        raise InfraError(error.message, reason=error.reason, hint=f"{kept}; {error.hint}") from error
    return path


def act_paths(place: Place) -> Iterator[Path]:
    """Every act file, oldest first. Raises InfraError when the folder is unreadable."""
    folder = place.dir / ACTS_FOLDER
    try:
        names = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_error("read", folder, error) from error
    yield from (folder / name for name in names if name.endswith(".json") and not name.startswith("."))


def read_acts(place: Place) -> tuple[StoredAct, ...]:
    """Every act, oldest first. Raises InfraError for the first file that is broken."""
    return tuple(read_act(path) for path in act_paths(place))


def read_act(path: Path) -> StoredAct:
    """The act in a file, checked byte by byte. Raises InfraError naming the path and the cause."""
    try:
        data = read_bounded(path, MAX_ACT_BYTES)
    except OSError as error:
        raise storage_error("read", path, error) from error
    try:
        plain = json.loads(data.decode("utf-8", errors="surrogatepass"))
        flaw = next(_validator().iter_errors(plain), None)
        is_canonical = flaw is not None or canonical_json(plain) + b"\n" == data
    except (ValueError, RecursionError) as error:
        _refuse_broken(path, str(error))
    if flaw is not None:
        _refuse_broken(path, f"{flaw.json_path}: {flaw.message}")
    if not is_canonical:
        _refuse_broken(path, "its bytes are not in canonical form")
    return _checked(path, plain)


def quarantined_runs(acts: Iterable[Act]) -> frozenset[str]:
    """The ids of the runs that do not count, after these acts in the order in which they were made."""
    found: set[str] = set()
    for act in acts:
        if act.kind is ActKind.QUARANTINE:
            found.add(act.target)
        elif act.kind is ActKind.RELEASE:
            found.discard(act.target)
    return frozenset(found)


def _checked(path: Path, plain: Plain) -> StoredAct:
    content = {key: value for key, value in plain.items() if key != "digest"}
    if plain["digest"] != digest(content):
        _refuse_broken(path, "its digest does not match its content")
    act = from_plain(Act, content)
    if path.name != f"{act.act_id}.json":
        _refuse_broken(path, f"it holds act {act.act_id}")
    return StoredAct(path=path, act=act, digest=plain["digest"])


@cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema("act"))


def _refuse_broken(path: Path, why: str) -> NoReturn:
    raise InfraError(
        f"act {path} is broken: {why[:_SHOWN_CHARACTERS]}",
        reason="act-broken",
        hint="restore the file from a copy, or move it out of acts/",
    )
