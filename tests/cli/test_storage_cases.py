"""The storage cases T03 to T13 as a user meets them: real processes, both databases where both apply."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from command_line import Ran, environment, here
from cutting_proxy import Cut, CuttingProxy
from gatekit.history.place import INDEX_FILE
from postgres_server import PostgresServer, binaries

SIM = ("engine.latency={}", "engine.seed=0", "task.n=20", "--allow-inconclusive")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A real PostgreSQL server."""
    programs = binaries()
    if programs is None:
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    server = PostgresServer(programs)
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def variables(request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment that names the database: none for SQLite."""
    if request.param == "sqlite":
        return {}
    server: PostgresServer = request.getfixturevalue("server")
    return {"GATEKIT_HISTORY_URL": server.url(server.new_database())}


def _run(folder: Path, name: str, variables: dict[str, str] | None = None) -> Ran:
    place = ["history=postgres"] if variables else []
    return here(folder, *SIM, *place, "--run-id", name, extra=variables)


def _count(folder: Path, variables: dict[str, str]) -> list[str]:
    rows = here(folder, "history", "list", "--json", extra=variables).data["runs"]
    return sorted(row["run_id"] for row in rows)


def test_t03_a_lock_that_is_held(tmp_path: Path) -> None:
    """T03: a write lock of another process is waited for; the run is then added as if nothing had been."""
    assert _run(tmp_path, "a").code == 0
    with closing(sqlite3.connect(tmp_path / ".gatekit" / INDEX_FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        command = [sys.executable, "-m", "gatekit", *SIM, "--run-id", "b"]
        with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL) as waiting:
            time.sleep(3)
            assert waiting.poll() is None
            other.execute("ROLLBACK")
            assert waiting.wait(60) == 0
    assert _count(tmp_path, {}) == ["a", "b"]


@pytest.mark.slow
def test_t03_a_lock_that_is_never_given_up(tmp_path: Path) -> None:
    """T03: a lock that is held at the end of a run for 60 s: exit 3, the record kept and said to be, and `sync` as
    it is printed adds it once."""
    assert _run(tmp_path, "a").code == 0
    with closing(sqlite3.connect(tmp_path / ".gatekit" / INDEX_FILE, isolation_level=None)) as other:
        command = [sys.executable, "-m", "gatekit", *SIM, "task.n=1319", "--run-id", "b"]
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            journal = tmp_path / ".gatekit" / "runs" / "b" / "journal.jsonl"
            while not journal.exists():
                time.sleep(0.002)
            other.execute("BEGIN IMMEDIATE")
            out, err = process.communicate(timeout=150)
        other.execute("ROLLBACK")
    assert process.returncode == 3
    assert "1319 in all" in out
    assert "recorded, but not in the index: another process kept" in err
    assert "`gatekit history sync --dir .gatekit` adds it" in err
    assert here(tmp_path, "history", "sync", "--dir", ".gatekit").code == 0
    assert _count(tmp_path, {}) == ["a", "b"]


@pytest.mark.parametrize("command", [("run",), ("history", "list"), ("history", "verify"), ("history", "sync")])
def test_t04_an_index_that_is_text(tmp_path: Path, command: tuple[str, ...]) -> None:
    """T04: a text where the index should be is exit 3 and stays as it is."""
    (tmp_path / ".gatekit").mkdir()
    path = tmp_path / ".gatekit" / INDEX_FILE
    path.write_text("my notes\n" * 1000)
    ran = _run(tmp_path, "a") if command == ("run",) else here(tmp_path, *command)
    assert ran.code == 3
    assert "is not a database" in ran.out + ran.err
    assert "`gatekit history rebuild --dir .gatekit`" in ran.out + ran.err
    assert path.read_text() == "my notes\n" * 1000


def test_t05_an_index_of_a_newer_gatekit(
    tmp_path: Path, variables: dict[str, str], request: pytest.FixtureRequest
) -> None:
    """T05: exit 3, `made by a newer gatekit`, and not a byte changed; a run starts no server for it."""
    assert _run(tmp_path, "a", variables).code == 0
    path = tmp_path / ".gatekit" / INDEX_FILE
    if variables:
        server: PostgresServer = request.getfixturevalue("server")
        database = variables["GATEKIT_HISTORY_URL"].rpartition("/")[2]
        server.execute("UPDATE gatekit_version SET version_num = '0099'", database=database)
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes() if path.exists() else b""
    for ran in (_run(tmp_path, "b", variables), here(tmp_path, "history", "list", extra=variables)):
        assert (ran.code, ran.out) == (3, "")
        assert "made by a newer gatekit" in ran.err
        assert "starting engine" not in ran.err
    assert (path.read_bytes() if path.exists() else b"") == before
    assert not (tmp_path / ".gatekit" / "runs" / "b").exists()


def test_t06_an_index_of_an_older_gatekit(tmp_path: Path) -> None:
    """T06: the index of version 1 is backed up and migrated by the first command, and every bit verifies."""
    assert _run(tmp_path, "a").code == 0
    path = tmp_path / ".gatekit" / INDEX_FILE
    for left in path.parent.glob("index.sqlite*"):
        left.unlink()
    (path.parent / "arrivals.jsonl").unlink()
    _make_version_1(path, path.parent)
    before = path.read_bytes()
    assert _count(tmp_path, {}) == ["a"]
    assert (path.parent / f"{INDEX_FILE}.v1.backup").read_bytes()[:16] == before[:16]
    assert here(tmp_path, "history", "sync").code == 0
    ran = here(tmp_path, "history", "verify")
    assert (ran.code, ran.out.startswith("all is well: 1 record, 1 row")) == (0, True), ran.out
    assert _run(tmp_path, "c").code == 0
    assert here(tmp_path, "history", "verify").code == 0


def _make_version_1(path: Path, history: Path) -> None:
    """As the first gatekit wrote it: the tables of its revision, and rows from the records."""
    import sqlalchemy as sa
    from alembic import command
    from alembic.config import Config

    from gatekit.history import migrations
    from gatekit.history.records_folder import read_stored, record_paths
    from gatekit.history.run_row import run_row
    from gatekit.records.answers import statuses

    path.touch(0o600)
    engine = sa.create_engine("sqlite://", creator=lambda: sqlite3.connect(path))
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(Path(migrations.__file__).parent))
        config.attributes.update(connection=connection, history_dir=history)
        command.upgrade(config, "0001")
        table = sa.Table("runs", sa.MetaData(), autoload_with=connection)
        for stored in map(read_stored, record_paths(history)):
            row = run_row(stored.record, stored.digest)
            found = statuses(stored.record.observations, stored.record.dataset.question_ids)
            letters = "".join("-" if status is None else status.value[0] for status in found)
            names = [column.name for column in table.columns if hasattr(row, column.name)]
            values = {name: getattr(row, name) for name in names}
            connection.execute(table.insert(), values | {"outcome": row.outcome.value, "outcomes": letters})
        connection.exec_driver_sql("DROP TABLE IF EXISTS gatekit_version")
        connection.exec_driver_sql("DROP TABLE IF EXISTS alembic_version")
        connection.exec_driver_sql(f"PRAGMA application_id = {int.from_bytes(b'gate', 'big')}")
        connection.exec_driver_sql("PRAGMA user_version = 1")
    engine.dispose()


def test_t09_rows_cannot_be_changed(tmp_path: Path, variables: dict[str, str]) -> None:
    """T09: UPDATE and DELETE through gatekit's own connection are refused; the history stays as it is."""
    assert _run(tmp_path, "a", variables).code == 0
    program = (
        "import sys; from pathlib import Path; from gatekit.errors import InfraError\n"
        "from gatekit.history.database import writing; from gatekit.history.place import Place\n"
        "place = Place(dir=Path('.gatekit'), url=sys.argv[1] or None)\n"
        "for sql in sys.argv[2:]:\n"
        "    try:\n"
        "        with writing(place) as connection:\n"
        "            connection.exec_driver_sql(sql)\n"
        "        print('changed by', sql)\n"
        "    except InfraError as error:\n"
        "        print('refused', error.reason)\n"
    )
    changes = ["UPDATE runs SET correct = 0", "DELETE FROM runs", "UPDATE keys SET fields = ''"]
    url = variables.get("GATEKIT_HISTORY_URL", "")
    command = [sys.executable, "-c", program, url, *changes]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["refused"] * 3, done.stdout
    assert here(tmp_path, "history", "verify", extra=variables).code == 0


def test_t12_a_connection_cut_at_the_commit(tmp_path: Path, server: PostgresServer) -> None:
    """T12: a connection that is cut between COMMIT and its answer: the run passes, and is there once."""
    database = server.new_database()
    variables = {"GATEKIT_HISTORY_URL": server.url(database)}
    assert _run(tmp_path, "a", variables).code == 0
    proxy = CuttingProxy(server.port, Cut.AFTER_COMMIT)
    try:
        # The first COMMIT of the run ends the check that a run can be kept; that one is cut, and done again.
        ran = _run(tmp_path, "b", {"GATEKIT_HISTORY_URL": server.url(database, port=proxy.port)})
    finally:
        proxy.stop()
    assert proxy.left == 0
    assert ran.code in (0, 3), ran
    if ran.code == 3:
        assert "was cut" in ran.err
        assert _run(tmp_path, "b2", variables).code == 0
    assert len(set(_count(tmp_path, variables))) == 2
    assert here(tmp_path, "history", "verify", extra=variables).code == 0


def test_t13_two_hosts_with_one_run_id(tmp_path: Path, server: PostgresServer) -> None:
    """T13: the second host's run is kept there and refused with both digests, by the run, by `sync`, by `rebuild`
    and by `verify`, which never says to empty the database."""
    variables = {"GATEKIT_HISTORY_URL": server.url(server.new_database())}
    for host in ("one", "two"):
        (tmp_path / host).mkdir()
    assert _run(tmp_path / "one", "nightly", variables).code == 0
    second = here(
        tmp_path / "two", *SIM, "engine.seed=7", "history=postgres", "--run-id", "nightly", "--json", extra=variables
    )
    assert second.code == 3
    record = tmp_path / "two" / ".gatekit" / "runs" / "nightly" / "record.json"
    assert second.data["record"] == ".gatekit/runs/nightly/record.json"
    digests = [_digest(record), _digest(tmp_path / "one" / ".gatekit" / "runs" / "nightly" / "record.json")]
    assert all(one in second.err for one in digests)
    for command in ("sync", "rebuild", "verify"):
        ran = here(tmp_path / "two", "history", command, extra=variables)
        assert ran.code == 3, command
        assert all(one[:30] in ran.out for one in digests), (command, ran.out)
        assert "empty" not in ran.out
    assert here(tmp_path / "one", "history", "sync", extra=variables).code == 0
    record.parent.rename(tmp_path / "kept")
    for command in ("sync", "verify"):
        assert here(tmp_path / "two", "history", command, extra=variables).code == 0
    assert _count(tmp_path / "one", variables) == ["nightly"]


def _digest(record: Path) -> str:
    return str(json.loads(record.read_text())["digest"])


def test_recompute_plot_and_compare_on_a_server(tmp_path: Path, server: PostgresServer) -> None:
    """The commands that look at a whole series work on a live PostgreSQL, each with one connection for all of its
    questions."""
    database = server.new_database()
    variables = {"GATEKIT_HISTORY_URL": server.url(database)}
    for seed, name in ((1, "a"), (2, "b")):
        ran = here(tmp_path, *SIM, f"engine.seed={seed}", "history=postgres", "--run-id", name, extra=variables)
        assert ran.code == 0, ran.err
    server.execute("ALTER SYSTEM SET log_connections = on")
    server.execute("SELECT pg_reload_conf()")
    asked: dict[str, Callable[[], Ran]] = {
        "plot": lambda: here(tmp_path, "history", "plot", extra=variables),
        "compare": lambda: here(tmp_path, "history", "compare", "a", "b", extra=variables),
        "list": lambda: here(tmp_path, "history", "list", extra=variables),
        "recompute": lambda: here(
            tmp_path, "thresholds", "recompute", *SIM[:-1], "history=postgres", "--dir", ".gatekit", extra=variables
        ),
    }
    for name, ask in asked.items():
        before = _connections(server, database)
        ran = ask()
        assert ran.code == 0, (name, ran)
        assert "a" in ran.out
        assert _connections(server, database) - before == 1, name


def _connections(server: PostgresServer, database: str) -> int:
    log = (server.folder / "log").read_text(errors="replace")
    return sum("connection authorized" in line and f"database={database} " in f"{line} " for line in log.splitlines())
