"""Questions that are asked several times: what is sent, what is kept, how it is judged, and how it is told."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import killed_runs
from command_line import Ran, attached, here, kept, record, start, wait_for_answers
from fault_server import question_of
from kept_nights import keep_nights
from nights import series
from raw_server import Handler, Request, Start, completion, http
from right_answers import is_question, reference, right

SAMPLED = ("protocol.temperature=0.7", "protocol.repeats=3")
OTHERS = ("gate.observed={correct: 1168, n: 1319}", "task.n=25")
AUTO = ("gate=auto", "gate.observed=null")  # without history nothing is decided, and no run stops early
SIM = ("task.n=20", "engine.latency={}", "engine.flip_seed=7", "engine.accuracy=0.8", *AUTO, *SAMPLED)


@pytest.fixture(scope="module")
def sampled_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A folder with one such run, `a`, and what it printed. Only to be copied."""
    folder = tmp_path_factory.mktemp("sampled")
    return folder, here(folder, *SIM, "--run-id", "a", "--json")


@pytest.fixture
def ran(sampled_once: tuple[Path, Ran], tmp_path: Path) -> Ran:
    """What it printed, with its history in the test's folder."""
    shutil.copytree(sampled_once[0], tmp_path, dirs_exist_ok=True)
    return sampled_once[1]


def cell(seen: dict[str, Any]) -> tuple[int, int]:
    return seen["question_id"], seen.get("repeat", 0)


def texts(ran: Ran, folder: Path) -> dict[tuple[int, int], Any]:
    """What was answered to each question each time."""
    return {cell(seen): (seen["status"], seen["text"]) for seen in kept(ran, folder)}


# What is sent


def test_every_body_is_sent_as_often_as_it_is_repeated(tmp_path: Path, raw_server: Start) -> None:
    """Without a seed the repeats of a question are one body, pass by pass in the selection's order."""
    server = raw_server(right)
    once = ("client.concurrency=1", "protocol.seed=null", "task.order_seed=3")
    ran = here(tmp_path, *attached(server.url, *once, *SAMPLED, n=8), "--json")
    asked = [request for request in server.requests if is_question(request)]
    assert set(Counter(request.body for request in asked).values()) == {3}
    order = [question_of(request) for request in asked]
    assert order == order[:8] * 3
    assert len(set(order)) == 8
    assert record(ran, tmp_path)["dataset"]["question_ids"] == order


def test_every_repeat_has_the_next_seed(tmp_path: Path, raw_server: Start) -> None:
    """Repeat r sends seed + r, and nothing else changes."""
    server = raw_server(right)
    here(tmp_path, *attached(server.url, "protocol.seed=5", *SAMPLED, n=8), "--json")
    asked = [request.data for request in server.requests if is_question(request)]
    assert Counter(data["seed"] for data in asked) == {5: 8, 6: 8, 7: 8}
    without = Counter(json.dumps({name: value for name, value in data.items() if name != "seed"}) for data in asked)
    assert set(without.values()) == {3}


# What is refused


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (("protocol.repeats=2",), "repeats-without-sampling"),  # the shipped protocol has temperature 0
        (("protocol.repeats=2", "protocol.temperature=1", "protocol.top_k=1"), "repeats-without-sampling"),
        (("protocol.repeats=65", "protocol.temperature=1"), "out-of-range"),
        (("protocol.repeats=0",), "out-of-range"),
        ((*SAMPLED, "protocol.seed=9223372036854775806"), "repeats-without-seeds"),
        (
            (*SAMPLED, "gate.early_stop=wor_mixture", "gate.delta=0.05", "task.order_seed=1"),
            "early-stop-with-repeats",
        ),
        ((*SAMPLED, "gate=exact_binomial", *OTHERS), "repeats-of-other-questions"),
        ((*SAMPLED, "gate=auto", *OTHERS), "repeats-of-other-questions"),
        ((*SAMPLED, "gate=auto", "gate.method=beta_binomial_predictive", *OTHERS), "repeats-of-other-questions"),
        ((*SAMPLED, "gate=static_floor", "gate.floor=0.8", "gate.delta=0.1", *OTHERS), "repeats-of-other-questions"),
    ],
)
def test_what_repeats_do_not_go_with(tmp_path: Path, overrides: tuple[str, ...], reason: str) -> None:
    """One line of exit 2 with a stable reason, before anything runs."""
    ran = here(tmp_path, *overrides)
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 1
    assert f"[{reason}]" in ran.err
    assert not (tmp_path / ".gatekit").exists()


@pytest.mark.parametrize(
    "overrides",
    [
        ("gate=exact_binomial", "gate.observed={correct: 22, n: 25}", "task.n=25"),
        ("gate=exact_binomial", "gate.observed={correct: 66, n: 75}", "task.n=25"),
        ("gate=auto", "gate.observed={correct: 1168, n: 1319}", "task.n=null"),
        ("gate=auto", "gate.observed=null", "task.n=25"),
        ("gate=static_floor", "gate.floor=0.8", *OTHERS),  # a floor needs no measurement
        ("gate=exact_binomial", *OTHERS, "protocol.repeats=1"),
    ],
)
def test_a_number_of_these_questions_may_judge_repeats(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    """What was measured on as many questions or answers as the run has stands, and so does what needs no number."""
    ran = here(tmp_path, "--cfg", *SAMPLED, *overrides)
    assert ran.code == 0, ran.err


def test_a_number_of_other_questions_is_found_once_they_are_read(tmp_path: Path, raw_server: Start) -> None:
    """Where only the dataset's files say how many questions there are, the run is refused before any is asked."""
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "test"):
        rows = [json.dumps({"question": f"How many are {number}?", "answer": "#### 2"}) for number in range(30)]
        (data / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    server = raw_server(right)
    pins = [f"~task.files.{split}" for split in ("train", "test")]
    own = ("task=gsm8k", f"task.path={data}", *pins, "task.n=null", "protocol.shots=0", "protocol.repeats=3")
    gate = ("gate=exact_binomial", "gate.floor=null", "gate.observed={correct: 1168, n: 1319}", "gate.alpha=0.001")
    ran = here(tmp_path, *attached(server.url, *own, "protocol.temperature=0.7", *gate))
    assert (ran.code, "[repeats-of-other-questions]" in ran.err) == (2, True), ran.err
    assert "gate.observed.n=30 or 90" in ran.err
    assert not any(map(is_question, server.requests))


def test_a_temperature_left_to_the_server_may_sample(tmp_path: Path) -> None:
    """What is not sent is not known to be greedy."""
    assert here(tmp_path, "--cfg", "protocol.temperature=null", "protocol.repeats=64").code == 0


def test_too_many_answers(tmp_path: Path) -> None:
    """A million answers are the most that a run asks for."""
    folder = tmp_path / "data"
    folder.mkdir()
    rows = [json.dumps({"question": f"How many are {number}?", "answer": "#### 2"}) for number in range(15_626)]
    text = "\n".join(rows) + "\n"
    pinned = (f"sha256={hashlib.sha256(text.encode()).hexdigest()}", f"rows={len(rows)}")
    for split in ("train", "test"):
        (folder / f"{split}.jsonl").write_text(text)
    own = [f"task.files.{split}.{pin}" for split in ("train", "test") for pin in pinned]
    asked = ("task=gsm8k", f"task.path={folder}", *own, *AUTO, *SAMPLED)
    ran = here(tmp_path, *asked, "protocol.repeats=64")
    assert (ran.code, "[too-many-answers]" in ran.err) == (2, True), ran.err
    assert "set protocol.repeats=63 or less" in ran.err
    assert here(tmp_path, *asked, "protocol.repeats=63", "--cfg").code == 0


# What is kept


@pytest.mark.parametrize("seed", ["42", "null"])
def test_a_run_that_was_killed_is_that_of_one_that_was_not(tmp_path: Path, seed: str) -> None:
    """A simulated run with repeats, killed and resumed, has the same answers to each repeat, with a seed or without."""
    overrides = (
        *("task.n=12", "engine.flip_seed=7", "engine.accuracy=0.7", f"protocol.seed={seed}", *SAMPLED),
        *("gate=static_floor", "gate.floor=0.05"),
        *("engine.latency.median_s=0.15", "engine.latency.sigma=0", "client.concurrency=2"),
    )
    assert here(tmp_path, *overrides, "--run-id", "whole").code == 4  # so few answers pass nothing
    whole = killed_runs.scored_part(killed_runs.read_record(tmp_path, "whole"))
    run_id = f"cut-between-repeats-{seed}"  # by which its processes are found
    process = start(tmp_path, *overrides, "--run-id", run_id)
    wait_for_answers(tmp_path, run_id, 16)
    process.kill()
    process.communicate()
    killed_runs.await_no_server(run_id)
    assert 16 <= (killed_runs.kept_by(tmp_path, run_id) or 0) < 36
    assert here(tmp_path, "run", "--resume", run_id).code == 4
    assert killed_runs.scored_part(killed_runs.read_record(tmp_path, run_id)) == whole


def test_repeat_0_is_not_written(tmp_path: Path) -> None:
    """A run that asks once writes neither `repeat` nor `repeats`: its files are those of a gatekit without them."""
    ran = here(tmp_path, "task.n=5", "engine.latency={}", "--run-id", "once", "--json")
    folder = tmp_path / ".gatekit" / "runs" / "once"
    assert '"protocol"' in (folder / "journal.jsonl").read_text()
    for name in ("record.json", "journal.jsonl"):
        assert '"repeat' not in (folder / name).read_text()
    assert "protocol.repeats" not in record(ran, tmp_path)["comparability"]["fields"]


def test_what_a_record_holds(tmp_path: Path, ran: Ran) -> None:
    """One answer to each question and repeat, in asking order; the count is that of answers, and the key names it."""
    stored = record(ran, tmp_path)
    ids = stored["dataset"]["question_ids"]
    assert ids == ids[:20] * 3
    assert [cell(seen) for seen in stored["observations"]] == [
        (number, repeat) for repeat in range(3) for number in ids[:20]
    ]
    assert (stored["counts"]["n"], stored["comparability"]["fields"]["protocol.repeats"]) == (60, 3)
    assert here(tmp_path, "history", "verify").code == 0
    (tmp_path / ".gatekit" / "index.sqlite").unlink()
    assert here(tmp_path, "history", "rebuild").code == 0
    assert here(tmp_path, "history", "verify").code == 0


def test_answers_are_scored_anew_repeat_by_repeat(tmp_path: Path, ran: Ran) -> None:
    """Another extractor reads each repeat's own text."""
    before = texts(ran, tmp_path)
    assert here(tmp_path, "history", "rescore", "a", "--extractor", "last_number").code in (0, 1, 4)
    (path,) = (tmp_path / ".gatekit" / "runs").glob("a.*/record.json")
    after = {cell(seen): (seen["status"], seen["text"]) for seen in json.loads(path.read_text())["observations"]}
    assert after == before


@pytest.mark.parametrize("seed", ["42", "null"])
def test_a_recording_plays_each_answer_to_its_repeat(tmp_path: Path, seed: str) -> None:
    """What was answered the second time is the answer to the second time again; one too many is refused."""
    own = f"protocol.seed={seed}"
    ran = here(tmp_path, *SIM, own, "--json")
    replay = ("engine=replay", f"engine.answers={tmp_path / ran.data['record']}", "task.n=20", *AUTO, *SAMPLED, own)
    again = here(tmp_path, *replay, "client.concurrency=3", "--json")
    assert texts(again, tmp_path) == texts(ran, tmp_path)
    more = here(tmp_path, *replay, "protocol.repeats=4")
    assert (more.code, "[too-few-repeats]" in more.err) == (2, True)


# How it is judged


def test_a_regression_is_found_on_repeats(tmp_path: Path) -> None:
    """With three builds of history a drop of ten points fails, a healthy build passes, and both can be explained."""
    overrides = (*AUTO, *SAMPLED, "task.n=100")
    keep_nights(tmp_path, series("night", 0.9, 3, first="2026-10-01"), *overrides)
    healthy = here(tmp_path, *overrides, "engine.accuracy=0.9011", "engine.flip_seed=77", "engine.latency={}", "--json")
    assert (healthy.data["verdict"], healthy.data["rule"]["method"]) == ("PASS", "exact_conditional")
    ran = here(tmp_path, *overrides, "engine.accuracy=0.8", "engine.flip_seed=78", "engine.latency={}", "--json")
    assert (ran.code, ran.data["verdict"], ran.data["reason_code"]) == (1, "FAIL", "below-threshold")
    for one in (healthy, ran):
        text = here(tmp_path, "explain", one.data["run_id"]).out
        assert "3 repeats x 100 questions = 300" in text
        assert "DIFFERS" not in text


def sampled(number: int, *, caches: bool, share: float) -> Handler:
    """Build `number` of a server that answers a share of all requests rightly, by a draw of each or of each first."""
    times: Counter[int] = Counter()

    def answer(request: Request) -> Any:
        if request.path == "/version":
            return http(200, {"version": f"1.{number}"})
        question = question_of(request)
        if question is None:
            return right(request)
        times[question] += 1
        occasion = f"{number} {question} {1 if caches else times[question]}"
        draw = hashlib.sha256(occasion.encode()).digest()[0] / 256
        text = reference(request.data["prompt"]) if draw < share else "#### -1"
        return http(200, completion(f"{occasion}: {text}"))

    return answer


def test_repeats_of_a_cache_are_no_repeats(tmp_path: Path, raw_server: Start) -> None:
    """A server that gives each question one answer, drawn once, is INCONCLUSIVE, and what may be the cause is named."""
    again = ("protocol.temperature=0.7", "protocol.repeats=4", "protocol.seed=null", *AUTO, "gate.floor=null")

    def ran(number: int, *, caches: bool) -> Ran:
        server = raw_server(sampled(number, caches=caches, share=0.6))
        return here(tmp_path, *attached(server.url, *again, n=80), "--run-id", f"build-{number}", "--json")

    healthy = [ran(number, caches=False).data["verdict"] for number in range(3)]
    assert healthy == ["INCONCLUSIVE", "PASS", "PASS"]
    cached = ran(3, caches=True)
    assert (cached.code, cached.data["verdict"]) == (4, "INCONCLUSIVE")
    assert cached.data["reason_code"] == "dependent-repeats"
    for word in ("temperature", "seed", "cache"):
        assert word in cached.data["hint"]
    explained = here(tmp_path, "explain", "build-3").out
    assert "too alike" in explained
    assert "DIFFERS" not in explained
    later = ran(4, caches=False).data["rule"]
    assert later["used"] == ["build-0", "build-1", "build-2"]
    assert later["excluded"] == {"dependent repeats": 1}
    assert "build-3" in here(tmp_path, "history", "list").out


def test_the_same_long_text_every_time_is_suspicious(tmp_path: Path, raw_server: Start) -> None:
    """Long answers that are the same in every repeat are told of; short ones and those that differ are not."""

    def said(head: Callable[[Request], str]) -> Handler:
        def answer(request: Request) -> Any:
            if not is_question(request):
                return right(request)
            return http(200, completion(f"{head(request)}\n{reference(request.data['prompt'])}"))

        return answer

    for head, is_suspicious in (
        (lambda request: "x" * 250, True),
        (lambda request: f"{request.number:250}", False),
        (lambda request: "", False),
    ):
        server = raw_server(said(head))
        ran = here(tmp_path, *attached(server.url, "protocol.seed=null", *SAMPLED, n=10), "--json")
        assert any("very same text in every repeat" in line for line in ran.data["warnings"]) is is_suspicious


def test_a_gate_is_measured_under_questions(tmp_path: Path) -> None:
    """`measured_under.n` counts questions, however often each is asked."""
    gate = ("gate=exact_binomial", "gate.observed={correct: 18, n: 20}", "gate.alpha=0.001")
    for n, is_other in ((20, False), (60, True)):
        ran = here(tmp_path, *SIM, *gate, f"gate.measured_under={{n: {n}}}", "--json")
        assert (ran.data["reason_code"] == "protocol-mismatch") is is_other


# How it is told


def test_what_a_run_says_of_its_repeats(tmp_path: Path, ran: Ran) -> None:
    """How many repeats of how many questions, and how many of these were always, sometimes and never right."""
    right_times = Counter(seen["question_id"] for seen in kept(ran, tmp_path) if seen["status"] == "correct")
    always, some = (sum(low <= times < high for times in right_times.values()) for low, high in ((3, 4), (1, 3)))
    told = {"always": always, "sometimes": some, "never": 20 - always - some, "unknown": 0}
    assert some > 0
    assert (ran.data["repeats"], ran.data["by_question"]) == (3, {"repeats": 3, "questions": 20, **told})
    shown = here(tmp_path, "history", "show", "a").out
    assert "3 repeats of 20 questions" in shown
    assert f"always right {always}, sometimes {some}, never {told['never']}" in shown
    assert here(tmp_path, "task.n=20", "engine.latency={}", "--json").data["by_question"] is None


def test_lists_name_the_repeat(tmp_path: Path, ran: Ran) -> None:
    """A wrong answer, and one that changed sides, is that of a question and a repeat."""
    here(tmp_path, *SIM, "engine.flip_seed=8", "--run-id", "b", "--json")
    wrong = [cell(seen) for seen in kept(ran, tmp_path) if seen["status"] == "wrong"]
    shown = here(tmp_path, "history", "show", "a", "--wrong").out
    assert all(f"\n{number} (repeat {repeat})  " in shown for number, repeat in wrong)
    compared = here(tmp_path, "history", "compare", "a", "b", "--json").data
    pairs = compared["pairs"]
    assert pairs["n"] == 60
    assert len(compared["changed"]) == pairs["right_to_wrong"] + pairs["wrong_to_right"] > 0
    one = compared["changed"][0]
    text = here(tmp_path, "history", "compare", "a", "b").out
    assert f"question {one['question_id']} (repeat {one['repeat']})" in text
    assert "60 ANSWERS" in text
    whole = pairs["by_question"]
    assert whole["questions"] == 20
    assert f"of 20 questions {whole['fewer']} were right less often after, {whole['more']} more often" in text
    assert "standard error by question" in text


# What is printed to be pasted


def test_the_commands_for_a_lock_of_repeats_are_pasted(tmp_path: Path) -> None:
    """What a check and an act say to run for the lock of such a series asks as often, at its temperature, and works."""
    asked = ("model=tiny_gsm", "engine=sim", "task.n=60", *AUTO, *SAMPLED)  # tiny_gsm has a typed number of 1,319
    first = keep_nights(tmp_path, series("night", 0.9, 5, first="2026-10-01"), *asked)[0]
    assert here(tmp_path, "thresholds", "recompute", *asked, "--write").code == 0
    for words in (
        ("history", "quarantine", "night-04", "--reason", "the fan failed"),
        ("thresholds", "recompute", "--check"),
        ("thresholds", "rebaseline", "--key", first.comparability.key, "--reason", "another kernel"),
    ):
        told = " ".join(here(tmp_path, *words).out.split())
        found = re.search(r"gatekit (thresholds recompute model=tiny_gsm [^;`]*? --write)", told)
        assert found, told
        again = here(tmp_path, *shlex.split(found.group(1))[:-1])
        assert again.code in (0, 4), again.err  # after a rebaseline there is no run to rest on
        assert first.comparability.key in again.out
