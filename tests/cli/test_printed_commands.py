"""Commands that gatekit prints speak of the same history, and work as they are pasted; what was decided is told."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from command_line import here
from gatekit.history import index
from gatekit.history.place import Place

_COMMAND = re.compile(r"gatekit (?:history|explain) [^`;\n]*")

_BAD = ("engine.accuracy=0.1", "gate=static_floor", "gate.floor=0.5")


def _run(folder: Path, text: str) -> int:
    """A printed command, in the form in which it stands in the text."""
    words = shlex.split(" ".join(text.split()))
    assert words[0] == "gatekit"
    return here(folder, *words[1:]).code


def _fail(folder: Path, *more: str) -> str:
    ran = here(folder, "task.n=40", *_BAD, "--run-id", "night", *more)
    assert ran.code == 1, ran.out + ran.err
    return ran.out


@pytest.mark.parametrize("history", ["month", "my month"])
def test_what_follows_a_fail_is_pasted(tmp_path: Path, history: str) -> None:
    """The next command of a run outside of the default history finds the run there; so does that of show."""
    told = _fail(tmp_path, f"history.dir='{history}'" if " " in history else f"history.dir={history}")
    shown = here(tmp_path, "history", "show", "night", "--dir", history).out
    for text in (told, shown):
        found = _COMMAND.findall(" ".join(text.split()))
        commands = [re.split(r" (?=[a-z]+ {2,}|comparable|run night)", one)[0] for one in found]
        assert any("history show night" in one for one in commands), text
    quoted = shlex.quote(history)
    assert _run(tmp_path, f"gatekit history show night --dir {quoted} --wrong") == 0
    assert f"gatekit history show night --dir {quoted} --wrong" in " ".join(told.split())
    assert f"gatekit history show night --dir {quoted} --wrong" in " ".join(shown.split())


def test_the_default_history_needs_no_words(tmp_path: Path) -> None:
    """Nothing is added to a command that works as it is."""
    assert "gatekit history show night --wrong" in " ".join(_fail(tmp_path).split())
    assert _run(tmp_path, "gatekit history show night --wrong") == 0


def test_a_url_from_a_variable_is_left_to_it(tmp_path: Path) -> None:
    """A hint holds no password, and no mask in the place of one: the command reads the variable as this one did."""
    from gatekit.history.rebuild_hint import history_command

    url = "postgresql://ci:secret@db/gates"
    known = Place(dir=tmp_path, url=url, variable="GATEKIT_HISTORY_URL")
    assert history_command(known, "list") == f"gatekit history list --dir {tmp_path}"
    other = Place(dir=tmp_path, url=url, variable="TEAM_URL")
    assert history_command(other, "list") == f'gatekit history list --dir {tmp_path} --url "$TEAM_URL"'


def test_a_matrix_names_the_history_of_its_runs(tmp_path: Path) -> None:
    """The explain command of a run of a matrix works as it is printed."""
    config = tmp_path / "conf" / "matrix"
    config.mkdir(parents=True)
    (config / "mine.yaml").write_text("description: One.\nrows:\n  - {model: simulated}\n")
    ran = here(tmp_path, "run", "--matrix", "mine", "--config-dir", "conf", "task.n=40", "history.dir=month", *_BAD)
    assert ran.code == 1, ran.err
    found = re.search(r"gatekit explain \S+ --dir month", " ".join(ran.out.split()))
    assert found, ran.out
    assert _run(tmp_path, found.group()) == 0


def test_what_was_decided_is_told_with_its_reason(tmp_path: Path) -> None:
    """show and explain say in one line when and why a run does not count; `acts` tells every decision."""
    _fail(tmp_path)
    here(tmp_path, "history", "quarantine", "night", "--reason", "the fan\x1b[31m failed")
    for command in (("history", "show"), ("explain",)):
        ran = here(tmp_path, *command, "night")
        (line,) = [line for line in ran.out.splitlines() if "quarantined on" in line]
        assert ("the fan" in line, "\x1b" in line, "-quarantine-" in line) == (True, False, True)
    assert here(tmp_path, "explain", "night", "--json").data["quarantine"]["kind"] == "quarantine"
    here(tmp_path, "history", "release", "night", "--reason", "it was another one")
    assert "quarantined on" not in here(tmp_path, "history", "show", "night").out
    assert here(tmp_path, "explain", "night", "--json").data["quarantine"] is None
    told = here(tmp_path, "history", "acts").out.splitlines()
    assert ["the fan" in told[0], "it was another one" in told[1], len(told)] == [True, True, 2]
    acts = here(tmp_path, "history", "acts", "--json").data["acts"]
    assert [(one["kind"], one["target"]) for one in acts] == [("quarantine", "night"), ("release", "night")]
    assert "nothing was decided" in here(tmp_path, "history", "acts", "--dir", str(_empty(tmp_path))).out


def _empty(folder: Path) -> Path:
    here(folder, "task.n=40", "history.dir=other")
    return folder / "other"


def test_a_quarantine_names_the_copies_and_a_copy_its_origin(tmp_path: Path) -> None:
    """What is said of a run is said of what read its answers again; only the run itself can be released."""
    assert here(tmp_path, "task.n=40", "--run-id", "night").code in (0, 4)
    assert here(tmp_path, "history", "rescore", "night", "--extractor", "last_number").code == 0
    copy = "night.last_number-1"
    said = here(tmp_path, "history", "quarantine", "night", "--reason", "hot")
    assert (said.code, copy in said.out) == (0, True), said.out + said.err
    assert index.quarantined(Place(dir=tmp_path / ".gatekit")) == {"night", copy}
    assert here(tmp_path, "history", "list").out.count("(quarantined)") == 2
    assert "a copy of the answers of run night" in here(tmp_path, "history", "show", copy).out
    refused = here(tmp_path, "history", "release", copy, "--reason", "fine")
    assert (refused.code, "release --dir .gatekit night" in refused.err) == (2, True), refused.err


def test_the_override_of_a_run_names_the_history_too(tmp_path: Path) -> None:
    """`history.dir=X` is as `--dir X` for the commands about a history."""
    here(tmp_path, "task.n=40", "--run-id", "night", "history.dir=month")
    assert "night" in here(tmp_path, "history", "list", "history.dir=month").out
    assert here(tmp_path, "history", "show", "night", "history.dir=month").code == 0
    assert here(tmp_path, "explain", "night", "history.dir=month").code == 0
    gone = here(tmp_path, "history", "list", "history.dir=nowhere")
    assert (gone.code, "no history in nowhere" in gone.err) == (2, True)


def test_an_unknown_run_is_named_whole(tmp_path: Path) -> None:
    """No character of a run id is left out, however long it is."""
    here(tmp_path, "task.n=40")
    wanted = "20261130T031500Z-" + "a" * 111
    for command in (("explain",), ("history", "show")):
        assert f"no run '{wanted}' in" in here(tmp_path, *command, wanted).err


def test_a_run_that_stopped_early_counts_what_was_asked() -> None:
    """The table of a matrix divides by the questions that were asked, as the list of runs does."""
    from gatekit.report.plan import correct_of

    counts = {"n": 1319, "correct": 313, "lost": 0, "unasked": 871}
    assert correct_of({"counts": counts}) == "313/448 asked"
    assert correct_of({"counts": counts | {"unasked": 0}}) == "313/1319"
