"""The command line in a thread of somebody else's program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from command_line import environment

_IN_A_THREAD = """
import signal, sys, threading
from gatekit.cli.main import main
before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
codes = []
thread = threading.Thread(target=lambda: codes.append(int(main(sys.argv[1:]))))
thread.start()
thread.join()
assert before == {number: signal.getsignal(number) for number in before}
sys.exit(codes[0])
"""


def test_a_run_in_a_thread(tmp_path: Path) -> None:
    """Outside of the main thread a run comes to its verdict, and the program's own signal handlers stay."""
    arguments = ("task.n=40", "gate=static_floor", "gate.floor=0.8", "engine.accuracy=1", "--json")
    done = subprocess.run(
        [sys.executable, "-c", _IN_A_THREAD, *arguments],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "PASS"
    assert "Traceback" not in done.stderr
