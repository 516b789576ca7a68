"""A fact as lines: its label, its text beside it, further lines of the text under its first word."""

from __future__ import annotations

from textwrap import wrap

from gatekit.report.escape import escape_terminal

_LABEL_WIDTH, _WIDTH = 13, 110


def fact_lines(
    label: str,
    text: str,
    *,
    most_characters: int,
    label_width: int = _LABEL_WIDTH,
    width: int = _WIDTH,
    breaks_words: bool = False,
) -> list[str]:
    """The lines, harmless on a terminal, of at most so many characters of the text.

    What has no spaces (a path, an id) is never broken, unless `breaks_words` says that no line may be longer.
    """
    first = f"  {escape_terminal(label):<{label_width}}"
    return wrap(
        escape_terminal(text, most_characters),
        width,
        initial_indent=first,
        subsequent_indent=" " * (label_width + 2),
        break_long_words=breaks_words,
        break_on_hyphens=False,
    ) or [first.rstrip()]
