"""Which acts of a file become acts of a history, and what that changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gatekit.history.acts import quarantined_runs
from gatekit.history.foreign_records import ActLine
from gatekit.history.place import Place
from gatekit.history.wrong_clock import is_yet_to_come, odd_date
from gatekit.records.act import Act, ActKind

_TO_THE_SECOND = 19
_REASON_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NewActs:
    """The acts to take in, in the order of the file; what is odd about those of the file, one line each; and what
    the history counts otherwise by those that are taken."""

    acts: tuple[Act, ...]
    flags: tuple[str, ...]
    changes: tuple[str, ...]


def new_acts(place: Place, found: Mapping[str, ActLine], known: Mapping[str, str], *, now: datetime) -> NewActs:
    """Those acts of a file that the history misses and that may hold here; `known` are the digests of its own.

    They come in the order of the file. The last decision about a run or a series holds, so that one that is older
    than what was decided here about the same is left out. So is one whose date is yet to come: it would be later than
    whatever is decided until then.
    """
    from gatekit.history import index

    made = index.acts(place)
    latest = _latest((act for act in made if act.act_id not in found), now)
    news: list[Act] = []
    flags: list[str] = []
    for one in found.values():
        act, called = one.act, f"line {one.line}: act {one.act.act_id}"
        if act.act_id in known:
            continue
        odd = odd_date(act.made_at, now)
        if is_yet_to_come(act.made_at, now):
            flags.append(f"{called} left out: {odd}; decide it here, or import it again when that has come")
        elif act.made_at[:_TO_THE_SECOND] < latest.get(act.target, ""):
            flags.append(f"{called} left out: something later was decided here")
        else:
            news.append(act)
            flags += [] if odd is None else [f"{called}: {odd}"]
    return NewActs(acts=tuple(news), flags=tuple(flags), changes=changes(made, news))


def changes(before: Sequence[Act], news: Sequence[Act]) -> tuple[str, ...]:
    """What counts otherwise after the new acts, one line for each run and series, with the act that did it."""
    last = {act.target: act for act in news}
    was, now = quarantined_runs(before), quarantined_runs([*before, *news])
    return tuple(_change(act) for act in last.values() if act.kind is ActKind.REBASELINE or act.target in was ^ now)


def _change(act: Act) -> str:
    match act.kind:
        case ActKind.QUARANTINE:
            what = f"run {act.target} does not count any more"
        case ActKind.RELEASE:
            what = f"run {act.target} counts again"
        case ActKind.REBASELINE:
            start = "with its first run" if act.after is None else "anew"
            what = f"the norm of key {act.target} starts {start}"
    return f"{what}: {act.reason[:_REASON_CHARACTERS]} (act {act.act_id})"


def _latest(acts: Iterable[Act], now: datetime) -> dict[str, str]:
    """When the last act about each run and series was made, by those whose date can be true."""
    latest: dict[str, str] = {}
    for act in acts:
        if not is_yet_to_come(act.made_at, now):
            latest[act.target] = max(act.made_at[:_TO_THE_SECOND], latest.get(act.target, ""))
    return latest
