"""The key of a spec without a run is that of its runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gatekit.errors import ConfigError
from gatekit.records.spec import Spec
from gatekit.resources import conf_dir
from gatekit.run.asked import asked_by_run, comparability_of
from gatekit.spec.resolve import resolve
from gatekit.task.dataset import load
from gatekit.task.pinned import pinned_questions
from nights import Night, run_nights

NIGHT = Night("night", 0.9, 1, "2026-09-01")


def spec(*overrides: str) -> Spec:
    """The spec of these overrides."""
    return resolve(overrides, dirs=(conf_dir(),))


def test_the_key_of_a_real_run_on_bundled_questions(tmp_path: Path) -> None:
    """For gsm8k_synth the key that is computed alone is the one in the record of a run."""
    (record,) = run_nights(tmp_path, [NIGHT], "task.n=30")
    assert comparability_of(spec("task.n=30"), cache_dir=tmp_path / "none") == record.comparability


@pytest.mark.parametrize("more", [(), ("task.order_seed=7",), ("protocol=completions_10shot_test_head",)])
def test_the_key_of_a_real_run_on_gsm8k(tmp_path: Path, gsm8k_dir: Path, more: tuple[str, ...]) -> None:
    """For GSM8K the key from the pinned facts alone is that of a run which read the files, also with other orders."""
    asked = ("model=laguna_nvfp4", "hw=b200", "engine=sim", "task.n=30", *more)
    (record,) = run_nights(tmp_path, [NIGHT], *asked, f"task.path={gsm8k_dir}")
    nowhere = f"task.path={tmp_path / 'gone'}"
    assert comparability_of(spec(*asked, nowhere), cache_dir=tmp_path / "none") == record.comparability


def test_every_question_of_both_datasets(tmp_path: Path, gsm8k_dir: Path) -> None:
    """The pinned facts have the digests, ids and order of the rows themselves, train split included."""
    for task in (spec().task, spec("task=gsm8k", f"task.path={gsm8k_dir}").task):
        known = pinned_questions(task, with_train=True)
        loaded = load(task, cache_dir=tmp_path, with_train=True)
        assert known is not None
        assert (known.name, known.digests) == (loaded.name, loaded.digests)
        assert [one.id for one in known.test] == [one.id for one in loaded.test]
        assert [one.id for one in known.train] == [one.id for one in loaded.train]


def test_no_network_is_needed(tmp_path: Path) -> None:
    """A spec whose dataset was never here has its key at once, and nothing is downloaded."""
    found = comparability_of(spec("model=laguna_int4", "hw=b200"), cache_dir=tmp_path / "cache")
    assert found.fields["n"] == 1319
    assert not (tmp_path / "cache").exists()


def test_an_unknown_pin_is_read(tmp_path: Path) -> None:
    """Rows that nobody knows by their digest are read from the folder; a pin with a wrong number of rows is refused."""
    rows = '{"question": "1?", "answer": "#### 1"}\n{"question": "2?", "answer": "#### 2"}\n'
    for name in ("test", "train"):
        (tmp_path / f"{name}.jsonl").write_text(rows)
    own = spec("task=gsm8k", f"task.path={tmp_path}", "protocol.shots=1", "protocol.shots_overlap=leak")
    own = replace(own, task=replace(own.task, files={}))
    assert comparability_of(own, cache_dir=tmp_path) == asked_by_run(own, cache_dir=tmp_path).comparability
    assert comparability_of(own, cache_dir=tmp_path).fields["n"] == 2
    known = spec("task=gsm8k", f"task.path={tmp_path / 'gone'}").task
    wrong = {split: replace(pin, rows=10**9) for split, pin in known.files.items()}
    assert pinned_questions(replace(known, files=wrong), with_train=False) is None


def test_more_questions_than_there_are(tmp_path: Path) -> None:
    """What no run could ask has no key either."""
    with pytest.raises(ConfigError, match="from 1 to 1,319 can be asked"):
        comparability_of(spec("model=laguna_int4", "hw=b200", "task.n=1320"), cache_dir=tmp_path)
