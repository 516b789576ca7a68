"""Laws of the simulated model."""

from __future__ import annotations

import json
import math
import statistics
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.engine.sim import latency_s, right_questions, wrong_reference
from gatekit.records.spec import Latency

TEXTS = [f"How many are {i} and {i + 1}?" for i in range(1319)]


def correct(texts: list[str], accuracy: float, dispersion: float, *, seed: int = 1, flip_seed: int = 1) -> int:
    return len(right_questions(texts, accuracy=accuracy, dispersion=dispersion, seed=seed, flip_seed=flip_seed))


@pytest.mark.parametrize(("accuracy", "dispersion", "n"), [(0.9, 0.17, 1319), (0.8, 1.0, 300)])
def test_moments(accuracy: float, dispersion: float, n: int) -> None:
    """Over 300 flip seeds the mean is n*a and the variance phi*n*a*(1-a), within three standard errors."""
    counts = [correct(TEXTS[:n], accuracy, dispersion, flip_seed=flip) for flip in range(300)]
    variance = dispersion * n * accuracy * (1 - accuracy)
    assert abs(statistics.fmean(counts) - n * accuracy) < 0.5 + 3 * (variance / 300) ** 0.5
    assert abs(statistics.variance(counts) / variance - 1) < 3 * (2 / 299) ** 0.5


@given(n=st.integers(1, 200), accuracy=st.floats(0, 1), seed=st.integers(0, 2**40), flip_seed=st.integers(0, 9))
def test_certain_questions_hit_the_accuracy(n: int, accuracy: float, seed: int, flip_seed: int) -> None:
    """Without dispersion every run has the stated accuracy to within one question."""
    assert abs(correct(TEXTS[:n], accuracy, 0, seed=seed, flip_seed=flip_seed) - n * accuracy) <= 1


@settings(max_examples=40)
@given(
    accuracies=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    dispersion=st.floats(0, 1),
    seed=st.integers(0, 99),
    flip_seed=st.integers(0, 99),
)
def test_a_worse_model_is_nested(accuracies: tuple[float, float], dispersion: float, seed: int, flip_seed: int) -> None:
    """Lowering the accuracy alone only turns right answers wrong."""
    low, high = (
        right_questions(TEXTS[:150], accuracy=accuracy, dispersion=dispersion, seed=seed, flip_seed=flip_seed)
        for accuracy in sorted(accuracies)
    )
    assert low <= high


def test_extremes_and_order() -> None:
    """Accuracy 0 and 1 are exact, and the order of the questions does not matter."""
    assert correct(TEXTS, 0.0, 0.5) == 0
    assert correct(TEXTS, 1.0, 0.5) == len(TEXTS)
    arguments = {"accuracy": 0.7, "dispersion": 0.3, "seed": 4, "flip_seed": 5}
    one, other = (right_questions(texts, **arguments) for texts in (TEXTS, TEXTS[::-1]))  # type: ignore[arg-type]
    assert one == other


@pytest.mark.parametrize(("accuracy", "dispersion"), [(90, 0.1), (-0.1, 0.1), (0.9, 2), (float("nan"), 0)])
def test_shares_outside_the_unit_interval(accuracy: float, dispersion: float) -> None:
    """An accuracy or a dispersion outside [0, 1] is refused."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        correct(TEXTS[:3], accuracy, dispersion)


def gold(reference: str) -> Fraction:
    return Fraction(reference.rpartition("####")[2].strip().replace(",", ""))


def test_wrong_answers_of_gsm8k(gsm8k_dir: Path) -> None:
    """For every GSM8K row a wrong answer keeps the working and ends in another number of the same sign."""
    for line in (gsm8k_dir / "test.jsonl").read_text(encoding="utf-8").splitlines():
        reference = json.loads(line)["answer"]
        wrong = wrong_reference(reference, seed=3)
        assert wrong.rpartition("####")[0].strip() == reference.rpartition("####")[0].strip()
        assert gold(wrong) != gold(reference)
        assert gold(wrong) >= 0 or gold(reference) < 0


@given(value=st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**12), max_value=10**12))
def test_a_slip_is_never_the_gold(value: object) -> None:
    """Whatever number the gold is, a slip has another value."""
    assert gold(wrong_reference(f"So.\n#### {value}", seed=1)) != gold(f"#### {value}")


@pytest.mark.parametrize("reference", ["no marker", "#### N/A", "#### 3/4", "x #### "])
def test_a_slip_of_something_odd(reference: str) -> None:
    """A reference without a plain number still gets a definite other answer."""
    wrong = wrong_reference(reference, seed=1)
    assert wrong.rpartition("####")[2].strip() in ("0", "1")


def test_latency_is_log_normal() -> None:
    """Over questions the log latency has the stated median and sd, and each question keeps its own."""
    law = Latency(median_s=0.2, sigma=0.5)
    seconds = [latency_s(law, seed=1, text=text) for text in TEXTS]
    assert statistics.median(seconds) == pytest.approx(0.2, rel=0.06)
    assert statistics.stdev(map(math.log, seconds)) == pytest.approx(0.5, rel=0.06)
    assert seconds[7] == latency_s(law, seed=1, text=TEXTS[7])
    assert latency_s(Latency(), seed=1, text="x") == 0
