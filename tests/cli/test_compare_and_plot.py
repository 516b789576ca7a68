"""`gatekit history compare` and `gatekit history plot` over real runs of the simulated model."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, gatekit
from gatekit.cli.history.command import run
from gatekit.errors import ConfigError, ExitCode
from gatekit.history import index
from gatekit.history.acts import make_act, record_act
from gatekit.history.place import Place
from gatekit.records.act import ActKind
from nights import night

Said = Callable[..., str]

RUNS = (
    ("good", 0, ("engine.accuracy=0.95", "engine.flip_seed=1")),
    ("bad", 1, ("engine.accuracy=0.5", "engine.flip_seed=2")),
    ("lossy", 3, ("engine.faults={drop: 0.5}", "client.attempts=1")),
    ("longer", 0, ("engine.accuracy=0.95", "task.n=50", "protocol.max_tokens=300")),
)


def one_run(folder: Path, run_id: str, *more: str) -> Ran:
    """A quick run of the simulated model."""
    return night(folder, "task.n=40", *more, run_id=run_id)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a good, a bad and a lossy run under one key, and a run under another."""
    folder = tmp_path_factory.mktemp("looking")
    for run_id, code, more in RUNS:
        assert one_run(folder, run_id, *more).code == code
        if run_id != RUNS[-1][0]:
            time.sleep(1 - time.time() % 1)  # records tell seconds apart
    return folder


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs `gatekit history` here and gives what it printed on stdout; nothing else may be printed."""

    def say(folder: Path, *arguments: str) -> str:
        assert run([*arguments, "--dir", str(folder / ".gatekit")]) is ExitCode.PASS
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return say


def words(text: str) -> str:
    """The text with line breaks as spaces."""
    return " ".join(text.split())


def test_compare_shows_what_changed_sides(history: Path, said: Said) -> None:
    """Two builds under one key: counts, test, and every changed question with its text and both answers."""
    shown = said(history, "compare", "good", "bad", "--limit", "2")
    assert "the same in both: key" in shown
    assert "NOT A REGRESSION TEST" not in shown
    assert "details.accuracy 0.95 0.5" in words(shown)
    found = json.loads(said(history, "compare", "good", "bad", "--json"))
    pairs, changed = found["pairs"], found["changed"]
    cells = ("both_right", "right_to_wrong", "wrong_to_right", "both_wrong")
    asked = 40 - found["after"]["counts"]["unasked"]  # a FAIL ends a run as soon as it is sure
    assert sum(pairs[cell] for cell in cells) == pairs["n"] == asked
    assert len(changed) == pairs["right_to_wrong"] + pairs["wrong_to_right"] > 2
    assert changed[0]["before"]["status"] == "correct"
    assert changed[0]["question"] in words(shown)
    assert f"({len(changed) - 2} more changed sides: --limit is 2)" in shown
    details = ("accuracy", "flip_seed", "system_fingerprint")
    assert [one["name"] for one in found["served"]] == ["build", *(f"details.{name}" for name in details)]


def test_compare_says_that_other_keys_are_no_regression_test(history: Path, said: Said) -> None:
    """Another protocol and other questions: field by field, loudly, and on the questions in common."""
    shown = words(said(history, "compare", "good", "longer"))
    assert "NOT A REGRESSION TEST" in shown
    assert "protocol.max_tokens 256 300" in shown
    assert "0 questions only before, 10 only after: compared are the 40 in both" in shown


def test_compare_says_when_the_newer_run_comes_first(history: Path, said: Said) -> None:
    """Before and after are as named; a reader who named the newer run first is told, and times carry their zone."""
    place = Place(dir=history / ".gatekit")
    moments = {name: index.find(place, name).finished_at[:19] for name in ("good", "bad")}
    assert moments["good"] < moments["bad"]
    turned, straight = (words(said(history, "compare", *names)) for names in (("bad", "good"), ("good", "bad")))
    assert "note: bad, named first, is the newer run" in turned
    assert "is the newer run" not in straight
    assert all(f"{moment}Z" in turned for moment in moments.values())


def test_compare_counts_lost_answers(history: Path, said: Said) -> None:
    """Answers that were lost in one run are counted and bounded, never taken for wrong."""
    found = json.loads(said(history, "compare", "good", "lossy", "--json"))
    lost = found["after"]["counts"]["lost"]
    assert lost > 0
    assert found["pairs"]["n"] == 40 - lost
    assert sum(move["questions"] for move in found["moved"] if move["after"] == "lost") == lost
    assert found["pairs"]["lowest"] < found["pairs"]["difference"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("good", "good"), "same-run"),
        (("goo", "good"), "same-run"),
        (("good", "nothing"), "unknown-run"),
        (("good",), "bad-arguments"),
        (("good", "bad", "--limit", "-1"), "bad-arguments"),
    ],
)
def test_compare_refuses_in_one_line(history: Path, arguments: tuple[str, ...], reason: str) -> None:
    """The same run twice, an unknown one and a wrong line are one line of what is wrong and what to do."""
    with pytest.raises(ConfigError) as caught:
        run(["compare", *arguments, "--dir", str(history / ".gatekit")])
    (line,) = caught.value.lines()
    assert caught.value.reason == reason
    assert caught.value.hint
    assert "\n" not in line


def test_compare_downloads_nothing(
    gsm8k_dir: Path, tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Questions come from task.path or the cache, and where they are gone only the ids are shown."""
    shutil.copytree(gsm8k_dir, tmp_path / "gsm8k")
    task = ("task=gsm8k", f"task.path={tmp_path / 'gsm8k'}", "task.n=5", "protocol.shots=0", "gate.observed=null")
    for run_id, accuracy in (("a", "1.0"), ("b", "0.0")):
        more = (*task, f"engine.accuracy={accuracy}", "gate.method=static_floor", "gate.floor=0.1", "gate.budget=null")
        assert one_run(tmp_path, run_id, *more).code in (0, 1, 4)
    monkeypatch.setenv("GATEKIT_CACHE_DIR", str(tmp_path / "cache"))
    changed = json.loads(said(tmp_path, "compare", "a", "b", "--json"))["changed"]
    assert len(changed) == 5
    assert changed[0]["question"].startswith("Janet’s ducks lay 16 eggs per day.")
    (tmp_path / "gsm8k" / "test.jsonl").unlink()
    without = json.loads(said(tmp_path, "compare", "a", "b", "--json"))["changed"]
    assert [(one["question_id"], one["question"]) for one in without] == [(one, None) for one in range(5)]
    assert not (tmp_path / "cache").exists()


def test_plot_shows_every_series(history: Path) -> None:
    """One chart a series, the second with what distinguishes it from the first; marks for what went wrong."""
    ran = gatekit(history, "history", "plot", extra={"PYTHONIOENCODING": "utf-8"})
    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 80
    first, second = ran.out.split("not comparable with the series before:")
    assert "3 runs" in first
    assert "F FAIL" in first
    assert "! INFRA" in first
    assert "2 with missing answers" in first
    assert second.startswith(" n 40 -> 50, protocol.max_tokens 256 ->")
    assert "┤" in first


@pytest.mark.parametrize("columns", ["30", "132"])
def test_plot_fits_the_terminal(history: Path, columns: str) -> None:
    """COLUMNS is obeyed; without UTF-8 nothing but ASCII is printed."""
    ran = gatekit(history, "history", "plot", extra={"COLUMNS": columns, "PYTHONIOENCODING": "ascii"})
    assert ran.code == 0
    assert ran.out.isascii()
    assert "\\u" not in ran.out
    assert max(map(len, ran.out.splitlines())) <= int(columns)


def test_plot_takes_a_spec_a_model_or_a_key(history: Path, said: Said) -> None:
    """Each filter keeps its series; what has none exits 2 and says so."""

    def found(*arguments: str) -> Any:
        return json.loads(said(history, "plot", "--json", *arguments))["series"]

    whole = found()
    assert [len(one["points"]) for one in whole] == [3, 1]
    key = whole[1]["key"]
    for beginning in (key, key[:16], key.removeprefix("sha256:")[:12]):
        (one,) = found("--key", beginning)
        assert one["key"] == key
        assert [change["name"] for change in one["changes"]] == ["n", "protocol.max_tokens", "question_ids"]
    spec = whole[0]["points"][0]["spec"]
    for arguments in (("--spec", spec), ("--model", whole[0]["model"])):
        assert len(found(*arguments)) == 2
    with pytest.raises(ConfigError, match="no runs of spec none") as caught:
        run(["plot", "--spec", "none\x1b", "--dir", str(history / ".gatekit")])
    assert caught.value.reason == "unknown-series"
    assert caught.value.message.isprintable()


def test_plot_knows_thresholds_and_limits(history: Path, said: Said) -> None:
    """Each run has the threshold of its own verdict; older runs are counted, not drawn."""
    (one,) = json.loads(said(history, "plot", "--key", _key(history), "--limit", "2", "--json"))["series"]
    assert [point["run_id"] for point in one["points"]] == ["bad", "lossy"]
    assert (one["older"], one["whole_runs"], one["last"]) == (1, 0, None)
    stored = json.loads(said(history, "show", "bad", "--json"))["verdict"]["rule"]
    assert one["points"][0]["k_reject"] == stored["k_reject"]
    assert one["points"][1]["accuracy_low"] < one["points"][1]["accuracy_high"]


def _key(history: Path) -> str:
    return index.find(Place(dir=history / ".gatekit"), "good").comparability_key


def test_plot_marks_what_people_decided(history: Path, tmp_path: Path, said: Said) -> None:
    """A quarantined run is marked and not counted; a rebaseline stands behind the run it was made after."""
    shutil.copytree(history / ".gatekit", tmp_path / ".gatekit")
    place = Place(dir=tmp_path / ".gatekit")
    now = datetime.now(UTC)
    record_act(place, make_act(ActKind.QUARANTINE, "good", reason="power cut", now=now))
    after = index.find(place, "good").digest
    record_act(place, make_act(ActKind.REBASELINE, _key(history), reason="new\x1b[31m kernels", now=now, after=after))
    shown = words(said(tmp_path, "plot", "--key", _key(history)))
    assert "q quarantined" in shown
    assert "no whole run" in shown
    assert "the norm starts anew before run bad: new\\x1b[31m kernels" in shown
    (one,) = json.loads(said(tmp_path, "plot", "--key", _key(history), "--json"))["series"]
    assert [restart["before"] for restart in one["restarts"]] == [1]


def test_plot_of_nothing(tmp_path: Path, said: Said) -> None:
    """Without runs the command says so, passes, and makes nothing; a folder that is not there is a mistyped one."""
    with pytest.raises(ConfigError, match="no such folder"):
        said(tmp_path, "plot")
    (tmp_path / ".gatekit").mkdir()
    assert said(tmp_path, "plot") == f"no runs yet in {tmp_path / '.gatekit' / 'index.sqlite'}\n"
    assert json.loads(said(tmp_path, "plot", "--json"))["series"] == []
    assert list((tmp_path / ".gatekit").iterdir()) == []
