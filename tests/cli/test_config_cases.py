"""The catalogue of wrong configs, row by row, as a maintainer meets them: by `validate`, and by a run.

Every row: exit 2, no traceback, a place and a next step, no record, nothing run. C28 to C30 are about the one command
that writes a file which decides, `thresholds recompute --write`.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import Ran, environment, gatekit, here
from nights import ASKED, LOCK

BASE = "defaults:\n  - simulated\n"
SECRET = "sk-live-0123456789abcdef"


def model(folder: Path, text: str | bytes) -> Path:
    path = folder / "conf" / "model" / "mine.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(ran: Ran, folder: Path) -> list[str]:
    """The lines of a refusal, with nothing left behind but the config."""
    assert ran.code == 2, (ran.out, ran.err)
    assert "Traceback" not in ran.out + ran.err
    assert {path.name for path in folder.iterdir()} <= {"conf"}
    return [line for line in [*ran.out.splitlines(), *ran.err.splitlines()] if line.endswith("]")]


def both(folder: Path, text: str | bytes) -> list[str]:
    """What `validate` says about a model file; a run says the same mistakes."""
    model(folder, text)
    lines = refused(here(folder, "validate"), folder)
    run = refused(here(folder, "--config-dir", "conf", "model=mine"), folder)
    assert {line.removeprefix("gatekit: ") for line in run} & set(lines)
    assert all(line.startswith("conf/model/mine.yaml") for line in lines), lines
    return lines


def override(folder: Path, *overrides: str) -> str:
    lines = refused(here(folder, *overrides), folder)
    assert lines
    return "\n".join(lines)


def test_c01_a_misspelt_key(tmp_path: Path) -> None:
    """C01: the key, its line, and the key that is meant."""
    (line,) = both(tmp_path, BASE + "gate:\n  thresold: 0.9\n")
    assert line == "conf/model/mine.yaml:4:3: gate: unknown key 'thresold'; did you mean 'floor'? [unknown-key]"


def test_c02_three_misspelt_keys(tmp_path: Path) -> None:
    """C02: all three in one run."""
    lines = both(tmp_path, BASE + "gate:\n  flor: 0.9\nengine:\n  acuracy: 1\nclient:\n  conccurrency: 1\n")
    assert [re.findall(r"did you mean '(\w+)'", line) for line in lines] == [["floor"], ["accuracy"], ["concurrency"]]


@pytest.mark.parametrize(("value", "shown"), [("abc", "'abc'"), ("1.5", "1.5"), ("true", "True")])
def test_c03_a_value_of_another_type(tmp_path: Path, value: str, shown: str) -> None:
    """C03: the expected type and the offending value."""
    (line,) = both(tmp_path, BASE + f"task:\n  n: {value}\n")
    assert line.startswith(f"conf/model/mine.yaml:4:6: task.n: expected a whole number or null, got {shown}")


@pytest.mark.parametrize("value", ["0", "-5"])
def test_c04_a_number_out_of_range(tmp_path: Path, value: str) -> None:
    """C04: the allowed range."""
    (line,) = both(tmp_path, BASE + f"task: {{n: {value}}}\n")
    assert f"task.n: {value} is out of range; between 1 and 1000000 [out-of-range]" in line


def test_c05_a_threshold_in_percent(tmp_path: Path) -> None:
    """C05: thresholds are fractions, and which one is meant."""
    (line,) = both(tmp_path, BASE + "gate:\n  floor: 90\n")
    assert "thresholds are fractions between 0 and 1; did you mean 0.90?" in line


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "-0.1", "1.0001"])
def test_c06_no_threshold_at_all(tmp_path: Path, value: str) -> None:
    """C06: no NaN, no infinity, nothing outside of 0 to 1."""
    (line,) = both(tmp_path, BASE + f"gate: {{floor: {value}}}\n")
    assert line.endswith(("[not-finite]", "[out-of-range]"))


def test_c07_a_key_twice(tmp_path: Path) -> None:
    """C07: both line numbers."""
    (line,) = both(tmp_path, BASE + "task:\n  n: 100\n  path: null\n  n: 200\n")
    assert "key 'n' stands twice, on lines 4 and 6" in line


def test_c08_no_such_option(tmp_path: Path) -> None:
    """C08: the nearest options."""
    model(tmp_path, BASE)
    (tmp_path / "conf" / "model" / "qwen3.yaml").write_text(BASE)
    said = override(tmp_path, "--config-dir", "conf", "model=qwne")
    assert "did you mean qwen3" in said
    (tmp_path / "conf" / "model" / "mine.yaml").write_text(BASE + "  - override /engine: vlm\n")
    (line,) = refused(here(tmp_path, "validate"), tmp_path)
    assert line.startswith("conf/model/mine.yaml:3:23: engine=vlm: no such engine; did you mean vllm")


def test_c09_no_such_hardware(tmp_path: Path) -> None:
    """C09: the known machines, and how to add one."""
    for asked in ("hw=h2000", "hw=mi999"):
        said = override(tmp_path, asked)
        assert all(name in said for name in ("h200", "b200x8", "mi300x", "hw/", "--config-dir"))
    assert "did you mean 'hw'?" in override(tmp_path, "hardware=h2000")


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcd", "bcde", strict=True)
)


def limited(folder: Path, megabytes: int) -> subprocess.CompletedProcess[str]:
    """`validate` in a process that may take so much memory."""
    limit = megabytes << 20

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return subprocess.run(
        [sys.executable, "-m", "gatekit", "validate"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=20,
        preexec_fn=bound,
    )


def test_c10_an_alias_bomb(tmp_path: Path) -> None:
    """C10: refused in under 2 s and 200 MB."""
    assert len(BOMB) < 400
    model(tmp_path, BOMB)
    began = time.monotonic()
    done = limited(tmp_path, 200)
    assert time.monotonic() - began < 2
    assert done.returncode == 2, done.stderr
    assert "conf/model/mine.yaml:2:8: anchors and aliases are not allowed" in done.stdout


def test_c11_a_file_of_10_megabytes(tmp_path: Path) -> None:
    """C11: the limit is named, in under a second of reading."""
    model(tmp_path, "a: " + "x" * 10_000_000 + "\n")
    began = time.monotonic()
    (line,) = refused(here(tmp_path, "validate"), tmp_path)
    assert time.monotonic() - began < 1
    assert line == "conf/model/mine.yaml: larger than 1 MiB [file-too-large]"


def test_c12_a_tag_that_runs_code(tmp_path: Path) -> None:
    """C12: refused by name; nothing ran."""
    model(tmp_path, "a: !!python/object/apply:os.system ['touch PWN']\n")
    lines = refused(gatekit(tmp_path, "validate"), tmp_path)
    wanted = "conf/model/mine.yaml:1:4: tag 'tag:yaml.org,2002:python/object/apply:os.system' is not allowed [yaml-tag]"
    assert wanted in lines


@pytest.mark.parametrize(
    "place", ["_target_: os.system\n", "engine: {env: {_target_: os.system}}\n", "a: [{_target_: x}]\n"]
)
def test_c13_a_target(tmp_path: Path, place: str) -> None:
    """C13: refused anywhere, though nothing would instantiate it."""
    lines = both(tmp_path, BASE + place)
    assert any("key '_target_' is not allowed: configs run no code [runs-code]" in line for line in lines)


def test_c14_an_environment_variable(tmp_path: Path) -> None:
    """C14: refused; its value appears nowhere."""
    model(tmp_path, BASE + "model:\n  name: ${oc.env:HF_TOKEN}\n")
    for arguments in (["validate"], ["--config-dir", "conf", "model=mine"], ["model.name=${oc.env:HF_TOKEN}"]):
        ran = here(tmp_path, *arguments, extra={"HF_TOKEN": SECRET})
        assert any("resolver" in line for line in refused(ran, tmp_path))
        assert SECRET not in ran.out + ran.err


def test_c15_references_to_nothing_and_in_a_circle(tmp_path: Path) -> None:
    """C15: found before anything starts; the cycle is named."""
    lines = both(tmp_path, BASE + "task:\n  n: ${nope}\nmodel:\n  name: ${model.revision}\n  revision: ${model.name}\n")
    assert len(lines) == 3
    assert "task.n: refers to nope, which is not there" in lines[0]
    assert "model.name: refers to model.revision, which is a reference itself (a cycle or a chain)" in lines[1]


@pytest.mark.parametrize(
    "value",
    [
        *("on", "off", "yes", "no", "y", "N", "On", "0123", "-07", "00", "08", "1e5", "1E5", "1e+5", ".5e3", "1.5e3"),
        *(
            "12:30:45",
            "1:30",
            "190:20:30.15",
            "0o17",
            "0b11",
            "1_000",
            "0x_1f",
            "+0x1f",
            "2024-05-03",
            "2001-12-14 21:59",
        ),
        *("2001-12-14t21:59:43.10-05:00", "=", "<<"),
    ],
)
def test_c16_values_that_yaml_reads_in_two_ways(tmp_path: Path, value: str) -> None:
    """C16: "quote this value"; quoted it is a text like any other."""
    if value == "2001-12-14 21:59":
        value = "2001-12-14 21:59:43"
    model(tmp_path, BASE + f"model:\n  name: {value}\n")
    (line,) = refused(here(tmp_path, "validate"), tmp_path)
    assert line == (
        f"conf/model/mine.yaml:4:9: {value} is read differently by YAML 1.1 and 1.2; quote this value [ambiguous-value]"
    )
    model(tmp_path, BASE + f"model:\n  name: '{value}'\n")
    assert here(tmp_path, "validate").code == 0


@pytest.mark.parametrize(
    "name", ["../../etc/x", "/abs", "-rf", "", ".", "x" * 300, "a\n", "a b", "..", "a/b", "\u202ex"]
)
def test_c17_names_of_runs(tmp_path: Path, name: str) -> None:
    """C17: the allowed pattern is shown; nothing is made."""
    lines = refused(here(tmp_path, f"--run-id={name}", "task.n=5", "gate=auto"), tmp_path)
    assert len(lines) == 1
    assert re.search(r"letters|A-Z", lines[0]), lines


def test_c17_a_name_with_a_null(tmp_path: Path) -> None:
    """C17: neither does a null byte reach the file system."""
    assert len(refused(here(tmp_path, "--run-id=a\0b"), tmp_path)) == 1


def test_c18_byte_order_mark_and_crlf(tmp_path: Path) -> None:
    """C18: the same spec as of the plain file."""
    text = BASE + "model:\n  name: ours\nprotocol:\n  question_template: |\n    Q: {question}\n    A:\n"
    model(tmp_path, text)
    plain = here(tmp_path, "plan", "--config-dir", "conf", "model=mine", "--json")
    model(tmp_path, b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    windows = here(tmp_path, "plan", "--config-dir", "conf", "model=mine", "--json")
    assert (plain.code, windows.code) == (0, 0)
    assert plain.data == windows.data
    assert here(tmp_path, "validate").code == 0


def test_c19_latin_1(tmp_path: Path) -> None:
    """C19: the byte is named."""
    (line,) = both(tmp_path, BASE.encode() + b"a: caf\xe9\n")
    assert line == f"conf/model/mine.yaml: not UTF-8 at byte {len(BASE) + 6} [not-utf-8]"


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "\ufeff", "---\n", "null\n"])
def test_c20_an_empty_file(tmp_path: Path, text: str) -> None:
    """C20: every missing key at once."""
    lines = both(tmp_path, text)
    assert [re.findall(r"missing key '(\w+)'", line) for line in lines] == [
        ["model"],
        ["name"],
        ["server_args"],
        ["server_env"],
    ]


def test_c21_arguments_as_one_text(tmp_path: Path) -> None:
    """C21: a list, never passed to a shell."""
    (line,) = both(tmp_path, BASE + 'model:\n  server_args: {sim: "--max-model-len 4096; touch PWN"}\n')
    assert "write it as a list, one item per argument: it is never passed to a shell" in line


@pytest.mark.parametrize("flag", ["--port", "--host", "--served-model-name", "--host=0.0.0.0", "--served_model_name"])
def test_c22_managed_flags(tmp_path: Path, flag: str) -> None:
    """C22: managed by gatekit."""
    (line,) = both(tmp_path, BASE + f"model:\n  server_args: {{vllm: ['{flag}', x]}}\n")
    assert f"{flag.split('=')[0].replace('_', '-')} is managed by gatekit; remove it [managed-flag]" in line


@pytest.mark.parametrize(
    "text",
    [
        f"model: {{server_args: {{vllm: [--api-key, {SECRET}]}}}}\n",
        f"engine: {{args: [--hf-token={SECRET}]}}\n",
        f"engine: {{args: [--header, 'Bearer {SECRET}']}}\n",
        f"engine: {{env: {{VLLM_API_KEY: {SECRET}}}}}\n",
        f"engine: {{env: {{HARMLESS: {SECRET}}}}}\n",
        f"history: {{url: 'postgresql://ci:{SECRET}@db/x'}}\n",
    ],
)
def test_c23_secrets(tmp_path: Path, text: str) -> None:
    """C23: refused where it stands, and repeated in no line or format."""
    model(tmp_path, BASE + text)
    for arguments in (["validate"], ["validate", "--json"], ["--config-dir", "conf", "model=mine", "--json"]):
        ran = here(tmp_path, *arguments)
        assert ran.code == 2
        assert "secret" in ran.out + ran.err or "managed by gatekit" in ran.out + ran.err
        assert SECRET not in ran.out + ran.err
    assert {path.name for path in tmp_path.iterdir()} == {"conf"}


def test_c24_remote_code(tmp_path: Path) -> None:
    """C24: pin a 40-hex revision, and allow it."""
    lines = both(tmp_path, BASE + "model:\n  trust_remote_code: true\n")
    assert "set model.allow_remote_code: true" in lines[0]
    assert "set model.revision to the 40-hex commit" in lines[1]
    (short,) = both(tmp_path, BASE + "model: {trust_remote_code: true, allow_remote_code: true, revision: main}\n")
    assert "40 hex digits" in short


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("file:///etc/passwd", "scheme 'file'"),
        ("ftp://h", "scheme 'ftp'"),
        ("http://user:pw@h", "credentials"),
        ("http://169.254.169.254/", "link-local"),
    ],
)
def test_c25_addresses(tmp_path: Path, url: str, why: str) -> None:
    """C25: other schemes, credentials and link-local hosts."""
    (line,) = both(tmp_path, f"{BASE}  - override /engine: external\nengine:\n  base_url: {url}\n")
    assert line.startswith("conf/model/mine.yaml:5:13: ")
    assert why in line
    assert "user:pw" not in line


def test_c26_launch_and_connect(tmp_path: Path) -> None:
    """C26: both, or neither: the two keys that exclude each other."""
    text = "defaults:\n  - laguna_int4\nengine:\n  base_url: http://127.0.0.1:8000\n"
    (line,) = refused(here(tmp_path, "validate", str(model(tmp_path, text))), tmp_path)
    assert "engine.base_url and engine.command exclude each other" in line
    (line,) = refused(
        here(
            tmp_path,
            "validate",
            str(model(tmp_path, text.replace("http://127.0.0.1:8000", "null") + "  command: null\n")),
        ),
        tmp_path,
    )
    assert "engine.command starts a server, engine.base_url (engine=external) is a running one" in line


@pytest.mark.parametrize("value", ["0", "100000"])
def test_c27_requests_in_flight(tmp_path: Path, value: str) -> None:
    """C27: the range, and the process's limit of open files."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    (line,) = both(tmp_path, BASE + f"client: {{concurrency: {value}}}\n")
    assert f"{value} is out of range; between 1 and 4096" in line
    assert f"{limit} files" in line


def test_c27_more_requests_than_files(tmp_path: Path) -> None:
    """C27: a number in range is refused where this process may not open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    model(tmp_path, BASE + "client: {concurrency: 500}\n")
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, hard))
    try:
        ran = here(tmp_path, "validate")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    (line,) = refused(ran, tmp_path)
    assert "a process may open 400 files here (ulimit -n)" in line
    assert here(tmp_path, "validate").code == 0


def test_c28_a_lock_that_changed_since_it_was_read(folder: Path) -> None:
    """C28: a lock is compared anew with what stands there when it is written; what somebody edited is not trusted.

    Configs themselves are never written. Two writers at once are in test_thresholds.py.
    """
    assert here(folder, "thresholds", "recompute", *ASKED, "--write").code == 0
    path = folder / LOCK
    path.write_text(path.read_text().replace("k_reject: ", "k_reject: 1", 1))
    edited = path.read_bytes()
    assert here(folder, *ASKED, "gate=locked").code == 2, "an edited lock decides nothing"
    assert path.read_bytes() == edited


def test_c29_a_folder_that_takes_no_file(folder: Path) -> None:
    """C29: INFRA, and nothing is left."""
    before = sorted(folder.rglob("*"))
    ran = here(folder, "thresholds", "recompute", *ASKED, "gate.locks=/proc/none", "--write")
    assert ran.code == 3, (ran.out, ran.err)
    assert "[lock-not-written]" in ran.err
    assert sorted(folder.rglob("*")) == before


def test_c30_twice_in_a_row(folder: Path) -> None:
    """C30: the second writes the same bytes, and no config is touched by either."""
    text = BASE + "# a remark\ngate:   {method:  auto}   # kept\n"
    file = model(folder, text)
    asked = [*ASKED, "--config-dir", "conf", "--write"]
    assert here(folder, "thresholds", "recompute", *asked).code == 0
    first = (folder / LOCK).read_bytes()
    assert here(folder, "thresholds", "recompute", *asked).code == 0
    assert (folder / LOCK).read_bytes() == first
    assert file.read_text() == text
