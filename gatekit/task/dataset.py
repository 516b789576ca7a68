"""Where the questions come from: a folder, the cache, a pinned download, or the bundled synthetic set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gatekit.errors import ConfigError, InfraError
from gatekit.records.answers import Question
from gatekit.records.spec import SplitFile, Task
from gatekit.task.download_url import check_url
from gatekit.task.rows import SplitRows, read_rows, rows_digest
from gatekit.task.synth import TEST_ROWS, TRAIN_ROWS, synth_questions

GSM8K = "gsm8k"
GSM8K_SYNTH = "gsm8k_synth"

# The rows behind a pinned sha256, for copies whose bytes differ and whose rows do not (line endings, byte
# order mark). Computed with rows_digest from the files of openai/grade-school-math, whose sha256 these are.
KNOWN_ROWS: Mapping[str, str] = {
    "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14": (
        "sha256:b6c9d9547ec974d3c064a2f101ebf67e74257536d8c5e22a9758f2893a9e03a4"  # test, 1,319 rows
    ),
    "17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465": (
        "sha256:419386f7702aae71e33d2ce12db2170fc893004227b082354443fa5873b378bb"  # train, 7,473 rows
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """The questions as loaded, with a digest of the rows of each loaded split; `train` only if asked for."""

    name: str
    test: tuple[Question, ...]
    train: tuple[Question, ...]
    digests: Mapping[str, str]


def load(task: Task, *, cache_dir: Path, with_train: bool = False) -> QuestionSet:
    """The task's questions; the train split only `with_train`, so that a zero-shot run needs no train file.

    Raises ConfigError when the user named no usable dataset, InfraError when a file is damaged or out of
    reach.
    """
    splits = ("test", "train") if with_train else ("test",)
    if task.dataset == GSM8K_SYNTH:
        loaded = {split: _synthetic(task, split) for split in splits}
    elif task.dataset == GSM8K:
        loaded = {split: _from_file(task, split, cache_dir) for split in splits}
    else:
        raise ConfigError.one(
            f"unknown dataset {task.dataset!r}",
            reason="unknown-dataset",
            hint=f"use {GSM8K} or {GSM8K_SYNTH}",
        )
    return QuestionSet(
        name=task.dataset,
        test=loaded["test"].questions,
        train=loaded["train"].questions if with_train else (),
        digests={split: rows.rows_digest for split, rows in loaded.items()},
    )


def check_source(task: Task, *, with_train: bool) -> None:
    """Raises the ConfigError of `load` that no file can change: a path without use, no pin, or one that is refused."""
    if task.dataset == GSM8K_SYNTH:
        _check_no_path(task)
    elif task.path is None:
        for split in ("test", "train") if with_train else ("test",):
            check_url(_pinned(task, split).url)


def said_rows(task: Task, split: str) -> int | None:
    """How many rows a split has: the bundled one, or one that is pinned; None where only its file tells."""
    if task.dataset == GSM8K_SYNTH:
        return TEST_ROWS if split == "test" else TRAIN_ROWS
    pin = task.files.get(split)
    return None if pin is None else pin.rows


def _check_no_path(task: Task) -> None:
    if task.path is not None:
        raise ConfigError.one(
            f"task.path is set, but {GSM8K_SYNTH} is made from a seed and reads no file",
            reason="path-without-use",
            hint=f"remove task.path, or use task={GSM8K}",
        )


def _synthetic(task: Task, split: str) -> SplitRows:
    _check_no_path(task)
    questions = synth_questions(TEST_ROWS if split == "test" else TRAIN_ROWS, split)
    digest = rows_digest(questions)
    return SplitRows(questions=questions, sha256=digest.removeprefix("sha256:"), rows_digest=digest)


def _from_file(task: Task, split: str, cache_dir: Path) -> SplitRows:
    pin = task.files.get(split)
    path = _cached(task, split, cache_dir) if task.path is None else _in_folder(Path(task.path), split)
    rows = read_rows(path)
    if pin is not None:
        _check_pin(rows, pin, path)
    return rows


def _in_folder(folder: Path, split: str) -> Path:
    path = folder / f"{split}.jsonl"
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise _missing(f"task.path {str(folder)!r} {what}")
    if not path.exists():
        raise _missing(f"{str(path)!r} does not exist")
    return path


def _missing(what: str) -> ConfigError:
    return ConfigError.one(
        what,
        reason="dataset-missing",
        hint="set task.path=DIR to a folder with test.jsonl and train.jsonl of openai/grade-school-math, set "
        "task.path=null to download them, or use the bundled set with task=gsm8k_synth",
    )


def _pinned(task: Task, split: str) -> SplitFile:
    pin = task.files.get(split)
    if pin is None:
        raise _missing(f"task.path is not set and task.files pins no {split} split to download")
    return pin


def _cached(task: Task, split: str, cache_dir: Path) -> Path:
    pin = _pinned(task, split)
    path = cache_dir / task.dataset / pin.sha256 / f"{split}.jsonl"
    if not path.exists():
        from gatekit.task.download import download  # brings http.client

        download(pin, path)
    return path


def _check_pin(rows: SplitRows, pin: SplitFile, path: Path) -> None:
    """Accepts the pinned bytes, and other bytes with the very same rows where these are known."""
    intact = rows.sha256 == pin.sha256
    if intact and len(rows.questions) != pin.rows:
        raise ConfigError.one(
            f"task.files pins {pin.rows:,} rows for sha256 {pin.sha256}, which has {len(rows.questions):,}",
            reason="dataset-pin-wrong",
            hint=f"set rows to {len(rows.questions)}",
        )
    if not intact and rows.rows_digest != KNOWN_ROWS.get(pin.sha256):
        raise InfraError(
            f"{str(path)!r} is not the pinned file: expected sha256 {pin.sha256} ({pin.rows:,} rows), "
            f"found {rows.sha256} ({len(rows.questions):,} rows)",
            reason="dataset-digest-mismatch",
            hint="delete the file to download it again, or clear task.files to use your own rows",
        )
