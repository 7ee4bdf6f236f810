"""Where a mirror's objects are: at addresses of HTTP, or in rows of a database; each looked at by its key.

    fetched = objects.fetch(key)        what has changed, if anything has; with `whole` also what has not
    objects.took(key, fetched)          the change has been understood: what is the same from now on is unchanged

Numbered properties:
1. An object is unchanged only if it is as it was when it was last understood: a body that nobody can read is looked at again.
2. Whatever the other side does, a look ends: after `LOOK_S`, `BODY_BYTES_MAX` and `REDIRECTS_MAX`, with what is wrong told.
3. May be asked by several threads, each about another key.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

import httpx
import orjson
import sqlalchemy as sa

from configs.problems import InvalidInput, UnknownName, nearest
from engine.schema import Kind, Schema
from engine.sql.mirror import KEYS_MAX, PLACEHOLDER, DatabaseOrigin, HttpOrigin, Mirror
from services.mirror.declared import database_url

TIMEOUT_S = 10.0
# Of a look in all: a server that sends a byte now and then would go on for ever.
LOOK_S = 30.0
BODY_BYTES_MAX = 1 << 20
KEYS_BYTES_MAX = 16 << 20
REDIRECTS_MAX = 5
TOLD_MAX = 200
OK, NOT_MODIFIED = 200, 304


class ObjectProblem(Exception):
    """The object could not be looked at this time."""

    def __init__(self, title: str, size: int = 0) -> None:
        super().__init__(title[:TOLD_MAX])
        self.size = size
        """Bytes that it has cost nonetheless."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a look has found."""

    size: int
    """Bytes."""
    row: Mapping[str, Any] | None = None
    """The object, by column; None: unchanged."""
    changed_at: datetime | None = None
    is_new: bool = True
    """Whether it has changed; only a whole look finds a row that has not."""
    mark: tuple[str, str, bytes] = ("", "", b"")
    """By which it is known again: its ETag, when it was modified, a digest."""


class Objects(Protocol):
    """A store of objects."""

    def keys(self) -> Sequence[str]:
        """Of all that are to be mirrored; InvalidInput if they cannot be had."""

    def fetch(self, key: str, whole: bool = False) -> Fetched:
        """Or ObjectProblem."""

    def took(self, key: str, fetched: Fetched) -> None: ...

    def close(self) -> None: ...


def objects_of(mirror: Mirror, connections: int, password: str = "") -> Objects:
    """InvalidInput if there cannot be any. The password is that of the user whom an address names."""
    match mirror.origin:
        case HttpOrigin():
            return HttpObjects(mirror, mirror.origin.url, password)
        case DatabaseOrigin():
            return DatabaseObjects(mirror, mirror.origin, connections, password)


# -- HTTP -----------------------------------------------------------------------------------------------------------


class HttpObjects:
    """JSON objects; asked for only if they differ, where the server knows of that."""

    def __init__(self, mirror: Mirror, url: str, password: str = "") -> None:
        self._mirror, self._url, self._password = mirror, url, password
        self._columns = mirror.columns
        self._marks: dict[str, tuple[str, str, bytes]] = {}
        # A pool that threads share may close a connection that one of them has just been given.
        self._own = threading.local()
        self._clients: list[httpx.Client] = []

    def keys(self) -> Sequence[str]:
        if self._mirror.keys_url is None:
            return self._mirror.keys
        where = f"KEYS FROM URL {self._mirror.keys_url!r}"
        try:
            body, _ = self._get(self._mirror.keys_url, {}, KEYS_BYTES_MAX)[1:]
            found = orjson.loads(body)
        except ObjectProblem as problem:
            raise InvalidInput(f"{where}: {problem}", hint="the address is to answer with a list") from None
        except orjson.JSONDecodeError:
            raise InvalidInput(f"{where}: not JSON", hint='answer with ["key", …]') from None
        if not isinstance(found, list) or not all(type(one) in (str, int) for one in found):
            raise InvalidInput(f"{where}: not a list of keys", value=found, hint='answer with ["key", …]')
        return [str(one) for one in found]

    def fetch(self, key: str, whole: bool = False) -> Fetched:
        etag, modified, digest = self._marks.get(key, ("", "", b""))
        compared = (("If-None-Match", etag), ("If-Modified-Since", modified))
        asked = {name: value for name, value in compared if value and not whole}
        response, body, size = self._get(
            self._url.replace(PLACEHOLDER, quote(key, safe="")), asked, BODY_BYTES_MAX
        )
        if response.status_code == NOT_MODIFIED:
            if not asked:
                raise ObjectProblem("304 Not Modified, though nothing was asked to be compared", size)
            return Fetched(size)
        found = blake2b(body, digest_size=16).digest()
        if found == digest and not whole:  # a server without ETags, or one that takes them for new
            return Fetched(size)
        modified = response.headers.get("Last-Modified", "")
        mark = (response.headers.get("ETag", ""), modified, found)
        return Fetched(size, self._row(key, body, size), moment_of(modified), found != digest, mark)

    def took(self, key: str, fetched: Fetched) -> None:
        self._marks[key] = fetched.mark

    def close(self) -> None:
        """Who is still looking is cut off."""
        for one in self._clients:
            one.close()

    @property
    def _client(self) -> httpx.Client:
        """This thread's."""
        found: httpx.Client | None = getattr(self._own, "client", None)
        if found is None:
            found = self._own.client = httpx.Client(
                timeout=TIMEOUT_S,
                follow_redirects=True,
                max_redirects=REDIRECTS_MAX,
                limits=httpx.Limits(max_keepalive_connections=1),
                headers={"User-Agent": "weir-mirror", "Accept": "application/json"},
            )
            self._clients.append(found)
        return found

    def _auth(self, url: str) -> httpx.BasicAuth | None:
        """Of an address that names a user; where it redirects to another host, nothing of it is shown."""
        parts = urlsplit(url)
        if not (self._password and parts.username):
            return None
        return httpx.BasicAuth(unquote(parts.username), self._password)

    def _row(self, key: str, body: bytes, size: int) -> dict[str, Any]:
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise ObjectProblem(f"not JSON: {body[:40]!r}", size) from None
        if not isinstance(found, dict):
            raise ObjectProblem(f"not an object: {body[:40]!r}", size)
        values = {name.lower(): value for name, value in found.items()}
        return {one.name: values.get(one.name.lower()) for one in self._columns.fields[1:]} | keyed(
            self._columns, key
        )

    def _get(self, url: str, headers: Mapping[str, str], most: int) -> tuple[httpx.Response, bytes, int]:
        """The answer, its body, and the bytes of both."""
        until, parts, size = time.monotonic() + LOOK_S, [], 0
        try:
            with self._client.stream("GET", url, headers=dict(headers), auth=self._auth(url)) as response:
                heads = sum(len(name) + len(value) + 4 for name, value in response.headers.raw)
                for part in response.iter_bytes(1 << 16):
                    parts.append(part)
                    size += len(part)
                    if size > most:
                        raise ObjectProblem(f"the body has more than {most:,} bytes", size + heads)
                    if time.monotonic() > until:
                        raise ObjectProblem(f"the body was not there after {LOOK_S:g} s", size + heads)
                if response.status_code not in (OK, NOT_MODIFIED):
                    raise ObjectProblem(f"{response.status_code} {response.reason_phrase}", size + heads)
                return response, b"".join(parts), size + heads
        except httpx.TooManyRedirects:
            raise ObjectProblem(f"more than {REDIRECTS_MAX} redirects") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as problem:
            raise ObjectProblem(f"{type(problem).__name__}: {problem}", size) from None


def moment_of(modified: str) -> datetime | None:
    """Of the header Last-Modified."""
    try:
        return parsedate_to_datetime(modified).astimezone(UTC) if modified else None
    except (ValueError, OverflowError):
        return None


def keyed(columns: Schema, key: str) -> dict[str, Any]:
    """The column of the key."""
    field = columns.fields[0]
    return {field.name: key if field.type.kind is Kind.STRING else number_of(key)}


def number_of(key: str) -> int:
    try:
        return int(key)
    except ValueError:
        raise ObjectProblem(f"the key {key!r} is not a whole number") from None


# -- rows of a database ---------------------------------------------------------------------------------------------


class DatabaseObjects:
    """Rows of a table of SQLite or PostgreSQL; the first column is the key and should have an index."""

    def __init__(self, mirror: Mirror, origin: DatabaseOrigin, connections: int, password: str = "") -> None:
        self._mirror, self._schema = mirror, mirror.columns
        self._engine = database_of(origin.url, connections, password)
        with told_as_wrong(origin.table):
            table = sa.Table(origin.table, sa.MetaData(), autoload_with=self._engine)
        known = {one.name.lower(): one for one in table.columns}
        for field in self._schema.fields:
            if field.name.lower() not in known:
                raise UnknownName(
                    f"table {origin.table} has no such column",
                    "CREATE MIRROR",
                    field.name,
                    nearest(field.name, known),
                )
        self._columns = [known[one.name.lower()] for one in self._schema.fields]
        self._table, self._digests = origin.table, dict[str, bytes]()

    def keys(self) -> Sequence[str]:
        if self._mirror.keys:
            return self._mirror.keys
        key = self._columns[0]
        with told_as_wrong(self._table), self._engine.connect() as connection:
            found = connection.execute(sa.select(key).where(key.is_not(None)).distinct().limit(KEYS_MAX + 1))
            return [str(one) for (one,) in found]

    def fetch(self, key: str, whole: bool = False) -> Fetched:
        wanted = self._columns[0] == next(iter(keyed(self._schema, key).values()))
        try:
            with self._engine.connect() as connection:
                found = connection.execute(sa.select(*self._columns).where(wanted).limit(1)).first()
        except sa.exc.SQLAlchemyError as problem:
            raise ObjectProblem(told_by_database(problem)) from None
        if found is None:
            raise ObjectProblem("there is no such row")
        row = {field.name: plain(value) for field, value in zip(self._schema.fields, found, strict=True)}
        body = repr(row).encode()
        digest = blake2b(body, digest_size=16).digest()
        is_new = self._digests.get(key) != digest
        if not is_new and not whole:
            return Fetched(len(body))
        return Fetched(len(body), row | keyed(self._schema, key), None, is_new, ("", "", digest))

    def took(self, key: str, fetched: Fetched) -> None:
        self._digests[key] = fetched.mark[2]

    def close(self) -> None:
        self._engine.dispose()


def database_of(address: str, connections: int, password: str) -> sa.Engine:
    url = database_url(address)
    if password:
        url = url.set(password=password)
    if url.drivername.partition("+")[0] == "sqlite":
        arguments = {"timeout": int(TIMEOUT_S)}
    else:
        url, arguments = url.set(drivername="postgresql+psycopg"), {"connect_timeout": int(TIMEOUT_S)}
    return sa.create_engine(
        url, pool_size=connections, max_overflow=0, pool_timeout=LOOK_S, pool_pre_ping=True, connect_args=arguments
    )  # fmt: skip


@contextmanager
def told_as_wrong(table: str) -> Iterator[None]:
    """What a database says of a table is the declaration's mistake."""
    try:
        yield
    except sa.exc.NoSuchTableError:
        raise UnknownName("there is no such table", "TABLE", table, "is it in another database?") from None
    except sa.exc.SQLAlchemyError as problem:
        title = f"the database does not answer: {told_by_database(problem)}"
        raise InvalidInput(title, "FROM DATABASE", hint="is it there, and may you use it?") from None


def told_by_database(problem: sa.exc.SQLAlchemyError) -> str:
    """One line, without the statement."""
    cause = getattr(problem, "orig", None) or problem
    return (str(cause).strip() or type(cause).__name__).splitlines()[0]


def plain(value: Any) -> Any:
    """As JSON would have it."""
    match value:
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case Decimal():
            return str(value)
    return value
