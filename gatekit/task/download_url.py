"""Which URLs are downloaded from, and how one is shown."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from gatekit.errors import ConfigError


def check_url(url: str) -> None:
    """Raises ConfigError (`dataset-url-refused`) for what is never downloaded."""
    if not is_allowed(url):
        raise ConfigError.one(
            f"cannot download from {shown_url(url)}: only https, or http on loopback, without credentials is allowed",
            reason="dataset-url-refused",
            hint="use an https URL in task.files, or set task.path=DIR",
        )


def shown_url(url: str) -> str:
    """The URL without user, password, query and fragment, fit for a message."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        bare = urlunsplit((parts.scheme, host, parts.path, "", ""))
    except ValueError:
        return "an invalid URL"
    return "".join(sign if sign.isprintable() else "?" for sign in bare)


def is_allowed(url: str) -> bool:
    """Whether it is https, or http on loopback, without credentials."""
    try:
        parts = urlsplit(url)
        return (
            bool(parts.hostname)
            and "@" not in parts.netloc
            and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname)))
        )
    except ValueError:
        return False


def is_loopback(host: str | None) -> bool:
    """Whether the host is this machine."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False
