"""Small text files that drivers keep under /proc and /sys: bounded, and nothing where there is nothing to read."""

from __future__ import annotations

from pathlib import Path

_MOST_BYTES = 65536


def lines(path: Path) -> list[str]:
    """The lines of the file; none where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []


def line(path: Path) -> str | None:
    """The first line of the file without its blanks; None where there is none."""
    found = lines(path)[:1]
    return found[0].strip() or None if found else None


def number(path: Path) -> int | None:
    """The natural number that is the first line of the file; None where there is none."""
    return natural(line(path))


def natural(text: str | None) -> int | None:
    """The natural number that the text is, of at most 20 digits; None where it is none."""
    return int(text) if text is not None and len(text) <= 20 and text.isascii() and text.isdigit() else None
