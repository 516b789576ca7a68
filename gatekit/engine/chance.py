"""Numbers that look random and are a pure function of what they are for."""

from __future__ import annotations

import hashlib

_STEPS = 2**53


def uniform(seed: int, *purpose: str | int) -> float:
    """A number in [0, 1) for this seed and purpose: the same on every machine and in every order of asking.

    >>> uniform(1, "flip", "How many?") == uniform(1, "flip", "How many?")
    True
    """
    key = "\x1f".join(map(str, (seed, *purpose))).encode("utf-8", errors="surrogatepass")
    word = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big")
    return (word >> 11) / _STEPS
