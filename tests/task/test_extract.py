"""The gatekit extractor."""

from __future__ import annotations

import json
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatekit.task.extract import Source, extract, format_value
from gatekit.task.legacy import last_integer
from gatekit.task.numbers import MAX_NUMBER_CHARS, read_reference

NUMBERS = [
    ("18", "18"),
    ("-5", "-5"),
    ("\u22125", "-5"),
    ("–5", "-5"),
    ("-$5", "-5"),
    ("$-5", "-5"),
    ("+18", "18"),
    ("€18", "18"),
    ("18 €", "18"),
    ("£1,234.50", "2469/2"),
    ("US$18", "18"),
    ("USD 18", "18"),
    ("Rs. 1,500", "1500"),
    ("₹1,00,000", "100000"),
    ("1\u202f234\xa0567", "1234567"),
    ("1\u2009234", "1234"),
    ("1'234", "1234"),
    (".5", "1/2"),
    ("0.10", "1/10"),
    ("18.00", "18"),
    ("18%", "18"),
    ("-1/2", "-1/2"),
    ("3 / 4", "3/4"),
    ("3 1/2", "7/2"),
    ("3½", "7/2"),
    ("\\boxed{3 \\frac{1}{2}}", "7/2"),
    ("½", "1/2"),
    ("1e3", "1000"),
    ("1E-3", "1/1000"),
    ("1.5 × 10^3", "1500"),
    ("1.5×10³", "1500"),
    ("007", "7"),
    ("１，２３４．５", "2469/2"),
    ("١٨", "18"),
    ("18km", "18"),
    ("$1.5 million", "1500000"),
    ("18万", "180000"),
]
NOT_NUMBERS = [
    *("10-12", "10–12", "10 - 12", "10 to 12", "10 or 12", "between 10 and 12", "5:30", "5:30 PM", "3:4"),
    *("2024-05-03", "5/3/2024", "1.2.3", "1.234.567", "12,345,67", "1,23", "5/0", "16 - 7", "2 * 9", "2^3"),
    *("10³", "1e999999999", "1e-999999999", "1.5 × 10^999999999", "9" * (MAX_NUMBER_CHARS + 1)),
    *("inf", "infinity", "∞", "nan", "NaN", "N/A", "unknown", "undefined"),
]


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


PLACES = ["#### {}", "\\boxed{{{}}}", "The answer is {}", "**Answer:** {}", "Working: 7 + 8 = 15.\n\nA: {}"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("written", "value"), NUMBERS)
def test_a_number_means_the_same_everywhere(place: str, written: str, value: str) -> None:
    """Every notation gives its exact value in every explicit place."""
    found = extract(place.format(written))
    assert (found.value, found.explicit) == (Fraction(value), True)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("written", NOT_NUMBERS)
def test_what_is_no_single_number_ends_the_search(place: str, written: str) -> None:
    """A range, time, date, unfinished sum or infinity in an explicit place is no answer."""
    found = extract(place.format(written))
    assert (found.value, found.source, found.explicit) == (None, Source.NONE, False)


def test_the_public_cases_hold(shared: Path) -> None:
    """All cases of the extraction contract give their exact value."""
    cases = json.loads((shared / "cases" / "extraction_public.json").read_text())
    wrong = [
        case["why"]
        for case in cases
        if extract(case["text"]).value != (None if case["expected"] is None else Fraction(case["expected"]))
    ]
    assert (len(cases), wrong) == (56, [])


@pytest.mark.parametrize(
    ("text", "value", "source"),
    [
        # the last marker, headings aside
        ("#### 18 #### 20", "20", Source.MARKER),
        ("####\n\n18", "18", Source.MARKER),
        ("#### 16 - 7 = 9", "9", Source.MARKER),
        ("#### Total: 18", "18", Source.MARKER),
        ("#### \\boxed{18}", "18", Source.MARKER),
        ("#### 18 - that is all", "18", Source.MARKER),
        ("#### Step 1: Add\n3+4 = 7\n#### Step 2: Double\n7*2 = 14\nThe answer is 14.", "14", Source.PHRASE),
        ("#### 1. Add\n3+4 = 7\n#### 2. Double\n7*2 = 14\nSo $14.", "14", Source.FALLBACK),
        ("She has 3 eggs.\n#### N/A", None, Source.NONE),
        ("#### 18\n#### Explanation: I did 3 steps", "18", Source.MARKER),
        # boxes
        ("\\boxed{\\boxed{18}}", "18", Source.BOXED),
        ("\\boxed{-\\frac{3}{4}}", "-3/4", Source.BOXED),
        ("\\boxed{3\\dfrac{1}{2}}", "7/2", Source.BOXED),
        ("\\boxed{\\frac34 \\text{ cups}}", "3/4", Source.BOXED),
        ("\\boxed{\\$1{,}234.00}", "1234", Source.BOXED),
        ("\\boxed{1,\\!234}", "1234", Source.BOXED),
        ("\\boxed{1\\,234}", "1234", Source.BOXED),
        ("\\boxed{18^{\\circ}}", "18", Source.BOXED),
        ("\\boxed{18~\\text{cm}^2}", "18", Source.BOXED),
        ("\\boxed{\\text{five}}", "5", Source.BOXED),
        ("\\boxed{n = -3}", "-3", Source.BOXED),
        ("\\boxed{\\frac{16-7}{3}}", None, Source.NONE),
        ("\\boxed{\\sqrt{4}}", None, Source.NONE),
        ("Put it in \\boxed{}. So 18", "18", Source.FALLBACK),
        ("\\boxed{18", "18", Source.FALLBACK),
        # phrases
        ("Answer:\n- 18 eggs", "18", Source.PHRASE),
        ("The answer is:\n$$\n18\n$$", "18", Source.PHRASE),
        ("### Final answer\n18", "18", Source.PHRASE),
        ("Answer (in dollars): 18", "18", Source.PHRASE),
        ("The answer to the question is 18.", "18", Source.PHRASE),
        ("The answer is 18, since 3 + 6 = 9.", "18", Source.PHRASE),
        ("The answer is 18 (9 eggs at $2, 9 * 2 = 19).", "18", Source.PHRASE),
        ("The answer is 18. I hope this answer is helpful.", "18", Source.PHRASE),
        ("The answer is 100.\nWait. The answer is 18.", "18", Source.PHRASE),
        ("So the answer is 16 eggs - 7 eggs = 9 eggs.", "9", Source.PHRASE),
        ("The answer is two thousand three hundred and one.", "2301", Source.PHRASE),
        ("The answer is negative twenty-one.", "-21", Source.PHRASE),
        ("Answer: Janet sells 9 eggs. She makes 9*2 = $18 a day.", "18", Source.FALLBACK),
        ("答案是二十一。", "21", Source.PHRASE),
        ("最终答案为 -5 元", "-5", Source.PHRASE),
        ("3 * 4 = 12. The answer is infinity.", None, Source.NONE),
        # the last number
        ("She makes $18 (9 * 2).", "18", Source.FALLBACK),
        ("profit of -$5", "-5", Source.FALLBACK),
        ("16-3-4=9", "9", Source.FALLBACK),
        ("- 18 eggs", "18", Source.FALLBACK),
        ("It fell from 100 to 18.", "18", Source.FALLBACK),
        ("She has 18 eggs.\n\n1. Count\n2. Multiply", "18", Source.FALLBACK),
        ("So 9 * 2", None, Source.NONE),
        ("She needs 10-12 eggs.", None, Source.NONE),
        ("She has five eggs.", None, Source.NONE),
        # reasoning
        ("<think>\n#### 5\n</think>\n\n#### 18", "18", Source.MARKER),
        ("<think>a<think>b</think>c 5</think>The answer is 18", "18", Source.PHRASE),
        ("#### 18\n<think>or 5?", "18", Source.MARKER),
        ("5</think>", None, Source.NONE),
        ("<think>#### 5", None, Source.NONE),
        # run-on
        ("She has 18.\n\nQuestion: next\nAnswer: ... #### 7", "18", Source.FALLBACK),
        ("#### 18 Question: Tom has 3\n#### 7", "18", Source.MARKER),
        ("#### 18\n\n**Problem 2:** 5\n#### 6", "18", Source.MARKER),
        ("I don't know.<|im_end|>\n<|im_start|>user\n2+2? #### 4", None, Source.NONE),
        ("Question: Tom has 3 eggs?\nAnswer: 18", "18", Source.PHRASE),
        ("<|im_start|>assistant\n#### 18", "18", Source.MARKER),
        ("<|start_header_id|>assistant<|end_header_id|>\n\n#### 18<|eot_id|>", "18", Source.MARKER),
        ("#### 18</s> #### 5", "18", Source.MARKER),
    ],
)
def test_where_the_answer_is_looked_for(text: str, value: str | None, source: Source) -> None:
    """Marker before box before phrase before last number; the last of each kind; never another question's."""
    found = extract(text)
    assert (found.value, found.source) == (None if value is None else Fraction(value), source)


def test_real_model_outputs_agree_question_by_question(gsm8k_dir: Path) -> None:
    """On 5,276 real solutions the verdict is the one their authors recorded; vLLM's differs on 19."""
    references = [json.loads(line)["answer"] for line in lines(gsm8k_dir / "test.jsonl")]
    rows = [json.loads(line) for line in lines(gsm8k_dir / "example_model_solutions.jsonl")]
    solutions = [
        (reference, variant["solution"], variant["is_correct"])
        for reference, row in zip(references, rows, strict=True)
        for variant in row.values()
        if isinstance(variant, dict)
    ]
    assert len(solutions) == 5276
    assert not [s for r, s, ok in solutions if (extract(s).value == read_reference(r)) != ok]
    assert sum((last_integer(s) == last_integer(r)) != ok for r, s, ok in solutions) == 19


FRAGMENTS = [
    *(
        "#### ",
        "\\boxed{",
        "}",
        "<think>",
        "</think>",
        "The answer is ",
        "答案是",
        "Q: ",
        "\n",
        "=",
        "-",
        "1",
    ),
    *(
        "9" * 5000,
        ",",
        ".",
        "e",
        "1e9999999",
        "/",
        "0",
        "½",
        "²",
        "\\frac{1}{0}",
        "<<",
        ">>",
        "$",
        "٣",
        "\ud800",
    ),
    *("\x00", " to ", "million", "^", "10", "one hundred", "(", "**", ":", "\u202f"),
]


@settings(deadline=None, max_examples=200)
@given(
    st.one_of(
        st.text(),
        st.lists(
            st.sampled_from(FRAGMENTS),
            max_size=30,
        ).map("".join),
    )
)
def test_extraction_never_raises(text: str) -> None:
    """Any text at all gives a value of bounded size or none, and never an exception."""
    found = extract(text)
    assert (found.value is None) == (found.source is Source.NONE)
    if found.value is not None:
        assert len(format_value(found.value)) < 4 * MAX_NUMBER_CHARS
        assert extract(f"#### {format_value(found.value)}").value in (found.value, None)


HOSTILE = ["9", "1,", "#", "#### 1 ", "\\boxed{", "<think>", "= 1 ", " ", "answer to the x ", "\\frac{", "1/"]


@pytest.mark.parametrize("unit", HOSTILE)
def test_extraction_is_linear_in_the_text(unit: str) -> None:
    """Up to 1 MB, four times the text takes about four times as long; a quadratic rule would take sixteen."""
    seconds = {}
    for size in (250_000, 1_000_000):
        text = unit * (size // len(unit))
        started = time.process_time()
        extract(text)
        seconds[size] = time.process_time() - started
    assert seconds[1_000_000] < 8 * seconds[250_000] + 0.1
    assert seconds[1_000_000] < 10


def test_values_have_one_spelling() -> None:
    """Equal values print equally."""
    assert [format_value(Fraction(text)) for text in ("18.00", "-10", "0.75")] == ["18", "-10", "3/4"]
