"""Migration that creates the first tables of a catalog: documents, keys and the audit log."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "documents",
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("tenant", sa.String(63), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("reads", sa.Text, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("folded", sa.String(160), nullable=False),
        sa.PrimaryKeyConstraint("place", name="pk_documents"),
        sa.UniqueConstraint("folded", name="uq_documents_folded"),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String(20), nullable=False),
        sa.Column("principal", sa.String(63), nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("expires_at", sa.Float(53)),
        sa.Column("used_at", sa.Float(53)),
        sa.Column("revoked_at", sa.Float(53)),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("action", sa.String(20), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("name", sa.String(160), nullable=False),
        sa.Column("fields", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sqlite_autoincrement=True,
    )
