"""`gatekit power` as people use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import here
from gatekit.cli.main import main
from gatekit.errors import ExitCode


def test_a_design_as_a_table(tmp_path: Path) -> None:
    """Each rung has its row, exact figures bare and approximate ones marked."""
    ran = here(tmp_path, "power", "--p0", "0.9", "--alpha", "0.001", "--delta", "0.02")
    assert ran.code == 0
    rows = {line.split()[0]: line for line in reversed(ran.out.splitlines()) if line}
    assert "1152" in rows["exact_binomial"]
    assert "0.0784 %" in rows["exact_binomial"]
    assert "3.9 points" in rows["exact_binomial"]
    assert "6.97 %" in rows["beta_binomial_predictive"]
    assert "~77.3 to 82.3 %" in rows["exact_conditional"]
    assert "~90.4 to 95.2 %" in rows["unguarded_conditional"]
    assert "4709" in rows["exact_binomial"]
    assert "4623 is the first to meet it" in " ".join(ran.out.split())
    assert "nu_psi = 8, --nu-psi" in " ".join(ran.out.split())
    assert "\x1b" not in ran.out


def test_a_design_as_json(tmp_path: Path) -> None:
    """One JSON document holds the design and every rung; a budget becomes its alpha."""
    ran = here(tmp_path, "power", "--n", "200", "--observed", "180/200", "--nights", "365", "--gates", "20", "--json")
    design = ran.data["design"]
    assert design["alpha"] == pytest.approx(1.372e-4, rel=1e-3)
    assert (design["accuracy"], design["delta"], design["baseline_n"]) == (0.9, 0.05, 200)
    methods = [rung["method"] for rung in ran.data["rungs"]]
    assert methods[0] == "exact_binomial"
    assert {"moderated_t", "exact_mcnemar", "flip_prediction", "exact_conditional"} < set(methods)
    assert ran.data["rungs"][0]["noticed_drop"]["low"] == pytest.approx(0.125, abs=5e-4)


def test_sigmas(tmp_path: Path) -> None:
    """Two sigmas at 200 questions are 172 right answers and the exact rate, not the normal one."""
    ran = here(tmp_path, "power", "--n", "200", "--p0", "0.9", "--sigmas", "2", "--json")
    first = ran.data["rungs"][0]
    assert first["k_reject"] == 172
    assert first["realised_alpha"] == pytest.approx(0.027, abs=5e-4)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--p0", "1"),
        ("--p0", "nan"),
        ("--p0", "0.9", "--observed", "9/10"),
        ("--observed", "11/10"),
        ("--observed", "0/0"),
        ("--p0", "0.9", "--n", "0"),
        ("--p0", "0.9", "--n", "99999999999999999999"),
        ("--p0", "0.9", "--alpha", "0.7"),
        ("--p0", "0.9", "--alpha", "0.01", "--gates", "3"),
        ("--p0", "0.02", "--delta", "0.03"),
        ("--p0", "0.9", "--n", "2", "--sigmas", "30"),
        ("--p0", "0.9", "--phi", "0"),
        ("--p0", "0.9", "--nu-psi", "0"),
        ("--p0", "0.9", "stray\x1b[31m"),
    ],
)
def test_wrong_input(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    """Every wrong input is one sentence and exit 2, without control characters."""
    assert main(["power", *arguments]) is ExitCode.CONFIG
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("gatekit: ")
    assert printed.err.count("\n") == 1
    assert "\x1b" not in printed.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--p0", "0.0301", "--n", "1", "--delta", "0.03"),
        ("--p0", "0.999999", "--n", "100000", "--runs", "1"),
        ("--observed", "5/5", "--n", "3", "--delta", "0.03"),
        ("--p0", "0.06", "--n", "20", "--phi", "0.001", "--delta", "0.03"),
        ("--p0", "0.9", "--alpha", "1e-300", "--delta", "0.0001"),
        ("--p0", "0.9", "--alpha", "1e-300", "--nu0", "3", "--runs", "1"),
        ("--p0", "0.999999999999", "--delta", "0.9"),
    ],
)
def test_extreme_designs(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    """Designs at the edge of the range have an answer too: every rate a probability, every count within n."""
    assert main(["power", *arguments, "--json"]) is ExitCode.PASS
    found = json.loads(capsys.readouterr().out)
    for rung in found["rungs"]:
        assert 0 <= rung["k_reject"] <= found["design"]["n"]
        assert 0 <= rung["realised_alpha"] <= rung["power"]["high"] <= 1


def test_a_pooled_guard(tmp_path: Path) -> None:
    """--nu-psi 30, as pooled over a matrix, raises exact_conditional alone, to 84 to 91 %."""
    rows = {}
    for nu_psi in ("8", "30"):
        ran = here(
            tmp_path, "power", "--p0", "0.9", "--alpha", "0.001", "--delta", "0.02", "--nu-psi", nu_psi, "--json"
        )
        assert ran.data["design"]["nu_psi"] == float(nu_psi)
        rows[nu_psi] = {rung["method"]: rung["power"] for rung in ran.data["rungs"]}
    assert rows["30"]["exact_conditional"]["low"] == pytest.approx(0.86, abs=0.02)
    assert rows["30"]["exact_conditional"]["low"] > rows["8"]["exact_conditional"]["high"]
    assert {m: p for m, p in rows["8"].items() if m != "exact_conditional"} == {
        m: p for m, p in rows["30"].items() if m != "exact_conditional"
    }


@pytest.mark.parametrize(
    ("arguments", "said", "unsaid"),
    [
        (("--p0", "0.999999"), "healthy accuracy 0.999999,", "healthy accuracy 1,"),
        (("--p0", "0.00002", "--delta", "0.00001"), "healthy accuracy 2e-05,", "healthy accuracy 0,"),
        (("--p0", "0.9", "--delta", "1e-7"), "FAILS 1e-05 POINTS", "1E-05"),
        (("--p0", "0.9", "--delta", "0.01"), "FAILS 1 POINT  ", "FAILS 1 POINTS"),
        (("--p0", "0.9", "--delta", "0.05"), "~over 99.9 %", "over 99.9 to"),
        (("--p0", "0.9", "--alpha", "1e-300"), "~under 0.0001 %", "to under"),
        (("--p0", "0.9", "--runs", "1"), "known_mean is no rule", "unguarded"),
    ],
)
def test_how_figures_read(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str, unsaid: str
) -> None:
    """Nothing inside (0, 1) reads as 0 or 1, no range repeats itself, no number is in capitals."""
    assert main(["power", *arguments]) is ExitCode.PASS
    out = capsys.readouterr().out
    assert said in out
    assert unsaid not in out


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("power", "--p0", "90"), "0.9 is 90 percent"),
        (("power", "--p0", "90%"), "0.9 is 90 percent"),
        (("power", "--p0", "0.9", "--delta", "2"), "0.02 is 2 percent"),
        (("audit", "--floor", "82.5", "--n", "200"), "0.825 is 82.5 percent"),
    ],
)
def test_percent_typed_as_a_share(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], meant: str) -> None:
    """A share typed in percent is refused with the share that was meant."""
    assert main(arguments) is ExitCode.CONFIG
    assert meant in capsys.readouterr().err


@pytest.mark.parametrize("text", ["900", "-1", "nan", "inf", "ninety", "1e400", "9" * 5000, "\x1b[31m"])
def test_nonsense_gets_no_suggestion(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """What is no percentage either is refused without a guess."""
    assert main(["power", f"--p0={text}"]) is ExitCode.CONFIG
    printed = capsys.readouterr().err
    assert "percent" not in printed
    assert len(printed) < 300


def test_help(tmp_path: Path) -> None:
    """Help of each of the three commands is text on stdout and names its options."""
    for command, option in (("power", "--delta"), ("audit", "--tolerance"), ("explain", "--dir")):
        ran = here(tmp_path, command, "--help")
        assert (ran.code, ran.err) == (0, "")
        assert option in ran.out
