"""The bundled questions are those that the tiny model was trained on and held out from."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from gatekit.task.synth import synth_questions


@pytest.mark.parametrize(("n", "split", "seed"), [(1319, "test", 0), (20_000, "train", 0), (5, "train", 99)])
def test_the_generator_is_the_original_one(shared: Path, n: int, split: str, seed: int) -> None:
    """Question by question and byte by byte, the generator gives what the one behind the weights gave."""
    spec = importlib.util.spec_from_file_location("gsmlike", shared / "tinymodel" / "gsmlike.py")
    assert spec is not None
    assert spec.loader is not None
    original = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(original)
    ours = [[question.text, question.reference] for question in synth_questions(n, split, seed)]
    assert json.dumps(ours).encode() == json.dumps(original.problems(n, split, seed)).encode()
