"""What to do next, when a server had answered before; and what a waiting person hears of empty answers."""

from __future__ import annotations

import io
from pathlib import Path

from command_line import attached, here
from fault_server import saying, striking
from gatekit.cli.live import Heartbeat, progress_text
from raw_server import Request, Start, completion, http
from right_answers import right


def test_a_route_that_is_gone_had_been_right(raw_server: Start, tmp_path: Path) -> None:
    """A 404 after answers does not send the user to the other route."""
    ran = here(tmp_path, *attached(raw_server(striking(saying(http(404, {})), every=10)).url), "--json")
    assert (ran.code, ran.data["reason_code"]) == (3, "not-found")
    assert "protocol.api" not in ran.data["hint"]
    assert "had answered before" in ran.data["hint"]


def test_another_model_after_answers(raw_server: Start, tmp_path: Path) -> None:
    """Another name in an answer after others does not send the user to expect that name."""
    other = http(200, completion("#### 1", model="other"))
    ran = here(tmp_path, *attached(raw_server(striking(saying(other), every=10)).url), "--json")
    assert (ran.code, ran.data["reason_code"]) == (3, "wrong-model")
    assert "engine.expected_model" not in ran.data["hint"]


def test_a_route_that_never_was_there(raw_server: Start, tmp_path: Path) -> None:
    """Before any answer the other route is the likely mistake."""

    def handle(request: Request) -> bytes:
        return http(404, {}) if request.method == "POST" else right(request)

    ran = here(tmp_path, *attached(raw_server(handle).url), "--json")
    assert "protocol.api=chat" in ran.data["hint"]


def test_a_server_that_does_not_stream(raw_server: Start, tmp_path: Path) -> None:
    """The key to change is named, whether the server answers in one piece or refuses to stream."""

    def refuses(request: Request) -> bytes:
        return http(400, {"error": "no"}) if request.method == "POST" else right(request)

    for server in (raw_server(right), raw_server(refuses)):
        ran = here(tmp_path, *attached(server.url, "protocol.stream=true"), "--json")
        assert (ran.code, ran.data["reason_code"]) == (3, "rejected")
        assert "protocol.stream=false" in ran.data["hint"]


def test_empty_answers_are_told_while_asking(raw_server: Start, tmp_path: Path) -> None:
    """Progress says how many answers are empty, since more than a few of them come to count as lost."""
    empty = http(200, completion("", tokens=0))
    ran = here(tmp_path, *attached(raw_server(striking(saying(empty), every=10)).url))
    assert "40 of 40 asked, 90.0 % right, 4 empty\n" in ran.err
    assert "4 empty" in progress_text(40, 40, 36, 0, 4)
    assert "empty" not in progress_text(40, 40, 36, 0)


def test_the_last_line_has_the_empty_ones() -> None:
    """The line that is written when all are asked names the empty and the lost ones."""
    stream = io.StringIO()
    heartbeat = Heartbeat(stream)
    heartbeat.answered(10, 10, 5, 2, 3)
    heartbeat.stop()
    assert stream.getvalue() == "gatekit: 10 of 10 asked, 62.5 % right, 3 empty, 2 lost\n"
