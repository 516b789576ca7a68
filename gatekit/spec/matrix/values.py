"""Values of a matrix's `set`, written as overrides that Hydra's grammar reads back as exactly the same values."""

from __future__ import annotations

import re
from typing import Any

from gatekit.errors import ConfigError
from gatekit.report.escape import is_visible

_WORD = re.compile(r"(?!(?:true|false|null|nan|inf)\Z)[A-Za-z_][A-Za-z0-9_-]*", re.IGNORECASE)
_BEFORE_A_QUOTE = re.compile(r"(\\*)('|\Z)")


def override(key: str, value: Any, *, where: str) -> str:
    """`key=value` for the command line, without quotes of a shell.

    Raises ConfigError, which never shows the value, for what an override cannot say: references, and characters
    that would end the line or cannot be seen.

    >>> override("task.n", 200, where=""), override("protocol.system_prompt", "it's", where="")
    ('task.n=200', "protocol.system_prompt='it\\\\'s'")
    """
    try:
        return f"{key}={_written(value)}"
    except ConfigError as error:
        (problem,) = error.problems
        raise ConfigError.one(
            f"set: {key}: {problem.what}", where=where, reason=problem.reason, hint=problem.hint
        ) from None


def _written(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{_key(key)}: {_written(inner)}' for key, inner in value.items())}}}"
    return _text(str(value))


def _key(key: str) -> str:
    if not _WORD.fullmatch(key):
        hint = "keys inside a value are plain words; put it into a file of your own"
        raise ConfigError.one("a key that no override can hold", reason="unwritable-value", hint=hint)
    return key


def _text(text: str) -> str:
    if "${" in text:
        hint = "write the value itself, or put it into a file of your own"
        raise ConfigError.one("references are not allowed here", reason="reference", hint=hint)
    if not is_visible(text):
        hint = "put it into a file of your own, such as protocol/NAME.yaml"
        raise ConfigError.one(
            "line ends and invisible characters are not allowed here", reason="unwritable-value", hint=hint
        )
    if _WORD.fullmatch(text):
        return text
    # A backslash counts double only before a quote, the closing one included.
    return "'" + _BEFORE_A_QUOTE.sub(lambda found: found[1] * 2 + (r"\'" if found[2] else ""), text) + "'"
