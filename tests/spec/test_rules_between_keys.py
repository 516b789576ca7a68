"""Rules that no schema can say, each by itself, and beside values that are wrong already."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from gatekit.errors import ConfigError
from gatekit.records.canonical import from_plain
from gatekit.records.spec import Spec
from gatekit.resources import conf_dir
from gatekit.spec import rules
from gatekit.spec.library import Library
from gatekit.spec.watched import Watched

LIBRARY = Library([conf_dir()])


def problems(*overrides: str) -> list[str]:
    try:
        LIBRARY.resolve(overrides)
    except ConfigError as error:
        return [problem.reason for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("overrides", "is_right"),
    [
        (["engine.max_model_len=4096", "protocol.max_tokens=1024"], True),
        (["engine.max_model_len=1024", "protocol.max_tokens=1024"], False),
        (["engine.max_model_len=1100", "protocol.max_tokens=1024"], False),  # five examples of 23 words or more
        (["engine.max_model_len=1100", "protocol.max_tokens=1024", "protocol.shots=0"], True),
        (["engine.max_model_len=null", "protocol.max_tokens=1024"], True),
        (["engine.max_model_len=1500", "protocol.max_tokens=1024", "protocol.shots=64"], False),
    ],
)
def test_the_context_holds_prompt_and_answer(overrides: list[str], is_right: bool) -> None:
    """The prompt's least size is known without the dataset: each of its words takes a token."""
    assert (problems(*overrides) == ["context-too-short"]) is not is_right


def test_no_prompt_is_shorter_than_the_rule_says(gsm8k_dir: Path) -> None:
    """The shortest question and example of the real dataset bound every prompt from below."""
    rows = [
        (split, json.loads(line))
        for split in ("test", "train")
        for line in (gsm8k_dir / f"{split}.jsonl").read_text().splitlines()
    ]
    questions = min(len(row["question"].split()) for _, row in rows)
    examples = min(len(row["question"].split()) + len(row["answer"].split()) for _, row in rows)
    assert questions == rules._QUESTION_WORDS
    assert examples == rules._EXAMPLE_WORDS


@pytest.fixture
def few_files() -> Iterator[int]:
    """A process that may open 200 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    yield 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_requests_in_flight_are_files(few_files: int) -> None:
    """As many requests as the process may open files, less what it needs otherwise."""
    assert problems(f"client.concurrency={few_files}") == ["too-few-files"]
    assert problems(f"client.concurrency={few_files - 40}") == []


@pytest.mark.parametrize(
    "override",
    [
        "engine.args=['sk-0123456789abcdef0123']",
        "engine.args=['--header=hf_0123456789abcdefghijABCDEFGHIJ']",
        "engine.env={X: ghp_0123456789abcdefghij}",
        "model.server_env={sim: {X: sk-0123456789abcdef0123}}",
    ],
)
def test_keys_of_services_are_known_by_their_form(override: str) -> None:
    """A key that stands under a harmless name is refused for what it looks like."""
    assert problems(override) == ["secret-in-config"]


def test_words_that_only_look_like_keys() -> None:
    """Ordinary arguments are let through."""
    assert problems("engine.args=['--risk-level', disk-cache-directory-of-mine, hf_cache]") == []


def test_a_password_may_be_typed_but_not_kept_in_a_file(tmp_path: Path) -> None:
    """A file is shared; what somebody types is their own."""
    url = "postgresql://ci:hunter2@db/gates"
    assert problems(f"history.url='{url}'") == []
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "mine.yaml").write_text(f"name: mine\ndir: x\nurl: {url}\n")
    with pytest.raises(ConfigError) as caught:
        Library([tmp_path, conf_dir()]).resolve(["history=mine"])
    (line,) = caught.value.lines()
    assert line.split(": ")[0].endswith("mine.yaml:3:6")
    assert "hunter2" not in line
    (tmp_path / "history" / "mine.yaml").write_text("name: mine\ndir: x\nurl: postgresql://ci@db/gates\n")
    assert Library([tmp_path, conf_dir()]).resolve(["history=mine"]).history.name == "mine"


def test_what_a_rule_looks_at_is_noted() -> None:
    """Plain values by their key path, through nested records and derived properties."""
    seen: set[tuple[str | int, ...]] = set()
    spec = Watched(LIBRARY.resolve([]), (), seen)
    assert spec.simulated is True
    assert seen == {("engine", "kind")}
    assert spec.gate.observed.n == 1319  # type: ignore[attr-defined]  # stands for a Spec
    assert ("gate", "observed", "n") in seen
    assert ("gate", "observed") not in seen


def test_every_rule_works_on_a_watched_spec() -> None:
    """Each rule finds through a watched spec what it finds in the spec itself."""
    for overrides in (["gate.alpha=0.1", "gate.sigmas=2"], ["engine=external"], ["model=laguna_int4", "hw=b200"]):
        composition = LIBRARY.compose(overrides)
        spec = from_plain(Spec, {"name": "x", **composition.data})
        for rule in rules.RULES:
            assert list(rule(cast("Spec", Watched(spec, (), set())))) == list(rule(spec))
