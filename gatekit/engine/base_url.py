"""Which base URLs of a running server are accepted."""

from __future__ import annotations

import ipaddress
import re
import socket
from urllib.parse import SplitResult, urlsplit

from gatekit.errors import ConfigError

_HINT = "write it as http://HOST:PORT"
_LEGACY_IPV4 = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}")


def check_base_url(url: str) -> str:
    """The URL without trailing slashes and without `/v1`, e.g. `http://127.0.0.1:8000`.

    Raises ConfigError unless it is an http(s) URL with a host and without credentials, query or fragment,
    and for link-local hosts (where cloud machines keep their credentials). Errors do not quote the URL
    when it may hold a password.
    """
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise _refusal("holds characters that no URL has")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _refusal("is not a URL") from None
    _check_parts(url, parts, port)
    if not host:
        raise _refusal("names no host")
    if _is_link_local(host):
        raise _refusal(f"points at the link-local host {host}, where cloud machines keep credentials")
    path = parts.path.rstrip("/")
    if path.endswith("/completions"):
        raise _refusal("is the address of a route", hint="leave out everything after the host and port")
    path = path.removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc.lower()}{path}"


def _check_parts(url: str, parts: SplitResult, port: int | None) -> None:
    if "@" in parts.netloc:
        raise _refusal("holds credentials", hint="name the variable of the key in engine.api_key_env instead")
    if parts.scheme not in ("http", "https"):
        raise _refusal(f"has the scheme {parts.scheme[:20]!r}, not http or https")
    if "?" in url or "#" in url:
        raise _refusal("has a query or a fragment")
    if port == 0:
        raise _refusal("has the port 0")


def _is_link_local(host: str) -> bool:
    name = host.rstrip(".")
    if _LEGACY_IPV4.fullmatch(name):  # 2852039166 and 0xa9fea9fe reach the same host as 169.254.169.254
        try:
            name = socket.inet_ntoa(socket.inet_aton(name))
        except OSError:
            return False
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address.is_link_local


def _refusal(why: str, *, hint: str = _HINT) -> ConfigError:
    return ConfigError.one(f"engine.base_url {why}", reason="base-url", hint=hint)
