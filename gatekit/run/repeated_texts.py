"""Whether repeats of a question brought one text only, which no sampling of long answers does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from gatekit.records.answers import Observation

_LONG_CHARACTERS = 200


def same_every_time(observations: Sequence[Observation]) -> Iterator[str]:
    """A warning where at least half of the repeated questions got the very same long answer every time.

    Long is over 200 characters at the median of these answers: a sampled "4" is often the same. Questions of which a
    repeat was lost say nothing.
    """
    texts = _texts(observations)
    same = [each[0] for each in texts if len(set(each)) == 1]
    if not same or 2 * len(same) < len(texts) or median(map(len, same)) <= _LONG_CHARACTERS:
        return
    what = f"{len(same)} of {len(texts)} questions got the very same text in every repeat"
    yield f"{what}: one seed for all, a cache of answers, or a server that does not sample? Repeats then say nothing"


def _texts(observations: Sequence[Observation]) -> list[list[str]]:
    """The answers of every question that was asked more than once and lost none."""
    found: dict[int, list[str]] = {}
    lost: set[int] = set()
    for seen in observations:
        if seen.failure is not None:
            lost.add(seen.question_id)
        found.setdefault(seen.question_id, []).append(f"{seen.reasoning or ''}{seen.text or ''}")
    return [texts for question, texts in found.items() if len(texts) > 1 and question not in lost]
