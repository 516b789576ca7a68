"""`gatekit plan`: what would run, as a table, as JSON and as command lines."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import environment, gatekit, here

MATRIX = """\
description: Two sizes of the simulated gate
rows:
  - model: simulated
    set: {task.n: 60, protocol.system_prompt: 'You''re "exact", \\ always'}
  - model: simulated
    set: {task.n: 80}
"""
PRIVATE = """\
description: A server of our own
rows:
  - model: laguna_int4
    hw: b200
    set: {engine.args: [--looks-like-s3cret]}
"""


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A team's folder of matrices."""
    folder = tmp_path / "ours" / "matrix"
    folder.mkdir(parents=True)
    (folder / "m.yaml").write_text(MATRIX)
    return folder


def test_a_table_with_what_is_left_out(tmp_path: Path) -> None:
    """Every spec in a line, every combination that is left out with its reason."""
    ran = here(tmp_path, "plan", "blackwell")
    assert ran.code == 0
    for name in ("laguna_int4-b200-vllm", "inkling_small_nvfp4-b200x4-sglang"):
        assert name in ran.out
    assert "4 specs, 2 left out" in ran.out
    assert "[excluded]" in ran.out
    assert "[too-few-gpus]" in ran.out
    assert ran.err == ""


def test_one_document(tmp_path: Path) -> None:
    """As JSON: the resolved spec, its overrides and its place, and what is left out."""
    ran = here(tmp_path, "plan", "blackwell", "--format", "json", "task.n=9")
    assert ran.code == 0
    first = ran.data["specs"][0]
    assert first["name"] == "laguna_int4-b200-vllm"
    assert first["overrides"] == ["model=laguna_int4", "hw=b200", "task.n=9"]
    assert first["spec"]["task"]["n"] == 9
    assert [one["reason"] for one in ran.data["left_out"]] == ["excluded", "too-few-gpus"]
    assert here(tmp_path, "plan", "blackwell", "--json", "task.n=9").data == ran.data


def test_lines_are_command_lines(tmp_path: Path, ours: Path) -> None:
    """Each line, given to a shell or to xargs, is the command of that row: its words come out as they went in."""
    ran = here(tmp_path, "plan", "m", "--config-dir", "ours", "--format", "lines")
    assert ran.code == 0
    specs = here(tmp_path, "plan", "m", "--config-dir", "ours", "--json").data["specs"]
    wanted = [["gatekit", "run", *one["overrides"], "--config-dir", "ours"] for one in specs]
    assert [shlex.split(line) for line in ran.out.splitlines()] == wanted
    show = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))"]
    by_xargs = subprocess.run(["xargs", "-L1", *show], input=ran.out, capture_output=True, text=True, check=True)
    assert [json.loads(line) for line in by_xargs.stdout.splitlines()] == wanted
    for line, words in zip(ran.out.splitlines(), wanted, strict=True):
        by_shell = subprocess.run(
            ["sh", "-c", f"{shlex.join(show)} {line}"], capture_output=True, text=True, check=True
        )
        assert json.loads(by_shell.stdout) == words


def test_a_line_is_the_row(tmp_path: Path, ours: Path) -> None:
    """What a line's overrides resolve to is the spec that the plan shows."""
    specs = here(tmp_path, "plan", "m", "--config-dir", "ours", "--json").data["specs"]
    lines = here(tmp_path, "plan", "m", "--config-dir", "ours", "--format", "lines").out.splitlines()
    for one, line in zip(specs, lines, strict=True):
        assert here(tmp_path, "plan", "--json", *shlex.split(line)[2:]).data == one["spec"]


def test_private_values_are_never_shown(tmp_path: Path, ours: Path) -> None:
    """What a matrix sets where secrets go astray is in no format; its line names the row instead, and works."""
    (ours / "m.yaml").write_text(PRIVATE)
    dirs = ("--config-dir", "ours")
    for form in ("table", "json", "lines"):
        ran = here(tmp_path, "plan", "m", *dirs, "--format", form)
        assert ran.code == 0
        assert "s3cret" not in ran.out + ran.err
    (line,) = here(tmp_path, "plan", "m", *dirs, "engine=sim", "--format", "lines").out.splitlines()
    assert shlex.split(line)[2:6] == ["--matrix", "m", "--only", "laguna_int4-b200-sim"]
    again = here(tmp_path, "plan", *shlex.split(line)[2:], "--json")
    assert [one["name"] for one in again.data["specs"]] == ["laguna_int4-b200-sim"]


def test_typed_overrides_are_in_every_line(tmp_path: Path) -> None:
    """An address is repeated, so that the line is complete; a password is refused, and repeated nowhere."""
    external = ("plan", "small", "--format", "lines", "engine=external", "engine.base_url=http://127.0.0.1:8000")
    ran = here(tmp_path, *external)
    assert ran.code == 0
    assert all("engine.base_url=http://127.0.0.1:8000" in line for line in ran.out.splitlines())
    ran = here(tmp_path, *external, "history.url=postgresql://ci:s3cret@db/gates")
    assert (ran.code, ran.out) == (2, "")
    assert "[secret-in-override]" in ran.err
    assert "s3cret" not in ran.err


def test_problems_come_together_and_exit_2(tmp_path: Path, ours: Path) -> None:
    """All problems on stderr at file:line:column; nothing on stdout that a script could run."""
    text = "description: wrong\nrows:\n  - {model: lagna_int4}\n  - {model: laguna_int4, hw: h100, engine: vlm}\n"
    (ours / "m.yaml").write_text(text)
    for form in ("table", "lines"):
        ran = here(tmp_path, "plan", "m", "--config-dir", "ours", "--format", form)
        assert (ran.code, ran.out) == (2, "")
        assert "ours/matrix/m.yaml:3:13: model=lagna_int4: no such model; did you mean 'laguna_int4'?" in ran.err
        assert "ours/matrix/m.yaml:4:44: engine=vlm: no such engine; did you mean 'vllm'?" in ran.err
    ran = here(tmp_path, "plan", "m", "--config-dir", "ours", "--format", "json")
    assert ran.code == ran.data["exit_code"] == 2
    assert len(ran.data["problems"]) == 2


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("plan", "smal"), "did you mean 'small'?"),
        (("plan", "validat"), "did you mean the command `gatekit validate`?"),
        (("plan", "laguna_int4"), "did you mean model=laguna_int4?"),
        (("plan", "zzz"), "matrices are anywhere, blackwell, small, small_distributed"),
        (("plan", "../matrix/small"), "matrices are anywhere, blackwell, small, small_distributed"),
        (("plan", "small", "blackwell"), "gatekit plan --list"),
        (("plan", "small", "-m"), "gatekit plan --list"),
        (("plan", "--format", "lines"), "gatekit plan small"),
        (("run", "small"), "gatekit run --matrix small"),
        (("smal",), "gatekit run --matrix small"),
        (("run", "matrix=small"), "`gatekit run --matrix small` runs it"),
        (("-m", "matrix=small,blackwell"), "`gatekit run --matrix NAME` runs it"),
        (("plan", "small", "matrix=blackwell"), "`gatekit run --matrix blackwell` runs it"),
        (("plan", "small", "--only", "laguna_int4"), "did you mean 'laguna_int4-b200-vllm'?"),
    ],
)
def test_one_helpful_line(tmp_path: Path, arguments: tuple[str, ...], hint: str) -> None:
    """A word that is no matrix, or stands in the wrong place, is one line that says what to type."""
    ran = here(tmp_path, *arguments)
    assert ran.code == 2
    (line,) = ran.err.splitlines()
    assert hint in line


def test_without_a_matrix(tmp_path: Path) -> None:
    """Overrides alone give the resolved spec; nothing at all gives the default one and says how to name a matrix."""
    assert here(tmp_path, "plan", "task.n=7", "--json").data["task"]["n"] == 7
    assert here(tmp_path, "plan", "task.n=7", "--json").err == ""
    ran = here(tmp_path, "plan")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "name: simulated-cpu-sim")
    (line,) = ran.err.splitlines()
    assert "`gatekit plan NAME` plans a matrix (anywhere, blackwell, small, small_distributed)" in line


def test_a_value_of_the_matrix_is_blamed_at_its_line(tmp_path: Path, ours: Path) -> None:
    """What an override makes wrong of a value that the matrix sets is told at that value, which nobody has typed."""
    row = "  - model: laguna_int4\n    hw: b200x2\n    set:\n      engine.tensor_parallel_size: 2\n"
    (ours / "m.yaml").write_text("description: Ours.\nrows:\n" + row)
    asked = ("plan", "m", "--config-dir", "ours", "hw=b200")
    ran = here(tmp_path, *asked)
    assert ran.code == 2
    assert "ours/matrix/m.yaml:6:36: " in ran.err
    assert "[too-few-gpus]" in ran.err
    assert "override engine" not in ran.err
    typed = here(tmp_path, *asked, "engine.tensor_parallel_size=3")
    assert "override engine.tensor_parallel_size=3" in typed.err


def test_the_matrices(tmp_path: Path, ours: Path) -> None:
    """--list shows every matrix with its counts; a broken one is exit 2, with its problems."""
    ran = here(tmp_path, "plan", "--list", "--config-dir", "ours")
    assert ran.code == 0
    assert [line.split()[:4] for line in ran.out.splitlines()[1:]] == [
        ["anywhere", "2", "0", "0"],
        ["blackwell", "4", "2", "0"],
        ["m", "2", "0", "0"],
        ["small", "2", "0", "0"],
        ["small_distributed", "1", "0", "0"],
    ]
    (ours / "m.yaml").write_text("rows: []\n")
    ran = here(tmp_path, "plan", "--list", "--config-dir", "ours")
    assert ran.code == 2
    assert "ours/matrix/m.yaml:1:7: rows: the list names no spec" in ran.err
    assert here(tmp_path, "plan", "--list", "--json", "--config-dir", "ours").data["matrices"][2]["matrix"] == "m"


def test_a_matrix_that_shadows_a_shipped_one(tmp_path: Path, ours: Path) -> None:
    """A team's `small` takes the place of the shipped one, and a line says so."""
    (ours / "small.yaml").write_text(MATRIX)
    ran = here(tmp_path, "plan", "small", "--config-dir", "ours")
    assert ran.code == 0
    assert "simulated-cpu-sim[task.n=80]" in ran.out
    assert "matrix=small: ours/matrix/small.yaml shadows" in ran.err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"description: &a x\nrows: [{model: simulated, because: *a}]\n", "yaml-alias"),
        (b"description: !!python/object/apply:os.system ['touch PWN']\nrows: []\n", "yaml-tag"),
        (b"description: x\nrows: [{model: simulated, set: {_target_: os.system}}]\n", "runs-code"),
        (b"description: x\nrows: [{model: simulated, set: {engine.env: {_target_: os.system}}}]\n", "runs-code"),
        (b"description: x\nrows: [{model: simulated, set: {task.n: '${oc.env:HOME}'}}]\n", "resolver"),
        (b"description: x\nrows: [{model: 'simulated task.n=1; touch PWN'}]\n", "bad-form"),
        (b"description: x\nrows: [{model: simulated, set: {'task.n=1 engine.seed': 1}}]\n", "unknown-key"),
        (b"description: x\nrows: [{model: simulated}]\ndefaults: [small]\n", "unknown-key"),
        (b"# " + b"x" * 10_000_000, "file-too-large"),
        (b"description: " + b"[" * 100 + b"]" * 100, "file-too-complex"),
        (b"description: " + b"[" * 100_000, "yaml-syntax"),
        (b"description: x\nrows: [" + b"{model: simulated}, " * 19_000 + b"]\n", "file-too-complex"),
        (b"description: \xe9\nrows: []\n", "not-utf-8"),
        (b"", "missing-key"),
        (b"- x\n", "not-a-mapping"),
    ],
)
def test_hostile_files(tmp_path: Path, ours: Path, text: bytes, reason: str) -> None:
    """Whatever a matrix file holds, it is exit 2 with the reason, soon, and nothing of it runs."""
    (ours / "m.yaml").write_bytes(text)
    start = time.process_time()
    ran = here(tmp_path, "plan", "m", "--config-dir", "ours")
    assert time.process_time() - start < 2
    assert ran.code == 2
    assert f"[{reason}]" in ran.err
    assert not list(tmp_path.rglob("PWN"))


def test_no_control_characters(tmp_path: Path, ours: Path) -> None:
    """Names and descriptions of a matrix reach the terminal escaped."""
    (ours / "m.yaml").write_text('description: "red \\e[31m"\nrows: [{model: simulated, because: "\\e[0m"}]\n')
    for arguments in (
        ("plan", "m"),
        ("plan", "--list"),
        ("plan", "\x1b[31m"),
        ("run", "\x1b[31m"),
        ("plan", "m", "--only", "\x1b"),
    ):
        ran = here(tmp_path, *arguments, "--config-dir", "ours")
        assert "\x1b" not in ran.out + ran.err


def test_an_override_that_does_not_fit_on_a_line(tmp_path: Path) -> None:
    """A line end in an override would make two lines of one command: refused in that format, fine in the others."""
    prompt = "protocol.system_prompt='a\nb'"
    assert here(tmp_path, "plan", "small", prompt).code == 0
    ran = here(tmp_path, "plan", "small", prompt, "--format", "lines")
    assert (ran.code, ran.out) == (2, "")
    assert "[not-one-line]" in ran.err


def test_a_plan_is_quick(tmp_path: Path) -> None:
    """Planning a shipped matrix needs no Hydra: the command takes well under a second of computing."""
    before = os.times()
    assert gatekit(tmp_path, "plan", "blackwell").code == 0
    after = os.times()
    assert after.children_user - before.children_user < 1
    code = (
        "import sys; from gatekit.cli.main import main; main(['plan', 'blackwell']); assert 'hydra' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment(), check=True, stdout=subprocess.DEVNULL)
