"""A name for every spec of a matrix, so that no two are called the same."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from gatekit.spec.composition import shown_override

_PLAIN = re.compile(r"[A-Za-z0-9_.+-]{1,40}")


def unique_names(specs: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Of specs, each a name and its overrides: the name, and where several share it, what sets each apart.

    >>> unique_names([("a-b200", ["task.n=100"]), ("a-b200", ["task.n=200"]), ("b-b200", [])])
    ['a-b200[task.n=100]', 'a-b200[task.n=200]', 'b-b200']
    """
    sharing: dict[str, list[Sequence[str]]] = defaultdict(list)
    for name, overrides in specs:
        sharing[name].append(overrides)
    shared = {name: set.intersection(*map(set, all_of)) for name, all_of in sharing.items()}
    names = [
        name if len(sharing[name]) == 1 else _set_apart(name, [text for text in overrides if text not in shared[name]])
        for name, overrides in specs
    ]
    return _numbered(names)


def _set_apart(name: str, own: Sequence[str]) -> str:
    return f"{name}[{','.join(map(_short, own))}]" if own else name


def _short(override: str) -> str:
    """An override in a name: a plain value as it is, of any other one that it is set."""
    key, _, value = shown_override(override).partition("=")
    return f"{key}={value}" if _PLAIN.fullmatch(value) else f"{key}=..."


def _numbered(names: Sequence[str]) -> list[str]:
    """Names that differ only in what is not shown get a number."""
    taken, used = Counter(names), set(names)
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        label = name if taken[name] == 1 or seen[name] == 1 else f"{name}#{seen[name]}"
        while label != name and label in used:
            label += "+"
        used.add(label)
        numbered.append(label)
    return numbered
