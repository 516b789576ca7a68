"""Every id of a mistake is explained, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatekit.spec.rule_texts import RULE_TEXTS, SECTIONS, page
from gatekit.spec.run_rules import _PLACES

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "gatekit" / "spec").rglob("*.py"))
COMMANDS = [
    ROOT / "gatekit" / "cli" / f"{name}.py"
    for name in ("validate", "lint", "init", "scaffolds", "plan", "matrix_choice", "shadowed")
]
# At the end of a line that is only printed.
PRINTED = re.compile(r"[^\[]*\[([a-z]+(?:-[a-z]+)+|shadowed)\]")
# What is wrong with a command line, and with no config.
OF_COMMAND_LINES = {
    *("bad-arguments", "no-matrix-named", "not-one-line", "secret-in-override", "unknown-spec"),
    "weights-not-named",
}
ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
# Raised in a room below, and told by the rules of gatekit/spec.
FROM_BELOW = {"base-url", *_PLACES}
# Why a matrix leaves a row out: listed with the row, no mistake.
NO_MISTAKES = {"same-spec"}


def raised(tree: ast.Module) -> Iterator[str]:
    """The ids that a file gives to problems: by `reason=`, by its own `_problem` and `_flaw`, or in a rule's tuple."""
    named = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        for value in places(node):
            known = named.get(value.id, value) if isinstance(value, ast.Name) else value
            if isinstance(known, ast.Constant) and isinstance(known.value, str) and ID.fullmatch(known.value):
                yield known.value


def places(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call):
        yield from (keyword.value for keyword in node.keywords if keyword.arg == "reason")
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        yield from node.args[2:3] if function in ("_problem", "_flaw") else ()
    # A rule yields path, what, reason, hint; a schema's complaint is what, reason, hint.
    is_found = isinstance(node, ast.Yield) or (isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple))
    if is_found and isinstance(node.value, ast.Tuple):  # type: ignore[attr-defined]  # both have one
        elements = node.value.elts  # type: ignore[attr-defined]  # as above
        yield from elements[-2:-1] if len(elements) > 2 else elements[1:] if isinstance(node, ast.Yield) else ()


def test_every_id_is_explained_and_no_other() -> None:
    """The ids in the source of gatekit/spec are those of the page."""
    found = {name for path in FILES for name in raised(ast.parse(path.read_text()))}
    found |= {name for path in COMMANDS for name in told(ast.parse(path.read_text()))} - OF_COMMAND_LINES
    assert found - NO_MISTAKES | FROM_BELOW == set(RULE_TEXTS)


def told(tree: ast.Module) -> Iterator[str]:
    """The ids that a command gives to problems, or prints at the end of a warning."""
    yield from raised(tree)
    for node in ast.walk(tree):
        is_warning = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "warn"
        texts = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)] if is_warning else []
        yield from (found for text in texts if isinstance(text, str) for found in PRINTED.findall(text))


def test_the_collector_sees_each_way() -> None:
    """An id is seen by keyword, by constant, by position and in a rule's tuple."""
    source = """
NAMED = "by-name"
def rule(spec):
    yield ("a",), "what it is", "by-yield", "a hint"
def shape():
    return "what it is", "by-return", "a hint"
Problem(where="", what="", reason="by-keyword")
Problem(where="", what="", reason=NAMED)
self._problem(mark, "what", "by-position", "hint")
"""
    assert set(raised(ast.parse(source))) == {"by-yield", "by-return", "by-keyword", "by-name", "by-position"}


def test_the_page_is_what_the_texts_say() -> None:
    """docs/rules.md is current; `python -m gatekit.spec.rule_texts docs/rules.md` writes it."""
    assert (ROOT / "docs" / "rules.md").read_text() == page()


@pytest.mark.parametrize("name", RULE_TEXTS)
def test_an_explanation_is_complete(name: str) -> None:
    """Each id says what it means, how it looks and how it is mended."""
    rule = RULE_TEXTS[name]
    assert rule.means.endswith(".")
    assert rule.example
    assert rule.mend
    assert sum(name in rules for rules in SECTIONS.values()) == 1
