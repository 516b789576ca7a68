"""How shares, probabilities and drops are written in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, floor, log

from gatekit.records.canonical import Plain

_NEGLIGIBLE = 1e-6
_UNDERFLOW = 1e-300
_SHOWN_DIGITS = 8
_SHOWN_CHARACTERS = 40


def percent(share: float) -> str:
    """A probability in percent with three significant digits, never rounded to a false certainty.

    >>> percent(0.00951), percent(0.28), percent(5e-19), percent(0.99999)
    ('0.951 %', '28 %', 'under 0.0001 %', 'over 99.9 %')
    """
    if 0 < share < _NEGLIGIBLE:
        return "under 0.0001 %"
    if 0.9995 <= share < 1:
        return "over 99.9 %"
    return f"{100 * share:.3g} %"


def p_value(p: float) -> str:
    """A p-value with its sign of equality, to be read after "p".

    >>> p_value(0.34567), p_value(0.000137), p_value(0.0)
    ('= 0.346', '= 0.000137', '< 0.000001')
    """
    return "< 0.000001" if p < _NEGLIGIBLE else f"= {p:.3g}"


def tail(probability: float, digits: int = 3) -> str:
    """A tail with its sign of equality: a float that is 0 stands for one too small to be told, not for none.

    >>> tail(0.0024123), tail(0.0)
    ('= 0.00241', '< 1e-300')
    """
    return f"= {probability:.{digits}g}" if probability >= _UNDERFLOW else "< 1e-300"


def from_log(log_p: float) -> str:
    """A probability by its natural logarithm, also one that is too small for a float.

    >>> from_log(-1000.0), from_log(log(0.25))
    ('5.076e-435', '0.25')
    """
    if log_p > log(_UNDERFLOW):
        return f"{exp(log_p):.4g}"
    decades = log_p / log(10)
    mantissa = f"{10 ** (decades - floor(decades)):.4g}"
    return f"1e{floor(decades) + 1}" if mantissa == "10" else f"{mantissa}e{floor(decades)}"


def points(drop: float) -> str:
    """A difference of accuracies in percentage points.

    >>> points(0.032), points(0.01)
    ('3.2 points', '1 point')
    """
    value = f"{100 * drop:.2g}" if drop < 0.1 else f"{100 * drop:.3g}"
    return f"{value} point" if value == "1" else f"{value} points"


def accuracy(value: float) -> str:
    """An accuracy in [0, 1] as people type it: no trailing zeros beyond four digits.

    >>> accuracy(0.9), accuracy(0.905), accuracy(1187 / 1319)
    ('0.9', '0.905', '0.8999')
    """
    return f"{value:.4f}".rstrip("0").rstrip(".")


def seen(correct: int, n: int) -> str:
    """A count with its share of n.

    >>> seen(1253, 1319)
    '1253 of 1319 correct (95.0 %)'
    """
    return f"{correct} of {n} correct ({100 * correct / n:.1f} %)"


def bare_percent(share: float) -> str:
    """A share as people and scripts type it, without a space.

    >>> bare_percent(0.1), bare_percent(0.02)
    ('10%', '2%')
    """
    return f"{100 * share:.3g}%"


def short(value: Plain) -> str:
    """A value of the comparability key in a sentence: digests and long texts shortened, nothing as `none`.

    >>> short("sha256:0123456789abcdef"), short(None), short([1, 2])
    ('sha256:01234567...', 'none', '[1, 2]')
    """
    text = "none" if value is None else str(value)
    kept = len("sha256:") + _SHOWN_DIGITS if text.startswith("sha256:") else _SHOWN_CHARACTERS
    return text if len(text) <= kept else f"{text[:kept]}..."


def listed(numbers: Mapping[str, int]) -> str:
    """Numbers of runs with their reasons or outcomes, most first.

    >>> listed({"INFRA": 1, "hardware h200": 3})
    '3 hardware h200, 1 INFRA'
    """
    ranked = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{number} {why}" for why, number in ranked)
