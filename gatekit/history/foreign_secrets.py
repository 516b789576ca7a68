"""Whether what came from elsewhere holds what must not be kept: a password in a URL, or the key of a service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gatekit.records.canonical import Plain
from gatekit.records.run import RunRecord
from gatekit.records.secrets import holds_password, without_secrets
from gatekit.service_keys import holds_key

_SERVED = ("engine", "build", "model", "base_url")
_PROMPTS = ("spec.protocol", "comparability.fields.protocol.")  # what a model is asked may be about a URL


def record_secret(record: RunRecord, plain: Mapping[str, Plain]) -> str | None:
    """Where a record, also given as plain data, holds one, and what; None where it does not.

    Looked at is what its own side wrote: spec, comparability key, and the names of what was served. What a server or
    a model said (answers, details, events) is data and stays as it is. As in a config, a prompt may hold any URL.
    """
    bare = without_secrets(record.spec)
    if bare.history.url != record.spec.history.url:
        return "spec.history.url holds more than may be shown of a URL"
    if bare.engine.base_url != record.spec.engine.base_url:
        return "spec.engine.base_url holds more than may be shown of a URL"
    served = plain.get("served") or {}
    own = {
        "spec": plain["spec"],
        "comparability": plain["comparability"],
        "served": {name: served.get(name) for name in _SERVED},
    }
    return next(_secrets("", own), None)


def act_secret(plain: Mapping[str, Plain]) -> str | None:
    """Where an act holds one, and what; None where it does not."""
    return next(_secrets("", plain), None)


def text_secret(text: str) -> str | None:
    """What of the kind a text holds; None where it does not."""
    if holds_key(text):
        return "what looks like the key of a service"
    return "a URL with a password" if holds_password(text) else None


def _secrets(path: str, data: Plain) -> Iterator[str]:
    """The path of each, which never repeats one: a name that holds it is told as its section."""
    if isinstance(data, str):
        what = text_secret(data)
        if what is not None and (holds_key(data) or not path.startswith(_PROMPTS)):
            yield f"{path} holds {what}"
    elif isinstance(data, Mapping):
        for name, value in data.items():
            yield from _secrets(f"the names in {path}", name)
            yield from _secrets(f"{path}.{name}" if path else name, value)
    elif isinstance(data, list | tuple):
        for number, value in enumerate(data):
            yield from _secrets(f"{path}.{number}", value)
