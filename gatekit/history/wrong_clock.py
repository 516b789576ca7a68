"""What to say of a moment that no right clock can have given."""

from __future__ import annotations

from datetime import datetime

_GSM8K_APPEARED = "2021-10-27"
_TO_THE_SECOND = 19


def odd_date(moment: str, now: datetime) -> str | None:
    """What is odd about a UTC moment (ISO 8601), in words; None where nothing is.

    >>> from datetime import UTC
    >>> odd_date("2099-01-01T00:00:00Z", datetime(2026, 12, 1, tzinfo=UTC))
    'dated 2099-01-01T00:00:00Z, which is yet to come'
    """
    if is_yet_to_come(moment, now):
        return f"dated {moment}, which is yet to come"
    if moment < _GSM8K_APPEARED:
        return f"dated {moment}, before GSM8K existed"
    return None


def is_yet_to_come(moment: str, now: datetime) -> bool:
    """Whether a UTC moment (ISO 8601) is later than `now` (UTC), to the second."""
    return moment[:_TO_THE_SECOND] > now.isoformat()[:_TO_THE_SECOND]
