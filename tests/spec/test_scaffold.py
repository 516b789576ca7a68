"""Scaffolds: what a new config file says, and that it can be relied on."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatekit.errors import ConfigError
from gatekit.resources import conf_dir, schema
from gatekit.spec.library import Library
from gatekit.spec.reader import parse
from gatekit.spec.scaffold import BESIDE_A_MODEL, as_yaml, check_name, matrix_text, model_text, option_text

COMMENTED = re.compile(r"^(\s*)#(?! )", re.MULTILINE)
CHOSEN = {"engine": "vllm", "protocol": "chat_5shot", "task": "gsm8k", "gate": "auto"}


def document(group: str, option: str) -> dict[str, Any]:
    found = Library([conf_dir()]).document(group, option)
    assert found is not None
    return dict(found.data)


def without(values: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


def model() -> str:
    documents = {group: document(group, option) for group, option in CHOSEN.items()}
    return model_text("mine", chosen=CHOSEN, documents=documents, values={"model": {"name": "org/mine"}})


TEXTS: dict[str, Callable[[], str]] = {
    "model": model,
    "hw": lambda: option_text("hw", "mine", {"vendor": "nvidia", "count": 1}),
    "engine": lambda: option_text("engine", "mine", document("engine", "vllm")),
    "protocol": lambda: option_text("protocol", "mine", without(document("protocol", "chat_5shot"), "top_k")),
}


def test_every_key_beside_a_model_is_known() -> None:
    """What a model file offers of the other sections are keys of their schemas."""
    for section, keys in BESIDE_A_MODEL.items():
        assert set(keys) <= set(schema(section)["properties"])


@pytest.mark.parametrize("group", TEXTS)
def test_every_key_with_its_meaning(group: str) -> None:
    """A scaffold names every key of its schema, set or offered, each below the description of the schema."""
    text = TEXTS[group]()
    for key, about in schema(group)["properties"].items():
        assert re.search(rf"^\s*#?{key}:", text, re.MULTILINE), key
        unwrapped = re.sub(r"\n\s*# ", " ", text)
        assert about["description"] in unwrapped, key


@pytest.mark.parametrize("group", TEXTS)
def test_what_is_offered_is_what_holds(group: str, tmp_path: Path) -> None:
    """With every offered key switched on, the file gives the same spec as without: none is unknown or wrong."""
    specs = []
    for folder, text in (("off", TEXTS[group]()), ("on", COMMENTED.sub(r"\1", TEXTS[group]()))):
        place = tmp_path / folder / group
        place.mkdir(parents=True)
        (place / "mine.yaml").write_text(text)
        specs.append(Library([tmp_path / folder, conf_dir()]).resolve([f"{group}=mine"]))
    assert specs[0] == specs[1]
    assert COMMENTED.search(TEXTS[group]()), "nothing was offered"


def test_a_matrix_names_every_key() -> None:
    """A matrix file names every key that it may have, and each that a row may have, as the schema does."""
    text = matrix_text("mine", description="Ours.", rows=[{"model": "simulated", "hw": "cpu"}])
    about = schema("matrix")
    for key in about["properties"]:
        assert re.search(rf"^#?{key}:", text, re.MULTILINE), key
    for key, meaning in about["$defs"]["row"]["properties"].items():
        assert f"# - {key}: {meaning['description']}" in re.sub(r"\n# (?!-)", " ", text)
    written = set(parse(COMMENTED.sub("", text), Path("x.yaml")).data)
    assert written == set(about["properties"])


@pytest.mark.parametrize(
    "value",
    [
        *("on", "0123", "1e5", "12:30:45", "a: b", "#", "- x", "{a}", '"\\', "é", "😀", "x\ny", "~", "null", ""),
        *(1e-7, -3, 0.5, ["a", "no"], {"b c": [None, True]}),
    ],
)
def test_values_are_read_as_they_were_meant(value: Any) -> None:
    """Every value is written so that the strict reader gives it back."""
    assert parse(f"key: {as_yaml(value)}\n", Path("x.yaml")).data == {"key": value}


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "../x", "/abs", "a/b", "a\\b", "a\0b", "-rf", "x" * 300, "a\n", "a b", "8b", "a.b", "_self_"),
        *("ü", "null", "True", "defaults", "hydra", "on", "$(x)", "a;b", "\x1b[31m"),
    ],
)
def test_bad_names_are_refused(name: str) -> None:
    """A name that is a path, an option, a YAML word or no word at all makes no file, and is told in one line."""
    with pytest.raises(ConfigError) as caught:
        check_name("model", name)
    assert len(caught.value.lines()) == 1
    assert caught.value.reason == "bad-name"
    assert len(caught.value.lines()[0]) < 400


def test_a_near_name_is_proposed() -> None:
    """A name that is nearly one is answered with the one that is."""
    with pytest.raises(ConfigError) as caught:
        check_name("model", "qwen2.5/7b")
    assert "qwen2_5_7b" in caught.value.lines()[0]


@pytest.mark.parametrize("name", ["qwen3_8b", "Qwen3-8B", "x", "x" * 100])
def test_good_names(name: str) -> None:
    """Letters, digits, _ and - make a name."""
    check_name("model", name)


def test_an_unprintable_value_is_refused() -> None:
    """A value that YAML cannot hold is refused instead of written."""
    with pytest.raises(ConfigError):
        option_text("hw", "mine", {"vendor": "nvidia", "count": 1, "gpu": "a\x07b"})
