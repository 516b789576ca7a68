"""What a run tells while it goes on. The command line draws it; a library user may ignore it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told by the run, in order: phases before and after asking, and `answered` whenever answers reached the disk."""

    def phase(self, text: str) -> None:
        """A new phase began, such as `starting the server`."""

    def answered(self, done: int, n: int, correct: int, lost: int, empty: int) -> None:
        """`done` of `n` questions are finished, and no crash can lose them; `empty` ones may come to count as lost."""


class Silent:
    """Says nothing."""

    def phase(self, text: str) -> None:
        """Ignore it."""

    def answered(self, done: int, n: int, correct: int, lost: int, empty: int) -> None:
        """Ignore it."""
