"""Stores of a mirror's objects: HTTP addresses, or rows of a database. Each object is fetched by its key.

`objects.fetch(key)` fetches the object, and returns it if it has changed or if `whole` is True. After the object was processed,
the caller calls `objects.took(key, fetched)`, so that later fetches are compared with this version of the object.

Numbered properties:
1. An object counts as unchanged only if it equals the version that was last processed. So a body that cannot be parsed is
   fetched again.
2. Every fetch ends, even if the server misbehaves: at `LOOK_S`, `BODY_BYTES_MAX` or `REDIRECTS_MAX`, with an error that says why.
3. Several threads may fetch at the same time if each thread fetches another key.
"""

from __future__ import annotations

import os
import socket
import threading
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from functools import partial
from hashlib import blake2b
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID

import httpx
import orjson
import sqlalchemy as sa

from configs.errors import InvalidInput, UnknownName, nearest
from engine.data.schema import Field, Schema, TypeKind
from engine.sql.create_mirror import KEYS_MAX, PLACEHOLDER, DatabaseOrigin, HttpOrigin, Mirror
from services.ingest.progress import HIDDEN
from services.mirror.deadline_sockets import DeadlineSockets, OpenLook
from services.mirror.mirror_definition import database_url

TIMEOUT_S = 10.0
# Maximum seconds of a whole fetch. TIMEOUT_S limits only a single read, which a server that sends single bytes never exceeds.
LOOK_S = 30.0
BODY_BYTES_MAX = 1 << 20
KEYS_BYTES_MAX = 16 << 20
REDIRECTS_MAX = 5
TOLD_MAX = 200
# Maximum length of an ETag or Last-Modified header that is stored. Longer headers are ignored.
MARK_MAX = 1000
OK, NOT_MODIFIED = 200, 304
# Assumed maximum difference between the clock of an HTTP server and the clocks of the systems behind the server.
SETTLED = timedelta(seconds=2)
HEADERS = {"User-Agent": "weir-mirror", "Accept": "application/json", "Accept-Encoding": "gzip"}
GZIP = 16 + zlib.MAX_WBITS


class ObjectProblem(Exception):
    """Failure of a fetch of an object."""

    def __init__(self, title: str, size: int = 0, detail: str = "") -> None:
        super().__init__(title[:TOLD_MAX])
        self.size = size
        """Number of bytes that were received until the fetch failed."""
        self.detail = detail[:TOLD_MAX]
        """Details of the failure, which may differ between objects that have the same problem."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Result of a fetch of an object."""

    size: int
    """Number of bytes received."""
    row: Mapping[str, Any] | None = None
    """Values of the object, by column; None if the object has not changed."""
    changed_at: datetime | None = None
    is_new: bool = True
    """True if the object has changed since the version that was last processed."""
    mark: tuple[str, str, bytes] = ("", "", b"")
    """ETag, time of modification and digest, by which later fetches recognise this version of the object."""


class Objects(Protocol):
    """Interface to the remote store of a mirror's objects: HTTP addresses, or a database table."""

    def keys(self) -> Sequence[str]:
        """Return the keys of all objects to mirror; raise InvalidInput if the keys cannot be read."""

    def fetch(self, key: str, whole: bool = False) -> Fetched:
        """Fetch an object, and return its row if it has changed or if `whole` is True; raise ObjectProblem if the fetch fails."""

    def took(self, key: str, fetched: Fetched) -> None: ...

    def close(self) -> None:
        """Shut down all fetches in progress, and close all connections."""


def objects_of(mirror: Mirror, connections: int, password: str = "") -> Objects:
    """Return the store of a mirror's objects; raise InvalidInput if the address is wrong. `password` belongs to the user in the address."""
    match mirror.origin:
        case HttpOrigin():
            return HttpObjects(mirror, mirror.origin.url, password)
        case DatabaseOrigin():
            return DatabaseObjects(mirror, mirror.origin, connections, password)


class HttpObjects:
    """Store of JSON objects at HTTP addresses. Requests are conditional, so that a server need not send unchanged objects."""

    def __init__(self, mirror: Mirror, url: str, password: str = "", look_s: float = LOOK_S) -> None:
        self._mirror, self._url, self._password = mirror, url, password
        self._columns = mirror.columns
        self._marks: dict[str, tuple[str, str, bytes]] = {}
        # Each thread has its own client, because a shared pool may close a connection that a thread has just received from the pool.
        self._own = threading.local()
        self._clients: list[httpx.Client] = []
        self._patience = DeadlineSockets(look_s)

    def keys(self) -> Sequence[str]:
        if self._mirror.keys_url is None:
            return self._mirror.keys
        where = f"KEYS FROM URL {without_password(self._mirror.keys_url)!r}"
        hint = 'give an address that answers with a list of keys: ["key", …]'
        try:
            _, body, _ = self._get(self._mirror.keys_url, {}, KEYS_BYTES_MAX)
            values = orjson.loads(body)
        except ObjectProblem as problem:
            title = f"{where}: the list of keys cannot be fetched: {problem}"
            raise InvalidInput(title, hint=hint) from None
        except orjson.JSONDecodeError:
            raise InvalidInput(f"{where}: the answer is not JSON", hint=hint) from None
        if not isinstance(values, list) or not all(type(value) in (str, int) for value in values):
            raise InvalidInput(f"{where}: the answer is not a list of keys", value=values, hint=hint)
        return [str(value) for value in values]

    def fetch(self, key: str, whole: bool = False) -> Fetched:
        etag, modified, digest = self._marks.get(key, ("", "", b""))
        compared = (("If-None-Match", etag), ("If-Modified-Since", modified))
        headers = {name: value for name, value in compared if value and not whole}
        # In the path of a URL, the keys `.` and `..` would address another directory.
        if key in ("", ".", ".."):
            raise ObjectProblem(f"the key {key!r} cannot be part of an address")
        response, body, size = self._get(
            self._url.replace(PLACEHOLDER, quote(key, safe="")), headers, BODY_BYTES_MAX
        )
        if response.status_code == NOT_MODIFIED:
            if not headers:
                raise ObjectProblem(
                    "the server answered 304 Not Modified, though the request was not conditional", size
                )
            return Fetched(size)
        body_digest = blake2b(body, digest_size=16).digest()
        modified = response.headers.get("Last-Modified", "")
        etag = response.headers.get("ETag", "")
        mark = (
            etag if len(etag) <= MARK_MAX else "",
            modified if has_settled(response) and len(modified) <= MARK_MAX else "",
            body_digest,
        )
        # The server may send an unchanged body again, for example if the server has no ETags.
        if body_digest == digest and not whole:
            self._marks[key] = mark
            return Fetched(size)
        return Fetched(size, self._row(key, body, size), moment_of(modified), body_digest != digest, mark)

    def took(self, key: str, fetched: Fetched) -> None:
        self._marks[key] = fetched.mark

    def close(self) -> None:
        self._patience.close()
        for client in self._clients:
            client.close()

    @property
    def _client(self) -> httpx.Client:
        """HTTP client of the calling thread."""
        client: httpx.Client | None = getattr(self._own, "client", None)
        if client is None:
            client = self._own.client = httpx.Client(
                timeout=TIMEOUT_S,
                limits=httpx.Limits(max_keepalive_connections=1),
                headers=HEADERS,
            )
            # Sockets that a fetch may use: one for the first request, one per redirect, and one that is still open from an earlier fetch.
            self._own.sockets = deque[socket.socket](maxlen=REDIRECTS_MAX + 2)
            self._clients.append(client)
        return client

    def _auth(self, url: str) -> httpx.BasicAuth | None:
        """Return the login for an address that contains a user name; None for other addresses."""
        parts = urlsplit(url)
        if not (self._password and parts.username):
            return None
        return httpx.BasicAuth(unquote(parts.username), self._password)

    def _row(self, key: str, body: bytes, size: int) -> dict[str, Any]:
        try:
            row = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise ObjectProblem(f"the object is not JSON: {body[:40]!r}", size) from None
        if not isinstance(row, dict):
            raise ObjectProblem(f"the answer is not a JSON object: {body[:40]!r}", size)
        values = {name.lower(): value for name, value in row.items()}
        return {field.name: values.get(field.name.lower()) for field in self._columns.fields[1:]} | keyed(
            self._columns, key
        )

    def _get(self, url: str, headers: Mapping[str, str], most: int) -> tuple[httpx.Response, bytes, int]:
        """Return the response, its body, and the number of received bytes. The number includes the bytes of responses that redirect."""
        came, client = Came(), self._client
        with self._patience.look() as look:
            try:
                look.waits_for(*self._own.sockets)
                request = client.build_request("GET", url, headers=dict(headers))
                request.extensions["trace"] = partial(self._connected, look)
                auth: httpx.Auth | None = self._auth(url)
                for _ in range(REDIRECTS_MAX + 1):
                    response = client.send(request, auth=auth, stream=True)
                    try:
                        body = came.body_of(response, most, look)
                    finally:
                        response.close()
                    if response.next_request is None:
                        break
                    # No login is given for a redirect: httpx repeats the login on the same host, and another host must not get the login.
                    request, auth = response.next_request, httpx.Auth()
                else:
                    raise ObjectProblem(f"the server sent more than {REDIRECTS_MAX} redirects", came.size)
            except (httpx.HTTPError, httpx.InvalidURL, zlib.error, ValueError) as problem:
                if look.is_over:
                    raise ObjectProblem(too_late(self._patience), came.size) from None
                raise ObjectProblem(
                    f"the request failed: {type(problem).__name__}: {problem}", came.size
                ) from None
        if response.status_code not in (OK, NOT_MODIFIED):
            raise ObjectProblem(status_of(response), came.size)
        return response, body, came.size

    def _connected(self, look: OpenLook, event: str, told: Mapping[str, Any]) -> None:
        """Register the socket of a new connection, so that the socket is shut down at the time limit of the fetch."""
        if event == "connection.connect_tcp.complete":
            self._own.sockets.append(told["return_value"].get_extra_info("socket"))
            look.waits_for(*self._own.sockets)


@dataclass
class Came:
    """Counter of the bytes that a fetch has received. The counter also reads and checks the bodies of responses."""

    size: int = 0

    def body_of(self, response: httpx.Response, most: int, look: OpenLook) -> bytes:
        """Return the decompressed body; raise ObjectProblem if the body is wrong or has more than `most` bytes."""
        self.size += sum(len(name) + len(value) + 4 for name, value in response.headers.raw)
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            raise ObjectProblem(f"the answer has an encoding that was not requested: {encoding}", self.size)
        unpacks = zlib.decompressobj(GZIP) if encoding == "gzip" else None
        body = bytearray()
        for part in response.iter_raw():
            self.size += len(part)
            body += part if unpacks is None else unpacks.decompress(part, most + 1 - len(body))
            if len(body) > most:
                too_long = f"the body has more than {most:,} bytes"
                raise ObjectProblem(status_of(response) if response.is_error else too_long, self.size)
            if look.is_over:
                raise httpx.ReadTimeout("")
        if unpacks is not None and body and not unpacks.eof:
            raise ObjectProblem("the compressed body is incomplete", self.size)
        return bytes(body)


def too_late(patience: DeadlineSockets) -> str:
    return f"the answer was not complete after {patience.look_s:g} s"


def without_password(url: str) -> str:
    password = urlsplit(url).password
    return url.replace(f":{password}@", f":{HIDDEN}@", 1) if password else url


def status_of(response: httpx.Response) -> str:
    return f"{response.status_code} {response.reason_phrase}"


def has_settled(response: httpx.Response) -> bool:
    """Return True if `Last-Modified` is so old that a later version of the object cannot have the same header.

    The header has whole seconds, so two versions from the same second have the same header.
    """
    modified = moment_of(response.headers.get("Last-Modified", ""))
    answered = moment_of(response.headers.get("Date", ""))
    return modified is not None and (answered or datetime.now(UTC)) - modified >= SETTLED


def moment_of(stamp: str) -> datetime | None:
    """Return the time in a Last-Modified or Date header; None if the header is missing or not valid."""
    try:
        moment = parsedate_to_datetime(stamp) if stamp else None
        return moment and (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def keyed(columns: Schema, key: str) -> dict[str, Any]:
    """Return the name of the key column, with the key as a value of the column's type."""
    field = columns.fields[0]
    try:
        return {field.name: key if field.type.kind is TypeKind.STRING else int(key)}
    except ValueError:
        raise ObjectProblem(f"the key {key!r} is not a whole number") from None


class DatabaseObjects:
    """Store of the rows of a table of SQLite or PostgreSQL. The first column is the key, and should have an index."""

    def __init__(
        self,
        mirror: Mirror,
        origin: DatabaseOrigin,
        connections: int,
        password: str = "",
        look_s: float = LOOK_S,
    ) -> None:
        self._mirror, self._schema = mirror, mirror.columns
        self._table, self._digests = origin.table, dict[str, bytes]()
        self._patience = DeadlineSockets(look_s)
        self._engine = database_of(origin.url, connections, password, look_s)
        try:
            schema, _, name = self._table.rpartition(".")
            with told_as_wrong(self._table), self._connected() as connection:
                table = sa.Table(name, sa.MetaData(), schema=schema or None, autoload_with=connection)
            self._columns = [column_of(table, field) for field in self._schema.fields]
        except BaseException:
            self.close()
            raise

    def keys(self) -> Sequence[str]:
        if self._mirror.keys:
            return self._mirror.keys
        key = self._columns[0]
        with told_as_wrong(self._table), self._connected() as connection:
            rows = connection.execute(sa.select(key).where(key.is_not(None)).distinct().limit(KEYS_MAX + 1))
            return [str(value) for (value,) in rows]

    def fetch(self, key: str, whole: bool = False) -> Fetched:
        condition = self._columns[0] == next(iter(keyed(self._schema, key).values()))
        rows = self._asked(sa.select(*self._columns).where(condition).limit(2))
        if len(rows) != 1:
            raise ObjectProblem("several rows have this key" if rows else "no row has this key")
        (values,) = rows
        row = {
            field.name: plain(field, value) for field, value in zip(self._schema.fields, values, strict=True)
        }
        body = repr(row).encode()
        if len(body) > BODY_BYTES_MAX:
            raise ObjectProblem(f"the row has more than {BODY_BYTES_MAX:,} bytes", len(body))
        digest = blake2b(body, digest_size=16).digest()
        is_new = self._digests.get(key) != digest
        if not is_new and not whole:
            return Fetched(len(body))
        return Fetched(len(body), row | keyed(self._schema, key), None, is_new, ("", "", digest))

    def took(self, key: str, fetched: Fetched) -> None:
        self._digests[key] = fetched.mark[2]

    def close(self) -> None:
        self._patience.close()
        self._engine.dispose()

    def _asked(self, statement: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        for is_last in (False, True):
            with self._patience.look() as look:
                try:
                    with self._connected(look) as connection:
                        return connection.execute(statement).all()
                except (TypeError, ValueError) as problem:
                    # SQLite stores values of any type in a column. SQLAlchemy cannot convert values of some types.
                    raise ObjectProblem(f"a value does not have the type of its column: {problem}") from None
                except sa.exc.SQLAlchemyError as problem:
                    if look.is_over:
                        raise ObjectProblem(too_late(self._patience)) from None
                    # After a restart of the database, a call on an old connection fails. So the call is repeated once on a new connection.
                    if is_last or not getattr(problem, "connection_invalidated", False):
                        raise ObjectProblem(told_by_database(problem)) from None
        raise AssertionError("the loop has ended, although its last try either returns or raises")

    @contextmanager
    def _connected(self, look: OpenLook | None = None) -> Iterator[sa.Connection]:
        """Open a connection for a fetch. The connection is shut down at the time limit of the fetch."""
        if look is None:
            with self._patience.look() as look, self._connected(look) as connection:
                yield connection
            return
        with self._engine.connect() as connection:
            postgres = getattr(connection.connection.driver_connection, "pgconn", None)
            if postgres is None:
                # SQLite needs no time limit, because SQLite has no server that could fail to answer.
                yield connection
                return
            with socket.socket(fileno=os.dup(postgres.socket)) as waited_for:
                look.waits_for(waited_for)
                yield connection


def column_of(table: sa.Table, field: Field) -> sa.Column[Any]:
    columns = {column.name.lower(): column for column in table.columns}
    if field.name.lower() not in columns:
        title = f"table {table.name} has no column of this name"
        raise UnknownName(title, "CREATE MIRROR", field.name, nearest(field.name, columns))
    return columns[field.name.lower()]


def database_of(address: str, connections: int, password: str, look_s: float) -> sa.Engine:
    url = database_url(address)
    if password:
        url = url.set(password=password)
    if url.drivername.partition("+")[0] == "sqlite":
        # SQLite's file is opened for each fetch, because the file may have been replaced by another database.
        arguments = {"timeout": int(TIMEOUT_S)}
        return sa.create_engine(there_already(url), poolclass=sa.NullPool, connect_args=arguments)
    url, arguments = url.set(drivername="postgresql+psycopg"), {"connect_timeout": int(TIMEOUT_S)}
    engine = sa.create_engine(
        url, pool_size=connections, max_overflow=0, pool_timeout=look_s, connect_args=arguments
    )
    sa.event.listen(engine, "connect", partial(limit, look_s))
    return engine


def there_already(url: sa.URL) -> sa.URL:
    """Return a URL with which SQLite opens only an existing file. With a plain path, SQLite would create a missing file."""
    if not url.database or url.database.startswith(("file:", ":memory:")):
        return url
    file = quote(os.path.abspath(url.database))
    return url.set(database=f"file:{file}", query={**url.query, "mode": "rw", "uri": "true"})


def limit(look_s: float, connection: Any, _: object) -> None:
    """Set the time limit in the database server. Otherwise a statement may wait for a lock long after the client has disconnected."""
    connection.autocommit = True
    connection.execute(f"SET statement_timeout = {int(1000 * look_s)}")
    connection.autocommit = False


@contextmanager
def told_as_wrong(table: str) -> Iterator[None]:
    """Turn errors of the database in the block into InvalidInput, because the mirror's declaration names the table and database."""
    try:
        yield
    except sa.exc.NoSuchTableError:
        hint = "check the database, or name the schema: 'schema.name'"
        raise UnknownName("the database has no table of this name", "TABLE", table, hint) from None
    except sa.exc.SQLAlchemyError as problem:
        title = f"the database does not answer: {told_by_database(problem)}"
        raise InvalidInput(
            title, "FROM DATABASE", hint="check that the database runs and that its user may read the table"
        ) from None


def told_by_database(problem: sa.exc.SQLAlchemyError) -> str:
    """Return the first line of the database's error message, without the SQL statement."""
    cause = getattr(problem, "orig", None) or problem
    return (str(cause).strip() or type(cause).__name__).splitlines()[0]


def plain(field: Field, value: Any) -> Any:
    """Return a value of the database as JSON would represent it for the column. Databases have more types than Weir."""
    match value:
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case Decimal() if field.type.is_float:
            return float(value)
        case Decimal() if field.type.is_integer and value == value.to_integral_value():
            return int(value)
        case Decimal() | date() | time() | UUID() if field.type.kind in (TypeKind.STRING, TypeKind.DECIMAL):
            return str(value)
        case float() if field.type.is_integer and value.is_integer():
            return int(value)
    return value
