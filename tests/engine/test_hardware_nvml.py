"""NVIDIA's GPUs through the real bindings (nvidia-ml-py), which load a library of NVML's C interface built here.

There is no GPU behind it: its answers are those of a file. What is real is the way there: the bindings find it as they
find the driver's own, and gatekit runs as its users run it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, environment, gatekit, record
from gatekit.records.run import record_from_plain
from gatekit.resources import conf_dir

SOURCE = Path(__file__).with_name("stand_in_nvml.c")
H200 = "name=NVIDIA H200\ntotal=143771\nused=4\nreserved=600\npower=700000\n"
H200X8 = H200 + "count=8\n"
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, FUNCTION_NOT_FOUND = 3, 4, 9, 13
GPU_IS_LOST, LIB_RM_VERSION_MISMATCH = 15, 18
Look = Callable[..., Any]

# An engine of kind launch: real HTTP on the port that it is given, one answer to everything.
ENGINE = """#!{python} -S
import http.server, json, os, sys
name = sys.argv[sys.argv.index("--name") + 1]
port = int(sys.argv[sys.argv.index("--port") + 1])
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer({{"object": "list", "data": [{{"id": name}}]}})
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {{"index": 0, "text": "#### 2", "finish_reason": "stop"}}
        usage = {{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
        self.answer({{"object": "text_completion", "model": name, "choices": [choice], "usage": usage}})
    def log_message(self, *_): pass
print(os.environ.get("CUDA_DEVICE_ORDER"), flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
OWN = """name: own
kind: launch
command: [{program}]
flags: {{host: --host, port: --port, served_model_name: --name}}
startup_timeout_s: 60
health_path: /v1/models
version_path: null
args: []
env: {{}}
"""
LINES = """
import contextlib, io, json, os, sys
from pathlib import Path
from gatekit.cli.main import main
results = []
for says, arguments, variables in json.load(sys.stdin):
    Path(os.environ["NVML_STAND_IN"]).write_text(says)
    os.environ.update(variables)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = int(main(arguments))
    results.append({"code": code, "out": out.getvalue(), "err": err.getvalue()})
    for name in variables:
        del os.environ[name]
print(json.dumps(results))
"""
LOOK = """
import dataclasses, json, os, sys
from pathlib import Path
from gatekit.engine import nvml
from gatekit.engine.gpus import memory_in_use, seen
state, answers = Path(os.environ["NVML_STAND_IN"]), []
for text, environ in json.load(sys.stdin):
    state.write_text(text)
    answers.append(dataclasses.asdict(seen("nvidia", environ)) | {"in_use": memory_in_use(environ)})
state.write_text("hang=60\\n")
answers.append(dataclasses.asdict(nvml.read(timeout_s=0.2)))
print(json.dumps(answers), flush=True)
os._exit(0)
"""


# What the machine says, who asks how, and what comes of it.
REFUSED: list[tuple[str, list[str], dict[str, str], str, str]] = [
    (
        "count=8\nname=NVIDIA B200\ntotal=183359\ncapability=10.0\n",
        ["hw=h200"],
        {},
        "hardware-missing",
        "hw=h200 asks for 1 NVIDIA H200 of 140 GiB; this machine has 8 x NVIDIA B200 (179.1 GiB)",
    ),
    (
        H200 + "count=4\n",
        ["hw=h200x8"],
        {},
        "hardware-missing",
        "hw=h200x8 asks for 8 NVIDIA H200 of 140 GiB; this machine has 4 x NVIDIA H200 (140.4 GiB)",
    ),
    (
        "count=1\nname=NVIDIA A100-SXM4-40GB\ntotal=40960\ncapability=8.0\n",
        ["hw=a100"],
        {},
        "hardware-missing",
        "hw=a100 asks for 1 NVIDIA A100 of 79 GiB; this machine has 1 x NVIDIA A100-SXM4-40GB (40.0 GiB)",
    ),
    (
        H200X8 + "used.1=70004\nprocesses.1=4242:70000,7:-1\n",
        ["hw=h200x8"],
        {},
        "gpu-memory-in-use",
        "GPU 1, NVIDIA H200, has 70004 of 143771 MiB in use: pid 4242 70000 MiB, pid 7",
    ),
    (
        H200X8 + "used.0=70000\n",
        ["hw=h200"],
        {},
        "gpu-memory-in-use",
        "its driver names no process here; end what holds it, set CUDA_VISIBLE_DEVICES=GPU-00000001-feed",
    ),
    (
        H200X8,
        ["hw=h200x8"],
        {"CUDA_VISIBLE_DEVICES": "0,1,-1,3"},
        "hardware-missing",
        "has 2 x NVIDIA H200 (140.4 GiB) that is visible with CUDA_VISIBLE_DEVICES='0,1,-1,3', of 8 in all",
    ),
    (
        H200X8 + f"memory_error.0={GPU_IS_LOST}\n",
        ["hw=h200"],
        {},
        "gpu-order",
        "NVIDIA H200 (GPU is lost), NVIDIA H200 (140.4 GiB), and the first visible ones are not all such; "
        "set CUDA_VISIBLE_DEVICES=GPU-00000001-feed",
    ),
    (
        H200X8 + f"init_error={LIB_RM_VERSION_MISMATCH}\n",
        ["hw=h200"],
        {},
        "gpu-driver",
        "NVIDIA's kernel driver and its libraries are of different versions",
    ),
    (
        H200X8 + f"init_error={NO_PERMISSION}\n",
        ["hw=h200"],
        {},
        "gpu-driver",
        "this user has no permission to use NVIDIA's driver (/dev/nvidiactl)",
    ),
    (
        f"init_error={DRIVER_NOT_LOADED}\n",
        ["hw=unheard_of"],
        {"NVIDIA_VISIBLE_DEVICES": "none"},
        "hardware-missing",
        "hw=unheard_of asks for 1 NVIDIA Unheard Of; this machine has ",
    ),
]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a libnvidia-ml.so.1; without a compiler a test is skipped, and in CI it fails."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        if os.environ.get("CI"):
            pytest.fail("a C compiler is required in CI")
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("nvml")
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)]
    subprocess.run(command, check=True)
    return folder


@dataclass(frozen=True)
class Machine:
    """A folder in which gatekit runs as on a machine whose NVML says what it is told to say."""

    folder: Path
    variables: dict[str, str]

    def words(self, *arguments: str) -> list[str]:
        """The command line that gates a small engine of kind launch."""
        words = ["--config-dir", str(self.folder / "ours"), "engine=own", "task.n=20", "gate=static_floor"]
        return [*words, "gate.floor=0.8", "--json", *arguments]

    def run(self, says: str, *arguments: str, **extra: str) -> Ran:
        """Gates the small engine, in a process of its own."""
        Path(self.variables["NVML_STAND_IN"]).write_text(says)
        return gatekit(self.folder, *self.words(*arguments), extra=self.variables | extra)

    def lines(self, *cases: tuple[str, list[str], dict[str, str]]) -> list[Ran]:
        """One command line after another in one process, which has loaded the library: text, arguments, variables."""
        return [Ran(**one) for one in self.python(LINES, cases)]

    def python(self, program: str, given: Any) -> Any:
        """What the program prints as JSON when it is given a value as JSON."""
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(given),
            env=environment(self.variables),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def machine(library: Path, tmp_path: Path) -> Machine:
    """A machine on which the small engine is installed, and nothing hides a GPU."""
    program = tmp_path / "engine-program"
    program.write_text(ENGINE.format(python=sys.executable))
    program.chmod(0o755)
    (tmp_path / "ours/engine").mkdir(parents=True)
    (tmp_path / "ours/hw").mkdir()
    (tmp_path / "ours/engine/own.yaml").write_text(OWN.format(program=program))
    (tmp_path / "ours/hw/unheard_of.yaml").write_text("name: unheard_of\nvendor: nvidia\ngpu: Unheard Of\ncount: 1\n")
    variables = {"NVML_STAND_IN": str(tmp_path / "nvml.txt"), "LD_LIBRARY_PATH": str(library)}
    return Machine(folder=tmp_path, variables=variables)


@pytest.fixture(autouse=True)
def nothing_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests say themselves what hides a GPU."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def look(machine: Machine) -> Look:
    """What gatekit sees for each (text, environment), and after them of a driver that does not answer."""
    return lambda *cases: machine.python(LOOK, cases)


def test_the_right_machine(machine: Machine) -> None:
    """Eight H200 are what hw=h200x8 asks for; names, memory, power and driver are in the record of the run."""
    ran = machine.run(H200X8, "hw=h200x8", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert ran.code == 1, ran.err
    stored = record(ran, machine.folder)
    details = stored["served"]["details"]
    assert details["gpu.0"] == "NVIDIA H200, 143771 MiB, hopper, 700 W, GPU-00000000-feed"
    assert sorted(name for name in details if name.startswith("gpu.")) == [f"gpu.{place}" for place in range(8)]
    assert details["driver"] == "570.124"
    log = machine.folder / details["log"]
    assert log.read_text().splitlines()[0] == "PCI_BUS_ID"  # GPU 0 is the same one to the server
    assert "free_memory_share" not in stored["spec"]["hw"]  # as in records from before there was such a key
    assert record_from_plain(stored).spec.hw.free_memory_share == 0.9


def test_machines_that_do_not_fit(machine: Machine) -> None:
    """A machine that is not the one asked for, or not free, is INFRA in one line, and no server is started."""
    done = machine.lines(*((says, machine.words(*words), extra) for says, words, extra, *_ in REFUSED))
    for ran, (*_, reason, message) in zip(done, REFUSED, strict=True):
        assert (ran.code, ran.data["reason_code"]) == (3, reason), ran.err
        assert message in ran.err
        assert "engine=external engine.base_url=http://HOST:PORT" in ran.err
        assert len(ran.err.splitlines()) == 2  # what it does, and why it does not go on
    assert not list(machine.folder.rglob("server.log"))


def test_memory_of_others_can_be_allowed(machine: Machine) -> None:
    """hw.free_memory_share says how much of each GPU must be free; what remains under it is no reason to refuse."""
    busy = "used=70004\nprocesses=4242:70000\ncount=1\n" + H200
    missing_program = "engine.command=[no-such-program]"
    shares = [machine.words("hw=h200", missing_program, f"hw.free_memory_share={share}") for share in (0.52, 0.51, 0)]
    done = machine.lines(*((busy, words, {}) for words in shares))
    assert [ran.data["reason_code"] for ran in done] == ["gpu-memory-in-use", *["engine-not-installed"] * 2]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("raise ImportError('not here')\n", "NVIDIA's management library was not asked: pip install 'gatekit[gpu]'"),
        ("def nvmlInit(): pass\n", "the module pynvml is not that of nvidia-ml-py: pip uninstall pynvml"),
    ],
)
def test_without_the_bindings(machine: Machine, text: str, told: str) -> None:
    """Without the extra, or with another package's module of that name, the command that installs it is named."""
    (machine.folder / "modules").mkdir()
    (machine.folder / "modules/pynvml.py").write_text(text)
    ran = machine.run(H200X8, "hw=unheard_of", PYTHONPATH=str(machine.folder / "modules"))
    assert (ran.code, ran.data["reason_code"]) == (3, "hardware-missing")
    assert told in ran.err or "this machine has no NVIDIA GPU" not in ran.err


def test_without_the_library(machine: Machine) -> None:
    """Bindings without a driver's library to load find no GPU and say which file is missing."""
    ran = machine.run("", "hw=unheard_of", LD_LIBRARY_PATH=str(machine.folder))
    assert (ran.code, ran.data["reason_code"]) == (3, "hardware-missing")
    assert "libnvidia-ml.so.1 is not found" in ran.err or "this machine has no NVIDIA GPU" not in ran.err


def test_who_needs_no_hardware(machine: Machine) -> None:
    """A simulated engine, an attached one, and looking at a spec ask no driver, whatever hw says."""
    asked = machine.folder / "asked"
    says = f"touched={asked}\ninit_error=999\n"
    gone = ["engine=external", "engine.base_url=http://127.0.0.1:9", "engine.startup_timeout_s=1", "hw=h200x8"]
    then = machine.folder / "then"
    sim, attached, plan, valid, refused = machine.lines(
        (says, ["engine=sim", "hw=h200x8", "task.n=20", "gate=static_floor", "gate.floor=0.1", "--json"], {}),
        (says, [*gone, "task.n=20", "gate=static_floor", "gate.floor=0.8", "--json"], {}),
        (says, ["plan", "model=laguna_int4", "hw=b200"], {}),
        (says, ["validate", str(conf_dir() / "hw")], {}),
        (says.replace(str(asked), str(then)), machine.words("hw=h200"), {}),
    )
    assert sim.data["verdict"] in ("PASS", "INCONCLUSIVE"), sim.err
    assert (attached.code, attached.data["reason_code"]) == (3, "not-ready")
    assert (plan.code, valid.code) == (0, 0), plan.err + valid.err
    assert not asked.exists()
    assert refused.data["reason_code"] == "gpu-driver"
    assert then.exists()


def test_what_is_read(look: Look) -> None:
    """Processes that come while they are counted, an older driver's functions, and what a GPU cannot say."""
    one = H200 + "count=1\nprocesses=4242:70000,7:-1\n"
    unknown = (
        f"memory_error={NOT_SUPPORTED}\npower_error={NOT_SUPPORTED}\nprocesses_error={NOT_SUPPORTED}\n"
        f"mig_error={NOT_SUPPORTED}\nuuid=\ncapability=99.0\n"
    )
    full, growing, older, silent, evil, hung = look(
        (one, {}),
        (one + "growing=2\n", {}),
        (one + f"memory_v2_error={FUNCTION_NOT_FOUND}\n", {}),
        (one + unknown, {}),
        ("count=1\nname=\x1b[31mred\n", {}),
    )
    (gpu,) = full["gpus"]
    assert gpu["holders"] == [{"pid": 4242, "memory_mib": 70000}, {"pid": 7, "memory_mib": None}]
    assert (gpu["memory_mib"], gpu["used_mib"], gpu["architecture"]) == (143771, 4, "hopper")
    assert growing["gpus"] == full["gpus"]
    assert older["gpus"] == [gpu | {"used_mib": 604}]  # the first version counts the driver's own as used
    assert full["in_use"] == {"GPU-00000000-feed": 4}
    (gpu,) = silent["gpus"]
    assert (gpu["memory_mib"], gpu["power_limit_w"], gpu["holders"], gpu["architecture"]) == (None, None, [], None)
    assert silent["in_use"] is None
    assert evil["gpus"][0]["name"] == "\\x1b[31mred"
    assert hung["fault"] == "NVIDIA's driver did not answer within 0.2 s"


def test_architectures(look: Look) -> None:
    """Compute capabilities have the architectures that hw files name."""
    known = {"7.0": "volta", "7.5": "turing", "8.0": "ampere", "8.6": "ampere", "8.9": "ada", "9.0": "hopper"}
    known |= {"10.0": "blackwell", "10.3": "blackwell", "12.0": "blackwell"}
    *found, _ = look(*((H200 + f"count=1\ncapability={capability}\n", {}) for capability in known))
    assert [one["gpus"][0]["architecture"] for one in found] == list(known.values())


def test_mig(look: Look) -> None:
    """A GPU in MIG mode is its first MIG device, or the one that is named; CUDA shows one of them and nothing else."""
    mig = (
        "count=2\nname=NVIDIA A100-SXM4-80GB\ntotal=81920\ncapability=8.0\nmig.0=1\nparts.0=2\n"
        "name.0.0=NVIDIA A100-SXM4-80GB MIG 1g.10gb\nuuid.0.0=MIG-aaaa\ntotal.0.0=9728\n"
        "name.0.1=NVIDIA A100-SXM4-80GB MIG 2g.20gb\nuuid.0.1=MIG-bbbb\ntotal.0.1=19968\nused.0.1=12\n"
    )
    environs: list[dict[str, str]] = [
        {},
        {"CUDA_VISIBLE_DEVICES": "MIG-bb"},
        {"CUDA_VISIBLE_DEVICES": "MIG-cccc"},
        {"CUDA_VISIBLE_DEVICES": "1"},
        {"CUDA_VISIBLE_DEVICES": "1,0"},
    ]
    *found, bare, _ = look(*((mig, environ) for environ in environs), ("parts.0=0\n" + mig, {}))
    shown = [[gpu["uuid"] for gpu in one["gpus"]] for one in found]
    assert shown == [["MIG-aaaa"], ["MIG-bbbb"], [], ["GPU-00000001-feed"], ["GPU-00000001-feed"]]
    assert found[1]["gpus"][0]["memory_mib"] == 19968
    assert found[1]["in_use"] == {"MIG-bbbb": 12}
    assert [gpu["uuid"] for gpu in bare["gpus"]] == ["GPU-00000001-feed"]


def test_a_library_that_ends_its_process(machine: Machine) -> None:
    """Whatever the library does to the process that asks it, the exit code is gatekit's own and says INFRA."""
    ends = {
        "exit=0\n": "ended the process that asked it, with exit code 0",
        "exit=4\n": "ended the process that asked it, with exit code 4",
        "crash=1\n": "ended the process that asked it, by signal 11",
        'says={"gpus": []}\nexit=0\n': "ended the process that asked it, with exit code 0",
    }
    done = machine.lines(*((H200X8 + does, machine.words("hw=h200x8"), {}) for does in ends))
    for ran, told in zip(done, ends.values(), strict=True):
        assert (ran.code, ran.data["reason_code"]) == (3, "gpu-driver")
        assert told in ran.err


def test_what_the_library_prints_is_no_answer(machine: Machine) -> None:
    """A library that writes to standard output changes neither what is read nor the document of the run."""
    ran = machine.run(H200X8 + "says=hello\n", machine.words("hw=h200x8", "engine.command=[no-such-program]")[-1])
    assert (ran.code, ran.data["verdict"]) == (3, "INFRA")
    assert "hello" not in ran.out
