"""Matrices: which specs a file stands for, and that nothing in it is lost in silence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gatekit.errors import ConfigError
from gatekit.resources import conf_dir, schema
from gatekit.spec.library import Library
from gatekit.spec.matrix.overrides import overridden
from gatekit.spec.matrix.plan import Plan, matrices, plan
from gatekit.spec.schema import SECTIONS

Planning = Callable[[str], Plan]
HEAD = "description: a test\n"


@pytest.fixture
def planning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planning:
    """The plan of a matrix with this text, among the shipped configs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "matrix").mkdir()

    def of(text: str) -> Plan:
        (tmp_path / "matrix" / "m.yaml").write_text(text)
        return plan("m", library(tmp_path))

    return of


def library(*folders: Path) -> Library:
    """The shipped configs behind these folders."""
    return Library((*folders, conf_dir()))


def asked(found: Plan) -> list[str]:
    """The overrides of each planned spec, as one text."""
    return [" ".join(one.overrides) for one in found.planned]


def told(found: Plan) -> list[tuple[str, str]]:
    """Line and column, and reason, of every problem."""
    return [(":".join(problem.where.split(":")[1:]), problem.reason) for problem in found.problems]


def test_the_shipped_matrices() -> None:
    """The seed matrices hold the specs that the field runs, and have no problem."""
    found = {name: plan(name, library()) for name in matrices(library())}
    assert not [problem for one in found.values() for problem in one.problems]
    names = {matrix: [one.name for one in plan.planned] for matrix, plan in found.items()}
    assert names["small"] == ["laguna_int4-b200-vllm", "laguna_nvfp4-b200-vllm"]
    assert names["small_distributed"] == ["diffusiongemma_fp8-b200x2-vllm"]
    assert names["blackwell"] == [
        *names["small"],
        "diffusiongemma_fp8-b200x2-vllm",
        "inkling_small_nvfp4-b200x4-sglang",
    ]
    assert [one.reason for one in found["blackwell"].left_out] == ["excluded", "too-few-gpus"]


def test_the_overrides_of_a_row_are_that_row() -> None:
    """What `gatekit run` makes of a row's overrides is the row's spec, its name included."""
    for name in matrices(library()):
        for one in plan(name, library()).planned:
            assert library().resolve(one.overrides) == one.spec


def test_a_row_is_the_product_of_its_choices(planning: Planning) -> None:
    """Lists multiply, in the order of the groups; values of `set` go to every combination."""
    text = "rows: [{model: [simulated, laguna_int4], engine: sim, task: [gsm8k, gsm8k_synth], set: {task.n: 7}}]"
    models = ("simulated", "laguna_int4")
    wanted = [f"model={model} engine=sim task={task} task.n=7" for model in models for task in ("gsm8k", "gsm8k_synth")]
    assert asked(planning(HEAD + text)) == wanted


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("{architecture: blackwell, count: 2}", {"b200x2"}),
        ("{architecture: blackwell, min_count: 2}", {"b200x2", "b200x4", "b200x8"}),
        ("{vendor: amd, except: [mi300x]}", {"mi325x", "mi355x"}),
        ("{gpu: L4}", {"l4", "l4x2"}),
        ("{min_memory_gib: 178, vendor: nvidia, count: 1}", {"b200"}),
    ],
)
def test_machines_by_what_they_are(planning: Planning, selector: str, wanted: set[str]) -> None:
    """A selector takes the machines that match all its keys."""
    found = planning(f"{HEAD}rows: [{{model: laguna_int4, engine: sim, hw: {selector}}}]")
    assert not found.problems
    assert {one.spec.hw.name for one in found.planned} == wanted


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("{tags: [small]}", {"laguna_int4", "laguna_nvfp4"}),
        ("{tags: [laguna, superseded]}", {"laguna_nvfp4_completions"}),
        ("{quantization: [int4, fp8]}", {"laguna_int4", "diffusiongemma_fp8"}),
        ("{quantization: nvfp4, except: [inkling_small_nvfp4]}", {"laguna_nvfp4", "laguna_nvfp4_completions"}),
    ],
)
def test_models_by_what_they_are(planning: Planning, selector: str, wanted: set[str]) -> None:
    """All tags, any of the number formats, without the exceptions."""
    found = planning(f"{HEAD}rows: [{{model: {selector}, engine: sim, hw: cpu}}]")
    assert not found.problems
    assert {one.overrides[0].removeprefix("model=") for one in found.planned} == wanted


def test_a_selector_leaves_out_what_the_machine_cannot_do(planning: Planning) -> None:
    """What a selector brings and the machine refuses is left out, with the rule's own reason."""
    found = planning(f"{HEAD}rows: [{{model: laguna_nvfp4, hw: {{vendor: nvidia, count: 1}}}}]")
    assert not found.problems
    assert asked(found) == ["model=laguna_nvfp4 hw=b200"]
    assert {one.reason for one in found.left_out} == {"fp4-needs-blackwell"}
    assert len(found.left_out) == 4


def test_a_name_that_breaks_a_rule_is_a_problem(planning: Planning) -> None:
    """Who names model and machine meant it: it is no exit 0 without that spec."""
    found = planning(f"{HEAD}rows:\n  - model: laguna_int4\n    hw: [b200, h100]\n")
    assert told(found) == [("4:16", "architecture-mismatch")]
    assert "model=laguna_int4 hw=h100" in found.problems[0].what


def test_exclusions_and_inclusions(planning: Planning) -> None:
    """An exclusion drops what matches all its keys, also those that the model chose; inclusions come after it."""
    text = """\
rows:
  - {model: [laguna_int4, laguna_nvfp4], hw: [b200, b200x2]}
exclude:
  - {model: laguna_nvfp4, hw: {min_count: 2}, engine: vllm, because: it fits one}
include:
  - {model: laguna_nvfp4, hw: b200x2, set: {task.n: 200}}
"""
    found = planning(HEAD + text)
    assert not found.problems
    assert asked(found)[-1] == "model=laguna_nvfp4 hw=b200x2 task.n=200"
    assert len(found.planned) == 4
    (dropped,) = found.left_out
    assert (dropped.overrides, dropped.what) == (("model=laguna_nvfp4", "hw=b200x2"), "it fits one")


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("rows: []", [("2:7", "empty-matrix")]),
        ("rows: [{model: lagna_int4}]", [("2:16", "unknown-option")]),
        ("rows: [{model: ../model/simulated}]", [("2:16", "bad-form")]),
        ("rows: [{modl: simulated}]", [("2:8", "missing-key"), ("2:9", "unknown-key")]),
        ("rows: [{model: {tags: [smal]}, engine: sim}]", [("2:16", "selector-matches-nothing")]),
        ("rows: [{model: {tags: [small], except: [simulated]}, hw: b200}]", [("2:41", "except-drops-nothing")]),
        ("rows: [{model: simulated, set: {tsk.n: 3}}]", [("2:33", "unknown-key")]),
        ("rows: [{model: simulated, set: {task.nn: 3}}]", [("2:42", "unknown-key")]),
        ("rows: [{model: simulated, set: {task.n: 0}}]", [("2:41", "out-of-range")]),
        ("rows: [{model: simulated, set: {hw: cpu}}]", [("2:33", "unknown-key")]),
        ("rows: [{model: simulated, set: {model.revision: '${model.name}'}}]", [("2:49", "reference")]),
        ("rows: [{model: simulated}, {model: [simulated]}]", [("2:28", "duplicate-spec")]),
        ("rows: [{model: simulated}, {model: simulated, hw: cpu}]", [("2:28", "duplicate-spec")]),
        (
            "rows: [{model: simulated}]\nexclude: [{model: laguna_int4, because: why}]",
            [("3:11", "exclude-drops-nothing")],
        ),
        ("rows: [{model: simulated}]\nexclude: [{because: why}]", [("3:11", "bad-value")]),
        ("rows: [{model: simulated}]\nexclude: [{hw: cpu}]", [("3:11", "missing-key")]),
        ("rows: [{model: simulated}]\nexclude: [{hw: cpu, because: why}]", [("2:8", "row-is-empty")]),
        ("rows: [{model: simulated}]\ninclude: [{model: [simulated]}]", [("3:19", "wrong-type")]),
        ("rows: [{model: laguna_nvfp4, hw: {architecture: hopper, count: 1}}]", [("2:8", "row-is-empty")]),
        ("rows: [{model: [simulated, simulated]}]", [("2:16", "bad-value")]),
        ("rows: [{model: simulated, engine: {}}]", [("2:35", "wrong-type")]),
        ("rows: simulated", [("2:7", "wrong-type")]),
    ],
)
def test_nothing_is_lost_in_silence(planning: Planning, text: str, problems: list[tuple[str, str]]) -> None:
    """Whatever in a matrix does nothing, or nothing that can be done, is a problem at its place."""
    assert sorted(told(planning(HEAD + text))) == sorted(problems)


def test_all_problems_at_once(planning: Planning) -> None:
    """Mistakes in different rows, and of different kinds, are told together, in the order of the file."""
    text = """\
rows:
  - {model: lagna_int4}
  - {model: simulated, hardware: cpu}
  - {model: simulated, set: {task.n: 0, tsk.n: 1, gate.alpha: 2}}
  - {model: laguna_int4, hw: h100}
exclude:
  - {model: nope, because: why}
"""
    found = told(planning(HEAD + text))
    assert [line.partition(":")[0] for line, _ in found] == ["3", "4", "5", "5", "5", "6", "8"]


def test_hints(planning: Planning) -> None:
    """A misspelled model, tag, key and architecture come with what was meant."""
    text = """\
rows:
  - {model: lagna_int4}
  - {model: {tags: [smal]}, hw: {architecture: blackwel}}
  - {modell: simulated}
"""
    hints = " ".join(problem.hint for problem in planning(HEAD + text).problems)
    for meant in ("laguna_int4", "small", "blackwell", "model"):
        assert f"did you mean {meant!r}?" in hints


def test_a_broken_file_is_no_match_in_silence(planning: Planning, tmp_path: Path) -> None:
    """A machine whose file is broken might match a selector: nobody can tell, so it is a problem."""
    (tmp_path / "hw").mkdir()
    (tmp_path / "hw" / "b300.yaml").write_text("name: b300\nvendor: nvidia\narchitectre: blackwell\ncount: 1\n")
    found = planning(f"{HEAD}rows: [{{model: laguna_int4, hw: {{architecture: blackwell, count: 1}}}}]")
    assert [(problem.where, problem.reason) for problem in found.problems] == [("hw/b300.yaml:3:1", "unknown-key")]


def test_a_broken_model_is_told_once(planning: Planning, tmp_path: Path) -> None:
    """A mistake in a model file is one line with the row that asks for it, not one for every combination."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "ours.yaml").write_text("defaults: [simulated]\nmodel: {quantisation: fp8}\n")
    (problem,) = planning(f"{HEAD}rows: [{{model: ours, hw: [cpu, b200, h100]}}]").problems
    assert problem.where == "model/ours.yaml:2:9"
    assert "asked for at matrix/m.yaml:2:8" in problem.what


def test_names_are_unique(planning: Planning) -> None:
    """Where rows share a spec's name, what sets each apart follows it; long and private values are not repeated."""
    text = """\
rows:
  - {model: simulated, set: {task.n: 100}}
  - {model: simulated, set: {task.n: 200}}
  - {model: simulated, set: {engine.args: [a], protocol.system_prompt: You count.}}
  - {model: simulated, set: {engine.args: [b], protocol.system_prompt: You count.}}
  - {model: laguna_int4, engine: sim}
"""
    found = planning(HEAD + text)
    assert not found.problems
    assert [one.name for one in found.planned] == [
        "simulated-cpu-sim[task.n=100]",
        "simulated-cpu-sim[task.n=200]",
        "simulated-cpu-sim[engine.args=...,protocol.system_prompt=...]",
        "simulated-cpu-sim[engine.args=...,protocol.system_prompt=...]#2",
        "laguna_int4-cpu-sim",
    ]


def test_a_private_value_is_never_told(planning: Planning) -> None:
    """What a matrix sets where secrets go astray appears in no problem, whatever is wrong with it."""
    values = ("{engine.args: s3cret}", "{engine.env: {A: '${s3cret}'}}", "{engine.base_url: s3cret}")
    for value in (*values, "{model.server_args.vllm: [{s3cret: 1}]}", '{engine.args: ["s3cret\\n"]}'):
        found = planning(f"{HEAD}rows: [{{model: simulated, set: {value}}}]")
        assert found.problems
        assert "s3cret" not in " ".join(problem.line() for problem in found.problems)


def test_a_product_is_bounded(planning: Planning) -> None:
    """Far more combinations than can be run are refused before any is made."""
    machines = ", ".join(Library((conf_dir(),)).options("hw"))
    rows = f"  - {{model: {{tags: [small]}}, hw: [{machines}], protocol: [chat_5shot, completions_5shot]}}\n" * 16
    start = time.process_time()
    found = planning(f"{HEAD}rows:\n{rows}")
    assert time.process_time() - start < 1
    assert [problem.reason for problem in found.problems] == ["matrix-too-large"]
    assert not found.planned


def test_a_million_combinations(planning: Planning, tmp_path: Path) -> None:
    """A product of 10^6 is refused within a second, without composing one of its specs."""
    for group, source in (("model", "simulated"), ("hw", "cpu"), ("task", "gsm8k_synth")):
        (tmp_path / group).mkdir()
        for number in range(100):
            (tmp_path / group / f"x{number}.yaml").symlink_to(conf_dir() / group / f"{source}.yaml")
    names = f"[{', '.join(f'x{number}' for number in range(100))}]"
    start = time.process_time()
    found = planning(f"{HEAD}rows: [{{model: {names}, hw: {names}, task: {names}}}]")
    assert time.process_time() - start < 1
    assert told(found) == [("2:8", "matrix-too-large")]


def test_five_hundred_combinations(planning: Planning) -> None:
    """A large matrix is planned in under two seconds of computing."""
    rows = "".join(f"  - {{model: simulated, set: {{task.n: {n}}}}}\n" for n in range(100, 600))
    start = time.process_time()
    found = planning(f"{HEAD}rows:\n{rows}")
    assert time.process_time() - start < 2
    assert len({one.name for one in found.planned}) == 500


def test_line_ends_and_byte_order_mark(planning: Planning, tmp_path: Path) -> None:
    """CRLF and a byte order mark change nothing."""
    text = HEAD + "rows:\n  - model: simulated\n    set: {task.n: 7}\n"
    plain = planning(text)
    (tmp_path / "matrix" / "m.yaml").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert plan("m", library(tmp_path)) == plain


def test_an_unknown_matrix() -> None:
    """A name that is no matrix, path tricks included, is a ConfigError with what was meant."""
    for name in ("smal", "../x", "../matrix/small", "/etc/passwd", "", "small.yaml"):
        with pytest.raises(ConfigError) as refused:
            plan(name, library())
        assert refused.value.reason == "unknown-matrix"
    with pytest.raises(ConfigError, match="no matrix 'smal'") as near:
        plan("smal", library())
    assert near.value.hint == "did you mean 'small'?"


def test_overrides_go_to_every_row() -> None:
    """An override wins over the matrix in every row, and the rows stay the same ones."""
    found = overridden(plan("blackwell", library()), ["engine=sim", "task.n=9"], library())
    assert not found.problems
    assert [one.spec.task.n for one in found.planned] == [9] * 4
    assert {one.spec.engine.name for one in found.planned} == {"sim"}
    assert [one.reason for one in found.left_out] == ["excluded", "too-few-gpus"]
    for one in found.planned:
        assert library().resolve(one.overrides) == one.spec


def test_rows_that_overrides_make_equal(planning: Planning) -> None:
    """Rows that become one spec are planned once, and the others are told as left out."""
    found = planning(f"{HEAD}rows: [{{model: laguna_int4, hw: [b200, b200x2]}}]")
    same = overridden(found, ["hw=b200"], library())
    assert asked(same) == ["model=laguna_int4 hw=b200"]
    assert [one.reason for one in same.left_out] == ["same-spec"]


def test_wrong_overrides_are_told_once() -> None:
    """What is wrong for all rows is one line; what is wrong for some names them."""
    small = plan("small", library())
    assert len(overridden(small, ["task.n=0"], library()).problems) == 1
    (problem,) = overridden(
        small, ["model.quantization=nvfp4", "model.architectures=null", "hw=h100"], library()
    ).problems
    assert problem.reason == "fp4-needs-blackwell"
    (swept,) = overridden(small, ["hw=b200,b200x2"], library()).problems
    assert swept.reason == "sweep"
    assert "-m" not in swept.hint


def test_every_key_is_described() -> None:
    """The schema says of every key what it means."""

    def undescribed(part: Any, path: str) -> Iterator[str]:
        for key, inner in part.items() if isinstance(part, Mapping) else ():
            if key in ("properties", "$defs"):
                yield from (f"{path}.{name}" for name, one in inner.items() if not one.get("description"))
            yield from undescribed(inner, f"{path}.{key}")

    assert not list(undescribed(schema("matrix"), ""))


def test_the_schema_knows_every_group() -> None:
    """A row may choose an option of every group of a spec."""
    groups = set(SECTIONS) - {"client"}
    for entry in ("row", "exclusion", "single"):
        assert set(schema("matrix")["$defs"][entry]["properties"]) - {"set", "because"} == groups
