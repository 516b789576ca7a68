"""What a check of the history found."""

from __future__ import annotations

from dataclasses import dataclass, field

from gatekit.errors import GatekitError
from gatekit.history.place import Place
from gatekit.history.rebuild_hint import remake_hint


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is not what was written: where, what and why, a stable id, and the next command."""

    where: str
    what: str
    reason: str
    hint: str

    def line(self) -> str:
        """`where: what; hint [id]`."""
        place = "" if self.where in self.what else f"{self.where}: "
        return f"{place}{self.what}; {self.hint} [{self.reason}]"


@dataclass(slots=True, kw_only=True)
class Findings:
    """Collects findings, and notes: what is worth knowing and nothing is wrong with."""

    place: Place
    found: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, where: object, what: str, *, reason: str, hint: str) -> None:
        """One more."""
        self.found.append(Finding(where=str(where), what=what, reason=reason, hint=hint))

    def add_error(self, where: object, error: GatekitError) -> None:
        """One that reading found."""
        self.add(where, error.message, reason=error.reason, hint=error.hint)

    @property
    def remake(self) -> str:
        """What to do about an index that is not what its records say."""
        return remake_hint(self.place)
