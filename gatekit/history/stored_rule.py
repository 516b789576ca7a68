"""The rule of a stored run, without reading its answers: a chart of five hundred runs stays quick."""

from __future__ import annotations

import json
import os
from pathlib import Path

from gatekit.history.durable_files import open_regular
from gatekit.records.canonical import Plain, from_plain
from gatekit.records.verdict import Rule

_TAIL_BYTES = 256 * 1024
_VERDICT = b',"verdict":{'


def read_rule(path: Path) -> Rule | None:
    """The rule of the verdict in a record file; None where it had none or the file is not at hand.

    Records are canonical, so that the verdict is their last field: only the end of the file is read, and its
    digest is not checked (`gatekit history verify` does).
    """
    try:
        tail = _tail(path)
    except OSError:
        return None
    start = tail.rfind(_VERDICT)  # no string can hold it: quotes in strings are escaped
    if start < 0:
        return None
    try:
        text = tail[start + len(_VERDICT) - 1 :].decode("utf-8", errors="surrogatepass")
        verdict, _ = json.JSONDecoder().raw_decode(text)
        return _rule(verdict.get("rule"))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _rule(plain: Plain) -> Rule | None:
    rule = None if plain is None else from_plain(Rule, plain)
    is_usable = rule is not None and type(rule.n) is int and type(rule.k_reject) is int and 0 <= rule.k_reject <= rule.n
    return rule if is_usable else None


def _tail(path: Path) -> bytes:
    with os.fdopen(open_regular(path), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        return file.read(_TAIL_BYTES)
