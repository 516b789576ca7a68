"""The index in a PostgreSQL database."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from command_line import environment, gatekit, here
from cutting_proxy import Cut, CuttingProxy
from gatekit.errors import ConfigError, InfraError
from gatekit.history import index
from gatekit.history.place import Place
from gatekit.history.postgres import ADVISORY_LOCK
from gatekit.history.records_folder import read_record
from gatekit.history.remember import Rebuilt, check_ready, remember, sync
from gatekit.records.run import RunRecord
from nights import stored_ids
from postgres_server import OWNER, PASSWORD, PostgresServer

MakeRecord = Callable[..., RunRecord]
SIM = ("engine.latency={}", "engine.seed=0", "task.n=200", "gate.delta=null")


def _count(postgres: PostgresServer, place: Place) -> object:
    assert place.url is not None
    return postgres.execute("SELECT count(*) FROM runs", database=place.url.rsplit("/", 1)[1])[0][0]


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """A new database."""
    return postgres.new_database()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "PostgreSQL"])
def test_both_schemes_are_understood(postgres: PostgresServer, database: str, tmp_path: Path, scheme: str) -> None:
    """postgresql:// and postgres:// name the same database."""
    url = postgres.url(database).replace("postgresql", scheme, 1)
    check_ready(Place(dir=tmp_path, url=url))
    assert stored_ids(Place(dir=tmp_path, url=postgres.url(database))) == []


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:hunter2@h/d",
        "sqlite:///x.db",
        "hunter2",
        "",
        "postgresql+psycopg://u:hunter2@h/d",
        "postgresql://u:hun@ter2@h/d",
        "postgresql://u:hun/ter2@h/d",
        "postgresql://u:hunter2@h/d?no_such=1",
        "postgresql://u:hunter%2@h/d",
        "postgresql://u:hunter2@[::1/d",
    ],
)
def test_other_urls_are_one_line_of_config_error(tmp_path: Path, url: str) -> None:
    """A URL that names no PostgreSQL database is a ConfigError in one line, without any part of its password."""
    with pytest.raises(ConfigError) as caught:
        check_ready(Place(dir=tmp_path, url=url))
    (line,) = caught.value.lines()
    assert line.isprintable()
    assert caught.value.reason == "bad-history-url"
    assert not any(part in line for part in ("hunter", "hun", "ter2"))


def test_unreachable_server_is_named(tmp_path: Path) -> None:
    """A server that is not there is an InfraError within seconds, with the masked URL."""
    start = time.monotonic()
    with pytest.raises(InfraError, match=r"cannot reach postgresql://u:\*\*\*@127\.0\.0\.1:1/d: .*refused") as caught:
        check_ready(Place(dir=tmp_path, url="postgresql://u:hunter2@127.0.0.1:1/d"))
    assert caught.value.reason == "history-unreachable"
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        ({"password": "hunter2"}, "history-refused", "password authentication failed"),
        ({"user": "nobody"}, "history-refused", "password authentication failed"),
        ({"database": "nowhere"}, "history-unknown-database", 'database "nowhere" does not exist'),
    ],
)
def test_refused_connection_says_why(
    postgres: PostgresServer, database: str, tmp_path: Path, change: dict[str, str], reason: str, words: str
) -> None:
    """A wrong password, role or database is an InfraError of its own, in one printable line without the password."""
    asked = {"database": database, "user": OWNER, "password": PASSWORD} | change
    url = postgres.url(asked["database"], user=asked["user"], password=asked["password"])
    with pytest.raises(InfraError, match=words) as caught:
        check_ready(Place(dir=tmp_path, url=url))
    assert caught.value.reason == reason
    (line,) = caught.value.lines()
    assert line.isprintable()
    assert "hunter2" not in line
    assert PASSWORD not in line


def test_missing_rights_are_named(postgres: PostgresServer, tmp_path: Path, make_record: MakeRecord) -> None:
    """A role that may not make tables, and one that may only read, are told what they need; reading works."""
    database = postgres.new_database(owner="admin")
    place = Place(dir=tmp_path, url=postgres.url(database))
    with pytest.raises(InfraError, match="permission denied for schema public") as caught:
        check_ready(place)
    assert (caught.value.reason, "CREATE" in caught.value.hint) == ("history-refused", True)
    postgres.execute("GRANT CREATE ON SCHEMA public TO gatekit", database=database)
    remember(place, make_record())
    postgres.execute("REVOKE INSERT ON runs FROM gatekit", database=database)
    assert stored_ids(place) == ["run-1"]
    with pytest.raises(InfraError, match="permission denied for table runs"):
        remember(place, make_record("second"))
    assert read_record(tmp_path / "runs/second/record.json").previous == index.find(place, "run-1").digest
    postgres.execute("GRANT INSERT ON runs TO gatekit", database=database)
    assert sync(place) == Rebuilt(added=1, known=1, problems=())


def test_missing_driver_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without psycopg the error names the command that installs it."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match="psycopg") as caught:
        check_ready(Place(dir=tmp_path, url="postgresql://h/d"))
    assert caught.value.hint == "pip install 'gatekit[postgres]'"


def test_table_of_another_program_is_not_touched(postgres: PostgresServer, postgres_place: Place) -> None:
    """A database where another program has a table `runs` is refused and left alone."""
    database = str(postgres_place.url).rsplit("/", 1)[1]
    postgres.execute("CREATE TABLE runs (mine text)", database=database)
    with pytest.raises(InfraError, match="another program"):
        check_ready(postgres_place)
    assert postgres.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", database=database) == [(1,)]


def test_a_schema_of_its_own_is_enough(postgres: PostgresServer, database: str, tmp_path: Path) -> None:
    """With a search path in the URL several histories share one database."""
    for name in ("one", "two"):
        postgres.execute(f"CREATE SCHEMA {name} AUTHORIZATION gatekit", database=database)
        check_ready(Place(dir=tmp_path, url=f"{postgres.url(database)}?options=-csearch_path%3D{name}"))
    found = postgres.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'runs' ORDER BY 1", database=database)
    assert found == [("one",), ("two",)]


@pytest.mark.parametrize("statement", ["UPDATE runs SET n = 1", "DELETE FROM runs", "TRUNCATE runs"])
def test_nobody_changes_rows(
    postgres: PostgresServer, postgres_place: Place, make_record: MakeRecord, statement: str
) -> None:
    """T09: the owner of the tables has no right to change a row, and a superuser is stopped by a trigger."""
    remember(postgres_place, make_record())
    assert postgres_place.url is not None
    with psycopg.connect(postgres_place.url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement.encode())
    with pytest.raises(psycopg.errors.RaiseException, match="never changed or removed"):
        postgres.execute(statement, database=postgres_place.url.rsplit("/", 1)[1])
    assert stored_ids(postgres_place) == ["run-1"]


def test_lock_is_waited_for_and_then_named(postgres_place: Place, make_record: MakeRecord) -> None:
    """T03: a writer that keeps the others waiting is named after the limit; the record is kept, and `sync` adds it."""
    remember(postgres_place, make_record("a"))
    assert postgres_place.url is not None
    with psycopg.connect(postgres_place.url) as holder:
        holder.execute(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})".encode())
        assert stored_ids(postgres_place) == ["a"]
        with pytest.raises(InfraError, match=r"locked for 0\.3 s") as caught:
            remember(postgres_place, make_record("b"), limit_s=0.3)
    assert "gatekit history sync" in caught.value.hint
    assert PASSWORD not in caught.value.hint
    assert sync(postgres_place) == Rebuilt(added=1, known=1, problems=())


@pytest.fixture
def cutting(postgres: PostgresServer) -> Iterator[Callable[[Cut, int], CuttingProxy]]:
    """Starts proxies before the server."""
    started: list[CuttingProxy] = []

    def start(cut: Cut, times: int) -> CuttingProxy:
        started.append(CuttingProxy(postgres.port, cut, times=times))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.mark.parametrize("cut", list(Cut))
@pytest.mark.parametrize("times", [1, 2])
def test_cut_at_commit_is_one_run(
    postgres: PostgresServer,
    postgres_place: Place,
    make_record: MakeRecord,
    cutting: Callable[[Cut, int], CuttingProxy],
    cut: Cut,
    times: int,
) -> None:
    """T12: a connection that is cut around COMMIT is tried once more, and the run is there once, whether or not the
    first commit had arrived; cut again, it is kept, and `sync` leaves exactly one."""
    remember(postgres_place, make_record("before"))
    proxy = cutting(cut, times)
    database = str(postgres_place.url).rsplit("/", 1)[1]
    shaky = replace(postgres_place, url=postgres.url(database, port=proxy.port))
    if times == 1:
        _, stored = remember(shaky, make_record("cut"))
        assert stored.previous == index.find(postgres_place, "before").digest
    else:
        with pytest.raises(InfraError, match="was cut") as caught:
            remember(shaky, make_record("cut"))
        assert "is kept in" in caught.value.hint
    assert proxy.left == 0
    sync(postgres_place)
    assert stored_ids(postgres_place) == ["cut", "before"]
    assert _count(postgres, postgres_place) == 2
    assert remember(postgres_place, make_record("after"))[1].previous == index.find(postgres_place, "cut").digest


def test_server_that_goes_down_during_a_run(postgres: PostgresServer, database: str, tmp_path: Path) -> None:
    """T11: PostgreSQL down at the end of a run is INFRA 3: the verdict is printed, the record kept; `sync` then adds
    it exactly once."""
    variables = {"GATEKIT_HISTORY_URL": postgres.url(database)}
    place = Place(dir=tmp_path / ".gatekit", url=postgres.url(database))
    assert gatekit(tmp_path, "history=postgres", *SIM, extra=variables).code == 0
    slow = [sys.executable, "-m", "gatekit", "history=postgres", *SIM[1:], "engine.latency.median_s=0.3"]
    command = subprocess.Popen(
        [*slow, "--run-id", "late"],
        cwd=tmp_path,
        env=environment(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert command.stderr is not None
        while "asking" not in command.stderr.readline():
            assert command.poll() is None
        postgres.stop()
        out, err = command.communicate(timeout=60)
    finally:
        command.kill()
        if postgres._process is None:
            postgres.start()
    assert (command.returncode, "PASS" in out) == (3, True), err
    assert "recorded, but not in the index: cannot reach postgresql://gatekit:***@127.0.0.1" in err
    assert "late/record.json" in err
    assert "gatekit history sync" in err
    said = [gatekit(tmp_path, "history", "sync", extra=variables) for _ in range(2)]
    assert [one.out for one in said] == [
        "added 1 run to the index, 1 was in it\n",
        "added 0 runs to the index, 2 were in it\n",
    ]
    assert (stored_ids(place)[0], _count(postgres, place)) == ("late", 2)


def test_password_is_nowhere(postgres: PostgresServer, database: str, tmp_path: Path) -> None:
    """T15: the password of the database's URL stands in no output, record, journal, log or row, however given."""
    url = postgres.url(database)
    secrets = (PASSWORD, url.split(":")[2].split("@")[0])
    broken = url.replace(f":{postgres.port}/", ":1/")
    direct = f"history.url='{url}'"
    said = [
        here(tmp_path, direct, *SIM),
        here(tmp_path, direct, *SIM, "--json"),
        here(tmp_path, "plan", direct),
        here(tmp_path, "plan", direct, "--json"),
        here(tmp_path, "history=postgres", *SIM, extra={"GATEKIT_HISTORY_URL": url}),
        here(tmp_path, "history", "list", "--url", url),
        here(tmp_path, "history", "list", "--json", "--url", url),
        here(tmp_path, "history", "show", "zzz", extra={"GATEKIT_HISTORY_URL": url}),
        here(tmp_path, "history", "list", "--url", broken),
        here(tmp_path, f"history.url='{broken}'", *SIM, "--json"),
        here(tmp_path, "explain", "zzz", "--url", broken),
    ]
    assert [one.code for one in said] == [0, 0, 0, 0, 0, 0, 0, 2, 3, 3, 3]
    assert "postgresql://gatekit:***@127.0.0.1" in said[2].out + said[8].err
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 3
    rows = postgres.execute("SELECT to_jsonb(runs)::text FROM runs", database=database)
    for secret in secrets:
        assert not any(secret in one.out + one.err for one in said)
        assert not any(secret.encode() in data for data in written)
        assert secret not in str(rows)
