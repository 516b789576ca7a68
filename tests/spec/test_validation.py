"""Everything wrong with config files at once, each mistake once, at its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from config_files import write
from gatekit.resources import conf_dir
from gatekit.spec.library import Library
from gatekit.spec.targets import targets
from gatekit.spec.validation import Validated, in_order, validate


def validated(folder: Path, files: dict[str, str]) -> Validated:
    write(folder, files)
    named = targets([folder])
    (chosen,) = named.files.values()
    done = validate(Library([folder, conf_dir()]), chosen)
    return replace(done, problems=in_order([*named.problems, *done.problems]))


def lines(folder: Path, files: dict[str, str]) -> list[str]:
    return [problem.line().replace(f"{folder}/", "") for problem in validated(folder, files).problems]


def starts(found: list[str]) -> list[str]:
    """Place and id of each line."""
    return [f"{line.split(': ')[0]} {line.rpartition('[')[2].rstrip(']')}" for line in found]


def place(line: str) -> str:
    return line.rpartition(" ")[0]


FIVE = """\
defaults:
  - laguna_int4
model:
  name: ours/model
  revision: 0123
engine:
  tensor_paralel_size: 2
  max_model_len: "4096"
gate:
  floor: 90
protocol:
  shots: !!int 5
"""


def test_five_different_mistakes(tmp_path: Path) -> None:
    """A file with five different mistakes gives five lines, each with the right line and column, in one run."""
    assert lines(tmp_path, {"model/foo.yaml": FIVE}) == [
        "model/foo.yaml:5:13: 0123 is read differently by YAML 1.1 and 1.2; quote this value [ambiguous-value]",
        "model/foo.yaml:7:3: engine: unknown key 'tensor_paralel_size'; did you mean 'tensor_parallel_size'?"
        " [unknown-key]",
        "model/foo.yaml:8:18: engine.max_model_len: expected a whole number or null, got '4096';"
        " write it without quotes [wrong-type]",
        "model/foo.yaml:10:10: gate.floor: 90 is out of range; thresholds are fractions between 0 and 1;"
        " did you mean 0.90? [out-of-range]",
        "model/foo.yaml:12:10: tag 'tag:yaml.org,2002:int' is not allowed [yaml-tag]",
    ]


def test_reader_shape_and_rules_speak_together(tmp_path: Path) -> None:
    """What the reader refuses, what a schema forbids, what is missing and what a rule forbids are told in one run."""
    text = """\
defaults:
  - override /engine: vllm
  - override /gate: exact_binomial
model:
  name: ours
  quantization: on
  trust_remote_code: true
  server_env: {}
engine:
  max_model_len: 100
  args: [--port, "80"]
  acuracy: 1
protocol:
  shots: .nan
"""
    found = starts(lines(tmp_path, {"model/foo.yaml": text}))
    assert found == [
        "model/foo.yaml:3:5 missing-key",  # gate.observed, of the gate that is chosen here
        "model/foo.yaml:5:3 missing-key",  # model.server_args
        "model/foo.yaml:6:17 ambiguous-value",
        "model/foo.yaml:7:22 remote-code-not-allowed",
        "model/foo.yaml:7:22 remote-code-unpinned",
        "model/foo.yaml:10:18 context-too-short",
        "model/foo.yaml:11:10 managed-flag",
        "model/foo.yaml:12:3 unknown-key",
        "model/foo.yaml:14:10 not-finite",
    ]


def test_a_rule_does_not_follow_from_another_mistake(tmp_path: Path) -> None:
    """A value that is wrong already makes no rule complain: nobody is told to mend what is not broken."""
    text = """\
defaults:
  - laguna_int4
model:
  unpinned: null
  revision: main
engine:
  max_model_len: 256
protocol:
  max_tokens: many
gate:
  method: static_flor
  floor: null
"""
    assert starts(lines(tmp_path, {"model/foo.yaml": text})) == [
        "model/foo.yaml:5:13 bad-form",
        "model/foo.yaml:9:15 wrong-type",
        "model/foo.yaml:11:11 unknown-choice",
    ]


def test_no_mistake_is_told_twice(tmp_path: Path) -> None:
    """A base with mistakes, and the specs and matrices that build on it, tell each of them once."""
    found = lines(
        tmp_path,
        {
            "model/base.yaml": "defaults: [laguna_int4]\nengine: {acuracy: 1}\ngate: {floor: 2}\n"
            "model: {unpinned: null}\n",
            "model/one.yaml": "defaults: [base]\n",
            "model/two.yaml": "defaults: [base]\n",
            "hw/mine.yaml": "name: on\nvendor: nvidia\n",
            "matrix/all.yaml": "description: all\nrows:\n  - {model: [one, two], hw: [b200, b200x2]}\n",
        },
    )
    assert len(found) == len(set(found))
    wanted = [
        "hw/mine.yaml:1:7 ambiguous-value",
        "model/base.yaml:2:10 unknown-key",
        "model/base.yaml:3:15 out-of-range",
    ]
    assert [line for line in starts(found) if line in wanted] == wanted
    assert sum("unknown-key" in line for line in found) == sum("out-of-range" in line for line in found) == 1


def test_a_broken_file_hides_no_other(tmp_path: Path) -> None:
    """Files that are no YAML, no text and not readable leave the mistakes of all others visible."""
    write(tmp_path, {"model/broken.yaml": "a: [1\n", "engine/vllm.yaml": "name: 'open\n"})
    (tmp_path / "model" / "latin.yaml").write_bytes(b"a: caf\xe9\n")
    (tmp_path / "model" / "gone.yaml").symlink_to(tmp_path / "nowhere")
    found = lines(tmp_path, {"model/mine.yaml": "defaults: [laguna_int4]\ngate: {floor: 2}\nmodle: {}\n"})
    assert starts(found) == [
        "engine/vllm.yaml:2:1 yaml-syntax",
        "model/broken.yaml:2:1 yaml-syntax",
        "model/gone.yaml unreadable-file",
        "model/latin.yaml not-utf-8",
        "model/mine.yaml:2:15 out-of-range",
        "model/mine.yaml:3:1 unknown-key",
    ]


def test_after_a_syntax_error_what_stood_before_is_told(tmp_path: Path) -> None:
    """Only what follows a syntax error stays unknown."""
    found = lines(tmp_path, {"model/mine.yaml": "a: on\nb: !x c\nc: [1\nd: on\n"})
    assert starts(found) == [
        "model/mine.yaml:1:4 ambiguous-value",
        "model/mine.yaml:2:4 yaml-tag",
        "model/mine.yaml:4:2 yaml-syntax",
    ]


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("hw/new.yaml", "name: new\n", "hw/new.yaml missing-key"),
        ("engine/new.yaml", "name: new\nkind: launch\n", "engine/new.yaml missing-key"),
        ("gate/new.yaml", "name: new\nmethod: fancy\n", "gate/new.yaml:2:9 unknown-choice"),
        ("gate/new.yaml", "defaults: [auto]\nname: new\nalhpa: 1\n", "gate/new.yaml:3:1 unknown-key"),
        ("history/new.yaml", "name: new\ndir: 7\n", "history/new.yaml:2:6 wrong-type"),
        ("hw/new.yaml", "defaults: [nope]\nname: new\n", "hw/new.yaml:1:12 unknown-option"),
        ("config.yaml", "client: {concurrency: 0}\n", "config.yaml:1:23 out-of-range"),
        ("matrix/new.yaml", "description: d\nrows: [{model: nope}]\n", "matrix/new.yaml:2:16 unknown-option"),
        ("matrix/new.yaml", "description: on\nrows: []\n", "matrix/new.yaml:1:14 ambiguous-value"),
    ],
)
def test_files_that_no_model_takes(tmp_path: Path, name: str, text: str, wanted: str) -> None:
    """An option is checked whether or not a spec takes it yet, at its own file."""
    write(tmp_path, {"hw/other.yaml": "name: other\nvendor: none\n"})
    assert wanted in starts(lines(tmp_path, {name: text}))


def test_a_part_of_a_spec_may_be_partial(tmp_path: Path) -> None:
    """A file that others build on needs nothing that they bring, and a model file nothing that its base brings."""
    done = validated(
        tmp_path,
        {
            "gate/base.yaml": "alpha: 0.01\n",
            "gate/mine.yaml": "defaults: [base]\nname: mine\nmethod: auto\n",
            "model/mine.yaml": "defaults:\n  - laguna_int4\n  - override /gate: mine\ngate: {observed: {n: 7}}\n"
            "engine: {startup_timeout_s: 5}\n",
            "model/other.yaml": "defaults: [mine]\ngate: {observed: {correct: 6}}\n",
        },
    )
    told = [(problem.reason, problem.what) for problem in done.problems]
    assert told == [("missing-key", "gate.observed: missing key 'correct'")], "mine is composed without other"


def test_a_reference_may_stand_for_anything(tmp_path: Path) -> None:
    """A reference in place of a number is judged by what it becomes."""
    text = "defaults: [laguna_int4]\nengine: {seed: '${protocol.seed}'}\ntask: {n: '${model.name}'}\n"
    assert starts(lines(tmp_path, {"model/mine.yaml": text})) == ["model/mine.yaml:3:11 wrong-type"]


def test_a_model_is_checked_on_a_machine_that_fits(tmp_path: Path) -> None:
    """What only the default machine lacks is no mistake; what no machine has is one, beside all others."""
    files = {
        "model/fits.yaml": "defaults: [laguna_int4]\nengine: {tensor_parallel_size: 8}\n",
        "model/none.yaml": "defaults: [laguna_int4]\nmodel: {architectures: [tpu]}\ngate: {floor: 2}\n",
    }
    assert starts(lines(tmp_path, files)) == [
        "model/none.yaml architecture-mismatch",
        "model/none.yaml:3:15 out-of-range",
    ]


def test_names_that_nobody_can_type(tmp_path: Path) -> None:
    """Files that are never read, or can never be chosen, are named."""
    good = "name: x\nvendor: none\n"
    names = ["hw/x.yml", "hw/a b.yaml", "hw/7.yaml", "hw/null.yaml", "hw/a.b.yaml", "modle/x.yaml"]
    found = starts(lines(tmp_path, {"hw/ok-1.yaml": good, **dict.fromkeys(names, good)}))
    assert sorted(map(place, found)) == sorted(names)
    assert {line.rpartition(" ")[2] for line in found} == {"bad-file-name", "no-group"}


def test_a_shadowed_file_is_checked_by_itself(tmp_path: Path) -> None:
    """A file behind another one of its name is checked for its shape, and makes no spec."""
    first, second = tmp_path / "x", tmp_path / "y"
    write(first, {"model/mine.yaml": "defaults: [simulated]\n"})
    write(second, {"model/mine.yaml": "defaults: [nope]\nfoo: on\n"})
    chosen = [file for files in targets([first, second]).files.values() for file in files]
    done = validate(Library([first, second, conf_dir()]), chosen)
    assert [problem.reason for problem in done.problems] == ["unknown-key", "ambiguous-value"]


def test_the_shipped_configs_have_no_mistake() -> None:
    """Every shipped file, spec and matrix is in order."""
    (chosen,) = targets([conf_dir()]).files.values()
    done = validate(Library([conf_dir()]), chosen)
    assert done.problems == ()
    assert done.files == len(list(conf_dir().rglob("*.yaml"))) - len(list(conf_dir().rglob("*.lock.yaml")))
    assert done.specs >= 6
    assert done.matrices >= 3
