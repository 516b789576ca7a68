"""Versions in the order that PEP 440 gives them."""

from __future__ import annotations

import re

_FORM = re.compile(
    r"v?(?:(?P<epoch>[0-9]{1,9})!)?(?P<release>[0-9]{1,9}(?:\.[0-9]{1,9}){0,15})"
    r"(?:[-_.]?(?P<phase>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<phase_number>[0-9]{0,9}))?"
    r"(?:-(?P<bare_post>[0-9]{1,9})|(?P<post>[-_.]?(?:post|rev|r)[-_.]?(?P<post_number>[0-9]{0,9})))?"
    r"(?P<dev>[-_.]?dev[-_.]?(?P<dev_number>[0-9]{0,9}))?"
    r"(?:\+(?P<local>[a-z0-9]{1,64}(?:[-_.][a-z0-9]{1,64}){0,15}))?"
)
_PHASES = {"alpha": "a", "beta": "b", "preview": "rc", "pre": "rc", "c": "rc"}
_LONGEST = 128

Key = tuple[object, ...]


def version_key(text: str) -> Key | None:
    """A key in the order of PEP 440: 1.0.dev1 < 1.0rc1 < 1.0 < 1.0+local < 1.0.post1; None for other texts.

    >>> version_key("0.10.1") > version_key("0.9.2.post1")
    True
    """
    found = _FORM.fullmatch(text.strip().lower()) if len(text) <= _LONGEST else None
    if found is None:
        return None
    post = found["bare_post"] or (found["post"] and (found["post_number"] or "0"))
    dev = found["dev"] and int(found["dev_number"] or 0)
    return (
        int(found["epoch"] or 0),
        _release(found["release"]),
        _phase(found, has_post=post is not None, has_dev=dev is not None),
        (0, 0) if post is None else (1, int(post)),
        (1, 0) if dev is None else (0, dev),
        _local(found["local"]),
    )


def names_a_release(text: str) -> bool:
    """Whether the version tells which release it is of: builds from a copy without tags call themselves 0.1.dev1."""
    found = _FORM.fullmatch(text.strip().lower()) if len(text) <= _LONGEST else None
    if found is None:
        return False
    release = _release(found["release"])
    return not (release in ((), (0,)) or (found["dev"] is not None and release == (0, 1)))


def _release(text: str) -> tuple[int, ...]:
    numbers = [int(part) for part in text.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _phase(found: re.Match[str], *, has_post: bool, has_dev: bool) -> tuple[int, str, int]:
    """Before a release come its candidates, and before those what is only in development."""
    if found["phase"]:
        return 1, _PHASES.get(found["phase"], found["phase"]), int(found["phase_number"] or 0)
    return (0, "", 0) if has_dev and not has_post else (2, "", 0)


def _local(text: str | None) -> tuple[tuple[int, int, str], ...]:
    parts = re.split(r"[-_.]", text) if text else []
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts)
