"""The hand-checkable examples in the docstrings of stats and gate."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import gatekit.gate
import gatekit.stats

MODULES = [
    f"{room.__name__}.{found.name}"
    for room in (gatekit.stats, gatekit.gate)
    for found in pkgutil.iter_modules(room.__path__)
]


def syntax(name: str) -> ast.Module:
    """The syntax tree of a module's source."""
    module = importlib.import_module(name)
    assert module.__file__ is not None
    return ast.parse(Path(module.__file__).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name: str) -> None:
    """Every example in a docstring of stats and gate gives exactly what it shows."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("gatekit.stats.")])
def test_every_public_statistic_has_an_example(name: str) -> None:
    """A public function of stats carries an example that can be checked by hand."""
    for node in syntax(name).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            text = ast.get_docstring(node) or ""
            assert ">>>" in text, f"{name}.{node.name} has no example"


@pytest.mark.parametrize("name", MODULES)
def test_scipy_stats_stays_out_of_the_product(name: str) -> None:
    """No module of stats or gate imports scipy.stats, which costs 0.8 s at every start."""
    nodes = list(ast.walk(syntax(name)))
    imported = {n.module for n in nodes if isinstance(n, ast.ImportFrom)}
    imported |= {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
    assert not any(module and module.startswith("scipy.stats") for module in imported)
