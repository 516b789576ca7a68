"""Which answers may be gone on with: by whom they were given, and for which question."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gatekit.errors import ConfigError, InfraError
from gatekit.records.run import Comparability
from gatekit.records.spec import Spec
from gatekit.run.journal import Journal, read_journal
from gatekit.run.journal_lines import Header, Kept, ServerSeen
from gatekit.run.resume import GoesOn, going_on, refuse_other
from gatekit.run.same_server import refuse_another
from spec_builders import spec_of


def header(spec: Spec | None = None, **fields: object) -> Header:
    found = Header(
        record=1,
        run_id="night",
        gatekit_version="0.1.0",
        began_at="2026-01-01T00:00:00Z",
        spec=spec_of() if spec is None else spec,
        comparability=Comparability(key="sha256:0", fields={"question_ids": "sha256:1", "extractor_version": "e-1"}),
    )
    return replace(found, **fields)  # type: ignore[arg-type]  # fields by name


def kept(found: Header | None = None, spoiled: str | None = None) -> Kept:
    return Kept(header=header() if found is None else found, spoiled=spoiled, body=0, size=0)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (header(spec_of(protocol={"max_tokens": 7})), "protocol.max_tokens"),
        (header(spec_of(engine={"args": ("--x",)})), "engine.args"),
        (header(spec_of(name="b")), "name"),
        (header(record=2), "record format (1, this gatekit writes 2)"),
        (
            header(comparability=Comparability(key="", fields={"question_ids": "", "extractor_version": "e-1"})),
            "question_ids",
        ),
        (
            header(
                comparability=Comparability(key="", fields={"question_ids": "sha256:1", "extractor_version": "e-2"})
            ),
            "extractor_version",
        ),
    ],
)
def test_what_differs_is_named(other: Header, named: str) -> None:
    """Spec, questions, extractor and record format must be those of the answers that are there."""
    with pytest.raises(ConfigError) as caught:
        refuse_other(kept(), other)
    assert (caught.value.reason, caught.value.message.endswith(f"begun with another {named}")) == (
        "resume-differs",
        True,
    )


def test_place_pace_and_version_may_differ() -> None:
    """Where a run is kept, how fast it is asked and a newer gatekit of the same formats move no score."""
    spec = spec_of(history={"dir": "elsewhere"}, client={"deadline_s": 9.0, "concurrency": 1})
    refuse_other(kept(), header(spec, gatekit_version="0.2.0", began_at="2026-02-01T00:00:00Z"))


def test_answers_of_two_servers() -> None:
    """What was spoiled once is never gone on with."""
    with pytest.raises(InfraError, match="the server changed") as caught:
        refuse_other(kept(spoiled="the server changed"), header())
    assert caught.value.reason == "server-changed"


@pytest.mark.parametrize(
    "changed", [{"version": "2"}, {"build": "b"}, {"models": ("m", "n")}, {"weights_sha256": "sha256:2"}]
)
def test_another_server(changed: dict[str, str]) -> None:
    """Two known and different answers to who it is are two servers; the order of a model list is none."""
    before = ServerSeen(models=("m",), version="1", build="a", weights_sha256="sha256:1", flip_seed="1")
    assert refuse_another([before], replace(before, flip_seed="2")) == ()
    with pytest.raises(InfraError, match="the server is another"):
        refuse_another([before, before], replace(before, **changed))  # type: ignore[arg-type]  # fields by name


def test_what_a_server_does_not_say_any_more() -> None:
    """A version that is known of one of two servers is a warning; one that was never known is nothing."""
    known, unknown = ServerSeen(version="1"), ServerSeen()
    assert len(refuse_another([known, known], unknown)) == 1
    assert len(refuse_another([unknown, unknown], known)) == 1
    assert refuse_another([unknown], unknown) == ()
    assert refuse_another([], known) == ()


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    """An unknown run is wrong input, and names what could be meant; a folder without a journal has nothing."""
    (tmp_path / "runs" / "night").mkdir(parents=True)
    with Journal(tmp_path / "runs" / "night" / "journal.jsonl") as journal:
        journal.begin(header())
    assert going_on(tmp_path, "night") == GoesOn(run_id="night")
    assert read_journal(tmp_path / "runs" / "night" / "journal.jsonl") is not None
    with pytest.raises(ConfigError, match="there is no run nigth") as caught:
        going_on(tmp_path, "nigth")
    assert "night" in caught.value.hint
