"""Who answers after a connection was lost: asked at once, so that no more answers of another server are taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

from gatekit.records.answers import Failure, FailureKind
from gatekit.run.identity import Identification, Identity, confirmed

_LOST_CONNECTION = frozenset({FailureKind.REFUSED, FailureKind.DISCONNECTED})
_PAUSE_S = 2.0


class Recheck:
    """Compares the server with the one that was there before, each time that answers come again.

    `before` is that one, with what was learned of it since.
    """

    def __init__(
        self, identification: Identification, before: Identity, on_known: Callable[[Identity], None] = lambda _: None
    ) -> None:
        self._identification = identification
        self._on_known = on_known
        self.before = before
        self._told: Failure | None = None
        self._is_due = asyncio.Event()

    def after_answer(self, last_failure: Failure | None) -> None:
        """An answer came, and this is the last failure before it."""
        if last_failure is not None and last_failure is not self._told and last_failure.kind in _LOST_CONNECTION:
            self._told = last_failure
            self._is_due.set()

    async def run(self) -> NoReturn:
        """Look whenever that is due, for as long as nobody cancels it. Raises InfraError for another server.

        What cannot be asked just now is no change: it is asked again when the run ends.
        """
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            self.before = confirmed(self.before, await self._identification.after(self.before))
            self._on_known(self.before)
            await asyncio.sleep(_PAUSE_S)
