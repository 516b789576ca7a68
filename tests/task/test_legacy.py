"""The extractors of other harnesses."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekit.task.legacy import LEGACY, last_integer, last_number, lm_eval_flexible, lm_eval_strict


@pytest.mark.parametrize(
    ("text", "integer", "number"),
    [
        ("It costs $18.00", "0", "18"),
        ("-3", "3", "-3"),
        ("18 dollars for 2 people", "2", "2"),
        ("#### 18\n\nQ: next\nA: 7", "7", "7"),
        ("1/2", "2", "2"),
        ("07", None, None),
        ("１８", None, None),
        ("١٨", None, None),
        ("2024-05-03", None, None),
        ("So 9 * 2", "2", "2"),
        ("range 5-10", "10", "-10"),
        ("1,234", "1234", "1234"),
        ("no number", None, None),
        ("", None, None),
        ("00", "0", "0"),
        ("The answer is 18.", "18", "18"),
        ("07.5", "5", "7.5"),
        ("-0", "0", "0"),
        ("9" * 4301, None, None),
    ],
)
def test_last_digits(text: str, integer: str | None, number: str | None) -> None:
    """The edge cases on which vLLM's and SGLang's scorers are known to give these values."""
    assert (last_integer(text), last_number(text)) == (integer, number)


@given(st.text(alphabet="0123456789.-, ７a", max_size=12))
def test_literals_are_read_as_python_reads_them(text: str) -> None:
    """Reading a literal by hand gives what ast.literal_eval gives, without evaluating foreign text."""
    for reader, pattern in ((last_integer, r"\d+"), (last_number, r"-?\d+\.?\d*")):
        runs = re.findall(pattern, text.replace(",", ""))
        try:
            expected = ast.literal_eval(runs[-1]) if runs else None
        except (SyntaxError, ValueError):
            expected = None
        found = reader(text)
        assert (None if found is None else float(found)) == expected


@pytest.mark.parametrize(
    ("text", "strict", "flexible"),
    [
        ("#### 18", "18", "18"),
        ("####18", None, "18"),
        ("#### $1,234.00", None, "1234.00"),
        ("#### **18**", None, "18"),
        ("#### 18.00", "18.00", "18.00"),
        ("#### 18.", "18", "18"),
        ("#### \u22125", None, "5"),
        ("#### -10", "-10", "-10"),
        ("#### 18\n#### 20", "18", "20"),
        ("She needs 18 eggs...", None, ".."),
        ("total $29.00.", None, "29.00"),
        ("nothing", None, None),
    ],
)
def test_lm_eval(text: str, strict: str | None, flexible: str | None) -> None:
    """Strict takes the first `#### N`, flexible the last run, normalised as lm-evaluation-harness does."""
    assert (lm_eval_strict(text), lm_eval_flexible(text)) == (strict, flexible)


def test_lm_eval_reads_the_reference_after_its_marker() -> None:
    """A worked answer compares by what follows its last marker."""
    assert LEGACY["lm_eval_strict"].reference("2 * 9 = 18\n#### 1,450,000") == "1450000"


@given(st.text())
def test_no_reader_raises(text: str) -> None:
    """Foreign text never raises."""
    for reader in LEGACY.values():
        reader.answer(text)
        reader.reference(text)
