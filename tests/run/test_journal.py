"""The journal of a run: what it promises, what it forgives, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import environment
from gatekit.errors import ConfigError, InfraError
from gatekit.records.answers import Failure, FailureKind, Observation, Status
from gatekit.records.run import Comparability
from gatekit.run import journal as journal_module
from gatekit.run.journal import Journal, read_journal
from gatekit.run.journal_lines import Done, Header, Kept, ServerSeen, line_of
from gatekit.run.resume import answered
from spec_builders import spec_of

SERVER = ServerSeen(models=("m",), version="1", flip_seed="7")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the journal of a run is."""
    return tmp_path / "journal.jsonl"


def header(run_id: str = "night") -> Header:
    return Header(
        record=1,
        run_id=run_id,
        gatekit_version="0.1.0",
        began_at="2026-01-01T00:00:00Z",
        spec=spec_of(),
        comparability=Comparability(key="sha256:0", fields={"n": 3}),
    )


def right(question_id: int) -> Observation:
    return Observation(question_id=question_id, status=Status.CORRECT, expected="4", text="4 \n\x00\ud800é", attempts=1)


def lost(question_id: int) -> Observation:
    why = Failure(kind=FailureKind.TIMEOUT, detail="no answer")
    return Observation(question_id=question_id, status=Status.LOST, expected="4", attempts=5, failure=why)


def kept(path: Path) -> Kept:
    found = read_journal(path)
    assert found is not None
    return found


@pytest.fixture
def filled(path: Path) -> Path:
    """A journal of three answers, one lost and asked again."""
    with Journal(path) as journal:
        journal.begin(header())
        journal.server(SERVER)
        journal.event("ready after 0.1 s")
        for seen in (right(2), lost(0), right(1), replace(right(0), attempts=6)):
            journal.answer(seen)
        journal.end("SIGINT")
    return path


def test_everything_that_was_written_is_read_again(filled: Path) -> None:
    """Header, server, events, the end, and answers in order of completion come back as they were; mode 0600."""
    found = kept(filled)
    assert found.header == header()
    assert found.servers == (SERVER,)
    assert found.events == ("ready after 0.1 s",)
    assert (found.end, found.spoiled, found.done) == ("SIGINT", None, None)
    assert [(seen.question_id, seen.attempts) for seen in found.answers] == [(2, 1), (1, 1), (0, 6)]
    assert found.answers[0] == right(2)
    assert found.size == filled.stat().st_size
    assert filled.stat().st_mode & 0o777 == 0o600


def test_a_torn_tail_is_forgotten_and_overwritten(filled: Path, tmp_path: Path) -> None:
    """Cut anywhere, a journal holds every whole line before the cut, and the next one follows the last whole line."""
    whole = filled.read_bytes()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == 0x0A]
    near_ends = {size for end in ends for size in (end - 1, end, end + 1) if size <= len(whole)}
    for size in sorted({*range(0, len(whole), 499), *near_ends}):
        torn = tmp_path / "torn"
        torn.write_bytes(whole[:size])
        with Journal(torn) as journal:
            before = 0 if journal.kept is None else journal.kept.size
            assert before == max((end for end in ends if end <= size), default=0)
            journal.begin(header())
            journal.server(SERVER)
            journal.answer(right(77))
        last = kept(torn).answers[-1]
        assert last == right(77)


@pytest.mark.parametrize("tail", [b"\0" * 4096, b"\0" * 10 + b"\n", b'{"answer":{"attempts"'])
def test_blocks_that_never_reached_the_disk(filled: Path, tail: bytes) -> None:
    """After a power cut zeros may stand behind the last line; they hide nothing before them."""
    size = filled.stat().st_size
    with filled.open("ab") as file:
        file.write(tail)
    assert kept(filled).size == size
    with Journal(filled) as journal:
        journal.begin(header())
    assert filled.stat().st_size == size


HOSTILE = {
    "no JSON": b"nonsense\n",
    "deep": b"[" * 100_000 + b"\n",
    "a list": b"[1]\n",
    "two keys": b'{"answer":{},"event":"x"}\n',
    "an unknown kind": b'{"exec":"rm"}\n',
    "an answer that lacks its status": b'{"answer":{"question_id":9,"attempts":1}}\n',
    "a second answer": line_of("answer", right(2)),
    "an event that is none": b'{"event":[]}\n',
    "a number with a million digits": b'{"answer":{"question_id":' + b"9" * 1_000_000 + b"}}\n",
    "a second header": line_of("header", header()),
}


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE)
def test_a_line_that_no_gatekit_wrote_is_refused(filled: Path, line: bytes) -> None:
    """A whole line that is no line of a journal makes the file broken, told in one line with its number."""
    with filled.open("ab") as file:
        file.write(line + line_of("event", "more"))
    with pytest.raises(InfraError, match=r"journal\.jsonl is broken: line 9: ") as caught:
        read_journal(filled)
    assert caught.value.reason == "journal-broken"
    assert len(caught.value.lines()[0]) < 600


@pytest.mark.parametrize("first", [b"{}\n", b'{"header":{"journal":2}}\n', b'{"header":[]}\n', line_of("event", "x")])
def test_another_beginning_is_refused(path: Path, first: bytes) -> None:
    """What does not begin with the header of this format is not gone on with."""
    path.write_bytes(first + line_of("event", "x"))
    with pytest.raises(InfraError, match="line 1: it "):
        read_journal(path)


def test_a_header_of_another_version_says_so(filled: Path) -> None:
    """A spec with keys that this gatekit does not know was begun by another one, which is named."""
    text = filled.read_bytes().replace(b'"max_tokens":', b'"most_tokens":', 1)
    filled.write_bytes(text)
    with pytest.raises(InfraError, match=r"begun by gatekit '0\.1\.0'.*: Protocol has no field 'most_tokens'"):
        read_journal(filled)


def test_reading_is_bounded(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line or a file beyond its limit is refused before it fills the memory."""
    with filled.open("r+b") as file:
        file.truncate(journal_module.MAX_JOURNAL_BYTES + 1)
    with pytest.raises(InfraError, match="more than the limit"):
        read_journal(filled)
    with filled.open("r+b") as file:
        file.truncate(300 * 2**20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InfraError, match="line 9 is too long"):
        read_journal(filled)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_what_is_no_file(path: Path, kind: str) -> None:
    """A folder, a pipe and a device in its place are told, and nobody waits for them."""
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(InfraError), Journal(path):
        pass
    with pytest.raises(InfraError):
        read_journal(path)


def test_one_writer(filled: Path) -> None:
    """While one process has a journal open no other can, and a killed one holds it no longer."""
    script = "import sys,time\nfrom pathlib import Path\nfrom gatekit.run.journal import Journal\n"
    script += "with Journal(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)\n"
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(filled)], env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    with other, other.stdout:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ConfigError) as caught, Journal(filled):
            pass
        assert caught.value.reason == "run-is-running"
        other.kill()
        other.wait(10)
    with Journal(filled) as journal:
        assert journal.kept is not None


def test_nothing_is_told_before_it_is_on_the_disk(path: Path) -> None:
    """`synced` follows `written` within moments, and `on_synced` is called only for what is on the disk."""

    async def write() -> list[tuple[int, int]]:
        told: list[tuple[int, int]] = []
        task = asyncio.create_task(journal.sync_often(lambda: told.append((journal.synced, journal.written))))
        for number in range(50):
            journal.answer(right(number))
            await asyncio.sleep(0.01)
        end_s = time.monotonic() + 30
        while journal.synced < journal.written and time.monotonic() < end_s:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return told

    with Journal(path) as journal:
        journal.begin(header())
        told = asyncio.run(write())
        assert journal.synced == journal.written == 51
    assert all(synced <= written for synced, written in told)
    assert 1 <= len(told) < 25, "one sync serves many answers"


@pytest.fixture
def full_disk(path: Path) -> Iterator[None]:
    """No file of this process may grow beyond 16 KiB."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16384, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("full_disk")
def test_a_disk_that_takes_no_more(path: Path) -> None:
    """The write that fails is told; nothing follows its half line, and what was whole is kept."""
    with Journal(path) as journal:
        journal.begin(header())
        journal.server(SERVER)
        written = 0
        with pytest.raises(InfraError) as caught:  # noqa: PT012 - which of many writes fails is not known
            while True:
                journal.answer(right(written))
                written += 1
        assert caught.value.reason == "journal-write"
        size = path.stat().st_size
        with pytest.raises(InfraError):
            journal.answer(right(99_999))
        journal.end("SIGINT")
        assert path.stat().st_size == size
    found = kept(path)
    assert answered(found) == written
    assert found.end is None


def test_what_ended_and_what_spoils(filled: Path) -> None:
    """A new part takes back how the last one ended; that answers are of two servers is never taken back."""
    with Journal(filled) as journal:
        journal.begin(header())
        journal.spoil("the server changed")
        journal.server(SERVER)
        journal.done(Done(served=None, stopped_early="enough", warnings=("w",)))
    found = kept(filled)
    assert (found.end, found.spoiled) == (None, "the server changed")
    assert found.done == Done(served=None, stopped_early="enough", warnings=("w",))
    assert len(found.servers) == 2


def test_lines_are_json_for_anybody(filled: Path) -> None:
    """Each line is one JSON object with one key, so that other programs can read it."""
    kinds = [next(iter(json.loads(line))) for line in filled.read_bytes().splitlines()]
    assert kinds == ["header", "server", "event", *["answer"] * 4, "end"]
