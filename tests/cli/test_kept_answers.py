"""Journals that somebody touched, that say too much, or that are too full: no verdict comes of them."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, attached, environment, here, record, start, wait_for_answers
from fault_server import question_of
from gatekit.run import kept_text
from raw_server import Request, Start, completion, http
from right_answers import asked, is_question, reference, right

N = 40


def external(url: str, *more: str) -> tuple[str, ...]:
    """The overrides of a run against a server that is there."""
    return attached(url, "client.concurrency=4", *more, n=N)


def silent_after(count: int) -> Callable[[Request], bytes | None]:
    """Answers so many questions, and is silent then."""
    seen: list[int] = []

    def answer(request: Request) -> bytes | None:
        if is_question(request):
            seen.append(1)
            if len(seen) > count:
                return None
        return right(request)

    return answer


def journal_of(folder: Path, run_id: str) -> Path:
    """Where the journal of a run is."""
    return folder / ".gatekit" / "runs" / run_id / "journal.jsonl"


@pytest.fixture
def cut(raw_server: Start, tmp_path: Path) -> Path:
    """A folder with the run `cut`, which was killed after 12 answers of 40."""
    process = start(tmp_path, *external(raw_server(silent_after(12)).url), "--run-id", "cut")
    wait_for_answers(tmp_path, "cut", 12)
    process.kill()
    process.communicate(timeout=30)
    return tmp_path


def going_on(folder: Path, url: str) -> Ran:
    """The run `cut` goes on with the server at `url`."""
    journal = journal_of(folder, "cut")
    lines = journal.read_text().splitlines()
    header = json.loads(lines[0])
    header["header"]["spec"]["engine"]["base_url"] = url
    lines[0] = json.dumps(header, separators=(",", ":"), sort_keys=True)
    journal.write_text("\n".join(lines) + "\n")
    return here(folder, "run", "--resume", "cut", "--json")


def edited(folder: Path, change: Callable[[list[Any]], list[Any]]) -> None:
    """The journal of `cut` with its lines changed."""
    journal = journal_of(folder, "cut")
    lines = change([json.loads(line) for line in journal.read_text().splitlines()])
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_what_nobody_touched_goes_on(cut: Path, raw_server: Start) -> None:
    """The answers that were kept are read as they were scored, so that the rest alone is asked."""
    server = raw_server(right)
    ran = going_on(cut, server.url)
    assert (ran.code, ran.data["verdict"], asked(server)) == (0, "PASS", 28)


def test_answers_that_nobody_gave(cut: Path, raw_server: Start) -> None:
    """Answers before any server is named compare with no server, and are not gone on with."""
    edited(cut, lambda lines: [line for line in lines if "server" not in line])
    server = raw_server(right)
    ran = going_on(cut, server.url)
    assert (ran.code, ran.data["reason_code"], asked(server)) == (3, "journal-broken", 0)
    assert "no line before it says whose" in ran.data["reason"]


CHANGED: dict[str, dict[str, object]] = {
    "a status": {"status": "wrong"},
    "a number that was read": {"predicted": "77"},
    "a text": {"text": "#### 987654321"},
    "attempts": {"attempts": -5},
    "tokens": {"prompt_tokens": -1},
    "a latency": {"latency_s": float("nan")},
    "an endless latency": {"latency_s": float("inf")},
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_a_kept_answer_is_read_again(cut: Path, raw_server: Start, change: dict[str, object]) -> None:
    """An answer that is scored otherwise than it reads, or whose numbers no record may hold, is named by its line."""
    touched: list[int] = []

    def one(lines: list[Any]) -> list[Any]:
        for number, line in enumerate(lines, start=1):
            if "answer" in line and len(touched) < 1:
                touched.append(number)
                line["answer"].update(change)
        return lines

    edited(cut, one)
    server = raw_server(right)
    ran = going_on(cut, server.url)
    assert (ran.code, ran.data["reason_code"], asked(server)) == (3, "journal-broken", 0)
    assert f"broken: line {touched[0]}: " in ran.data["reason"]


def test_done_is_believed_only_where_every_answer_is_there(raw_server: Start, tmp_path: Path) -> None:
    """A journal that says it is done and lacks answers asks for them, and then is done."""
    server = raw_server(right)
    whole = here(tmp_path, *external(server.url), "--run-id", "whole", "--json")
    assert whole.code == 0
    journal = journal_of(tmp_path, "whole")
    elsewhere = tmp_path / "elsewhere" / "runs" / "whole" / "journal.jsonl"
    elsewhere.parent.mkdir(parents=True)
    lines = journal.read_bytes().splitlines(keepends=True)
    answers = [line for line in lines if line.startswith(b'{"answer"')]
    assert lines[-1].startswith(b'{"done"')
    elsewhere.write_bytes(b"".join(line for line in lines if line not in answers[:15]))
    before = asked(server)
    ran = here(tmp_path, "run", "--resume", "whole", "--dir", "elsewhere", "--json")
    assert (ran.code, ran.data["verdict"], ran.data["counts"]) == (0, "PASS", whole.data["counts"])
    assert asked(server) - before == 15
    events = record(ran, tmp_path)["events"]
    assert any(
        "resumed at 25 of 40 answers, after the part before said that every answer was there" in e for e in events
    )


def test_a_run_that_lost_answers_goes_on(raw_server: Start, tmp_path: Path) -> None:
    """A recorded INFRA whose questions were all asked goes on with those that it lost, once they can be answered."""
    is_broken = [True]

    def answer(request: Request) -> Any:
        number = question_of(request)
        return http(500, "") if is_broken[0] and number is not None and number % 4 == 0 else right(request)

    server = raw_server(answer)
    ran = here(tmp_path, *external(server.url, "client.attempts=1"), "--run-id", "lost", "--json")
    assert (ran.code, ran.data["reason_code"], ran.data["counts"]["lost"]) == (3, "lost-answers-decide", 10)
    before = asked(server)
    again = here(tmp_path, "run", "--resume", "lost", "--json")
    assert (again.code, again.data["run_id"], again.data["counts"]["lost"]) == (3, "lost-r2", 10)
    assert asked(server) - before == 10
    is_broken[0] = False
    ran = here(tmp_path, "run", "--resume", "lost", "--json")
    assert (ran.code, ran.data["verdict"], ran.data["run_id"]) == (0, "PASS", "lost-r3")
    assert asked(server) - before == 20
    assert any("ended by its verdict; server start 3" in event for event in record(ran, tmp_path)["events"])


def test_too_much_text_is_infra_and_readable(
    raw_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose texts are more than a record may hold ends as INFRA; its record can be read and it cannot go on."""
    monkeypatch.setattr(kept_text, "MAX_ANSWERS_BYTES", 100_000)

    def long(request: Request) -> bytes:
        if not is_question(request):
            return right(request)
        return http(200, completion("x" * 9_000 + "\n" + reference(request.data["prompt"])))

    ran = here(tmp_path, *external(raw_server(long).url), "--run-id", "full", "--json")
    assert (ran.code, ran.data["verdict"], ran.data["reason_code"]) == (3, "INFRA", "answers-too-large")
    assert "protocol.max_tokens" in ran.data["hint"]
    assert "--resume" not in ran.data["hint"]
    assert 0 < ran.data["counts"]["lost"] < N
    assert here(tmp_path, "explain", "full").code == 0
    assert here(tmp_path, "history", "verify").code == 0
    again = here(tmp_path, "run", "--resume", "full")
    assert (again.code, "is finished: INFRA" in again.err) == (2, True)


def test_long_reasoning_is_kept_in_part(raw_server: Start, tmp_path: Path) -> None:
    """A PASS with reasoning of a megabyte an answer has a small record, which every reader reads."""

    def thinking(request: Request) -> bytes:
        if not is_question(request):
            return right(request)
        body = completion(reference(request.data["prompt"]))
        body["choices"][0]["reasoning_content"] = "x " * 400_000
        return http(200, body)

    ran = here(tmp_path, *external(raw_server(thinking).url), "--run-id", "thinking", "--json")
    assert (ran.code, ran.data["verdict"]) == (0, "PASS")
    stored = tmp_path / ran.data["record"]
    assert stored.stat().st_size < N * 34_000
    assert "characters left out" in record(ran, tmp_path)["observations"][0]["reasoning"]
    assert here(tmp_path, "explain", "thinking").code == 0
    assert here(tmp_path, "history", "verify").code == 0


def versions(*found: bytes, then: bytes) -> Callable[[Request], bytes]:
    """Answers rightly, and its version with each of these, then always with the last."""
    left = list(found)

    def answer(request: Request) -> bytes:
        if request.path == "/version":
            return left.pop(0) if left else then
        return right(request)

    return answer


def test_a_version_that_cannot_be_read_at_once(raw_server: Start, tmp_path: Path) -> None:
    """A version that fails once is asked for again, so that another one later is a change and never a PASS."""
    handler = versions(http(500, ""), http(200, {"version": "1.2"}), then=http(200, {"version": "6.6"}))
    ran = here(tmp_path, *external(raw_server(handler).url), "--json")
    assert (ran.code, ran.data["reason_code"]) == (3, "server-changed")
    assert "version 1.2 before" in ran.data["reason"]


def test_a_version_that_stays_unread_is_told(raw_server: Start, tmp_path: Path) -> None:
    """Without a version nothing is verified, which is a warning; a server that has no version is as ever."""
    failing = here(tmp_path, *external(raw_server(versions(then=http(500, ""))).url), "--json")
    assert (failing.code, failing.data["verdict"]) == (0, "PASS")
    assert any("not verified: the server's version could not be read" in one for one in failing.data["warnings"])
    for status in (404, 501):
        none = here(tmp_path, *external(raw_server(versions(then=http(status, ""))).url), "--json")
        assert (none.code, "could not be read" in json.dumps(none.data["warnings"])) == (0, False)


def test_a_version_that_is_known_later_is_compared_with(raw_server: Start, tmp_path: Path) -> None:
    """What became known of a server is kept in its journal, so that no other one goes on with the run."""
    is_broken = [True]
    version = [http(200, {"version": "1.2"})]

    def answer(request: Request) -> bytes:
        if request.path == "/version":
            is_asked = asked(server) > 0
            return version[0] if is_asked else http(503, "")
        number = question_of(request)
        return http(500, "") if is_broken[0] and number is not None and number % 4 == 0 else right(request)

    server = raw_server(answer)
    ran = here(tmp_path, *external(server.url, "client.attempts=1"), "--run-id", "late", "--json")
    assert (ran.code, ran.data["reason_code"]) == (3, "lost-answers-decide")
    is_broken[0], version[0] = False, http(200, {"version": "6.6"})
    ran = here(tmp_path, "run", "--resume", "late", "--json")
    assert (ran.code, ran.data["reason_code"]) == (3, "server-changed")
    assert "version 1.2 then, 6.6 now" in ran.data["reason"]


def limited(folder: Path, kib: int, *more: str) -> Ran:
    """A run of the simulated model that may have so much memory, with a time limit."""
    words = ("task.n=40", "engine.latency.median_s=0", "gate=static_floor", "gate.floor=0.5", *more)
    done = subprocess.run(
        ["sh", "-c", f'ulimit -v {kib}; exec "$@"', "sh", sys.executable, "-m", "gatekit", *words],
        cwd=folder,
        env=environment({"OPENBLAS_NUM_THREADS": "2"}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.mark.parametrize("kib", [120_000, 300_000, 350_000, 400_000])
def test_a_machine_that_gives_too_little_memory(tmp_path: Path, kib: int) -> None:
    """Too little memory is the machine's fault, exit 3: no bug, never exit code 1, and nothing hangs."""
    ran = limited(tmp_path, kib)
    assert (ran.code, ran.err.rstrip().endswith("[machine-exhausted]")) == (3, True), ran.err


def test_no_more_threads_in_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine refuses on the way, whoever meets it, is INFRA with its reason, in one run and in several."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    one = here(tmp_path, "task.n=40", "--json")
    assert (one.code, one.data["reason_code"]) == (3, "machine-exhausted")
    assert "can't start new thread" in one.data["reason"]
    several = here(tmp_path, "-m", "task.n=40,41", "--json")
    assert several.code == 3
    assert [ran["reason_code"] for ran in several.data["runs"]] == ["machine-exhausted"] * 2
