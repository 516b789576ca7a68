"""What a waiting person sees on stderr: a live bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from gatekit.cli.board import Board, board_of, drawn, spoken
from gatekit.report.escape import escape_terminal
from gatekit.run.progress import Progress, Silent

if TYPE_CHECKING:
    import rich.progress

_WAITING_BEAT_S = 15.0
_ASKING_BEAT_S = 30.0
_TICK_S = 0.25
_SHOWN_CHARACTERS = 120
_BAR_WIDTH = 20


@contextmanager
def live_progress(stream: TextIO | None) -> Iterator[Progress]:
    """A progress display on `stream` for as long as the block runs; none where there is no stream."""
    if stream is None:
        yield Silent()
        return
    if stream.isatty():
        with _bar(stream) as bar:
            yield bar
        return
    heartbeat = Heartbeat(stream)
    try:
        yield heartbeat
    finally:
        heartbeat.stop()


@contextmanager
def live_board(stream: TextIO | None, names: Sequence[str]) -> Iterator[Board]:
    """A board of these runs, shown on `stream`: a table on a terminal, plain lines elsewhere."""
    board = board_of(names)
    if stream is None:
        yield board
    else:
        with drawn(board, stream) if stream.isatty() else spoken(board, stream):
            yield board


class Heartbeat:
    """One line per phase, and one now and then while it lasts."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""
        self._beat_s = _WAITING_BEAT_S
        self._last_s = self._phase_s = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="heartbeat", daemon=True)
        self._thread.start()

    def phase(self, text: str) -> None:
        """Say the new phase at once."""
        self._text = text
        self._phase_s = time.monotonic()
        self._beat_s = _WAITING_BEAT_S
        self._say(text)

    def answered(self, done: int, n: int, correct: int, lost: int, empty: int) -> None:
        """Keep the numbers for the next line."""
        self._beat_s = _ASKING_BEAT_S
        self._text = progress_text(done, n, correct, lost, empty)
        if done == n:
            self._say(self._text)

    def stop(self) -> None:
        """Say nothing more."""
        self._over.set()
        self._thread.join()

    def _tick(self) -> None:
        while not self._over.wait(_TICK_S):
            now_s = time.monotonic()
            if now_s - self._last_s >= self._beat_s:
                waiting = f"still {self._text}, {now_s - self._phase_s:.0f} s"
                self._say(waiting if self._beat_s == _WAITING_BEAT_S else self._text)

    def _say(self, text: str) -> None:
        self._last_s = time.monotonic()
        try:
            self._stream.write(f"gatekit: {escape_terminal(text, limit=_SHOWN_CHARACTERS)}\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._over.set()  # nobody reads; the run goes on


class Bar:
    """A rich progress bar, behind how long it takes so far and what goes on."""

    def __init__(self, progress: rich.progress.Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, is_asking=False)

    def phase(self, text: str) -> None:
        """Show the new phase without an end in sight."""
        words = escape_terminal(text, limit=_SHOWN_CHARACTERS)
        self._progress.update(self._task, description=words, is_asking=False)

    def answered(self, done: int, n: int, correct: int, lost: int, empty: int) -> None:
        """Move the bar."""
        text = progress_text(done, n, correct, lost, empty)
        self._progress.update(self._task, completed=done, total=n, description=text, is_asking=True)


def progress_text(done: int, n: int, correct: int, lost: int, empty: int = 0) -> str:
    """`512 of 1319 asked, 95.1 % right, 7 empty, 2 lost`; the share is of the questions that brought an answer."""
    answers = done - lost
    share = f", {100 * correct / answers:.1f} % right" if answers else ""
    return f"{done} of {n} asked{share}" + (f", {empty} empty" if empty else "") + (f", {lost} lost" if lost else "")


@contextmanager
def _bar(stream: TextIO) -> Iterator[Bar]:
    from rich import progress as rich_progress
    from rich.console import Console, RenderableType
    from rich.table import Column
    from rich.text import Text

    class Words(rich_progress.ProgressColumn):
        """On one line; of what does not fit the end is cut off."""

        def render(self, task: rich_progress.Task) -> RenderableType:
            return Text(task.description, no_wrap=True, overflow="ellipsis")

    class WhileAsking(rich_progress.ProgressColumn):
        """Another column while an end is in sight; before and after it the words need the room."""

        def __init__(self, column: rich_progress.ProgressColumn) -> None:
            super().__init__(table_column=Column(no_wrap=True))
            self._column = column

        def render(self, task: rich_progress.Task) -> RenderableType:
            return self._column(task) if task.fields["is_asking"] else ""

    columns = (
        rich_progress.TimeElapsedColumn(table_column=Column(no_wrap=True)),
        Words(),
        WhileAsking(rich_progress.BarColumn(_BAR_WIDTH)),
        WhileAsking(rich_progress.TimeRemainingColumn()),
    )
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    with rich_progress.Progress(*columns, console=console, transient=True) as progress:
        yield Bar(progress)
