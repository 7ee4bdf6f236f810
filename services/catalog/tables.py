"""The tables of a catalog. A change here needs a migration of the same (`services/catalog/migrations/versions`)."""

from __future__ import annotations

import sqlalchemy as sa

# Of the last migration.
REVISION = "0001"

metadata = sa.MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s_%(column_0_name)s"}
)

documents = sa.Table(
    "documents",
    metadata,
    *(
        # In the order in which they were declared first.
        sa.Column("place", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(20), nullable=False),
        # Of a query; empty otherwise.
        sa.Column("tenant", sa.String(63), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        # JSON, as it was written.
        sa.Column("document", sa.Text, nullable=False),
        # JSON: the streams and queries that a query reads.
        sa.Column("reads", sa.Text, nullable=False),
        # The change in the audit log that made it what it is.
        sa.Column("version", sa.Integer, nullable=False),
        # Kind, tenant and name in small letters.
        sa.Column("folded", sa.String(160), nullable=False, unique=True),
    ),
)

keys = sa.Table(
    "keys",
    metadata,
    *(
        sa.Column("id", sa.String(20), primary_key=True),
        sa.Column("principal", sa.String(63), nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        # Seconds since 1970, as all times here.
        sa.Column("created_at", sa.Float(53), nullable=False),
        sa.Column("expires_at", sa.Float(53)),
        sa.Column("used_at", sa.Float(53)),
        sa.Column("revoked_at", sa.Float(53)),
    ),
)

audit = sa.Table(
    "audit",
    metadata,
    *(
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("action", sa.String(20), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("name", sa.String(160), nullable=False),
        # JSON: which fields have changed, never to what.
        sa.Column("fields", sa.Text, nullable=False),
    ),
    # A number is given once, also after the last rows were removed: versions are these.
    sqlite_autoincrement=True,
)
