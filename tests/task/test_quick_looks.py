"""A quick look that spares a long pattern never hides what the pattern would find."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gatekit.task import extract, notation, visible

_PARTS = (
    *(
        "<",
        "[",
        "◁",
        "/",
        "|",
        "think",
        "reaſon",
        ">",
        "]",
        "▷",
        "</s>",
        "<s>",
        "<eos>",
        "[/INST]",
        "[İNST]",
        "<|im_end|>",
    ),
    *("<start_of_turn>", "Question", "问题", "Q1", ":", "：", "\n", " ", "#", "48", ".", "<<3*4=12>>"),
    *("USD 5", "A$", "US$ 3", "Rs. 5", "EUR", "$3", "x"),
)


@given(st.lists(st.sampled_from(_PARTS)).map("".join))
def test_what_is_there_is_looked_for(text: str) -> None:
    """Reasoning, special tokens, labels and currency codes that the patterns find pass the quick looks before them."""
    if visible._REASONING.search(text):
        assert visible._MAY_REASON.search(text)
    if visible._RUN_ON.search(text):
        assert ":" in text or "：" in text or visible._MAY_BE_TOKEN.search(text)
    if notation._CURRENCY_CODE.search(text):
        assert notation._MAY_BE_CODE.search(text)


_SIGNS = (*"−‑１２３，¹²⁻½٣٫≈₹€％’\u202f\xa0\u200b\u2028é答", "10", "100", ",", "000", "18", "/", "$", " ")


@given(st.lists(st.sampled_from(_SIGNS), max_size=12).map("".join))
def test_few_signs_and_many_are_spelled_alike(text: str) -> None:
    """Signs that are replaced one by one, as a text with few of them is, read as those that are translated at once."""
    many = "₤₦₨₩₪₫€₭₮₯"
    assert len(many) > notation._FEW_SIGNS
    assert notation.plain_notation(text + "\n" + many) == notation.plain_notation(text) + "\n" + "$" * len(many)


@given(
    st.lists(st.sampled_from(("#", "####", " ", "\n", "18", "0", "7", "1,000", ".", "*", "$")), max_size=10).map(
        "".join
    )
)
def test_a_number_alone_is_read_as_any_other(text: str) -> None:
    """What stands behind the only mark is the same, whether nothing else follows or a sign that says nothing."""
    assert extract.extract(f"So\n#### {text}").value == extract.extract(f"So\n#### {text} *").value
