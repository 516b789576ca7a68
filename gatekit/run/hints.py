"""What to do about a failure that asking again does not mend."""

from __future__ import annotations

from gatekit.records.answers import FailureKind
from gatekit.records.spec import Api, Spec

_HINTS = {
    FailureKind.DNS: "check engine.base_url",
    FailureKind.TLS: "name your certificate authority in SSL_CERT_FILE, or use http:// on loopback",
    FailureKind.REDIRECT: "give the final address as engine.base_url",
    FailureKind.REJECTED: "see the server's log",
    FailureKind.WRONG_MODEL: "set engine.expected_model to the served name if it is the same model",
}


def hint(kind: FailureKind, spec: Spec) -> str:
    """The next step after a failure of this kind, empty where there is none to name."""
    if kind is FailureKind.UNAUTHORIZED:
        key = spec.engine.api_key_env
        return f"check the value of {key}" if key else "name the variable that holds the key: engine.api_key_env=NAME"
    if kind is FailureKind.NOT_FOUND:
        other = Api.COMPLETIONS if spec.protocol.api is Api.CHAT else Api.CHAT
        return f"if the server only speaks the other route: protocol.api={other.value} (another protocol)"
    return _HINTS.get(kind, "")
