"""The `system_fingerprint` of answers: a server that has one puts the same on each."""

from __future__ import annotations

from gatekit.errors import InfraError
from gatekit.report.escape import escape_terminal

_LONGEST = 1000
_SHOWN = 120
_ENOUGH = 4


class Fingerprints:
    """What the answers of one server carried; a missing or an empty fingerprint is none."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}
        self._is_missing = False

    @property
    def first(self) -> str | None:
        """The first one, on one line; None where no answer carried any."""
        return next((escape_terminal(one, limit=_SHOWN) for one in self._found), None)

    def take(self, value: object) -> None:
        """That of one answer."""
        if not isinstance(value, str) or not value:
            self._is_missing = True
        elif len(self._found) < _ENOUGH:
            self._found[value[:_LONGEST]] = None

    def refuse_two(self) -> None:
        """Raises InfraError where answers carried two: the model, its settings or the server were exchanged."""
        if len(self._found) > 1:
            first, second, *_ = (escape_terminal(one, limit=_SHOWN) for one in self._found)
            what = f"the server changed during the run: system_fingerprint {first} before, {second} after"
            hint = "answers of two servers are never pooled; behind one address there must be one, or equal ones"
            raise InfraError(what, reason="server-changed", hint=hint)

    def warnings(self) -> tuple[str, ...]:
        """What cannot be told, because some answers carried none and others did."""
        if self._found and self._is_missing:
            return ("not verified: answers without a system_fingerprint came beside answers that carry one",)
        return ()
