"""Several runs, as a waiting person follows them: which one is running, and how the others ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from gatekit.errors import GatekitError, Interrupted
from gatekit.report.escape import escape_terminal
from gatekit.report.plan import elapsed
from gatekit.run.progress import Progress

WAITING = "waiting"
DONE = "done"
_STOPPED = "stopped"
_BEAT_S = 30.0
_TICK_S = 0.25
_SHOWN_CHARACTERS = 120


@dataclass(slots=True, kw_only=True)
class Row:
    """One run: its state, and once it ended its verdict and its count."""

    name: str
    state: str = WAITING
    verdict: str = ""
    correct: str = ""
    started_s: float | None = None
    ended_s: float | None = None

    @property
    def progress(self) -> Progress:
        """Tells this row what the run does."""
        return self

    @property
    def elapsed_s(self) -> float | None:
        """How long it has been running, or ran; None before it starts."""
        if self.started_s is None:
            return None
        return (time.monotonic() if self.ended_s is None else self.ended_s) - self.started_s

    def phase(self, text: str) -> None:
        """A new phase began."""
        self.state = text

    def answered(self, done: int, n: int, correct: int, lost: int, empty: int) -> None:
        """`done` of `n` questions are finished."""
        silent = f", {empty} empty" if empty else ""
        self.state = f"{done} of {n} asked{silent}" + (f", {lost} lost" if lost else "")
        self.correct = f"{correct}/{done - lost}"

    def ended(self, verdict: str, correct: str) -> None:
        """The run came to a verdict."""
        self.verdict, self.correct = verdict, correct


@dataclass(slots=True, kw_only=True)
class Board:
    """The rows of several runs. `said` is called when one starts and when it ended."""

    rows: list[Row]
    said: Callable[[int, Row], None] = field(default=lambda number, row: None)

    @contextmanager
    def running(self, number: int) -> Iterator[Row]:
        """The row of a run for as long as it lasts."""
        row = self.rows[number]
        row.started_s, row.state = time.monotonic(), "starting"
        self.said(number, row)
        try:
            yield row
        except Interrupted:
            raise
        except GatekitError as error:
            row.verdict = error.exit_code.name
            raise
        finally:
            row.ended_s = time.monotonic()
            row.state = DONE if row.verdict else _STOPPED
            self.said(number, row)

    def elapsed_s(self, number: int) -> float | None:
        """How long a run took; None where it was not started."""
        return self.rows[number].elapsed_s


def board_of(names: Sequence[str]) -> Board:
    """A board on which all are waiting."""
    return Board(rows=[Row(name=name) for name in names])


@contextmanager
def spoken(board: Board, stream: TextIO) -> Iterator[Board]:
    """The board as plain lines on `stream`: one when a run starts, one when it ended, one every 30 s between."""
    over = threading.Event()
    last_s = time.monotonic()

    def say(text: str) -> None:
        nonlocal last_s
        last_s = time.monotonic()
        try:
            stream.write(f"gatekit: {escape_terminal(text)}\n")
            stream.flush()
        except (OSError, ValueError):
            over.set()  # nobody reads; the runs go on

    def said(number: int, row: Row) -> None:
        place = f"{number + 1}/{len(board.rows)} {row.name}"
        if row.ended_s is None:
            say(f"{place}: started")
        else:
            correct = f", {row.correct} correct" if row.correct and row.verdict else ""
            say(f"{place}: {row.verdict or row.state}{correct}, {elapsed(row.elapsed_s)}")

    def beat() -> None:
        while not over.wait(_TICK_S):
            running = [row for row in board.rows if row.started_s is not None and row.ended_s is None]
            if running and time.monotonic() - last_s >= _BEAT_S:
                say(f"still {running[0].name}: {running[0].state}, {elapsed(running[0].elapsed_s)}")

    board.said = said
    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield board
    finally:
        over.set()
        thread.join()


@contextmanager
def drawn(board: Board, stream: TextIO) -> Iterator[Board]:
    """The board as one table on a terminal, which is kept up to date and goes away at the end."""
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    console = Console(file=stream, highlight=False, markup=False, emoji=False)

    def table(height: int) -> Table:
        drawn_table = Table(box=None, pad_edge=False)
        for head in ("SPEC", "STATE", "VERDICT", "CORRECT", "ELAPSED"):
            drawn_table.add_column(head, no_wrap=True, overflow="ellipsis")
        for row in _around(board.rows, height):
            cells = (row.name, row.state, row.verdict, row.correct, elapsed(row.elapsed_s))
            drawn_table.add_row(*(Text(escape_terminal(cell, _SHOWN_CHARACTERS)) for cell in cells))
        return drawn_table

    class Current:
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            yield table(max(console.size.height - 3, 1))

    with Live(Current(), console=console, transient=True, refresh_per_second=4):
        yield board


def _around(rows: Sequence[Row], height: int) -> Sequence[Row]:
    """As many rows as fit, with the running one among them."""
    current = next((number for number, row in enumerate(rows) if row.ended_s is None), len(rows))
    first = max(0, min(current - height // 2, len(rows) - height))
    return rows[first : first + height]
