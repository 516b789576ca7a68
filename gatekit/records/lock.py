"""A threshold that was derived from history, to be reviewed, committed, and used until its series changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gatekit.records.canonical import Plain

LOCK_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What a rule assumes before its own history speaks: the dispersion of totals (`phi0` on `nu0` degrees of
    freedom) and of whole runs beyond flips (`psi0` on `nu_psi`), pooled over so many series (0: the gate's own)."""

    phi0: float
    nu0: float
    psi0: float
    nu_psi: float
    series: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The threshold of one spec, and all that it was derived from.

    FAIL iff correct < k_reject; PASS iff correct >= max(k_reject, k_accept). The next healthy count is predicted
    as mean + sd T, T on df degrees of freedom (None: normal). `key` and `fields` are the comparability key that
    it holds for; `used` the runs it rests on, oldest first, `excluded` how many others were left out, by
    reason; `inputs` the digest of everything that it follows from. `looser_because` is the reason that was given
    when it became easier to pass than the one before. `hw` is the name of the hardware, which the name of the spec
    holds too, None in a lock of an older gatekit.
    """

    format: int = LOCK_FORMAT
    spec: str
    key: str
    fields: Mapping[str, Plain]
    method: str
    why: str
    n: int
    k_reject: int
    k_accept: int | None
    alpha: float
    mean: float
    sd: float
    df: float | None
    noticed_drop: float | None
    phi: float | None
    psi: float | None
    prior: Prior
    used: tuple[str, ...]
    excluded: Mapping[str, int]
    as_of: str | None
    inputs: str
    gatekit_version: str
    looser_because: str | None = None
    hw: str | None = None
