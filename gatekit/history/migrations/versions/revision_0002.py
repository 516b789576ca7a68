"""Chained runs with one bit an answer; keys and gates once each; acts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.sql import quoted_name

from gatekit.errors import InfraError
from gatekit.history.durable_files import read_bounded
from gatekit.history.records_folder import MAX_RECORD_BYTES
from gatekit.history.run_row import packed, storable
from gatekit.records.canonical import canonical_json, digest

revision = "0002"
down_revision = "0001"

_TABLES = ("runs", "keys", "gates", "acts")
_BATCH = 1000
_Row = Mapping[str, Any]


def upgrade() -> None:
    """Put the new tables in the place of the old one, with all that it held."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    if is_sqlite:
        for name in ("replace", "update", "delete"):
            op.execute(f"DROP TRIGGER runs_refuse_{name}")
    op.drop_index("ix_runs_comparability_key", table_name="runs")
    op.drop_index("ix_runs_spec_name", table_name="runs")
    op.rename_table("runs", "runs_0001")
    if not is_sqlite:
        op.execute("ALTER TABLE runs_0001 RENAME CONSTRAINT runs_pkey TO runs_0001_pkey")
        op.execute("ALTER TABLE runs_0001 RENAME CONSTRAINT runs_run_id_key TO runs_0001_run_id_key")
        op.execute("ALTER SEQUENCE runs_position_seq RENAME TO runs_0001_position_seq")
    runs, keys, gates = _runs(), _keys(), _gates()
    _acts()
    _carry_over(op.get_bind(), runs, keys, gates)
    op.drop_table("runs_0001")
    _make_insert_only(is_sqlite=is_sqlite)


def _runs() -> sa.Table:
    runs = op.create_table(
        "runs",
        _position(),
        sa.Column("run_id", _name(), nullable=False, unique=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("previous", sa.Text),
        sa.Column("supersedes", _name()),
        sa.Column("comparability_key", _name(), nullable=False),
        sa.Column("gate", sa.Text),
        sa.Column("spec_name", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("hw", sa.Text, nullable=False),
        sa.Column("engine", sa.Text, nullable=False),
        sa.Column("build", sa.Text),
        sa.Column("protocol", sa.Text, nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("correct", sa.Integer, nullable=False),
        sa.Column("wrong", sa.Integer, nullable=False),
        sa.Column("no_answer", sa.Integer, nullable=False),
        sa.Column("truncated", sa.Integer, nullable=False),
        sa.Column("lost", sa.Integer, nullable=False),
        sa.Column("unasked", sa.Integer, nullable=False),
        sa.Column("measured", sa.Boolean, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("reason_code", sa.Text, nullable=False),
        sa.Column("simulated", sa.Boolean, nullable=False),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("finished_at", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column(quoted_name("right", quote=True), sa.LargeBinary),
        sqlite_autoincrement=True,
    )
    op.create_index("runs_by_key", "runs", ["comparability_key", "position"])
    op.create_index("runs_by_model", "runs", ["model", "comparability_key", "position"])
    op.create_index("runs_by_spec", "runs", ["spec_name", "position"])
    is_superseding = sa.text("supersedes IS NOT NULL")
    op.create_index(
        "runs_by_superseded", "runs", ["supersedes"], sqlite_where=is_superseding, postgresql_where=is_superseding
    )
    return runs


def _keys() -> sa.Table:
    key, fields = sa.Column("key", _name(), primary_key=True), sa.Column("fields", sa.Text, nullable=False)
    return op.create_table("keys", key, fields)


def _gates() -> sa.Table:
    gate_digest, gate = sa.Column("digest", _name(), primary_key=True), sa.Column("gate", sa.Text, nullable=False)
    return op.create_table("gates", gate_digest, gate)


def _acts() -> None:
    op.create_table(
        "acts",
        _position(),
        sa.Column("act_id", _name(), nullable=False, unique=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("after", sa.Text),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("made_at", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )


def _name() -> sa.types.TypeEngine[str]:
    """Compared byte by byte, whatever the language of the database."""
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _position() -> sa.Column[int]:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column("position", number, sa.Identity(always=False), primary_key=True)


def _carry_over(connection: sa.Connection, runs: sa.Table, keys: sa.Table, gates: sa.Table) -> None:
    known_keys: set[str] = set()
    known_gates: set[str] = set()
    for rows in _batches(connection):
        news = []
        for row in rows:
            if row["comparability_key"] not in known_keys:
                known_keys.add(row["comparability_key"])
                key = {"key": row["comparability_key"], "fields": row["key_fields"]}
                connection.execute(keys.insert(), key)
            gate, section = _gate(row)
            if gate is not None and gate not in known_gates:
                known_gates.add(gate)
                connection.execute(gates.insert(), {"digest": gate, "gate": section})
            news.append(_carried(row, gate))
        connection.execute(runs.insert(), news)


def _batches(connection: sa.Connection) -> Iterator[list[_Row]]:
    after = 0
    while True:
        query = sa.text("SELECT * FROM runs_0001 WHERE position > :after ORDER BY position LIMIT :limit")
        rows = connection.execute(query, {"after": after, "limit": _BATCH}).mappings().all()
        if not rows:
            return
        yield [dict(row) for row in rows]
        after = rows[-1]["position"]


def _carried(row: _Row, gate: str | None) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if name not in ("outcomes", "key_fields")}
    outcomes = row["outcomes"]
    is_whole = bool(outcomes) and "-" not in outcomes
    return kept | {
        "previous": None,  # runs were not chained yet
        "supersedes": None,
        "gate": gate,
        "unasked": row["n"] - sum(row[name] for name in ("correct", "wrong", "no_answer", "truncated", "lost")),
        "measured": bool(row["measured"]),
        "simulated": bool(row["simulated"]),
        "right": packed([letter == "c" for letter in outcomes]) if is_whole else None,
    }


def _gate(row: _Row) -> tuple[str | None, str]:
    """The gate section in the record that the row stands for, and its digest; None where it is gone."""
    try:
        path: Path = context.config.attributes["history_dir"] / row["path"]
        plain = json.loads(read_bounded(path, MAX_RECORD_BYTES).decode("utf-8", errors="surrogatepass"))
        content = {name: value for name, value in plain.items() if name != "digest"}
        if digest(content) != row["digest"]:
            return None, ""
        gate = content["spec"]["gate"]
        return digest(gate), storable(canonical_json(gate).decode("utf-8", errors="surrogatepass"))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, InfraError):
        return None, ""


def _make_insert_only(*, is_sqlite: bool) -> None:
    if is_sqlite:
        for table, (first, *others) in {
            "runs": ("position", "run_id"),
            "keys": ("key",),
            "gates": ("digest",),
            "acts": ("position", "act_id"),
        }.items():
            taken = " OR ".join(f"{name} = NEW.{name}" for name in (first, *others))
            there = f"SELECT 1 FROM {table} WHERE {taken}"  # noqa: S608 - names from the lines above
            op.execute(
                f"CREATE TRIGGER {table}_refuse_replace BEFORE INSERT ON {table} WHEN EXISTS ({there}) "
                f"BEGIN SELECT RAISE(ABORT, '{table} are never replaced'); END"
            )
            for deed, done in (("update", "changed"), ("delete", "removed")):
                op.execute(
                    f"CREATE TRIGGER {table}_refuse_{deed} BEFORE {deed.upper()} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, '{table} are never {done}'); END"
                )
        return
    # The owner may not either. The trigger is for a superuser, whom no missing right stops.
    op.execute(
        "CREATE FUNCTION gatekit_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% are never changed or removed', TG_TABLE_NAME; END $$"
    )
    for table in _TABLES:
        op.execute(f"REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM PUBLIC, CURRENT_USER")
        op.execute(
            f"CREATE TRIGGER {table}_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION gatekit_refuse()"
        )
