"""Foreign text made safe to show: nothing in it moves a cursor, changes a colour, reorders a line or commands a CI."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_INVISIBLE = (
    0x061C,  # Arabic letter mark
    *range(0x200E, 0x2010),  # left-to-right and right-to-left mark
    *range(0x2028, 0x202F),  # line and paragraph separator, embeddings and overrides
    *range(0x2066, 0x206A),  # isolates
    0xFEFF,  # byte order mark
    *range(0xD800, 0xE000),  # lone surrogates, which UTF-8 cannot encode
)
_TERMINAL = str.maketrans(
    {
        **{chr(code): f"\\x{code:02x}" for code in _CONTROLS},
        **{chr(code): f"\\u{code:04x}" for code in _INVISIBLE},
        **_NAMED,
    }
)
# What CI services read commands from. Azure Pipelines, GitHub (`##[`) and TeamCity: a word in brackets behind `##`,
# anywhere in a line. GitHub: `::name` where a line begins, and a text may be wrapped at any blank. Their search passes
# over characters without a width, so that any but the printable ones of ASCII may stand between.
# https://learn.microsoft.com/azure/devops/pipelines/scripts/logging-commands,
# https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
_COMMANDS = (  # each begins with a plain character, which is what makes their search fast in long documents
    re.compile(r"#(?=[^ -~]*+#[^\s\[#]*+\[)"),
    re.compile(r":(?<![!-~]:)(?=[^ -~]*+:[^ -~]*+[A-Za-z])"),
)
_LONGEST_COMMAND = 1024


def escape_terminal(text: str, limit: int | None = None) -> str:
    """`text` on one line with control, bidi and surrogate characters spelled out; UTF-8 can encode it.

    Of what a CI service takes for a command the first character is spelled out too (`without_commands`). Longer results
    are cut to `limit` characters, the last three of them dots, never inside an escape.

    >>> print(escape_terminal("red \\x1b[31m and \\u202e back"))
    red \\x1b[31m and \\u202e back
    >>> escape_terminal("a long answer", limit=9)
    'a long...'
    """
    if limit is None:
        return without_commands(text.translate(_TERMINAL))  # in this order: what is spelled out may close a gap
    head = text[: limit + _LONGEST_COMMAND]
    shown = without_commands(head.translate(_TERMINAL))
    if len(text) <= limit and len(shown) <= limit:
        return shown
    return _cut(head, limit - len("...")) + "..."[:limit]


def is_visible(text: str) -> bool:
    """Whether a text stands on one line and hides nothing, whatever it may command."""
    return text.translate(_TERMINAL) == text


def without_commands(text: str) -> str:
    """The text in which no CI service finds a command; nothing else is changed.

    >>> print(without_commands("##vso[task.complete]"), without_commands("::error::no"), without_commands("std::io"))
    \\x23#vso[task.complete] \\x3a:error::no std::io
    """
    for command in _COMMANDS:
        text = command.sub(_spelled, text)
    return text


def document_without_commands(text: str) -> str:
    """The same of a whole output, which may be a JSON document: its data stay the same.

    >>> print(document_without_commands('{"text": "##[error]"}'))
    {"text": "\\u0023#[error]"}
    """
    for command in _COMMANDS:
        text = command.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    return text


def _spelled(found: re.Match[str]) -> str:
    return f"\\x{ord(found.group()):02x}"


def code_span(text: str, limit: int | None = None) -> str:
    """`text` on one line as Markdown code: no link, mention, HTML or image in it comes to life.

    >>> code_span("@all <b>"), code_span("a`b")
    ('`@all <b>`', '`` a`b ``')
    """
    shown = escape_terminal(text, limit) or " "
    fence = "`" * (_longest_run(shown) + 1)
    pad = " " if len(fence) > 1 else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def code_block(lines: Iterable[str], language: str) -> list[str]:
    """The lines as a fenced Markdown block that nothing in them can end."""
    shown = [escape_terminal(line) for line in lines]
    fence = "`" * max(3, 1 + max(map(_longest_run, shown), default=0))
    return [f"{fence}{language}", *shown, fence]


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _cut(text: str, limit: int) -> str:
    pieces = [character.translate(_TERMINAL) for character in text]
    shown = "".join(pieces)
    commands = {found.start(): _spelled(found) for command in _COMMANDS for found in command.finditer(shown)}
    kept, at, length = [], 0, 0
    for piece in pieces:
        kept.append(commands.get(at, piece))
        at += len(piece)
        length += len(kept[-1])
        if length > limit:
            kept.pop()
            break
    return "".join(kept)
