"""What a server repeats of the secrets that it was given, made unreadable before anything is cut off."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any
from urllib.parse import quote

from gatekit.records.secrets import MASK
from gatekit.report.escape import escape_terminal

_SHORTEST = 8
_LONGEST_SPELLED = 256
_SPELLING = re.compile(r"[\\%&\x00]|[^\x00-\x7f]")


class Masking:
    """Puts `***` in place of the values, in whatever case.

    In texts that are kept also of their percent-encoded and base64 forms (`Bearer KEY` included), unless a value has
    fewer than eight characters: it may be a word of an answer. In what is shown of a failure all of them, and however
    JSON, URLs, HTML and UTF-16 spell their characters.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._values = tuple(value for value in values if value)
        forms = {form for value in self._values if len(value) >= _SHORTEST for form in _forms(value)}
        self._forms = tuple(sorted({form.lower() for form in forms}, key=lambda form: (-len(form), form)))
        self._shortest = min(map(len, self._forms), default=0)
        self._pattern = re.compile("|".join(map(re.escape, self._forms)), re.IGNORECASE)

    def __bool__(self) -> bool:
        return bool(self._forms)

    def text(self, text: str) -> str:
        """A text that is kept."""
        if len(text) < self._shortest:
            return text
        lowered = text.lower()  # much faster than a search that minds no case
        for form in self._forms:
            if form in lowered:
                return self._pattern.sub(MASK, text)
        return text

    def data(self, value: Any) -> Any:
        """A JSON value with its texts and names masked."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.data(item) for item in value]
        if isinstance(value, dict):
            return {self.text(name): self.data(item) for name, item in value.items()}
        return value

    def shown(self, text: str, limit: int) -> str:
        """A whole text on one line, masked and only then cut to so many characters."""
        return escape_terminal(self._spelled.sub(MASK, text) if self._may_show(text) else text, limit=limit)

    def _may_show(self, text: str) -> bool:
        """Whether the pattern is worth its tenth of a second: most texts spell no character, and hold no value."""
        if _SPELLING.search(text) or not all(map(str.isascii, self._values)):
            return bool(self._values)
        lowered = text.lower()
        return any(value.lower() in lowered for value in (*self._values, *self._forms))

    @cached_property
    def _spelled(self) -> re.Pattern[str]:
        spelled = (
            r"\x00{0,3}".join(map(_character, value)) for value in self._values if len(value) <= _LONGEST_SPELLED
        )
        return re.compile("|".join((*spelled, *map(re.escape, self._forms))), re.IGNORECASE)


def _forms(value: str) -> Iterator[str]:
    """The value as it is, as a part of a URL, and as base64 of any text with it in it shows it."""
    yield value
    yield quote(value, safe="", errors="surrogateescape")
    raw = value.encode("utf-8", errors="surrogateescape")
    for before, changed in ((0, 0), (1, 2), (2, 3)):  # bytes before it in a group of three; characters they change
        last = (before + len(raw)) // 3 * 4
        whole = base64.b64encode(bytes(before) + raw).decode()[changed:last]
        yield whole
        yield whole.replace("+", "-").replace("/", "_")


def _character(character: str) -> str:
    """A pattern of one character in each way that it is spelled. Nothing in it is unbounded: no text is slow."""
    code, itself = ord(character), re.escape(character)
    if code > 0xFFFF:
        return itself
    wide = rf"\\{{1,3}}u{code:04x}"
    if code > 0x7E:
        return rf"(?:{itself}|{wide})"
    return (
        rf"(?:\\{{0,3}}{itself}|{wide}|\\{{1,3}}x{code:02x}|%(?:25){{0,2}}{code:02x}"
        rf"|&#(?:x0{{0,4}}{code:02x}|0{{0,4}}{code});)"
    )
