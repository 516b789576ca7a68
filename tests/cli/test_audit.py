"""`gatekit audit` as people use it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from command_line import here
from gatekit.cli.main import main
from gatekit.errors import ExitCode

GATES = Path(__file__).resolve().parents[2] / "docs" / "gates.md"


def test_every_model_of_conf(tmp_path: Path) -> None:
    """Without arguments every shipped model has its row and its findings, and the report exits 0."""
    ran = here(tmp_path, "audit", "--json")
    assert (ran.code, ran.err) == (0, "")
    found = {audit["name"]: audit for audit in ran.data["audits"]}
    shipped = {path.stem for path in (GATES.parents[1] / "conf" / "model").glob("*.yaml")}
    assert {name.split("-")[0] for name in found} == shipped
    inkling = found["inkling_small_nvfp4-b200x4-sglang"]
    assert (inkling["n"], inkling["figures"]["k_pass"]) == (200, 170)
    assert inkling["figures"]["sigmas"] == pytest.approx(2.36, abs=5e-3)
    laguna = found["laguna_int4-b200-vllm"]
    assert {"gate-in-noise", "no-reference"} <= {finding["id"] for finding in laguna["findings"]}


def test_inkling(tmp_path: Path) -> None:
    """Inkling's gate: 2.36 sd, 0.951 % false alarms, 45.1 % power at 5 points, in plain text."""
    ran = here(tmp_path, "audit", "model=inkling_small_nvfp4")
    (row,) = [line for line in ran.out.splitlines() if "static_floor" in line]
    assert "0.951 % at 0.9 (2.36 sd)" in row
    assert "5 points: 45.1 %" in row
    assert "[gate-blind]" in ran.out
    assert "\x1b" not in ran.out


def test_vllm_with_tolerance(tmp_path: Path) -> None:
    """vLLM's 0.90 less 0.08 passes a drop of 5 points in 99.86 % of runs."""
    ran = here(tmp_path, "audit", "--floor", "0.90", "--tolerance", "0.08", "--n", "1319", "--p0", "0.90")
    assert ran.code == 0
    assert "[gate-blind] a drop of 5 points below 0.9 passes in 99.86 % of runs" in ran.out
    assert "[hidden-tolerance] 0.9 is typed, 0.82 is enforced (1082 of 1319)" in ran.out
    assert "[failures-hidden]" in ran.out


def test_only_a_hand_set_floor_hides_failed_requests(tmp_path: Path) -> None:
    """gatekit's own gates score no failed request as wrong: neither the table nor the JSON says that they hide any."""
    column = "FAILED REQUESTS HIDDEN"
    assert column not in here(tmp_path, "audit").out
    (own,) = here(tmp_path, "audit", "model=inkling_small_nvfp4", "--json").data["audits"]
    assert own["figures"]["hidden"] is None
    typed = here(tmp_path, "audit", "--floor", "0.85", "--n", "200", "--p0", "0.9")
    assert column in typed.out.splitlines()[0]
    assert typed.out.splitlines()[1].endswith("11 (5.5 %)")


def test_strict_floor(tmp_path: Path) -> None:
    """Strict 0.90 fails a healthy model of 0.905 in 27.8 % of runs."""
    ran = here(tmp_path, "audit", "--floor", "0.90", "--n", "1319", "--p0", "0.905", "--strict")
    assert "[gate-in-noise] a healthy model of accuracy 0.905 fails in 27.8 % of runs" in ran.out


def test_one_spec_is_the_one_that_would_run(tmp_path: Path) -> None:
    """Overrides are those of a run: without a model, the default one, with the gate they ask for."""
    ran = here(tmp_path, "audit", "gate=static_floor", "gate.floor=0.05", "gate.tolerance=0.08", "task.n=50", "--json")
    (audit,) = ran.data["audits"]
    assert (audit["name"], audit["n"]) == ("simulated-cpu-sim", 50)
    assert {"vacuous", "hidden-tolerance"} == {finding["id"] for finding in audit["findings"]}


def test_a_machine_for_all(tmp_path: Path) -> None:
    """hw=... alone audits every model on it; those that it cannot hold are named, and the exit code is 2."""
    ran = here(tmp_path, "audit", "hw=b200", "--json")
    assert ran.code == 2
    names = {audit["name"] for audit in ran.data["audits"]}
    assert "laguna_int4-b200-vllm" in names
    few = next(problem for problem in ran.data["problems"] if problem["reason"] == "too-few-gpus")
    assert set(few) == {"where", "what", "reason", "hint"}
    assert few["what"]
    assert few["hint"]
    assert "too-few-gpus" in ran.err


def test_a_broken_model_does_not_hide_the_others(tmp_path: Path) -> None:
    """A team's broken model file is named by file and line, and the rest is audited."""
    folder = tmp_path / "ours" / "model"
    folder.mkdir(parents=True)
    (folder / "broken.yaml").write_text("gate:\n  flor: 0.9\n")
    ran = here(tmp_path, "audit", "--config-dir", "ours")
    assert ran.code == 2
    assert "broken.yaml:2" in ran.err
    assert "laguna_int4-b200-vllm" in ran.out


def audited(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What `gatekit audit` prints."""
    assert main(["audit", *arguments]) is ExitCode.PASS
    return capsys.readouterr().out


def test_a_drop_that_has_no_verdict_does_not_pass(capsys: pytest.CaptureFixture[str]) -> None:
    """With gate.delta a drop of 1 point passes in at most gate.beta of runs, and both counts are in the JSON."""
    (audit,) = json.loads(audited(capsys, "gate=exact_binomial", "gate.delta=0.01", "--json"))["audits"]
    assert "gate-blind" not in {finding["id"] for finding in audit["findings"]}
    figures = audit["figures"]
    assert (figures["k_reject"], figures["k_accept"], figures["k_pass"]) == (1230, 1252, 1252)
    assert figures["drops"][0]["passes"] <= 0.1
    text = audited(capsys, "gate=exact_binomial", "gate.delta=0.01")
    assert "88.3 %" not in text
    assert "[underpowered] 1230 to 1251 correct give no verdict: 41.5 % of healthy runs, 79.7 %" in text


def test_a_floor_that_binds_beside_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """Laguna's floor beside a measured accuracy decides alone, and that is what its figures are said to be."""
    out = audited(capsys, "model=laguna_int4", "gate=auto", "gate.observed={correct: 1187, n: 1319}")
    assert "the figures are those of the floor, which binds beside exact_binomial" in out
    assert "[floor-binds] the floor 0.9 asks for 1188 of 1319, exact_binomial for 1156" in out
    assert "fails 51.3 % of healthy runs instead of 0.248 %; gate.floor=null lets the rule decide" in out


def test_a_tolerance_beside_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    """A floor with a tolerance is found beside any rule, also where it never decides."""
    out = audited(capsys, "gate=exact_binomial", "gate.floor=0.95", "gate.tolerance=0.08")
    assert "[hidden-tolerance] 0.95 is typed, 0.87 is enforced (1148 of 1319)" in out
    assert "[floor-idle] the floor 0.87 asks for 1148 of 1319, exact_binomial for 1230" in out
    bound = audited(capsys, "gate=exact_binomial", "gate.floor=0.98", "gate.tolerance=0.02")
    assert "[hidden-tolerance] 0.98 is typed, 0.96 is enforced (1267 of 1319)" in bound
    assert "[floor-binds]" in bound


def test_a_locked_gate(capsys: pytest.CaptureFixture[str]) -> None:
    """A locked gate needs its lock file, and is said to decide nothing without one."""
    out = audited(capsys, "gate=locked")
    assert "[needs-history] locked takes its threshold from a lock file in conf/thresholds" in out
    assert "without it every verdict is INCONCLUSIVE" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--floor", "0.9"),
        ("--n", "5"),
        ("--strict",),
        ("--floor", "1.5", "--n", "5"),
        ("--floor", "0.9", "--n", "5", "model=laguna_int4"),
        ("--floor", "0.9", "--n", "5", "--p0", "1"),
        ("model=nothing",),
        ("model=laguna_int4", "hw=l4"),
        ("task.n=5000",),
        ("--config-dir", "nowhere"),
    ],
)
def test_wrong_input(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    """Every wrong input is exit 2, with a reason and nothing on stdout."""
    assert main(["audit", *arguments]) is ExitCode.CONFIG
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.rstrip().endswith("]")


def test_the_examples_of_the_docs(tmp_path: Path) -> None:
    """Every command line of docs/gates.md that needs no history runs."""
    lines = GATES.read_text().splitlines()
    shown = [number for number, line in enumerate(lines) if line.startswith("    python -m gatekit ")]
    assert len(shown) >= 4
    here(tmp_path, "--run-id", "RUN", "task.n=22")
    for number in shown:
        arguments = shlex.split(lines[number].split("  #")[0])[3:]
        if arguments[0] in ("power", "audit", "explain") and arguments != [
            "audit"
        ]:  # which test_every_model_of_conf runs
            ran = here(tmp_path, *arguments)
            assert ran.code == 0, ran.err
