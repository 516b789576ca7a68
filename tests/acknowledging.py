"""A run that says what it acknowledges: `python acknowledging.py FILE RUN_ID [OVERRIDE ...]`.

Whatever `Progress` is told goes into FILE at once, one number of finished questions a line.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from gatekit.cli.cache_dir import cache_dir
from gatekit.run.execute import Surroundings, execute
from gatekit.run.progress import Silent
from gatekit.spec.resolve import config_dirs, resolve


class Acknowledging(Silent):
    """Writes down every number that it is told."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def answered(self, done: int, n: int, correct: int, lost: int, empty: int) -> None:
        """Keep what nobody may lose any more."""
        os.write(self._file, f"{done}\n".encode())


def main(path: str, run_id: str, *overrides: str) -> None:
    """Run the spec; what becomes of it is for the record."""
    around = Surroundings(
        environ=os.environ,
        now=lambda: datetime.now(UTC),
        cache_dir=cache_dir(os.environ),
        progress=Acknowledging(path),
    )
    execute(resolve(overrides, dirs=config_dirs([], os.environ)), run_id=run_id, around=around)


def acknowledged(path: Path) -> int:
    """The last number in such a file, 0 where nothing was told."""
    lines = path.read_text().split() if path.exists() else []
    return int(lines[-1]) if lines else 0


if __name__ == "__main__":
    main(*sys.argv[1:])
