"""A real PostgreSQL server for tests: of its own, in a temporary folder, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

OWNER = "gatekit"
PASSWORD = "s3cret word@/%"
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "listen_addresses": "127.0.0.1",
    "autovacuum": "off",
    "lc_messages": "C",
    "timezone": "UTC",
}


def binaries() -> Path | None:
    """The folder of PostgreSQL's server programs: those on the PATH, or Debian's newest."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    return next((folder for folder in reversed(folders) if (folder / "initdb").exists()), None)


@dataclass
class PostgresServer:
    """A server on loopback and on a socket in its folder. `admin` is a superuser by the socket, the role `gatekit`
    owns what it makes and is none; over TCP it needs its password."""

    programs: Path
    folder: Path = field(init=False)
    port: int = field(init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _databases: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gatekit-postgres-", dir="/tmp"))  # a socket's path is short
        self.port = _free_port()
        self.folder.chmod(0o755)
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres" if _has_user("postgres") else "nobody")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        self._run(
            "initdb",
            "-D",
            str(self.data),
            "-U",
            "admin",
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
            f"--pwfile={password}",
        )
        self.start()
        quoted = PASSWORD.replace("'", "''")
        self.execute(f"CREATE ROLE {OWNER} LOGIN NOSUPERUSER PASSWORD '{quoted}'")

    @property
    def data(self) -> Path:
        """The server's data folder."""
        return self.folder / "data"

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        command = [str(self.programs / "postgres"), "-D", str(self.data), "-p", str(self.port), "-k", str(self.folder)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(_unprivileged([*command, *settings]), stdout=log, stderr=log, cwd="/")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            ready = [str(self.programs / "pg_isready"), "-q", "-h", str(self.folder), "-p", str(self.port)]
            if subprocess.run(ready).returncode == 0:
                return
            time.sleep(0.05)
        raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()[-2000:]}")

    def stop(self) -> None:
        """Stop it at once, connections and all."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # fast shutdown
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def remove(self) -> None:
        """Stop it and remove all it wrote."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_database(self, *, owner: str = OWNER) -> str:
        """The name of a new, empty database."""
        self._databases += 1
        name = f"db{self._databases}"
        self.execute(f"CREATE DATABASE {name} OWNER {owner}")
        return name

    def url(self, database: str, *, user: str = OWNER, password: str = PASSWORD, port: int | None = None) -> str:
        """Where a client finds a database over TCP."""
        from urllib.parse import quote

        return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{port or self.port}/{database}"

    def execute(self, sql: str, *, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run SQL as the superuser, and its rows."""
        import psycopg

        conninfo = f"host={self.folder} port={self.port} user=admin dbname={database}"
        with psycopg.connect(conninfo, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *arguments: str) -> None:
        command = _unprivileged([str(self.programs / program), *arguments])
        done = subprocess.run(command, capture_output=True, text=True, cwd="/")
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr[-2000:]}")


def _unprivileged(command: Sequence[str]) -> list[str]:
    """The command as a user that PostgreSQL agrees to run under."""
    if os.geteuid() != 0:
        return list(command)
    user = "postgres" if _has_user("postgres") else "nobody"
    entry = pwd.getpwnam(user)
    ids = [f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
    return ["setpriv", *ids, "--pdeathsig=INT", *command]


def _has_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
