"""Thresholds as history gives them, against the locks that are in force: for a terminal, a pull request, programs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gatekit.gate.lock_change import IF_LOOSER, loosened
from gatekit.gate.rung import OLDER
from gatekit.gate.wording import listed, percent, points
from gatekit.records.canonical import to_plain
from gatekit.records.lock import Lock, Prior
from gatekit.report.escape import code_block, code_span, escape_terminal
from gatekit.report.fact_lines import fact_lines

_WIDTH = 120
_LABEL_WIDTH = 14
_TEXT_CHARACTERS = 600
_CHECK_CHARACTERS = 1200  # a command at the end of the line is of no use when it is cut off
_CELL_CHARACTERS = 80
_COMMENT_CHARACTERS = 60_000  # GitHub takes 65,536

Line = tuple[str, str]


class State(StrEnum):
    """What is to be said of the lock of a series, given what its history says today."""

    CURRENT = "current"
    STALE = "stale"
    MISSING = "missing"
    OTHER_KEY = "other-key"
    BROKEN = "broken"
    SHORT = "too-short"
    SHORT_WITH_LOCK = "lock-without-history"
    RETIRED = "retired"
    UNCHECKED = "unchecked"


_WORDS: Mapping[State, str] = {
    State.CURRENT: "the lock is current",
    State.STALE: "the lock is stale",
    State.MISSING: "no lock yet",
    State.OTHER_KEY: "the lock is that of another series",
    State.BROKEN: "the lock cannot be used",
    State.SHORT: "too little history",
    State.SHORT_WITH_LOCK: "the lock has too little history behind it",
    State.RETIRED: "the spec has moved to another series",
    State.UNCHECKED: "the lock was held against nothing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The lock that follows from a series now, and the one in its place.

    `lock` is None where the history is too short, which `shortage` says then in a sentence; `changes` names what
    distinguishes runs that do not compare. `realised_alpha` is the false-alarm rate of the count itself under the
    prediction. `old` is the lock in place as far as it can be read, `old_text` and `new_text` the two files, and
    `remark` what is wrong with the old one. `is_written` says that the new one has taken its place, `refusal` why not.
    `command` derives and writes it, with its reason where the new lock `is_loosened`. `has_runs`: there are runs of
    its model, if only such as do not count or compare.
    """

    spec: str
    path: str
    key: str
    state: State
    lock: Lock | None
    realised_alpha: float | None = None
    shortage: str = ""
    excluded: Mapping[str, int]
    changes: tuple[str, ...] = ()
    old: Lock | None = None
    old_text: str = ""
    new_text: str = ""
    remark: str = ""
    is_written: bool = False
    refusal: str = ""
    command: str
    is_loosened: bool = False
    has_runs: bool = True

    @property
    def is_blank(self) -> bool:
        """Whether nothing is here that there is anything to say of: no run, no lock."""
        return self.state is State.SHORT and not self.has_runs


def threshold_text(found: Threshold) -> str:
    """One series: what its history says, and how that differs from the lock in place."""
    lines = [_safe(f"{found.spec}: {headline(found)}")]
    for label, text in _facts(found):
        lines += fact_lines(
            label, text, most_characters=_TEXT_CHARACTERS, label_width=_LABEL_WIDTH, width=_WIDTH, breaks_words=True
        )
    lines += [f"  {escape_terminal(line, _WIDTH - 2)}" for line in diff(found)]
    return "\n".join(lines) + "\n"


def check_line(found: Threshold) -> str:
    """One line: the spec, what is to be said of its lock, and the command that mends it."""
    mend = "" if found.state in _IN_ORDER else f"; {_next(found)}"
    return escape_terminal(f"{outcome(found)}: {found.spec}: {headline(found)}{mend}", _CHECK_CHARACTERS)


_IN_ORDER = (State.CURRENT, State.SHORT, State.RETIRED)


def blank_line(specs: Sequence[str]) -> str:
    """All specs that have neither runs nor a lock, in one line; `gate=auto` begins the history of each."""
    shown = ", ".join(escape_terminal(spec, _CELL_CHARACTERS) for spec in sorted(specs))
    return f"no run and no lock yet ({len(specs)}): {shown}"


def outcome(found: Threshold) -> str:
    """One word for a list: what was done with the new lock, else how the one in place stands."""
    if found.is_written:
        return "written"
    return "refused" if found.refusal else found.state.value


def headline(found: Threshold) -> str:
    """What is to be said of the lock, in a few words with the counts."""
    words = found.refusal or _WORDS[found.state]
    if found.refusal and found.lock is not None:
        return words
    if found.is_written:
        words = "the lock was written"
    if found.remark and not found.is_written:
        words = f"{words} ({found.remark})"
    if found.lock is None:
        return f"{words}: {found.shortage}"
    counts = _counts(found.lock)
    if found.old is not None and _is_new_series(found.old, found.lock):
        why = loosened(found.old, found.lock)
        looser = f"; LOOSER, a new series: {why}; review it" if why else ""
        return f"{words}: {counts} of {found.lock.n}{looser}"
    is_moved = found.old is not None and found.old.n == found.lock.n and _counts(found.old) != counts
    was = f", the lock says {_counts(found.old)}" if found.old is not None and is_moved else ""
    return f"{words}: {counts} of {found.lock.n}{was}"


def diff(found: Threshold) -> list[str]:
    """The lock in place against the one that follows, unified, only the lines that differ; none where none do."""
    if found.lock is None or found.old_text == found.new_text:
        return []
    old, new = found.old_text.splitlines(), found.new_text.splitlines()
    source = found.path if old else "/dev/null"
    lines = difflib.unified_diff(old, new, source, found.path, n=0, lineterm="")
    return [line for line in lines if not line.startswith("@@")]


def thresholds_markdown(found: Sequence[Threshold], problems: Sequence[str], blank: Sequence[str] = ()) -> str:
    """A comment for a pull request: one row per series, then what changes in each lock.

    Nothing in it that comes from elsewhere is more than code. Diffs that no longer fit into a comment are left out.
    """
    head = "| spec | rule | runs | FAIL below | PASS from | alpha | notices | lock |"
    lines = ["### Thresholds from history", "", head, "|---" * 8 + "|", *map(_row, found), ""]
    lines += [f"- {code_span(blank_line(blank), _TEXT_CHARACTERS)}"] if blank else []
    lines += [f"- {code_span(problem, _TEXT_CHARACTERS)}" for problem in problems]
    for one in found:
        details = _details(one)
        if sum(map(len, lines)) + sum(map(len, details)) > _COMMENT_CHARACTERS:
            lines += ["", "Further changes do not fit into this comment."]
            break
        lines += details
    return "\n".join(lines).rstrip() + "\n"


def thresholds_plain(found: Threshold) -> dict[str, Any]:
    """One series as plain data, for `--json`."""
    left_out = ("old_text", "new_text")
    plain = {key: value for key, value in to_plain(found).items() if key not in left_out}
    return {**plain, "says": headline(found), "diff": diff(found)}


def summary_line(outcomes: Mapping[str, int]) -> str:
    """How many series came to what, most first.

    >>> summary_line({"too-short": 1, "current": 3})
    '4 series: 3 current, 1 too-short'
    """
    return f"{sum(outcomes.values())} series: {listed(outcomes)}"


def _facts(found: Threshold) -> Iterator[Line]:
    lock = found.lock
    if lock is not None:
        yield "rule", f"{lock.method}; {lock.why}"
        yield "false alarms", _alpha(found, lock)
        if lock.noticed_drop is not None:
            yield "notices", f"a drop of {points(lock.noticed_drop)} or more, in nine runs of ten"
        yield "spread", _spread(lock)
        yield "prior", _prior(lock.prior)
        yield "runs", _used(lock)
    if found.excluded:
        yield "left out", listed(found.excluded)
    for change in found.changes:
        yield "other series", change
    yield "key", found.key
    yield "lock", found.path + (f", looser because: {lock.looser_because}" if lock and lock.looser_because else "")
    if found.state not in _IN_ORDER and not found.is_written:
        yield "next", _next(found)


def _next(found: Threshold) -> str:
    if found.state is State.UNCHECKED:
        return f"name the history that holds its runs (--dir, --url), or remove {found.path} if nothing uses it"
    return (
        found.command
        if found.lock is not None
        else f"run it with gate=auto until there is enough, then {found.command}{IF_LOOSER if found.old else ''}"
    )


def _counts(lock: Lock) -> str:
    k_pass = _to_pass(lock)
    return f"FAIL below {lock.k_reject}" + (f", PASS from {k_pass}" if k_pass > lock.k_reject else "")


def _is_new_series(old: Lock, new: Lock) -> bool:
    return (old.key, old.n) != (new.key, new.n)


def _to_pass(lock: Lock) -> int:
    return max(lock.k_reject, lock.k_accept or 0)


def _alpha(found: Threshold, lock: Lock) -> str:
    realised = "" if found.realised_alpha is None else f"; {percent(found.realised_alpha)} at this count"
    return f"at most {percent(lock.alpha)} of runs of an unchanged model{realised}"


def _spread(lock: Lock) -> str:
    values = (("phi", lock.phi, ".3f"), ("psi", lock.psi, ".2f"), ("degrees of freedom", lock.df, ".1f"))
    known = [f"{name} {value:{form}}" for name, value, form in values if value is not None]
    return f"{lock.mean:.1f} right expected, sd {lock.sd:.2f}" + "".join(f", {part}" for part in known)


def _prior(prior: Prior) -> str:
    source = f"pooled over {prior.series} series" if prior.series else "the gate's own"
    return (
        f"phi {prior.phi0:.3g} on {prior.nu0:.3g}, psi {prior.psi0:.3g} on {prior.nu_psi:.3g} "
        f"degrees of freedom, {source}"
    )


def _used(lock: Lock) -> str:
    used, older = lock.used, lock.excluded.get(OLDER, 0)
    if len(used) < 2:
        norm = f", the newest run of the norm; {lock.method} does not use the {older} before it" if older else ""
        return f"1 used: {used[0]}{norm}" if used else "none"
    return f"{len(used)} used, each of another build: {used[0]} to {used[-1]}"


def _safe(text: str) -> str:
    return escape_terminal(text, _TEXT_CHARACTERS)


def _row(found: Threshold) -> str:
    lock = found.lock
    cells = [found.spec, "", "0", "", "", "", "", outcome(found)]
    if lock is not None:
        k_pass = _to_pass(lock)
        notices = "no drop" if lock.noticed_drop is None else points(lock.noticed_drop)
        numbers = [f"{lock.k_reject} of {lock.n}", str(k_pass), f"{lock.alpha:.3g}", notices]
        cells = [found.spec, lock.method, str(len(lock.used)), *numbers, outcome(found)]
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return code_span(text, _CELL_CHARACTERS).replace("|", "\\|") if text else ""


def _details(found: Threshold) -> list[str]:
    changed = diff(found)
    facts = [f"- {code_span(change, _TEXT_CHARACTERS)}" for change in found.changes]
    if not changed and not facts and found.state in (State.CURRENT, State.RETIRED):
        return []
    lines = ["", f"**{code_span(found.spec, _CELL_CHARACTERS)}** {code_span(headline(found), _TEXT_CHARACTERS)}", ""]
    if found.excluded:
        facts = [f"- left out: {code_span(listed(found.excluded), _TEXT_CHARACTERS)}", *facts]
    return [*lines, *facts, *(["", *code_block(changed, "diff")] if changed else [])]
