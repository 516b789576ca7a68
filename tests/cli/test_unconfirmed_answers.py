"""E39: a server that is replaced on the way, and a run that is cut off before anybody could ask who answers."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import attached, here, record, start, wait_for_answers
from fault_server import question_of
from raw_server import Handler, RawServer, Request, Start, completion, http, in_place_of
from right_answers import is_question, right

N = 40
OF_A, OF_B = 12, 8
WRONG = "#### 987654"


def dying_after(count: int, raw_server: Start, handler: Handler) -> RawServer:
    """A server that is gone once it has answered so many questions."""
    box: list[RawServer] = []
    lock, answered = threading.Lock(), Counter[str]()

    def handle(request: Request) -> Any:
        if is_question(request):
            with lock:
                answered["questions"] += 1
                if answered["questions"] > count:
                    threading.Thread(target=box[0].stop).start()
                    return None
        return handler(request)

    box.append(raw_server(handle))
    return box[0]


def taking_over(dead: RawServer, handler: Handler) -> RawServer:
    """Another server on the port of one that is gone, or is soon."""
    assert dead._over.wait(60)
    return in_place_of(dead, handler)


def impostor(most: int, *, busy: int = 0) -> Handler:
    """Wrong answers under the name and version of the other server, so many and no more; nobody learns what it serves.

    The first `busy` questions get a 503.
    """
    lock, count = threading.Lock(), Counter[str]()

    def handle(request: Request) -> bytes | None:
        if request.path == "/v1/models":
            return None
        if not is_question(request):
            return right(request)
        with lock:
            count["asked"] += 1
            number = count["asked"]
        if number <= busy:
            return http(503, "loading")
        return http(200, completion(WRONG)) if number <= busy + most else None

    return handle


def untold(request: Request) -> bytes:
    """The right answers of a server that tells neither its models nor its version."""
    return http(404, "") if request.method == "GET" else right(request)


def slowly(request: Request) -> bytes:
    """The right answers, each after a while."""
    time.sleep(0.3 if is_question(request) else 0)
    return right(request)


def arguments(server: RawServer, *more: str) -> tuple[str, ...]:
    return attached(server.url, "client.concurrency=1", "client.outage_s=60", *more, n=N)


def lines(folder: Path, run_id: str) -> list[dict[str, Any]]:
    journal = folder / ".gatekit" / "runs" / run_id / "journal.jsonl"
    return [json.loads(line) for line in journal.read_bytes().splitlines()] if journal.exists() else []


def kinds(folder: Path, run_id: str) -> str:
    """The kinds of a journal's lines, the same in a row once."""
    found = [next(iter(line)) for line in lines(folder, run_id)]
    return " ".join(kind for kind, before in zip(found, ["", *found], strict=False) if kind != before)


def cut_off(folder: Path, run_id: str, first: RawServer, second: Handler, number: int, *, answers: int) -> None:
    """A run whose server is replaced on the way, and that is ended once it has so many answers."""
    process = start(folder, *arguments(first), "--run-id", run_id)
    other = taking_over(first, second)
    wait_for_answers(folder, run_id, answers)
    process.send_signal(number)
    process.communicate(timeout=60)
    other.stop()


CASES: dict[str, tuple[int, int]] = {
    "killed": (signal.SIGKILL, 0),
    "killed, behind a server that loads": (signal.SIGKILL, 2),
    "a signal": (signal.SIGTERM, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_answers_of_a_server_that_nobody_could_ask(raw_server: Start, tmp_path: Path, case: str) -> None:
    """What came after a lost connection is not kept by a run that is cut off before the server was asked who it is."""
    number, busy = CASES[case]
    first = dying_after(OF_A, raw_server, right)
    cut_off(tmp_path, "two", first, impostor(OF_B, busy=busy), number, answers=OF_A + OF_B)
    texts = [line["answer"].get("text") for line in lines(tmp_path, "two") if "answer" in line]
    assert texts.count(WRONG) == OF_B, "the other server has answered"
    back = taking_over(first, right)
    resumed = here(tmp_path, "run", "--resume", "two", "--json")
    back.stop()
    assert (resumed.code, resumed.data["verdict"], resumed.data["run_id"]) == (0, "PASS", "two")
    stored = record(resumed, tmp_path)
    assert [seen["question_id"] for seen in stored["observations"] if seen["text"] == WRONG] == []
    again = Counter(question_of(request) for request in back.requests if is_question(request))
    assert again == Counter(range(OF_A, N)), "what the first server answered is not asked again, all else is"
    (told,) = [event for event in stored["events"] if event.startswith("resumed at")]
    assert told.startswith(f"resumed at {OF_A} of {N} answers, after the part before ")
    assert f"asked again: {OF_B} answers of a server that was not confirmed" in told


def test_answers_of_a_server_that_was_asked(raw_server: Start, tmp_path: Path) -> None:
    """What came after a lost connection is kept once its server has said again all that was known of it."""
    first = dying_after(OF_A, raw_server, right)
    process = start(tmp_path, *arguments(first), "--run-id", "two")
    same = taking_over(first, slowly)
    deadline = time.monotonic() + 60
    while "confirmed" not in kinds(tmp_path, "two"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    wait_for_answers(tmp_path, "two", OF_A + 4)
    process.kill()
    process.communicate(timeout=60)
    same.stop()
    count = sum("answer" in line for line in lines(tmp_path, "two"))
    back = taking_over(first, right)
    resumed = here(tmp_path, "run", "--resume", "two", "--json")
    back.stop()
    assert (resumed.code, sum(map(is_question, back.requests))) == (0, N - count)
    assert any(event.endswith("was killed; server start 2") for event in record(resumed, tmp_path)["events"])


@pytest.mark.parametrize(("handler", "is_settled"), [(right, True), (untold, False)], ids=["told", "untold"])
def test_a_lost_connection_in_an_unbroken_run(
    raw_server: Start, tmp_path: Path, handler: Callable[[Request], bytes], is_settled: bool
) -> None:
    """A server that is gone for a moment costs an unbroken run no answer and brings no warning."""
    whole = here(tmp_path, *arguments(raw_server(handler)), "--json")
    first = dying_after(OF_A, raw_server, handler)
    box: list[RawServer] = []
    thread = threading.Thread(target=lambda: box.append(taking_over(first, handler)))
    thread.start()
    ran = here(tmp_path, *arguments(first), "--run-id", "gap", "--json")
    thread.join()
    box[0].stop()
    assert (ran.code, ran.data["verdict"], ran.data["accuracy"]) == (0, "PASS", 1.0)
    assert (ran.data["counts"], len(ran.data["warnings"])) == (whole.data["counts"], len(whole.data["warnings"]))
    assert not any("confirmed" in event or "doubt" in event for event in record(ran, tmp_path)["events"])
    found = kinds(tmp_path, "gap").replace(" event", "")
    assert found.startswith("header server answer doubt answer")
    assert ("confirmed" in found, found.endswith(" done")) == (is_settled, True)


def test_what_a_verdict_proposes(raw_server: Start, tmp_path: Path) -> None:
    """After INFRA the proposed command says how many answers it asks again, and does so under the next run's id."""
    first = dying_after(OF_A, raw_server, right)
    box: list[RawServer] = []
    thread = threading.Thread(target=lambda: box.append(taking_over(first, impostor(OF_B))))
    thread.start()
    ran = here(tmp_path, *arguments(first, "client.deadline_s=4"), "--run-id", "two", "--json")
    thread.join()
    box[0].stop()
    assert (ran.code, ran.data["reason_code"]) == (3, "deadline")
    assert f"asks only the {N - OF_A} lost questions" in ran.data["hint"]
    assert "which was not confirmed" not in ran.data["hint"]
    back = taking_over(first, right)
    resumed = here(tmp_path, "run", "--resume", "two", "--json")
    back.stop()
    assert (resumed.code, resumed.data["run_id"], resumed.data["accuracy"]) == (0, "two-r2", 1.0)
    assert sum(map(is_question, back.requests)) == N - OF_A


def hiding(request: Request) -> bytes:
    """Wrong answers of a server that fails to say what it serves."""
    if request.method == "GET":
        return http(503, "not now")
    return http(200, completion(WRONG)) if is_question(request) else right(request)


def test_an_unbroken_run_to_the_end_of_another_server(raw_server: Start, tmp_path: Path) -> None:
    """A server that took over and never says who it is makes no verdict: INFRA, and its answers are asked for again."""
    first = dying_after(OF_A, raw_server, right)
    box: list[RawServer] = []
    thread = threading.Thread(target=lambda: box.append(taking_over(first, hiding)))
    thread.start()
    ran = here(tmp_path, *arguments(first), "--run-id", "two", "--json")
    thread.join()
    box[0].stop()
    assert (ran.code, ran.data["verdict"], ran.data["reason_code"]) == (3, "INFRA", "server-unconfirmed")
    assert ran.data["accuracy"] is None
    stored = record(ran, tmp_path)
    doubtful = [seen for seen in stored["observations"] if seen["text"] == WRONG]
    assert len(doubtful) > OF_B
    assert {seen["failure"]["kind"] for seen in doubtful} == {"unconfirmed"}
    assert stored["counts"]["lost"] == N - OF_A
    assert f"asks only the {N - OF_A} lost questions" in ran.data["hint"]
    assert "which was not confirmed" not in ran.data["hint"]
    back = taking_over(first, right)
    resumed = here(tmp_path, "run", "--resume", "two", "--json")
    assert (resumed.code, resumed.data["run_id"], resumed.data["accuracy"]) == (0, "two-r2", 1.0)
    back.stop()
    assert sum(map(is_question, back.requests)) == N - OF_A
    assert here(tmp_path, "history", "verify").code == 0


def test_another_server_that_dies_makes_no_fail(raw_server: Start, tmp_path: Path) -> None:
    """Enough wrong answers for a FAIL, of a server that took over and is gone before it said who it is, make none."""
    first = dying_after(OF_A, raw_server, right)

    def take_over_and_die() -> None:
        other = taking_over(first, impostor(10))
        wait_for_answers(tmp_path, "two", OF_A + 10)
        other.stop()

    thread = threading.Thread(target=take_over_and_die)
    thread.start()
    ran = here(tmp_path, *arguments(first, "client.outage_s=3"), "--run-id", "two", "--json")
    thread.join()
    assert (ran.code, ran.data["verdict"], ran.data["accuracy"]) == (3, "INFRA", None)
    assert record(ran, tmp_path)["counts"]["correct"] == OF_A
    assert record(ran, tmp_path)["counts"]["wrong"] == 0


@pytest.mark.parametrize("is_back", [True, False], ids=["back", "hidden to the end"])
def test_a_server_that_hides_what_it_was_asked_before(raw_server: Start, tmp_path: Path, is_back: bool) -> None:
    """Who goes on with a run and does not say what the first server said is in doubt from its first answer on."""
    first = dying_after(OF_A, raw_server, right)
    ran = here(tmp_path, *arguments(first, "client.outage_s=1"), "--run-id", "two", "--json")
    assert ran.code == 3
    second = taking_over(first, without_version)
    if is_back:
        process = start(tmp_path, "run", "--resume", "two")
        wait_for_answers(tmp_path, "two-r2", OF_A + OF_B)
        process.kill()
        process.communicate(timeout=60)
    else:
        hidden = here(tmp_path, "run", "--resume", "two", "--json")
        assert (hidden.code, hidden.data["reason_code"]) == (3, "server-unconfirmed")
        assert hidden.data["accuracy"] is None
    second.stop()
    back = taking_over(first, right)
    resumed = here(tmp_path, "run", "--resume", "two", "--json")
    back.stop()
    assert (resumed.code, resumed.data["accuracy"]) == (0, 1.0)
    assert sum(map(is_question, back.requests)) == N - OF_A


def without_version(request: Request) -> bytes:
    """Wrong answers, slowly, under the name of the other server, that has another version and tells none."""
    if request.path == "/version":
        return http(404, "")
    if is_question(request):
        time.sleep(0.1)
        return http(200, completion(WRONG))
    return right(request)
