"""The database of a catalog: SQLite in a file of its owner's alone, or PostgreSQL.

Numbered properties:
1. Changes are made one after the other, whoever makes them: a transaction that changes begins by being the only one. So
   what it has read is so when it writes.
2. A transaction that reads sees one state of the whole catalog.
3. A catalog that is opened has the tables of this version: what is missing is migrated, by one of those who open it.
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

# Whoever changes something has it done in milliseconds.
BUSY_S = 30.0
MIGRATIONS = Path(__file__).parent / "migrations"
LOCK = 0x77656972
CHANGES = "weir_changes"
POSTGRESQL, SQLITE = "postgresql", "sqlite"
HINT = "is the database there, and may you use it?"


class CatalogAway(Away):
    """The database cannot be reached or does not answer; try again later."""


class Database:
    """Transactions on a database that is up to date."""

    def __init__(self, home: Home) -> None:
        self._engine = engine_of(home)
        with self.reading() as connection:
            revision = revision_of(connection)
        if revision != REVISION:
            with self.changing() as connection:
                migrate(connection)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """One state of the whole catalog."""
        with told_as_ours(), self._engine.connect() as connection:
            if connection.dialect.name == POSTGRESQL:
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def changing(self) -> Iterator[sa.Connection]:
        """The only one that changes something; all of it or, if it raises, nothing."""
        with told_as_ours(), self._engine.connect() as connection:
            connection.execution_options(**{CHANGES: True})
            with connection.begin():
                if connection.dialect.name == POSTGRESQL:
                    # Later statements see what others have changed while we waited.
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
    except sa.exc.TimeoutError:  # of the pool
        raise CatalogAway("the catalog does not answer: too many wait for it", hint="ask again") from None


def engine_of(home: Home) -> sa.Engine:
    if home.dsn is None:
        return sqlite_engine(home.made().database)
    try:
        url = make_url(home.dsn)
    except sa.exc.ArgumentError:
        url = None
    if url is None or url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        # The value may hold a password.
        raise InvalidInput("not a PostgreSQL database", CATALOG, hint="postgresql://USER@HOST/DATABASE")
    arguments = {"connect_timeout": 10}
    return sa.create_engine(
        url.set(drivername="postgresql+psycopg"), pool_pre_ping=True, connect_args=arguments
    )


def sqlite_engine(path: Path) -> sa.Engine:
    try:
        make_private(path)
    except OSError as problem:
        raise CatalogAway(f"{path} cannot be opened: {problem.strerror}", hint=HINT) from None
    engine = sa.create_engine(sa.URL.create(SQLITE, database=str(path)), connect_args={"timeout": BUSY_S})

    @sa.event.listens_for(engine, "connect")
    def on_connect(connection: Any, _: object) -> None:
        # Transactions begin when we say so, not when the driver sees the first change.
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
            raise CatalogAway(f"{path} is not a catalog: {context.original_exception}", hint=HINT) from None

    return engine


# -- migrations ------------------------------------------------------------------------------------------------


def revision_of(connection: sa.Connection) -> str | None:
    """Of the tables as they are; None where there are none."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return revision


def migrate(connection: sa.Connection) -> None:
    """To the tables of this version, in the transaction of the connection."""
    # Most processes find their catalog up to date.
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
        hint = "use that version, or another WEIR_HOME"
        raise InvalidInput(
            "a newer version of Weir has made this catalog", "revision", revision, hint
        ) from None
