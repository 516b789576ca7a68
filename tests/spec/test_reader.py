"""The YAML reader: what it accepts, what it refuses, and where it says things stand."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gatekit.errors import ConfigError
from gatekit.spec.reader import Mark, examine, read


def reasons(path: Path, text: str | bytes) -> list[str]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError) as caught:
        read(path)
    return [problem.reason for problem in caught.value.problems]


def test_values_and_places(tmp_path: Path) -> None:
    """Plain scalars have their YAML 1.2 values, and every key and value its one-based place."""
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\nb:\n  c: 0.90\n  d: [true, null, text]\n")
    document = read(path)
    assert document.data == {"a": 1, "b": {"c": 0.9, "d": [True, None, "text"]}}
    assert document.keys["b", "c"] == Mark(3, 3)
    assert document.values["b", "d", 2] == Mark(4, 19)


@pytest.mark.parametrize(
    "value", ["on", "no", "0123", "1e5", "12:30:45", "1_000", "2024-05-03", "0b11", "+.5e3", "0o17"]
)
def test_ambiguous_scalars(tmp_path: Path, value: str) -> None:
    """A scalar that YAML 1.1 and 1.2 read differently is refused, and accepted once it is quoted."""
    path = tmp_path / "a.yaml"
    assert reasons(path, f"a: {value}\n") == ["ambiguous-value"]
    path.write_text(f'a: "{value}"\n')
    assert read(path).data == {"a": value}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: !!python/object/apply:os.system ['touch PWN']\n", "yaml-tag"),
        ("a: &x 1\nb: *x\n", "yaml-alias"),
        ("n: 100\nm: 1\nn: 200\n", "duplicate-key"),
        ("_target_: os.system\n", "runs-code"),
        ("a: [{b: {_target_: os.system}}]\n", "runs-code"),
        ("hydra: {run: {dir: x}}\n", "hydra-node"),
        ("# @package _global_\na: 1\n", "package-header"),
        ("a: ${oc.env:HOME}\n", "resolver"),
        ("${oc.env:HOME}: 1\n", "resolver"),
        ("a: x ${b.${oc.env:HOME}}\n", "resolver"),
        ("a: ${oc.${b}:HOME}\n", "resolver"),
        ("a: ???\n", "missing-value"),
        ("defaults:\n  - override /hydra/job_logging: disabled\n", "hydra-node"),
        ("defaults:\n  - foo@hydra.callbacks: x\n", "hydra-node"),
        ("defaults:\n  - /engine@model: sim\n", "package-header"),
        ("defaults: simulated\n", "bad-defaults"),
        ("defaults: {a: b}\n", "bad-defaults"),
        ("defaults:\n  - a\n  - a\n", "bad-defaults"),
        ("defaults:\n  - [a]\n", "bad-defaults"),
        ("defaults:\n  - null\n", "bad-defaults"),
        ("defaults:\n  - {a: b, c: d}\n", "bad-defaults"),
        ("a: ${.b}\n", "resolver"),
        ("a: ${b[c]}\n", "resolver"),
        ("a: \\${oc.env:X}\n", "resolver"),
        ("a: ['???']\n", "missing-value"),
        ("a: .nan\n", "not-finite"),
        ("a: -.inf\n", "not-finite"),
        ("- a\n- b\n", "not-a-mapping"),
        ("a: 1\n---\nb: 2\n", "many-documents"),
        ("a: [1, 2\n", "yaml-syntax"),
        ("a: 'x\0y'\n", "yaml-syntax"),
        ("? [a, b]\n: 1\n", "bad-key"),
        ("1: a\n", "bad-key"),
        (b"a: caf\xe9\n", "not-utf-8"),
        ("a: " + "[" * 40 + "]" * 40 + "\n", "file-too-complex"),
        ("a: [" + "1," * 30_000 + "]\n", "file-too-complex"),
        ("a: " + "x" * 1024 * 1024 + "\n", "file-too-large"),
    ],
)
def test_refused(tmp_path: Path, text: str | bytes, reason: str) -> None:
    """Hostile or broken files are refused with a stable reason, and nothing in them runs."""
    assert reason in reasons(tmp_path / "a.yaml", text)
    assert not Path("PWN").exists()


def test_deep_nesting_is_cheap(tmp_path: Path) -> None:
    """A megabyte of brackets is refused in well under a second instead of exhausting the stack."""
    began = time.monotonic()
    (reason,) = reasons(tmp_path / "a.yaml", "a: " + "[" * 1_000_000)
    assert reason in ("file-too-complex", "yaml-syntax")
    assert time.monotonic() - began < 2


def test_not_a_file(tmp_path: Path) -> None:
    """A folder, a device and a missing file are refused with their names."""
    for path in (tmp_path, Path("/dev/zero"), tmp_path / "missing.yaml"):
        with pytest.raises(ConfigError) as caught:
            read(path)
        assert caught.value.problems[0].reason == "unreadable-file"


def test_bom_and_crlf(tmp_path: Path) -> None:
    """A byte order mark and CRLF line ends change nothing."""
    plain, windows = tmp_path / "a.yaml", tmp_path / "b.yaml"
    plain.write_bytes(b"a: 1\nb: text\n")
    windows.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: text\r\n")
    assert read(plain).data == read(windows).data


def test_all_problems_at_once(tmp_path: Path) -> None:
    """Five mistakes in one file are five problems, each at its own line and column."""
    path = tmp_path / "a.yaml"
    path.write_text("a: on\nb: .nan\na: 1\nc: ${oc.env:X}\n_target_: x\n")
    with pytest.raises(ConfigError) as caught:
        read(path)
    places = [problem.where.rpartition("a.yaml:")[2] for problem in caught.value.problems]
    assert places == ["1:4", "2:4", "3:1", "4:4", "5:1"]


@pytest.mark.parametrize(
    "value",
    [
        *(
            "off",
            "y",
            "N",
            "00",
            "08",
            "-07",
            "1E5",
            "1e+5",
            ".5e3",
            "190:20:30.15",
            "0x_1f",
            "+0x1f",
            "1e999",
            "=",
            "<<",
        ),
        *("2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43.10 -5", "1.0e+999"),
    ],
)
def test_more_ambiguous_scalars(tmp_path: Path, value: str) -> None:
    """Numbers, truth values, dates and merge keys that only one of the two versions knows are refused."""
    (reason,) = reasons(tmp_path / "a.yaml", f"a: {value}\n")
    assert reason in ("ambiguous-value", "not-finite")


def test_plain_scalars_of_both_versions(tmp_path: Path) -> None:
    """What both versions read alike is not refused, and the key n is a word."""
    path = tmp_path / "a.yaml"
    path.write_text("{a: 1.5e+3, b: 0x1f, c: -1, d: 1., e: ~, n: 7, f: nope, g: v1.2.3, h: 1.2.3, i: a:b}\n")
    assert dict(read(path).data) == {
        "a": 1500.0,
        "b": 31,
        "c": -1,
        "d": 1.0,
        "e": None,
        "n": 7,
        "f": "nope",
        "g": "v1.2.3",
        "h": "1.2.3",
        "i": "a:b",
    }


def test_what_can_be_read_beside_problems(tmp_path: Path) -> None:
    """A file with problems is still read: what is wrong is None or left out, and its places are known."""
    path = tmp_path / "a.yaml"
    path.write_text("a: on\nb: {c: !x 1, d: 2}\n_target_: x\ne: [1, '${oc.env:X}']\nd: 1\nd: 2\nhydra: {}\n1: x\n")
    examined = examine(path)
    assert examined.document is not None
    assert dict(examined.document.data) == {"a": None, "b": {"c": None, "d": 2}, "e": [1, None], "d": 2}
    assert examined.broken == {("a",), ("b", "c"), ("e", 1), ("d",)}
    assert [problem.reason for problem in examined.problems] == [
        "ambiguous-value",
        "yaml-tag",
        "runs-code",
        "resolver",
        "duplicate-key",
        "bad-key",
        "hydra-node",
    ]


@pytest.mark.parametrize("text", ["a: [1\n", "- a\n", "a: " + "[" * 40, b"a: \xff\n"])
def test_what_cannot_be_read_at_all(tmp_path: Path, text: str | bytes) -> None:
    """No YAML, no mapping, no end and no text leave problems, and no document."""
    path = tmp_path / "a.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    examined = examine(path)
    assert examined.document is None
    assert examined.problems
