"""What is really on in a server, from its log and its metrics, and whether it is what was asked for."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from gatekit.errors import InfraError
from gatekit.history.durable_files import open_regular
from gatekit.records.served_details import EFFECTIVE
from gatekit.records.spec import Spec
from gatekit.report.escape import escape_terminal
from gatekit.run.wishes import wishes

PREFIX = EFFECTIVE
_VALUE = "{value}"
_ENDS = frozenset(",;()]} \t\r\n")
_QUOTES = "'\""
_LONGEST = 120
_MOST_LOG_BYTES = 2**20
_MOST_TRIES = 1000
_MOST_LINES = 50_000
_DRAFTED, _ACCEPTED, _ACCEPTANCE = "speculative_drafted", "speculative_accepted", "speculative_acceptance"

# How servers write that weights are not quantised.
_NOT_QUANTISED = frozenset(
    {"", "none", "null", "unquantized", "auto", "f16", "fp16", "float16", "half", "bf16", "bfloat16", "f32", "float32"}
)
_AT_LEAST = frozenset({"max_model_len"})  # more room than asked for changes no answer


def log_values(path: Path, markers: Mapping[str, str]) -> dict[str, str]:
    """The settings that the first MiB of a log tells, by name; see `value_in`. Nothing where it cannot be read."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            text = file.read(_MOST_LOG_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return {}
    found = {name: value_in(text, marker) for name, marker in markers.items()}
    return {name: value for name, value in found.items() if value is not None}


def value_in(text: str, marker: str) -> str | None:
    """The word after the first `marker` in the text; with `{value}` in the marker, between its two parts.

    A word ends at white space and at any of `,;()]}`, is at most 120 characters long, and loses its quotes. Markers are
    plain texts: nothing in them is a pattern. The lines of one are alternatives, of which the first that finds counts.

    >>> value_in("config: seed=0, dtype=torch.bfloat16, max_seq_len=512", ", dtype=")
    'torch.bfloat16'
    >>> value_in("Using FLASH_ATTN attention backend.", "Using {value} attention backend")
    'FLASH_ATTN'
    """
    found = (_word_at(text, line) for line in marker.split("\n") if line)
    return next((word for word in found if word is not None), None)


def _word_at(text: str, marker: str) -> str | None:
    before, _, after = marker.partition(_VALUE)
    start = 0
    for _ in range(_MOST_TRIES):
        start = text.find(before, start)
        if start < 0:
            return None
        start += max(len(before), 1)
        end = start
        while end < len(text) and end - start < _LONGEST and text[end] not in _ENDS:
            end += 1
        word = text[start:end].strip(_QUOTES)
        if word and text.startswith(after, end):
            return escape_terminal(word, limit=_LONGEST)
    return None


def metric_values(text: str, names: Mapping[str, str]) -> dict[str, str]:
    """The sums over all labels of the named Prometheus metrics, and the share of drafted tokens that were accepted."""
    sums: dict[str, float] = {}
    for line in text.split("\n", _MOST_LINES)[:_MOST_LINES]:
        name = line[: _name_end(line)]
        value = _number(line) if name in names.values() else None
        if value is not None:
            sums[name] = sums.get(name, 0.0) + value
    found = {own: sums[name] for own, name in names.items() if name in sums}
    if found.get(_DRAFTED) and _ACCEPTED in found:
        found[_ACCEPTANCE] = found[_ACCEPTED] / found[_DRAFTED]
    return {name: f"{value:.6g}" for name, value in found.items()}


def not_effective(spec: Spec, found: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each setting that was asked for and is not in effect, and one for all of which the server does not
    tell whether they are.

    `found` are the settings that are known. Raises InfraError instead with `engine.require_effective`.
    """
    engine = spec.engine
    told = frozenset({*(engine.effective or {}), *(engine.log_values or {})})
    sentences = tuple(_unmet(wishes(spec, told), found))
    if sentences and engine.require_effective:
        hint = "mend the server's setting, or leave engine.require_effective out to be warned only"
        raise InfraError("; ".join(sentences), reason="not-effective", hint=hint)
    return sentences


def _unmet(wished: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    for name, wish in wished.items():
        if name in found and not _is_met(name, wish.casefold(), found[name].casefold()):
            yield f"asked for {name}={escape_terminal(wish, limit=_LONGEST)}, in effect: {found[name]}"
    untold = ", ".join(
        f"{name}={escape_terminal(wish, limit=40)}" for name, wish in wished.items() if name not in found
    )
    if untold:
        yield f"not verified: asked for {untold}, and the server does not tell what is in effect"


def _is_met(name: str, wish: str, found: str) -> bool:
    if name == "quantization":
        # A number format (int4) is not the name of a method (compressed-tensors): only having none is told apart.
        return (wish in _NOT_QUANTISED) == (found in _NOT_QUANTISED)
    if name in _AT_LEAST and wish.isdecimal() and found.isdecimal():
        return int(found) >= int(wish)
    bare = found.removeprefix("torch.")
    return bare == wish or bare.startswith(wish + "_")  # fp8 is also fp8_e4m3


def _name_end(line: str) -> int:
    ends = [at for at in (line.find("{"), line.find(" ")) if at >= 0]
    return min(ends, default=len(line))


def _number(line: str) -> float | None:
    """The value of a sample: the first word after its labels, which may hold anything."""
    words = line[line.rfind("}") + 1 :].split() if "}" in line else line.split()[1:]
    try:
        value = float(words[0]) if words else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None
