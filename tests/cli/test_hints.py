"""What a mistake in a config says is true, stands where it is mended, and works as it is typed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import here
from gatekit.spec.reader import parse

ROOT = Path(__file__).resolve().parents[2]
BASE = "defaults:\n  - laguna_int4\n"
OWN = "defaults:\n  - override /engine: vllm\n{more}model:\n  name: org/m\n  server_args: {args}\n  server_env: {env}\n"
MATRIX = "description: Ours.\nrows:\n  - {model: simulated, hw: cpu}\n"


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def own(*more: str, args: str = "{}", env: str = "{}") -> str:
    return OWN.format(more="".join(f"  - override /{choice}\n" for choice in more), args=args, env=env)


def validated(folder: Path, text: str, name: str = "conf/model/m.yaml") -> list[str]:
    write(folder, name, text)
    return here(folder, "validate").out.splitlines()


@pytest.mark.parametrize("group", ["gate: auto|gate: static_floor", "engine: vllm|engine: sglang"])
def test_two_choices_of_one_group(group: str, tmp_path: Path) -> None:
    """A group that is chosen twice is a mistake at the second choice, for a run as well: Hydra would take the first."""
    first, second = group.split("|")
    (line,) = validated(tmp_path, f"defaults:\n  - laguna_int4\n  - override /{first}\n  - override /{second}\n")
    name, option = second.split(": ")
    assert line.startswith(
        f"conf/model/m.yaml:4:5: group '{name}' is chosen twice, as {first.split(': ')[1]} and as {option}"
    )
    ran = here(tmp_path, "plan", "model=m", "hw=b200", "--config-dir", "conf")
    assert (ran.code, ran.err) == (2, f"gatekit: {line}\n")


@pytest.mark.parametrize(("args", "env"), [("{vlmm: [--x]}", "{}"), ("{}", "{vlmm: {A: b}}")])
def test_an_engine_that_there_is_not(args: str, env: str, tmp_path: Path) -> None:
    """Arguments and variables of an engine that no folder has are a mistake in validate, plan and run."""
    text = own("gate: auto", args=args, env=env)
    (line,) = validated(tmp_path, text)
    key = "server_args" if args != "{}" else "server_env"
    assert f": model.{key}: no engine is named 'vlmm'; did you mean 'vllm'? [unknown-engine]" in line
    for command in (("plan", "model=m", "hw=h100"), ("model=m", "engine=sim")):
        assert f"gatekit: {line}\n" == here(tmp_path, *command, "--config-dir", "conf").err
    write(tmp_path, "conf/engine/new.yaml", "defaults: [vllm]\nname: vlmm\n")
    assert validated(tmp_path, text) == []
    assert here(tmp_path, "plan", "model=m", "hw=h100", "--config-dir", "conf").code == 0


def test_the_engine_of_the_command_line_counts(tmp_path: Path) -> None:
    """What a model says of another engine of the folders stays, whichever one is asked for."""
    write(tmp_path, "conf/model/m.yaml", own("gate: auto", args="{vllm: [--x], sglang: [--y]}"))
    assert here(tmp_path, "plan", "model=m", "engine=sglang", "hw=h100", "--config-dir", "conf").code == 0


@pytest.mark.parametrize("text", ["", "defaults: [laguna_int4]\nmodel: null\n", "model: null\n", "engine: null\n"])
def test_a_model_file_without_a_model(text: str, tmp_path: Path) -> None:
    """An empty model file is a mistake that every command tells as one, and never a crash."""
    write(tmp_path, "conf/model/new.yaml", text)
    write(tmp_path, "conf/matrix/all.yaml", "description: x\nrows:\n  - {model: {tags: [simulated]}, hw: cpu}\n")
    folders = ("--config-dir", "conf")
    commands = (
        *(("plan", "all"), ("run", "--matrix", "all"), ("plan", "--list"), ("lint",), ("validate",)),
        *(("audit",), ("init", "matrix", "made", "--model", "new"), ("plan", "model=new")),
    )
    for command in commands:
        ran = here(tmp_path, *command, *folders)
        assert ran.code == 2, (command, ran.out, ran.err)
        assert "conf/model/new.yaml" in ran.out + ran.err, command
        assert "gatekit-init" not in ran.out + ran.err, command


def test_a_model_that_chooses_no_gate(tmp_path: Path) -> None:
    """What the default of a group lacks is told at the model that makes no choice, by every format."""
    (line,) = validated(tmp_path, own())
    assert line.startswith("conf/model/m.yaml: model=m chooses no gate; the default exact_binomial needs gate.observed")
    assert here(tmp_path, "validate", "--format", "github").out.startswith("::error file=conf/model/m.yaml,title=")
    (line,) = validated(tmp_path, own("gate: exact_binomial"))
    assert line.startswith("conf/model/m.yaml:3:5: gate.observed: an exact_binomial gate needs a stated accuracy")
    ran = here(tmp_path, "model=m", "gate=static_floor", "engine=sim", "--config-dir", "conf")
    assert ran.err.startswith("gatekit: override gate=static_floor: gate.floor: a static_floor gate needs a floor")


def test_what_a_shipped_base_says(tmp_path: Path) -> None:
    """A value of a shipped model that the team's own model cannot use is told at the team's file."""
    (line,) = validated(tmp_path, BASE + "protocol:\n  max_tokens: 8192\n")
    assert line.startswith("conf/model/m.yaml: engine.max_model_len: a context of 4096 leaves no room")
    assert "(set by the shipped model=laguna_int4)" in line


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("engine:\n  max_model_len: 4_096\n", "write 4096"),
        ("engine:\n  max_model_len: 0o10000\n", "write 4096"),
        ("engine:\n  enforce_eager: on\n", "write true"),
        ("engine:\n  enforce_eager: No\n", "write false"),
        ("engine:\n  startup_timeout_s: 12:30\n", "write 750"),
        ("gate:\n  beta: 1e-1\n", "write 0.1"),
        ("engine:\n  max_model_len: on\n", "expected a whole number"),
        ("model:\n  unpinned: on\n", "quote this value"),
        ("engine:\n  kv_cache_dtype: 1_0\n", "quote this value"),
    ],
)
def test_the_hint_for_an_ambiguous_value_helps(written: str, hint: str, tmp_path: Path) -> None:
    """A number or truth value is to be written plainly, and only a text to be quoted; what is said is accepted."""
    lines = validated(tmp_path, BASE + written)
    assert [line.split("; ")[-1] for line in lines] == [f"{hint} [ambiguous-value]"]
    value = hint.removeprefix("write ") if hint.startswith("write ") else None
    if value is not None:
        head, _, _ = written.rpartition(": ")
        assert validated(tmp_path, f"{BASE}{head}: {value}\n") == []


def test_the_hint_in_a_group_file_and_in_a_matrix(tmp_path: Path) -> None:
    """The type is known in every kind of file, also where a row sets a value."""
    write(tmp_path, "conf/hw/x.yaml", "name: x\nvendor: nvidia\ncount: 0b1\n")
    write(tmp_path, "conf/matrix/x.yaml", MATRIX.replace("cpu", "cpu, set: {task.n: 1_00}"))
    assert re.findall(r"write \w+", here(tmp_path, "validate").out) == ["write 1", "write 100"]


def test_items_that_cannot_be_read_are_no_twins(tmp_path: Path) -> None:
    """Two ambiguous items are two mistakes, and items that stand twice are still one."""
    lines = validated(tmp_path, BASE + "model:\n  tags: [on, off]\n")
    assert [line.split(": ")[0] for line in lines] == ["conf/model/m.yaml:4:10", "conf/model/m.yaml:4:14"]
    (line,) = validated(tmp_path, BASE + "model:\n  tags: [a, a]\n")
    assert "non-unique" in line


def test_an_architecture_that_is_not_stated(tmp_path: Path) -> None:
    """A machine with GPUs that states no architecture is not called one without a GPU."""
    write(tmp_path, "conf/hw/b200.yaml", "name: b200\nvendor: nvidia\ncount: 1\n")
    ran = here(tmp_path, "plan", "model=laguna_int4", "hw=b200", "--config-dir", "conf")
    assert "hw=b200 states no architecture; state hw.architecture, such as blackwell" in ran.err
    assert "hw=cpu is no GPU" in here(tmp_path, "plan", "model=laguna_int4", "hw=cpu").err


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("gate:\n  floor: 88%\n", "thresholds are fractions between 0 and 1; did you mean 0.88?"),
        ("gate:\n  alpha: 0.1%\n", "fractions between 0 and 1; did you mean 0.001?"),
        ("gate:\n  floor: 90%\n", "did you mean 0.90?"),
        ("engine:\n  env: {A: 5}\n", "expected a text, got 5; quote it"),
        ("engine:\n  env: {A: 123456789012}\n", "expected a text, got a value; quote it"),
        ("model:\n  quantization: FP8\n", "'FP8' does not look right; write fp8"),
        ("hw:\n  vendor: NVIDIA\n", "did you mean 'nvidia'?"),
    ],
)
def test_what_was_meant(written: str, expected: str, tmp_path: Path) -> None:
    """A percentage, a number for a text and capitals are answered with what is accepted."""
    assert any(expected in line for line in validated(tmp_path, BASE + written))


def test_a_number_for_a_description(tmp_path: Path) -> None:
    """A short number is shown: it is no secret."""
    (line,) = validated(tmp_path, MATRIX.replace("Ours.", "5"), "conf/matrix/m.yaml")
    assert "description: expected a text, got 5; quote it" in line


def test_a_block_that_stands_twice(tmp_path: Path) -> None:
    """Of a repeated block its own key is told, and not those in it, which stand once in each."""
    (line,) = validated(tmp_path, BASE + "model:\n  name: a\n  server_args: {}\nmodel:\n  name: b\n  server_args: {}\n")
    assert line == "conf/model/m.yaml:6:1: key 'model' stands twice, on lines 3 and 6 [duplicate-key]"
    lines = validated(tmp_path, BASE + "model:\n  name: a\n  name: b\n  server_args: {}\nmodel: {name: c}\n")
    assert [line.split(", on ")[1] for line in lines] == [
        "lines 4 and 5 [duplicate-key]",
        "lines 3 and 7 [duplicate-key]",
    ]


def test_every_unknown_option_at_once(tmp_path: Path) -> None:
    """A run names all options that are not there, those of a model file as those of the command line."""
    typed = here(tmp_path, "engine=vlm", "hw=h300").err
    assert "engine=vlm: no such engine" in typed
    assert "hw=h300: no such hw" in typed
    text = (
        "defaults:\n  - override /engine: vlm\n  - override /protocol: chatty\n" + own("gate: auto").split("\n", 2)[2]
    )
    assert len(validated(tmp_path, text)) == 2
    ran = here(tmp_path, "plan", "model=m", "--config-dir", "conf")
    assert re.findall(r"conf/model/m.yaml:(\d)", ran.err) == ["2", "3"]


@pytest.mark.parametrize(
    "command", [("plan", "nightly"), ("plan", "model=mine"), ("run", "--matrix", "nightly"), ("model=mine",)]
)
@pytest.mark.parametrize("by_variable", [False, True])
def test_a_wrong_folder_is_told_with_what_is_missing(
    command: tuple[str, ...], by_variable: bool, tmp_path: Path
) -> None:
    """Where a matrix or model is not there, the folder that brings nothing is named, and the one beneath it."""
    write(tmp_path, "team/conf/matrix/nightly.yaml", MATRIX)
    if by_variable:
        ran = here(tmp_path, *command, extra={"GATEKIT_CONF_PATH": "team"})
    else:
        ran = here(tmp_path, *command, "--config-dir", "team")
    assert ran.code == 2
    told = "gatekit: config folder 'team' holds no config group; did you mean team/conf? [empty-config-dir]\n"
    assert ran.err.count(told) == 1


@pytest.mark.parametrize("command", [("validate",), ("lint",), ("lint", "--format", "github")])
@pytest.mark.parametrize("by_variable", [False, True])
def test_a_misplaced_folder_does_not_stay_green(command: tuple[str, ...], by_variable: bool, tmp_path: Path) -> None:
    """Commands that look at all configs take a folder without a group for a mistake, told once."""
    write(tmp_path, "team/conf/matrix/nightly.yaml", MATRIX)
    if by_variable:
        ran = here(tmp_path, *command, extra={"GATEKIT_CONF_PATH": "team"})
    else:
        ran = here(tmp_path, *command, "--config-dir", "team")
    assert ran.code == 2
    assert (ran.out + ran.err).count("holds no config group") == 1


@pytest.mark.parametrize("command", [("nightly",), ("run", "nightly"), ("plan", "matrix=nightly", "model=simulated")])
def test_a_printed_command_finds_the_folder(command: tuple[str, ...], tmp_path: Path) -> None:
    """The command of a hint has the folders that were typed, and runs as it is printed."""
    write(tmp_path, "ours/matrix/nightly.yaml", MATRIX)
    said = here(tmp_path, *command, "--config-dir", "ours").err
    (printed,) = re.findall(r"`gatekit (run --matrix [^`]*)`", said)
    assert printed == "run --matrix nightly --config-dir ours"
    assert here(tmp_path, *printed.split(), "task.n=20", "engine.latency.median_s=0").code in (0, 4)


def test_the_documented_model_is_what_init_writes(tmp_path: Path) -> None:
    """measured_under in docs/configuration.md is what `init model --observed` writes for the same model."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    block = text.split("`ours/model/qwen3_8b.yaml`:\n\n")[1].split("\n\nand run it")[0]
    documented = "\n".join(line.removeprefix("    ") for line in block.splitlines()) + "\n"
    gate = parse(documented, Path("x")).data["gate"]
    made = here(
        tmp_path, "init", "model", "q", "--name", "Qwen/Qwen3-8B", "--observed", "1161/1319", "--gate", "exact_binomial"
    )
    assert made.code == 0, made.err
    written = parse((tmp_path / "conf/model/q.yaml").read_text(), Path("x")).data["gate"]
    assert (written["measured_under"], written["observed"]) == (gate["measured_under"], gate["observed"])
    assert validated(tmp_path, documented) == []


@pytest.mark.parametrize(("group", "name"), [("hw", "h200x8"), ("engine", "sglang"), ("protocol", "completions_0shot")])
def test_init_of_a_shipped_name_starts_from_it(group: str, name: str, tmp_path: Path) -> None:
    """A file that takes the place of a shipped one says what that says, until somebody changes it."""
    assert here(tmp_path, "init", group, name).code == 0
    made = parse((tmp_path / f"conf/{group}/{name}.yaml").read_text(), Path("x")).data
    shipped = parse((ROOT / f"conf/{group}/{name}.yaml").read_text(), Path("x")).data
    assert {key: made.get(key) for key in shipped} == dict(shipped)
