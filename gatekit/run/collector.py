"""The garbage collector while answers come in: it looks seldom, and not at what was there before."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 10_000  # objects made between two looks; the interpreter's 700 are made by fifty answers, all of them kept


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Inside of it a look at the objects costs a fifth. What becomes garbage is freed all the same, but for cycles:
    of these there may be some thousands of objects more."""
    _, *older = before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_SELDOM, *older)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()  # a matrix makes many runs in one process
