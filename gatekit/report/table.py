"""Rows of cells as aligned lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from gatekit.report.escape import escape_terminal

_GAP = "  "
_CELL_CHARACTERS = 60


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line per row, every column as wide as its widest cell; cells are escaped and cut to 60 characters.

    >>> aligned([("RULE", "N"), ("floor", "200")])
    ['RULE   N', 'floor  200']
    """
    cells = [[escape_terminal(cell, _CELL_CHARACTERS) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    padded = (_GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return [line.rstrip() for line in padded]
