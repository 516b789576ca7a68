"""The hardware probe, on driver trees made of real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatekit.engine.hardware import Found, missing, probe
from gatekit.records.spec import Hardware


def add_nvidia(root: Path, slot: int, name: str) -> None:
    folder = root / f"proc/driver/nvidia/gpus/0000:{slot:02x}:00.0"
    folder.mkdir(parents=True)
    text = f"Model: \t\t {name}\nIRQ:   \t\t 18\nGPU UUID: \t GPU-{slot:04d}-aa\nBus Type: \t PCIe\n"
    (folder / "information").write_text(text)


def add_amd(root: Path, node: int, simd_count: int, version: int) -> None:
    folder = root / f"sys/class/kfd/kfd/topology/nodes/{node}"
    folder.mkdir(parents=True)
    (folder / "properties").write_text(f"cpu_cores_count 0\nsimd_count {simd_count}\ngfx_target_version {version}\n")


def b200(count: int = 1) -> Hardware:
    return Hardware(name="b200", vendor="nvidia", architecture="blackwell", gpu="B200", count=count)


def test_a_machine_without_gpus(tmp_path: Path) -> None:
    """An empty tree has no GPU, and the sentence says which spec asked for what."""
    assert probe(tmp_path) == Found()
    assert missing(b200(), probe(tmp_path)) == ("hw=b200 asks for 1 NVIDIA B200; this machine has no NVIDIA GPU")
    assert missing(Hardware(name="any", vendor="none"), probe(tmp_path)) is None


def test_nvidia(tmp_path: Path) -> None:
    """NVIDIA GPUs come with the driver's names, and enough of the right ones satisfy a spec."""
    for slot in range(3):
        add_nvidia(tmp_path, slot, "NVIDIA B200" if slot < 2 else "NVIDIA H200")
    found = probe(tmp_path)
    assert found.nvidia == ("NVIDIA B200", "NVIDIA B200", "NVIDIA H200")
    assert missing(b200(2), found) is None
    assert missing(b200(3), found) == (
        "hw=b200 asks for 3 NVIDIA B200; this machine has 2 x NVIDIA B200, 1 x NVIDIA H200"
    )


@pytest.mark.parametrize(
    ("variable", "count"),
    [("", 0), ("0", 1), ("0,2", 2), ("2, 1,0", 3), ("0,9,1", 1), ("-1", 0), ("GPU-0001", 1), ("GPU-9", 0)],
)
def test_hidden_gpus(tmp_path: Path, variable: str, count: int) -> None:
    """CUDA_VISIBLE_DEVICES hides GPUs as the CUDA runtime reads it: up to the first entry that is none."""
    for slot in range(3):
        add_nvidia(tmp_path, slot, "NVIDIA B200")
    assert len(probe(tmp_path, environ={"CUDA_VISIBLE_DEVICES": variable}).nvidia) == count


def test_amd(tmp_path: Path) -> None:
    """AMD GPUs are the topology nodes with SIMDs, named by the products of their gfx target."""
    add_amd(tmp_path, 0, 0, 0)
    add_amd(tmp_path, 1, 1216, 90402)
    add_amd(tmp_path, 10, 1024, 90500)
    add_amd(tmp_path, 2, 440, 90010)
    found = probe(tmp_path)
    assert found.amd == (
        "AMD MI300A/MI300X/MI325X (gfx942)",
        "AMD MI210/MI250/MI250X (gfx90a)",
        "AMD MI350X/MI355X (gfx950)",
    )
    assert missing(Hardware(name="mi300x", vendor="amd", gpu="MI300X", count=1), found) is None
    assert probe(tmp_path, environ={"HIP_VISIBLE_DEVICES": "1"}).amd == found.amd[1:2]


@pytest.mark.parametrize(
    ("wanted", "name", "fits"),
    [
        ("B200", "NVIDIA GB200", False),
        ("L4", "NVIDIA L40S", False),
        ("l4", "NVIDIA L4", True),
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("NVIDIA H200", "NVIDIA H200 NVL", True),
        (None, "NVIDIA T4", True),
    ],
)
def test_names_match_as_words(wanted: str | None, name: str, fits: bool) -> None:
    """A GPU name matches in any case, but only as whole words: an L40S is no L4."""
    hw = Hardware(name="x", vendor="nvidia", gpu=wanted, count=1)
    assert (missing(hw, Found(nvidia=(name,))) is None) is fits


def test_a_damaged_tree(tmp_path: Path) -> None:
    """Unreadable, empty and binary driver files are no GPUs and no crash."""
    add_nvidia(tmp_path, 0, "NVIDIA B200")
    for slot, content in ((1, b""), (2, b"\xff\x00Model\n")):
        add_nvidia(tmp_path, slot, "x")
        (tmp_path / f"proc/driver/nvidia/gpus/0000:{slot:02x}:00.0/information").write_bytes(content)
    (tmp_path / "proc/driver/nvidia/gpus/0000:99:00.0/information").mkdir(parents=True)
    add_amd(tmp_path, 1, 4, 7)
    assert probe(tmp_path) == Found(nvidia=("NVIDIA B200",), amd=("AMD GPU",))
