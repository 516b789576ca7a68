"""NVIDIA's management library asked in a process of its own: `python -m gatekit.engine.nvml_child`.

Standard output is one line of JSON, the reading, and nothing else.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import signal

from gatekit.engine import nvml

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Asks, answers, and is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # What the library prints is no part of the answer.
    answer, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    document = json.dumps(dataclasses.asdict(nvml.read_here()))
    with os.fdopen(answer, "w", encoding="utf-8") as out:
        out.write(document)
    os._exit(0)  # nothing of the library runs any more


if __name__ == "__main__":
    main()
