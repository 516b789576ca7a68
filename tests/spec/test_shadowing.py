"""Config folders: which are used, and which of their files hide others."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatekit.errors import ConfigError
from gatekit.resources import conf_dir
from gatekit.spec.folders import without_groups
from gatekit.spec.library import Library
from gatekit.spec.resolve import config_dirs
from gatekit.spec.shadowing import shadowings, used_by

HW = "name: h100\nvendor: nvidia\narchitecture: hopper\ncount: 1\n"


def team(folder: Path, group: str = "hw", name: str = "h100", text: str = HW) -> Path:
    (folder / group).mkdir(parents=True, exist_ok=True)
    (folder / group / f"{name}.yaml").write_text(text)
    return folder


def lines(*named: str, variable: str = "") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config_dirs(named, {"GATEKIT_CONF_PATH": variable})
    return caught.value.lines()


def test_a_folder_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same folder by another spelling, a trailing slash, a link or the variable counts where it stands first."""
    team(tmp_path / "ours")
    (tmp_path / "link").symlink_to("ours")
    monkeypatch.chdir(tmp_path)
    dirs = config_dirs(["ours/", "./ours", "link"], {"GATEKIT_CONF_PATH": f":{tmp_path}/ours::{conf_dir()}:"})
    assert dirs == (Path("ours"), conf_dir())


def test_a_link_to_a_folder_is_a_folder(tmp_path: Path) -> None:
    """A symbolic link to a team's folder works as the folder does."""
    team(tmp_path / "ours")
    (tmp_path / "link").symlink_to("ours")
    library = Library(config_dirs([str(tmp_path / "link")], {}))
    assert library.resolve(["hw=h100"]).hw.memory_gib is None


def test_every_wrong_folder_has_its_line(tmp_path: Path) -> None:
    """What is missing, empty or a file is said in a line each, with where it was named."""
    (tmp_path / "file").write_text("")
    found = lines("", str(tmp_path / "no"), str(tmp_path / "file"), "x" * 5000, variable=f"{tmp_path}/no2")
    assert len(found) == 5
    assert "names no folder" in found[0]
    assert found[1].startswith("--config-dir: ")
    assert "does not exist" in found[1]
    assert "is a file" in found[2]
    assert "too long" in found[3]
    assert found[4].startswith("GATEKIT_CONF_PATH: ")


def test_a_file_of_a_group_names_its_folder(tmp_path: Path) -> None:
    """A config file given for a folder is answered with the folder it belongs to."""
    file = team(tmp_path / "ours") / "hw" / "h100.yaml"
    assert f"did you mean {tmp_path / 'ours'}?" in lines(str(file))[0]


def test_a_folder_without_a_group(tmp_path: Path) -> None:
    """A folder from which nothing comes is told apart, with the one beneath it that was meant."""
    team(tmp_path / "repo" / "conf")
    (tmp_path / "empty").mkdir()
    found = dict(without_groups([tmp_path / "repo", tmp_path / "empty", tmp_path / "repo" / "conf"]))
    assert set(found) == {tmp_path / "repo", tmp_path / "empty"}
    assert found[tmp_path / "repo"] == tmp_path / "repo" / "conf"
    assert found[tmp_path / "empty"] is None


def test_what_shadows_what(tmp_path: Path) -> None:
    """Every file of the same name in a weaker folder is named as hidden, strongest folder first."""
    dirs = config_dirs([str(team(tmp_path / "a")), str(team(tmp_path / "b"))], {})
    (found,) = shadowings(Library(dirs))
    assert found.option == "hw=h100"
    assert found.used == (tmp_path / "a" / "hw" / "h100.yaml").resolve()
    assert len(found.hidden) == 2
    assert found.line().endswith("hw/h100.yaml, the shipped hw/h100.yaml")


def test_only_what_a_spec_uses(tmp_path: Path) -> None:
    """A spec is told of the shadowing files that it was made of, whichever file chose them, and of no other."""
    folder = team(tmp_path / "a")
    team(folder, "engine", "vllm", (conf_dir() / "engine" / "vllm.yaml").read_text())
    library = Library(config_dirs([str(folder)], {}))
    assert used_by(library, [[]]) == ()
    assert [one.option for one in used_by(library, [["hw=h100"], ["hw=h100"]])] == ["hw=h100"]
    assert [one.option for one in used_by(library, [["model=laguna_int4", "hw=b200"]])] == ["engine=vllm"]


def test_a_link_to_the_shipped_file_shadows_nothing(tmp_path: Path) -> None:
    """A link to the very file that it would hide is that file."""
    (tmp_path / "hw").mkdir()
    (tmp_path / "hw" / "h100.yaml").symlink_to(conf_dir() / "hw" / "h100.yaml")
    assert shadowings(Library(config_dirs([str(tmp_path)], {}))) == ()


def test_a_root_of_ones_own_is_shadowing(tmp_path: Path) -> None:
    """A config.yaml in a team's folder takes the place of the shipped root, which is said."""
    (tmp_path / "config.yaml").write_text((conf_dir() / "config.yaml").read_text())
    library = Library(config_dirs([str(tmp_path)], {}))
    assert [one.option for one in used_by(library, [[]])] == ["config.yaml"]
