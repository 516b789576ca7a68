"""The moment a history is looked at: what came after it is not there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime

from gatekit.errors import ConfigError

_DATE, _MOMENT = 10, 19  # characters, to the second


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOf:
    """A UTC date, with all of its day, or a UTC moment to the second; None is always."""

    text: str | None

    def has(self, moment: str) -> bool:
        """Whether this UTC moment (ISO 8601) is not after it."""
        return self.text is None or moment[: len(self.text)] <= self.text


def as_of_moment(text: str | None) -> AsOf:
    """What a user wrote: a date or a moment in ISO 8601, UTC where it names no zone. Raises ConfigError.

    >>> as_of_moment("2026-09-01").has("2026-09-01T23:59:59Z")
    True
    >>> as_of_moment("2026-09-01T02:00+02:00").text
    '2026-09-01T00:00:00'
    """
    if text is None:
        return AsOf(text=None)
    try:
        if len(text) == _DATE:
            return AsOf(text=date.fromisoformat(text).isoformat())
        moment = datetime.fromisoformat(text)
        utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ConfigError.one(
            f"{text[:40]!r} is neither a date nor a moment",
            reason="bad-moment",
            hint="write it as 2026-09-01 or 2026-09-01T03:00:00Z",
        ) from None
    return AsOf(text=utc.isoformat()[:_MOMENT])
