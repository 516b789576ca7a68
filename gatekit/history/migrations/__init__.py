"""How the index comes about and changes: one revision a file, run by Alembic on a connection of ours."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa


def upgrade(connection: sa.Connection, version: int, history_dir: Path) -> None:
    """Bring an index of this version (0: an empty database) to the newest, inside the caller's transaction.

    `history_dir` is where the records are: what an older index did not hold is read from them.
    """
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["history_dir"] = history_dir
    if version:  # the first index, in SQLite, had no table of revisions
        command.stamp(config, revision_of(version))
    command.upgrade(config, "head")


def revision_of(version: int) -> str:
    """The name of the revision that makes an index of this version."""
    return f"{version:04}"
