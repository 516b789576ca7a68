"""Lock files are checked where configs are: form, digest, and the name that they stand under."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from command_line import here
from gatekit.spec.locks import file_name, write_lock
from lock_builders import lock_of
from past_builders import totals

ROOT = Path(__file__).resolve().parents[2]
GOOD = "defaults:\n  - laguna_int4\nmodel:\n  name: ours/model\n"


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """A lock as gatekit writes it, in conf/thresholds beside a model."""
    made = lock_of(totals([190, 188, 191], 200), 200)
    path = tmp_path / "conf" / "thresholds" / file_name(made.spec)
    write_lock(path, made)
    (tmp_path / "conf" / "model").mkdir()
    (tmp_path / "conf" / "model" / "m.yaml").write_text(GOOD)
    return path


def edited(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join("k_reject: 1\n" if line.startswith("k_reject:") else line for line in lines))


@pytest.mark.parametrize("asked", [(), ("conf",), ("conf/thresholds",), ("conf/thresholds/spec.lock.yaml",)])
def test_a_lock_in_order_and_an_edited_one(lock: Path, tmp_path: Path, asked: tuple[str, ...]) -> None:
    """Whatever path leads to a lock: in order it is counted, and edited by hand it is a mistake at its line."""
    ran = here(tmp_path, "validate", *asked)
    assert (ran.code, ran.out) == (0, "")
    assert ", 1 lock: no mistakes" in ran.err
    edited(lock)
    ran = here(tmp_path, "validate", *asked)
    assert ran.code == 2
    assert ran.out.startswith("conf/thresholds/spec.lock.yaml:")
    assert ran.out.rstrip().endswith("[lock-edited]")
    assert here(tmp_path, "validate", *asked, "--json").data["checked"]["locks"] == 1


def test_locks_that_are_none(lock: Path, tmp_path: Path) -> None:
    """No lock, one under another spec's name, one in a folder within, one from a newer gatekit, one misnamed."""
    folder = lock.parent
    (folder / "a.lock.yaml").write_text("not: a lock\n")
    shutil.copyfile(lock, folder / "b.lock.yaml")
    (folder / "nightly").mkdir()
    (folder / "nightly" / "c.lock.yaml").write_text("<<<<<<< HEAD\n")
    (folder / "d.lock.yaml").write_text("format: 99\n")
    (folder / "e.yaml").write_text("x: 1\n")
    (folder / "f.lock.yaml").symlink_to("nowhere")
    (folder / "README.md").write_text("Reviewed like code.\n")
    found = [line.split("[")[-1].rstrip("]") for line in here(tmp_path, "validate", "conf").out.splitlines()]
    assert sorted(found) == sorted(
        ["lock-broken", "lock-of-another-spec", "lock-newer", "bad-file-name", "lock-broken", "lock-broken"]
    )


def test_the_locks_of_the_default_folder_with_configs_elsewhere(lock: Path, tmp_path: Path) -> None:
    """Gates read conf/thresholds unless they name another folder, wherever the configs are."""
    edited(lock)
    (tmp_path / "conf" / "model").rename(tmp_path / "model")
    (tmp_path / "ours").mkdir()
    (tmp_path / "model").rename(tmp_path / "ours" / "model")
    ran = here(tmp_path, "validate", "--config-dir", "ours")
    assert (ran.code, ran.out.rstrip().rsplit(" ", 1)[1]) == (2, "[lock-edited]")


def test_lint_looks_at_locks(lock: Path, tmp_path: Path) -> None:
    """What nothing could run with is an error of lint too."""
    assert here(tmp_path, "lint", "--config-dir", "conf").code == 0
    edited(lock)
    ran = here(tmp_path, "lint", "--config-dir", "conf")
    assert ran.code == 2
    assert "[lock-edited]" in ran.out


def test_the_hook_is_asked_for_locks() -> None:
    """The pre-commit hook, and the one that the page shows, take configs and locks, and no other file."""
    import re

    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    shown = re.findall(r"^ +files: (\^conf.*)$", (ROOT / "docs" / "validation.md").read_text(), re.MULTILINE)
    assert len(shown) == 1
    for pattern in (hook["files"], *shown):
        for name in (
            "conf/thresholds/a.lock.yaml",
            "conf/thresholds/x/a.lock.yaml",
            "conf/model/a.yaml",
            "conf/config.yaml",
        ):
            assert re.search(pattern, name), (pattern, name)
        for name in ("conf/thresholds/README.md", "conf/other/a.yaml", "src/model.py"):
            assert not re.search(pattern, name), (pattern, name)
