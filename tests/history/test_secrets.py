"""Passwords of a history's database: nowhere to be seen, whatever the user wrote and wherever."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from command_line import Ran, here
from gatekit.records.secrets import masked_text, masked_url, without_passwords
from gatekit.spec.composition import shown_override

_SECRET = "hunter2"
# Ports at which nobody listens, so that no name is looked up.
_URLS = (
    "postgresql://u:hunter2@127.0.0.1:1/d",
    "postgresql://u@127.0.0.1:1/d?pass%77ord=hunter2",
    "postgresql://u@127.0.0.1:1/d?password=hunter2&sslmode=disable",
    "postgresql://u@127.0.0.1:1/d?oauth_client_secret=hunter2",
    "postgresql://u@127.0.0.1:1/d?scram_client_key=hunter2",
    "postgresql://u@127.0.0.1:1/d?my_api_token=hunter2",
    "postgresql://u@127.0.0.1:1/d?hunter2",
    "postgresql://u@127.0.0.1:1/d#hunter2",
    "postgresql://u%3Ahunter2@127.0.0.1:1/d",
    "postgresql://u:hunter2",
    "postgresql:u:hunter2@127.0.0.1",
    " postgresql://u:hunter2@127.0.0.1:1/d",
    "host=127.0.0.1 port=1 password=hunter2",
    "postgresql://u:a@hunter2@127.0.0.1:1/d",
    "postgresql://u:a/hunter2@127.0.0.1:1/d",
    "postgresql://u:a?hunter2@127.0.0.1:1/d",
    "mysql://u:hunter2@127.0.0.1/d",
)
_UNPARSED = (
    "history.url=postgresql://u:hunter2@h,",
    "history.url=postgresql://u:hunter2@h`",
    "history.url='postgresql://u:hunter2@h",
    "history.url=postgresql://u:hunter2@h,sqlite",
    "history.url={a: hunter2}",
    "history.url=[hunter2]",
    "history={url: 'postgresql://u:hunter2@h'}",
    "history.url_env=postgresql://u:hunter2@h",
    "history.url:postgresql://u:hunter2@h?a=b",
    "postgresql://u:hunter2@h/d?sslmode=require",
    "postgresql://u:hunter2@h/d",
    "history.urll=postgresql://u:hunter2@h",
    "history.url=" + "postgresql://u:hunter2@h/" + "d" * 5000,
    "engine.base_url=http://u:hunter2@127.0.0.1:1",
    "engine.base_url=http://127.0.0.1:1/?key=hunter2",
    "engine.base_url=hunter2://127.0.0.1:1",
    "engine.base_url=[http://u:hunter2@h]",
)


def _assert_hidden(folder: Path, *done: Ran) -> None:
    for one in done:
        assert _SECRET not in one.out + one.err, one
        assert one.code in (0, 2, 3, 4), one
    for path in folder.rglob("*"):
        assert path.is_dir() or _SECRET.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("url", _URLS)
def test_no_way_to_name_a_database_shows_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """By option, by variable and by override, in text and in JSON, in errors, files and plans: no password."""
    (tmp_path / ".gatekit").mkdir()
    as_json: tuple[list[str], ...] = ([], ["--json"])
    quoted = f"history.url='{url}'"
    done = [here(tmp_path, "history", "list", "--url", url, *more) for more in as_json]
    done += [here(tmp_path, "explain", "x", "--url", url, *more) for more in as_json]
    done += [here(tmp_path, "thresholds", "recompute", "--all-series", "--url", url, *more) for more in as_json]
    done += [here(tmp_path, "plan", override, *more) for override in (quoted, f"history.url={url}") for more in as_json]
    done += [here(tmp_path, "thresholds", "recompute", "task.n=20", quoted, *more) for more in as_json]
    done += [here(tmp_path, "history", "list", url), here(tmp_path, url)]
    named = {"GATEKIT_HISTORY_URL": url}
    done += [here(tmp_path, "history", "verify", *more, extra=named) for more in as_json]
    _assert_hidden(tmp_path, *done)


def test_a_run_whose_database_is_away_keeps_no_password(tmp_path: Path) -> None:
    """A run that cannot start for its database says so without the password, from an override and a variable."""
    url = _URLS[0]
    run = ("task.n=20", "engine.latency={}", "--json")
    done = here(tmp_path, *run, f"history.url='{url}'")
    also = here(tmp_path, *run, "history=postgres", extra={"GATEKIT_HISTORY_URL": _URLS[1]})
    assert (done.code, also.code) == (3, 3)
    _assert_hidden(tmp_path, done, also)


@pytest.mark.parametrize("override", _UNPARSED)
def test_an_override_that_is_refused_is_not_repeated(tmp_path: Path, override: str) -> None:
    """What Hydra, the schema or the rules refuse is named without the value that may be a secret."""
    commands: tuple[list[str], ...] = (
        ["plan"],
        ["plan", "--json"],
        [],
        ["--json"],
        ["-m"],
        ["thresholds", "recompute"],
        ["audit"],
    )
    _assert_hidden(tmp_path, *(here(tmp_path, *words, override) for words in commands))
    assert _SECRET not in shown_override(override)


def test_what_is_harmless_is_shown() -> None:
    """Scheme, user, host, port, database and known parameters stay, so that an error says which database it means."""
    for url in (
        "postgresql://ci@db.example.com:5432/gates?sslmode=require&connect_timeout=5",
        "postgresql://[::1]:5432/gates",
        "postgresql://a:1,b:2/gates?target_session_attrs=read-write",
        "postgresql:///gates?host=/var/run/postgresql",
        "postgresql://ci@db/gates?options=-csearch_path%3Dteam",
    ):
        assert masked_url(url) == url
    assert masked_url("postgresql://ci:x@db/gates") == "postgresql://ci:***@db/gates"
    assert masked_text("no postgresql://ci:x@db/gates here") == "no postgresql://ci:***@db/gates here"
    assert shown_override("history.url=postgresql://ci@db/gates") == "history.url=postgresql://ci@db/gates"
    assert shown_override("history.url_env=TEAM_URL") == "history.url_env=TEAM_URL"


def test_a_stored_spec_holds_no_password(tmp_path: Path) -> None:
    """The plan of a spec, which is what a record keeps, has the database's URL without its password."""
    done = here(tmp_path, "plan", "--json", "history.url='postgresql://ci:hunter2@db/gates'")
    assert json.loads(done.out)["history"]["url"] == "postgresql://ci:***@db/gates"


@pytest.mark.parametrize("text", [":" * 30_000, "a" * 60_000, "a=" * 30_000, "://" * 20_000, "x:" * 20_000 + "@"])
def test_masking_takes_time_in_proportion_to_the_text(text: str) -> None:
    """No text that somebody types or sends can keep the masking busy."""
    began = time.process_time()
    masked_text(text)
    without_passwords(text)
    assert time.process_time() - began < 2
