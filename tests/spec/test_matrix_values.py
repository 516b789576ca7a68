"""Values of a matrix's `set` as overrides: Hydra reads back exactly the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
from hypothesis import example, given
from hypothesis import strategies as st

from gatekit.errors import ConfigError
from gatekit.report.escape import escape_terminal
from gatekit.resources import conf_dir
from gatekit.spec.compose import compose
from gatekit.spec.composition import Composition
from gatekit.spec.library import Library
from gatekit.spec.matrix.values import override

PARSER = OverridesParser.create()
HARD = st.text(alphabet=st.sampled_from(list("'\"\\,{}[]()=:$?~@#%&*;| \u00e9ab1.-_")), max_size=12)
TEXTS = st.one_of(
    HARD, st.text(max_size=12), st.sampled_from(["null", "True", "nan", "-inf", "1", "1e5", "0x1", "'", ""])
)
KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,5}", fullmatch=True)
SCALARS = st.one_of(TEXTS, st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)


def read_back(text: str) -> Any:
    """What Hydra's grammar makes of an override."""
    (parsed,) = PARSER.parse_overrides([text])
    assert parsed.key_or_group == "engine.args"
    return plain(parsed.value())


def plain(value: Any) -> Any:
    """Without the marks of quoting."""
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [plain(item) for item in value]
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def kinds(value: Any) -> Any:
    """The value with the type of each part, so that 1, 1.0 and True differ, and -0.0 and 0.0."""
    if isinstance(value, list):
        return [kinds(item) for item in value]
    if isinstance(value, dict):
        return {key: kinds(item) for key, item in value.items()}
    return type(value), repr(value)


@given(value=VALUES)
def test_every_value_comes_back(value: Any) -> None:
    """A value is the same after Hydra parsed it, its type included, or is refused in one line."""
    try:
        text = override("engine.args", value, where="here")
    except ConfigError as error:
        (problem,) = error.problems
        assert problem.reason in ("reference", "unwritable-value")
        assert problem.where == "here"
        return
    assert escape_terminal(text) == text
    assert kinds(read_back(text)) == kinds(value)


@given(value=HARD)
@example(value="##[")
def test_every_visible_text_without_a_reference_can_be_written(value: str) -> None:
    """Only `${` keeps a text of quotes, backslashes, commas and braces from being written."""
    if "${" in value:
        with pytest.raises(ConfigError, match="references"):
            override("engine.args", value, where="")
    else:
        assert read_back(override("engine.args", value, where="")) == value


@pytest.mark.parametrize("value", ["it's \\'", 'a, b = {c}: "d"', "tail\\", "[x]", "??", "$x"])
def test_the_composed_value_is_the_written_one(value: str) -> None:
    """The whole way through Hydra and OmegaConf changes no character."""
    text = override("protocol.system_prompt", value, where="")
    assert compose([text], config_dirs=[conf_dir()]).data["protocol"]["system_prompt"] == value


@pytest.mark.parametrize("value", ["a\nb", "\x1b[31m", "\u202e", {"a b": 1}, {"null": 1}, ["${x}"], {"a": "${x}"}])
def test_what_cannot_be_written_is_refused(value: Any) -> None:
    """Line ends, control and bidi characters, references, and keys that Hydra reads as something else."""
    with pytest.raises(ConfigError):
        override("engine.args", value, where="")


@pytest.mark.parametrize("key", ["engine.args", "engine.env", "protocol.system_prompt"])
@pytest.mark.parametrize(
    "value",
    [[], ["--a", "b c"], ["x,y", "[z]"], [1, 1.5, True, None, "null"], ["it's"], "a b", 7, {"A": "1"}, [[1], {"a": 2}]],
)
def test_the_quick_way_gives_the_same(key: str, value: Any) -> None:
    """What a library composes without Hydra, lists among it, is what Hydra composes, or the same refusal."""

    def outcome(composing: Callable[[list[str]], Composition]) -> Any:
        try:
            return composing([override(key, value, where="")]).data
        except ConfigError as error:
            return error.lines()

    dirs = [conf_dir()]
    assert outcome(Library(dirs).compose) == outcome(lambda overrides: compose(overrides, config_dirs=dirs))
