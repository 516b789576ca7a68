"""Records of which one value is not what it should be: refused in one line, or handled by every reader."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from command_line import here
from gatekit.errors import InfraError
from gatekit.history.records_folder import read_stored
from gatekit.records.canonical import canonical_json, digest
from gatekit.records.run import record_to_plain
from kept_nights import keep_nights
from nights import run_nights, series

Steps = tuple[str | int, ...]
VALUES: tuple[Any, ...] = (
    "x",
    "",
    "\u0660\ud800\0é",
    None,
    [],
    [1],
    {},
    {"a": 1},
    True,
    -1,
    2**63,
    10**400,
    0.5,
    -1e308,
    1e308,
)
_FEW_ANSWERS = 2
_RESEALED = ("digest", "previous")


@dataclass(frozen=True)
class Mutant:
    """The plain records of a series, of which the last (all of them, for the key) has one value replaced."""

    name: str
    plains: list[Any]


def _leaves(value: Any, steps: Steps = ()) -> Iterator[Steps]:
    """Every place of a record that holds no further places; of many alike only the first ones."""
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items.extend(enumerate(value[:_FEW_ANSWERS]))
    if not items or (steps[:2] == ("comparability", "fields") and len(steps) > 2):
        yield steps
    else:
        yield steps
        for step, inner in items:
            yield from _leaves(inner, (*steps, step))


def _replaced(plain: Any, steps: Steps, value: Any) -> None:
    for step in steps[:-1]:
        plain = plain[step]
    plain[steps[-1]] = value


def _sealed(plain: Any, mark: str, night: int, steps: Steps) -> Any:
    """The record as one of a series of its own, its key and digest as they follow from it."""
    if steps != ("run_id",):
        plain["run_id"] = f"{mark}-{night}"
    _rename_used(plain, mark, steps)
    spec, key = plain["spec"], plain["comparability"]
    if isinstance(spec, dict) and steps != ("spec", "name"):
        spec["name"] = f"{mark}-spec"
    if isinstance(key, dict) and isinstance(key.get("fields"), dict):
        key["fields"]["series"] = mark
        if steps != ("comparability", "key"):
            key["key"] = _digest(key["fields"])
    plain["digest"] = _digest({name: value for name, value in plain.items() if name != "digest"})
    return plain


def _rename_used(plain: Any, mark: str, steps: Steps) -> None:
    """What the verdict rests on, in the series of its own."""
    verdict = plain["verdict"]
    if steps in (("verdict",), ("verdict", "rule"), ("verdict", "churn")) or steps[2:3] in (("used",), ("run_id",)):
        return
    rule, churn = verdict["rule"], verdict["churn"]
    if rule is not None:
        rule["used"] = [name.replace("n-0", f"{mark}-") for name in rule["used"]]
    if churn is not None:
        churn["run_id"] = churn["run_id"].replace("n-0", f"{mark}-")


def _digest(value: Any) -> str:
    try:
        return digest(value)
    except ValueError:  # a number that JSON has not
        return "sha256:" + "0" * 64


def _mutant(nights: list[Any], number: int, steps: Steps, value: Any) -> Mutant:
    plains = copy.deepcopy(nights)
    of_the_key = steps[0] == "comparability" or steps[:2] == ("spec", "gate")
    for plain in plains if of_the_key else plains[-1:]:
        _replaced(plain, steps, value)
    sealed = [_sealed(plain, f"m{number}", night, steps) for night, plain in enumerate(plains)]
    return Mutant(name=f"{'.'.join(map(str, steps))}={str(value)[:20]!a}", plains=sealed)


def _file(path: Path, plains: list[Any]) -> Path:
    path.write_bytes(b"".join(_line(plain) for plain in plains))
    return path


def _line(plain: Any) -> bytes:
    try:
        return canonical_json(plain) + b"\n"
    except ValueError:
        return json.dumps(plain).encode() + b"\n"


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Four nights of a simulated model, gated by history, as their records hold them."""
    folder = tmp_path_factory.mktemp("nights")
    options = ["task.n=60", "gate=auto", "gate.early_stop=none"]
    *before, last = series("n", 0.9, 5, first="2026-09-01", step=0.02)
    records = [*keep_nights(folder, before, *options), *run_nights(folder, [last], *options)]
    return [{**record_to_plain(record), "previous": None} for record in records]


def _mutants(nights: list[Any], *sections: str) -> Iterator[Mutant]:
    number = 0
    for steps in _leaves(nights[-1]):
        if not steps or steps[0] in _RESEALED or steps[0] not in sections:
            continue
        for value in VALUES:
            number += 1
            yield _mutant(nights, number, steps, value)


def _accepted(folder: Path, mutants: Iterator[Mutant]) -> list[Mutant]:
    """Those that import takes; each of the others is one line and exit 2 or 3. All of them into one history."""
    found = []
    for mutant in mutants:
        done = here(folder, "history", "import", str(_file(folder / "in.jsonl", mutant.plains)), "--dir", "h")
        assert done.code in (0, 2, 3), (mutant.name, done.err)
        if done.code:
            assert done.err.count("\n") == 1, (mutant.name, done.err)
        else:
            found.append(mutant)
    return found


def _assert_handled(folder: Path, mutants: list[Mutant]) -> None:
    failures = []
    for mutant in mutants:
        first, last = mutant.plains[0]["run_id"], mutant.plains[-1]["run_id"]
        for words in (
            ("explain", last),
            ("explain", last, "--json"),
            ("history", "show", last),
            ("history", "compare", first, last),
            ("history", "compare", first, last, "--json"),
            ("history", "rescore", last, "--extractor", "last_number"),
        ):
            try:
                done = here(folder, *words, "--dir", "h")
            except Exception as error:  # what the process would end in with exit code 70
                failures.append(f"{mutant.name}: {' '.join(words)}: {type(error).__name__} {error}")
            else:
                assert done.code in (0, 2, 3), (mutant.name, words, done.err)
    assert failures == []
    if not mutants:
        return
    for words in (("thresholds", "recompute", "--all-series"), ("history", "list"), ("history", "plot")):
        done = here(folder, *words, "--dir", "h")
        assert done.code in (0, 2, 3, 4), (words, done.err)
    assert here(folder, "history", "verify", "--dir", "h").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "section",
    [
        *("format", "run_id", "gatekit_version", "started_at", "finished_at", "spec", "dataset", "comparability"),
        *("served", "counts", "observations", "verdict", "events", "supersedes"),
    ],
)
def test_no_single_value_gets_past_the_readers(tmp_path: Path, nights: list[Any], section: str) -> None:
    """Whatever one value of a record is replaced by, import refuses it in one line, or every reader handles it."""
    _assert_handled(tmp_path, _accepted(tmp_path, _mutants(nights, section)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.gate.beta", "x"),
        ("spec.gate.alpha", "x"),
        ("spec.gate.floor", "x"),
        ("spec.gate.budget.nights", None),
        ("spec.gate.observed", {"correct": 1, "n": []}),
        ("spec.gate.locks", "a\0b"),
        ("spec.history.url", True),
        ("spec.protocol.extractor", 2**63),
        ("spec.task.n", 60.0),
        ("verdict.rule.method", "x"),
        ("verdict.rule.k_reject", 10**400),
        ("comparability.fields.n", "x"),
        ("comparability.fields.model", [[1]]),
        ("observations.1.attempts", True),
        ("observations.1.latency_s", -0.5),
        ("observations.1.question_id", 2**63),
        ("dataset.question_ids.1", "1"),
    ],
)
def test_a_value_of_another_type_is_named(tmp_path: Path, nights: list[Any], path: str, value: Any) -> None:
    """A record with one value that no run can have is refused by import in one line that names its path."""
    steps = tuple(int(step) if step.isdigit() else step for step in path.split("."))
    mutant = _mutant(nights, 1, steps, value)
    done = here(tmp_path, "history", "import", str(_file(tmp_path / "in.jsonl", mutant.plains[-1:])), "--dir", "h")
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert f"in.jsonl:1: not a whole run record: {path}" in done.err
    assert not (tmp_path / "h").exists()
    if value == "x" and path == "comparability.fields.n":  # of the right type: `history verify` tells of it
        return
    folder = tmp_path / "h" / "runs" / "m1-4"
    folder.mkdir(parents=True)
    _file(folder / "record.json", mutant.plains[-1:])
    with pytest.raises(InfraError, match="is broken") as caught:
        read_stored(folder / "record.json")
    assert path in caught.value.message
