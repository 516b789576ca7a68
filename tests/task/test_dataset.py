"""Loading questions from folders and files."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gatekit.errors import ConfigError, GatekitError, InfraError
from gatekit.records.spec import SplitFile, Task
from gatekit.task.dataset import KNOWN_ROWS, load

TEST_SHA256, TRAIN_SHA256 = KNOWN_ROWS
URL = "https://example.invalid/gsm8k"
PINNED = Task(
    name="gsm8k",
    dataset="gsm8k",
    files={
        "test": SplitFile(sha256=TEST_SHA256, rows=1319, url=f"{URL}/test.jsonl"),
        "train": SplitFile(sha256=TRAIN_SHA256, rows=7473, url=f"{URL}/train.jsonl"),
    },
)
OWN = Task(name="own", dataset="gsm8k", files={})


@pytest.fixture
def copy(gsm8k_dir: Path, tmp_path: Path) -> Path:
    """A folder with a writable copy of the real test split, and no train split."""
    (tmp_path / "test.jsonl").write_bytes((gsm8k_dir / "test.jsonl").read_bytes())
    return tmp_path


def row(question: str = "1 + 1?", answer: str = "#### 2") -> str:
    return json.dumps({"question": question, "answer": answer})


def own(folder: Path, *rows: str | bytes) -> Task:
    content = b"".join((r.encode() if isinstance(r, str) else r) + b"\n" for r in rows)
    (folder / "test.jsonl").write_bytes(content)
    return dataclasses.replace(OWN, path=str(folder))


def refusal(task: Task, cache_dir: Path, kind: type[GatekitError]) -> GatekitError:
    with pytest.raises(GatekitError) as caught:
        load(task, cache_dir=cache_dir)
    assert type(caught.value) is kind
    assert len(caught.value.lines()) == 1
    return caught.value


def test_the_real_files_load_whole(gsm8k_dir: Path, tmp_path: Path) -> None:
    """The pinned files give 1,319 and 7,473 questions in file order, and their known row digests."""
    loaded = load(dataclasses.replace(PINNED, path=str(gsm8k_dir)), cache_dir=tmp_path, with_train=True)
    assert (loaded.name, len(loaded.test), len(loaded.train)) == ("gsm8k", 1319, 7473)
    assert [question.id for question in loaded.test] == list(range(1319))
    assert loaded.test[0].text.startswith("Janet’s ducks lay 16 eggs per day.")
    assert loaded.digests == {"test": KNOWN_ROWS[TEST_SHA256], "train": KNOWN_ROWS[TRAIN_SHA256]}


def test_a_missing_train_file_does_not_hurt_a_zero_shot_run(copy: Path, tmp_path: Path) -> None:
    """The train split is looked for only when asked for; then its absence is a config error."""
    task = dataclasses.replace(PINNED, path=str(copy))
    assert load(task, cache_dir=tmp_path).train == ()
    with pytest.raises(ConfigError, match=r"train\.jsonl' does not exist"):
        load(task, cache_dir=tmp_path, with_train=True)


def test_the_synthetic_set_needs_no_file(tmp_path: Path) -> None:
    """The bundled set has 1,319 test and 1,000 train questions and touches no folder."""
    task = Task(name="s", dataset="gsm8k_synth", files={})
    loaded = load(task, cache_dir=tmp_path / "none", with_train=True)
    assert (loaded.name, len(loaded.test), len(loaded.train)) == ("gsm8k_synth", 1319, 1000)
    assert not (tmp_path / "none").exists()
    assert refusal(dataclasses.replace(task, path="x"), tmp_path, ConfigError).reason == "path-without-use"


@pytest.mark.parametrize("path", ["nowhere", "file", "empty"])
def test_d01_missing_path(tmp_path: Path, path: str) -> None:
    """A path without the file is a config error that names it and the ways on."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    error = refusal(dataclasses.replace(PINNED, path=str(tmp_path / path)), tmp_path, ConfigError)
    assert str(tmp_path / path) in error.message
    assert "task.path=DIR" in error.hint
    assert "task=gsm8k_synth" in error.hint


def damaged(copy: Path, change: Callable[[bytes], bytes]) -> Task:
    file = copy / "test.jsonl"
    file.write_bytes(change(file.read_bytes()))
    return dataclasses.replace(PINNED, path=str(copy))


def test_d02_last_line_cut_in_half(copy: Path) -> None:
    """A torn file is infrastructure, and the line is named."""
    error = refusal(damaged(copy, lambda content: content[:-200]), copy, InfraError)
    assert "test.jsonl:1319: not a complete JSON object" in error.message


def test_d03_one_byte_changed(copy: Path) -> None:
    """Another file than the pinned one is infrastructure, with both digests."""
    error = refusal(damaged(copy, lambda content: content.replace(b"16 eggs", b"17 eggs", 1)), copy, InfraError)
    assert error.reason == "dataset-digest-mismatch"
    assert f"expected sha256 {TEST_SHA256} (1,319 rows), found " in error.message


def test_d03_rows_missing(copy: Path) -> None:
    """A file that lost whole rows never runs with a smaller n in silence."""
    error = refusal(damaged(copy, lambda c: b"".join(c.splitlines(keepends=True)[:-1])), copy, InfraError)
    assert "(1,318 rows)" in error.message


def test_d04_identical_rows(copy: Path) -> None:
    """A question that would count twice is refused with both row numbers."""
    error = refusal(damaged(copy, lambda content: content + content.split(b"\n")[3] + b"\n"), copy, ConfigError)
    assert "rows 4 and 1320 are identical" in error.message


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: b"\xef\xbb\xbf" + content,
        lambda content: content.replace(b"\\u2019", "’".encode()),
        lambda content: content.rstrip(b"\n"),
    ],
    ids=["crlf", "bom", "unescaped", "no-final-newline"],
)
def test_d05_other_bytes_with_the_same_rows(copy: Path, change: Callable[[bytes], bytes]) -> None:
    """A copy whose rows are the pinned rows is accepted, with the same digest and the same n."""
    original = load(dataclasses.replace(PINNED, path=str(copy)), cache_dir=copy)
    assert load(damaged(copy, change), cache_dir=copy) == original


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row(answer="2"), "0 '####' marks"),
        (row(answer="#### 2 #### 3"), "2 '####' marks"),
        (row(answer="#### N/A"), "no number after '####'"),
        (row(answer="#### 10-12"), "no number after '####'"),
        ('{"frage": "?", "answer": "#### 1"}', "no field 'question'"),
        ('{"question": "?"}', "no field 'answer'"),
        ('{"question": 5, "answer": "#### 1"}', "'question' is not a text"),
        ('{"question": "\\ud800", "answer": "#### 1"}', "half a surrogate pair"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "not a complete JSON object"),
        (b'{"question": "\xff", "answer": "#### 1"}', "not UTF-8 at byte 14"),
    ],
)
def test_d08_d09_d14_bad_rows(tmp_path: Path, bad: str | bytes, message: str) -> None:
    """A row that cannot be scored is infrastructure, with its line number and what is wrong."""
    error = refusal(own(tmp_path, row(), bad), tmp_path, InfraError)
    assert error.reason == "dataset-bad-row"
    assert "test.jsonl:2: " in error.message
    assert message in error.message


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_d13_empty_file(tmp_path: Path, content: bytes) -> None:
    """A file without rows is a config error, never a division by zero."""
    (tmp_path / "test.jsonl").write_bytes(content)
    task = dataclasses.replace(OWN, path=str(tmp_path))
    assert refusal(task, tmp_path, ConfigError).reason == "dataset-empty"


@pytest.mark.parametrize("kind", ["device", "pipe", "5 GB", "long line", "folder"])
def test_d15_not_a_dataset_at_all(tmp_path: Path, kind: str) -> None:
    """A device, a pipe, a 5 GB file or an endless line is refused in under a second and with flat memory."""
    file = tmp_path / "test.jsonl"
    if kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "5 GB":
        file.touch()
        os.truncate(file, 5 * 10**9)
    else:
        file.write_bytes(b"x" * (2**20 + 1))
    before_kib, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.raises((ConfigError, InfraError)) as caught:
        load(dataclasses.replace(OWN, path=str(tmp_path)), cache_dir=tmp_path)
    assert time.monotonic() - started < 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 20 * 1024
    assert isinstance(caught.value, ConfigError)


def test_an_own_dataset_is_recorded_and_not_pinned(tmp_path: Path) -> None:
    """Without pins any valid folder is accepted; its rows' digest is recorded and follows its content."""
    first = load(own(tmp_path, row("a"), "", row("b")), cache_dir=tmp_path)
    assert [(q.id, q.text) for q in first.test] == [(0, "a"), (1, "b")]
    second = load(own(tmp_path, row("a"), row("c")), cache_dir=tmp_path)
    assert first.digests["test"] != second.digests["test"]
    assert first.digests["test"].startswith("sha256:")


def test_the_cache_is_used_and_checked(copy: Path, gsm8k_dir: Path) -> None:
    """A file in the cache needs no network; a damaged one is reported, not used and not replaced."""
    cached = copy / "cache" / "gsm8k" / TEST_SHA256 / "test.jsonl"
    cached.parent.mkdir(parents=True)
    shutil.copyfile(gsm8k_dir / "test.jsonl", cached)
    assert len(load(PINNED, cache_dir=copy / "cache").test) == 1319
    cached.write_bytes(cached.read_bytes().replace(b"16 eggs", b"17 eggs", 1))
    assert "delete the file" in refusal(PINNED, copy / "cache", InfraError).hint


def test_a_pin_with_the_wrong_row_count_is_the_users_mistake(copy: Path) -> None:
    """The right bytes with a wrong row count are refused with the true count."""
    task = damaged(copy, lambda content: content)
    files = {"test": dataclasses.replace(task.files["test"], rows=1318)}
    assert "1,319" in refusal(dataclasses.replace(task, files=files), copy, ConfigError).message


def test_nothing_to_load_from(tmp_path: Path) -> None:
    """Neither a path nor a pin is a config error."""
    assert refusal(OWN, tmp_path, ConfigError).reason == "dataset-missing"
