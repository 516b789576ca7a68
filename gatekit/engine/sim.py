"""What a simulated model of a stated accuracy answers: which questions right, with which text, how fast."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from statistics import NormalDist

from gatekit.engine.chance import uniform
from gatekit.records.spec import Latency

_WORDING_LETTERS = 5
_WORDINGS = 26**_WORDING_LETTERS
_NUMBER = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?")


def right_questions(
    texts: Sequence[str], *, accuracy: float, dispersion: float, seed: int, flip_seed: int
) -> frozenset[str]:
    """The texts that the simulated model answers right in the run `flip_seed`.

    A share `dispersion` of the n texts is uncertain: each is right with probability `accuracy`, drawn from
    `flip_seed`. The rest is certain: the easiest `accuracy` of them are right in every run. Hence over
    flip seeds E(correct) = n * accuracy to within one question and
    Var(correct) = dispersion * n * accuracy * (1 - accuracy): `dispersion` is the flip variance as a share
    of the binomial one. For fixed seeds a lower accuracy only turns right answers wrong.

    Raises ValueError when accuracy or dispersion is outside [0, 1].
    """
    _need_share("accuracy", accuracy)
    _need_share("dispersion", dispersion)
    by_certainty = sorted(set(texts), key=lambda text: (uniform(seed, "uncertain", text), text))
    split = round(dispersion * len(by_certainty))
    uncertain, certain = by_certainty[:split], by_certainty[split:]
    flips = (text for text in uncertain if uniform(flip_seed, "flip", text) < accuracy)
    by_difficulty = sorted(certain, key=lambda text: (uniform(seed, "difficulty", text), text))
    easy = (text for rank, text in enumerate(by_difficulty) if rank + 0.5 < accuracy * len(certain))
    return frozenset(flips) | frozenset(easy)


def chances(texts: Sequence[str], *, accuracy: float, dispersion: float, seed: int) -> dict[str, float]:
    """The chance of each text to be answered right, for a model that samples: mean and scatter as `right_questions`.

    For a fixed seed a lower accuracy raises no chance. Raises ValueError as `beta_chances`.
    """
    from gatekit.stats.chances import beta_chances  # scipy costs a server without repeats its quick start

    by_ease = sorted(set(texts), key=lambda text: (-uniform(seed, "difficulty", text), text))
    return dict(zip(by_ease, beta_chances(len(by_ease), accuracy, dispersion), strict=True))


def sampled_words(reference: str, *, flip_seed: int, occasion: int) -> str:
    """The reference behind a line of its own: sampled answers of one content are seldom one text."""
    number = int(uniform(flip_seed, "words", occasion, reference) * _WORDINGS)
    letters = "".join(chr(ord("a") + number // 26**place % 26) for place in range(_WORDING_LETTERS))
    return f"Let me see, {letters}.\n{reference}"


def wrong_reference(reference: str, *, seed: int) -> str:
    """The reference with its working kept and another final number: a plausible slip, never the gold."""
    working, _, gold = reference.rpartition("####")
    if not working:
        working, gold = reference.rstrip() + "\n", ""
    return f"{working.rstrip()}\n#### {_slip(gold, uniform(seed, 'slip', reference))}"


def latency_s(latency: Latency, *, seed: int, text: str) -> float:
    """The response time of this question in seconds: log-normal over questions, fixed for each."""
    if latency.median_s == 0 or latency.sigma == 0:
        return latency.median_s
    # Half a step away from 0, where the inverse normal has no value.
    quantile = uniform(seed, "latency", text) + 2.0**-54
    return latency.median_s * math.exp(latency.sigma * NormalDist().inv_cdf(quantile))


def _slip(gold: str, pick: float) -> str:
    match = _NUMBER.fullmatch(gold.strip().lstrip("$").replace(",", ""))
    if match is None:
        return "0" if any(digit in gold for digit in "123456789") else "1"
    value = Decimal(match.group())
    slips = (value + 1, value - 1, value + 10, value - 10, value * 2)
    plausible = [slip for slip in slips if slip != value and (slip >= 0 or value < 0)]
    return format(plausible[int(pick * len(plausible))], "f")


def _need_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be between 0 and 1, not {value}")
