"""Database of a catalog: SQLite in a file that only its owner may read, or PostgreSQL.

Numbered properties:
1. Changes are made one after the other, also by several processes: a changing transaction first takes an exclusive lock. So
   everything that the transaction has read is still true when it writes.
2. A transaction that reads sees one state of the whole catalog.
3. An opened catalog has the tables of this version: the first process that opens it migrates older tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from configs.errors import Away, InvalidInput
from services.catalog.tables import REVISION
from services.common.weir_home import CATALOG, Home, make_private

# Seconds to wait for SQLite's lock; a change holds it for milliseconds.
BUSY_S = 30.0
MIGRATIONS = Path(__file__).parent / "migrations"
LOCK = 0x77656972
CHANGES = "weir_changes"
POSTGRESQL, SQLITE = "postgresql", "sqlite"
HINT = "check that the database runs and that you may use it"


class CatalogAway(Away):
    """Failure to reach the database, or to get an answer from it; a later try may succeed."""


class Database:
    """Database of a catalog, with the tables of this version of Weir; callers open transactions on it."""

    def __init__(self, home: Home) -> None:
        self._engine = engine_of(home)
        with self.reading() as connection:
            revision = revision_of(connection)
        if revision != REVISION:
            with self.changing() as connection:
                migrate(connection)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a transaction that sees one state of the whole catalog."""
        with told_as_ours(), self._engine.connect() as connection:
            if connection.dialect.name == POSTGRESQL:
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def changing(self) -> Iterator[sa.Connection]:
        """Open a transaction with the exclusive right to make changes. If the block raises an exception, nothing is changed."""
        with told_as_ours(), self._engine.connect() as connection:
            connection.execution_options(**{CHANGES: True})
            with connection.begin():
                if connection.dialect.name == POSTGRESQL:
                    # The lock is taken first, so that later statements see changes that other processes made in the meantime.
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
                yield connection

    def close(self) -> None:
        self._engine.dispose()


@contextmanager
def told_as_ours() -> Iterator[None]:
    try:
        yield
    except sa.exc.OperationalError as problem:
        why = str(problem.orig).strip().splitlines()[0]
        raise CatalogAway(f"the catalog does not answer: {why}", hint=HINT) from None
    except (
        sa.exc.TimeoutError
    ):  # SQLAlchemy raises TimeoutError if the connection pool has no free connection
        raise CatalogAway(
            "the catalog does not answer: too many requests wait for it", hint="try again"
        ) from None


def engine_of(home: Home) -> sa.Engine:
    if home.dsn is None:
        return sqlite_engine(home.made().database)
    try:
        url = make_url(home.dsn)
    except sa.exc.ArgumentError:
        url = None
    if url is None or url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        # The message leaves out the URL, because the URL may contain a password.
        raise InvalidInput(
            "the address of the catalog is not the address of a PostgreSQL database",
            CATALOG,
            hint="write postgresql://USER@HOST/DATABASE",
        )
    arguments = {"connect_timeout": 10}
    return sa.create_engine(
        url.set(drivername="postgresql+psycopg"), pool_pre_ping=True, connect_args=arguments
    )


def sqlite_engine(path: Path) -> sa.Engine:
    try:
        make_private(path)
    except OSError as problem:
        raise CatalogAway(
            f"the catalog file {path} cannot be opened: {problem.strerror}", hint=HINT
        ) from None
    engine = sa.create_engine(sa.URL.create(SQLITE, database=str(path)), connect_args={"timeout": BUSY_S})

    @sa.event.listens_for(engine, "connect")
    def on_connect(connection: Any, _: object) -> None:
        # `on_begin` begins each transaction, because the driver itself begins a transaction only at the first change.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL")

    @sa.event.listens_for(engine, "begin")
    def on_begin(connection: sa.Connection) -> None:
        changes = connection.get_execution_options().get(CHANGES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if changes else "BEGIN")

    @sa.event.listens_for(engine, "handle_error")
    def on_error(context: Any) -> None:
        if isinstance(context.original_exception, sqlite3.DatabaseError) and not isinstance(
            context.original_exception, sqlite3.OperationalError | sqlite3.IntegrityError
        ):
            raise CatalogAway(
                f"the file {path} is not a catalog: {context.original_exception}", hint=HINT
            ) from None

    return engine


def revision_of(connection: sa.Connection) -> str | None:
    """Return the revision of the existing tables; None if there are no tables."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return revision


def migrate(connection: sa.Connection) -> None:
    """Migrate to the tables of this version, in the transaction of the connection."""
    # Alembic is imported only for a migration: most processes find their catalog up to date and start faster without the import.
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from alembic.util.exc import CommandError

    scripts = ScriptDirectory(str(MIGRATIONS))

    def steps(revision: Any, _: Any) -> Any:
        return scripts._upgrade_revs("head", revision)

    context = MigrationContext.configure(connection, opts={"fn": steps})
    try:
        with Operations.context(context):
            context.run_migrations()
    except CommandError:
        revision = revision_of(connection)
        hint = "use the newer version of Weir, or another WEIR_HOME"
        raise InvalidInput(
            "the catalog was made by a newer version of Weir", "revision", revision, hint
        ) from None
