"""The first index: one table of runs, answers as letters."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

# The insert trigger is for INSERT OR REPLACE, which removes the old row without firing a delete trigger.
_INSERT_ONLY = (
    "CREATE TRIGGER runs_refuse_replace BEFORE INSERT ON runs "
    "WHEN EXISTS (SELECT 1 FROM runs WHERE run_id = NEW.run_id OR position = NEW.position) "
    "BEGIN SELECT RAISE(ABORT, 'runs are never replaced'); END",
    "CREATE TRIGGER runs_refuse_update BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'runs are never changed'); END",
    "CREATE TRIGGER runs_refuse_delete BEFORE DELETE ON runs BEGIN SELECT RAISE(ABORT, 'runs are never removed'); END",
)


def upgrade() -> None:
    """Make the table; on SQLite insert-only by triggers."""
    op.create_table(
        "runs",
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("run_id", sa.Text, nullable=False, unique=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("comparability_key", sa.Text, nullable=False, index=True),
        sa.Column("spec_name", sa.Text, nullable=False, index=True),
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
        sa.Column("measured", sa.Boolean, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("reason_code", sa.Text, nullable=False),
        sa.Column("simulated", sa.Boolean, nullable=False),
        sa.Column("started_at", sa.Text, nullable=False),
        sa.Column("finished_at", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("outcomes", sa.Text, nullable=False),
        sa.Column("key_fields", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    if op.get_bind().dialect.name == "sqlite":
        for statement in _INSERT_ONLY:
            op.execute(statement)
