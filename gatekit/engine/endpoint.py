"""Where to ask, and as whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gatekit.engine.launch import ServerProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server's base URL without `/v1`, the model name it answers to, and the bearer key it asks for.

    `process` is None for a server that gatekit did not start. `build` names what is served where that is
    known before asking, and is None elsewhere. `details` holds no secret. `notices` are sentences that a record should
    warn of; more may come when the server is stopped. `files` reads, once the server has loaded them, what there is to
    say of the model's files; it may take seconds.
    """

    base_url: str
    served_model: str
    api_key: str | None = field(default=None, repr=False)
    process: ServerProcess | None = None
    build: str | None = None
    details: Mapping[str, str]
    simulated: bool
    notices: list[str] = field(default_factory=list)
    files: Callable[[], Mapping[str, str]] = field(default=dict, repr=False)
