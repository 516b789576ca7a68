"""What an engine file says where to read, and the server does not tell there: a wrong path is silent otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gatekit.records.canonical import Plain
from gatekit.records.spec import Engine
from gatekit.report.escape import escape_terminal
from gatekit.run.server_info import absent

# A log tells these of every server; a backend is chosen, and drafts are made, by some.
_ALWAYS_LOGGED = frozenset(
    {"dtype", "quantization", "kv_cache_dtype", "max_model_len", "seed", "enforce_eager", "trust_remote_code"}
    | {"tensor_parallel_size", "data_parallel_size", "expert_parallel", "expert_parallel_size"}
)
_SPECULATION, _OF_SPECULATION = "speculative", "speculative_"
_NONE = frozenset({"none", "null", "false"})
_SHOWN_CHARACTERS = 200


def untold_version(engine: Engine, version: str | None) -> tuple[str, ...]:
    """The warning for a server that tells no version where its engine says."""
    if version is not None or engine.version_path is None:
        return ()
    where = f"{engine.version_path} (engine.version_path, engine.version_key={engine.version_key})"
    unknown = f"no version is told at {escape_terminal(where, limit=_SHOWN_CHARACTERS)}: the build is unknown"
    return (f"not verified: {unknown}; engine.version_path=null says that there is none",)


def untold_settings(
    engine: Engine, why: str | None, description: Mapping[str, Plain], logged: Mapping[str, str] | None
) -> tuple[str, ...]:
    """The warnings for a description that cannot be had, for this reason, or lacks what is named; and for the log.

    `logged` are the settings that the log tells, None where there is no log.
    """
    return (*_of_description(engine, why, description), *_of_log(engine, logged))


def untold_metrics(
    engine: Engine, found: Mapping[str, str], text: str | None, speculative: str | None
) -> Iterator[str]:
    """The warnings for metrics that are not there; `speculative` is what the server tells of its drafting, if at all.

    A server that drafts nothing needs to count no drafts.
    """
    is_off = speculative is not None and speculative.casefold() in _NONE
    wanted = [name for name in engine.metrics or {} if not (is_off and name.startswith(_OF_SPECULATION))]
    missing = [f"{name} ({(engine.metrics or {})[name]})" for name in wanted if name not in found]
    if engine.metrics_path is None or not missing:
        return
    if text is None:
        yield f"not verified: nothing could be read at {engine.metrics_path} (engine.metrics_path)"
    else:
        yield f"not verified: {engine.metrics_path} has no {', '.join(missing)}, as engine.metrics names it"


def _of_description(engine: Engine, why: str | None, description: Mapping[str, Plain]) -> Iterator[str]:
    named = {key: f"engine.effective.{name}" for name, key in (engine.effective or {}).items()}
    named |= {key: "engine.info_keys" for key in engine.info_keys if key not in named}
    if engine.info_path is None or not named:
        return
    if why is not None:
        what = f"nothing could be read at {engine.info_path} (engine.info_path): {why}"
        yield f"not verified: {escape_terminal(what, limit=_SHOWN_CHARACTERS)}"
        return
    missing = ", ".join(f"{key} ({named[key]})" for key in absent(description, named))
    if missing:
        yield f"not verified: {engine.info_path} has no {missing}"


def _of_log(engine: Engine, logged: Mapping[str, str] | None) -> Iterator[str]:
    named = engine.log_values or {}
    if logged is None or not named:
        return
    missing = [name for name in named if name not in logged and (name in _ALWAYS_LOGGED or not logged)]
    if missing:
        yield f"not verified: the server's log tells no {', '.join(missing)}, as engine.log_values names it"
