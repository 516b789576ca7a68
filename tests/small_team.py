"""An engine of a team's own, in a folder of config files: the small engine, and a model that brings it."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from command_line import Ran, here
from gatekit.task.synth import synth_questions

SCRIPT = Path(__file__).resolve().parent / "small_engine.py"
ENGINE: dict[str, Any] = {
    "name": "small",
    "kind": "launch",
    "command": [sys.executable, str(SCRIPT), "{model}"],
    "flags": {
        "port": "--port",
        "served_model_name": "--served-model-name",
        "max_model_len": "--context",
        "kv_cache_dtype": "--kv",
        "trust_remote_code": "--trust",
        "revision": "--revision",
    },
    "startup_timeout_s": 60,
    "health_path": "/health",
    "version_path": "/version",
    "info_path": "/info",
    "info_keys": ["flavour"],
    "effective": {"max_model_len": "config.context"},
    "log_values": {"kv_cache_dtype": ", kv_cache_dtype="},
    "metrics_path": "/metrics",
    "metrics": {"speculative_drafted": "small:drafted_total", "speculative_accepted": "small:accepted_total"},
    "advisories": [
        {"id": "CVE-2020-1", "below": "1.3", "what": "it does too much", "link": "https://example.org/1"},
        {"id": "CVE-2020-2", "below": "1.3", "what": "it runs code", "link": "https://example.org/2"}
        | {"refuses": "remote_code"},
        {"id": "CVE-2020-3", "below": "1.0", "what": "it did", "link": "https://example.org/3"},
    ],
    "args": [],
    "env": {
        "SMALL_INFO": '{"flavour": "mild", "config": {"context": 512}}',
        "SMALL_LOG": "config: seed=0, kv_cache_dtype=auto, done",
        "SMALL_METRICS": 'small:drafted_total{x="}"} 40\nsmall:drafted_total 10\nsmall:accepted_total 20\n',
    },
}


@cache
def _answers() -> str:
    return json.dumps({question.text: question.reference for question in synth_questions(1319, "test")})


def write_engine(folder: Path, **changes: Any) -> Path:
    """A team's folder with an engine file and a model file."""
    team = folder / "team"
    for group in ("engine", "model"):
        (team / group).mkdir(parents=True, exist_ok=True)
    settings = changes.pop("model", {})
    answers = team / "answers.json"
    if not answers.exists():
        answers.write_text(_answers())
    own = {"SMALL_DUMP": str(folder / "dump.json"), "SMALL_ANSWERS": str(answers)}
    env = ENGINE["env"] | own | changes.pop("env", {})
    (team / "engine" / "small.yaml").write_text(yaml.safe_dump(ENGINE | changes | {"env": env}, sort_keys=False))
    model = {
        "defaults": [
            {"override /engine": "small"},
            {"override /task": "gsm8k_synth"},
            {"override /gate": "static_floor"},
        ],
        "model": {"name": "org/small", "server_args": {}, "server_env": {}},
        "engine": settings,
        "gate": {"floor": 0.8},
    }
    (team / "model" / "small_one.yaml").write_text(yaml.safe_dump(model))
    return team


def small_arguments(folder: Path, *more: str, **changes: Any) -> tuple[str, ...]:
    """The command line of a quick run on that engine; later ones win."""
    team = write_engine(folder, **changes)
    return ("--config-dir", str(team), "model=small_one", "hw=cpu", "task.n=40", "--json", *more)


def run_small(folder: Path, *more: str, **changes: Any) -> Ran:
    """That run, to its end."""
    return here(folder, "run", *small_arguments(folder, *more, **changes))
