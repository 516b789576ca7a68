"""Moments as files and people write them: UTC, ISO 8601, and only those that there are."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}"
_FRACTION = r"(?:\.[0-9]{1,9})?"
_RECORDED = re.compile(rf"{_DATE}T{_TIME}:[0-9]{{2}}{_FRACTION}(?:Z|\+00:00)")
_WRITTEN = re.compile(rf"{_DATE}(?:[T ]{_TIME}(?::[0-9]{{2}}{_FRACTION})?(?:Z|[+-]{_TIME})?)?")


def is_moment(text: str) -> bool:
    """Whether `text` is a moment as records hold it: to the second or finer, UTC, and in the calendar.

    >>> is_moment("2026-11-30T03:15:00Z"), is_moment("9999-99-99T00:00:00Z"), is_moment("2026-11-30")
    (True, False, False)
    """
    return _RECORDED.fullmatch(text) is not None and _parsed(text) is not None


def utc(text: str) -> str | None:
    """A date or moment that somebody wrote, as a moment in UTC; None for anything else. Without a zone it is UTC.

    >>> utc("2026-11-30 03:15+02:00"), utc("2026-11-30"), utc("yesterday")
    ('2026-11-30T01:15:00Z', '2026-11-30T00:00:00Z', None)
    """
    moment = _parsed(text) if _WRITTEN.fullmatch(text) else None
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def _parsed(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
