"""`gatekit thresholds recompute --all-series`: many series, from the index alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from command_line import here
from gatekit.history import index
from gatekit.history.place import Place
from gatekit.history.run_row import NewRow, packed
from gatekit.records.canonical import Plain, digest, to_plain
from gatekit.records.verdict import Outcome
from gatekit.resources import conf_dir
from gatekit.spec.resolve import resolve

N = 60
AUTO = to_plain(resolve(["gate=auto"], dirs=(conf_dir(),)).gate)


def row(model: str, night: int, gate: Plain = AUTO, **fields: Plain) -> NewRow:
    """One night of a model, right on nine questions of ten, under the key of these fields."""
    source = Random(f"{model} {night}")
    answers = [source.random() < 0.9 for _ in range(N)]
    correct = sum(answers)
    key_fields = {"n": N, "model": model, **fields}
    return NewRow(
        run_id=f"{model}-{digest(key_fields)[7:11]}-{night}",
        digest=digest([model, night, key_fields]),
        previous=None,
        supersedes=None,
        comparability_key=digest(key_fields),
        gate=None if gate is None else digest(gate),
        spec_name=f"{model}-b200-vllm",
        model=model,
        hw="b200",
        engine="vllm",
        build=f"build-{night}",
        protocol="chat",
        dataset="gsm8k",
        n=N,
        correct=correct,
        wrong=N - correct,
        no_answer=0,
        truncated=0,
        lost=0,
        unasked=0,
        measured=True,
        outcome=Outcome.PASS,
        reason_code="at-or-above-threshold",
        simulated=False,
        started_at=f"2026-09-{night + 1:02d}T00:00:00Z",
        finished_at=f"2026-09-{night + 1:02d}T01:00:00Z",
        path=f"runs/{model}-{night}/record.json",
        right=packed(answers),
        key_fields=json.dumps(key_fields, sort_keys=True),
        gate_section=None if gate is None else json.dumps(gate, sort_keys=True),
    )


def fill(folder: Path, rows: Iterator[NewRow] | list[NewRow]) -> None:
    """Put rows into the history of a folder."""
    place = Place(dir=folder / ".gatekit")
    index.prepare(place)
    assert not index.add_many(place, rows).problems


def gate_with(**changed: Plain) -> Mapping[str, Plain]:
    """The section of the auto gate, changed."""
    return {**AUTO, **changed}


@pytest.mark.slow
def test_many_series_in_two_processes(tmp_path: Path) -> None:
    """A thousand series pool one prior, each gets its lock, in the order of their keys; again it is the same."""
    fill(tmp_path, [row(f"m{number}", night) for number in range(1000) for night in range(3)])
    ran = here(tmp_path, "thresholds", "recompute", "--all-series", "--json")
    found = ran.data["thresholds"]
    assert (ran.code, len(found)) == (0, 1000), ran.err
    assert [one["key"] for one in found] == sorted(one["key"] for one in found)
    assert {one["lock"]["prior"]["series"] for one in found} == {1000}
    assert here(tmp_path, "thresholds", "recompute", "--all-series", "--json").out == ran.out
    assert here(tmp_path, "thresholds", "recompute", "--all-series", "--write").code == 0
    check = here(tmp_path, "thresholds", "recompute", "--all-series", "--check")
    assert (check.code, check.out.splitlines()[-1]) == (0, "1000 series: 1000 current")


def test_a_hundred_series_in_one_process(tmp_path: Path) -> None:
    """Series of a small history pool one prior, are written and found current, and an unreadable one is INFRA."""
    fill(tmp_path, [row(f"m{number}", night) for number in range(100) for night in range(3)])
    ran = here(tmp_path, "thresholds", "recompute", "--all-series", "--write", "--json")
    assert (ran.code, len(ran.data["thresholds"])) == (0, 100), ran.err
    assert {one["lock"]["prior"]["series"] for one in ran.data["thresholds"]} == {100}
    check = here(tmp_path, "thresholds", "recompute", "--all-series", "--check")
    assert (check.code, check.out.splitlines()[-1]) == (0, "100 series: 100 current")
    (tmp_path / ".gatekit" / "index.sqlite").write_bytes(b"no database, but long enough to be looked at as one would")
    broken = here(tmp_path, "thresholds", "recompute", "--all-series", "--check")
    assert (broken.code, broken.out, "is not a database" in broken.err) == (3, "", True)


def test_few_series_need_no_process_and_say_the_same(tmp_path: Path) -> None:
    """A small history gives for each of its series what the gate of its newest run asks for."""
    strict = gate_with(alpha=0.1, budget=None)
    fill(tmp_path, [row("a", night) for night in range(4)] + [row("b", night, strict) for night in range(4)])
    ran = here(tmp_path, "thresholds", "recompute", "--all-series", "--json")
    alphas = {one["spec"]: one["lock"]["alpha"] for one in ran.data["thresholds"]}
    assert alphas == {"a-b200-vllm": pytest.approx(1 / 365), "b-b200-vllm": pytest.approx(0.1)}


def test_the_series_that_a_spec_left_has_no_lock(tmp_path: Path) -> None:
    """Of two keys of a spec the one of its newest run decides the lock; the other is told of and never written."""
    fill(tmp_path, [row("a", night, api="raw") for night in range(4)] + [row("a", 9, api="chat")])
    ran = here(tmp_path, "thresholds", "recompute", "--all-series", "--write", "--json")
    assert sorted(one["state"] for one in ran.data["thresholds"]) == ["missing", "retired"]
    text = (tmp_path / "conf" / "thresholds" / "a-b200-vllm.lock.yaml").read_text()
    assert '"api": "chat"' in text
    early = here(tmp_path, "thresholds", "recompute", "--all-series", "--as-of", "2026-09-05", "--json")
    assert [one["lock"]["fields"]["api"] for one in early.data["thresholds"]] == ["raw"]


@pytest.mark.parametrize(
    ("gate", "code", "says"),
    [
        (gate_with(locks="/etc/gatekit"), 2, "keeps locks in /etc/gatekit, which is not below this folder"),
        (gate_with(locks="../outside"), 2, "which is not below this folder"),
        (gate_with(method="magic"), 2, "is not one of this gatekit"),
        (gate_with(alpha=7), 2, "is not one of this gatekit"),
        (None, 3, "the index does not know the gate"),
    ],
)
def test_a_record_of_anyone_leads_nowhere(tmp_path: Path, gate: Plain, code: int, says: str) -> None:
    """A gate section that no config could have, or that points elsewhere, keeps its series out; the others are done."""
    work = tmp_path / "work"
    work.mkdir()
    fill(work, [row("good", night) for night in range(3)] + [row("bad", night, gate) for night in range(3)])
    ran = here(work, "thresholds", "recompute", "--all-series", "--write")
    assert (ran.code, says in ran.err) == (code, True), ran.err
    assert len(ran.err.splitlines()) == 1
    assert "1 series: 1 written" in ran.out
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


def test_a_name_of_anyone_is_one_file_of_the_folder(tmp_path: Path) -> None:
    """A spec name with slashes or control characters in a shared history stays a file name and harmless text."""
    odd = [replace(row("x", night), spec_name="../../\x1b[2J|x") for night in range(3)]
    fill(tmp_path, odd)
    ran = here(tmp_path, "thresholds", "recompute", "--all-series", "--write")
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out
    (path,) = (tmp_path / "conf" / "thresholds").iterdir()
    assert path.name == "%2E.%2F..%2F%1B%5B2J%7Cx.lock.yaml"
    assert here(tmp_path, "thresholds", "recompute", "--all-series", "--check").code == 0


@pytest.mark.parametrize(
    ("locks", "says"),
    [
        ("out", "is not below this folder"),
        ("out/deeper", "is not below this folder"),
        (".git/hooks", "is in a hidden folder"),
        ("conf/.hidden", "is in a hidden folder"),
        ("inner", "is in a hidden folder"),
        ("loop/locks", "cannot be followed"),
        ("a\0b", "is not below this folder"),
        ("\ud800", "is not below this folder"),
    ],
)
def test_no_link_and_no_hidden_folder_takes_locks(tmp_path: Path, locks: str, says: str) -> None:
    """Links are followed before it is said that a folder is below the working directory, and hidden ones are taboo."""
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    for folder in (work / ".git" / "hooks", elsewhere):
        folder.mkdir(parents=True)
    (work / "out").symlink_to(elsewhere)
    (work / "inner").symlink_to(work / ".git" / "hooks")
    (work / "loop").symlink_to("loop")
    bad = gate_with(locks=locks)
    fill(work, [row("good", night) for night in range(3)] + [row("bad", night, bad) for night in range(3)])
    ran = here(work, "thresholds", "recompute", "--all-series", "--write")
    assert (ran.code, len(ran.err.splitlines()), says in ran.err) == (2, 1, True), ran.err
    assert "1 series: 1 written" in ran.out
    assert list(elsewhere.iterdir()) == [] == list((work / ".git" / "hooks").iterdir())


def test_a_link_that_stays_here_is_followed(tmp_path: Path) -> None:
    """A folder of locks may be a link to another one below the working directory."""
    (tmp_path / "real").mkdir()
    (tmp_path / "locks").symlink_to("real")
    fill(tmp_path, [row("good", night, gate_with(locks="locks")) for night in range(3)])
    assert here(tmp_path, "thresholds", "recompute", "--all-series", "--write").code == 0
    assert len(list((tmp_path / "real").iterdir())) == 1


@pytest.mark.parametrize("fields", [{"n": "x"}, {"n": None}, {"n": True}, {"n": 0}])
def test_a_key_that_tells_no_number_of_questions_is_left_out(tmp_path: Path, fields: Plain) -> None:
    """A series whose key was never made by a run is one line; the others are done."""
    fill(tmp_path, [row("good", night) for night in range(3)] + [row("bad", night, **fields) for night in range(3)])
    ran = here(tmp_path, "thresholds", "recompute", "--all-series", "--write")
    assert (ran.code, len(ran.err.splitlines())) == (2, 1), ran.err
    assert "tells no number of questions" in ran.err
    assert "1 series: 1 written" in ran.out


def test_the_series_that_arrived_last_is_the_one_that_runs(tmp_path: Path) -> None:
    """A wrong clock in an old series does not bring its lock back: order is that of arrival, never of dates."""
    head = "finished_at,n,correct,build\n"
    (tmp_path / "old.csv").write_text(head + "2025-01-01,40,30,a\n2025-01-02,40,31,b\n2099-01-03,40,30,c\n")
    (tmp_path / "new.csv").write_text(head + "2026-01-01,40,38,d\n2026-01-02,40,37,e\n2026-01-03,40,38,f\n")
    importing = ("history", "import", "--format", "totals")
    assert here(tmp_path, *importing, "old.csv", "task.n=40", "protocol.max_tokens=512").code == 0
    assert here(tmp_path, *importing, "new.csv", "task.n=40").code == 0
    assert here(tmp_path, "thresholds", "recompute", "task.n=40", "--write").code == 0
    (lock,) = (tmp_path / "conf" / "thresholds").glob("*.lock.yaml")
    key = next(line for line in lock.read_text().splitlines() if line.startswith("key:"))
    here(tmp_path, "thresholds", "recompute", "--all-series", "--write")
    assert key in lock.read_text()


def test_a_check_without_a_selection_leaves_no_lock_out(tmp_path: Path) -> None:
    """A model that only a matrix runs has a lock that no config selects: it is held against the series of its key,
    stale is exit 2, and one whose series the history does not hold is exit 4, never 0."""
    strict = gate_with(name="nightly_only", alpha=0.01, budget=None, locks="team/locks")
    fill(tmp_path, [row("m", night, strict) for night in range(4)])
    assert here(tmp_path, "thresholds", "recompute", "--all-series", "--write").code == 0
    (lock,) = (tmp_path / "team" / "locks").iterdir()
    checked = here(tmp_path, "thresholds", "recompute", "--check")
    assert (checked.code, "current: m-b200-vllm: the lock is current" in checked.out) == (0, True), checked.err
    fill(tmp_path, [row("m", night, strict) for night in range(4, 9)])
    stale = here(tmp_path, "thresholds", "recompute", "--check")
    (line,) = [line for line in stale.out.splitlines() if "m-b200-vllm" in line]
    assert (stale.code, line.startswith("stale: m-b200-vllm")) == (2, True), stale.out
    assert line.endswith("model=m hw=b200 engine=vllm task.n=60 gate.locks=team/locks --write")
    lock.rename(tmp_path / "kept")
    (tmp_path / "conf" / "thresholds").mkdir(parents=True)
    (tmp_path / "kept").rename(tmp_path / "conf" / "thresholds" / lock.name)
    (tmp_path / ".gatekit").rename(tmp_path / "other")
    gone = here(tmp_path, "thresholds", "recompute", "--check")
    assert (gone.code, "unchecked: m-b200-vllm: the lock was held against nothing" in gone.out) == (4, True), gone.out
    named = here(tmp_path, "thresholds", "recompute", "--check", "--dir", "other", "--json")
    assert (named.code, [one["state"] for one in named.data["thresholds"] if one["old"]]) == (2, ["stale"])


def test_a_check_tells_the_lock_of_a_series_that_its_spec_left(tmp_path: Path) -> None:
    """A spec that moved and keeps its lock in the same file has the lock of another series; one that keeps a variant's
    lock elsewhere leaves that of the nightly as it is, and it is checked."""
    fill(tmp_path, [row("a", night, api="raw") for night in range(4)])
    assert here(tmp_path, "thresholds", "recompute", "--all-series", "--write").code == 0
    fill(tmp_path, [row("a", night, gate_with(locks="variants"), api="short") for night in range(5, 9)])
    for more in ((), ("--all-series",)):
        ran = here(tmp_path, "thresholds", "recompute", "--check", "--json", *more)
        checked = [one["state"] for one in ran.data["thresholds"] if one["path"].startswith("conf/thresholds/a-")]
        assert "current" in checked, ran.out
    fill(tmp_path, [row("a", night, api="chat") for night in range(10, 14)])
    moved = here(tmp_path, "thresholds", "recompute", "--check")
    assert (moved.code, "other-key: a-b200-vllm" in moved.out, "raw -> chat" in moved.out) == (2, True, True)
