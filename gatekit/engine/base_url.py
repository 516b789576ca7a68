"""Which base URLs of a running server are accepted."""

from __future__ import annotations

import ipaddress
import re
import socket
from urllib.parse import SplitResult, urlsplit

from gatekit.errors import ConfigError

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_HINT = "write it as http://HOST:PORT"
# Where cloud machines give credentials to whoever asks, other than at link-local addresses.
_METADATA_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
_METADATA_NETWORKS = tuple(
    map(
        ipaddress.ip_network,
        ("fd00:ec2::/32", "fd20:ce::/32", "100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32"),
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_COMPATIBLE = ipaddress.ip_network("::/96")
_ESCAPED_CONTROL = re.compile(r"%(?:[01][0-9a-f]|7f)", re.IGNORECASE)
_BROKEN_ESCAPE = re.compile(r"%(?![0-9a-f]{2})", re.IGNORECASE)
_LEGACY_IPV4 = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}")


def check_base_url(url: str) -> str:
    """The URL without trailing slashes and without `/v1`, e.g. `http://127.0.0.1:8000`.

    Raises ConfigError unless it is an http(s) URL with a host and without credentials, query or fragment,
    and for hosts where cloud machines keep their credentials: link-local ones and metadata servers. Errors do not
    quote the URL when it may hold a password.
    """
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url or _has_bad_escape(url):
        raise _refusal("holds characters that no URL has")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _refusal("is not a URL") from None
    _check_parts(url, parts, port)
    if not host:
        raise _refusal("names no host")
    if "%" in host and not parts.netloc.startswith("["):  # before a colon of IPv6, it names a network interface
        raise _refusal("has an escape in its host")
    if kind := _metadata_kind(host):
        raise _refusal(f"points at the {kind} {host[:80]}, where cloud machines keep credentials")
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


def _has_bad_escape(url: str) -> bool:
    """Whether an escape is cut off, or stands for a control character, which could end a line of the request."""
    return _ESCAPED_CONTROL.search(url) is not None or _BROKEN_ESCAPE.search(url) is not None


def _metadata_kind(host: str) -> str:
    """What kind of a host with credentials this is; nothing for any other host."""
    name = host.rstrip(".")
    if name in _METADATA_NAMES:
        return "metadata server"
    if _LEGACY_IPV4.fullmatch(name):  # 2852039166 and 0xa9fea9fe reach the same host as 169.254.169.254
        try:
            name = socket.inet_ntoa(socket.inet_aton(name))
        except OSError:
            return ""
    try:
        address = _innermost(ipaddress.ip_address(name))
    except ValueError:
        return ""
    if address.is_link_local:
        return "link-local host"
    return "metadata server" if any(address in network for network in _METADATA_NETWORKS) else ""


def _innermost(address: _Address) -> _Address:
    """The IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64 or (address in _COMPATIBLE and address > ipaddress.IPv6Address("::ffff")):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _refusal(why: str, *, hint: str = _HINT) -> ConfigError:
    return ConfigError.one(f"engine.base_url {why}", reason="base-url", hint=hint)
