"""Secrets that a server repeats, in whatever spelling and wherever a text is cut."""

from __future__ import annotations

import base64
import json
import time
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import attached, here
from fault_server import Fault, striking
from gatekit.records.secrets import MASK
from gatekit.report.escape import escape_terminal
from gatekit.run.masking import Masking
from raw_server import Request, Start, http
from right_answers import right

KEY = "sk-LIVEabcdef+ghij/klmnopqrstuv0123456789"
PART = KEY[:10].lower()
TOKEN = base64.b64encode(f"Bearer {KEY}".encode()).decode()

SPELLED = {
    "as it is": KEY,
    "lower case": KEY.lower(),
    "upper case": KEY.upper(),
    "escaped by JSON": "".join(f"\\u{ord(one):04x}" for one in KEY),
    "a slash escaped": json.dumps(KEY).replace("/", "\\/"),
    "JSON within JSON": json.dumps(json.dumps(KEY).replace("/", "\\/")),
    "hexadecimal escapes": "".join(f"\\x{ord(one):02X}" for one in KEY),
    "percent-encoded": quote(KEY, safe=""),
    "percent-encoded everywhere": "".join(f"%{ord(one):02x}" for one in KEY),
    "percent-encoded twice": quote(quote(KEY, safe=""), safe=""),
    "of HTML": "".join(f"&#{ord(one)};" for one in KEY),
    "of HTML, hexadecimal": "".join(f"&#x{ord(one):x};" for one in KEY),
    "UTF-16": KEY.encode("utf-16").decode("utf-8", errors="replace"),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 of the header": TOKEN,
    "base64 for URLs": TOKEN.replace("+", "-").replace("/", "_"),
    "base64 behind one more byte": base64.b64encode(f"x{KEY}".encode()).decode(),
}


@pytest.mark.parametrize("name", SPELLED)
@pytest.mark.parametrize("before", [0, 60, 185])
def test_every_spelling_is_masked_before_the_cut(name: str, before: int) -> None:
    """Of no spelling of a key, wherever a cut falls, does as much as its beginning remain in what is shown."""
    shown = Masking((KEY,)).shown("." * before + SPELLED[name] + " behind", 200)
    assert "***" in shown or before > 150
    assert len(shown) <= 200
    for start in range(len(SPELLED[name]) - 14):
        assert SPELLED[name][start : start + 14] not in shown
    assert PART not in shown.lower()


@given(pieces=st.lists(st.sampled_from([*SPELLED.values(), KEY[:9], "short", "Ü", "\\", "%", "&", "\x00", " x "])))
@pytest.mark.parametrize("values", [(KEY,), ("short", KEY), ("süß-secret-value",), ()], ids=str)
def test_a_text_that_spells_nothing_is_searched_quickly(values: tuple[str, ...], pieces: list[str]) -> None:
    """Where the pattern of all spellings is left out it would have changed nothing."""
    masking, text = Masking(values), "".join(pieces)
    slow = masking._spelled.sub(MASK, text) if values else text
    assert masking.shown(text, 10_000) == escape_terminal(slow, limit=10_000)


@pytest.mark.parametrize("name", ["as it is", "lower case", "percent-encoded", "base64", "base64 of the header"])
def test_texts_that_are_kept_are_masked(name: str) -> None:
    """Answers and identities lose the key in every form that is a plain text."""
    kept = Masking((KEY,)).data({"text": [f"so {SPELLED[name]}, #### 1"]})
    assert "***" in kept["text"][0]
    assert kept["text"][0].endswith("#### 1")
    assert PART not in kept["text"][0].lower()


def test_a_short_key_is_no_word_of_an_answer() -> None:
    """A key of fewer than eight characters goes out of failures alone: an answer may hold the same word."""
    masking = Masking(("right",))
    assert masking.text("that is right") == "that is right"
    assert masking.shown("key RIGHT refused", 200) == "key *** refused"
    assert Masking(("",)).shown("nothing to hide", 200) == "nothing to hide"


@settings(deadline=None)
@given(text=st.text(), key=st.text(min_size=8, max_size=30).filter(str.strip))
def test_any_key_in_any_text(text: str, key: str) -> None:
    """Whatever a key is made of, it is found in a text as it stands there, and nothing is found where there is none."""
    assert "***" in Masking((key,)).shown(f"{key}{text}", 10_000)
    assert Masking((KEY,)).text(text) == text


@pytest.mark.parametrize(
    "hostile", ["\\" * 60_000, "%25" * 20_000, "&#x000" * 10_000, "s\x00" * 30_000, "sk-" * 20_000]
)
def test_no_text_is_slow(hostile: str) -> None:
    """A body made to look nearly like a key costs no more than any other."""
    masking = Masking((KEY, "s" * 200))
    masking.shown("", 1)
    began_s = time.process_time()
    masking.shown(hostile, 200)
    assert time.process_time() - began_s < 3


def error(text: str) -> Fault:
    return lambda request: http(500, text)


def typed(request: Request) -> bytes:
    """A content type with the key where a cut would fall."""
    return http(200, right(request), content_type="application/" + "y" * 40 + KEY)


def a_line(request: Request) -> bytes:
    """A stream with the key in a line that no stream has, where a cut would fall."""
    return http(200, "x" * 62 + KEY + " tail\n\n", content_type="text/event-stream")


LEAKS: dict[str, tuple[Fault, str]] = {
    "an error": (error("." * 130 + escape(KEY)), "false"),
    "an error with escapes": (error("." * 120 + SPELLED["escaped by JSON"]), "false"),
    "an error in base64": (error("." * 140 + TOKEN), "false"),
    "a content type": (typed, "false"),
    "a line of a stream": (a_line, "true"),
    "a told error": (lambda request: http(200, {"error": {"message": "." * 160 + KEY}}), "false"),
}


@pytest.mark.parametrize("name", LEAKS)
def test_no_part_of_a_key_is_kept_or_shown(raw_server: Start, tmp_path: Path, name: str) -> None:
    """Neither the screen nor any file of the history holds the beginning of a key that a server repeats."""
    fault, streams = LEAKS[name]
    more = ("client.attempts=1", f"protocol.stream={streams}", "engine.startup_timeout_s=2")
    url = raw_server(striking(fault)).url if streams == "false" else raw_server(lambda one: _streamed(one, fault)).url
    ran = here(tmp_path, *attached(url, "engine.api_key_env=THE_KEY", *more, n=10), extra={"THE_KEY": KEY})
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    parts = (KEY[:6], SPELLED["escaped by JSON"][:24], TOKEN[10:20])
    texts = (ran.out, ran.err, *(one.decode("utf-8", errors="replace") for one in files))
    for text in texts:
        for part in parts:
            assert part.lower() not in text.lower()
    assert any("***" in text for text in texts)


def _streamed(request: Request, fault: Fault) -> Any:
    return fault(request) if request.method == "POST" else right(request)
