"""Which repeat of its question a request asks for: by its seed, else the lowest that nobody has an answer to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count

from gatekit.records.answers import Cell


class Repeats:
    """Numbers the requests that ask one question, from 0.

    A seed names its repeat, whenever it is asked: `first_seed` is that of repeat 0. Requests without one differ in
    nothing, so that each takes the lowest free number, and gives it back if it fails. `answered` are those that were
    answered before this server was started.
    """

    def __init__(self, *, first_seed: int | None, answered: Iterable[Cell] = ()) -> None:
        self._first_seed = first_seed
        self._taken: defaultdict[int, set[int]] = defaultdict(set)
        for question_id, repeat in answered:
            self._taken[question_id].add(repeat)

    @contextmanager
    def asked(self, question_id: int, seed: int | None) -> Iterator[int]:
        """The number of this request's repeat, its own for as long as the request is, and for good once answered."""
        if seed is not None and self._first_seed is not None:
            yield seed - self._first_seed
            return
        taken = self._taken[question_id]
        number = next(number for number in count() if number not in taken)
        taken.add(number)
        try:
            yield number
        except BaseException:
            taken.discard(number)
            raise
