"""The schemas of single files, for editors: made from the sections' schemas, and right about every shipped file."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from gatekit.errors import ConfigError
from gatekit.resources import conf_dir, schema_dir
from gatekit.spec.file_schema import GROUPS, ROOT, file_schema, text_of
from gatekit.spec.reader import read
from gatekit.spec.schema import SECTIONS

FILES = sorted(path for path in conf_dir().rglob("*.yaml") if not path.name.endswith(".lock.yaml"))
MODELINE = re.compile(r"# yaml-language-server: \$schema=(\S+)\n")


def wanted(path: Path) -> Path:
    """The schema that belongs to a config file."""
    if path.parent.name == "matrix":
        return schema_dir() / "matrix.schema.json"
    name = ROOT if path.parent == conf_dir() else path.parent.name
    return schema_dir() / "file" / f"{name}.schema.json"


def complaints(schema_file: Path, data: Any) -> list[str]:
    """What an editor underlines: a plain validator, without gatekit's own registry or types."""
    return [error.message for error in Draft202012Validator(json.loads(schema_file.read_text())).iter_errors(data)]


@pytest.mark.parametrize("name", [ROOT, *GROUPS])
def test_the_shipped_schema_is_the_made_one(name: str) -> None:
    """One source of truth: `python -m gatekit.spec.file_schema` writes these files from the sections' schemas."""
    shipped = (schema_dir() / "file" / f"{name}.schema.json").read_text()
    assert shipped == text_of(name)
    Draft202012Validator.check_schema(json.loads(shipped))
    assert "gatekit:model" not in shipped.replace("gatekit:file/model", ""), "an editor cannot follow these references"


def test_there_is_one_for_each_group() -> None:
    """Every group of a spec has a schema for its files, and there is no other."""
    there = {path.name.split(".")[0] for path in (schema_dir() / "file").iterdir()}
    assert there == {ROOT, *GROUPS}
    assert set(GROUPS) == set(SECTIONS) - {"client"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_modeline_leads_to_the_right_schema(path: Path) -> None:
    """The first line of each shipped config points, relative to the file, at the schema of its group."""
    found = MODELINE.match(path.read_text())
    assert found is not None
    target = Path(os.path.normpath(path.parent / found[1]))
    assert target == wanted(path)
    assert target.is_file()


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_editor_finds_no_mistake(path: Path) -> None:
    """Each shipped file is valid by the schema that its modeline names, read as editors read it."""
    data = yaml.safe_load(path.read_text())
    assert complaints(wanted(path), data) == []


@pytest.mark.parametrize(
    ("group", "text", "is_right"),
    [
        ("model", "defaults: [laguna_int4]\n", True),
        ("model", "defaults:\n  - laguna_int4\n  - override /engine: vllm\ngate: {observed: {n: 7}}\n", True),
        ("model", "", True),
        ("model", "engine: {acuracy: 1}\n", False),
        ("model", "gate: {floor: 90}\n", False),
        ("model", "defaults:\n  - override /engin: vllm\n", False),
        ("model", "defaults: simulated\n", False),
        ("gate", "defaults: [auto]\nlocks: here\n", True),
        ("gate", "floor: 90\n", False),
        ("gate", "gate: {floor: 0.9}\n", False),
        ("hw", "count: one\n", False),
        ("engine", "kind: launched\n", False),
        ("task", "files: {dev: {rows: 1}}\n", False),
    ],
)
def test_an_editor_is_right(group: str, text: str, is_right: bool) -> None:
    """A partial file is right, an unknown key, a wrong type and a number out of range are wrong."""
    found = complaints(schema_dir() / "file" / f"{group}.schema.json", yaml.safe_load(text))
    assert (found == []) is is_right, found


def test_nothing_is_required_and_everything_described() -> None:
    """A file schema has each key of its section with its description, and requires none."""
    for name in GROUPS:
        text = json.dumps(file_schema(name))
        assert '"required": [' not in text
    sections = file_schema("model")["properties"]
    assert set(sections) == {"defaults", *SECTIONS}
    assert all(value["description"] for value in sections["gate"]["properties"].values())


@pytest.mark.parametrize("before", ["", "# a remark\n", "\n", "# yaml-language-server: $schema=../x.json\n"])
def test_a_package_header_is_refused_after_a_modeline(tmp_path: Path, before: str) -> None:
    """A modeline does not hide what Hydra would take for a header."""
    path = tmp_path / "a.yaml"
    path.write_text(f"{before}# @package _global_\na: 1\n")
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert caught.value.reason == "package-header"
    assert caught.value.problems[0].where.endswith(f"a.yaml:{before.count(chr(10)) + 1}:1")


def test_the_page_lists_every_option() -> None:
    """docs/configuration.md names every shipped option in the row of its group."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text()
    for folder in (each for each in conf_dir().iterdir() if each.is_dir()):
        row = next(line for line in page.splitlines() if line.startswith(f"| `{folder.name}` |"))
        assert {path.stem for path in folder.glob("*.yaml")} <= set(re.findall(r"`(\w+)`", row)), folder.name
