"""What stands in a journal: one JSON object a line, its only key the kind, the first one the header."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from gatekit.records.answers import Cell, Observation, Status
from gatekit.records.canonical import Plain, canonical_json, from_plain, to_plain
from gatekit.records.run import Comparability, Served
from gatekit.records.spec import Spec

T = TypeVar("T")

JOURNAL_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What makes a journal resumable: the spec without secrets and the key that follows from it and its questions.

    `began_at` is when the first of its parts began. `continues` is the run whose answers it began with, which has a
    record of its own.
    """

    journal: int = JOURNAL_FORMAT
    record: int
    run_id: str
    gatekit_version: str
    began_at: str
    spec: Spec
    comparability: Comparability
    continues: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSeen:
    """Who answers from here on; what is not known is None, and compares with nothing.

    Of a server that was started for this run, `models` is None: it was given a name that nobody else has. `model_said`
    is what its list says of the asked model, `fingerprint` that of its first answer; neither is known of a started one.
    `flip_seed` is that of a simulated model.
    """

    models: tuple[str, ...] | None = None
    version: str | None = None
    build: str | None = None
    weights_sha256: str | None = None
    model_said: Mapping[str, str] | None = None
    fingerprint: str | None = None
    flip_seed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """Every question that was needed is answered, and the server was the same to the end: only the verdict is left."""

    served: Served | None
    stopped_early: str | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a journal holds.

    `answers` has one observation per finished question and repeat, in order of completion. Not among them are answers
    that came after a lost connection where their part ended before the server was confirmed; `unconfirmed` is how
    many the last part has of these. `end` says how the last part ended: None where nothing did, because it was killed.
    `spoiled` is why its answers are of no use. `size` is where the last whole line ends, in bytes, `body` where the
    first line behind the header begins. `lines` are the numbers of the lines of `answers`, `answers_size` the bytes of
    all lines that hold an answer, also of those that are not among them any more.
    """

    header: Header
    answers: tuple[Observation, ...] = ()
    lines: tuple[int, ...] = ()
    answers_size: int = 0
    unconfirmed: int = 0
    servers: tuple[ServerSeen, ...] = ()
    events: tuple[str, ...] = ()
    end: str | None = None
    spoiled: str | None = None
    done: Done | None = None
    body: int
    size: int


class BrokenLineError(Exception):
    """A line that no journal has."""


def line_of(kind: str, value: object) -> bytes:
    """The line of a header, answer, server, doubt, confirmed, event, end, spoiled or done."""
    plain = to_plain(value)
    if isinstance(value, Observation) and value.repeat == 0:  # left out, as in records
        del plain["repeat"]
    if isinstance(value, Header) and value.spec.protocol.repeats == 1:
        del plain["spec"]["protocol"]["repeats"]
    return canonical_json({kind: plain}) + b"\n"


def header_of(line: bytes) -> Header:
    """The header in a first line. Raises BrokenLineError for anything else, also of a newer gatekit."""
    kind, value = kind_and_value(line)
    if kind != "header" or not isinstance(value, dict):
        raise BrokenLineError("it does not begin with a header")
    if value.get("journal") != JOURNAL_FORMAT:
        raise BrokenLineError("it is of another format than this gatekit writes")
    try:
        return _built(Header, value)
    except BrokenLineError as error:
        version = str(value.get("gatekit_version"))[:20]
        raise BrokenLineError(f"it was begun by gatekit {version!r}, and does not fit this one: {error}") from None


def kind_and_value(line: bytes) -> tuple[str, Plain]:
    """The only key of the line's object, and its value. Raises BrokenLineError."""
    try:
        found = json.loads(line.decode("utf-8", errors="surrogatepass"))
    except (ValueError, RecursionError):
        raise BrokenLineError("it is not JSON") from None
    if not isinstance(found, dict) or len(found) != 1:
        raise BrokenLineError("it is no line of a journal")
    return next(iter(found.items()))


class _Instead(NamedTuple):
    """What stood for a question before an answer to it that is in doubt: nothing, or that it was lost."""

    cell: Cell
    before: Observation | None
    line: int | None


class Reading:
    """Takes the lines behind a header, one by one, and makes of them what is kept."""

    def __init__(self, header: Header, body: int) -> None:
        self._header = header
        self._body = body
        self._number = 1
        self._answers: dict[Cell, Observation] = {}
        self._lines: dict[Cell, int] = {}
        self.answers_size = 0
        self._doubts: list[list[_Instead]] = []
        self._servers: list[ServerSeen] = []
        self._events: list[str] = []
        self._end: str | None = None
        self._spoiled: str | None = None
        self._done: Done | None = None
        self._take: Mapping[str, Callable[[Plain], None]] = {
            "answer": self._answer,
            "server": self._server,
            "doubt": self._doubt,
            "confirmed": self._confirmed,
            "event": lambda value: self._events.append(_text(value)),
            "end": self._ended,
            "spoiled": self._spoils,
            "done": self._is_done,
        }

    def add(self, line: bytes) -> None:
        """One whole line. Raises BrokenLineError."""
        kind, value = kind_and_value(line)
        if kind not in self._take:
            raise BrokenLineError("it is of no kind that a journal has")
        self._number += 1
        self._take[kind](value)
        if kind == "answer":
            self.answers_size += len(line)

    @property
    def answered(self) -> int:
        """How many questions ended so far."""
        return len(self._answers)

    def kept(self, size: int) -> Kept:
        """What was read, up to `size` bytes; nothing is added after it."""
        unconfirmed = self._drop_unconfirmed()
        return Kept(
            header=self._header,
            answers=tuple(self._answers.values()),
            lines=tuple(self._lines[cell] for cell in self._answers),
            answers_size=self.answers_size,
            unconfirmed=unconfirmed,
            servers=tuple(self._servers),
            events=tuple(self._events),
            end=self._end,
            spoiled=self._spoiled,
            done=self._done,
            body=self._body,
            size=size,
        )

    def _answer(self, value: Plain) -> None:
        """What was lost may have been asked again; what was answered never is. Somebody gave each answer."""
        if not self._servers:
            raise BrokenLineError("it is an answer, and no line before it says whose")
        seen = _built(Observation, value)
        before = self._answers.pop(seen.cell, None)
        if before is not None and before.status is not Status.LOST:
            again = f" (repeat {seen.repeat})" if seen.repeat else ""
            raise BrokenLineError(f"it answers question {seen.question_id}{again} a second time")
        if self._doubts and seen.status is not Status.LOST:
            self._doubts[-1].append(_Instead(seen.cell, before, self._lines.get(seen.cell)))
        self._answers[seen.cell] = seen
        self._lines[seen.cell] = self._number

    def _server(self, value: Plain) -> None:
        """A new part, whatever the one before it said of itself, or more of the same server: never while in doubt."""
        self._drop_unconfirmed()
        self._servers.append(_built(ServerSeen, value))
        self._end = self._done = None

    def _doubt(self, value: Plain) -> None:
        """Whose the answers are from here on is not known."""
        _text(value)
        self._doubts.append([])

    def _confirmed(self, value: Plain) -> None:
        """So many doubts, the oldest first, are no more."""
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= len(self._doubts):
            raise BrokenLineError("it confirms what nobody doubted")
        del self._doubts[:value]

    def _drop_unconfirmed(self) -> int:
        """Forget the answers that are in doubt, as if they had not been asked for; how many there were."""
        dropped = [instead for doubt in self._doubts for instead in doubt]
        for instead in reversed(dropped):
            del self._answers[instead.cell], self._lines[instead.cell]
            if instead.before is not None and instead.line is not None:
                self._answers[instead.cell], self._lines[instead.cell] = instead.before, instead.line
        self._doubts.clear()
        return len(dropped)

    def _ended(self, value: Plain) -> None:
        self._end = _text(value)

    def _spoils(self, value: Plain) -> None:
        self._spoiled = _text(value)

    def _is_done(self, value: Plain) -> None:
        self._done = _built(Done, value)


def _text(value: Plain) -> str:
    if not isinstance(value, str):
        raise BrokenLineError("a text is missing")
    return value


def _built(cls: type[T], value: Plain) -> T:
    try:
        return from_plain(cls, value)
    except (TypeError, ValueError) as error:
        raise BrokenLineError(str(error)[:120]) from None
