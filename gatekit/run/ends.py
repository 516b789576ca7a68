"""Why answers ended, where a server does not say that."""

from __future__ import annotations

from collections.abc import Iterator


def unended(times: int) -> Iterator[str]:
    """A warning where so many answers did not say why they ended: half of an answer would look like all of it."""
    if times:
        what = f"not verified: {times} answers do not say why they ended (finish_reason), as the first one did not"
        yield f"{what}; one that was cut off looks like a whole one"
