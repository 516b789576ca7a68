"""When a run was scored anew: from then on it stands in the place of the one that it supersedes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the moment. Records from before it was kept do not hold it either."""
    op.add_column("runs", sa.Column("rescored_at", sa.Text))
