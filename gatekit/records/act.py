"""What people decided about the history: recorded once, with a reason, never changed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ACT_FORMAT = 1


class ActKind(StrEnum):
    """`rebaseline`: the norm of a series starts anew. `quarantine`: a run does not count; `release`: it does again."""

    REBASELINE = "rebaseline"
    QUARANTINE = "quarantine"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One decision. `target` is a comparability key for rebaseline, else a run id.

    `after` is the digest of the last run of the series when a rebaseline was made: the norm starts behind it.
    `made_at` is UTC, ISO 8601.
    """

    format: int = ACT_FORMAT
    act_id: str
    kind: ActKind
    target: str
    after: str | None = None
    reason: str
    made_at: str
