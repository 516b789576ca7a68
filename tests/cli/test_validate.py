"""`gatekit validate` as its users run it: what is looked at, what is printed, and the exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import environment, gatekit, here
from config_files import write

GOOD = "defaults:\n  - laguna_int4\nmodel:\n  name: ours/model\n"
BAD = GOOD + "engine:\n  acuracy: 0.9\n"
LINE = "6:3: engine: unknown key 'acuracy'; did you mean 'accuracy'? [unknown-key]"
ROOT = Path(__file__).resolve().parents[2]


def test_a_mistake_is_a_line_on_stdout(tmp_path: Path) -> None:
    """One line a mistake on stdout, how much was checked on stderr, exit 2; nothing is written."""
    write(tmp_path, {"conf/model/ours.yaml": BAD})
    ran = here(tmp_path, "validate")
    assert (ran.code, ran.out) == (2, f"conf/model/ours.yaml:{LINE}\n")
    assert ran.err == "gatekit: 1 file, 1 spec, 0 matrices: 1 mistake\n"
    assert [path.name for path in tmp_path.iterdir()] == ["conf"]


def test_no_mistake(tmp_path: Path) -> None:
    """Exit 0, nothing on stdout, one line on stderr."""
    write(tmp_path, {"conf/model/ours.yaml": GOOD})
    ran = here(tmp_path, "validate")
    assert (ran.code, ran.out, ran.err) == (0, "", "gatekit: 1 file, 1 spec, 0 matrices: no mistakes\n")


def test_without_a_folder_the_shipped_configs_are_checked(tmp_path: Path) -> None:
    """Nothing of one's own: all shipped files, specs and matrices; `--shipped` adds them to one's own."""
    alone = here(tmp_path, "validate")
    assert alone.code == 0
    files = int(alone.err.split(": ")[1].split(" ")[0])
    assert files == sum(not path.name.endswith(".lock.yaml") for path in (ROOT / "conf").rglob("*.yaml"))
    write(tmp_path, {"conf/model/ours.yaml": GOOD})
    assert here(tmp_path, "validate", "--shipped").err.startswith(f"gatekit: {files + 1} files, ")


def test_the_working_trees_own_conf() -> None:
    """In a checkout, its conf/ is what is checked, by relative names."""
    ran = here(ROOT, "validate", "--json")
    assert ran.code == 0
    assert ran.data["checked"]["matrices"] >= 3


def test_config_folders(tmp_path: Path) -> None:
    """The folders of --config-dir and GATEKIT_CONF_PATH are checked, and ./conf with them."""
    write(tmp_path, {"a/model/x.yaml": BAD, "b/model/y.yaml": BAD, "conf/model/z.yaml": BAD})
    ran = here(tmp_path, "validate", "--config-dir", "a", extra={"GATEKIT_CONF_PATH": "b"})
    assert ran.out.splitlines() == [
        f"{name}:{LINE}" for name in ("a/model/x.yaml", "b/model/y.yaml", "conf/model/z.yaml")
    ]


@pytest.mark.parametrize("path", ["team", "team/model", "team/model/ours.yaml", ".", "./team/../team/model/ours.yaml"])
def test_paths(tmp_path: Path, path: str) -> None:
    """A folder of groups, a group folder or a file: its folder of groups is found, and shadows the shipped one."""
    base = "name: vllm\nkind: attach\nenv: {}\nbase_url: http://127.0.0.1:1\n"
    files = {"team/model/ours.yaml": BAD, "team/engine/vllm.yaml": base}
    write(tmp_path, files if path != "." else {name.replace("team/", "conf/"): text for name, text in files.items()})
    ran = here(tmp_path, "validate", path)
    where = "conf" if path == "." else "team"
    assert (ran.code, ran.out) == (2, f"{where}/model/ours.yaml:{LINE}\n")


def test_a_path_outside_the_working_directory(tmp_path: Path) -> None:
    """Files elsewhere are named in full."""
    write(tmp_path, {"team/model/ours.yaml": BAD, "work/x": ""})
    ran = here(tmp_path / "work", "validate", "../team/model/ours.yaml")
    assert ran.out == f"{tmp_path}/team/model/ours.yaml:{LINE}\n"


def test_several_folders_are_checked_apart(tmp_path: Path) -> None:
    """Files of the same name in two teams' folders do not shadow each other."""
    write(tmp_path, {"a/conf/model/x.yaml": BAD, "b/conf/model/x.yaml": BAD})
    ran = here(tmp_path, "validate", "a/conf/model/x.yaml", "b/conf/model/x.yaml")
    assert ran.out.splitlines() == [f"{team}/conf/model/x.yaml:{LINE}" for team in "ab"]
    assert "2 files, 2 specs" in ran.err


def test_a_file_of_no_group(tmp_path: Path) -> None:
    """A file or folder that belongs to no group, or is not there, gets one clear line; others are still checked."""
    write(tmp_path, {"conf/model/ours.yaml": BAD, "notes.yaml": "a: 1\n", "docs/x.md": "", "conf/model/a.yml": GOOD})
    ran = here(tmp_path, "validate", "notes.yaml", "docs", "nowhere", "conf/model/ours.yaml", "conf/model/a.yml")
    assert ran.code == 2
    told = [line.split("; ")[0] for line in ran.out.splitlines()]
    assert told == [
        "conf/model/a.yml: is never read: options end in .yaml",
        f"conf/model/ours.yaml:{LINE.split('; ')[0]}",
        "docs: holds no config group",
        "notes.yaml: belongs to no config group",
        "nowhere: no such file or folder [no-such-path]",
    ]


def test_specs_that_a_changed_group_file_spoils(tmp_path: Path) -> None:
    """A changed machine or engine is checked with the models that take it."""
    write(tmp_path, {"conf/engine/vllm.yaml": "name: vllm\nkind: attach\nenv: {}\n", "conf/model/mine.yaml": GOOD})
    ran = here(tmp_path, "validate", "conf/engine/vllm.yaml")
    assert ran.code == 2
    assert "needs the address of the running server" in ran.out
    assert "specs" in ran.err


def test_a_matrix_by_itself(tmp_path: Path) -> None:
    """A matrix file named by PATH is checked with every row."""
    write(tmp_path, {"conf/matrix/m.yaml": "description: d\nrows:\n  - {model: laguna_int5, hw: b200}\n"})
    ran = here(tmp_path, "validate", "conf/matrix/m.yaml")
    assert ran.code == 2
    assert ran.out.startswith("conf/matrix/m.yaml:3:")
    assert "1 matrix" in ran.err


@pytest.mark.parametrize("name", ["$(touch PWN)", "a\nb", "a\x1b[31mb", "a:9:9: b", "-rf", "a,b%0Ac", "\u202ex"])
def test_hostile_names(tmp_path: Path, name: str) -> None:
    """A name full of controls or commands stays one line of text in every format, and runs nothing."""
    write(tmp_path, {f"conf/model/{name}.yaml": "model: {nmae: on}\n"})
    for kind in ("text", "json", "sarif", "github"):
        ran = here(tmp_path, "validate", "conf", "--format", kind)
        assert ran.code == 2
        assert "\x1b" not in ran.out + ran.err
        assert not (tmp_path / "PWN").exists()
        if kind in ("text", "github"):
            assert all(line.startswith(("conf/model/", "::error ")) for line in ran.out.splitlines()), ran.out
        else:
            assert ran.data


def test_names_that_are_no_unicode(tmp_path: Path) -> None:
    """A file name in another encoding is escaped instead of ending in a crash."""
    folder = tmp_path / "conf" / "model"
    folder.mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.yaml")).write_text("nmae: 1\n")
    for kind in ("text", "json", "sarif", "github"):
        ran = gatekit(tmp_path, "validate", "--format", kind)
        assert ran.code == 2, ran.err


@pytest.mark.parametrize("arguments", [["--format", "xml"], ["--nope"], ["--config-dir", "nowhere"]])
def test_wrong_arguments(tmp_path: Path, arguments: list[str]) -> None:
    """A wrong command line is told as such."""
    ran = here(tmp_path, "validate", *arguments)
    assert ran.code == 2
    assert ran.err.startswith("gatekit: ")


def test_help(tmp_path: Path) -> None:
    """The help names every format, and the command's list names validate."""
    text = here(tmp_path, "validate", "--help").out
    assert all(kind in text for kind in ("text", "json", "sarif", "github"))
    assert "validate" in here(tmp_path, "--help").out


@pytest.mark.parametrize("mistake", ["", "engine: {acuracy: 1}\n", "gate: {floor: 2, alpha: on}\n"])
def test_nothing_heavy_is_imported(tmp_path: Path, mistake: str) -> None:
    """Checking one file, good or bad, imports neither Hydra nor the libraries of runs and histories."""
    write(tmp_path, {"conf/model/ours.yaml": GOOD + mistake})
    code = (
        "import sys\nfrom gatekit.cli.main import main\ncode = main(['validate', 'conf/model/ours.yaml'])\n"
        "heavy = {'hydra', 'omegaconf', 'scipy', 'numpy', 'aiohttp', 'sqlalchemy', 'rich', 'asyncio'}\n"
        "print('imported:', *sorted(heavy & set(sys.modules)))\nsys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == (2 if mistake else 0), done.stderr
    assert done.stdout.splitlines()[-1] == "imported:"
