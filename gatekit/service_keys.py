"""What the keys of well-known services look like, wherever somebody put one: such a text is never repeated."""

from __future__ import annotations

import re

_MASK = "***"
_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{16,}"
    r"|hf_[A-Za-z0-9]{20,}"
    r"|gh[oprsu]_[A-Za-z0-9]{20,}"
    r"|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[A-Za-z0-9_-]{20,}"
    r"|nvapi-[A-Za-z0-9_-]{20,}"
    r"|xox[abprs]-[A-Za-z0-9-]{16,}"
    r"|AKIA[A-Z0-9]{16}"
    r"|AIza[A-Za-z0-9_-]{35}"
    r")"
)


def holds_key(text: str) -> bool:
    """Whether something in the text looks like the key of a service."""
    return _KEY.search(text) is not None


def without_keys(text: str) -> str:
    """The text with `***` in place of whatever looks like the key of a service.

    >>> without_keys("--hf-token:hf_" + "a1" * 12), without_keys("unknown key 'task-1'")
    ('--hf-token:***', "unknown key 'task-1'")
    """
    return _KEY.sub(_MASK, text)
