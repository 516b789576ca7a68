"""The tables of the index as the queries see them. How they come about, and are guarded, is in migrations/."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.sql import quoted_name

INDEX_VERSION = 3
"""SQLite keeps it as user_version, PostgreSQL as the revision in the table `gatekit_version`."""

VERSION_TABLE = "gatekit_version"

# Compared byte by byte: PostgreSQL would use the language of the database.
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_IS_SUPERSEDING = sa.text("supersedes IS NOT NULL")

metadata = sa.MetaData()

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("position", _NUMBER, sa.Identity(always=False), primary_key=True),
    sa.Column("run_id", _NAME, nullable=False, unique=True),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("previous", sa.Text),
    sa.Column("supersedes", _NAME),
    sa.Column("comparability_key", _NAME, nullable=False),
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
    # RIGHT is a word of SQL, and not every dialect knows that it must be quoted.
    sa.Column(quoted_name("right", quote=True), sa.LargeBinary),
    sa.Column("rescored_at", sa.Text),
    sa.Index("runs_by_key", "comparability_key", "position"),
    sa.Index("runs_by_model", "model", "comparability_key", "position"),
    sa.Index("runs_by_spec", "spec_name", "position"),
    sa.Index("runs_by_superseded", "supersedes", sqlite_where=_IS_SUPERSEDING, postgresql_where=_IS_SUPERSEDING),
    sqlite_autoincrement=True,
)

keys = sa.Table(
    "keys",
    metadata,
    sa.Column("key", _NAME, primary_key=True),
    sa.Column("fields", sa.Text, nullable=False),
)

gates = sa.Table(
    "gates",
    metadata,
    sa.Column("digest", _NAME, primary_key=True),
    sa.Column("gate", sa.Text, nullable=False),
)

acts = sa.Table(
    "acts",
    metadata,
    sa.Column("position", _NUMBER, sa.Identity(always=False), primary_key=True),
    sa.Column("act_id", _NAME, nullable=False, unique=True),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("after", sa.Text),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("made_at", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
