"""`gatekit lint`: each finding at its place, none on the shipped configs, and silence only with a reason."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, here
from gatekit.spec.lint import IDS

ROOT = Path(__file__).resolve().parents[2]
HEAD = "defaults:\n  - override /engine: {engine}\n  - override /task: gsm8k_synth\n  - override /gate: {gate}\n"
BODY = "model:\n  name: {name}\n  quantization: {quantization}\n  server_args: {args}\n  server_env: {env}\n"
MATRIX = "description: Ours.\nrows:\n  - model: {model}\n    hw: {hw}\n"


def model(folder: Path, option: str, *more: str, **values: str) -> None:
    """A model file of its own weights; `more` are lines after its model section."""
    given = {"engine": "vllm", "gate": "exact_binomial", "name": f"org/w{option}", "quantization": "null"}
    given |= {"args": "{}", "env": "{}", **values}
    healthy = () if "gate" in values else ("gate:", "  observed: {correct: 1253, n: 1319}")
    text = (HEAD + BODY).format(**given) + "".join(f"{line}\n" for line in (*healthy, *more))
    write(folder, "model", option, text)


def write(folder: Path, group: str, option: str, text: str) -> None:
    path = folder / "ours" / group / f"{option}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def lint(folder: Path, *arguments: str) -> tuple[Ran, list[dict[str, Any]]]:
    ran = here(folder, "lint", "--config-dir", "ours", "--format", "json", *arguments)
    return ran, ran.data["findings"]


def ids(found: list[dict[str, Any]]) -> set[str]:
    return {one["id"] for one in found} - {"model-in-no-matrix"}


def test_the_shipped_configs_are_clean(tmp_path: Path) -> None:
    """Every shipped config lints clean, warnings included; what is allowed has its reason in the file."""
    ran = here(tmp_path, "lint", "--strict", "--json")
    assert (ran.code, ran.data["findings"], ran.err) == (0, [], "")
    assert ran.data["models"] >= 6


# option, its lines, its values, and the id that is expected
NAMES: dict[str, tuple[tuple[str, ...], dict[str, str], str | None]] = {
    "w_fp8": ((), {"quantization": "int4"}, "name-format"),
    "x_fp8": ((), {"quantization": "fp8"}, None),
    "y_fp4": ((), {"quantization": "mxfp4"}, None),
    "z_int4": ((), {"quantization": "awq"}, None),
    "v_nvfp4": ((), {}, "format-not-stated"),
    "hub": ((), {"name": "org/Thing-FP8-dynamic", "quantization": "int4"}, "name-format"),
    "hub2": ((), {"name": "org/Thing-NVFP4-FP8KV", "quantization": "nvfp4"}, None),
    "a_8shot": ((), {}, "name-shots"),
    "a_5shot": ((), {}, None),
    "a_completions": (("protocol:", "  api: chat"), {}, "name-api"),
    "b_completions": ((), {}, None),
    "some_chat": ((), {}, None),
    "a_tp2": ((), {}, "name-parallel"),
    "b_tp2": (("engine:", "  tensor_parallel_size: 2"), {}, None),
    "a_tp2_dp2": (("engine:", "  tensor_parallel_size: 2"), {}, "name-parallel"),
    "a_eager": ((), {}, "name-eager"),
    "b_eager": (("engine:", "  enforce_eager: true"), {}, None),
    "a_triton": ((), {"args": "{vllm: [--attention-backend, FLASHINFER]}"}, "name-backend"),
    "b_triton": ((), {"args": "{vllm: [--attention-backend=TRITON_ATTN]}"}, None),
    "c_triton": ((), {}, "backend-not-stated"),
    "d_triton": ((), {"env": "{vllm: {VLLM_ATTENTION_BACKEND: FLASHINFER}}"}, "name-backend"),
    "e_flashinfer": ((), {"env": '{vllm: {VLLM_USE_FLASHINFER_MOE_FP8: "1"}}'}, None),
    "f_trtllm": ((), {"args": "{vllm: [--moe-backend, flashinfer_trtllm]}"}, None),
    "g_triton": ((), {"args": "{sglang: [--attention-backend, triton]}"}, "backend-not-stated"),
}


@pytest.mark.parametrize("option", NAMES)
def test_names_of_models(option: str, tmp_path: Path) -> None:
    """A name that promises a format, shots, an API, sizes or a backend is held to it, and no other name is."""
    lines, values, expected = NAMES[option]
    model(tmp_path, option, *lines, **values)
    ran, found = lint(tmp_path)
    assert ids(found) == ({expected} if expected else set())
    errors = [one for one in found if one["kind"] == "error"]
    assert ran.code == (2 if errors else 0)


@pytest.mark.parametrize(
    ("group", "option", "text", "expected"),
    [
        ("hw", "b200x3", "name: b\nvendor: nvidia\ngpu: B200\ncount: 2\n", "name-gpu-count"),
        ("hw", "b200x3", "name: b\nvendor: nvidia\ngpu: B200\ncount: 3\n", None),
        ("hw", "mi300x", "name: b\nvendor: amd\ngpu: MI300X\ncount: 4\n", None),
        ("hw", "rtx4090", "name: b\nvendor: nvidia\ncount: 1\n", None),
        ("hw", "h100_x16", "name: b\nvendor: nvidia\ngpu: H100\ncount: 8\n", "name-gpu-count"),
        ("hw", "h200x16", "name: b\nvendor: nvidia\ngpu: H100\ncount: 16\n", "name-gpu"),
        ("hw", "night", "name: b\nvendor: none\ncount: 0\n", "same-option"),
        ("protocol", "chat_8shot", "defaults: [chat_5shot]\nshots: 5\n", "name-shots"),
        ("protocol", "chat_8shot", "defaults: [chat_5shot]\nshots: 8\n", None),
        ("protocol", "chat_long", "defaults: [chat_5shot]\napi: completions\n", "name-api"),
        ("protocol", "chat_to_completions", "defaults: [chat_5shot]\napi: completions\n", None),
    ],
)
def test_names_of_options(group: str, option: str, text: str, expected: str | None, tmp_path: Path) -> None:
    """Machines and protocols are held to the numbers in their names; a copy of an option is told at the copy."""
    write(tmp_path, group, option, text)
    _, found = lint(tmp_path)
    assert [one["id"] for one in found] == ([expected] if expected else [])
    assert all(one["where"] == f"ours/{group}/{option}.yaml:1:1" for one in found)


@pytest.mark.parametrize(
    ("lines", "gate", "expected", "kind"),
    [
        (("gate:", "  floor: 0.9", "  tolerance: 0.9"), "static_floor", "gate-vacuous", "error"),
        (("gate:", "  floor: 0.0"), "static_floor", "gate-vacuous", "error"),
        (("gate:", "  floor: 0.1"), "static_floor", "gate-loose", "warning"),
        (("gate:", "  floor: 0.5", "  observed: {correct: 95, n: 100}"), "static_floor", "gate-loose", "warning"),
        (("gate:", "  floor: 0.85", "  observed: {correct: 95, n: 100}"), "static_floor", None, ""),
        (("gate:", "  floor: 0.9", "  max_lost_share: 0.2"), "static_floor", "failures-tolerated", "warning"),
        (("gate:", "  floor: 0.9"), "auto", None, ""),
        ((), "auto", "no-gate", "warning"),
    ],
)
def test_gates(lines: tuple[str, ...], gate: str, expected: str | None, kind: str, tmp_path: Path) -> None:
    """A gate that fails nothing, passes broken models, tolerates failures or has no number is told; others are not."""
    model(tmp_path, "mine", *lines, gate=gate)
    _, found = lint(tmp_path)
    assert ids(found) == ({expected} if expected else set())
    assert {one["kind"] for one in found if one["id"] == expected} == ({kind} if expected else set())


def test_a_gate_that_cannot_pass(tmp_path: Path) -> None:
    """A gate that asks for more than every question is an error."""
    from gatekit.gate.audit import Audit, audit_typed
    from gatekit.gate.audit import Finding as Noted
    from gatekit.records.spec import Gate, Method
    from gatekit.resources import conf_dir
    from gatekit.spec.library import Library
    from gatekit.spec.lint import Modelled, gates

    spec = Library([conf_dir()]).resolve([])
    known = audit_typed(Gate(name="g", method=Method.STATIC_FLOOR, floor=1.0), 100, healthy=None, strict=True)
    assert isinstance(known, Audit)
    assert "never-passes" in known.ids, known.findings
    assert isinstance(known.findings[0], Noted)
    found = [*gates(Modelled(option="m", spec=spec, audit=known, where="m:1:1"), has_history=False)]
    assert [one.id for one in found] == ["gate-impossible"]


def test_models_that_no_matrix_runs(tmp_path: Path) -> None:
    """A model in no matrix is told at its file until a matrix has it; one that is only simulated never is."""
    model(tmp_path, "mine")
    model(tmp_path, "toy", engine="sim")
    _, found = lint(tmp_path)
    assert [(one["id"], one["where"]) for one in found] == [("model-in-no-matrix", "ours/model/mine.yaml:1:1")]
    write(tmp_path, "matrix", "all", MATRIX.format(model="mine", hw="b200"))
    assert lint(tmp_path)[1] == []


def test_two_names_for_one_spec(tmp_path: Path) -> None:
    """Two models that differ in nothing but their names are told once, at the later one."""
    model(tmp_path, "one", name="org/same")
    model(tmp_path, "two", name="org/same")
    model(tmp_path, "three", "client:", "  attempts: 2", name="org/same")
    _, found = lint(tmp_path)
    (twin,) = [one for one in found if one["id"] == "same-spec"]
    assert twin["where"] == "ours/model/two.yaml:1:1"
    assert "model=one" in twin["what"]


def test_rows_that_resolve_to_nothing(tmp_path: Path) -> None:
    """What is wrong with a matrix is an error at its row: a selector that matches nothing, an unknown name."""
    write(tmp_path, "matrix", "dead", "description: Dead.\nrows:\n  - {model: {tags: [nobody]}, hw: b200}\n")
    write(tmp_path, "matrix", "typo", MATRIX.format(model="laguna_int5", hw="b200"))
    ran, found = lint(tmp_path)
    assert ran.code == 2
    assert {one["where"].split(":")[0] for one in found} == {"ours/matrix/dead.yaml", "ours/matrix/typo.yaml"}
    assert {one["kind"] for one in found} == {"error"}


def test_broken_files_are_errors(tmp_path: Path) -> None:
    """A file that cannot be read is an error, and hides no finding of the others."""
    write(tmp_path, "model", "broken", "model: [\n")
    write(tmp_path, "hw", "broken", "name: 0123\n")
    model(tmp_path, "w_fp8", quantization="int4")
    ran, found = lint(tmp_path)
    assert ran.code == 2
    assert {"yaml-syntax", "ambiguous-value", "name-format"} <= ids(found)


def test_silence_needs_a_reason(tmp_path: Path) -> None:
    """A finding is allowed by a written reason in its own file; without one it stays, and the silence is an error."""
    model(tmp_path, "w_fp8", quantization="int4")
    path = tmp_path / "ours/model/w_fp8.yaml"
    text = path.read_text()
    path.write_text(f"# lint: allow name-format:\n{text}")
    ran, found = lint(tmp_path)
    assert (ran.code, ids(found)) == (2, {"name-format", "silence-without-reason"})
    path.write_text(f"# lint: allow name-format: the vendor renamed the weights\n{text}")
    ran, found = lint(tmp_path)
    assert (ran.code, ids(found)) == (0, set())
    assert [one["reason"] for one in ran.data["allowed"]] == ["the vendor renamed the weights"]


def test_silence_that_nothing_needs(tmp_path: Path) -> None:
    """A silence without its finding is told, unless it is about a history that was not looked at."""
    model(tmp_path, "mine")
    path = tmp_path / "ours/model/mine.yaml"
    path.write_text(
        "# lint: allow name-format: it was once so\n# lint: allow nonsense: there is no such id\n"
        f"# lint: allow gate-never-ran: its runner comes in spring\n{path.read_text()}"
    )
    _, found = lint(tmp_path)
    assert [one["where"] for one in found if one["id"] == "unused-silence"] == [
        "ours/model/mine.yaml:1:1",
        "ours/model/mine.yaml:2:1",
    ]


def test_strict(tmp_path: Path) -> None:
    """Warnings exit 0, and 2 with --strict."""
    model(tmp_path, "mine")
    assert here(tmp_path, "lint", "--config-dir", "ours").code == 0
    assert here(tmp_path, "lint", "--config-dir", "ours", "--strict").code == 2


def test_the_text(tmp_path: Path) -> None:
    """Each finding is a line with place, kind, what, why, hint and id; the last line counts; no control character."""
    model(tmp_path, "w_fp8", quantization="int4")
    ran = here(tmp_path, "lint", "--config-dir", "ours")
    *lines, last = ran.out.splitlines()
    for line in lines:
        assert re.fullmatch(r"\S+:\d+:\d+: (error|warning): .+: .+; .+ \[[a-z0-9-]+\]", line), line
    assert re.fullmatch(r"\d+ models, \d+ matrices, no history \(--history DIR\): errors 1, warnings 1", last)


@pytest.fixture
def nightly(tmp_path: Path) -> Path:
    """A matrix of two simulated gates, of which one ran."""
    for option in ("ran", "slept"):
        model(tmp_path, option, "task:", "  n: 20", engine="sim")
    write(tmp_path, "matrix", "all", MATRIX.format(model="[ran, slept]", hw="cpu"))
    ran = here(tmp_path, "--config-dir", "ours", "model=ran", "--json")
    assert ran.code in (0, 4), ran.err
    return tmp_path


def test_gates_that_never_ran(nightly: Path) -> None:
    """With a history, a row of a matrix that has no verdict in it is told at its row, one that ran is not."""
    before = sorted(path.name for path in (nightly / ".gatekit").iterdir())
    _, found = lint(nightly, "--history", ".gatekit")
    assert [(one["id"], one["what"].split()[0]) for one in found] == [("gate-never-ran", "slept-cpu-sim")]
    assert found[0]["where"].startswith("ours/matrix/all.yaml:")
    assert sorted(path.name for path in (nightly / ".gatekit").iterdir()) == before


def test_gates_that_have_not_run_for_days(nightly: Path) -> None:
    """A gate whose last verdict is older than --days is told with its date; INFRA is no verdict."""
    totals = "finished_at,n,correct\n2020-01-02T03:00:00Z,20,19\n"
    (nightly / "totals.csv").write_text(totals)
    asked = ("--format", "totals", "--config-dir", "ours", "model=slept")
    assert here(nightly, "history", "import", "totals.csv", *asked).code == 0
    _, found = lint(nightly, "--history", ".gatekit", "--days", "30")
    assert [one["id"] for one in found] == ["gate-not-run"]
    assert "2020-01-02" in found[0]["why"]
    infra = ("model=slept", "engine.faults={drop: 1.0}", "client.outage_s=1", "client.attempts=1")
    assert here(nightly, "--config-dir", "ours", *infra).code == 3
    assert [one["id"] for one in lint(nightly, "--history", ".gatekit", "--days", "30")[1]] == ["gate-not-run"]


def test_rows_that_a_shipped_matrix_has_too(tmp_path: Path) -> None:
    """Each row of the team's own matrices is told by itself, also where a shipped matrix has the same one."""
    for option in ("one", "two"):
        write(tmp_path, "matrix", option, MATRIX.format(model="laguna_int4", hw="b200"))
    (tmp_path / "h").mkdir()
    _, found = lint(tmp_path, "--history", "h")
    assert [one["id"] for one in found] == ["gate-never-ran"] * 2
    assert [one["where"].split(":")[0] for one in found] == ["ours/matrix/one.yaml", "ours/matrix/two.yaml"]


def test_shipped_matrices_count_where_the_team_has_none(tmp_path: Path) -> None:
    """A team without a matrix of its own is told which rows of the shipped ones never ran."""
    write(tmp_path, "hw", "mine", "name: mine\nvendor: none\ncount: 0\n")
    (tmp_path / "h").mkdir()
    assert "gate-never-ran" in ids(lint(tmp_path, "--history", "h")[1])


def test_hints_work_as_pasted(tmp_path: Path) -> None:
    """The command of a hint finds the matrix and the row that the finding is about, whatever they are called."""
    model(tmp_path, "mine", "task:", "  n: 20", engine="sim")
    row = "  - {model: mine, hw: cpu, set: {task.n: NUMBER}}\n"
    text = "description: Ours.\nrows:\n" + row.replace("NUMBER", "5") + row.replace("NUMBER", "6")
    write(tmp_path, "matrix", "all", text)
    (tmp_path / "h").mkdir()
    for finding in lint(tmp_path, "--history", "h")[1]:
        command = shlex.split(finding["hint"])
        assert here(tmp_path, *command[1:], "--cfg").code == 0
        assert "[" not in finding["hint"].replace("'mine-cpu-sim[", "")
    model(tmp_path, "loose", gate="static_floor", engine="vllm")
    write(tmp_path, "model", "loose", (tmp_path / "ours/model/loose.yaml").read_text() + "gate:\n  floor: 0.0\n")
    (finding,) = [one for one in lint(tmp_path)[1] if one["id"] == "gate-vacuous"]
    command = shlex.split(finding["hint"].removeprefix("see `").removesuffix("`"))
    assert here(tmp_path, *command[1:]).code == 0


NEVER = {
    "shots": (("  measured_under: {shots: 8}",), "protocol-mismatch", "gate.measured_under"),
    "questions": (("  measured_under: {n: 1319}", "task:", "  n: 100"), "protocol-mismatch", "gate.measured_under"),
    "too-many": (("task:", "  n: 5000"), "n-out-of-range", "task.n"),
    "large-drop": (("  delta: 0.96",), "drop-too-large", "gate.delta"),
    "no-room": (("  delta: 0.0001", "task:", "  n: 20"), "gate-impossible", "gate"),
}


@pytest.mark.parametrize("case", NEVER)
def test_gates_that_never_decide(case: str, tmp_path: Path) -> None:
    """A gate that no answers can bring to a verdict, or that no run starts with, is an error at its key."""
    lines, expected, key = NEVER[case]
    model(tmp_path, "mine", *lines)
    ran, found = lint(tmp_path)
    (finding,) = [one for one in found if one["id"] != "model-in-no-matrix"]
    assert (ran.code, finding["id"], finding["kind"]) == (2, expected, "error")
    text = (tmp_path / "ours/model/mine.yaml").read_text().splitlines()
    assert key.rpartition(".")[2] in text[int(finding["where"].split(":")[1]) - (1 if "." in key else 2)]


def test_rows_whose_gate_never_decides(tmp_path: Path) -> None:
    """A row that asks otherwise than its gate was measured is an error at that row; its model is in order."""
    model(tmp_path, "mine", "  measured_under: {n: 1319}")
    row = "  - {model: mine, hw: h100, set: {task.n: 400}}\n"
    write(tmp_path, "matrix", "all", "description: Ours.\nrows:\n" + row)
    _, found = lint(tmp_path)
    assert [(one["id"], one["where"]) for one in found] == [("protocol-mismatch", "ours/matrix/all.yaml:3:5")]


def test_a_floor_beside_a_lock(tmp_path: Path) -> None:
    """A floor that does not bind beside a lock is a warning: the lock decides all the same."""
    model(tmp_path, "mine", "gate:", "  floor: 0.9", "  measured_under: {shots: 8}", gate="locked")
    found = [one for one in lint(tmp_path)[1] if one["id"] == "floor-unused"]
    assert [(one["kind"], one["where"]) for one in found] == [("warning", "ours/model/mine.yaml:12:19")]


def test_weights_that_nobody_named(tmp_path: Path) -> None:
    """What `gatekit init model` writes for the weights is told until somebody names them."""
    assert here(tmp_path, "init", "model", "mine", "--config-dir", "ours", "--floor", "0.9").code == 0
    assert "weights-not-named" in ids(lint(tmp_path)[1])
    path = tmp_path / "ours/model/mine.yaml"
    path.write_text(path.read_text().replace("org/mine", "Qwen/Qwen3-8B"))
    assert "weights-not-named" not in ids(lint(tmp_path)[1])


def test_history_settles_no_gate(tmp_path: Path) -> None:
    """A gate without a number of its own is fine once its history has a verdict to judge by."""
    model(tmp_path, "mine", "task:", "  n: 20", engine="sim", gate="auto")
    write(tmp_path, "matrix", "all", MATRIX.format(model="mine", hw="cpu"))
    assert here(tmp_path, "--config-dir", "ours", "model=mine").code == 4
    assert ids(lint(tmp_path)[1]) == {"no-gate"}
    assert lint(tmp_path, "--history", ".gatekit")[1] == []


@pytest.mark.parametrize("empty", [False, True])
def test_a_missing_history(empty: bool, tmp_path: Path) -> None:
    """A history folder that does not exist is one line and exit 2; an empty one says that nothing ever ran."""
    if empty:
        (tmp_path / "h").mkdir()
    ran = here(tmp_path, "lint", "--history", "h")
    assert ran.code == (0 if empty else 2)
    assert ("gate-never-ran" in ran.out) is empty
    assert empty or (ran.out, ran.err.count("\n")) == ("", 1)


def test_every_id_is_documented() -> None:
    """docs/lint.md has a row for every id, and for no other."""
    text = (ROOT / "docs" / "lint.md").read_text()
    assert set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)) == IDS


def test_five_hundred_models(tmp_path: Path) -> None:
    """Five hundred models are linted within ten seconds of computing, each of them looked at."""
    for number in range(500):
        model(tmp_path, f"m{number}_fp8", quantization="int4" if number % 100 == 0 else "fp8")
    began = time.process_time()
    _, found = lint(tmp_path)
    assert time.process_time() - began < 10
    assert sum(one["id"] == "name-format" for one in found) == 5
    assert sum(one["id"] == "model-in-no-matrix" for one in found) == 500
