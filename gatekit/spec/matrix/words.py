"""What a word on a command line may have been meant for: the matrix of that name. Reads names of files, and no file."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from gatekit.spec.folders import naming


def is_word(text: str) -> bool:
    """Whether an argument is neither an override nor an option.

    >>> is_word("small"), is_word("task.n=7"), is_word("~engine.env.X"), is_word("--json")
    (True, False, False, False)
    """
    return "=" not in text and not text.startswith(("-", "+", "~"))


def meant_by(word: str, folders: Sequence[Path], typed: Sequence[str] = ()) -> str:
    """How the matrix that the word is, or nearly is, is run, as a hint; nothing where it is near none.

    `typed` are the folders that the command line named: the command finds the matrix in them.
    """
    near = nearest(word, sorted({path.stem for folder in folders for path in (folder / "matrix").glob("*.yaml")}))
    command = shlex.join(["gatekit", "run", "--matrix", near, *naming(typed)])
    return f"to run matrix {near}: `{command}`" if near else ""


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that is the most like this one; nothing where none is."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)), "")
