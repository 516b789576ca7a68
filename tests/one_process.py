"""Many command lines in one process of its own, for what a process has and this one must not: rights, a umask.

Each alone would be a process that spends its time on imports.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from command_line import Ran, environment

_LOOP = """
import contextlib, io, json, os, sys
from gatekit.cli.main import main
os.umask(int(sys.argv[1], 8))
for arguments in json.loads(sys.stdin.read()):
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = int(main(arguments))
    print(json.dumps([code, *(stream.buffer.getvalue().decode() for stream in (out, err))]), flush=True)
"""


def in_one_process(
    folder: Path,
    *commands: Sequence[str],
    before: Sequence[str] = (),
    umask: str = "022",
    timeout_s: float = 120,
) -> list[Ran]:
    """These command lines one after another, the words of `before` in front of the process; a bug in one ends all."""
    loop = [*before, sys.executable, "-c", _LOOP, umask]
    typed = json.dumps([list(words) for words in commands])
    done = subprocess.run(
        loop, cwd=folder, env=environment(), input=typed, capture_output=True, text=True, timeout=timeout_s
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    found = [Ran(*json.loads(line)) for line in done.stdout.splitlines()]
    assert len(found) == len(commands)
    return found
