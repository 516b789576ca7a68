"""What no text of a config may hold, be it a value or the name of a key: a secret, a NUL character."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gatekit.errors import Problem
from gatekit.records.secrets import holds_password, masked_url
from gatekit.service_keys import holds_key
from gatekit.spec.composition import Composition
from gatekit.spec.reader import KeyPath

_SHAPE = frozenset({"wrong-type", "unknown-choice", "bad-form", "bad-value", "unknown-key"})
_OWN_RULE: frozenset[KeyPath] = frozenset({("history", "url"), ("engine", "base_url")})
SECRET = "secret-in-config"  # noqa: S105 - the id of a rule


def problems(composition: Composition) -> Iterator[Problem]:
    """Every such text of a composed config, at its place; none is repeated."""
    for path, is_key, text in texts(composition.data):
        # A prompt travels as JSON; all other texts end up as paths, arguments or variables, which hold no NUL.
        has_nul = "\0" in text and path[0] != "protocol"
        has_password = holds_password(text) and path[0] != "protocol" and path not in _OWN_RULE
        if not (has_nul or has_password or holds_key(text)):
            continue
        where, name = composition.locate(path, key=is_key), ".".join(map(str, path)).replace("\0", "?")
        if has_nul:
            what = f"{name}: holds a NUL character"
            yield Problem(where=where, what=what, reason="nul-character", hint="remove it")
        else:
            hint = "secrets never stand in configs: name an environment variable, and change this secret"
            what = f"{name}: a URL with a password" if has_password else f"{name}: looks like a secret"
            yield Problem(where=where, what=what, reason=SECRET, hint=hint)


def passwords_of_urls(composition: Composition) -> Iterator[Problem]:
    """A password in the URL of the history, in a file: files are committed and shared; what is typed is one's own."""
    history = composition.data.get("history")
    url = history.get("url") if isinstance(history, dict) else None
    where = composition.locate(("history", "url"))
    if isinstance(url, str) and "${" not in url and masked_url(url) != url and not where.startswith("override "):
        hint = "name the environment variable that holds the whole URL in history.url_env"
        yield Problem(where=where, what="history.url: holds a password", reason=SECRET, hint=hint)


def most_telling(found: Iterable[Problem]) -> list[Problem]:
    """The problems without what is said of the shape of a text that is a secret in the wrong place."""
    listed = list(found)
    places = {problem.where for problem in listed if problem.reason == SECRET and problem.where}
    return [problem for problem in listed if problem.where not in places or problem.reason not in _SHAPE]


def secret_places(data: Any) -> Iterator[tuple[KeyPath, bool]]:
    """Where something looks like the key of a service, and whether that is the name of a key."""
    return ((path, is_key) for path, is_key, text in texts(data) if holds_key(text))


def texts(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, bool, str]]:
    """Every text of plain data: its path, whether it is the name of a key, and itself."""
    if isinstance(value, str):
        yield path, False, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), True, str(key)
            yield from texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts(item, (*path, index))
