"""Locks that are to be replaced, and the commands that are printed for it: none is refused when it is pasted."""

from __future__ import annotations

import contextlib
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import Ran, here, recompute
from gatekit.cli.arguments import Parser, parse
from gatekit.cli.thresholds.deriving import Series, series_of
from gatekit.cli.thresholds.selecting import add_selection, every
from gatekit.gate.recompute import lock_of_norm
from gatekit.history.past import past_runs
from gatekit.records.lock import Lock, Prior
from gatekit.records.verdict import Outcome
from gatekit.spec.locks import lock_path, look, render, write_lock
from kept_nights import keep_nights
from nights import ASKED, LOCK, Night, series

TEAM = """\
defaults:
  - override /engine: sim
  - override /task: gsm8k_synth
  - override /protocol: completions_5shot
  - override /gate: auto
model: {{name: {name}, server_args: {{}}, server_env: {{}}}}
engine: {{accuracy: 0.95, dispersion: {dispersion}, latency: {{}}}}
task: {{n: 100}}
gate: {{method: moderated_t}}
"""


def pasted(folder: Path, command: str) -> Ran:
    """A printed command as somebody types it again, with a reason in place of the dots."""
    words = shlex.split(command.replace("'...'", "'as reviewed'"))
    assert words[:2] == ["gatekit", "thresholds"], words
    return here(folder, *words[1:])


def next_of(ran: Ran) -> str:
    """The command behind `next` of the only series that was printed."""
    lines = ran.out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("  next "))
    end = next(number for number in range(start + 1, len(lines)) if not lines[number].startswith(" " * 16))
    return " ".join(line.strip() for line in lines[start:end]).removeprefix("next").strip()


def selected(folder: Path, *arguments: str) -> Series:
    """The only series that these arguments select, with all that its history holds."""
    parser = Parser("gatekit thresholds", "")
    add_selection(parser, what="one spec")
    with contextlib.chdir(folder):
        (one,), _ = every(parse(parser, list(arguments)), {})
        spec, past = one.spec, past_runs(one.place, one.spec, one.key)
    return series_of(
        spec.name, spec.gate, spec.hw.name, one.key, past, path=lock_path(spec), command="", checked_in=None
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of a team with four nights each, whose totals scatter differently. Only to be copied."""
    folder = tmp_path_factory.mktemp("team")
    models = folder / "team" / "model"
    models.mkdir(parents=True)
    for name, dispersion in (("team_a", 0.1), ("team_b", 1.0)):
        (models / f"{name}.yaml").write_text(TEAM.format(name=name, dispersion=dispersion))
        nights = [
            Night(f"{name}-{flips}", accuracy, flips, f"2026-08-{flips + 1:02d}")
            for flips, accuracy in enumerate((0.95, 0.951, 0.952, 0.953))
        ]
        records = keep_nights(
            folder, nights, f"model={name}", "gate=auto", "gate.method=moderated_t", dirs=(folder / "team",)
        )
        assert {record.verdict.outcome for record in records} <= {Outcome.PASS, Outcome.INCONCLUSIVE}
    return folder


@pytest.fixture
def team(made: Path, tmp_path: Path) -> Path:
    """A copy of that folder for one test."""
    return Path(shutil.copytree(made, tmp_path / "work"))


def test_a_lock_is_checked_under_its_own_prior(team: Path) -> None:
    """Locks of two models that were written one by one are current for a check of both, and what is printed works."""
    for name in ("team_a", "team_b"):
        assert recompute(team, f"model={name}", "--config-dir", "team", "--write").code == 0
    both = recompute(team, "--config-dir", "team", "--check")
    assert (both.code, both.out.splitlines()[-1]) == (0, "2 series: 2 current"), both.out
    stored = recompute(team, "--all-series", "--check")
    assert (stored.code, stored.out.splitlines()[-1]) == (0, "2 series: 2 current"), stored.out
    plain = recompute(team, "--config-dir", "team", "--json").data["thresholds"]
    assert {one["lock"]["prior"]["series"] for one in plain} == {2}, "plain, the prior is that of both"
    assert all("by its pooled prior alone" in one["says"] for one in plain)
    loosened = [one for one in plain if one["lock"]["k_reject"] < one["old"]["k_reject"]]
    assert loosened, "one of the two would be looser under the pooled prior"
    assert all(one["command"].endswith("--write --allow-looser --reason '...'") for one in loosened)
    assert recompute(team, "--config-dir", "team", "--write").code == 2
    assert pasted(team, loosened[0]["command"]).code == 0
    alone = recompute(team, "model=team_a", "--config-dir", "team", "--check")
    assert alone.code == 0, "a pooled lock is current for a check of it alone"


def test_no_prior_makes_a_lock_current_that_nothing_gives(team: Path) -> None:
    """A lock may name a prior that other series gave, but not one that makes it far looser than all that is known."""
    assert recompute(team, "model=team_a", "--config-dir", "team", "--write").code == 0
    path = next((team / "conf" / "thresholds").glob("team_a*"))
    lock = look(path, None, "").lock
    assert lock is not None
    known = selected(team, "model=team_a", "--config-dir", "team")
    prior = Prior(phi0=9.0, nu0=1e9, psi0=9.0, nu_psi=1e9, series=2)
    forged = lock_of_norm(
        *(known.gate, known.hw, known.spec, known.key, known.n, known.history, prior),
        as_of=None,
        version=lock.gatekit_version,
    )
    assert isinstance(forged, Lock)
    assert forged.k_reject < lock.k_reject - 2 * lock.sd
    path.write_text(render(forged))
    checked = recompute(team, "model=team_a", "--config-dir", "team", "--check")
    assert (checked.code, "no series of the history give the prior" in checked.out) == (2, True), checked.out


def test_a_lock_that_says_no_pool_follows_its_gate(team: Path) -> None:
    """A lock that names the gate's own prior is stale once the gate's own prior is another one."""
    asked = ("model=team_a", "--config-dir", "team")
    assert recompute(team, *asked, "--write").code == 0
    assert recompute(team, *asked, "gate.nu0=40", "--check").code == 2


def test_only_models_of_the_team_or_with_runs_are_listed(team: Path) -> None:
    """With folders of a team, models that come with gatekit are listed where they have runs; without, in one line."""
    ran = recompute(team, "--config-dir", "team", "--check")
    assert (len(ran.out.splitlines()), "laguna" in ran.out) == (3, False), ran.out
    (team / "team" / "model" / "team_c.yaml").write_text(TEAM.format(name="team_c", dispersion=1))
    more = recompute(team, "--config-dir", "team")
    assert "no run and no lock yet (1): team_c-cpu-sim" in more.out.splitlines()
    assert more.out.splitlines()[-1].startswith("2 series: ")
    keep_nights(team, [Night("ours", 0.95, 1, "2026-09-01")], "gate=auto", "model=simulated")
    some = recompute(team, "--check")
    assert sum("no run and no lock yet" in line for line in some.out.splitlines()) == 1
    assert any("simulated-cpu-sim: no lock yet" in line for line in some.out.splitlines())
    assert len(some.out.splitlines()) == 3, some.out


def test_commands_carry_the_folders(team: Path) -> None:
    """What is printed for a lock that nobody selected names the folders that the command was called with."""
    assert recompute(team, "model=team_a", "--config-dir", "team", "--write").code == 0
    (team / "team" / "model" / "team_a.yaml").rename(team / "gone.yaml")
    path = next((team / "conf" / "thresholds").glob("team_a*"))
    lock = look(path, None, "").lock
    assert lock is not None
    write_lock(path, replace(lock, k_reject=lock.k_reject + 1))
    told = recompute(team, "--config-dir", "team", "--dir", ".gatekit", "--check")
    (line,) = [line for line in told.out.splitlines() if "no selected spec names it" in line]
    words = "task.n=100 gate=auto --config-dir team --dir .gatekit --write --allow-looser --reason '...'"
    assert (told.code, line.endswith(words)) == (2, True), line


def test_a_variant_never_replaces_the_lock_of_the_nightly(tmp_path: Path) -> None:
    """Another protocol under the same spec name is told of, refused with the field, and kept in a folder of its own."""
    keep_nights(tmp_path, series("night", 0.95, 6, first="2026-09-01"), *ASKED)
    assert recompute(tmp_path, *ASKED, "--write").code == 0
    before = (tmp_path / LOCK).read_bytes()
    variant = ("gate=locked", "task.n=100", "engine.dispersion=0.5", "engine.latency={}", "protocol.shots=4")
    judged = here(tmp_path, *variant, "--json")
    assert (judged.code, judged.data["reason_code"]) == (4, "lock-other-key")
    hint = judged.data["hint"]
    assert "gate.locks=FOLDER" in hint
    printed = hint[hint.index("gatekit thresholds recompute") :]
    assert printed.endswith("--write --allow-looser --reason '...'")

    refused = recompute(tmp_path, *variant, "--write")
    assert refused.code == 2
    said = refused.out.splitlines()[0]
    assert "the lock in place is that of another series (" in said
    assert "protocol.shots: 5 -> 4" in said
    assert "resting on 1 build instead of 6" in said
    assert "gate.locks=FOLDER keeps a second lock for a variant" in said
    assert (tmp_path / LOCK).read_bytes() == before
    stored = recompute(tmp_path, "--all-series", "--write")
    assert (stored.code, (tmp_path / LOCK).read_bytes()) == (2, before)

    checked = recompute(tmp_path, *variant, "--check")
    assert checked.code == 2
    assert checked.out.splitlines()[0].endswith("--write --allow-looser --reason '...'")
    shown = here(tmp_path, "thresholds", "show", *variant)
    assert "--write --allow-looser --reason '...'" in shown.out
    aside = recompute(tmp_path, *variant, "gate.locks=variants", "--write")
    assert aside.code == 0, aside.out
    assert (tmp_path / "variants" / LOCK.name).is_file()
    assert (tmp_path / LOCK).read_bytes() == before
    assert next_of(refused) == next_of(recompute(tmp_path, *variant))
    assert pasted(tmp_path, next_of(refused)).code == 0
    lock = look(tmp_path / LOCK, None, "").lock
    assert lock is not None
    assert (lock.fields["protocol.shots"], lock.looser_because) == (4, "as reviewed")


def test_the_smaller_share_of_another_number_of_questions_is_refused(tmp_path: Path) -> None:
    """Other numbers of questions are compared by their shares: as many builds of fewer questions ask for less."""
    few, many = ("gate=auto", "task.n=60"), ("gate=auto", "task.n=200")
    keep_nights(tmp_path, series("many", 0.95, 3, first="2026-09-01"), *many)
    keep_nights(tmp_path, series("few", 0.95, 3, first="2026-09-10"), *few)
    assert recompute(tmp_path, *few, "--write").code == 0
    assert recompute(tmp_path, *many, "--write").code == 0, "more questions ask for a larger share"
    back = recompute(tmp_path, *few, "--write")
    assert back.code == 2
    assert "(n: 200 -> 60" in back.out.splitlines()[0]
    assert " of 60 instead of FAIL below " in back.out.splitlines()[0]


def test_a_released_run_is_not_said_to_be_in_a_lock(tmp_path: Path) -> None:
    """A lock that was made while a run was set aside does not rest on it when it comes back."""
    keep_nights(tmp_path, series("night", 0.95, 3, first="2026-09-01"), *ASKED)
    assert here(tmp_path, "history", "quarantine", "night-01", "--reason", "hot").code == 0
    assert recompute(tmp_path, *ASKED, "--write").code == 0
    told = here(tmp_path, "history", "release", "night-01", "--reason", "it was not").out.splitlines()[1]
    assert told.startswith(f"next: {LOCK} does not contain it yet; ")
    (tmp_path / "elsewhere").symlink_to(".gatekit")
    named = here(tmp_path, "history", "quarantine", "night-00", "--reason", "hot", "--dir", "elsewhere")
    assert "rests on it" in named.out
    assert "task.n=100 --dir elsewhere --write" in named.out
