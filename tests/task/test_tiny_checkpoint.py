"""The shipped weights in both of their forms, and their damaged variants."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gatekit.resources import weights_file

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = weights_file("tiny_gsm-f16.gguf")


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The converter and the damage, which need gguf."""
    if importlib.util.find_spec("gguf") is None:
        if os.environ.get("CI"):
            pytest.fail("gguf is required in CI")
        pytest.skip("needs gguf (pip install gguf==0.19.0)")
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.tiny_model.{name}")


def test_there_and_back(tools: Any, tmp_path: Path) -> None:
    """The shipped file becomes a Hugging Face folder, and the folder the very same file."""
    checkpoint = tools("checkpoint")
    checkpoint.write_folder(checkpoint.load(SHIPPED), tmp_path / "hf")
    checkpoint.write_gguf(checkpoint.load(tmp_path / "hf"), tmp_path / "again.gguf")
    assert (tmp_path / "again.gguf").read_bytes() == SHIPPED.read_bytes()


def test_the_folder_is_the_trained_checkpoint(tools: Any, shared: Path, tmp_path: Path) -> None:
    """The folder that vLLM serves holds the trained weights bit for bit, with the same config and tokenizer."""
    tools("checkpoint").main(str(SHIPPED), str(tmp_path))
    trained = shared / "tinymodel" / "checkpoint"
    assert (tmp_path / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        assert json.loads((tmp_path / name).read_text()) == json.loads((trained / name).read_text())


def test_every_variant_differs(tools: Any, tmp_path: Path) -> None:
    """Every damaged variant can be written, and is neither the healthy weights nor another variant."""
    checkpoint, damage = tools("checkpoint"), tools("damage")
    healthy = checkpoint.load(SHIPPED)
    seen = {SHIPPED.read_bytes(): "shipped"}
    for variant in damage.variants():
        path = tmp_path / "x.gguf"
        checkpoint.write_gguf(variant.change(healthy), path, variant.file_type)
        content = path.read_bytes()
        assert (seen.get(content) == "shipped") is (variant.name == "f16")
        assert content not in seen or variant.name == "f16", f"{variant.name} is {seen[content]}"
        seen.setdefault(content, variant.name)
    assert len(seen) == 31
