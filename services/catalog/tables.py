"""Tables of a catalog's database. Each change here needs a migration in `services/catalog/migrations/versions`."""

import sqlalchemy as sa

# Revision of the last migration.
REVISION = "0001"

metadata = sa.MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "uq": "uq_%(table_name)s_%(column_0_name)s"}
)

documents = sa.Table(
    "documents",
    metadata,
    *(
        # Order number of the document: documents are numbered in the order in which they were first declared.
        sa.Column("place", sa.Integer, primary_key=True),
        sa.Column("kind", sa.String(20), nullable=False),
        # Tenant of a query; empty for other kinds.
        sa.Column("tenant", sa.String(63), nullable=False),
        sa.Column("name", sa.String(63), nullable=False),
        # JSON of the document as it was written.
        sa.Column("document", sa.Text, nullable=False),
        # JSON: the streams and queries that a query reads.
        sa.Column("reads", sa.Text, nullable=False),
        # Id of the document's last change in the audit log.
        sa.Column("version", sa.Integer, nullable=False),
        # Kind, tenant and name in lower case, by which a document is found.
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
        # Time in seconds since 1970, like all times in these tables.
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
        # JSON: names of the changed fields, never their values.
        sa.Column("fields", sa.Text, nullable=False),
    ),
    # Ids serve as versions: AUTOINCREMENT keeps SQLite from using an id again after the last rows were deleted.
    sqlite_autoincrement=True,
)
