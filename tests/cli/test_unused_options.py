"""Options that no spec takes: what their own files say is held to every rule that needs nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import here

ROOT = Path(__file__).resolve().parents[2]
ENGINE = "name: x\nkind: launch\ncommand: [serve, '{model}']\nflags: {host: --host, port: --port}\nargs: []\nenv: {}\n"
PROTOCOL = (ROOT / "conf/protocol/completions_5shot.yaml").read_text()
GATE = "name: x\nmethod: static_floor\nfloor: 0.9\n"
PASSWORD = "hunter2hunter2"
CASES = {
    "history/x.yaml": {
        "secret-in-config": f"name: x\ndir: h\nurl: postgresql://u:{PASSWORD}@h/db\n",
        "bad-history-url": "name: x\ndir: h\nurl: sqlite:///x\n",
    },
    "engine/x.yaml": {
        "shell-command": ENGINE.replace("[serve, '{model}']", "[bash, -c, 'serve {model}']"),
        "managed-flag": ENGINE.replace("args: []", "args: [--port, '80']"),
        "secret-in-config": ENGINE.replace("env: {}", f"env: {{HF_TOKEN: {PASSWORD}}}"),
        "base-url": f"name: x\nkind: attach\nbase_url: http://u:{PASSWORD}@h:1\nargs: []\nenv: {{}}\n",
        "launch-and-attach": ENGINE + "base_url: http://127.0.0.1:1\n",
    },
    "protocol/x.yaml": {
        "template-place": PROTOCOL.replace("question_template", "#\nquestion_template").replace(
            "{question}", "the question"
        ),
        "shots-overlap": PROTOCOL + "shots_source: test_head\nshots_overlap: refuse\n",
    },
    "hw/x.yaml": {"gpus-not-counted": "name: x\nvendor: nvidia\ncount: 0\n"},
    "gate/x.yaml": {
        "two-thresholds": GATE.replace("static_floor", "auto") + "alpha: 0.1\nsigmas: 3\n",
        "out-of-range": GATE + "observed: {correct: 300, n: 200}\n",
        "inert-key": GATE + "alpha: 0.1\n",
    },
}


def write(folder: Path, name: str, text: str) -> None:
    path = folder / "conf" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(("name", "identity"), [(name, each) for name, cases in CASES.items() for each in cases])
def test_a_rule_of_one_section(name: str, identity: str, tmp_path: Path) -> None:
    """Each is told at its line in the option's own file, and no secret is repeated."""
    text = "\n".join(dict.fromkeys(CASES[name][identity].splitlines())) + "\n"
    if name.startswith("protocol"):
        text = _last_wins(CASES[name][identity])
    write(tmp_path, name, text)
    ran = here(tmp_path, "validate")
    assert ran.code == 2
    lines = ran.out.splitlines()
    assert {line.rsplit("[", 1)[1] for line in lines} == {f"{identity}]"}, lines
    assert all(line.startswith(f"conf/{name}:") for line in lines)
    assert PASSWORD not in ran.out + ran.err


def _last_wins(text: str) -> str:
    """The lines with those of an earlier key of the same name left out."""
    kept: dict[str, str] = {}
    for line in text.splitlines():
        key = line.split(":")[0]
        kept.pop(key, None)
        kept[key] = line
    return "\n".join(kept.values()) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_the_single_file_as_well(name: str, tmp_path: Path) -> None:
    """As pre-commit passes it, the file is held to the same rules."""
    identity, text = next(iter(CASES[name].items()))
    write(tmp_path, name, text)
    ran = here(tmp_path, "validate", f"conf/{name}")
    assert ran.code == 2
    assert f"[{identity}]" in ran.out


def test_what_a_model_may_still_give_is_not_missed(tmp_path: Path) -> None:
    """Options that a model or the command line completes are in order."""
    write(tmp_path, "gate/a.yaml", "name: a\nmethod: static_floor\ndelta: 0.02\n")
    write(tmp_path, "gate/b.yaml", "name: b\nmethod: exact_binomial\nbudget: {nights: 365, gates: 1}\n")
    write(tmp_path, "engine/c.yaml", "name: c\nkind: attach\nargs: []\nenv: {}\n")
    write(tmp_path, "engine/d.yaml", "defaults: [llamacpp]\nname: d\n")
    write(tmp_path, "task/e.yaml", "defaults: [gsm8k]\nname: e\n")
    ran = here(tmp_path, "validate")
    assert (ran.code, ran.out) == (0, "")


def test_the_options_own_values_are_looked_at(tmp_path: Path) -> None:
    """A value that the model of the default spec sets otherwise hides nothing in the option."""
    write(tmp_path, "gate/x.yaml", "name: x\nmethod: exact_binomial\nobserved: {correct: 3, n: 2}\nalpha: 0.01\n")
    assert "conf/gate/x.yaml:3:21: gate.observed.correct: 3 correct of 2" in here(tmp_path, "validate").out


def test_a_base_is_held_to_the_rules_too(tmp_path: Path) -> None:
    """A file that others build on may lack keys, and breaks no rule by what it says."""
    write(tmp_path, "engine/base.yaml", "args: [--port, '80']\n")
    write(tmp_path, "engine/x.yaml", "defaults: [base]\n" + ENGINE)
    lines = here(tmp_path, "validate").out.splitlines()
    assert [line.rsplit(" ", 1)[1] for line in lines] == ["[managed-flag]"]
    assert lines[0].startswith("conf/engine/base.yaml:1:")
