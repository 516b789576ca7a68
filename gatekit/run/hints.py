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


# The same, once answers had come from there: what was asked for, and how, was right then.
_AFTER_ANSWERS = {
    FailureKind.DNS: "the name had resolved before: see the network",
    FailureKind.NOT_FOUND: "the route had answered before: see the server's log, and what stands in front of it",
    FailureKind.REDIRECT: "the address had answered before: see what stands in front of the server",
    FailureKind.WRONG_MODEL: "the right one had answered before: are there two servers behind one address?",
}


def hint(kind: FailureKind, spec: Spec, *, has_answered: bool = False) -> str:
    """The next step after a failure of this kind, empty where there is none to name."""
    if has_answered and kind in _AFTER_ANSWERS:
        return _AFTER_ANSWERS[kind]
    if kind is FailureKind.REJECTED and spec.protocol.stream:
        return "where the server does not stream: protocol.stream=false (another protocol); else see its log"
    if kind is FailureKind.UNAUTHORIZED:
        key = spec.engine.api_key_env
        return f"check the value of {key}" if key else "name the variable that holds the key: engine.api_key_env=NAME"
    if kind is FailureKind.NOT_FOUND:
        other = Api.COMPLETIONS if spec.protocol.api is Api.CHAT else Api.CHAT
        return f"if the server only speaks the other route: protocol.api={other.value} (another protocol)"
    return _HINTS.get(kind, "")
