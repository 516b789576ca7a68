"""Who answers after a connection was lost: asked at once, so that no more answers of another server are taken."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import NoReturn

from gatekit.records.answers import Failure
from gatekit.run.identity import Identification, Identity, confirmed, is_whole
from gatekit.run.journal import Journal

_PAUSE_S = 2.0
_AGAIN_S = 30.0


class Recheck:
    """Compares the server with the one that was there before, each time that answers come again.

    `before` is that one, with what was learned of it since. The journal is told before an answer is written of which
    nobody knows whose it is, and when that is known again: whoever goes on with a run keeps no answer in between.
    A server of our own needs no such line: it ends with this run, and whoever is on its port is seen otherwise.
    """

    def __init__(
        self,
        identification: Identification,
        before: Identity,
        journal: Journal,
        on_known: Callable[[Identity], None] = lambda _: None,
    ) -> None:
        self._identification = identification
        self._journal = journal
        self._on_known = on_known
        self._is_attached = identification.endpoint.process is None
        self.before = before
        self._sure = before  # without what may have been learned of another server
        self._told: Failure | None = None
        self._is_due = asyncio.Event()
        self._doubts = 0
        self._looked_at = 0
        self._is_told = True
        self._doubtful: list[int] = []

    @property
    def unconfirmed(self) -> Sequence[int]:
        """The places of the answers of a server that has not said again, since they came, all that was known before.

        None of one that never told anything, nor of one that only leaves out its signature now and then.
        """
        return self._doubtful if self._doubts and not self._is_told else ()

    def begin_in_doubt(self, why: str) -> None:
        """The server does not tell now what was known of it. Raises InfraError as the journal does."""
        self._doubt(why)
        self._is_due.set()

    def before_answer(self, lost_connection: Failure | None, place: int) -> None:
        """An answer came to the question at this place that is not kept yet, and this is the last connection that was
        lost before it.

        Raises InfraError as the journal does.
        """
        if lost_connection is not self._told and lost_connection is not None:
            self._told = lost_connection
            self._doubt(lost_connection.detail)
            self._is_due.set()
        if self._doubts:
            self._doubtful.append(place)

    async def run(self) -> NoReturn:
        """Look whenever that is due, for as long as nobody cancels it. Raises InfraError for another server.

        What cannot be asked just now is no change: it is asked again later, at the latest when the run ends.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S if self._may_be_settled() else None):
                    await self._is_due.wait()
            self._is_due.clear()
            await self.look()
            await asyncio.sleep(_PAUSE_S)

    async def look(self) -> Identity:
        """What is known of the server now. Raises InfraError for another one, and as the journal does."""
        looked_at = self._looked_at = self._doubts
        try:
            after = await self._identification.after(self.before)
        finally:
            self._looked_at = 0
        is_told = is_whole(self._sure, after) and self._doubts == looked_at
        self._is_told = is_told or not _can_be_told(self._sure)
        self.before = confirmed(self.before, after)
        if looked_at and self._is_the_same(after):
            self._journal.confirmed(looked_at)
            self._doubts -= looked_at
        if not self._doubts:
            self._doubtful.clear()
            self._sure = self.before
            self._on_known(self.before)
        return self.before

    def _doubt(self, why: str) -> None:
        """One line serves all connections that are lost until it is asked who answers."""
        if self._is_attached and self._doubts == self._looked_at:
            self._journal.doubt(why)
            self._doubts += 1
            self._is_told = not _can_be_told(self._sure)

    def _may_be_settled(self) -> bool:
        """Whether something is in doubt, and there is anything to compare: else asking again brings nothing."""
        return self._doubts > 0 and _can_be_told(self._sure)

    def _is_the_same(self, after: Identity) -> bool:
        """Whether all that was known before the doubt was asked for again; `confirmed` refused what differs."""
        return is_whole(self._sure, after) and not self._identification.client.fingerprints.warnings()


def _can_be_told(known: Identity) -> bool:
    return is_whole(known, known)
