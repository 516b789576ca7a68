"""`gatekit thresholds`: locks from real histories, written, checked, refused, and used by a run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import betabinom

from command_line import Ran, environment, here
from gatekit.spec.locks import look, write_lock
from kept_nights import keep_nights
from nights import ASKED, LOCK, Night, series

NIGHTS = series("night", 0.95, 4, first="2026-08-30", step=0.003)


def recompute(folder: Path, *more: str, asked: tuple[str, ...] = ASKED) -> Ran:
    """`gatekit thresholds recompute` of the default spec, in this process."""
    return here(folder, "thresholds", "recompute", *asked, *more)


def lowered(folder: Path, k_reject: int) -> None:
    """Put a genuine lock in place that fails below `k_reject`."""
    lock = look(folder / LOCK, "simulated-cpu-sim", "").lock
    assert lock is not None
    write_lock(folder / LOCK, replace(lock, k_reject=k_reject))


def test_recompute_shows_and_writes_nothing(folder: Path) -> None:
    """Without --write the rule, the runs, the counts and the whole diff are printed, and no file is made."""
    ran = recompute(folder)
    assert ran.code == 0
    for said in (
        "simulated-cpu-sim: no lock yet: FAIL below",
        "exact_conditional; auto: answers per question of 4 distinct builds",
        "at most 0.274 % of runs",
        "4 used, each of another build: night-00 to night-03",
        "+k_reject: ",
        '+  - "night-03"',
        "next          gatekit thresholds recompute gate=auto task.n=100 engine.dispersion=0.5 --write",
    ):
        assert said in ran.out
    assert max(map(len, ran.out.splitlines())) <= 120
    assert not (folder / "conf").exists()


def test_a_written_lock_is_current_until_history_moves(folder: Path) -> None:
    """--write makes it, --check finds it current; repeated it is byte-identical; one more build makes it stale."""
    assert recompute(folder, "--write").code == 0
    first = (folder / LOCK).read_bytes()
    assert (folder / LOCK).stat().st_mode & 0o777 == 0o644
    assert recompute(folder, "--check").code == 0
    (folder / LOCK).unlink()
    assert recompute(folder, "--write").code == 0
    assert (folder / LOCK).read_bytes() == first
    again = recompute(folder, "--write")
    assert (again.code, "the lock is current" in again.out, "+" in again.out) == (0, True, False)
    keep_nights(folder, [Night("later", 0.9512, 9, "2026-09-03")], *ASKED)
    stale = recompute(folder, "--check")
    assert stale.code == 2
    assert stale.out.splitlines()[0].startswith("stale: simulated-cpu-sim: the lock is stale: FAIL below")
    assert "gatekit thresholds recompute gate=auto task.n=100 engine.dispersion=0.5 --write" in stale.out
    assert (folder / LOCK).read_bytes() == first, "a check writes nothing"
    changed = recompute(folder)
    assert '+  - "later"' in changed.out
    assert '"night-01"' not in changed.out, "lines that do not change are not shown"


def test_runs_that_are_left_out_make_no_lock_stale(folder: Path) -> None:
    """A run under another protocol and a repeat of a build are reported as left out, and change no lock."""
    assert recompute(folder, "--write").code == 0
    before = (folder / LOCK).read_bytes()
    keep_nights(folder, [replace(NIGHTS[3], run_id="again", day="2026-09-03")], *ASKED)
    keep_nights(folder, [Night("other", 0.95, 1, "2026-09-04")], *ASKED, "protocol.max_tokens=300")
    assert recompute(folder, "--check").code == 0
    told = recompute(folder, "--write")
    assert (told.code, "the lock is current" in told.out, "left out" in told.out) == (0, True, True), told.out
    assert (folder / LOCK).read_bytes() == before


def test_a_check_without_a_selection_reads_every_lock(folder: Path) -> None:
    """A lock that no selected spec names is held against the series of its key; an edited one exits 2."""
    assert recompute(folder, "--write").code == 0
    stray = folder / LOCK.parent / "gone-b200-x-vllm.lock.yaml"
    found = look(folder / LOCK, "simulated-cpu-sim", "").lock
    assert found is not None
    write_lock(stray, replace(found, spec="gone-b200-x-vllm", hw="b200-x"))
    checked = here(folder, "thresholds", "recompute", "--check", "--all-series")
    assert (checked.code, checked.err) == (0, ""), checked.err
    assert "current: gone-b200-x-vllm: the lock is current" in checked.out
    write_lock(stray, replace(found, spec="gone-b200-x-vllm", hw="b200-x", k_reject=found.k_reject - 1))
    stale = here(folder, "thresholds", "recompute", "--check", "--all-series")
    (line,) = [line for line in stale.out.splitlines() if "gone" in line]
    assert (stale.code, line.startswith("stale: gone-b200-x-vllm: ")) == (2, True)
    command = "gatekit thresholds recompute model=gone hw=b200-x engine=vllm task.n=100 gate=auto --write"
    assert line.endswith(command), line
    stray.write_text(stray.read_text().replace("n: 100\n", "n: 101\n"))
    edited = here(folder, "thresholds", "recompute", "--check", "--json")
    assert (edited.code, edited.data["exit_code"]) == (2, 2)
    assert any("was edited" in problem for problem in edited.data["problems"])
    write_lock(stray, found)
    other = here(folder, "thresholds", "recompute", "--check", "--all-series")
    assert (other.code, "the lock of another spec, simulated-cpu-sim" in other.err) == (2, True)


def test_a_lock_states_the_false_alarms_of_its_rule(tmp_path: Path) -> None:
    """What a lock on one earlier total says of its count is the beta-binomial tail that its rule goes by, in the
    lock, in the verdict by it, and in what explain shows."""
    (tmp_path / "old.csv").write_text("finished_at,n,correct,build\n2026-09-01,200,190,a\n")
    assert here(tmp_path, "history", "import", "--format", "totals", "old.csv", "task.n=200").code == 0
    asked = ("gate=auto", "gate.observed=null", "gate.method=beta_binomial_predictive", "task.n=200")
    found = recompute(tmp_path, "--write", "--json", asked=asked).data["thresholds"][0]
    below = found["lock"]["k_reject"]
    assert (found["lock"]["k_reject"], found["lock"]["mean"]) == (below, 190)
    exact = float(betabinom.cdf(below - 1, 200, 190.5, 10.5))
    assert found["realised_alpha"] == pytest.approx(exact, rel=1e-9)
    says = recompute(tmp_path, asked=asked).out
    assert f"{100 * exact:.3g} % at this count" in says
    shown = here(tmp_path, "thresholds", "show", "--json", "task.n=200", "gate=auto").data["verdict"]
    assert shown["p_value"] == pytest.approx(float(betabinom.cdf(190, 200, 190.5, 10.5)), rel=1e-9)
    assert shown["rule"]["realised_alpha"] == pytest.approx(exact, rel=1e-9)


def test_an_act_names_every_lock_folder_in_use(folder: Path) -> None:
    """A run behind a lock that a gate keeps elsewhere is told of with that lock and that folder, and the printed
    command makes that lock anew and no other."""
    elsewhere = (*ASKED, "gate.locks=team/locks")
    keep_nights(folder, [Night("elsewhere", 0.9513, 11, "2026-09-04")], *elsewhere)
    assert recompute(folder, "--write", asked=elsewhere).code == 0
    quarantined = here(folder, "history", "quarantine", "night-00", "--reason", "hot")
    (line,) = [line for line in quarantined.out.splitlines() if line.startswith("next: ")]
    assert line.startswith(f"next: team/locks/{LOCK.name} rests on it; ")
    assert "engine=sim task.n=100 gate.locks=team/locks --write" in line
    released = here(folder, "history", "release", "night-00", "--reason", "it was not", "--json")
    assert [lock["path"] for lock in released.data["locks"]] == [f"team/locks/{LOCK.name}"]
    key = recompute(folder, "--json").data["thresholds"][0]["key"]
    by_key = here(folder, "thresholds", "rebaseline", "--key", key, "--reason", "anew", "--json")
    assert [lock["path"] for lock in by_key.data["locks"]] == [f"team/locks/{LOCK.name}"]


@pytest.mark.parametrize("named", [("history.dir=ht",), ("--dir", "ht")])
def test_a_history_that_was_named_and_is_not_there_is_said(tmp_path: Path, named: tuple[str, ...]) -> None:
    """It is said what is wrong with the folder that was named, where it was named, not to name it."""
    ran = recompute(tmp_path, *named, "--check")
    assert ran.code == 2
    assert f"{named[0]}: no history in ht: there is no such folder in {tmp_path}" in ran.err
    (tmp_path / "ht").write_text("a file")
    assert "no history in ht: it is no folder" in recompute(tmp_path, *named, "--check").err


def test_hints_of_a_run_can_be_typed(folder: Path) -> None:
    """A locked run without a lock names the recompute command with its own overrides, in text, JSON and a sweep."""
    run = ("gate=locked", "task.n=100", "engine.latency={}", "history.dir=.gatekit")
    command = "gatekit thresholds recompute gate=locked task.n=100 'engine.latency={}' history.dir=.gatekit --write"
    ran = here(folder, *run, "--json")
    assert (ran.code, command in ran.data["hint"]) == (4, True), ran.data["hint"]
    swept = here(folder, "-m", "gate=locked", "task.n=10,11", "engine.latency={}", "--json")
    hints = [one["hint"] for one in swept.data["runs"]]
    assert [f"task.n={n} " in hint for n, hint in zip((10, 11), hints, strict=True)] == [True, True], hints


def test_show_judges_by_the_lock_alone(folder: Path) -> None:
    """A floor and a rule of the spec's own judge nothing in `show`, which says that the gate has another rule."""
    assert recompute(folder, "--write").code == 0
    shown = here(folder, "thresholds", "show", "task.n=100", "gate=static_floor", "gate.floor=1.0")
    assert shown.code == 0, shown.err
    verdict = here(folder, "thresholds", "show", "task.n=100", "gate=static_floor", "gate.floor=1.0", "--json").data
    assert (verdict["verdict"]["rule"]["method"], verdict["gate_method"]) == ("locked", "static_floor")
    assert verdict["verdict"]["rule"]["k_reject"] == verdict["lock"]["k_reject"]
    assert "static_floor: a run as asked does not use the lock" in shown.out
    locked = here(folder, "thresholds", "show", "task.n=100", "gate=locked")
    assert "does not use the lock" not in locked.out


def test_a_missing_lock_fails_the_check(folder: Path) -> None:
    """A lock that could be derived and is not there exits 2; a series without history and lock is in order."""
    missing = recompute(folder, "--check")
    assert (missing.code, missing.out.startswith("missing: simulated-cpu-sim: no lock yet")) == (2, True)
    short = recompute(folder, "--check", asked=("task.n=101",))
    assert (short.code, "0 comparable runs, need 1" in short.out) == (0, True)


def test_the_lock_of_another_key_fails_the_check(folder: Path) -> None:
    """A lock that was derived under other settings is named with the field that changed."""
    assert recompute(folder, "--write").code == 0
    keep_nights(folder, [Night("other", 0.95, 1, "2026-09-04")], "task.n=100", "gate=auto", "protocol.max_tokens=300")
    other = recompute(folder, "--check", asked=("protocol.max_tokens=300", *ASKED))
    assert other.code == 2
    assert (
        "other-key: simulated-cpu-sim: the lock is that of another series (protocol.max_tokens: 256 -> 300)"
        in other.out
    )
    why = ("--allow-looser", "--reason", "longer answers")
    assert recompute(folder, "--write", *why, asked=("protocol.max_tokens=300", *ASKED)).code == 0
    assert recompute(folder, "--check", asked=("protocol.max_tokens=300", *ASKED)).code == 0


def test_an_unreadable_history_exits_3(folder: Path) -> None:
    """A history that is no database is INFRA, said in one line, whatever the locks are."""
    (folder / ".gatekit" / "index.sqlite").write_bytes(b"not a database at all, but long enough to be read as one")
    ran = recompute(folder, "--check")
    assert (ran.code, ran.out) == (3, "")
    assert len(ran.err.splitlines()) == 1
    every = here(folder, "thresholds", "recompute", "--check")
    assert every.code == 3
    assert "is not a database" in every.err


def test_a_lock_whose_history_went_away_exits_4(folder: Path) -> None:
    """After a rebaseline the norm is empty: the lock has nothing behind it, --check exits 4, nothing is rewritten."""
    assert recompute(folder, "--write").code == 0
    before = (folder / LOCK).read_bytes()
    told = here(folder, "thresholds", "rebaseline", *ASKED, "--reason", "new kernels")
    assert told.code == 0, told.err
    assert "starts anew behind run night-03" in told.out
    ran = recompute(folder, "--check")
    assert ran.code == 4
    assert ran.out.startswith("lock-without-history: simulated-cpu-sim")
    short = recompute(folder, "--write")
    assert short.code == 4
    assert "0 comparable runs, need 1" in short.out
    assert "4 before the rebaseline" in short.out
    assert (folder / LOCK).read_bytes() == before
    keep_nights(folder, [Night("after", 0.9512, 9, "2026-09-03")], *ASKED)
    assert "1 used: after" in recompute(folder).out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("rebaseline", "task.n=100"), "a rebaseline needs --reason TEXT"),
        (("rebaseline", "task.n=100", "--reason", " "), "the reason is empty"),
        (("rebaseline", "--reason", "x"), "name the series"),
        (("rebaseline", "--key", "sha256:none", "--reason", "x"), "no run under key sha256:none"),
        (("recompute", "--write", "--check"), "exclude each other"),
        (("recompute", "--write", "--allow-looser"), "--allow-looser needs --reason TEXT"),
        (("recompute", "--allow-looser", "--reason", "x"), "--allow-looser belongs to --write"),
        (("recompute", "--write", "--reason", "x"), "--reason belongs to --allow-looser"),
        (("recompute", "--as-of", "yesterday"), "neither a date nor a moment"),
        (("recompute", "--all-series", "task.n=3"), "takes no overrides"),
        (("recompute", "--all-series"), "no series in"),
        (("recompute", "--all-series", "--dir", "nowhere"), "no history in nowhere: there is no such folder"),
        (("recompute", "task.n=9", "--dir", "nowhere"), "no history in nowhere: there is no such folder"),
        (("recompute", "--check", "--dir", "nowhere"), "no history in nowhere: there is no such folder"),
        (("show", "history.dir=nowhere"), "no history in nowhere: there is no such folder"),
        (("recompute", "model=nothing"), "no such model"),
        (("show",), "name the spec"),
        (("forget",), "which of recompute, rebaseline and show?"),
    ],
)
def test_wrong_input_exits_2(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    """What cannot be meant is refused in one line, and nothing is made."""
    ran = here(tmp_path, "thresholds", *arguments)
    assert (ran.code, says in ran.err) == (2, True), ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_looser_lock_needs_a_reason(folder: Path) -> None:
    """A lock that is easier to pass exits 2 with both counts and stays unwritten, until it is allowed with a reason."""
    assert recompute(folder, "--write").code == 0
    derived = next(line for line in (folder / LOCK).read_text().splitlines() if line.startswith("k_reject"))
    lowered(folder, 99)
    before = (folder / LOCK).read_bytes()
    ran = recompute(folder, "--write")
    assert ran.code == 2
    count = derived.removeprefix("k_reject: ")
    assert f"simulated-cpu-sim: not written: it would be looser, FAIL below {count} instead of FAIL below 99" in ran.out
    assert (folder / LOCK).read_bytes() == before
    allowed = recompute(folder, "--write", "--allow-looser", "--reason", "the old one was made by hand")
    assert allowed.code == 0
    text = (folder / LOCK).read_text()
    assert derived in text
    assert 'looser_because: "the old one was made by hand"' in text
    assert recompute(folder, "--check").code == 0
    assert recompute(folder, "--write").code == 0
    assert (folder / LOCK).read_text() == text, "the reason is kept as long as the counts are"


def test_a_stricter_lock_needs_none(folder: Path) -> None:
    """A lock that is harder to pass than the one in place is written without a word."""
    assert recompute(folder, "--write").code == 0
    lowered(folder, 10)
    assert recompute(folder, "--write").code == 0
    assert "k_reject: 10\n" not in (folder / LOCK).read_text()


def test_as_of_is_what_was_known_then(folder: Path) -> None:
    """--as-of leaves out what came later: the lock is that of the two nights of August, for a date and a moment."""
    ran = recompute(folder, "--as-of", "2026-08-31", "--json")
    (found,) = ran.data["thresholds"]
    assert found["lock"]["used"] == ["night-00", "night-01"]
    assert found["lock"]["as_of"] == "2026-08-31"
    assert found["command"].endswith("--as-of 2026-08-31 --write")
    moment = recompute(folder, "--as-of", "2026-08-31T05:00:00+02:00", "--json").data["thresholds"][0]["lock"]
    assert (moment["used"], moment["as_of"]) == (["night-00", "night-01"], "2026-08-31T03:00:00")
    assert moment["k_reject"] == found["lock"]["k_reject"]
    before = recompute(folder, "--as-of", "2026-08-29")
    assert (before.code, "0 comparable runs, need 1" in before.out) == (4, True)


def test_a_run_uses_its_lock(folder: Path) -> None:
    """With gate=locked the count of the lock decides; an edited lock stops the run before it starts, with exit 2."""
    assert recompute(folder, "--write").code == 0
    run = ("gate=locked", "task.n=100", "engine.latency={}", "--json")
    passed = here(folder, *run, "engine.accuracy=0.951")
    assert (passed.code, passed.data["rule"]["method"]) == (0, "locked"), passed.err
    failed = here(folder, *run, "engine.accuracy=0.5", "--run-id", "bad")
    assert (failed.code, failed.data["verdict"]) == (1, "FAIL")
    shown = here(folder, "thresholds", "show", "task.n=100")
    assert shown.code == 0
    assert "holds     yes" in shown.out
    assert "verdict   FAIL" in shown.out
    text = (folder / LOCK).read_text()
    (folder / LOCK).write_text(text.replace("mean: ", "mean: 1"))
    refused = here(folder, *run, "--run-id", "refused")
    assert refused.code == 2
    assert f"{LOCK}:" in refused.err
    typed = "gatekit thresholds recompute gate=locked task.n=100 'engine.latency={}' --write"
    assert typed in refused.err, "the overrides as they were typed"
    assert not (folder / ".gatekit" / "runs" / "refused").exists()
    assert "digest does not match" in recompute(folder, "--check").out
    assert recompute(folder, "--check").code == 2
    assert recompute(folder, "--write", "--allow-looser", "--reason", "typed by mistake").code == 0
    assert recompute(folder, "--check").code == 0


def test_an_edited_lock_is_no_way_around_the_reason(folder: Path) -> None:
    """A lock that was made stricter by hand is not silently replaced by a looser one."""
    assert recompute(folder, "--write").code == 0
    text = (folder / LOCK).read_text()
    line = next(line for line in text.splitlines() if line.startswith("k_reject"))
    (folder / LOCK).write_text(text.replace(line, "k_reject: 100"))
    ran = recompute(folder, "--write")
    assert (ran.code, "no whole lock" in ran.out) == (2, True)


@pytest.mark.parametrize("spoil", ["junk\n", "<<<<<<< ours\n", "#mean"])
def test_no_damage_lets_a_looser_lock_in(folder: Path, spoil: str) -> None:
    """A lock that no longer verifies (cut off, a merge's markers, a digit changed) may have been tighter than the one
    that would take its place: without a reason it stays as it is."""
    assert recompute(folder, "--write").code == 0
    whole = (folder / LOCK).read_text()
    (folder / LOCK).write_text(whole.replace("\nmean", "\n#mean") if spoil == "#mean" else whole + spoil)
    damaged = (folder / LOCK).read_text()
    ran = recompute(folder, "--write")
    assert (ran.code, (folder / LOCK).read_text()) == (2, damaged)
    assert "--allow-looser --reason '...'" in " ".join(ran.out.split())
    reasoned = recompute(folder, "--write", "--allow-looser", "--reason", "a merge broke it")
    assert reasoned.code == 0, reasoned.out
    assert "a merge broke it" in (folder / LOCK).read_text()


def test_a_broken_lock_is_made_anew_and_a_newer_one_is_left(folder: Path) -> None:
    """What is no lock is replaced for a reason; what a newer gatekit wrote is never overwritten."""
    (folder / LOCK).parent.mkdir(parents=True)
    (folder / LOCK).write_bytes(b"\xff\x00 nonsense")
    check = recompute(folder, "--check")
    assert (check.code, check.out.startswith("broken: simulated-cpu-sim")) == (2, True)
    assert recompute(folder, "--write", "--allow-looser", "--reason", "was no lock").code == 0
    newer = (folder / LOCK).read_text().replace("format: 1", "format: 9")
    (folder / LOCK).write_text(newer)
    ran = recompute(folder, "--write")
    assert (ran.code, "a newer gatekit made the lock" in ran.out) == (2, True)
    assert (folder / LOCK).read_text() == newer
    (folder / LOCK).unlink()
    (folder / LOCK).mkdir()
    blocked = recompute(folder, "--write", "--allow-looser", "--reason", "is a folder")
    assert (blocked.code, "cannot write" in blocked.err) == (3, True)


def test_two_writers_at_once_leave_one_whole_lock(folder: Path) -> None:
    """Several --write at the same time all end well, and the lock is that of one alone."""
    command = [sys.executable, "-m", "gatekit", "thresholds", "recompute", *ASKED, "--write"]
    started = [
        subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    assert [(process.wait(120), process.communicate()[1]) for process in started] == [(0, b"")] * 3
    written = (folder / LOCK).read_bytes()
    assert sorted(path.name for path in (folder / LOCK).parent.iterdir()) == [LOCK.name]
    (folder / LOCK).unlink()
    recompute(folder, "--write")
    assert (folder / LOCK).read_bytes() == written


def test_two_specs_pool_their_spread(folder: Path) -> None:
    """Two series of a history give two locks in one go, with a prior from both; --no-pool keeps each gate's own."""
    keep_nights(
        folder, series("other", 0.9, 3, first="2026-09-05", step=0.01), *ASKED, "task.n=80", "gate.observed=null"
    )
    ran = here(folder, "thresholds", "recompute", "--all-series", "--json")
    states = {found["lock"]["n"]: found["state"] for found in ran.data["thresholds"]}
    assert states == {80: "missing", 100: "retired"}, "the older key of the spec is not its lock any more"
    assert {found["lock"]["prior"]["series"] for found in ran.data["thresholds"]} == {2}
    own = here(folder, "thresholds", "recompute", "--all-series", "--no-pool", "--json").data["thresholds"]
    assert {found["lock"]["prior"]["series"] for found in own} == {0}
    assert here(folder, "thresholds", "recompute", "--all-series", "--write").code == 0
    assert "n: 80\n" in (folder / LOCK).read_text()
    assert here(folder, "thresholds", "recompute", "--all-series", "--check").code == 0


@pytest.mark.parametrize(("name", "file"), [("odd-one-", "odd-one--cpu-sim"), ("0_", "0_-cpu-sim")])
def test_an_odd_spec_name_has_a_lock_of_its_own(folder: Path, name: str, file: str) -> None:
    """Whatever a model file is called, its lock is one visible file in the folder, is found again, and is used."""
    models = folder / "team" / "model"
    models.mkdir(parents=True)
    (models / f"{name}.yaml").write_text(
        "defaults:\n  - override /engine: sim\n  - override /task: gsm8k_synth\n"
        "  - override /protocol: completions_5shot\n  - override /gate: auto\n"
        "model: {name: simulated, server_args: {}, server_env: {}}\n"
    )
    asked = (f"model={name}", "task.n=100", "--config-dir", "team")
    ran = recompute(folder, "--write", asked=asked)
    assert ran.code == 0, ran.err
    (path,) = (folder / LOCK).parent.iterdir()
    assert path.name == f"{file}.lock.yaml"
    assert recompute(folder, "--check", asked=asked).code == 0
    used = here(folder, *asked, "gate=locked", "engine.latency={}", "--json")
    assert (used.code, used.data["rule"]["method"]) == (0, "locked"), used.err


def test_every_model_of_conf_without_a_dataset(tmp_path: Path) -> None:
    """The default selection needs neither GSM8K nor a network: every model is told of, and exits 4 without history."""
    ran = here(tmp_path, "thresholds", "recompute", extra={"GATEKIT_CACHE_DIR": str(tmp_path / "empty")})
    assert ran.code == 4, ran.err
    (line,) = ran.out.splitlines()
    assert line.startswith("no run and no lock yet (")
    assert "laguna_int4-b200-vllm, " in line
    assert not (tmp_path / "empty").exists()
    checked = here(tmp_path, "thresholds", "recompute", "--check")
    assert checked.code == 0


def test_markdown_is_a_comment_for_a_pull_request(folder: Path) -> None:
    """--format markdown prints one table and the diff; nothing else goes to stdout."""
    ran = recompute(folder, "--format", "markdown")
    assert ran.code == 0
    assert ran.out.startswith("### Thresholds from history\n")
    assert "| `simulated-cpu-sim` | `exact_conditional` | `4` |" in ran.out
    assert "```diff\n--- /dev/null\n" in ran.out


def test_json_names_every_number(folder: Path) -> None:
    """--json is one document with the lock, the state, the command and the exit code."""
    ran = recompute(folder, "--json", "--check")
    assert ran.data["exit_code"] == ran.code == 2
    (found,) = ran.data["thresholds"]
    assert found["state"] == "missing"
    assert found["lock"]["alpha"] == pytest.approx(1 / 365)
    assert 0 < found["realised_alpha"] <= found["lock"]["alpha"]
    assert found["diff"][0] == "--- /dev/null"


def test_a_rebaseline_by_key(folder: Path) -> None:
    """A series is rebaselined by its key alone, and the act is a file with its reason."""
    key = recompute(folder, "--json").data["thresholds"][0]["key"]
    assert here(folder, "thresholds", "rebaseline", "--key", key, "--reason", "why not").code == 0
    (act,) = (folder / ".gatekit" / "acts").iterdir()
    plain = json.loads(act.read_text())
    assert (plain["kind"], plain["target"], plain["reason"]) == ("rebaseline", key, "why not")
    assert recompute(folder).code == 4


def test_an_act_names_the_lock_that_it_touches(folder: Path) -> None:
    """A quarantine of a used run, its release and a rebaseline name the recompute command; other acts name none."""
    assert "next:" not in here(folder, "history", "quarantine", "night-00", "--reason", "hot").out
    assert "next:" not in here(folder, "history", "release", "night-00", "--reason", "it was not").out
    assert recompute(folder, "--write").code == 0
    command = "gatekit thresholds recompute model=simulated hw=cpu engine=sim task.n=100 --write"
    loosens = " (with --allow-looser --reason '...' where that is looser)"
    named = f"next: {LOCK} rests on it; with its other overrides, if any: {command}{loosens}"
    for act in ("quarantine", "release"):
        told = here(folder, "history", act, "night-00", "--reason", "a reason")
        assert (told.code, told.out.splitlines()[1]) == (0, named)
    ran = here(folder, "thresholds", "rebaseline", *ASKED, "--reason", "new kernels", "--json")
    assert (ran.data["after_run"], ran.data["act"]["kind"]) == ("night-03", "rebaseline")
    assert ran.data["locks"] == [
        {"path": str(LOCK), "command": f"gatekit thresholds recompute {' '.join(ASKED)} --write"}
    ]
    again = here(folder, "thresholds", "rebaseline", *ASKED, "--reason", "new kernels")
    assert (again.code, "no run has come since" in again.err) == (2, True), again.err
    assert len(list((folder / ".gatekit" / "acts").glob("*rebaseline*"))) == 1
    keep_nights(folder, [Night("after", 0.9512, 9, "2026-09-03")], *ASKED)
    assert here(folder, "thresholds", "rebaseline", *ASKED, "--reason", "once more").code == 0


def test_show_without_a_lock_says_so(folder: Path) -> None:
    """Without a lock `show` exits 4 and names the last run of the series."""
    ran = here(folder, "thresholds", "show", "task.n=100")
    assert ran.code == 4
    assert "none in conf/thresholds" in ran.out
    assert "night-03" in ran.out


LOCKED = ("gate=locked", "task.n=100", "engine.latency={}", "engine.dispersion=0.5", "--json")


def test_a_pinned_build_moves_no_lock(folder: Path) -> None:
    """Twenty more healthy nights of one build, each with other answers, leave its lock current, byte for byte."""
    assert recompute(folder, "--write").code == 0
    before = (folder / LOCK).read_bytes()
    pinned = [replace(NIGHTS[0], run_id=f"pinned-{n:02}", flips=100 + n, day="2026-09-03") for n in range(20)]
    records = keep_nights(folder, pinned, *ASKED)
    assert len({tuple(seen.status for seen in record.observations) for record in records}) > 10
    told = recompute(folder, "--write")
    assert (told.code, "the lock is current" in told.out) == (0, True), told.out
    assert "same build" in told.out
    assert (folder / LOCK).read_bytes() == before
    assert recompute(folder, "--check").code == 0


def test_a_lock_whose_run_was_set_aside_decides_nothing(folder: Path) -> None:
    """After a quarantine or a new scoring of a run behind it a locked run is INCONCLUSIVE and names the command."""
    assert recompute(folder, "--write").code == 0
    assert here(folder, "history", "quarantine", "night-01", "--reason", "hot").code == 0
    ran = here(folder, *LOCKED)
    assert (ran.code, ran.data["reason_code"], ran.data["rule"]) == (4, "lock-run-set-aside", None), ran.err
    assert ran.data["reason"] == "the lock of simulated-cpu-sim rests on run night-01 (quarantined since)"
    command = "gatekit thresholds recompute gate=locked task.n=100 'engine.latency={}' engine.dispersion=0.5 --write"
    assert command in ran.data["hint"]
    shown = here(folder, "thresholds", "show", *ASKED)
    assert (shown.code, "rests on run night-01 (quarantined since)" in shown.out) == (4, True)
    assert here(folder, "history", "release", "night-01", "--reason", "it was not").code == 0
    assert here(folder, "thresholds", "show", *ASKED).code == 0
    assert here(folder, "history", "rescore", "night-02", "--extractor", "last_integer").code == 0
    rescored = here(folder, *LOCKED)
    assert (rescored.code, "run night-02 (superseded since)" in rescored.data["reason"]) == (4, True), rescored.err
    assert recompute(folder, "--write", "--allow-looser", "--reason", "night-02 is scored anew").code == 0
    assert here(folder, *LOCKED).code == 0


def test_a_lock_of_another_history_says_what_it_cannot_tell(folder: Path, tmp_path: Path) -> None:
    """Where the runs behind a lock are not in the history, or none is named, it decides, and a note says so."""
    assert recompute(folder, "--write").code == 0
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(folder / "conf", elsewhere / "conf")
    ran = here(elsewhere, *LOCKED)
    unknown = "4 of the 4 runs behind the lock: not in this history, so that whether one was set aside since"
    assert (ran.code, any(note.startswith(unknown) for note in ran.data["rule"]["notes"])) == (0, True), ran.out
    lock = look(folder / LOCK, "simulated-cpu-sim", "").lock
    assert lock is not None
    write_lock(folder / LOCK, replace(lock, used=()))
    unnamed = here(folder, *LOCKED)
    assert unnamed.code == 0
    assert any(note.startswith("the lock names no run that it rests on") for note in unnamed.data["rule"]["notes"])


def test_no_lock_rests_on_a_record_that_was_changed(folder: Path) -> None:
    """A record file that is not what was indexed keeps --write from writing, in one line; one that is gone does not."""
    path = folder / ".gatekit/runs/night-01/record.json"
    whole = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(whole.replace(b'"status":"wrong"', b'"status":"right"', 1))
    ran = recompute(folder, "--write")
    assert (ran.code, (folder / LOCK).exists()) == (3, False)
    assert "no lock is written: the record of run night-01 was changed since it was indexed" in ran.err
    assert here(folder, "thresholds", "recompute", "--all-series", "--write").code == 3
    assert recompute(folder).code == 0, "what writes nothing reads no record"
    path.write_bytes(whole + b" ")
    assert recompute(folder, "--write").code == 3
    path.unlink()
    assert recompute(folder, "--write").code == 0


def test_no_lock_is_made_by_which_nothing_could_fail(tmp_path: Path) -> None:
    """A dead first night is no norm: its lock would let everything pass, and is not written."""
    dead = ("task.n=40", "gate=auto", "gate.observed=null", "engine.accuracy=0.0", "engine.latency={}")
    here(tmp_path, *dead)
    ran = here(tmp_path, "thresholds", "recompute", "task.n=40", "--write")
    assert ran.code == 2
    assert "[lock-never-fails]" in ran.out + ran.err
    assert not list(tmp_path.rglob("*.lock.yaml"))


@pytest.mark.parametrize("command", [("recompute", "--write", "--allow-looser"), ("rebaseline", "task.n=40")])
def test_a_reason_with_a_password_is_not_kept(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A reason stays for good, in a lock or an act, so that one with a password in a URL is refused."""
    ran = here(tmp_path, "thresholds", *command, "--reason", "moved to postgresql://ci:hunter2@db/gates")
    assert ran.code == 2
    assert "[bad-reason]" in ran.err
    assert "hunter2" not in ran.out + ran.err
