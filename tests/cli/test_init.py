"""`gatekit init`: a new file, valid as it stands, over no other and through no link."""

from __future__ import annotations

import os
import pty
import select
import shlex
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from command_line import Ran, environment, here
from gatekit.resources import conf_dir

MODEL = ("init", "model", "mine", "--name", "org/mine")
EVERY = {
    "model": (
        *("--name", "Qwen/Qwen3-8B", "--engine", "sglang", "--hw", "h100x2", "--tensor-parallel-size", "2"),
        *("--quantization", "fp8", "--floor", "0.85", "--observed", "1161/1319", "--max-tokens", "512"),
        *("--revision", "0123456789" * 4, "--max-model-len", "4096", "--protocol", "completions_5shot"),
    ),
    "hw": ("--vendor", "amd", "--architecture", "cdna4", "--gpu", "MI355X", "--count", "8", "--memory-gib", "287"),
    "engine": ("--like", "sglang"),
    "protocol": ("--like", "completions_5shot", "--shots", "8", "--api", "chat", "--max-tokens", "99"),
    "matrix": ("--model", "laguna_int4", "--model", "laguna_nvfp4", "--hw", "b200", "--description", "Ours: all."),
}


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def run_printed(folder: Path, ran: Ran) -> list[Ran]:
    """Run the two commands that were printed below `next:`."""
    printed = [shlex.split(line)[1:] for line in ran.out.splitlines() if line.startswith("  gatekit ")]
    assert len(printed) == 2
    return [here(folder, *words) for words in printed]


@pytest.mark.parametrize("group", EVERY)
@pytest.mark.parametrize("full", [False, True])
def test_each_group(group: str, full: bool, tmp_path: Path) -> None:
    """Every group's file, bare and with every option, is written and resolves as it stands."""
    ran = here(tmp_path, "init", group, "mine", *(EVERY[group] if full else ()))
    assert (ran.code, files(tmp_path)) == (0, [f"conf/{group}/mine.yaml"]), ran.err
    asked = "mine" if group == "matrix" else f"{group}=mine"
    plan = here(tmp_path, "plan", asked, "--config-dir", "conf", "--json")
    assert plan.code == 0, plan.err
    assert here(tmp_path, "validate", f"conf/{group}/mine.yaml").code == 0
    if full and group == "model":
        spec = plan.data
        assert spec["model"]["quantization"] == "fp8"
        assert (spec["hw"]["name"], spec["engine"]["name"]) == ("h100x2", "sglang")
        assert spec["gate"]["measured_under"] == {"api": "completions", "shots": 5, "max_tokens": 512, "n": None}


def test_what_is_printed_next_works(tmp_path: Path) -> None:
    """The commands that init prints can be pasted: the file is valid, and the model rehearses without a GPU."""
    ran = here(tmp_path, *MODEL)
    assert ran.out.startswith("wrote conf/model/mine.yaml\n")
    done = run_printed(tmp_path, ran)
    assert done[0].code == 0, done[0].err
    assert done[-1].code == 4
    assert "INCONCLUSIVE" in done[-1].out


@pytest.mark.parametrize("engine", sorted(path.stem for path in (conf_dir() / "engine").glob("*.yaml")))
def test_like_every_engine(engine: str, tmp_path: Path) -> None:
    """An engine of one's own may start from any that is shipped."""
    assert here(tmp_path, "init", "engine", "mine", "--like", engine).code == 0


def test_hardware_counts_as_its_name_says(tmp_path: Path) -> None:
    """A machine named for its number of GPUs has that number, unless another is typed."""
    assert here(tmp_path, "init", "hw", "gb300x4").code == 0
    assert "\ncount: 4\n" in (tmp_path / "conf/hw/gb300x4.yaml").read_text()


@pytest.mark.parametrize(
    ("chosen", "machine"),
    [
        (("laguna_int4",), "b200"),
        (("diffusiongemma_fp8", "laguna_int4"), "b200x2"),
        (("inkling_small_nvfp4",), "b200x4"),
        (("tiny_gsm",), "cpu"),
        ((), "cpu"),
    ],
)
def test_a_matrix_names_a_machine_that_fits(chosen: tuple[str, ...], machine: str, tmp_path: Path) -> None:
    """Without --hw a new matrix names the smallest machine that its models can be served on."""
    words = [word for model in chosen for word in ("--model", model)]
    assert here(tmp_path, "init", "matrix", "mine", *words).code == 0
    assert f"hw: {machine}\n" in (tmp_path / "conf/matrix/mine.yaml").read_text()


def test_a_matrix_of_a_new_model(tmp_path: Path) -> None:
    """A new model on vLLM is not put onto a machine without GPUs."""
    assert here(tmp_path, *MODEL).code == 0
    assert here(tmp_path, "init", "matrix", "ours", "--model", "mine").code == 0
    text = (tmp_path / "conf/matrix/ours.yaml").read_text()
    assert "hw: cpu" not in text


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A file that is there stays byte for byte as it is: exit 2, one line."""
    here(tmp_path, *MODEL)
    before = (tmp_path / "conf/model/mine.yaml").read_bytes()
    ran = here(tmp_path, *MODEL[:-1], "org/other")
    assert (ran.code, ran.err.count("\n"), ran.out) == (2, 1, "")
    assert "[file-exists]" in ran.err
    assert (tmp_path / "conf/model/mine.yaml").read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [("model", name) for name in ("../x", "/abs", "-rf", "", "x" * 300, "null", "a b", "x\n", ".", "--", "\x1b[31m")]
    + [
        ("model", "--", "-rf"),
        ("model", "mine", "--engine", "nope"),
        ("model", "mine", "--quantization", "FP 8"),
        ("model", "mine", "--revision", "main"),
        ("model", "mine", "--name", "a\nb"),
        ("model", "mine", "--floor", "90"),
        ("model", "mine", "--observed", "9/8"),
        ("model", "mine", "--tensor-parallel-size", "4", "--hw", "h100"),
        ("model", "mine", "--quantization", "nvfp4", "--hw", "h100"),
        ("model", "mine", "extra"),
        ("hw", "mine", "--vendor", "intel"),
        ("hw", "mine", "--vendor", "amd", "--count", "0"),
        ("hw", "mine", "--vendor", "none", "--count", "2"),
        ("matrix", "mine", "--model", "nope"),
        ("protocol", "mine", "--api", "telepathy"),
        ("engine", "mine", "--like", "nope"),
        ("task", "mine"),
        ("model",),
        (),
        ("model", "mine", "--config-dir", ""),
        ("model", "mine", "--config-dir", "no/such"),
        ("model", "mine", "--config-dir", "a-file"),
    ],
    ids=repr,
)
def test_an_error_creates_nothing(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Whatever is refused is told in one clean line with exit 2, and leaves no file and no folder."""
    (tmp_path / "a-file").write_text("")
    ran = here(tmp_path, "init", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert "\x1b" not in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["a-file"]


def test_a_shipped_name_is_announced(tmp_path: Path) -> None:
    """The name of a shipped option may be taken, and is announced as shadowing it."""
    ran = here(tmp_path, "init", "model", "laguna_int4", "--name", "org/x")
    assert ran.code == 0
    told = "conf/model/laguna_int4.yaml shadows the shipped model/laguna_int4.yaml [shadowed]"
    assert ran.err == f"gatekit: model=laguna_int4: {told}\n"


@pytest.mark.parametrize("linked", ["conf", "conf/model", "conf/model/mine.yaml"])
@pytest.mark.parametrize("dangles", [False, True])
def test_no_link_is_followed(linked: str, dangles: bool, tmp_path: Path) -> None:
    """A link in the place of the folder, the group or the file leads nowhere: nothing is written at its end."""
    target = tmp_path / "elsewhere"
    if not dangles:
        target.mkdir()
    link = tmp_path / "here" / linked
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    ran = here(tmp_path / "here", *MODEL)
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
    assert not target.exists() or list(target.iterdir()) == []


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """A write that fails is INFRA, and takes back the folders that were made for it."""
    script = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from gatekit.spec.new_file import write_new\n"
        "from gatekit.errors import InfraError\n"
        "from pathlib import Path\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try:\n    write_new(Path('conf'), 'model', 'mine.yaml', 'x' * 1000)\n"
        "except InfraError:\n    sys.exit(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path)
    assert done.returncode == 3
    assert list(tmp_path.iterdir()) == []


def test_of_two_at_once_one_wins(tmp_path: Path) -> None:
    """Two commands for the same name at the same moment: one file, whole, and one refusal."""
    command = [sys.executable, "-m", "gatekit", "init", "model", "mine", "--name"]
    both = [
        subprocess.Popen([*command, f"org/{i}"], cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL)
        for i in range(2)
    ]
    assert sorted(one.wait(60) for one in both) == [0, 2]
    assert files(tmp_path) == ["conf/model/mine.yaml"]
    assert here(tmp_path, "plan", "model=mine", "--config-dir", "conf").code == 0


def test_the_file_is_readable(tmp_path: Path) -> None:
    """A config is shared with a team: others may read it, as the umask allows."""
    here(tmp_path, *MODEL)
    assert stat.S_IMODE((tmp_path / "conf/model/mine.yaml").stat().st_mode) == 0o644 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_folder_of_the_variable(tmp_path: Path) -> None:
    """Without --config-dir the first folder of GATEKIT_CONF_PATH is the team's, made if it is missing."""
    (tmp_path / "b").mkdir()
    ran = here(tmp_path, *MODEL, extra={"GATEKIT_CONF_PATH": ":a:b"})
    assert ran.code == 0, ran.err
    assert files(tmp_path) == ["a/model/mine.yaml"]
    assert "--config-dir" not in ran.out


def test_never_inside_an_installed_package(tmp_path: Path) -> None:
    """What the next installation wipes out is no place for a config."""
    package = tmp_path / "lib" / "site-packages" / "gatekit" / "_data" / "conf"
    package.mkdir(parents=True)
    ran = here(tmp_path, *MODEL, "--config-dir", str(package))
    assert (ran.code, files(tmp_path)) == (2, [])
    assert "[installed-package]" in ran.err


def on_a_terminal(
    folder: Path, answers: Sequence[bytes], arguments: Sequence[str], extra: dict[str, str] | None = None
) -> tuple[int, str]:
    """The exit code and all that a real terminal showed, with each answer typed when a question stands there."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        kept = {key: value for key, value in environment(extra).items() if key != "CI" or (extra and "CI" in extra)}
        os.execve(sys.executable, [sys.executable, "-m", "gatekit", *arguments], kept)
    shown, todo = b"", list(answers)
    limit = time.monotonic() + 30
    try:
        while (piece := _piece(terminal, limit)) is not None:
            shown += piece
            if todo and shown.endswith(b"]: "):
                time.sleep(0.3)  # Python loses a Ctrl-C between the prompt and the reading of its answer
                os.write(terminal, todo.pop(0))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode()
    finally:
        os.close(terminal)


def _piece(terminal: int, limit: float) -> bytes | None:
    """What is shown next; None at the end. Fails when nothing more comes before the limit."""
    if not select.select([terminal], [], [], max(0, limit - time.monotonic()))[0]:
        pytest.fail("the command still waits for something")
    try:
        return os.read(terminal, 4096) or None
    except OSError:  # Linux says so when the other end is closed
        return None


def test_a_terminal_is_asked(tmp_path: Path) -> None:
    """On a terminal what no option says is asked, by number or name, with a default and a second try."""
    answers = [b"org/typed\n", b"99\n", b"vllm\n", b"\n", b"2\n", b"fp8\n"]
    code, shown = on_a_terminal(tmp_path, answers, ["init", "model", "mine"])
    assert code == 0, shown
    assert "99 is none of them" in shown
    text = (tmp_path / "conf/model/mine.yaml").read_text()
    assert "name: org/typed" in text
    assert "override /engine: vllm" in text
    assert "override /protocol: chat_5shot" in text
    assert "override /hw: a100" in text
    assert "quantization: fp8" in text


def test_options_are_not_asked_again(tmp_path: Path) -> None:
    """What an option says is not asked on a terminal."""
    given = ["--name", "o/m", "--engine", "vllm", "--protocol", "chat_5shot", "--hw", "h100", "--quantization", "fp8"]
    code, shown = on_a_terminal(tmp_path, [], ["init", "model", "mine", *given])
    assert (code, "]: " in shown) == (0, False)


def test_ci_is_asked_nothing(tmp_path: Path) -> None:
    """In CI nothing is asked even where there is a terminal."""
    code, shown = on_a_terminal(tmp_path, [], [*MODEL], {"CI": "true"})
    assert (code, "]: " in shown) == (0, False)


@pytest.mark.parametrize(("answer", "code"), [(b"\x04", 2), (b"\x03", 130)])
def test_giving_up_creates_nothing(answer: bytes, code: int, tmp_path: Path) -> None:
    """The end of input is wrong input, Ctrl-C an interruption; neither leaves a file."""
    assert on_a_terminal(tmp_path, [answer], ["init", "model", "mine"])[0] == code
    assert list(tmp_path.iterdir()) == []
