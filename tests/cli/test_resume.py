"""Runs that are cut off and go on: what is asked again, what is refused, and what a signal leaves."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import shlex
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import killed_runs
from command_line import attached, here, record, servers, start, wait_for_answers
from fault_server import question_of
from raw_server import Handler, RawServer, Request, Start, completion, http, in_place_of
from right_answers import asked, is_question, reference

N = 40
SLOW = (
    "task.n=40",
    "engine.flip_seed=7",
    "engine.latency.median_s=0.3",
    "engine.latency.sigma=0",
    "client.concurrency=4",
)


def numbers(server: RawServer) -> Counter[int | None]:
    """How often each question reached the server."""
    return Counter(question_of(request) for request in server.requests if is_question(request))


def answering(
    version: str = "1.2", *, after: int | None = None, then: Callable[[], bytes | None] | None = None
) -> Handler:
    """Answers every question rightly; from the question number `after` on it does what `then` does."""
    lock, count = threading.Lock(), Counter[str]()

    def answer(request: Request) -> bytes | None:
        if request.path == "/v1/models":
            return http(200, {"object": "list", "data": [{"id": "m"}]})
        if request.path != "/v1/completions":
            return http(200, {"version": version} if request.path == "/version" else "")
        if is_question(request) and after is not None and then is not None:
            with lock:
                count["asked"] += 1
                if count["asked"] > after:
                    return then()
        return http(200, completion(reference(request.data["prompt"])))

    return answer


def slowly(handler: Handler) -> Handler:
    """The same with a pause before each question is answered."""

    def answer(request: Request) -> Any:
        time.sleep(0.5 if is_question(request) else 0)
        return handler(request)

    return answer


def external(url: str, *more: str) -> tuple[str, ...]:
    """The overrides of a run against a server that is there."""
    return attached(url, "client.concurrency=4", "client.outage_s=1", *more, n=N)


def dying(raw_server: Start, after: int) -> RawServer:
    """A server that is gone after so many answers."""
    box: list[RawServer] = []

    def die() -> None:
        threading.Thread(target=box[0].stop).start()
        time.sleep(5)

    box.append(raw_server(answering(after=after, then=die)))
    return box[0]


def test_a_server_that_dies(raw_server: Start, tmp_path: Path) -> None:
    """E37: INFRA with the answers kept; going on asks only the others, and ends with the record of an unbroken run."""
    whole = here(tmp_path, *external(raw_server(answering()).url), "--run-id", "whole", "--json")
    first = dying(raw_server, 24)
    ran = here(tmp_path, *external(first.url), "--run-id", "broken", "--json")
    assert (ran.code, ran.data["verdict"], ran.data["reason_code"]) == (3, "INFRA", "server-unreachable")
    assert ran.data["counts"]["lost"] == 16
    assert "gatekit run --resume broken" in ran.data["hint"]
    other = tmp_path / ".gatekit" / "runs" / "broken-r2"
    shutil.copytree(other.with_name("whole"), other)  # somebody's own run, which only happens to be named so
    second = in_place_of(first, answering())
    try:
        resumed = here(tmp_path, "run", "--resume", "broken", "--json")
    finally:
        second.stop()
    assert (resumed.code, resumed.data["verdict"], resumed.data["run_id"]) == (0, "PASS", "broken-r3")
    answered = {seen["question_id"] for seen in record(ran, tmp_path)["observations"] if seen["status"] != "lost"}
    assert numbers(second) == Counter(index for index in range(N) if index not in answered)
    scored = [killed_runs.scored_part(record(one, tmp_path)) for one in (whole, resumed)]
    assert re.sub(r"http://127.0.0.1:\d+", "", scored[0]) == re.sub(r"http://127.0.0.1:\d+", "", scored[1])
    assert any("resumed at 24 of 40 answers" in event for event in record(resumed, tmp_path)["events"])
    done = here(tmp_path, "run", "--resume", "broken")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "run broken-r3 is finished: PASS" in done.err


def test_a_server_that_comes_back(raw_server: Start, tmp_path: Path) -> None:
    """E38: a server that is gone for three seconds and comes back the same costs no verdict; the gap is recorded."""
    first = dying(raw_server, 24)
    box: list[RawServer] = []

    def come_back() -> None:
        while not first._over.wait(0.05):
            pass
        time.sleep(3)
        box.append(in_place_of(first, answering()))

    thread = threading.Thread(target=come_back)
    thread.start()
    ran = here(tmp_path, *external(first.url, "client.outage_s=60"), "--json")
    thread.join()
    box[0].stop()
    assert (ran.code, ran.data["verdict"], ran.data["accuracy"]) == (0, "PASS", 1.0)
    assert any(re.search(r"no answer for \d+\.\d s at answer 24", event) for event in record(ran, tmp_path)["events"])
    assert asked(box[0]) == 16


def test_a_server_that_changes_on_the_way(raw_server: Start, tmp_path: Path) -> None:
    """E39: a server that comes back as another version ends the run at once, and its answers are never gone on with."""
    first = dying(raw_server, 24)
    box: list[RawServer] = []

    def come_back() -> None:
        while not first._over.wait(0.05):
            pass
        box.append(in_place_of(first, slowly(answering("1.3"))))

    thread = threading.Thread(target=come_back)
    thread.start()
    ran = here(tmp_path, *external(first.url, "client.outage_s=60"), "--run-id", "two", "--json")
    thread.join()
    assert (ran.code, ran.data["verdict"], ran.data["reason_code"]) == (3, "INFRA", "server-changed")
    resumed = here(tmp_path, "run", "--resume", "two")
    box[0].stop()
    assert asked(box[0]) < 16, "the rest was asked for nothing"
    assert (resumed.code, resumed.err.splitlines()[-1].endswith("[server-changed]")) == (3, True)
    assert "starting engine" not in resumed.err


def interrupted(
    folder: Path, run_id: str, *overrides: str, at: int = 4, number: int = signal.SIGINT
) -> tuple[int, str]:
    """The exit code and stderr of a run that gets a signal once `at` answers are in its journal."""
    process = start(folder, *overrides, "--run-id", run_id)
    wait_for_answers(folder, run_id, at)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def test_another_server_is_refused_and_the_first_goes_on(raw_server: Start, tmp_path: Path) -> None:
    """E39: going on with another version is INFRA before a question is asked; the journal stays for the first one."""
    gate = threading.Event()

    def slow() -> bytes:
        gate.wait(60)
        return http(500, "")

    first = raw_server(answering(after=12, then=slow))
    code, err = interrupted(tmp_path, "two", *external(first.url), at=12)
    gate.set()
    assert (code, "SIGINT after 12 of 40 answers" in err) == (130, True)
    journal = tmp_path / ".gatekit" / "runs" / "two" / "journal.jsonl"
    before = journal.read_bytes()
    first.stop()
    other = in_place_of(first, answering("1.3"))
    ran = here(tmp_path, "run", "--resume", "two", "--json")
    other.stop()
    assert (ran.code, ran.data["reason_code"]) == (3, "server-changed")
    assert "version 1.2 then, 1.3 now" in ran.data["reason"]
    assert (asked(other), journal.read_bytes()) == (0, before)
    same = in_place_of(first, answering())
    ran = here(tmp_path, "run", "--resume", "two", "--json")
    same.stop()
    assert (ran.code, ran.data["verdict"], ran.data["run_id"]) == (0, "PASS", "two")
    assert asked(same) == 28


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGHUP, 143, marks=pytest.mark.slow)]
)
def test_a_signal_prints_the_command_that_goes_on(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """P01, P03: what is in flight is kept, the server is gone, and the printed command ends the run as if unbroken."""
    conf = tmp_path / "my conf" / "gate"
    conf.mkdir(parents=True)
    (conf / "mine.yaml").write_text("name: mine\nmethod: static_floor\nfloor: 0.5\n")
    overrides = (*SLOW, "gate=mine", "history.dir=my runs")
    run_id = f"cut-{os.getpid()}-{number.name}"
    process = start(tmp_path, "--config-dir", "my conf", *overrides, "--run-id", run_id)
    journal = tmp_path / "my runs" / "runs" / run_id / "journal.jsonl"
    deadline = time.monotonic() + 90
    while not journal.exists() or b'"answer"' not in journal.read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (code, "")
    assert servers(run_id) == []
    kept = [json.loads(line) for line in journal.read_bytes().splitlines()]
    assert kept[-1] == {"end": number.name}
    count = sum("answer" in line for line in kept)
    assert count >= 4, "a drained run keeps what was in flight"
    assert f"{number.name} after {count} of 40 answers" in err
    command = err.rsplit("go on with `", 1)[1].partition("`")[0]
    words = shlex.split(command)
    assert words[:4] == ["gatekit", "run", "--resume", run_id]
    assert words[4:] == ["--dir", "my runs"], "the run kept all else"
    ran = here(tmp_path, *words[1:], "--json")
    assert (ran.code, ran.data["verdict"], ran.data["run_id"]) == (0, "PASS", run_id)
    events = record(ran, tmp_path)["events"]
    assert f"resumed at {count} of 40 answers, after the part before ended by {number.name}; server start 2" in events


def test_the_second_signal_stops_at_once(tmp_path: Path) -> None:
    """P02: a second Ctrl-C waits neither for answers nor for the server's own end, and leaves nothing running."""
    run_id = f"hasty-{os.getpid()}"
    overrides = ("task.n=40", "engine.latency.median_s=60", "engine.latency.sigma=0", "--run-id", run_id)
    process = start(tmp_path, *overrides)
    deadline = time.monotonic() + 90
    assert process.stderr is not None
    while "asking" not in process.stderr.readline():
        assert time.monotonic() < deadline
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    began_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - began_s < 2.5
    assert process.returncode == 130
    assert f"--resume {run_id}" in err
    assert servers(run_id) == []


def cut_off(folder: Path, run_id: str, *overrides: str) -> None:
    """A run that was killed after a few answers."""
    process = start(folder, *overrides, "--run-id", run_id)
    wait_for_answers(folder, run_id, 4)
    process.kill()
    process.communicate(timeout=30)
    killed_runs.await_no_server(run_id)


def test_what_is_refused(tmp_path: Path) -> None:
    """Another spec, a damaged journal, a run that is going on, rival options: one line each, nothing asked."""
    run_id = f"cut-{os.getpid()}"
    cut_off(tmp_path, run_id, *SLOW)
    journal = tmp_path / ".gatekit" / "runs" / run_id / "journal.jsonl"
    before = journal.read_bytes()

    def refused(code: int, reason: str, *arguments: str) -> str:
        ran = here(tmp_path, *arguments)
        assert (ran.code, ran.err.splitlines()[-1].endswith(f"[{reason}]")) == (code, True), ran.err
        assert "starting engine" not in ran.err
        assert journal.read_bytes() == before
        return ran.err

    other = (*SLOW[1:], "task.n=41", "gate=static_floor", "gate.floor=0.5", "--run-id", run_id)
    assert "another gate.floor, gate.method" in refused(2, "resume-differs", *other)
    assert "protocol.max_tokens" in refused(2, "resume-differs", *SLOW, "protocol.max_tokens=99", "--run-id", run_id)
    assert f"unfinished there: {run_id}" in refused(2, "no-such-run", "run", "--resume", "cut")
    refused(2, "bad-arguments", "run", "--resume", run_id, "--run-id", "x")
    refused(2, "no-such-run", "run", "--resume", run_id, "--dir", "x", "task.n=40")
    refused(2, "bad-arguments", "run", "--resume", run_id, "--dir", "x", "history.dir=y")
    refused(2, "bad-run-id", "run", "--resume", "../x")
    with journal.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused(2, "run-is-running", "run", "--resume", run_id)
    changed = before.replace(b'"accuracy":0.95', b'"accuracy":9.95')
    journal.write_bytes(changed)
    before = changed
    refused(2, "out-of-range", "run", "--resume", run_id)
    if os.geteuid() == 0:  # only root can give a file away; a spec names programs to start
        os.chown(journal, 65534, 65534)
        refused(2, "resume-foreign", "run", "--resume", run_id)


def test_the_same_run_id_goes_on(tmp_path: Path) -> None:
    """A command that is repeated with its --run-id goes on; unfinished runs are no damage, and are listed as such."""
    run_id = f"cut-{os.getpid()}"
    overrides = [each for each in SLOW if "flip_seed" not in each]
    cut_off(tmp_path, run_id, *overrides)
    verified = here(tmp_path, "history", "verify")
    assert (verified.code, f"1 unfinished run, such as {run_id}" in verified.out) == (0, True)
    listed = here(tmp_path, "history", "list")
    assert (listed.code, f"gatekit run --resume {run_id}" in listed.out) == (0, True)
    kept = killed_runs.kept_by(tmp_path, run_id) or 0
    ran = here(tmp_path, *overrides, "client.concurrency=8", "--run-id", run_id, "--json")
    assert (ran.code, ran.data["verdict"]) == (0, "PASS")
    assert (
        f"resumed at {kept} of 40 answers, after the part before was killed; server start 2"
        in record(ran, tmp_path)["events"]
    )
    assert "unfinished" not in here(tmp_path, "history", "list").out
    assert here(tmp_path, *overrides, "--run-id", run_id).code == 2
    lines = (tmp_path / ".gatekit" / "runs" / run_id / "journal.jsonl").read_bytes().splitlines()
    seeds = [found["server"]["flip_seed"] for found in map(json.loads, lines) if "server" in found]
    assert (len(seeds), len(set(seeds))) == (2, 1), "a simulated model without a stated seed flips as it did"


def test_only_the_verdict_was_missing(tmp_path: Path) -> None:
    """A run whose record could not be written goes on without a server: every answer is there."""
    run_id = "full"
    whole = here(tmp_path, "task.n=40", "engine.latency.median_s=0", "--run-id", run_id, "--json")
    kept = (tmp_path / whole.data["record"]).read_text()
    elsewhere = tmp_path / "elsewhere" / "runs" / run_id
    elsewhere.mkdir(parents=True)
    (tmp_path / ".gatekit" / "runs" / run_id / "journal.jsonl").rename(elsewhere / "journal.jsonl")
    ran = here(tmp_path, "run", "--resume", run_id, "--dir", "elsewhere", "--json")
    assert "starting engine" not in ran.err
    assert ran.code == whole.code
    assert killed_runs.scored_part(record(ran, tmp_path)) == killed_runs.scored_part(json.loads(kept))
    replayed = f"replayed-{os.getpid()}"
    replay = ("engine=replay", f"engine.answers={whole.data['record']}", "engine.latency={median_s: 0.3, sigma: 0}")
    cut_off(tmp_path, replayed, *replay, "task.n=40", "client.concurrency=4")
    ran = here(tmp_path, "run", "--resume", replayed, "--json")
    assert (ran.code, ran.data["counts"]) == (whole.code, whole.data["counts"]), "a replay goes on too"


def test_killed_at_random_instants(tmp_path: Path) -> None:
    """P04: whenever it is killed, no acknowledged answer is lost and the record is that of an unbroken run."""
    check_kills(tmp_path, 4, "task.n=200", "client.concurrency=8")


@pytest.mark.slow
def test_killed_two_hundred_times(tmp_path: Path) -> None:
    """P04 at full size: 200 kills of a run of 1,319 questions."""
    check_kills(tmp_path, 200)


def check_kills(folder: Path, count: int, *more: str) -> None:
    """Kill one in eight while it starts, the others from their first question to a moment after their record."""
    overrides = ("engine.flip_seed=7", "engine.latency.median_s=0.1", *more)
    (folder / "whole").mkdir()
    whole = killed_runs.unbroken(folder / "whole", *overrides)
    dice = random.Random(7)

    def one(number: int) -> killed_runs.Killed:
        place = folder / f"killed-{number}"
        place.mkdir()
        is_early = number % 8 == 7
        after_s = dice.uniform(0, whole.start_s if is_early else 1.1 * whole.asking_s)
        run_id = f"killed-{os.getpid()}-{number}"
        return killed_runs.kill_and_go_on(place, run_id, after_s, *overrides, from_start=is_early)

    with ThreadPoolExecutor(2) as pool:
        killed = list(pool.map(one, range(count)))
    assert [one.lost for one in killed] == [0] * count
    assert [one.exit_code for one in killed] == [0] * count
    assert [one.scored == whole.scored for one in killed] == [True] * count
    assert any(one.kept > 0 for one in killed), "none was killed while it asked"
