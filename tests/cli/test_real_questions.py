"""All 1,319 real GSM8K questions over HTTP, answered with OpenAI's published outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import here, record


@pytest.mark.parametrize("variant", ["6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"])
def test_the_score_is_that_of_the_published_grader(tmp_path: Path, gsm8k_dir: Path, variant: str) -> None:
    """For each model variant every question is right or wrong exactly as the file's own is_correct flag says."""
    answers = gsm8k_dir / "example_model_solutions.jsonl"
    ran = here(
        tmp_path,
        "task=gsm8k",
        f"task.path={gsm8k_dir}",
        "engine=replay",
        f"engine.answers={answers}",
        f"engine.variant={variant}",
        "gate=static_floor",
        "gate.floor=0.3",
        "--json",
    )
    assert ran.code in (0, 1)
    flags = [json.loads(line)[variant]["is_correct"] for line in answers.read_text().splitlines()]
    observed = record(ran, tmp_path)["observations"]
    assert [one["question_id"] for one in observed] == list(range(1319))
    assert [one["status"] == "correct" for one in observed] == flags
    assert ran.data["counts"]["correct"] == sum(flags)
