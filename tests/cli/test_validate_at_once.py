"""`gatekit validate` on files with many mistakes: each is told however many others stand beside it, with a hint."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from command_line import here

LISTED = "defaults:\n  - override /engine: vllm\n  - override /protocol: chat_5shot\n  - override /gate: static_floor\n"
GOOD = {
    "model": ("name: org/weights", "server_args: {}", "server_env: {}"),
    "engine": ("max_model_len: 4096",),
    "gate": ("floor: 0.9",),
}
# section, line, and what is said of it alone; a line takes the place of one with the same key
MISTAKES = {
    "ambiguous": ("engine", "enforce_eager: on", "[ambiguous-value]"),
    "unknown": ("engine", "tensor_paralel_size: 2", "[unknown-key]"),
    "misplaced": ("model", "max_model_len: 4096", "this is a key of engine: write it there, as engine.max_model_len"),
    "word": ("model", "tags: small", "write it as a list: [small]"),
    "form": ("model", "quantization: INT4", "[bad-form]"),
    "number": ("engine", 'max_model_len: "4096"', "write it without quotes"),
    "range": ("gate", "floor: 90", "[out-of-range]"),
    "managed": ("engine", "args: [--port, '1']", "[managed-flag]"),
    "managed-by-model": ("model", "server_args: {vllm: [--host, 8000]}", "[managed-flag]"),
    "variable": ("model", "server_env: {vllm: {VLLM_USE_V1: 1}}", "[wrong-type]; quote it"),
    "remote": ("model", "trust_remote_code: true", "[remote-code-not-allowed]"),
    "pin": ("model", "trust_remote_code: true", "[remote-code-unpinned]"),
    "reference": ("protocol", "system_prompt: '${model.name}'", ""),
    "missing": ("gate", "observed: {correct: 5}", "gate.observed: missing key 'n'"),
    "client": ("client", "concurrency: 0", "[out-of-range]"),
}


def said(folder: Path, *names: str, listed: str = LISTED, without: str = "") -> set[str]:
    """What is said of a file with these mistakes, without places."""
    sections = {section: {line.partition(":")[0]: line for line in lines} for section, lines in GOOD.items()}
    for section, line, _ in (MISTAKES[name] for name in names):
        sections.setdefault(section, {})[line.partition(":")[0]] = line
    sections["model"].pop(without, None)
    text = listed + "".join(
        f"{section}:\n" + "".join(f"  {line}\n" for line in lines.values()) for section, lines in sections.items()
    )
    path = folder / "conf" / "model" / "mine.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    ran = here(folder, "validate", str(path.relative_to(folder)))
    assert ran.code == (2 if ran.out else 0), ran.err
    return {line.split(": ", 1)[1] for line in ran.out.splitlines()}


@pytest.mark.parametrize("name", MISTAKES)
def test_one(name: str, tmp_path: Path) -> None:
    """Each mistake has its line, which says what to do."""
    wanted = MISTAKES[name][2].split("; ")
    lines = said(tmp_path, name)
    assert not wanted[0] or any(all(part in line for part in wanted) for line in lines)


def test_all(tmp_path: Path) -> None:
    """All mistakes at once, an unknown option and a missing key beside them, are the lines of each of them alone."""
    alone = {line for name in MISTAKES for line in said(tmp_path, name)}
    alone |= said(tmp_path, without="name")
    alone |= said(tmp_path, listed=LISTED.replace("chat_5shot", "chat_5shots"))
    together = said(tmp_path, *MISTAKES, listed=LISTED.replace("chat_5shot", "chat_5shots"), without="name")
    assert {line for line in alone if "[remote" in line} <= together
    assert alone - together == set()


def test_two(tmp_path: Path) -> None:
    """Of any two mistakes neither hides the other."""
    alone = {name: said(tmp_path, name) for name in MISTAKES}
    keys = {name: (section, line.partition(":")[0]) for name, (section, line, _) in MISTAKES.items()}
    for one, other in combinations(MISTAKES, 2):
        if keys[one] != keys[other]:
            assert alone[one] | alone[other] <= said(tmp_path, one, other), (one, other)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("override /protocol: chat_5shots", "did you mean chat_5shot"),
        ("override /engines: vllm", "override /engines: no such group; did you mean 'engine'?"),
        ("engine: vllm", "write `- override /engine: vllm`"),
        ("laguna_int5", "model=laguna_int5: no such model; did you mean laguna_int4"),
    ],
)
def test_entries_that_choose_nothing(entry: str, expected: str, tmp_path: Path) -> None:
    """An entry of a defaults list that names nothing is told beside what is wrong with the file itself."""
    lines = said(tmp_path, "ambiguous", "range", listed=f"defaults:\n  - {entry}\n")
    assert any(expected in line for line in lines)
    assert any("[ambiguous-value]" in line for line in lines)
    assert any("[out-of-range]" in line for line in lines)


def test_files_that_build_on_others(tmp_path: Path) -> None:
    """What is wrong with an option that builds on one that is not there is told beside that."""
    path = tmp_path / "conf" / "engine" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("defaults:\n  - vlm\nenforce_eager: on\nacuracy: 1\n")
    out = here(tmp_path, "validate").out
    assert [line.split(":")[1] for line in out.splitlines()] == ["2", "3", "4"]
    assert "engine=vlm: no such engine; did you mean vllm?" in out


def test_a_missing_mapping(tmp_path: Path) -> None:
    """Where an empty mapping is enough, the hint is the line to add."""
    assert any("add `server_env: {}`" in line for line in said(tmp_path, without="server_env"))


def test_a_key_that_stands_in_no_section(tmp_path: Path) -> None:
    """A key at the beginning of the line, or in the wrong section, is told where it belongs; so is a section."""
    listed = "max_model_len: 4096\n" + LISTED
    assert any("as engine.max_model_len" in line for line in said(tmp_path, listed=listed))
    path = tmp_path / "conf/model/mine.yaml"
    path.write_text(path.read_text().replace("  floor: 0.9", "  floor: 0.9\n  engine: {}").replace(listed, LISTED))
    assert "engine is a section of its own" in here(tmp_path, "validate").out


def test_a_broken_matrix(tmp_path: Path) -> None:
    """An exclusion that drops nothing is told beside rows that are wrong, unless one of those is what it drops."""
    path = tmp_path / "conf" / "matrix" / "m.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "description: Ours.\nrows:\n"
        "  - {model: laguna_int44, hw: b200}\n"
        "  - {model: laguna_int4, hw: on}\n"
        "  - {model: diffusiongemma_fp8, hw: b200, tusk: gsm8k}\n"
        "exclude:\n"
        "  - {model: diffusiongemma_fp8, hw: b200x4, because: nothing of it is there}\n"
        "  - {model: diffusiongemma_fp8, because: a row with a mistake}\n"
        "  - {model: laguna_int4, hw: b200x2, because: a row on nobody knows what}\n"
    )
    lines = here(tmp_path, "validate").out.splitlines()
    assert [line.split(":")[1] for line in lines] == ["3", "4", "5", "7"]
    assert "[exclude-drops-nothing]" in lines[-1]
