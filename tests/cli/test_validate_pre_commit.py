"""The hook that other repositories use, with the real pre-commit: it installs this tree from the package registry."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFIG = "repos:\n  - repo: {source}\n    rev: {revision}\n    hooks:\n      - id: gatekit-validate\n"
GOOD = "defaults:\n  - laguna_int4\nmodel:\n  name: ours/model\n"
BAD = GOOD + "engine:\n  acuracy: 0.9\n"


class Repository:
    """A git repository in a folder, apart from anybody's settings."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        here = Path(sys.executable).parent
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "GATEKIT_"))},
            "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "PRE_COMMIT_HOME": str(home / "pre-commit"),
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        folder.mkdir(parents=True, exist_ok=True)
        self.run("git", "init", "--quiet")
        self.run("git", "config", "user.name", "tester")
        self.run("git", "config", "user.email", "tester@example.invalid")

    def run(self, *command: str) -> str:
        done = self.tried(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def tried(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=1200
        )

    def commit(self, name: str, text: str) -> subprocess.CompletedProcess[str]:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.run("git", "add", name)
        return self.tried("git", "commit", "--quiet", "--message", "one")


def tracked(root: Path) -> Iterator[str]:
    """The files of the tree that a clone would have."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    yield from (name for name in listed.splitlines() if (root / name).is_file())


@pytest.mark.slow
def test_the_hook_in_a_scratch_repository(tmp_path: Path) -> None:
    """A commit with a mistake in a config or a lock is stopped and the mistake shown; good configs pass."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    source = Repository(tmp_path / "source", tmp_path)
    for name in tracked(ROOT):
        (source.folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source.folder / name)
    source.run("git", "add", "--all")
    source.run("git", "commit", "--quiet", "--message", "all")
    theirs = Repository(tmp_path / "theirs", tmp_path)
    text = CONFIG.format(source=source.folder, revision=source.run("git", "rev-parse", "HEAD"))
    (theirs.folder / ".pre-commit-config.yaml").write_text(text)
    theirs.run("git", "add", "--all")
    theirs.run("pre-commit", "install", "--install-hooks")

    assert theirs.commit("conf/model/ours.yaml", GOOD).returncode == 0
    stopped = theirs.commit("conf/model/theirs.yaml", BAD)
    assert stopped.returncode != 0
    said = stopped.stdout + stopped.stderr
    assert "conf/model/theirs.yaml:6:3: engine: unknown key 'acuracy'; did you mean 'accuracy'? [unknown-key]" in said
    assert theirs.run("git", "log", "--oneline").count("\n") == 0, "the bad commit was not made"
    assert theirs.commit("conf/model/theirs.yaml", GOOD).returncode == 0
    stopped = theirs.commit("conf/thresholds/a.lock.yaml", "not: a lock\n")
    assert stopped.returncode != 0
    assert "[lock-broken]" in stopped.stdout + stopped.stderr
