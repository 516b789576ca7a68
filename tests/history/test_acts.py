"""Acts: what people decided about the history, as files and as rows."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command_line import here
from gatekit.cli.history.command import run
from gatekit.errors import ConfigError, ExitCode, InfraError
from gatekit.history import index
from gatekit.history.acts import make_act, quarantined_runs, read_act, read_acts, record_act
from gatekit.history.past import past_runs
from gatekit.history.place import Place
from gatekit.history.remember import rebuild, remember
from gatekit.records.act import ActKind
from gatekit.records.canonical import canonical_json, digest, to_plain
from gatekit.records.run import RunRecord

MakeRecord = Callable[..., RunRecord]
NOW = datetime(2026, 11, 30, 3, 15, tzinfo=UTC)


def test_an_act_is_a_private_canonical_file_and_a_row(place: Place) -> None:
    """The file is canonical JSON with its digest, 0600; the index holds the same act; twice is once."""
    act = make_act(ActKind.QUARANTINE, "run-1", reason=" the GPU was hot\u202e\ud800 ", now=NOW)
    path = record_act(place, act)
    assert act.act_id.startswith("20261130T031500Z-quarantine-")
    assert act.reason == "the GPU was hot\u202e\ud800"
    assert path == place.dir / "acts" / f"{act.act_id}.json"
    assert path.read_bytes() == canonical_json(to_plain(act) | {"digest": digest(to_plain(act))}) + b"\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert record_act(place, act) == path
    assert [stored.act for stored in read_acts(place)] == [act]
    assert [found.act_id for found in index.acts(place)] == [act.act_id]


def test_an_act_is_never_overwritten(tmp_path: Path) -> None:
    """Another act under the same id is refused, and the first stays."""
    place = Place(dir=tmp_path)
    act = make_act(ActKind.QUARANTINE, "run-1", reason="hot", now=NOW)
    path = record_act(place, act)
    with pytest.raises(InfraError, match="already holds another act"):
        record_act(place, replace(act, target="run-2"))
    assert read_act(path).act == act


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"hot", b"hut"), (b'"format":1', b'"format":2'), (b"}\n", b"}"), (b'"kind"', b' "kind"'), (b"quar", b"quax")],
)
def test_a_changed_act_file_is_refused(tmp_path: Path, old: bytes, new: bytes) -> None:
    """Whatever was changed in an act file, reading it says so and names the file."""
    path = record_act(Place(dir=tmp_path), make_act(ActKind.QUARANTINE, "run-1", reason="hot", now=NOW))
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))
    with pytest.raises(InfraError) as caught:
        read_act(path)
    assert caught.value.reason == "act-broken"
    assert str(path) in caught.value.message


def test_an_act_survives_a_lost_index(tmp_path: Path, make_record: MakeRecord) -> None:
    """The file is the truth: an index made anew holds the act."""
    place = Place(dir=tmp_path)
    remember(place, make_record("run-1"))
    act = make_act(ActKind.QUARANTINE, "run-1", reason="hot", now=NOW)
    record_act(place, act)
    (tmp_path / "index.sqlite").unlink()
    assert rebuild(place).problems == ()
    assert index.acts(place) == (act,)


def test_the_last_act_on_a_run_counts() -> None:
    """Quarantine and release undo each other, in the order in which they were made."""
    kinds = [ActKind.QUARANTINE, ActKind.RELEASE, ActKind.QUARANTINE]
    acts = [make_act(kind, "a", reason="r", now=NOW) for kind in kinds]
    assert quarantined_runs(acts[:1]) == {"a"}
    assert quarantined_runs(acts[:2]) == set()
    assert quarantined_runs(acts) == {"a"}


def test_a_quarantined_run_does_not_count_and_is_kept(
    place: Place, make_record: MakeRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    """Quarantine takes a run out of the past and marks it in the list; release brings it back; nothing is deleted."""
    record = make_record("run-1")
    remember(place, record)
    there = ["--dir", str(place.dir), *([] if place.url is None else ["--url", place.url])]

    def counted() -> list[str]:
        return [found.run_id for found in past_runs(place, record.spec, record.comparability).runs]

    assert counted() == ["run-1"]
    assert run(["quarantine", "run", "--reason", "the GPU was hot", *there], environ={}) is ExitCode.PASS
    assert counted() == []
    assert run(["list", *there], environ={}) is ExitCode.PASS
    assert "PASS (quarantined)" in capsys.readouterr().out
    assert run(["list", "--json", *there], environ={}) is ExitCode.PASS
    assert '"quarantined": true' in capsys.readouterr().out
    assert run(["release", "run-1", "--reason", "it was not", *there], environ={}) is ExitCode.PASS
    assert counted() == ["run-1"]
    assert (place.dir / "runs" / "run-1" / "record.json").exists()
    assert [stored.act.reason for stored in read_acts(place)] == ["the GPU was hot", "it was not"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("quarantine", "other", "--reason", "x"), "unknown-run"),
        (("release", "run-1", "--reason", "x"), "nothing-to-do"),
        (("quarantine", "run-1", "--reason", "  "), "bad-reason"),
        (("quarantine", "run-1", "--reason", "x" * 2001), "bad-reason"),
        (("quarantine", "run-1"), "bad-arguments"),
        (("quarantine", "--reason", "x"), "bad-arguments"),
    ],
)
def test_a_wrong_act_is_one_line(
    tmp_path: Path, make_record: MakeRecord, arguments: tuple[str, ...], reason: str
) -> None:
    """An unknown run, nothing to release, no reason or too long a one: ConfigError in one line, and no act."""
    place = Place(dir=tmp_path)
    remember(place, make_record("run-1"))
    with pytest.raises(ConfigError) as caught:
        run([*arguments, "--dir", str(tmp_path)], environ={})
    assert (caught.value.reason, len(caught.value.lines())) == (reason, 1)
    assert read_acts(place) == ()


def test_a_run_is_quarantined_once(tmp_path: Path, make_record: MakeRecord) -> None:
    """The command line refuses a second quarantine with exit 2, one line, and how to undo the first."""
    remember(Place(dir=tmp_path), make_record("run-1"))
    arguments = ("history", "quarantine", "run-1", "--reason", "hot", "--dir", ".")
    assert here(tmp_path, *arguments).code == 0
    again = here(tmp_path, *arguments)
    assert (again.code, again.out) == (2, "")
    assert again.err == (
        "gatekit: run run-1 is quarantined already; "
        "`gatekit history release --dir . run-1 --reason TEXT` [nothing-to-do]\n"
    )
