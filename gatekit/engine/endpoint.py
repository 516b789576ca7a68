"""Where to ask, and as whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gatekit.engine.launch import ServerProcess


def _no_files() -> None:
    """Of a server that gatekit did not start none are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server's base URL without `/v1`, the model name it answers to, and the bearer key it asks for.

    `hidden` are texts beside the key that the server knows and that are never written down. `process` is None for a
    server that gatekit did not start. `build` names what is served where that is known before asking, and is None
    elsewhere. `details` holds no secret. `notices` are sentences that a record should warn of; more may come when the
    server is stopped. `files` reads, once the server has loaded them, what there is to say of the model's files; it may
    take seconds. `refuse_changed` raises InfraError where they have changed since. `weights` is the path of them that a
    server of our own was given. With `foreign_listener` another process than the started one, or one that it started,
    may listen.
    """

    base_url: str
    served_model: str
    api_key: str | None = field(default=None, repr=False)
    hidden: tuple[str, ...] = field(default=(), repr=False)
    process: ServerProcess | None = None
    build: str | None = None
    details: Mapping[str, str]
    simulated: bool
    foreign_listener: bool = False
    notices: list[str] = field(default_factory=list)
    files: Callable[[], Mapping[str, str]] = field(default=dict, repr=False)
    refuse_changed: Callable[[], None] = field(default=_no_files, repr=False)
    weights: str | None = None
