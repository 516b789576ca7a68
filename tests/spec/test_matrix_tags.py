"""Tags of models: words for matrices, which move no score and change no record that was written without them."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import here
from gatekit.records.canonical import canonical_json, digest
from gatekit.records.run import record_from_plain, record_to_plain
from gatekit.resources import conf_dir
from gatekit.spec.library import Library

RUN = ("task.n=60", "engine.latency.median_s=0", "--json")


def _model(folder: Path, name: str, tags: str) -> None:
    text = (conf_dir() / "model" / "simulated.yaml").read_text().replace("  tags: [simulated]\n", tags)
    (folder / "ours" / "model").mkdir(parents=True, exist_ok=True)
    (folder / "ours" / "model" / f"{name}.yaml").write_text(text)


def test_every_shipped_model_has_tags() -> None:
    """No shipped model is out of reach of a selector by tags."""
    library = Library((conf_dir(),))
    for name in library.options("model"):
        assert library.compose([f"model={name}"]).data["model"]["tags"]


def test_tags_move_no_score(tmp_path: Path) -> None:
    """A model with tags and the same one without them are one series, and a record without tags is as it always was."""
    _model(tmp_path, "tagged", "  tags: [small, ours]\n")
    _model(tmp_path, "plain", "")
    dirs = ("--config-dir", "ours")
    tagged = here(tmp_path, "model=tagged", *dirs, *RUN).data
    plain = here(tmp_path, "model=plain", *dirs, *RUN).data
    assert tagged["comparability_key"] == plain["comparability_key"]
    record = json.loads((tmp_path / plain["record"]).read_text())
    assert "tags" not in record["spec"]["model"]
    assert json.loads((tmp_path / tagged["record"]).read_text())["spec"]["model"]["tags"] == ["small", "ours"]
    assert here(tmp_path, "history", "verify").code == 0


def test_a_record_from_before_tags(tmp_path: Path) -> None:
    """A stored record whose model has no tags reads, and comes back byte for byte with the digest it had."""
    _model(tmp_path, "plain", "")
    ran = here(tmp_path, "model=plain", "--config-dir", "ours", *RUN).data
    stored = (tmp_path / ran["record"]).read_bytes()
    plain = json.loads(stored)
    assert plain["digest"] == digest({key: value for key, value in plain.items() if key != "digest"})
    record = record_from_plain(plain)
    assert record.spec.model.tags == ()
    assert canonical_json(record_to_plain(record)) + b"\n" == stored
