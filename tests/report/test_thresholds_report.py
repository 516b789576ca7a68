"""What people and programs read of thresholds: aligned, escaped for its medium, and only what changed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatekit.records.lock import Lock, Prior
from gatekit.report.escape import code_block, code_span
from gatekit.report.thresholds import (
    State,
    Threshold,
    check_line,
    diff,
    headline,
    threshold_text,
    thresholds_markdown,
    thresholds_plain,
)

HOSTILE = "\x1b[31m|`</code>` @all ![x](http://evil) \u202e\n# head"
LOCK = Lock(
    spec="m-b200-vllm",
    key="sha256:" + "a" * 64,
    fields={"n": 1319},
    method="exact_conditional",
    why="auto: answers per question of 3 distinct builds",
    n=1319,
    k_reject=1180,
    k_accept=None,
    alpha=1 / 365,
    mean=1200.0,
    sd=6.5,
    df=12.0,
    noticed_drop=0.021,
    phi=0.2,
    psi=1.1,
    prior=Prior(phi0=0.13, nu0=3.9, psi0=1.2, nu_psi=9.0, series=7),
    used=("a", "b", "c"),
    excluded={"INFRA": 1, "hardware h200": 3},
    as_of=None,
    inputs="sha256:" + "b" * 64,
    gatekit_version="0.1.0",
)
STALE = Threshold(
    spec="m-b200-vllm",
    path="conf/thresholds/m-b200-vllm.lock.yaml",
    key=LOCK.key,
    state=State.STALE,
    lock=LOCK,
    realised_alpha=0.0025,
    excluded=LOCK.excluded,
    old=replace(LOCK, k_reject=1175),
    old_text="# head\nk_reject: 1175\nn: 1319\n",
    new_text="# head\nk_reject: 1180\nn: 1319\n",
    command="gatekit thresholds recompute --write",
)
SHORT = replace(
    STALE,
    state=State.SHORT,
    lock=None,
    old=None,
    shortage="0 comparable runs, need 1",
    changes=("protocol.api: completions -> chat on 2026-09-01; 41 earlier runs are not comparable",),
)


def test_one_series_on_a_terminal() -> None:
    """The counts old and new stand in the first line, every fact has its label, and the diff is only what changed."""
    assert threshold_text(STALE) == (
        "m-b200-vllm: the lock is stale: FAIL below 1180 of 1319, the lock says FAIL below 1175\n"
        "  rule          exact_conditional; auto: answers per question of 3 distinct builds\n"
        "  false alarms  at most 0.274 % of runs of an unchanged model; 0.25 % at this count\n"
        "  notices       a drop of 2.1 points or more, in nine runs of ten\n"
        "  spread        1200.0 right expected, sd 6.50, phi 0.200, psi 1.10, degrees of freedom 12.0\n"
        "  prior         phi 0.13 on 3.9, psi 1.2 on 9 degrees of freedom, pooled over 7 series\n"
        "  runs          3 used, each of another build: a to c\n"
        "  left out      3 hardware h200, 1 INFRA\n"
        f"  key           {LOCK.key}\n"
        "  lock          conf/thresholds/m-b200-vllm.lock.yaml\n"
        "  next          gatekit thresholds recompute --write\n"
        "  --- conf/thresholds/m-b200-vllm.lock.yaml\n"
        "  +++ conf/thresholds/m-b200-vllm.lock.yaml\n"
        "  -k_reject: 1175\n"
        "  +k_reject: 1180\n"
    )


def test_a_shortage_names_what_changed() -> None:
    """Too short a history shows how many runs are missing and the field that sets others apart, and no diff."""
    text = threshold_text(SHORT)
    assert text.startswith("m-b200-vllm: too little history: 0 comparable runs, need 1\n")
    assert "other series  protocol.api: completions -> chat on 2026-09-01; 41 earlier runs are not comparable" in text
    assert diff(SHORT) == []


def test_a_check_is_one_line_with_the_command() -> None:
    """Every state but those in order names the command that mends it."""
    line = "stale: m-b200-vllm: the lock is stale: FAIL below 1180 of 1319, the lock says FAIL below 1175"
    assert check_line(STALE) == f"{line}; gatekit thresholds recompute --write"
    assert check_line(SHORT) == "too-short: m-b200-vllm: too little history: 0 comparable runs, need 1"
    gone = check_line(replace(SHORT, state=State.SHORT_WITH_LOCK))
    assert gone.endswith("run it with gate=auto until there is enough, then gatekit thresholds recompute --write")


@pytest.mark.parametrize("state", State)
def test_every_state_has_words(state: State) -> None:
    """No state is without its sentence, with and without a lock."""
    assert headline(replace(STALE, state=state))
    assert headline(replace(SHORT, state=state))


def test_accepting_counts_are_shown() -> None:
    """A lock with a zone between says where a PASS starts."""
    between = replace(STALE, lock=replace(LOCK, k_accept=1190))
    assert "FAIL below 1180, PASS from 1190 of 1319" in headline(between)


def test_foreign_text_stays_text_on_a_terminal() -> None:
    """Control and bidi characters from any field are spelled out, and no line is added."""
    bad = replace(STALE, spec=HOSTILE, path=HOSTILE, remark=HOSTILE, changes=(HOSTILE,), command=HOSTILE)
    for text in (threshold_text(bad), check_line(bad)):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\n# head" not in text
    assert max(map(len, threshold_text(bad).splitlines()[1:])) <= 120


def test_foreign_text_stays_code_in_markdown() -> None:
    """In a comment foreign text ends no table cell, no code span and no code block, and mentions nobody."""
    text = "x\n````\n@everyone\n"
    bad = replace(STALE, spec=HOSTILE, changes=(HOSTILE,), old_text="", new_text=text, excluded={HOSTILE: 1})
    comment = thresholds_markdown([bad], [HOSTILE])
    assert "\x1b" not in comment
    (row,) = [line for line in comment.splitlines() if line.startswith("| ") and "1180 of 1319" in line]
    assert row.replace("\\|", "").count("|") == 9
    assert "`````diff\n--- /dev/null" in comment
    outside = comment.split("`````diff")[0]
    for line in outside.splitlines():
        assert "@all" not in "".join(line.split("`` ")[::2]), "only within a code span"


@given(text=st.text(alphabet="`|a \\\n", max_size=12))
def test_a_code_span_ends_where_it_should(text: str) -> None:
    """The fence of a code span is longer than any run of backticks in it."""
    span = code_span(text)
    fence = span[: len(span) - len(span.lstrip("`"))]
    inside = span[len(fence) : -len(fence)] if len(fence) == 1 else span[len(fence) + 1 : -len(fence) - 1]
    assert span.endswith(fence)
    assert fence not in inside or "`" not in text
    assert code_block([text], "diff")[0].startswith("`" * 3)


def test_a_comment_has_a_limit() -> None:
    """What GitHub would refuse as too long is left out, and said."""
    many = [replace(STALE, new_text="x: 1\n" * 4000, spec=f"s{number}") for number in range(10)]
    comment = thresholds_markdown(many, [])
    assert len(comment) < 65_536
    assert "do not fit into this comment" in comment


def test_json_holds_the_numbers() -> None:
    """Plain data can be written as JSON and has state, counts, diff and sentence."""
    plain = json.loads(json.dumps(thresholds_plain(STALE), allow_nan=False))
    assert plain["state"] == "stale"
    assert plain["lock"]["k_reject"] == 1180
    assert plain["diff"][2:] == ["-k_reject: 1175", "+k_reject: 1180"]
    assert plain["says"] == headline(STALE)


@pytest.mark.parametrize(
    ("old", "said"),
    [
        (
            replace(LOCK, key="other", k_reject=1190),
            "; LOOSER, a new series: FAIL below 1180 of 1319 instead of FAIL below 1190 of 1319; review it",
        ),
        (
            replace(LOCK, key="other", n=100, k_reject=90),
            "FAIL below 1180 of 1319 instead of FAIL below 90 of 100; review it",
        ),
        (
            replace(LOCK, key="other", k_accept=1200),
            "PASS from 1180 of 1319 instead of PASS from 1200 of 1319; review it",
        ),
        (replace(LOCK, key="other", k_reject=1170), ""),
        (replace(LOCK, k_reject=1190), ""),
    ],
)
def test_a_new_series_that_loosens_is_said_aloud(old: Lock, said: str) -> None:
    """Where another key takes a lock's place and asks for a smaller share, every form says so, written or not."""
    found = replace(STALE, state=State.OTHER_KEY, old=old)
    for text in (headline(found), headline(replace(found, is_written=True)), thresholds_markdown([found], [])):
        assert said in text
        assert ("LOOSER" in text) == bool(said)
    assert ("LOOSER" in check_line(found)) == bool(said)
