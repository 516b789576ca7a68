"""A quick look that spares a long pattern never hides what the pattern would find."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gatekit.task import notation, visible

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
