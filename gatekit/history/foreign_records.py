"""A file of `history export`, line by line: whole run records and the acts about them, each checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from gatekit.errors import ConfigError
from gatekit.history.acts import MAX_ACT_BYTES
from gatekit.history.foreign_lines import foreign_lines
from gatekit.history.foreign_secrets import act_secret, record_secret
from gatekit.history.record_form import checked_record, record_contradiction
from gatekit.history.records_folder import MAX_RECORD_BYTES
from gatekit.history.score_check import Readers
from gatekit.history.totals import json_flaw
from gatekit.records.act import Act
from gatekit.records.canonical import Plain, digest, from_plain
from gatekit.records.moment import is_moment
from gatekit.records.run import RunRecord
from gatekit.resources import schema

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

MAX_RECORDS_BYTES = 16 * 1024**3
_SHOWN_CHARACTERS = 200
_OTHER_FORMAT = "nothing was imported; old totals need --format totals"
_NOT_WHOLE = (TypeError, ValueError, AttributeError, LookupError, RecursionError, OverflowError)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLine:
    """A record with the digest it is known by, and `mark`, the hash of its very line."""

    line: int
    mark: bytes
    digest: str
    record: RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ActLine:
    """An act with the digest it is known by."""

    line: int
    digest: str
    act: Act


def checked_lines(path: Path, readers: Readers) -> Iterator[RecordLine | ActLine]:
    """Each record and act of the file. Raises ConfigError naming the first line that is neither, is not whole,
    contradicts itself (as `record_contradiction`), or holds a secret."""
    for line, text in _lines(path):
        where = f"{path}:{line}"
        plain = _plain(where, text)
        if isinstance(plain, Mapping) and "act_id" in plain:
            yield ActLine(line=line, digest=str(plain.get("digest")), act=_act(where, text, plain))
        else:
            yield RecordLine(line=line, mark=_mark(text), record=_record(where, plain, readers), digest=plain["digest"])


def read_again(path: Path, wanted: Mapping[int, bytes]) -> Iterator[Plain]:
    """The records in these lines, whose marks are known from the first reading, so that they are not checked again.

    Raises ConfigError when the file changed meanwhile.
    """
    left = dict(wanted)
    for line, text in _lines(path):
        if line in left:
            if _mark(text) != left.pop(line):
                _refuse_changed(path)
            yield json.loads(text)
    if left:
        _refuse_changed(path)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    lines = foreign_lines(path, line_limit=MAX_RECORD_BYTES, file_limit=MAX_RECORDS_BYTES, errors="surrogatepass")
    return ((number, text) for number, text in lines if text.strip())


def _mark(text: str) -> bytes:
    return sha256(text.encode("utf-8", errors="surrogatepass")).digest()


def _plain(where: str, text: str) -> Plain:
    try:
        return json.loads(text.rstrip(), object_pairs_hook=_once_each, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        _refuse(where, "run record", json_flaw(error))


def _record(where: str, plain: Plain, readers: Readers) -> RunRecord:
    try:
        record = checked_record(plain)
    except _NOT_WHOLE as error:
        _refuse(where, "run record", str(error))
    try:
        why = record_contradiction(record, readers)
    except _NOT_WHOLE as error:
        why = str(error)
    if why is not None:
        _refuse(where, "run record", why, hint="nothing was imported; look where it came from")
    _refuse_secret(where, "record", record_secret(record, plain))
    return record


def _act(where: str, text: str, plain: Mapping[str, Plain]) -> Act:
    if len(text) > MAX_ACT_BYTES:
        _refuse(where, "act", f"it is longer than {MAX_ACT_BYTES} characters")
    try:
        flaw = next(_validator().iter_errors(plain), None)
        if flaw is not None:
            _refuse(where, "act", f"{'.'.join(map(str, flaw.absolute_path))}: {flaw.message}")
        content = {key: value for key, value in plain.items() if key != "digest"}
        if digest(content) != plain["digest"]:
            _refuse(where, "act", "its digest does not match its content")
        act = from_plain(Act, content)
    except _NOT_WHOLE as error:
        _refuse(where, "act", str(error))
    if not is_moment(act.made_at):
        _refuse(where, "act", "made_at: no moment of UTC such as 2026-11-30T03:15:00Z")
    if f"-{act.kind.value}-" not in act.act_id:
        _refuse(where, "act", f"it is called {act.act_id} and is a {act.kind.value}")
    _refuse_secret(where, "act", act_secret(plain))
    return act


def _once_each(pairs: list[tuple[str, Plain]]) -> dict[str, Plain]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


@cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema("act"))


def _refuse(where: str, what: str, why: str, *, hint: str = _OTHER_FORMAT) -> NoReturn:
    raise ConfigError.one(f"not a whole {what}: {why[:_SHOWN_CHARACTERS]}", where=where, reason="bad-import", hint=hint)


def _refuse_secret(where: str, what: str, secret: str | None) -> None:
    if secret is not None:
        hint = "nothing was imported; change this secret, and leave the line out"
        raise ConfigError.one(f"{secret}, and {what}s are kept", where=where, reason="bad-import", hint=hint)


def _refuse_changed(path: Path) -> NoReturn:
    what = f"{path} changed while it was read"
    raise ConfigError.one(what, reason="bad-import", hint="import it again; known runs count once")
