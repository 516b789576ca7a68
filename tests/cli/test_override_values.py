"""Overrides say what the same words say in a file, and whatever they hold is refused in one bounded line."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import here

DIGITS = "1" * 4301
LONG = "a" * 100_000


@pytest.mark.parametrize(
    "override",
    [
        f"task.n={DIGITS}",
        f"client.concurrency=-{DIGITS}",
        f"gate.floor={DIGITS}",
        f"gate.floor={DIGITS}.5",
        f"model.name={DIGITS}",
        f"gate.observed={{correct: {DIGITS}}}",
        f"engine.args=[{DIGITS}]",
        f"model={DIGITS}",
        f"task.n=1_{DIGITS}",
        f"task.n=int('{DIGITS}')",
        f"task.{'a.' * 2000}b=1",
        f"task/{'a/' * 2000}b=1",
        f"{'a' * 2000}=1",
        f"engine='{'a' * 2000}'",
        f"task.n={'[' * 2000}",
        f"task.n={LONG}",
        f"task.{LONG}=1",
        f"engine={LONG}",
        f"model.name={{{LONG}: 1}}",
        LONG,
    ],
    ids=lambda text: text[:24],
)
def test_large(tmp_path: Path, override: str) -> None:
    """However many digits, dots, brackets or letters an override has, it is CONFIG, told in one short line."""
    ran = here(tmp_path, "plan", override)
    (line,) = ran.err.splitlines()
    assert ran.code == 2
    assert len(line) < 4000
    assert line.endswith("]")


@pytest.mark.parametrize("values", ["{},20", "range(1,{})", "choice({}, 2)", "[{}]"])
def test_large_in_sweeps(tmp_path: Path, values: str) -> None:
    """In a sweep as well."""
    ran = here(tmp_path, "plan", "-m", f"task.n={values.format(DIGITS)}")
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("task.n=1_0", "1_0 is read differently by YAML 1.1 and 1.2; write 10 [ambiguous-value]"),
        ("+task.n=1_0", "1_0 is read differently by YAML 1.1 and 1.2; write 10 [ambiguous-value]"),
        ("gate.floor=0.9_1", "0.9_1 is read differently by YAML 1.1 and 1.2; write 0.91 [ambiguous-value]"),
        ("gate.observed={correct: 1_0, n: 20}", "1_0 is read differently by YAML 1.1 and 1.2; write 10"),
        ("client.concurrency=" + "1" * 41, "is read differently by YAML 1.1 and 1.2"),
        ("gate.floor=1e999", "1e999 is not a finite number [not-finite]"),
        ("model.name=nULL", "nULL is read differently by files and overrides; quote this value [ambiguous-value]"),
        ("engine.require_effective=tRUE", "tRUE is read differently by files and overrides"),
        ("gate.floor=int(0.5)", "int(0.5) is read differently by files and overrides; write the value itself"),
        ("gate.floor=float('0.5')", "[ambiguous-value]"),
        ("model.name=str(5)", "[ambiguous-value]"),
        ("engine.require_effective=bool(1)", "[ambiguous-value]"),
        ("task.n=int(range(1,3))", "[ambiguous-value]"),
        ("model.architectures=shuffle([a,b])", "[ambiguous-value]"),
        ("gate.observed={correct: 1, correct: 2}", "key 'correct' stands twice [duplicate-key]"),
        ("gate.observed={1: 2}", "key '1' is not a word [bad-key]"),
    ],
)
def test_as_in_files(tmp_path: Path, override: str, said: str) -> None:
    """A value that a file refuses, or reads as another one, is refused with the file's words."""
    ran = here(tmp_path, "plan", override)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.startswith(f"gatekit: override {override.lstrip('+')}: ")


def test_private_values_stay_unsaid(tmp_path: Path) -> None:
    """A refused value is not repeated where secrets go astray."""
    ran = here(tmp_path, "plan", "engine.env={A: 7_7}")
    assert (ran.code, "7_7" in ran.err) == (2, False)


def test_every_value_is_told(tmp_path: Path) -> None:
    """Several refused values are told at once."""
    ran = here(tmp_path, "plan", "task.n=1_0", "gate.floor=int(0.5)")
    assert [line.rsplit("[")[-1] for line in ran.err.splitlines()] == ["ambiguous-value]"] * 2


@pytest.mark.parametrize(
    "words", [["task.n=+5"], ["gate.floor=.5"], ["gate.floor=1e-1"], ["model.revision=" + "0" * 40]]
)
def test_plain_values_stay(tmp_path: Path, words: list[str]) -> None:
    """What files and overrides read alike, and texts as they are typed, are taken."""
    assert here(tmp_path, "plan", *words).code == 0


@pytest.mark.parametrize(
    "values", ["choice(10,20)", "range(10,30,10)", "shuffle(range(10,12))", "tag(x,choice(10,20))"]
)
def test_sweeps_stay(tmp_path: Path, values: str) -> None:
    """Functions that make several values make a sweep."""
    assert here(tmp_path, "plan", "-m", f"task.n={values}").code == 0


def test_globs_stay(tmp_path: Path) -> None:
    """So do patterns of options."""
    assert here(tmp_path, "plan", "-m", "hw=glob(cp*)").code == 0


@pytest.mark.parametrize(
    "url", ["http://[fd00:ec2::254]/", "http://metadata.google.internal/", "http://h/%0d%0a", "http://169.254.169.254/"]
)
def test_credentials_of_clouds(tmp_path: Path, url: str) -> None:
    """A server that gives out a machine's credentials is no engine, however it is named."""
    ran = here(tmp_path, "plan", "engine=external", f"engine.base_url='{url}'")
    assert ran.code == 2
    assert "[base-url]" in ran.err
