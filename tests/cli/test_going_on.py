"""How a run that was cut off goes on: the command that is told works as it is pasted, and a refusal writes nothing."""

from __future__ import annotations

import re
import shlex
import threading
import time
from argparse import Namespace
from pathlib import Path

import pytest

from command_line import Ran, attached, here, record
from gatekit.cli.resuming import way_on
from raw_server import RawServer, Request, Start, http
from right_answers import asked, is_question, right
from spec_builders import spec_of

N = 40
PLACE = "my runs"


class Service:
    """A server whose version and whose failures a test sets while it runs."""

    def __init__(self, *, after: int | None = None) -> None:
        self.version = "1.2"
        self.later_version = self.version
        self.after = after
        self.pause_s = 0.0
        self._count = 0
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> bytes:
        """Right answers, and a 500 for every question behind number `after`."""
        if request.path == "/version":
            return http(200, {"version": self.version})
        if is_question(request):
            time.sleep(self.pause_s)
            with self._lock:
                self._count += 1
                is_broken = self.after is not None and self._count > self.after
            if is_broken:
                self.version = self.later_version
                return http(500, "")
        return right(request)

    def mend(self) -> None:
        """Answer everything from now on."""
        self.after = None


def broken(raw_server: Start, tmp_path: Path, service: Service, *more: str) -> tuple[RawServer, Ran]:
    """A run named dx that lost questions, and its server."""
    server = raw_server(service)
    return server, here(tmp_path, *overrides(server, *more), "--run-id", "dx", "--json")


def overrides(server: RawServer, *more: str) -> tuple[str, ...]:
    pace = ("client.concurrency=1", "client.attempts=1", f"history.dir={PLACE}")
    return attached(server.url, *pace, *more, n=N)


def told(ran: Ran) -> list[str]:
    """The words of the command that a verdict's hint proposes to go on with."""
    found = re.search(r"`(gatekit run --resume [^`]*)`", ran.data["hint"])
    assert found is not None, ran.data["hint"]
    return shlex.split(found[1])


def folders(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / PLACE / "runs").iterdir())


def test_the_command_is_short_and_works(raw_server: Start, tmp_path: Path) -> None:
    """What a verdict proposes is the run's id and folder, without three dots, and goes on as it is pasted."""
    service = Service(after=24)
    server, ran = broken(raw_server, tmp_path, service, "engine.args=[]")
    assert (ran.code, ran.data["counts"]["lost"]) == (3, 16)
    words = told(ran)
    assert words == ["gatekit", "run", "--resume", "dx", "--dir", PLACE, "--json"]
    service.mend()
    before = asked(server)
    resumed = here(tmp_path, *words[1:])
    assert (resumed.code, resumed.data["verdict"], resumed.data["run_id"]) == (0, "PASS", "dx-r2")
    assert asked(server) - before == 16


def test_the_same_command_again(raw_server: Start, tmp_path: Path) -> None:
    """A scheduler that repeats its command, run id included, goes on after INFRA; it is told so, in one line."""
    service = Service(after=24)
    server, _ = broken(raw_server, tmp_path, service)
    other = here(tmp_path, *overrides(server, "protocol.max_tokens=99"), "--run-id", "dx")
    assert (other.code, other.err.splitlines()[-1].endswith("[resume-differs]")) == (2, True)
    assert f"`gatekit run --resume dx --dir '{PLACE}'` goes on as it was" in other.err
    assert folders(tmp_path) == ["dx"], "a refused run leaves nothing"
    service.mend()
    again = here(tmp_path, *overrides(server, "client.concurrency=2"), "--run-id", "dx", "--json")
    assert (again.code, again.data["run_id"], again.data["verdict"]) == (0, "dx-r2", "PASS")
    assert "gatekit: run dx has its verdict: its answers go on as run dx-r2\n" in again.err
    done = here(tmp_path, *overrides(server), "--run-id", "dx")
    assert (done.code, f"run dx-r2 is finished: PASS; `gatekit explain dx-r2 --dir '{PLACE}'`" in done.err) == (2, True)
    taken = here(tmp_path, *overrides(server), "--run-id", "dx-r2")
    assert (taken.code, "its verdict is PASS" in taken.err) == (2, True)


def test_answers_of_two_servers(raw_server: Start, tmp_path: Path) -> None:
    """Going on is not offered where it never works, and trying it writes nothing that would look unfinished."""
    service = Service(after=24)
    service.later_version = "1.3"
    server, ran = broken(raw_server, tmp_path, service)
    assert (ran.code, ran.data["reason_code"], ran.data["counts"]["lost"]) == (3, "server-changed", 16)
    assert "--resume" not in ran.data["hint"]
    for command, code, reason in (
        (("run", "--resume", "dx", "--dir", PLACE), 3, "server-changed"),
        ((*overrides(server), "--run-id", "dx"), 2, "run-id-taken"),
    ):
        refused = here(tmp_path, *command)
        assert (refused.code, refused.err.endswith(f"[{reason}]\n"), "--resume" in refused.err) == (code, True, False)
    assert folders(tmp_path) == ["dx"]
    assert here(tmp_path, "history", "list", "--dir", PLACE, "--json").data["unfinished"] == []


def test_another_server_after_a_verdict(raw_server: Start, tmp_path: Path) -> None:
    """A server that is refused before a question is asked leaves no run that looks unfinished; the first goes on."""
    service = Service(after=24)
    _, ran = broken(raw_server, tmp_path, service)
    service.mend()
    service.version = "1.3"
    refused = here(tmp_path, *told(ran)[1:])
    assert (refused.code, refused.data["reason_code"]) == (3, "server-changed")
    assert folders(tmp_path) == ["dx"]
    service.version = "1.2"
    assert here(tmp_path, *told(ran)[1:]).data["run_id"] == "dx-r2"


def test_a_deadline_that_was_too_short(raw_server: Start, tmp_path: Path) -> None:
    """The command after a deadline has a longer one, and only what differs from the run is refused, by its name."""
    service = Service()
    service.pause_s = 0.1
    _, ran = broken(raw_server, tmp_path, service, "client.deadline_s=1.5", "client.concurrency=2")
    assert (ran.code, ran.data["reason_code"]) == (3, "deadline")
    words = told(ran)
    assert words[4:] == ["--dir", PLACE, "client.deadline_s=3", "--json"]
    resume = words[1:6]
    for override, reason, named in (
        ("task.n=41", "resume-differs", "another task.n; "),
        ("client.deadline=9", "unknown-key", "did you mean"),
        ("client.deadline_s=0", "out-of-range", "client.deadline_s"),
        ("history.dir=x", "bad-arguments", "--dir"),
    ):
        refused = here(tmp_path, *resume, override)
        assert (refused.code, named in refused.err.splitlines()[-1]) == (2, True)
        assert refused.err.endswith(f"[{reason}]\n")
    assert folders(tmp_path) == ["dx"]
    service.pause_s = 0.0
    resumed = here(tmp_path, *words[1:])
    assert (resumed.code, resumed.data["run_id"]) == (0, "dx-r2")
    assert record(resumed, tmp_path)["spec"]["client"]["deadline_s"] == 3


def test_a_run_between_the_parts_of_another(raw_server: Start, tmp_path: Path) -> None:
    """No clock was wrong where another run ended while this one was cut off."""
    service = Service(after=24)
    server, _ = broken(raw_server, tmp_path, service)
    service.mend()
    time.sleep(1.1)
    assert here(tmp_path, *overrides(server), "--run-id", "between").code == 0
    resumed = here(tmp_path, "run", "--resume", "dx", "--dir", PLACE, "--json")
    assert resumed.code == 0
    assert not any("clock" in warning for warning in resumed.data["warnings"])


def test_runs_without_a_verdict(tmp_path: Path) -> None:
    """An unfinished run is told as one by the commands that show runs, and those of a folder are all counted."""
    for name in ("d1", *(f"c{number}" for number in range(7))):
        (tmp_path / PLACE / "runs" / name).mkdir(parents=True)
        (tmp_path / PLACE / "runs" / name / "journal.jsonl").write_text("")
    for command in (("explain", "d1"), ("history", "show", "d1"), ("explain", "d")):
        ran = here(tmp_path, *command, "--dir", PLACE)
        assert (ran.code, ran.err.endswith("[run-unfinished]\n")) == (2, True)
        assert "run d1 has no verdict yet: it is going on, or was cut off" in ran.err
        assert f"`gatekit run --resume d1 --dir '{PLACE}'` goes on with it" in ran.err
    ran = here(tmp_path, "run", "--resume", "nosuch", "--dir", PLACE)
    assert "unfinished there: d1, c6, c5 and 5 more" in ran.err


@pytest.mark.parametrize("place", ["history.url", "engine.base_url"])
def test_a_secret_that_is_not_kept(place: str) -> None:
    """Where a URL that nobody may print is needed, no command is printed that would not work."""
    group, _, key = place.partition(".")
    parts = {group: {key: "postgresql://ci:geheim@db/gates"}}
    spec = spec_of("x", **parts)
    options = Namespace(resume=None, overrides=[], json=False, allow_inconclusive=False)
    way = way_on(spec, "dx", options)
    assert (f"{place} given again" in way, "`" in way, "geheim" in way) == (True, False, False)
