"""What validate calls clean a run does not refuse, no message repeats a key, and a mistake is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Ran, here

KEY = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345"
KEYS = (
    KEY,
    "sk-" + "abcdefghijklmnop1234",
    "github_pat_" + "11ABCDEFG0abcdefghijklmnop",
    "ghp_" + "abcdefghijklmnopqrstuvwxyz0123",
)
HEAD = """\
defaults:
  - override /engine: sim
  - override /task: gsm8k_synth
  - override /gate: static_floor
model: {name: x, server_args: {}, server_env: {}}
"""
GATE = "gate: {floor: 0.9}\n"
PIN = f"{{rows: 3, sha256: {'a' * 64}, url: 'http://h/t'}}"


def written(folder: Path, text: str, group: str = "model") -> Path:
    for name in ("model", "hw", "matrix"):
        (folder / "conf" / name).mkdir(parents=True, exist_ok=True)
    (folder / "conf" / group / "a.yaml").write_text(text)
    return folder


def validated(folder: Path) -> Ran:
    return here(folder, "validate", "--config-dir", "conf")


def ids(ran: Ran) -> list[str]:
    return [line.rsplit("[", 1)[1].rstrip("]") for line in ran.out.splitlines()]


@pytest.mark.parametrize(
    ("lines", "place", "reason"),
    [
        ("gate: {floor: 0.9, delta: 0.02}\n", "6:27", "floor-delta-needs-observed"),
        ("gate: {floor: 0.9, delta: 0.99, observed: {correct: 1, n: 2}}\n", "6:27", "drop-too-large"),
        (
            "gate: {floor: 0.9, observed: {correct: 1, n: 2}, early_stop: wor_mixture}\ntask: {order_seed: 1}\n",
            "6:62",
            "early-stop-needs-delta",
        ),
        (GATE + "task: {n: 900000}\n", "7:11", "n-out-of-range"),
        (GATE + "task: {path: /x}\n", "7:14", "path-without-use"),
        (GATE + "task: {dataset: gsm8k}\n", "7:17", "dataset-missing"),
        (
            GATE + f"task: {{dataset: gsm8k, files: {{test: {PIN}}}}}\nprotocol: {{shots: 0}}\n",
            "7:31",
            "dataset-url-refused",
        ),
        (GATE + "protocol: {question_template: '{question}{answer}'}\n", "7:31", "template-shows-answer"),
        (GATE + "history: {url: 'sqlite:///x'}\n", "7:16", "bad-history-url"),
        (GATE + "history: {url: 'postgresql://h'}\nengine: {accuracy: 0.9}\n", "", ""),
        (GATE + 'history: {dir: "a\\0b"}\n', "7:16", "nul-character"),
    ],
)
def test_what_the_spec_alone_rules_out(tmp_path: Path, lines: str, place: str, reason: str) -> None:
    """A mistake that a run would refuse is found by validate at its line, and by run as wrong input."""
    ran = validated(written(tmp_path, HEAD + lines))
    assert ids(ran) == ([reason] if reason else [])
    assert ran.out.startswith(f"conf/model/a.yaml:{place}" if reason else "")
    if reason:
        refused = here(tmp_path, "run", "--config-dir", "conf", "model=a")
        assert (refused.code, f"[{reason}]" in refused.err) == (2, True)
        assert not (tmp_path / ".gatekit").exists()


def test_a_history_method_needs_its_rate_before_there_is_history(tmp_path: Path) -> None:
    """A gate that would refuse its second run for want of a false-alarm rate is refused before the first."""
    ran = validated(written(tmp_path, HEAD.replace("static_floor", "auto") + "gate: {budget: null, floor: 0.9}\n"))
    assert ids(ran) == ["missing-key"]
    assert "needs a false-alarm rate" in ran.out


PLACES = (
    "engine: {api_key_env: KEY}",
    "engine: {tensor_parallel_size: KEY}",
    "engine: {KEY: 1}",
    "engine: {env: {KEY: x}}",
    "engine: {flags: {KEY: --x}}",
    "engine: {args: ['--hf-token:KEY']}",
    """engine: {args: ['{"token":"KEY"}']}""",
    "engine: {version_key: KEY}",
    "history: {url_env: KEY}",
    "history: {url_env: '-KEY'}",
    "task: {name: KEY}",
    "KEY: 1",
    "history: {name: !KEY x}",
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_found_and_never_repeated(tmp_path: Path, place: str, key: str) -> None:
    """The key of a service is a mistake wherever it stands, and no format of the report repeats it."""
    written(tmp_path, HEAD + GATE + place.replace("KEY", key) + "\n")
    for form in ("text", "json", "sarif", "github"):
        ran = here(tmp_path, "validate", "--config-dir", "conf", "--format", form)
        assert ran.code == 2
        assert key not in ran.out + ran.err
    told = ids(validated(tmp_path))
    assert "secret-in-config" in told or told == ["yaml-tag"]


@pytest.mark.parametrize("name", ["engine.api_key_env", "history.url_env", "model.path_env", "model.unpinned"])
def test_a_key_that_is_typed_is_not_repeated(tmp_path: Path, name: str) -> None:
    """Neither plan nor run repeats a key given where the name of a variable belongs."""
    for command in ("plan", "run"):
        ran = here(
            tmp_path,
            command,
            "engine=external",
            "engine.base_url=http://127.0.0.1:9",
            f"{name}={KEY}",
            "model=laguna_int4",
        )
        assert (ran.code, KEY in ran.out + ran.err) == (2, False)
        assert "[secret-in-config]" in ran.out + ran.err


def test_a_malformed_variable_is_not_repeated(tmp_path: Path) -> None:
    """What stands in model.path_env and is no name of a variable may be a secret."""
    ran = here(tmp_path, "run", "model=simulated", "model.path_env=my.secret-thing")
    assert (ran.code, "secret-thing" in ran.err, "[bad-form]" in ran.err) == (2, False, True)


def test_a_word_that_is_no_key_stays(tmp_path: Path) -> None:
    """Ordinary names with such beginnings are neither refused nor masked."""
    text = HEAD.replace("name: x", "name: org/task-abcdefghijklmnopqrstuv, path_env: HF_HOME_OF_MY_OWN_MODELS_HERE")
    assert validated(written(tmp_path, text + GATE)).code == 0


ROW = "description: d\nrows:\n  - {model: laguna_int4, hw: b200, "


@pytest.mark.parametrize(
    ("rest", "found"),
    [
        ('set: {history.url: "postgresql://ci:hunter2@db/g"}', ["3:55 secret-in-config"]),
        (f"set: {{engine.api_key_env: {KEY}}}", ["3:62 secret-in-config"]),
        (f"set: {{engine.args: [--x, {KEY}]}}", ["3:55 secret-in-config"]),
        (f"because: {KEY}", ["3:45 secret-in-config"]),
        ("sett: {}, set: {task.n: abc, task.m: 3}", ["3:36 unknown-key", "3:60 wrong-type", "3:73 unknown-key"]),
        ("because: 3, set: {task.n: abc}", ["3:45 wrong-type", "3:62 wrong-type"]),
        ("gat: static_floor, set: {gate.floor: 0.9, gate.alpha: 0.1}", ["3:36 unknown-key"]),
    ],
)
def test_a_row_of_a_matrix(tmp_path: Path, rest: str, found: list[str]) -> None:
    """A secret in a row is refused at its place, and one mistake in a row hides no other."""
    ran = validated(written(tmp_path, f"{ROW}{rest}}}\n", "matrix"))
    assert [
        f"{line.split(':', 1)[1].split(': ')[0]} {name}"
        for line, name in zip(ran.out.splitlines(), ids(ran), strict=True)
    ] == found
    assert "hunter2" not in ran.out
    assert KEY not in ran.out


def test_items_of_a_list_in_a_matrix(tmp_path: Path) -> None:
    """A list is set as a whole, which the message says instead of proposing the same key again."""
    ran = validated(written(tmp_path, f"{ROW}set: {{engine.args.0: x}}}}\n", "matrix"))
    assert "items of a list cannot be set one by one: set the whole list, engine.args: [...]" in ran.out
    assert "did you mean" not in ran.out


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("task: {n: 0.5}", "wrong-type"),
        ("client: {attempts: 0.5}", "wrong-type"),
        ('engine: {version_key: ""}', "bad-value"),
        ('engine: {info_path: ""}', "bad-value"),
        ("client: {deadline_s: .nan}", "not-finite"),
    ],
)
def test_one_line_for_one_place(tmp_path: Path, lines: str, reason: str) -> None:
    """Of several complaints about one value, the most telling one is told."""
    assert ids(validated(written(tmp_path, HEAD + GATE + lines + "\n"))) == [reason]
