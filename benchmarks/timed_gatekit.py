"""gatekit's own command line, with what its asking took: CPU and clock between readiness and the last answer.

Nothing is left out or replaced. The readings go to a file, as one JSON object. Run:
`python benchmarks/timed_gatekit.py READINGS_FILE OVERRIDE...`.
"""

from __future__ import annotations

import json
import sys
import time
from asyncio import Event
from pathlib import Path

from gatekit.__main__ import main
from gatekit.errors import InfraError
from gatekit.run.loop import Asking

_spent: dict[str, float] = {}
_run = Asking.run


async def _timed(asking: Asking, stop: Event) -> InfraError | None:
    began_s, cpu_s = time.perf_counter(), time.process_time()
    try:
        return await _run(asking, stop)
    finally:
        _spent.update(asking_cpu_s=time.process_time() - cpu_s, span_s=time.perf_counter() - began_s)


if __name__ == "__main__":
    readings = Path(sys.argv.pop(1))
    Asking.run = _timed  # type: ignore[method-assign,assignment]  # to read clocks around it
    try:
        main()
    finally:
        readings.write_text(json.dumps(_spent))
