"""Old nightly numbers from a file that nobody vouches for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import here
from gatekit.errors import ConfigError, InfraError
from gatekit.history import index, totals
from gatekit.history.exporting import Format, export
from gatekit.history.importing_totals import Under, import_totals
from gatekit.history.past import past_runs
from gatekit.history.place import Place
from gatekit.history.records_folder import read_record, record_path
from gatekit.history.remember import rebuild, remember
from gatekit.history.totals import read_totals
from gatekit.history.verify import verify
from gatekit.records.run import RunRecord
from gatekit.records.verdict import Outcome

MakeRecord = Callable[..., RunRecord]
NOW = datetime(2026, 12, 1, tzinfo=UTC)
N = 200


@pytest.fixture
def under(make_record: MakeRecord) -> Under:
    """A spec that asks 200 questions."""
    record = make_record(planned=N)
    return Under(spec=record.spec, dataset=record.dataset, comparability=record.comparability)


def _file(tmp_path: Path, text: str | bytes, name: str = "old.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


_CSV = """\
finished_at,n,correct,accuracy,build,run_id,gpu
2026-11-01T03:00:00Z,200,181,,0.10.1,,B200
2026-11-02T05:00:00+02:00,200,,0.9,0.10.2,night-2,B200
2026-11-03,200,180,0.90,,,B200
"""
_JSON = """\
{"finished_at": "2026-11-01T03:00:00Z", "n": 200, "correct": 181, "build": "0.10.1", "gpu": "B200"}
{"finished_at": "2026-11-02T05:00:00+02:00", "n": 200, "accuracy": 0.9, "build": "0.10.2", "run_id": "night-2"}
{"finished_at": "2026-11-03", "n": 200, "correct": 180, "accuracy": 0.90, "build": null}
"""


@pytest.mark.parametrize(("name", "text"), [("old.csv", _CSV), ("old.jsonl", _JSON)])
def test_a_total_becomes_a_run_that_was_not_judged(
    place: Place, tmp_path: Path, under: Under, name: str, text: str
) -> None:
    """Each line is a run without answers: INCONCLUSIVE, imported, from that file and line, measured, its time in
    UTC; CSV and JSON lines say the same."""
    imported = import_totals(place, _file(tmp_path, text, name), under, now=NOW)
    assert (imported.added, imported.known) == (3, 0)
    assert "column left out: gpu" in imported.flags
    rows = index.list_runs(place, limit=9)[::-1]
    assert [(row.correct, row.n, row.wrong) for row in rows] == [(181, 200, 19), (180, 200, 20), (180, 200, 20)]
    assert [row.finished_at[:19] for row in rows] == [
        "2026-11-01T03:00:00",
        "2026-11-02T03:00:00",
        "2026-11-03T00:00:00",
    ]
    assert [row.build for row in rows] == ["0.10.1", "0.10.2", None]
    assert rows[1].run_id == "night-2"
    assert all(row.measured and row.outcome is Outcome.INCONCLUSIVE for row in rows)
    assert {row.reason_code for row in rows} == {"imported"}
    record = read_record(record_path(place.dir, "night-2"))
    line = 3 if name.endswith("csv") else 2
    assert record.events == (f"imported from {name} line {line}; its accuracy would fit 20 other counts",)
    assert (record.observations, record.previous) == ((), rows[0].digest)
    assert verify(place).findings == ()


def test_totals_are_the_past_of_a_run(place: Place, tmp_path: Path, under: Under) -> None:
    """A later run rests on imported totals as totals: they count as comparable, with no outcome of any question."""
    import_totals(place, _file(tmp_path, _CSV), under, now=NOW)
    past = past_runs(place, under.spec, under.comparability)
    assert [(run.correct, run.n, run.outcomes) for run in past.runs] == [
        (181, 200, None),
        (180, 200, None),
        (180, 200, None),
    ]
    assert past.excluded == {}


def test_the_same_totals_twice_count_once(place: Place, tmp_path: Path, under: Under) -> None:
    """S09: a total without a run id has one that follows from its content, so that twice in a file, from another
    file, later, or in another spelling it is the same run."""
    import_totals(place, _file(tmp_path, _CSV), under, now=NOW)
    again = "finished_at,n,correct,build\n2026-11-01T03:00:00+00:00,200,181,0.10.1\n2026-11-01 03:00Z,200,181,0.10.1\n"
    imported = import_totals(place, _file(tmp_path, again, "copy.csv"), under, now=datetime(2027, 1, 1, tzinfo=UTC))
    assert (imported.added, imported.known) == (0, 1)
    assert len(index.list_runs(place, limit=9)) == 3


def test_another_spec_makes_another_run(tmp_path: Path, under: Under, make_record: MakeRecord) -> None:
    """The same number under another comparability key is another run."""
    other = make_record(planned=N, key_fields={"max_tokens": 512})
    elsewhere = Under(spec=other.spec, dataset=other.dataset, comparability=other.comparability)
    path = _file(tmp_path, "finished_at,n,correct\n2026-11-01,200,181\n")
    here = Place(dir=tmp_path / "here")
    assert import_totals(here, path, under, now=NOW).added == 1
    assert import_totals(here, path, elsewhere, now=NOW).added == 1


def test_wrong_clocks_are_taken_in_order_and_flagged(tmp_path: Path, under: Under) -> None:
    """S10: dates of 2099 and 1970 are accepted, ordered by insertion, flagged, and stay so when indexed anew."""
    text = "finished_at,n,correct,build\n2099-01-01,200,181,a\n1970-01-01,200,182,b\n2026-11-01,200,183,c\n"
    here = Place(dir=tmp_path / "here")
    imported = import_totals(here, _file(tmp_path, text), under, now=NOW)
    assert imported.flags == (
        "line 2: dated 2099-01-01T00:00:00Z, which is yet to come",
        "line 3: dated 1970-01-01T00:00:00Z, before GSM8K existed",
    )
    assert [row.correct for row in index.list_runs(here, limit=9)][::-1] == [181, 182, 183]
    (here.dir / "index.sqlite").unlink()
    rebuild(here)
    assert [row.correct for row in index.list_runs(here, limit=9)][::-1] == [181, 182, 183]


_GOOD = '{"finished_at": "2026-11-01", "n": 200, "correct": 181}'
_BAD_JSON = {
    '{"finished_at": "2026-11-01", "n": 200, "accuracy": NaN}': "NaN",
    '{"finished_at": "2026-11-01", "n": 200, "accuracy": Infinity}': "Infinity",
    '{"finished_at": "2026-11-01", "n": 200, "accuracy": -Infinity}': "-Infinity",
    '{"finished_at": "2026-11-01", "n": 200, "accuracy": 1.7}': "more than 1",
    '{"finished_at": "2026-11-01", "n": 200, "accuracy": 1e3}': "more than 1",
    '{"finished_at": "2026-11-01", "n": 200, "accuracy": 1e999999999}': "not a number from 0 to 1",
    '{"finished_at": "2026-11-01", "n": 200, "accuracy": -0.1}': "not a number from 0 to 1",
    '{"finished_at": "2026-11-01", "n": 200, "accuracy": 0.9033}': "no whole count",
    '{"finished_at": "2026-11-01", "n": 200, "correct": 201}': "more than n",
    '{"finished_at": "2026-11-01", "n": 200, "correct": -1}': "not a whole number",
    '{"finished_at": "2026-11-01", "n": 200, "correct": 180.5}': "not a whole number",
    '{"finished_at": "2026-11-01", "n": 200, "correct": true}': "neither a text nor a number",
    '{"finished_at": "2026-11-01", "n": 200, "correct": "181"}': "is a text",
    '{"finished_at": "2026-11-01", "n": 200, "correct": 181, "accuracy": 0.5}': "but accuracy is 0.5",
    '{"finished_at": "2026-11-01", "n": 200}': "neither correct nor accuracy",
    '{"finished_at": "2026-11-01", "n": 0, "correct": 0}': "0 questions",
    '{"finished_at": "2026-11-01", "n": 1319, "correct": 181}': "this spec asks 200",
    '{"finished_at": "2026-11-01", "correct": 181}': "n is missing",
    '{"n": 200, "correct": 181}': "finished_at is missing",
    '{"finished_at": "yesterday", "n": 200, "correct": 181}': "not a date",
    '{"finished_at": "2026-02-30", "n": 200, "correct": 181}': "not a date",
    '{"finished_at": "0001-01-01T00:00+23:59", "n": 200, "correct": 181}': "not a date",
    '{"finished_at": 1793500000, "n": 200, "correct": 181}': "is a number",
    '{"finished_at": "2026-11-01", "n": 200, "n": 200, "correct": 181}': "'n' is there twice",
    '{"finished_at": "2026-11-01", "n": 200, "correct": 181, "build": "=1+1"}': "formula",
    '{"finished_at": "2026-11-01", "n": 200, "correct": 181, "build": "a\\u001b[31m"}': "printable",
    '{"finished_at": "2026-11-01", "n": 200, "correct": 181, "run_id": "../x"}': "not allowed",
    '{"finished_at": "2026-11-01", "n": 200, "correct": 181': "not JSON: Expecting ',' delimiter at column 55",
    "[" * 100_000: "not JSON",
    "[1]": "not a JSON object",
}


@pytest.mark.parametrize(("line", "why"), _BAD_JSON.items(), ids=range(len(_BAD_JSON)))
def test_one_bad_line_refuses_the_file(tmp_path: Path, under: Under, line: str, why: str) -> None:
    """S17: a line that cannot be true is named with why, and nothing of the file is taken."""
    here = Place(dir=tmp_path / "here")
    path = _file(tmp_path, f"{_GOOD}\n{line}\n{_GOOD}\n", "old.jsonl")
    with pytest.raises(ConfigError) as caught:
        import_totals(here, path, under, now=NOW)
    (problem,) = caught.value.problems
    assert (problem.where, problem.reason) == (f"{path}:2", "bad-import")
    assert why in problem.what
    assert not here.dir.exists()


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("finished_at,n,correct\n=cmd|x,200,181\n", 2, "formula"),
        ("finished_at,n,correct,build\n2026-11-01,200,181,@x\n", 2, "formula"),
        ('finished_at,n,correct,build\n2026-11-01,200,181,"\tx"\n', 2, "formula"),
        ("finished_at,n,correct\n2026-11-01,200,+181\n", 2, "not a whole number"),
        ("finished_at,n,accuracy\n2026-11-01,200,nan\n", 2, "not a number from 0 to 1"),
        ("finished_at,n,accuracy\n2026-11-01,200,90.5%\n", 2, "not a number from 0 to 1"),
        ("finished_at,n,correct\n2026-11-01,200\n", 2, "2 cells, the header has 3"),
        ("finished_at,n,n,correct\n2026-11-01,200,200,181\n", 1, "'n' is there twice"),
        ("finished_at;n;correct\n2026-11-01;200;181\n", 1, "the separator must be a comma, this header has ';'"),
        ("finished_at\tn\tcorrect\n2026-11-01\t200\t181\n", 1, "the separator must be a comma"),
        ("finished_at,correct\n2026-11-01,181\n", 1, "no column 'n'"),
        ('finished_at,n,correct\n2026-11-01,200,"181\n', 2, "not CSV"),
        ("finished_at,n,correct\n2026-11-01,200,1\0\n", 2, "not"),
        ("finished_at,n,correct,run_id\n2026-11-01,200,181,a\n2026-11-02,200,181,a\n", 3, "twice"),
    ],
)
def test_one_bad_row_refuses_the_file(tmp_path: Path, under: Under, text: str, line: int, why: str) -> None:
    """S17: in CSV too the line is named and nothing is taken."""
    here = Place(dir=tmp_path / "here")
    path = _file(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        import_totals(here, path, under, now=NOW)
    assert caught.value.problems[0].where == f"{path}:{line}"
    assert why in caught.value.problems[0].what
    assert not here.dir.exists()


def test_every_bad_line_is_named_at_once(tmp_path: Path) -> None:
    """All problems come together, and of very many the first twenty and how many more."""
    path = _file(tmp_path, "finished_at,n,correct\n" + "2026-11-01,200,201\n" * 50)
    with pytest.raises(ConfigError) as caught:
        read_totals(path, n=N)
    assert len(caught.value.problems) == 21
    assert caught.value.problems[-1].what == "30 more lines are wrong"


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line over 1 MiB, a file over the limit and bytes that are not UTF-8 are refused with the line named."""
    head = "finished_at,n,correct\n"
    cases: list[tuple[str | bytes, str]] = [
        (head + "x" * (1024 * 1024 + 1), ":2: the line is longer than 1048576 bytes"),
        (head.encode() + b"2026-11-01,200,181\n\xff\xfe\n", ":3: not UTF-8"),
        ("", "no totals"),
        (head, "no totals"),
    ]
    for text, why in cases:
        with pytest.raises(ConfigError) as caught:
            read_totals(_file(tmp_path, text), n=N)
        assert why in caught.value.lines()[0]
    monkeypatch.setattr(totals, "MAX_TOTALS_BYTES", 100)
    with pytest.raises(ConfigError, match="more than the limit of 100"):
        read_totals(_file(tmp_path, head + "2026-11-01,200,181\n" * 9), n=N)


def test_a_byte_order_mark_and_windows_lines_are_no_hindrance(tmp_path: Path) -> None:
    """What a spreadsheet writes is read."""
    found = read_totals(_file(tmp_path, "\ufefffinished_at,n,correct\r\n2026-11-01,200,181\r\n\r\n"), n=N)
    assert [(total.correct, total.line) for total in found.totals] == [(181, 2)]


@given(st.integers(1, 3000), st.data())
def test_an_accuracy_gives_back_its_count(
    tmp_path_factory: pytest.TempPathFactory, n: int, data: st.DataObject
) -> None:
    """Any count's accuracy, in full or rounded to any digits, is accepted: in full it is that count, and rounded a
    count that rounds to the same digits."""
    correct = data.draw(st.integers(0, n))
    digits = data.draw(st.one_of(st.none(), st.integers(1, 12)))
    text = repr(correct / n) if digits is None else f"{correct / n:.{digits}f}"
    path = tmp_path_factory.mktemp("x") / "one.csv"
    path.write_text(f"finished_at,n,accuracy\n2026-11-01,{n},{text}\n")
    (total,) = read_totals(path, n=n).totals
    if digits is None and len(text) > 14:
        assert (total.correct, total.others) == (correct, 0)
    else:
        shown = len(text.partition(".")[2])
        assert abs(Fraction(total.correct, n) - Fraction(text)) <= Fraction(1, 2 * 10**shown) + Fraction(1, 10**12)


def test_a_known_run_id_with_another_total_is_refused(tmp_path: Path, under: Under, make_record: MakeRecord) -> None:
    """A run id that the history holds otherwise is refused with both digests, exit 3."""
    here = Place(dir=tmp_path / "here")
    remember(here, make_record("night"))
    path = _file(tmp_path, "finished_at,n,correct,run_id\n2026-11-01,200,181,new\n2026-11-01,200,181,night\n")
    with pytest.raises(InfraError) as caught:
        import_totals(here, path, under, now=NOW)
    assert caught.value.reason == "run-id-taken"
    assert caught.value.message.count("sha256:") == 2
    assert [row.run_id for row in index.list_runs(here, limit=9)] == ["night"]


def test_the_command_needs_no_dataset_and_no_gpu(tmp_path: Path) -> None:
    """Old totals of a shipped model are imported offline, under the key that its next run has, and a bad file exits
    2 with its line."""
    text = "finished_at,n,accuracy,build\n2026-11-01,1319,0.9045,0.10.1\n2026-11-02,1319,0.9083,0.10.2\n"
    _file(tmp_path, text)
    words = ("history", "import", "old.csv", "--format", "totals", "model=laguna_int4", "hw=b200")
    done = here(tmp_path, *words)
    assert done.code == 0
    said = re.fullmatch(r"added 2 runs, 0 were in the history; runs (\S+) to (\S+)\n", done.out)
    assert said is not None, done.out
    ids = [run["run_id"] for run in json.loads(here(tmp_path, "history", "list", "--json").out)["runs"]]
    assert list(said.groups()) == ids[::-1]
    assert here(tmp_path, *words).out.startswith("added 0 runs, 2 were in the history")
    shown = json.loads(here(tmp_path, "history", "list", "--json").out)["runs"]
    assert [(run["model"], run["correct"]) for run in shown] == [
        ("poolside/Laguna-XS-2.1-INT4", 1198),
        ("poolside/Laguna-XS-2.1-INT4", 1193),
    ]
    _file(tmp_path, "finished_at,n,accuracy\n2026-11-03,1319,1.7\n")
    refused = here(tmp_path, *words)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("gatekit: old.csv:2: accuracy is '1.7', more than 1")
    nothing = here(tmp_path, "history", "import", "old.csv", "--format", "totals")
    assert (nothing.code, nothing.err.count("\n")) == (2, 1)
    assert here(tmp_path, "history", "verify").code == 0


def test_lines_with_too_few_digits_are_named(tmp_path: Path, under: Under) -> None:
    """An accuracy that fits several counts is taken as the nearest one, and its line is named."""
    rows = "".join(f"2026-11-{day:02},200,0.9,b{day}\n" for day in range(1, 9))
    here = Place(dir=tmp_path / "here")
    head = "finished_at,n,accuracy,build\n"
    one = import_totals(here, _file(tmp_path, head + "2026-10-01,200,0.9,b0\n"), under, now=NOW)
    assert one.flags == ("accuracy of line 2 has too few digits for one count: the nearest was taken",)
    many = import_totals(here, _file(tmp_path, head + rows), under, now=NOW)
    assert many.flags[0].startswith("accuracy of lines 2, 3, 4, 5, 6 and 3 more has too few digits")


def test_totals_without_a_build_are_one_observation_and_told_so(tmp_path: Path, under: Under) -> None:
    """Nameless totals are one vote together: whoever imports them is told how many, and by which column."""
    here = Place(dir=tmp_path / "here")
    found = import_totals(here, _file(tmp_path, _CSV + "2026-11-04,200,179,,,,B200\n"), under, now=NOW)
    assert any(flag.startswith("2 of 4 totals name no build (column `build`): all of them") for flag in found.flags)
    named = "finished_at,n,correct,build\n2026-11-05,200,181,x\n2026-11-06,200,181,\n"
    assert import_totals(here, _file(tmp_path, named), under, now=NOW).flags == ()


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
def test_an_export_is_no_file_of_totals(place: Place, tmp_path: Path, make_record: MakeRecord, format_: str) -> None:
    """An export holds runs of other protocols and unasked questions: as totals it is refused in one line, and nothing
    of it is taken."""
    remember(place, make_record("night", planned=N))
    path = tmp_path / f"out.{format_}"
    export(place, index.list_runs(place, limit=9), path, Format(format_), force=False)
    record = make_record(planned=N)
    here = Place(dir=tmp_path / "here")
    under = Under(spec=record.spec, dataset=record.dataset, comparability=record.comparability)
    with pytest.raises(ConfigError) as caught:
        import_totals(here, path, under, now=NOW)
    (line,) = caught.value.lines()
    assert "this is an export of gatekit, not old totals" in line
    assert "import the jsonl export instead" in line
    assert not here.dir.exists()


def test_an_imported_run_does_not_look_like_a_real_one(tmp_path: Path, under: Under) -> None:
    """The list marks it, and what is shown of it speaks of imported totals, not of a server that was not ready."""
    import_totals(Place(dir=tmp_path / ".gatekit"), _file(tmp_path, _CSV), under, now=NOW)
    listed = here(tmp_path, "history", "list").out.splitlines()
    assert all(line.endswith("INCONCLUSIVE (imported)") for line in listed[1:])
    shown = here(tmp_path, "history", "show", "night-2").out
    assert "imported totals of build 0.10.2" in shown
    assert "server was ready" not in shown
    assert "imported from old.csv line 3" in shown
