"""The text of a new config file: valid as it stands, each key with its meaning out of the schemas.

A line `#key: value` names a key that may be set, with the value that holds without it, so that removing the `#`
changes nothing.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from gatekit.errors import ConfigError
from gatekit.records import spec as records
from gatekit.records.canonical import to_plain
from gatekit.resources import schema
from gatekit.spec.reader import parse

MOST_CHARACTERS = 100
_WIDTH = 110
_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_-]{{0,{MOST_CHARACTERS - 1}}}")
_YAML_WORDS = frozenset({"true", "false", "null", "nan", "inf", "yes", "no", "on", "off"})
_RESERVED = _YAML_WORDS | frozenset(
    {"none", "y", "n", "default", "defaults", "config", "hydra", "self", "override", "optional"}
)
_PLAIN = re.compile(r"(?:--)?[A-Za-z/][A-Za-z0-9_./-]*")
_CLASSES = {
    "model": records.Model,
    "hw": records.Hardware,
    "engine": records.Engine,
    "protocol": records.Protocol,
    "gate": records.Gate,
    "client": records.Client,
}
# What a model file offers to set beside its model: the keys of other sections that differ from model to model.
BESIDE_A_MODEL: Mapping[str, tuple[str, ...]] = {
    "engine": (
        "tensor_parallel_size",
        "data_parallel_size",
        "expert_parallel",
        "max_model_len",
        "enforce_eager",
        "kv_cache_dtype",
        "startup_timeout_s",
    ),
    "protocol": ("max_tokens", "temperature", "seed"),
    "gate": ("floor", "observed", "measured_under"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The keys of one schema: those that are `set`, and those that are `offered` with what holds without them."""

    schema: str
    set: Mapping[str, Any]
    offered: Mapping[str, Any]


def check_name(group: str, name: str) -> None:
    """Raise ConfigError unless a file of the group may have this name."""
    if _NAME.fullmatch(name) and name.lower() not in _RESERVED:
        return
    shown = name if len(name) <= MOST_CHARACTERS else f"{name[: MOST_CHARACTERS - 3]}..."
    why = "is a reserved word" if _NAME.fullmatch(name) else "is not a name"
    proposed = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-")[:MOST_CHARACTERS]
    hint = f"up to {MOST_CHARACTERS} letters, digits, _ and -, the first one a letter"
    if proposed != name and _NAME.fullmatch(proposed) and proposed.lower() not in _RESERVED:
        hint += f": {proposed}"
    raise ConfigError.one(f"{shown!r} {why} for a {group} file", reason="bad-name", hint=hint)


def model_text(
    name: str,
    *,
    chosen: Mapping[str, str],
    documents: Mapping[str, Mapping[str, Any]],
    values: Mapping[str, Mapping[str, Any]],
) -> str:
    """The text of a model file.

    `chosen` is the option of each group that it overrides, `documents` what their files say, and `values` the keys
    to set, by section.
    """
    own = {"server_args": {}, "server_env": {}, **values["model"]}
    sections = [Section(schema="model", set=own, offered=_offered("model", own, {}))]
    for section, keys in BESIDE_A_MODEL.items():
        mine = values.get(section, {})
        offered = _offered(section, mine, documents.get(section, {}), keys)
        sections.append(Section(schema=section, set=mine, offered=offered))
    lines = [*_header("model", name), "defaults:"]
    lines += [f"  - override /{group}: {option}" for group, option in chosen.items()]
    for one in sections:
        lines += ["", f"{one.schema}:" if one.set else f"#{one.schema}:", *_indented(_keys(one))]
    return _checked(lines, {one.schema: one.set for one in sections if one.set})


def option_text(group: str, name: str, values: Mapping[str, Any]) -> str:
    """The text of a file of a group that speaks about itself alone: hw, engine or protocol."""
    values = {**values, "name": name}
    section = Section(schema=group, set=values, offered=_offered(group, values, {}))
    return _checked([*_header(group, name), *_keys(section)], values)


def matrix_text(name: str, *, description: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The text of a matrix file with these rows."""
    about = schema("matrix")
    keys = about["properties"]
    lines = [*_comment(f"{about['title']} {name}. {about['description']}"), "# The keys of a row:"]
    for key, meaning in about["$defs"]["row"]["properties"].items():
        lines += _comment(f"- {key}: {meaning['description']}")
    lines += [*_comment(keys["description"]["description"]), f"description: {as_yaml(description)}"]
    lines += ["", *_comment(keys["rows"]["description"]), "rows:"]
    for row in rows:
        first, *others = [f"{key}: {as_yaml(value)}" for key, value in row.items()]
        lines += [f"  - {first}", *(f"    {other}" for other in others)]
    for key in keys:
        if key in ("description", "rows"):
            continue
        lines += ["", *_comment(keys[key]["description"]), f"#{key}: []"]
    return _checked(lines, {"description": description, "rows": list(rows)})


def as_yaml(value: Any) -> str:
    """A value on one line, as YAML 1.1 and 1.2 both read it.

    >>> as_yaml(["on", "fp8", 1e-05, None, {"a b": True}])
    '["on", fp8, 0.00001, null, {"a b": true}]'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{as_yaml(key)}: {as_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(as_yaml, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else f"{text}.0"
    if isinstance(value, int):
        return str(value)
    return value if _PLAIN.fullmatch(value) and value.lower() not in _YAML_WORDS else _quoted(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _header(group: str, name: str) -> list[str]:
    about = schema(group)
    first = f"{about['title']} {name}. {about['description']}"
    return [*_comment(first), "# A line `#key: value` is what holds without it: remove the # to change it."]


def _offered(
    section: str, values: Mapping[str, Any], document: Mapping[str, Any], keys: Sequence[str] | None = None
) -> dict[str, Any]:
    """The keys of a section that are not set, with the value that holds: that of the chosen file, or the default."""
    without = {field.name: field.default for field in dataclasses.fields(_CLASSES[section])}
    known = keys or tuple(schema(section)["properties"])
    return {key: document[key] if key in document else _plain(without[key]) for key in known if key not in values}


def _plain(value: Any) -> Any:
    if value is dataclasses.MISSING:
        raise AssertionError("a key without a default is set by its template")
    return to_plain(value)


def _keys(section: Section) -> Iterator[str]:
    """A section's keys in the schema's order, each below its meaning."""
    for key, about in schema(section.schema)["properties"].items():
        if key in section.set:
            yield from _comment(about.get("description", ""))
            yield from _entry(key, section.set[key])
        elif key in section.offered:
            yield from _comment(about.get("description", ""))
            yield f"#{key}: {as_yaml(section.offered[key])}"


def _entry(key: str, value: Any) -> Iterator[str]:
    line = f"{key}: {as_yaml(value)}"
    if isinstance(value, Mapping) and len(line) > _WIDTH:
        yield f"{key}:"
        yield from (f"  {as_yaml(inner)}: {as_yaml(item)}" for inner, item in value.items())
    else:
        yield line


def _comment(text: str) -> list[str]:
    wrapped = textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in wrapped]


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _checked(lines: Sequence[str], wanted: Mapping[str, Any]) -> str:
    """The lines as a text that the reader reads as what is `wanted`. Raises ConfigError where it cannot."""
    text = "\n".join([*lines, ""])
    data = {key: value for key, value in parse(text, Path("new")).data.items() if key != "defaults"}
    if data != to_plain(dict(wanted)):
        raise ConfigError.one("a value cannot be written as YAML", reason="bad-value", hint="use printable characters")
    return text
