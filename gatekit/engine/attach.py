"""A server that is already running somewhere."""

from __future__ import annotations

from collections.abc import Mapping

from gatekit.engine.base_url import check_base_url
from gatekit.engine.endpoint import Endpoint
from gatekit.errors import ConfigError
from gatekit.records.spec import Spec


def attached(spec: Spec, environ: Mapping[str, str]) -> Endpoint:
    """The endpoint at `engine.base_url`; its key is the value of the variable `engine.api_key_env`.

    Raises ConfigError for a missing or refused base URL and for an unset or malformed key.
    """
    engine = spec.engine
    if engine.base_url is None:
        raise ConfigError.one(
            f"engine {engine.name!r} connects to a running server but has no base URL",
            reason="base-url",
            hint="set engine.base_url=http://HOST:PORT",
        )
    return Endpoint(
        base_url=check_base_url(engine.base_url),
        served_model=engine.expected_model or spec.model.name,
        api_key=_key(engine.api_key_env, environ) if engine.api_key_env else None,
        details={},
        simulated=False,
    )


def _key(variable: str, environ: Mapping[str, str]) -> str:
    key = environ.get(variable, "").strip()
    if not key:
        raise ConfigError.one(
            f"the environment variable {variable}, named by engine.api_key_env, is not set",
            reason="api-key-unset",
            hint=f"export {variable}, or set engine.api_key_env=null for a server without a key",
        )
    if not key.isascii() or not key.isprintable():
        raise ConfigError.one(
            f"the environment variable {variable} holds characters that no API key has",
            reason="api-key-malformed",
            hint="check for line breaks and quotes in its value",
        )
    return key
