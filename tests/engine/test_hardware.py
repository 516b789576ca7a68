"""What this machine has against what a spec asks for, on driver trees made of real files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gatekit.engine.gpu import Gpu, Holder
from gatekit.engine.gpus import Seen, memory_in_use, seen
from gatekit.engine.hardware import MEMORY_TOLERANCE, check_hardware, facts, missing
from gatekit.errors import InfraError
from gatekit.records.spec import Hardware
from gatekit.resources import conf_dir
from gatekit.spec.resolve import resolve

# What drivers report of each GPU that a shipped file asks for: name, MiB, architecture.
REPORTED = {
    "a100": ("NVIDIA A100-SXM4-80GB", 81920, "ampere"),
    "b200": ("NVIDIA B200", 183359, "blackwell"),
    "h100": ("NVIDIA H100 80GB HBM3", 81559, "hopper"),
    "h200": ("NVIDIA H200", 143771, "hopper"),
    "l4": ("NVIDIA L4", 23034, "ada"),
    "mi300x": ("AMD Instinct MI300X OAM", 196592, "cdna3"),
    "mi325x": ("AMD Instinct MI325X OAM", 262128, "cdna3"),
    "mi355x": ("AMD Instinct MI355X OAM", 294896, "cdna4"),
}
FILES = sorted(path.stem for path in (conf_dir() / "hw").glob("*.yaml") if path.stem != "cpu")
MIB = 1 << 20


def add_nvidia(root: Path, slot: int, name: str) -> None:
    folder = root / f"proc/driver/nvidia/gpus/0000:{slot:02x}:00.0"
    folder.mkdir(parents=True)
    text = f"Model: \t\t {name}\nIRQ:   \t\t 18\nGPU UUID: \t GPU-{slot:04d}-aa\nBus Type: \t PCIe\n"
    (folder / "information").write_text(text)


def add_amd(root: Path, node: int, simd_count: int, version: int, *, more: str = "") -> Path:
    folder = root / f"sys/class/kfd/kfd/topology/nodes/{node}"
    folder.mkdir(parents=True)
    text = f"cpu_cores_count 0\nsimd_count {simd_count}\ngfx_target_version {version}\n{more}"
    (folder / "properties").write_text(text)
    return folder


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


def add_mi300x(root: Path, node: int, *, used_mib: int = 283) -> None:
    """A board as the kernel shows it: topology node, DRM device, and its numbers."""
    more = f"drm_render_minor {127 + node}\nunique_id {0xBEEF0000 + node}\n"
    write(add_amd(root, node, 1216, 90402, more=more) / "gpu_id", 1000 + node)
    device = root / f"sys/class/drm/renderD{127 + node}/device"
    write(device / "mem_info_vram_total", 196592 * MIB)
    write(device / "mem_info_vram_used", used_mib * MIB)
    write(device / "product_name", "AMD Instinct MI300X OAM")
    write(device / "hwmon/hwmon3/power1_cap", 750_000_000)


def b200(count: int = 1) -> Hardware:
    return Hardware(name="b200", vendor="nvidia", architecture="blackwell", gpu="B200", count=count)


def gpus(*names: str) -> tuple[Gpu, ...]:
    return tuple(Gpu(index=i, name=name, uuid=f"GPU-{i}") for i, name in enumerate(names))


def lack(hw: Hardware, found: Seen, **environ: str) -> str | None:
    found_lack = missing(hw, found, environ)
    return None if found_lack is None else found_lack.what


def shown(*names: str) -> Seen:
    return Seen(gpus=gpus(*names), installed=gpus(*names))


def test_a_machine_without_gpus(tmp_path: Path) -> None:
    """An empty tree has no GPU, and the sentence says which spec asked for what; without a vendor none is needed."""
    found = seen("nvidia", {}, tmp_path)
    assert found.gpus == ()
    assert str(lack(b200(), found)).startswith("hw=b200 asks for 1 NVIDIA B200; this machine has no NVIDIA GPU")
    assert check_hardware(Hardware(name="any", vendor="none"), {}, root=tmp_path) == {}
    assert memory_in_use({}, tmp_path) == {}
    with pytest.raises(InfraError, match="asks for 1 AMD GPU; this machine has no AMD GPU") as caught:
        check_hardware(Hardware(name="any", vendor="amd"), {}, ways_on="or so", root=tmp_path)
    assert (caught.value.reason, caught.value.hint) == ("hardware-missing", "or so")


def test_names_alone(tmp_path: Path) -> None:
    """Where NVIDIA's library is not asked, the driver's files give names, and the record says what was not checked."""
    for slot in range(3):
        add_nvidia(tmp_path, slot, "NVIDIA B200")
    write(
        tmp_path / "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (dvs-builder)",
    )
    hw = replace(b200(2), memory_gib=178)
    details = check_hardware(hw, {}, root=tmp_path)
    assert details["gpu.0"] == "NVIDIA B200, GPU-0000-aa"
    assert details["driver"] == "570.124.06"
    assert details["gpu.memory"].startswith("not checked: ")
    assert memory_in_use({}, tmp_path) is None
    with pytest.raises(InfraError, match="asks for 4 NVIDIA B200 of 178 GiB; this machine has 3 x NVIDIA B200"):
        check_hardware(replace(hw, count=4), {}, root=tmp_path)


def test_mixed_machines() -> None:
    """Where a server could take the wrong GPU, the run is refused with the setting that takes the right ones."""
    mixed = gpus("NVIDIA T400", "NVIDIA B200", "NVIDIA B200")
    by_bus = Seen(gpus=mixed, installed=mixed)
    found = missing(b200(2), by_bus, {})
    assert found is not None
    assert (found.reason, found.hint) == ("gpu-order", "set CUDA_VISIBLE_DEVICES=GPU-1,GPU-2")
    assert "this machine has NVIDIA T400, NVIDIA B200, and the first visible ones are not all such" in found.what
    assert missing(b200(2), replace(by_bus, gpus=mixed[1:]), {}) is None
    assert "CUDA counts by speed" in str(lack(b200(2), replace(by_bus, gpus=mixed[1:], is_order_known=False)))
    assert missing(b200(3), by_bus, {}) == replace(
        found, reason="hardware-missing", hint="", what=str(lack(b200(3), by_bus))
    )


@pytest.mark.parametrize(
    ("environ", "is_known"),
    [
        ({}, False),
        ({"CUDA_VISIBLE_DEVICES": "1,2"}, False),
        ({"CUDA_VISIBLE_DEVICES": "GPU-0001"}, True),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1"}, True),
        ({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, False),
    ],
)
def test_the_order_of_a_mixed_machine(tmp_path: Path, environ: dict[str, str], is_known: bool) -> None:
    """CUDA counts different GPUs by speed, unless it is told to count by bus, or GPUs are named."""
    add_nvidia(tmp_path, 0, "NVIDIA T400")
    add_nvidia(tmp_path, 1, "NVIDIA B200")
    assert seen("nvidia", environ, tmp_path).is_order_known is is_known
    (tmp_path / "proc/driver/nvidia/gpus/0000:00:00.0/information").unlink()
    assert seen("nvidia", environ, tmp_path).is_order_known


@pytest.mark.parametrize(
    ("variable", "slots"),
    [
        ("", []),
        ("0", [0]),
        ("0,2", [0, 2]),
        ("2, 1,0", [2, 1, 0]),
        ("0,9,1", [0]),
        ("-1", []),
        ("0,2,-1,1", [0, 2]),
        ("NoDevFiles", []),
        ("1x", [1]),
        ("1,1", []),
        ("GPU-0001", [1]),
        ("gpu-0001", []),
        ("GPU-000", []),
        ("GPU-0002-AA,0", [2, 0]),
        ("GPU-9", []),
        ("MIG-GPU-0001/1/0", []),
    ],
)
def test_hidden_gpus(tmp_path: Path, variable: str, slots: list[int]) -> None:
    """CUDA_VISIBLE_DEVICES is read as CUDA does: to the first entry that is none; what is repeated empties it."""
    for slot in range(3):
        add_nvidia(tmp_path, slot, "NVIDIA B200")
    found = seen("nvidia", {"CUDA_VISIBLE_DEVICES": variable, "NVIDIA_VISIBLE_DEVICES": "void"}, tmp_path)
    assert [gpu.index for gpu in found.gpus] == slots
    assert len(found.installed) == 3
    if len(slots) < 3:
        assert f"CUDA_VISIBLE_DEVICES={variable!r}, of 3 in all" in str(
            lack(b200(3), found, CUDA_VISIBLE_DEVICES=variable)
        )


def test_what_the_container_was_given() -> None:
    """NVIDIA_VISIBLE_DEVICES hides nothing from a process, as its GPUs are all there is; without any it is named."""
    assert "NVIDIA_VISIBLE_DEVICES='none'" in str(lack(b200(), Seen(), NVIDIA_VISIBLE_DEVICES="none"))
    assert "NVIDIA_VISIBLE_DEVICES" not in str(lack(b200(), Seen(), NVIDIA_VISIBLE_DEVICES="all"))


def test_amd_boards(tmp_path: Path) -> None:
    """An AMD board has the name, memory, power and processes that the kernel shows; those of others are named."""
    add_amd(tmp_path, 0, 0, 0)
    for node in range(1, 9):
        add_mi300x(tmp_path, node, used_mib=71000 if node == 2 else 283)
    write(tmp_path / "sys/module/amdgpu/version", "6.10.5")
    write(tmp_path / "sys/class/kfd/kfd/proc/4242/vram_1002", 70000 * MIB)
    write(tmp_path / "sys/class/kfd/kfd/proc/4242/vram_1003", 0)
    hw = resolve(["model=simulated", "hw=mi300x"], dirs=(conf_dir(),)).hw
    details = check_hardware(hw, {}, root=tmp_path)
    assert details == {
        "gpu.0": "AMD Instinct MI300X OAM, 196592 MiB, cdna3, 750 W, GPU-00000000beef0001",
        "driver": "amdgpu 6.10.5",
    }
    assert seen("amd", {}, tmp_path).gpus[1].holders == (Holder(pid=4242, memory_mib=70000),)
    used = memory_in_use({"HIP_VISIBLE_DEVICES": "1,2"}, tmp_path)
    assert used == {"GPU-00000000beef0002": 71000, "GPU-00000000beef0003": 283}
    with pytest.raises(InfraError, match=r"GPU 1, .* has 71000 of 196592 MiB in use: pid 4242 70000 MiB") as caught:
        check_hardware(replace(hw, count=2), {}, root=tmp_path)
    assert caught.value.reason == "gpu-memory-in-use"
    assert "set ROCR_VISIBLE_DEVICES=GPU-00000000beef0001,GPU-00000000beef0003" in caught.value.hint


@pytest.mark.parametrize(
    ("environ", "indices"),
    [
        ({}, [0, 1, 2, 3]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
        ({"ROCR_VISIBLE_DEVICES": "3,GPU-00000000BEEF0002"}, [3, 1]),
        ({"ROCR_VISIBLE_DEVICES": "1,2,3", "HIP_VISIBLE_DEVICES": "2,0"}, [3, 1]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, [0]),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "1"}, [1]),
        ({"HIP_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": ""}, [0, 1, 2, 3]),
    ],
)
def test_hidden_amd_gpus(tmp_path: Path, environ: dict[str, str], indices: list[int]) -> None:
    """ROCR_VISIBLE_DEVICES counts all GPUs, HIP_VISIBLE_DEVICES those it leaves; CUDA's stands in for HIP's."""
    for node in range(1, 5):
        add_mi300x(tmp_path, node)
    assert [gpu.index for gpu in seen("amd", environ, tmp_path).gpus] == indices


def test_amd_without_its_board(tmp_path: Path) -> None:
    """Where the kernel names no product, the gfx target does; memory is then that of the node's banks, or unknown."""
    add_amd(tmp_path, 0, 0, 0)
    bank = add_amd(tmp_path, 1, 1216, 90402) / "mem_banks/0/properties"
    write(bank, f"heap_type 1\nsize_in_bytes {196592 * MIB}\nflags 0")
    add_amd(tmp_path, 10, 1024, 90500)
    add_amd(tmp_path, 2, 440, 90010)
    found = seen("amd", {}, tmp_path).gpus
    assert [gpu.name for gpu in found] == [
        "AMD MI300A/MI300X/MI325X (gfx942)",
        "AMD MI210/MI250/MI250X (gfx90a)",
        "AMD MI350X/MI355X (gfx950)",
    ]
    assert [gpu.architecture for gpu in found] == ["cdna3", "cdna2", "cdna4"]
    assert [gpu.memory_mib for gpu in found] == [196592, None, None]
    hw = Hardware(name="mi300x", vendor="amd", gpu="MI300X", count=1, memory_gib=191)
    assert check_hardware(hw, {}, root=tmp_path)["gpu.memory"] == "in use: not checked: the driver does not say"
    assert memory_in_use({}, tmp_path) is None


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
    assert (missing(hw, shown(name), {}) is None) is fits


def test_an_architecture_is_enough() -> None:
    """A file may ask for an architecture without a name; one that the driver does not say is not held against it."""
    hw = Hardware(name="x", vendor="nvidia", architecture="blackwell", count=1)
    for architecture, fits in (("blackwell", True), ("hopper", False), (None, True)):
        gpu = replace(gpus("NVIDIA X")[0], architecture=architecture)
        assert (missing(hw, Seen(gpus=(gpu,), installed=(gpu,)), {}) is None) is fits
    assert lack(hw, Seen()) == "hw=x asks for 1 NVIDIA blackwell GPU; this machine has no NVIDIA GPU"


@pytest.mark.parametrize("name", FILES)
def test_shipped_files_fit_real_gpus(name: str) -> None:
    """Each shipped file says whole GiB of what its GPU really reports, and refuses what has a tenth less."""
    hw = resolve(["model=simulated", f"hw={name}"], dirs=(conf_dir(),)).hw
    gpu_name, mib, architecture = REPORTED[name.partition("x")[0] if hw.vendor == "nvidia" else name]
    assert hw.memory_gib is not None
    assert mib / 1024 - 1.1 < hw.memory_gib <= mib / 1024
    real = Gpu(index=0, name=gpu_name, memory_mib=mib, used_mib=600, architecture=architecture)
    all_of_them = Seen(gpus=(real,) * hw.count, installed=(real,) * hw.count)
    assert missing(hw, all_of_them, {}) is None
    smaller = replace(real, memory_mib=int(mib * 0.9))
    assert missing(hw, Seen(gpus=(smaller,) * hw.count), {}) is not None
    assert missing(hw, Seen(gpus=(real,) * (hw.count - 1)), {}) is not None


@pytest.mark.parametrize(("gib", "fits"), [(141, True), (144.7, True), (144.8, False), (140.4, True), (1, True)])
def test_the_tolerance(gib: float, fits: bool) -> None:
    """The 141 GB on the box of an H200, which reports 140.4 GiB, may be asked for; at most 3 % may be missing."""
    assert MEMORY_TOLERANCE == 0.03
    h200 = replace(gpus("NVIDIA H200")[0], memory_mib=143771)
    hw = Hardware(name="x", vendor="nvidia", count=1, memory_gib=gib)
    assert (missing(hw, Seen(gpus=(h200,), installed=(h200,)), {}) is None) is fits


def test_only_what_a_server_takes_is_described(tmp_path: Path) -> None:
    """The record holds the first GPUs, as many as hw asks for; others, and who holds them, are not its matter."""
    for node in range(1, 5):
        add_mi300x(tmp_path, node, used_mib=190000 if node == 4 else 283)
    hw = Hardware(name="x", vendor="amd", gpu="MI300X", count=3)
    assert [name for name in check_hardware(hw, {}, root=tmp_path) if name.startswith("gpu")] == [
        "gpu.0",
        "gpu.1",
        "gpu.2",
    ]
    assert facts(replace(hw, count=1), Seen(gpus=gpus("a", "b"))).keys() == {"gpu.0", "gpu.memory"}


def test_a_damaged_tree(tmp_path: Path) -> None:
    """Unreadable, empty and binary driver files are no GPUs and no crash, and no control character gets through."""
    add_nvidia(tmp_path, 0, "NVIDIA B200")
    for slot, content in ((1, b""), (2, b"\xff\x00Model\n"), (3, b"Model: \x1b[2J\n")):
        add_nvidia(tmp_path, slot, "x")
        (tmp_path / f"proc/driver/nvidia/gpus/0000:{slot:02x}:00.0/information").write_bytes(content)
    (tmp_path / "proc/driver/nvidia/gpus/0000:99:00.0/information").mkdir(parents=True)
    write(tmp_path / "proc/driver/nvidia/version", "\x00" * 9)
    node = add_amd(tmp_path, 1, 4, 7, more="unique_id -3\ndrm_render_minor x\n")
    write(node / "gpu_id", "9" * 99)
    write(tmp_path / "sys/class/kfd/kfd/proc/evil/vram_None", "1")
    assert [gpu.name for gpu in seen("nvidia", {}, tmp_path).gpus] == ["NVIDIA B200", "\\x1b[2J"]
    assert seen("nvidia", {}, tmp_path).driver is None
    (gpu,) = seen("amd", {}, tmp_path).gpus
    assert gpu == Gpu(index=0, name="AMD GPU")
