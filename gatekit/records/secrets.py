"""What is never written down: of the URL of a database, only what is known to be harmless is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from gatekit.records.spec import Spec

MASK = "***"

# Nothing here may hold a percent sign: a password hides behind u%3Apassword@host too.
_USER = r"[A-Za-z0-9_.-]{1,63}"
_HOST = r"(?:[A-Za-z0-9_.-]{0,253}|\[[0-9A-Fa-f:.]{2,45}\])"
_PORT = r"(?::[0-9]{0,5})?"
_URL = re.compile(
    rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{{0,30}}://)"
    rf"(?:(?P<user>{_USER})?(?P<password>:.*)?@)?"
    rf"(?P<place>{_HOST}{_PORT}(?:,{_HOST}{_PORT})*(?:/[A-Za-z0-9_./-]*)?)",
    re.DOTALL,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://")
_PLAIN = re.compile(r"[A-Za-z0-9_.,/-]{0,255}|[0-9A-Fa-f:.,]{0,255}")
_SEARCH_PATH = re.compile(r"-c(?: |%20|\+)?search_path(?:=|%3D)[A-Za-z0-9_,]{1,255}", re.IGNORECASE)
_HARMLESS = frozenset(
    {"host", "hostaddr", "port", "dbname", "user", "sslmode", "gssencmode", "channel_binding", "connect_timeout"}
    | {"application_name", "client_encoding", "target_session_attrs", "load_balance_hosts", "tcp_user_timeout"}
    | {"keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"}
)
_SECRET = frozenset({"password", "sslpassword", "passfile", "sslkey", "oauth_client_secret", "scram_client_key"})
_WORD = re.compile(r"\S+")
# To the end of the word: a password may hold whatever, and may be cut off before its @. A path has one slash left.
_CREDENTIALS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30}://|(?:postgres(?:ql)?(?:\+[a-z]+)?|https?):/(?!/))"
    r"(?P<user>[^\s:/?#@%'\"\[]*)(?::|%3[Aa])(?P<rest>[^\s'\"]*)"
)
_PORT_AND_MORE = re.compile(r"(?:[0-9]{1,5}|PORT)(?![0-9A-Za-z%])")  # PORT is what our own hints call it
_PASSWORD_PARAMETER = re.compile(r"(?P<name>(?<=[?&])(?:ssl)?password=)[^\s&'\"]+", re.IGNORECASE)
_PARAMETER = re.compile(r"(?<![\w%-])(?P<name>[\w%-]+=)\S+")
_SECRET_NAME = re.compile(r"pass|secret|key|token", re.IGNORECASE)


def masked_url(url: str) -> str:
    """The URL with `***` in place of everything that is not known to be harmless, or `***` for what is no URL.

    Shown are scheme, user, host, port, database and parameters such as `sslmode`.

    >>> masked_url("postgresql://ci:p@ss@db/gates?sslmode=require&password=x")
    'postgresql://ci:***@db/gates?sslmode=require&password=***'
    >>> masked_url("host=db password=x"), masked_url("postgresql://ci:x"), masked_url("postgresql://ci%3Ax@db/gates")
    ('***', 'postgresql://***', 'postgresql://***')
    """
    address, mark, query = url.partition("?")
    found = _URL.fullmatch(address)
    if found is None or "@" in query:  # a password with a question mark, or who knows what
        scheme = _SCHEME.match(url)
        return f"{scheme.group()}{MASK}" if scheme else MASK
    user, password = found["user"] or "", "" if found["password"] is None else f":{MASK}"
    at = "@" if user or password else ""
    parameters = mark + "&".join(map(_masked_parameter, query.split("&"))) if query else mark
    return f"{found['scheme']}{user}{password}{at}{found['place']}{parameters}"


def masked_text(text: str) -> str:
    """A text with whatever in it looks like a URL, or like a parameter that holds a secret, masked."""
    return _WORD.sub(_masked_word, _PARAMETER.sub(_masked_if_secret, text))


def _masked_if_secret(found: re.Match[str]) -> str:
    return f"{found['name']}{MASK}" if _SECRET_NAME.search(found["name"]) else found.group()


def _masked_word(found: re.Match[str]) -> str:
    """A word with the URL in it masked: what begins with a scheme, or has a colon before an @."""
    word = found.group()
    scheme = _SCHEME.search(word)
    colon = word.find(":")
    if scheme is not None:
        start = scheme.start()
    elif 0 <= colon < word.rfind("@"):
        start = max(word.rfind(quote, 0, colon) for quote in "'\"") + 1
    else:
        return word
    return word[:start] + masked_url(word[start:])


def without_passwords(text: str) -> str:
    """A text for people with the passwords of the URLs in it masked, also of one that was cut off, and all else as
    it is. What only may be a password, such as a port of more than five digits, is masked too.

    >>> without_passwords("no run 'postgresql://ci:p@ss@db/gates' in postgresql://ci:p")
    "no run 'postgresql://ci:***@db/gates' in postgresql://ci:***"
    >>> without_passwords("http://127.0.0.1:8000/v1, https://x.org/a?page=2")
    'http://127.0.0.1:8000/v1, https://x.org/a?page=2'
    """
    if ":/" not in text:
        return text
    return _PASSWORD_PARAMETER.sub(rf"\g<name>{MASK}", _CREDENTIALS.sub(_masked_credentials, text))


def _masked_credentials(found: re.Match[str]) -> str:
    _, at, behind = found["rest"].rpartition("@")
    if not at and (not found["rest"] or _PORT_AND_MORE.match(found["rest"])):
        return found.group()
    return f"{found['scheme']}{found['user']}:{MASK}{f'@{behind}' if at else ''}"


def holds_password(text: str) -> bool:
    """Whether a text that is to be kept holds a URL with a password."""
    return without_passwords(text) != text


def hidden_values(parameters: Mapping[str, object]) -> tuple[str, ...]:
    """Those values of connection parameters that are not known to be harmless, the longest first."""
    texts = {str(value): _is_shown(name, str(value)) for name, value in parameters.items() if value}
    return tuple(sorted((text for text, is_shown in texts.items() if not is_shown), key=len, reverse=True))


def without_secrets(spec: Spec) -> Spec:
    """The spec as it may be stored and shown."""
    history, engine = spec.history, spec.engine
    if history.url is not None:
        history = replace(history, url=masked_url(history.url))
    if engine.base_url is not None and set("@?#").intersection(engine.base_url):
        engine = replace(engine, base_url=masked_url(engine.base_url))
    return replace(spec, history=history, engine=engine)


def _masked_parameter(text: str) -> str:
    name, sign, value = text.partition("=")
    if sign and _is_shown(name, value):
        return text
    return f"{name}={MASK}" if sign and name in _SECRET else MASK


def _is_shown(name: str, value: str) -> bool:
    if name == "options":
        return _SEARCH_PATH.fullmatch(value) is not None
    if name == "port":
        return value.replace(",", "").isdecimal()
    return name in _HARMLESS and _PLAIN.fullmatch(value) is not None
