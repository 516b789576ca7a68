"""What Alembic runs: every revision that is missing, on the connection and in the transaction it was given."""

from __future__ import annotations

from alembic import context

from gatekit.history.tables import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
