"""Nothing in a config runs: payloads through every command that reads one. The canary never sings, the exit is 2."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import environment, gatekit, here

TOUCH = "touch PWN"
TARGET = f"{{_target_: os.system, command: '{TOUCH}', _args_: ['{TOUCH}']}}"
MODEL = "defaults:\n  - simulated\n"

# In a model file after its defaults list, unless the text brings a list of its own.
IN_A_MODEL = {
    "a target at the root": f"_target_: os.system\ncommand: {TOUCH}\n",
    "a target in a section": f"engine: {TARGET}\n",
    "a target in a list": f"engine: {{args: [{TARGET}]}}\n",
    "a target in nested lists": f"engine: {{args: [[[{TARGET}]]]}}\n",
    "a partial": "model: {_partial_: true, _convert_: all}\n",
    "callbacks": f"hydra: {{callbacks: {{evil: {TARGET}}}}}\n",
    "a sweeper": f"hydra: {{sweeper: {TARGET}}}\n",
    "a launcher": f"hydra: {{launcher: {TARGET}}}\n",
    "job logging": f"hydra: {{job_logging: {{handlers: {{x: {{(): os.system, command: '{TOUCH}'}}}}, version: 1}}}}\n",
    "a search path": "hydra: {searchpath: ['pkg://os', 'file:///tmp']}\n",
    "a run folder": f"hydra: {{run: {{dir: '$({TOUCH})'}}}}\n",
    "a tag that calls": f"a: !!python/object/apply:os.system ['{TOUCH}']\n",
    "a tag that makes": "a: !!python/object/new:subprocess.Popen [['touch', 'PWN']]\n",
    "a tag that names": "a: !!python/name:os.system\n",
    "a tag on a key": "!!python/name:os.system a: b\n",
    "a tag of one's own": "%TAG !e! tag:yaml.org,2002:python/\n---\na: !e!name:os.system\n",
    "a resolver of the environment": "model: {name: '${oc.env:HOME}'}\n",
    "a resolver that decodes": "model: {name: '${oc.decode:x}'}\n",
    "a resolver that creates": "model: {name: '${oc.create:{a: b}}'}\n",
    "a resolver of Hydra": "model: {name: '${hydra:runtime.cwd}'}\n",
    "a resolver in a reference": "model: {name: '${oc.${engine.name}:HOME}'}\n",
    "an escaped resolver": "model: {name: \\${oc.env:HOME}}\n",
    "a resolver in a key": "engine: {env: {'${oc.env:HOME}': x}}\n",
    "a shell as the server": f"engine: {{kind: launch, flags: {{}}, command: [sh, -c, {TOUCH}]}}\n",
    "code for an interpreter": 'engine: {kind: launch, flags: {}, command: [python3, -c, \'open("PWN", "w")\']}\n',
    "arguments for a shell": f"engine: {{args: '; {TOUCH}'}}\n",
}
WHOLE_MODELS = {
    "a launcher in the defaults": "defaults:\n  - simulated\n  - override /hydra/launcher: basic\n",
    "job logging in the defaults": "defaults:\n  - simulated\n  - override hydra/job_logging: custom\n",
    "callbacks in the defaults": "defaults:\n  - simulated\n  - /hydra/callbacks: evil\n",
    "a package in the defaults": "defaults:\n  - simulated\n  - /engine@hydra.launcher: sim\n",
    "a resolver in the defaults": "defaults:\n  - simulated\n  - override /engine: ${oc.env:HOME}\n",
    "a target in the defaults": f"defaults:\n  - simulated\n  - {TARGET}\n",
    "a package header": f"# @package hydra.callbacks\ndefaults:\n  - simulated\nevil: {TARGET}\n",
    "a header after a modeline": f"# yaml-language-server: $schema=x\n# @package _global_\nhydra: {TARGET}\n",
}
FILES = {name: MODEL + text for name, text in IN_A_MODEL.items()} | WHOLE_MODELS
FILES["a tag of one's own"] = IN_A_MODEL["a tag of one's own"]

OVERRIDES = (
    "hydra/launcher=basic",
    "+hydra.callbacks.evil._target_=os.system",
    f"++hydra.callbacks.evil={{_target_: os.system, command: {TOUCH}}}",
    "hydra.sweeper._target_=os.system",
    "hydra.searchpath=[pkg://os]",
    "hydra.job_logging.handlers.x.class=os.system",
    "+engine._target_=os.system",
    "engine.args=[{_target_: os.system}]",
    "model.name=${oc.env:HOME}",
    "model.name='${oc.env:HOME}'",
    "+hydra/callbacks=evil",
    "engine@hydra.launcher=sim",
    "model=../../evil",
    "~hydra.callbacks",
)


def lay(folder: Path, text: str, name: str = "mine") -> None:
    (folder / "conf" / "model").mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "model" / f"{name}.yaml").write_text(text)


def is_quiet(folder: Path) -> bool:
    """Whether nothing ran, and nothing was left."""
    return not (folder / "PWN").exists() and {path.name for path in folder.iterdir()} <= {"conf", "hydra_plugins"}


Arguments = Callable[[str], list[str]]
ON_A_FILE: dict[str, list[str]] = {
    "run": ["--config-dir", "conf", "model=mine"],
    "sweep": ["-m", "--config-dir", "conf", "model=mine,simulated"],
    "plan": ["plan", "--config-dir", "conf", "model=mine"],
    "validate one file": ["validate", "conf/model/mine.yaml", "--format", "sarif"],
    "audit one": ["audit", "--config-dir", "conf", "model=mine"],
    "thresholds": ["thresholds", "recompute", "--config-dir", "conf", "model=mine"],
}
ON_A_FOLDER = (["validate"], ["audit", "--config-dir", "conf"], ["lint", "--config-dir", "conf"])


@pytest.mark.parametrize("command", ON_A_FILE)
def test_files(tmp_path: Path, command: str) -> None:
    """Each command refuses every payload that stands in a file."""
    assert len(FILES) >= 30
    for name, text in FILES.items():
        lay(tmp_path, text)
        ran = here(tmp_path, *ON_A_FILE[command])
        assert ran.code == 2, (name, ran.out, ran.err)
        assert is_quiet(tmp_path), name


@pytest.mark.parametrize("command", ON_A_FOLDER, ids=lambda command: command[0])
def test_folders(tmp_path: Path, command: list[str]) -> None:
    """Each command that reads whole folders refuses every payload in one of them, by the name of its file."""
    for number, text in enumerate(FILES.values()):
        lay(tmp_path, text, f"payload{number}")
    ran = here(tmp_path, *command)
    assert (ran.code, is_quiet(tmp_path)) == (2, True)
    for number, name in enumerate(FILES):
        assert re.search(rf"^(?:gatekit: )?conf/model/payload{number}\.yaml:", ran.out + ran.err, re.MULTILINE), name


@pytest.mark.parametrize("command", [["run"], ["plan"], ["audit"], ["thresholds", "recompute"]], ids=" ".join)
def test_overrides(tmp_path: Path, command: list[str]) -> None:
    """Each command refuses every payload that is typed."""
    for override in OVERRIDES:
        ran = here(tmp_path, *command, override)
        assert ran.code == 2, (override, ran.out, ran.err)
        assert is_quiet(tmp_path), override


@pytest.mark.parametrize("group", ["hw", "engine", "gate", "history", "config"])
def test_files_of_other_groups(tmp_path: Path, group: str) -> None:
    """A payload in a file of another group, or in the root file, is refused as well."""
    for text in (f"a: {TARGET}\n", f"hydra: {TARGET}\n", "# @package hydra\na: b\n", "a: !!python/name:os.system x\n"):
        file = tmp_path / "conf" / ("config.yaml" if group == "config" else f"{group}/mine.yaml")
        file.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "conf" / "hw").mkdir(exist_ok=True)
        file.write_text(text)
        chosen = [] if group == "config" else [f"{group}=mine"]
        for arguments in (["validate"], ["--config-dir", "conf", *chosen], ["plan", "--config-dir", "conf", *chosen]):
            ran = here(tmp_path, *arguments)
            assert ran.code == 2, (text, ran.out, ran.err)
            assert is_quiet(tmp_path)


def test_a_matrix(tmp_path: Path) -> None:
    """A payload in a matrix is refused by `validate` and by `plan`."""
    lay(tmp_path, MODEL)
    (tmp_path / "conf" / "matrix").mkdir()
    for value in (TARGET, "'${oc.env:HOME}'", "!!python/name:os.system x", f"'$({TOUCH})${{oc.env:HOME}}'"):
        text = f"description: d\nrows:\n  - {{model: mine, set: {{model.name: {value}}}}}\n"
        (tmp_path / "conf" / "matrix" / "m.yaml").write_text(text)
        for arguments in (["validate"], ["plan", "m", "--config-dir", "conf"]):
            ran = here(tmp_path, *arguments)
            assert ran.code == 2, (value, ran.out, ran.err)
            assert is_quiet(tmp_path)


PLUGIN = "open('PWN', 'w').close()\n"


@pytest.mark.parametrize(
    "arguments",
    [["validate"], ["--config-dir", "conf", "model=mine"], ["-m", "--config-dir", "conf", "model=mine,simulated"]],
)
def test_the_environment(tmp_path: Path, arguments: list[str]) -> None:
    """Variables that Hydra knows, and plugins that lie about, change nothing in a process of its own."""
    lay(tmp_path, FILES["callbacks"])
    (tmp_path / "hydra_plugins" / "evil").mkdir(parents=True)
    (tmp_path / "hydra_plugins" / "evil" / "__init__.py").write_text(PLUGIN)
    (tmp_path / "hydra_plugins" / "worse.py").write_text(PLUGIN)
    extra = {"HYDRA_FULL_ERROR": "1", "GATEKIT_CONF_PATH": "conf", "HYDRA_MAIN_MODULE": "evil"}
    assert gatekit(tmp_path, *arguments, extra=extra).code == 2
    assert not (tmp_path / "PWN").exists()


def test_plugins_that_lie_about(tmp_path: Path) -> None:
    """A good sweep, which needs Hydra, imports no plugin from the working directory or the path of modules."""
    (tmp_path / "hydra_plugins").mkdir()
    (tmp_path / "hydra_plugins" / "worse.py").write_text(PLUGIN)
    arguments = [sys.executable, "-m", "gatekit", "plan", "-m", "task.n=5,6"]
    path = environment({"PYTHONPATH": str(tmp_path)})
    done = subprocess.run(arguments, cwd=tmp_path, env=path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "PWN").exists()
