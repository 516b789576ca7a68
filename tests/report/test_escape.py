"""Foreign text on a terminal."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekit.engine.server_log import printable
from gatekit.report.escape import document_without_commands, escape_terminal

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, ünïcödé 数 😀", "plain text, ünïcödé 数 😀"),
        ("a\x1b[31mred\x1b[0m", "a\\x1b[31mred\\x1b[0m"),
        ("\x1b]8;;http://x\x07link", "\\x1b]8;;http://x\\x07link"),
        ("one\r\ntwo\tthree", "one\\r\\ntwo\\tthree"),
        ("\x00\x7f\x80\x9b\x9f\xa0", "\\x00\\x7f\\x80\\x9b\\x9f\xa0"),
        ("\u200e\u200f\u202a\u202e\u2066\u2069\ufeff", "\\u200e\\u200f\\u202a\\u202e\\u2066\\u2069\\ufeff"),
        ("\u061c\u2028\u2029", "\\u061c\\u2028\\u2029"),
        ("\ud800 \udcff", "\\ud800 \\udcff"),
        ("[bold]\\frac{1}{2}", "[bold]\\frac{1}{2}"),
    ],
)
def test_dangerous_characters_are_spelled_out(text: str, shown: str) -> None:
    """Control, bidi and surrogate characters become visible; every other character stays itself."""
    assert escape_terminal(text) == shown


@given(ANY_TEXT)
def test_result_is_one_encodable_line(text: str) -> None:
    """Whatever comes in, the result is one line of UTF-8 without control or bidi characters."""
    shown = escape_terminal(text)
    shown.encode("utf-8")
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cs", "Zl", "Zp"}
    bidi = {unicodedata.bidirectional(character) for character in shown}
    assert not bidi & {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(ANY_TEXT, st.integers(3, 30))
def test_limit_is_kept(text: str, limit: int) -> None:
    """The result is never longer than the limit, is cut only when it must be, and then says so."""
    whole, shown = escape_terminal(text), escape_terminal(text, limit)
    assert len(shown) <= limit
    if len(whole) <= limit:
        assert shown == whole
    else:
        assert shown.endswith("...")
        assert whole.startswith(shown.removesuffix("..."))


def test_escapes_are_not_cut_in_half() -> None:
    """A cut result never ends inside an escape."""
    assert escape_terminal("ab\x1b\x1b\x1b", limit=10) == "ab\\x1b..."


def test_long_text_costs_no_more_than_its_limit() -> None:
    """A megabyte without a space is cut, not shown."""
    assert escape_terminal("x" * 1_000_000, limit=200) == "x" * 197 + "..."


CI_COMMANDS = [
    ("##vso[task.setvariable variable=PATH]/evil", "\\x23#vso[task.setvariable variable=PATH]/evil"),
    ("v1 ##[error]no", "v1 \\x23#[error]no"),
    ("##teamcity[buildStatus status='SUCCESS']", "\\x23#teamcity[buildStatus status='SUCCESS']"),
    ("###VSO[x]", "#\\x23#VSO[x]"),
    ("#\u00ad#\u200b[x]", "\\x23\u00ad#\u200b[x]"),
    ("::set-output name=a::b", "\\x3a:set-output name=a::b"),
    ("  ::error::no", "  \\x3a:error::no"),
    ("\u200b::error::no", "\u200b\\x3a:error::no"),
    ("so far ::add-mask::a", "so far \\x3a:add-mask::a"),
    ("#" + "\u200b" * 99 + "#" + "\u200b" * 99 + "vso[x]", "\\x23" + "\u200b" * 99 + "#" + "\u200b" * 99 + "vso[x]"),
    (":" + "\u200b" * 99 + ":" + "\u200b" * 99 + "e::x", "\\x3a" + "\u200b" * 99 + ":" + "\u200b" * 99 + "e::x"),
]
NO_COMMANDS = ("#### 42", "## [a](b)", "std::io::Error", "http://[::1]:80", "##", "a ## b [c]", "x::error::y")


@pytest.mark.parametrize(("text", "shown"), CI_COMMANDS)
def test_no_ci_service_finds_a_command(text: str, shown: str) -> None:
    """The first character of what Azure Pipelines, GitHub or TeamCity act on is spelled out, once and for all."""
    assert escape_terminal(text) == shown
    assert escape_terminal(shown) == shown
    assert escape_terminal(printable(text)) == printable(text) != text


@given(
    st.lists(st.sampled_from((*"#:a[ \\\n\r\t\x1b\x85\u200b\u202eé", "##", "::")), max_size=12).map("".join),
    st.integers(4, 20),
)
def test_what_is_shown_holds_nothing_to_spell_out(text: str, limit: int) -> None:
    """Spelling out a line break or a control character between two signs makes no command of them."""
    for shown in (escape_terminal(text), escape_terminal(text, limit), printable(text)):
        assert escape_terminal(shown) == shown


@pytest.mark.parametrize("text", NO_COMMANDS)
def test_what_is_no_command_stays(text: str) -> None:
    """The last line of an answer to GSM8K, headings, paths of names and addresses are shown as they are."""
    assert escape_terminal(text) == printable(text) == text


@pytest.mark.parametrize(("text", "_"), CI_COMMANDS)
def test_a_command_in_a_document(text: str, _: str) -> None:
    """A JSON document holds no command either, and the same data."""
    document = json.dumps({"text": text}, indent=2, ensure_ascii=False)
    shown = document_without_commands(document)
    assert json.loads(shown) == {"text": text}
    assert "##" not in shown
    assert "#\u00ad#" not in shown


@given(ANY_TEXT, st.integers(3, 60))
def test_commands_are_cut_as_everything_is(text: str, limit: int) -> None:
    """A limit is kept where commands are spelled out, too."""
    hostile = f"##vso[x] ::e::{text}##[x]"
    whole, shown = escape_terminal(hostile), escape_terminal(hostile, limit)
    assert len(shown) <= limit
    assert whole.startswith(shown.removesuffix("..."))
