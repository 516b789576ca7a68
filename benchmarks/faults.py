"""What gatekit says of a server that fails in a known way: printed accuracy, verdict, exit code, seconds, attempts.

The load server of docs/faults.md is given as a path, with the folder of the GSM8K files; its libraries (httptools,
orjson, uvloop) may be those of another interpreter. Run:
`python benchmarks/faults.py SERVER GSM8K_DIR --python PYTHON [FAULT ...]`. Prints one Markdown row a fault.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

N = 400
CORRECT = 313  # what the server answers rightly of the first 400 questions when nothing fails
FAULTS = (
    "none",
    "http500:0.05",
    "http500s:0.05",
    "http429:0.05",
    "empty:0.05",
    "null:0.05",
    "malformed:0.05",
    "drop:0.05",
    "dropmid:0.05",
    "truncate:0.2",
    "hang:0.01",
    "kill:200",
)
# Everything else is as shipped; ten minutes, the shipped limit of one request, would make `hang` an hour long.
LIMITS = ("client.request_timeout_s=10",)


@contextmanager
def served(python: str, server: Path, data: Path, fault: str) -> Iterator[str]:
    """The base URL of the load server with this fault."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    modes = [] if fault == "none" else ["--fault", fault]
    command = [python, str(server), "--port", str(port), "--data", str(data / "test.jsonl"), *modes]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n", "the load server did not start"
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def gated(url: str, data: Path, folder: Path) -> tuple[subprocess.CompletedProcess[str], float]:
    """One run of the command line against the server, and its seconds."""
    command = [sys.executable, "-m", "gatekit", "engine=external", f"engine.base_url={url}"]
    command += ["engine.expected_model=mock", "task=gsm8k", f"task.path={data}", f"task.n={N}"]
    command += [f"gate.observed={{correct: {CORRECT}, n: {N}}}", *LIMITS, "--json"]
    began = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=_environment())
    return done, time.monotonic() - began


def row(fault: str, done: subprocess.CompletedProcess[str], seconds: float, folder: Path) -> str:
    """One line of the table."""
    said = json.loads(done.stdout)
    record = json.loads((folder / said["record"]).read_text())
    attempts = max(seen["attempts"] for seen in record["observations"])
    cells = [_accuracy(said), f"{said['verdict']} ({said['reason_code']})", str(done.returncode)]
    cells += [str(math.ceil(seconds)), str(attempts), said["reason"].replace("|", "\\|")]
    return f"| `{fault}` | " + " | ".join(cells) + " |"


def _accuracy(said: dict[str, Any]) -> str:
    if said["accuracy"] is None:
        return "none"
    shift = 100 * (said["accuracy"] - CORRECT / N)
    return f"{said['accuracy']:.4f} ({shift:+.1f}pp)"


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GATEKIT_")}


def main(arguments: Sequence[str] | None = None) -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", type=Path)
    parser.add_argument("gsm8k", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the server's libraries")
    parser.add_argument("faults", nargs="*", default=FAULTS)
    given = parser.parse_args(arguments)
    print(
        "| fault | accuracy printed | verdict | exit | s | attempts at most | reason |\n|---|---|---|---|---|---|---|"
    )
    for fault in given.faults:
        with tempfile.TemporaryDirectory() as folder:
            with served(given.python, given.server, given.gsm8k.resolve(), fault) as url:
                done, seconds = gated(url, given.gsm8k.resolve(), Path(folder))
            print(row(fault, done, seconds, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
