"""What is wrong with an entry of a defaults list by itself: the option or the group that it names is not there."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

OVERRIDE = "override /"
_MOST_LISTED = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Why an entry chooses nothing, and the group that it was meant for; None where nobody can tell."""

    what: str
    reason: str
    hint: str
    group: str | None


def misfit(key: str, option: str, groups: Collection[str], known: Sequence[str]) -> Misfit | None:
    """What is wrong with `- KEY: OPTION` in a model file, if it is that; `known` are the options of the group.

    None for an entry that is right, and for one that is left to Hydra.
    """
    target = key.removeprefix(OVERRIDE)
    if key in groups:
        hint = f"write `- override /{key}: {option}`"
        what = f"{key}: a choice of another group overrides it"
        return Misfit(what=what, reason="bad-defaults", hint=hint, group=key)
    if not key.startswith(OVERRIDE) or (target in groups and option in known):
        return None
    if target in groups:
        return no_such(target, option, known)
    near = next(iter(difflib.get_close_matches(target, list(groups), n=1, cutoff=0.6)), None)
    hint = f"did you mean {near!r}?" if near else f"groups are {', '.join(sorted(groups))}"
    return Misfit(what=f"override /{target}: no such group", reason="unknown-group", hint=hint, group=near)


def no_such(group: str, option: str, known: Sequence[str]) -> Misfit:
    """For an option that no folder has."""
    what, hint = f"{group}={option}: no such {group or 'config'}", nearest_of(option, known)
    return Misfit(what=what, reason="unknown-option", hint=hint, group=group)


def nearest_of(name: str, known: Sequence[str]) -> str:
    """The known names that are like this one, and all of them."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    listed = [*known[:_MOST_LISTED], *(["..."] if len(known) > _MOST_LISTED else [])]
    there_are = f"there are {', '.join(listed)}"
    return f"did you mean {' or '.join(near)}? {there_are}" if near else there_are
