"""Config files and command lines that nobody means: each is answered by one line, soon, and never by a crash."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from command_line import Ran, gatekit, here, within_rights
from config_files import write
from gatekit.cli.main import main
from gatekit.spec.composition import Composition
from gatekit.spec.folders import can_be_chosen, naming
from gatekit.spec.library import Library
from gatekit.spec.resolve import config_dirs
from gatekit.spec.selection import every_model
from gatekit.spec.validation import validate

MACHINE = "name: {name}\nvendor: nvidia\narchitecture: blackwell\ncount: 1\n"


def said(ran: Ran) -> list[str]:
    """The lines of a command that refused its input."""
    assert ran.code == 2, ran
    return [line.removeprefix("gatekit: ") for line in (ran.out + ran.err).splitlines() if line]


def test_a_list_over_its_limit_with_wrong_items(tmp_path: Path) -> None:
    """Faults of a list and of its items are told together, in a file and in an override."""
    write(tmp_path, {"conf/model/x.yaml": f"defaults: [laguna_int4]\nmodel: {{tags: [{'1,' * 64}1]}}\n"})
    lines = said(here(tmp_path, "validate", "conf"))
    assert any("x.yaml:2:15: model.tags: " in line for line in lines)
    assert any("engine.args" in line for line in said(here(tmp_path, "plan", f"engine.args=[{'1,' * 400}1]")))


@pytest.mark.parametrize("entries", ["5", "true", "x", "{y: z}"])
def test_a_defaults_list_that_is_none(tmp_path: Path, entries: str) -> None:
    """Other files of the group are looked at beside one whose defaults are no list."""
    write(tmp_path, {"conf/hw/x.yaml": f"defaults: {entries}\nname: x\n", "conf/hw/y.yaml": MACHINE.format(name="y")})
    lines = said(here(tmp_path, "validate"))
    assert lines[0].startswith("conf/hw/x.yaml:1:11: ")
    assert "[bad-defaults]" in lines[0]


@pytest.mark.parametrize("command", [["validate"], ["plan", "model=x", "--config-dir", "conf"]])
@pytest.mark.parametrize(
    ("file", "entry"),
    [
        ("model/x.yaml", "override /model: laguna_nvfp4"),
        ("model/x.yaml", "/engine/vllm"),
        ("model/x.yaml", "../model/laguna_nvfp4"),
        ("model/x.yaml", "/etc/passwd"),
        ("model/x.yaml", "team/a"),
        ("model/x.yaml", "optional b: c"),
        ("hw/cpu.yaml", "/model/simulated"),
        ("hw/cpu.yaml", "override /engine: vllm"),
        ("hw/cpu.yaml", "engine: vllm"),
    ],
)
def test_a_file_speaks_about_its_own_group(tmp_path: Path, command: list[str], file: str, entry: str) -> None:
    """A defaults list names its own group's options, and a model overrides groups: all else is refused at its line."""
    texts = {"model/x.yaml": "defaults:\n  - laguna_int4\n", "hw/cpu.yaml": "name: cpu\nvendor: none\ndefaults:\n"}
    texts[file] += f"  - {entry}\n"
    write(tmp_path / "conf", texts)
    line = texts[file].count("\n")
    lines = said(here(tmp_path, *command))
    assert [each for each in lines if each.startswith(f"conf/{file}:{line}:5: ") and "[bad-defaults]" in each], lines


def test_a_machine_changes_nothing_but_itself_through_hydra(tmp_path: Path) -> None:
    """What goes to Hydra is read under the same rule as what is composed here."""
    files = {"hw/q.yaml": "defaults:\n  - /model/evil\n" + MACHINE.format(name="q")}
    write(tmp_path / "conf", {**files, "model/evil.yaml": "model: {server_args: {vllm: [--evil]}}\n"})
    lines = said(here(tmp_path, "plan", "hw=q", "gate.observed={correct: 9, n: 10}", "--config-dir", "conf"))
    assert lines[0].startswith("conf/hw/q.yaml:2:5: '/model/evil'"), lines


GROUPS = "[_self_, {hw: cpu}, {engine: sim}, {protocol: completions_5shot}, {task: gsm8k_synth}, {gate: exact_binomial}"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("defaults: [{'': ''}]\n", "1:12"),
        ("", "1:1"),
        ("defaults: []\n", "1:11"),
        ("defaults: [_self_, {model: simulated}, {matrix: small}]\n", "1:40"),
        ("defaults: [_self_, {model: simulated}]\n", "1:11"),
        (f"defaults: {GROUPS}, {{history: local}}, {{model: simulated}}, {{model: laguna_int4}}]\n", "1:160"),
        ("defaults: [simulated]\n", "1:12"),
    ],
)
def test_a_root_that_is_none(tmp_path: Path, text: str, place: str) -> None:
    """The root chooses one option of each group; every command says so, at its line."""
    write(tmp_path, {"conf/config.yaml": text, "conf/model/x.yaml": "defaults: [simulated]\n"})
    for command in (["validate"], ["plan"], ["plan", "zzz"], ["plan", "small"], ["plan", "--list"], ["lint"]):
        folders = [] if command == ["validate"] else ["--config-dir", "conf"]
        lines = said(here(tmp_path, *command, *folders))
        assert any(f"conf/config.yaml:{place}: " in line and "[bad-defaults]" in line for line in lines), lines
        assert command == ["validate"] or len(lines) <= 2, lines


@pytest.mark.parametrize("override", ["task.n=range(5,5)", "task.n=range(10,0)", "task.n=range(0,5,-1)"])
@pytest.mark.parametrize("command", [["plan", "-m"], ["plan", "-m", "--json"], ["run", "-m"]])
def test_a_sweep_over_nothing(tmp_path: Path, command: list[str], override: str) -> None:
    """An empty sweep is a mistake, and says so."""
    ran = here(tmp_path, *command, override)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert "sweeps over nothing" in ran.err


@pytest.mark.parametrize("is_listable", [False, True])
def test_folders_that_may_not_be_entered(tmp_path: Path, is_listable: bool) -> None:
    """A group that cannot be read is named, whoever the folder belongs to."""
    write(tmp_path, {"r/model/x.yaml": "", "r/hw/y.yaml": ""})
    blocked = tmp_path / "r" / ("model" if is_listable else "hw")
    blocked.chmod(0o444 if is_listable else 0)
    ran = gatekit(tmp_path, "validate", "r/model", before=within_rights())
    blocked.chmod(0o755)
    assert ran.code == 2, ran
    assert "Permission denied" in ran.out, ran


@pytest.mark.parametrize("closed", ["ours", "ours/hw"])
@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_a_config_dir_that_cannot_be_read(closed: str, mode: int, tmp_path: Path) -> None:
    """A folder or group that this user may not read is an error, not a folder without options."""
    write(tmp_path, {"ours/hw/h100.yaml": MACHINE.format(name="h100")})
    (tmp_path / closed).chmod(mode)
    ran = gatekit(tmp_path, "plan", "--config-dir", "ours", before=within_rights())
    (tmp_path / closed).chmod(0o755)
    is_entered_first = (closed, mode) == ("ours/hw", 0o400)  # its names can be listed, and what they lead to not
    assert said(ran)[-1].endswith("[unreadable-file]" if is_entered_first else "[unreadable-config-dir]")


@pytest.mark.parametrize("typed", ["plan small", "lint", "init hw x", "run --cfg", "validate", "smal"])
def test_a_working_directory_that_is_gone(tmp_path: Path, typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a working directory a command says so in one line."""
    gone = tmp_path / "gone"
    gone.mkdir()
    kept = Path.cwd()
    os.chdir(gone)
    gone.rmdir()
    try:
        assert main(typed.split()) == 2
    finally:
        os.chdir(kept)
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert "working directory" in err


def test_links_keep_the_name_they_have_in_the_folder(tmp_path: Path) -> None:
    """A linked file, and one in a linked group folder, is an option of that group under the link's name."""
    text = "defaults: [laguna_int4]\nmodel: {acuracy: 3}\n"
    write(tmp_path, {"shared/x.yaml": text, "one/hw/m.yaml": MACHINE.format(name="m")})
    (tmp_path / "one/model").mkdir()
    (tmp_path / "one/model/x.yaml").symlink_to("../../shared/x.yaml")
    (tmp_path / "two").mkdir()
    (tmp_path / "two/model").symlink_to("../shared")
    for folder in ("one", "two"):
        for path in (f"{folder}/model", f"{folder}/model/x.yaml", folder):
            lines = said(here(tmp_path, "validate", path))
            assert f"{folder}/model/x.yaml:2:9: model: unknown key 'acuracy'" in lines[0], lines
            assert "1 specs" in lines[-1] or "1 spec" in lines[-1], lines


def test_files_in_no_group_are_named(tmp_path: Path) -> None:
    """A file below a group's folder, or beside the groups, is nobody's: validate says so."""
    files = dict.fromkeys(["conf/model/team/a.yaml", "conf/a.yaml", "conf/hw/deep/er/b.yaml"], "name: x\n")
    write(tmp_path, {**files, "conf/hw/m.yaml": MACHINE.format(name="m")})
    lines = said(here(tmp_path, "validate", "conf"))
    for name in files:
        assert any(line.startswith(f"{name}: belongs to no config group") for line in lines), (name, lines)


def test_a_folder_whose_name_is_an_option(tmp_path: Path) -> None:
    """The command lines that gatekit prints can be typed, whatever the folder is called."""
    write(tmp_path, {"-c/hw/m.yaml": MACHINE.format(name="m")})
    planned = here(tmp_path, "plan", "small", "--format", "lines", "--config-dir=-c")
    assert planned.out.splitlines()[0].endswith("--config-dir=-c")
    assert here(tmp_path, "plan", "hw=m", "--config-dir=-c").code == 0
    made = here(tmp_path, "init", "hw", "nn", "--config-dir=-c")
    assert made.out.splitlines()[-1].endswith("--config-dir=-c")
    assert "validate ./-c/hw/nn.yaml" in made.out
    assert naming(["a", "-b"]) == ["--config-dir", "a", "--config-dir=-b"]


@pytest.mark.parametrize("name", [".hid", "a b", "7", "null", "-x", "a.b"])
def test_one_rule_for_the_names_of_options(tmp_path: Path, name: str) -> None:
    """What validate says cannot be chosen cannot be chosen."""
    assert not can_be_chosen(name)
    write(tmp_path, {f"conf/model/{name}.yaml": "defaults: [simulated]\n"})
    assert any("[bad-file-name]" in line for line in said(here(tmp_path, "validate", "conf")))
    for typed in (f"model={name}", f"model='{name}'"):
        said(here(tmp_path, "plan", typed, "--config-dir", "conf"))


def test_many_unknown_keys_are_told_soon(tmp_path: Path) -> None:
    """Of thousands of unknown keys the first hundred are told, and how many more; only a few with what was meant."""
    keys = [f"accurac{number}" for number in range(9000)]
    settings = "".join(f"      engin.{key}: 1\n" for key in keys)
    write(
        tmp_path,
        {
            "conf/engine/x.yaml": "defaults: [sim]\n" + "".join(f"{key}: 1\n" for key in keys),
            "conf/matrix/x.yaml": f"description: x\nrows:\n  - model: simulated\n    set:\n{settings}",
        },
    )
    start = time.process_time()
    lines = said(here(tmp_path, "validate", "conf"))
    assert time.process_time() - start < 10
    assert sum("unknown key" in line for line in lines) == 100
    assert any("more mistakes" in line for line in lines)
    assert 1 <= sum("did you mean 'accuracy'?" in line for line in lines) <= 40


class Counted(Library):
    """A library that counts what it composes."""

    composed = 0

    def _compose(self, overrides: Sequence[str], *, is_salvage: bool = False) -> Composition:
        self.composed += 1
        return super()._compose(overrides, is_salvage=is_salvage)


def test_many_models_that_fit_no_machine(tmp_path: Path) -> None:
    """Models that ask the same of their machine are not each tried on every machine."""
    text = "defaults: [laguna_int4]\nengine: {tensor_parallel_size: 64}\n"
    write(tmp_path, {f"conf/model/m{number}.yaml": text for number in range(100)})
    library = Counted(config_dirs([str(tmp_path / "conf")], {}))
    found = validate(library, [library.dirs[0] / f"model/m{number}.yaml" for number in range(100)])
    assert sum(problem.reason == "too-few-gpus" for problem in found.problems) == 100
    assert found.specs == 100
    assert library.composed < 200
    library.composed = 0
    every_model([], dirs=library.dirs, library=library)
    assert library.composed < 500


def test_a_machine_that_one_model_states_itself_is_its_own(tmp_path: Path) -> None:
    """What a model file says about its machine is part of what it asks."""
    text = "defaults: [laguna_int4]\nengine: {tensor_parallel_size: 64}\n"
    files = {"conf/model/a.yaml": text, "conf/model/b.yaml": text + "hw: {count: 64, architecture: hopper}\n"}
    write(tmp_path, files)
    lines = said(here(tmp_path, "validate", "conf"))
    assert ["model/a.yaml" in line for line in lines if "too-few-gpus" in line] == [True]


def test_an_override_is_bounded(tmp_path: Path) -> None:
    """An override that would take minutes to parse is refused in one line."""
    many = f"engine.args=[{','.join(map(str, range(20000)))}]"
    start = time.process_time()
    ran = here(tmp_path, "plan", "-m", many)
    assert time.process_time() - start < 5
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert "engine.args" in ran.err
    assert len(ran.err) < 300


@pytest.mark.parametrize("module", ["yaml", "jsonschema", "hydra", "json"])
def test_modules_of_the_working_directory_stay_unread(tmp_path: Path, module: str) -> None:
    """`python -m gatekit` imports nothing from the folder that it is called in."""
    write(tmp_path, {f"{module}.py": "open('PWN', 'w')\n", "conf/hw/m.yaml": MACHINE.format(name="m")})
    assert gatekit(tmp_path, "plan", "-m", "task.n=7,8").code == 0
    assert gatekit(tmp_path, "validate").code == 0
    assert not (tmp_path / "PWN").exists()
