"""What the defaults list of a config file may say: a file speaks about its own group, and only a model chooses others.

Hydra's language is larger: absolute names, other groups, optional entries. Through it a machine's file could change
the whole spec without anybody who reads the spec seeing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gatekit.spec.folders import CHOSEN_GROUPS, can_be_chosen, group_of
from gatekit.spec.misfit import OVERRIDE, misfit

_SELF = "_self_"
_MODEL = "model"
_REASON = "bad-defaults"
_HINT = "write `- laguna_int4` or `- override /engine: vllm`"
_ROOT_HINT = f"write `- hw: cpu`; groups are {', '.join(CHOSEN_GROUPS)}"

# Which entry (None: the list), what, reason, hint.
ListFault = tuple[int | None, str, str, str]
_Fault = tuple[str, str, str]


def faults_of_list(entries: Any, path: Path) -> Iterator[ListFault]:
    """What is wrong with the defaults list of the file at `path`, whatever options there are."""
    if entries is not None and not isinstance(entries, list):
        yield None, "defaults is a list", _REASON, _HINT
        return
    listed: list[Any] = entries or []
    group = group_of(path)
    found = [
        (index, fault)
        for index, entry in enumerate(listed)
        if (fault := _of_any(entry, listed[:index]) or _of_the_group(entry, group, listed[:index])) is not None
    ]
    yield from ((index, *fault) for index, fault in found)
    if group == "" and not found:
        yield from _of_the_root(listed)


def _of_any(entry: Any, before: Sequence[Any]) -> _Fault | None:
    words = [*entry, *entry.values()] if isinstance(entry, dict) else [entry]
    text = " ".join(str(word) for word in words)
    if not all(isinstance(word, str) for word in words) or (isinstance(entry, dict) and len(entry) != 1):
        return "an entry of defaults names one option", _REASON, _HINT
    if entry in before:
        return f"{text!r} stands twice", _REASON, "keep one of them"
    if "hydra" in text:
        return "Hydra's own settings are not allowed in a defaults list", "hydra-node", ""
    if "@" in text or "${" in text:
        return "packages and references are not allowed in a defaults list", "package-header", ""
    return None


def _of_the_group(entry: str | Mapping[str, str], group: str | None, before: Sequence[Any]) -> _Fault | None:
    """What is wrong with an entry in a file of that group ("": the root; None: a file of no group, which says all)."""
    if group is None or entry == _SELF:
        return None
    if group == "":
        return _of_a_choice(entry)
    if isinstance(entry, str):
        if can_be_chosen(entry):
            return None
        hint = "a file builds on others of its own group, by their names alone"
        return f"{entry[:80]!r} is no name of an option of group {group}", _REASON, hint
    key, option = next(iter(entry.items()))
    if group != _MODEL:
        what = f"a file of group {group} chooses nothing of another group"
        return what, _REASON, "only a model file does, by `- override /engine: vllm`"
    return _of_an_override(key, option) or _of_a_second_choice(key, option, before)


def _of_a_second_choice(key: str, option: str, before: Sequence[Any]) -> _Fault | None:
    """Of two choices of one group the first would win, and nobody would know which was meant."""
    first = next((entry[key] for entry in before if isinstance(entry, dict) and key in entry), None)
    if first is None:
        return None
    what = f"group {key.removeprefix(OVERRIDE)!r} is chosen twice, as {str(first)[:80]} and as {option[:80]}"
    return what, _REASON, "keep one of them"


def _of_an_override(key: str, option: str) -> _Fault | None:
    target = key.removeprefix(OVERRIDE)
    if target == _MODEL:
        return "a model chooses no other model", _REASON, f"write `- {option[:80]}` to build on it"
    if misfit(key, option, CHOSEN_GROUPS, (option,)) is not None:
        return None  # told where it is composed, with what else is wrong there
    if key == target:
        return f"{key[:80]!r} chooses from no group", _REASON, _HINT
    return None if can_be_chosen(option) else (f"{option[:80]!r} is no option of group {target}", _REASON, _HINT)


def _of_a_choice(entry: str | Mapping[str, str]) -> _Fault | None:
    if isinstance(entry, str):
        return f"{entry[:80]!r} chooses from no group", _REASON, _ROOT_HINT
    group, option = next(iter(entry.items()))
    if group not in CHOSEN_GROUPS:
        return f"{group[:80]!r} is no group that specs choose from", _REASON, _ROOT_HINT
    return None if can_be_chosen(option) else (f"{option[:80]!r} is no option of group {group}", _REASON, _ROOT_HINT)


def _of_the_root(listed: Sequence[Any]) -> Iterator[ListFault]:
    chosen: list[str] = []
    for index, entry in enumerate(listed):
        group = "" if entry == _SELF else next(iter(entry))
        if group in chosen:
            yield index, f"group {group!r} is chosen twice", _REASON, "keep one of them"
        chosen.append(group)
    missing = [group for group in CHOSEN_GROUPS if group not in chosen]
    if missing:
        what = f"the root of all specs chooses nothing from {', '.join(missing)}"
        yield None, what, _REASON, "choose one option of each group, or remove this file: then the shipped one is used"
