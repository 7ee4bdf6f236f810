"""API keys in the catalog: a key is shown once when it is created, may be revoked, and has the time of its last use.

Numbered properties:
1. Only the hash of a key is stored, made with a pepper that is not in the database.
2. A principal has at most two live keys: the key in use and its replacement.
3. A key that is revoked or has expired gives no access.
4. The time of a key's last use is written at most once per minute.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

import sqlalchemy as sa

from configs.documents.declarations import Ref
from configs.errors import InvalidInput, UnknownName, nearest
from configs.yaml_loading import A_NAME, is_name
from services.catalog import tables
from services.catalog.audit import note
from services.catalog.database import Database
from services.common.weir_home import Home
from services.ingest.keys import ADMIN, FEEDS, INGEST, METRICS, TENANT, KeyRecord, KeyRing, new_key

LIVE_KEYS = 2
USED_EVERY_S = 60.0
SCOPES = f"one of {ADMIN}, {TENANT}NAME, {INGEST}STREAM,…, {METRICS}, {FEEDS}"
# Format of keys that were made outside Weir: the prefix of `new_key`, then 32 to 190 characters.
GIVEN = re.compile(r"weir_[A-Za-z0-9_-]{32,190}")


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """Record of a key, without the key's text and hash, so that the record may be shown."""

    id: str
    principal: str
    scopes: tuple[str, ...]
    created_at: float
    expires_at: float | None = None
    used_at: float | None = None
    revoked_at: float | None = None

    def is_live(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    @property
    def ref(self) -> Ref:
        return Ref("Key", self.id)


@dataclass(frozen=True, slots=True)
class Holder:
    """Holder of a live key, with the key's scopes and digest."""

    id: str
    principal: str
    scopes: frozenset[str]
    digest: bytes
    expires_at: float | None

    def is_live(self, now: float) -> bool:
        return self.expires_at is None or now < self.expires_at


class KeyStore:
    """Keys of one catalog."""

    def __init__(self, database: Database, home: Home, clock: Callable[[], float] = time.time) -> None:
        self._database, self._home, self._clock = database, home, clock
        self._pepper: bytes | None = None

    def all(self) -> list[IssuedKey]:
        """Return all keys, the oldest first."""
        with self._database.reading() as connection:
            return infos(connection)

    def create(
        self, principal: str, scopes: Iterable[str], who: str, expires_at: float | None = None
    ) -> tuple[str, IssuedKey]:
        """Create a key. Return the text of the key, which is not stored and cannot be shown again, and the key's record."""
        check_principal(principal)
        now = self._clock()
        if expires_at is not None and not (math.isfinite(expires_at) and expires_at > now):
            raise InvalidInput(
                "the expiry time of the new key is in the past",
                "expires",
                expires_at,
                "give a time in the future",
            )
        with self._database.changing() as connection:
            expanded = known_scopes(connection, scopes)
            live = [info for info in infos(connection) if info.principal == principal and info.is_live(now)]
            if len(live) >= LIVE_KEYS:
                ids = ", ".join(info.id for info in live)
                hint = f"revoke one of these keys first: {ids}"
                raise InvalidInput(
                    f"the principal already has {LIVE_KEYS} live keys", "principal", principal, hint
                )
            key = new_key()
            info = IssuedKey(new_id(), principal, expanded, now, expires_at)
            add_key(connection, info, self.digest_of(key.encode()), who)
        return key, info

    def adopt(self, key: str, principal: str, scopes: Iterable[str], who: str) -> None:
        """Store a key that was made outside Weir. The principal's newest other key stays valid, and the principal's older keys are revoked.

        Repeating the call has no effect. Raise InvalidInput if the key was revoked, or has another principal or other scopes.
        """
        check_principal(principal)
        if not GIVEN.fullmatch(key):
            hint = "write weir_ and at least 32 random letters and digits"
            raise InvalidInput("the text does not have the form of an API key", "key", hint=hint)
        now, digest = self._clock(), self.digest_of(key.encode())
        with self._database.changing() as connection:
            expanded = known_scopes(connection, scopes)
            rows = connection.execute(sa.select(tables.keys.c.id).where(tables.keys.c.digest == digest))
            same = {str(row.id) for row in rows}
            related = [info for info in infos(connection) if info.principal == principal or info.id in same]
            for info in related:
                if info.id in same:
                    if info.principal != principal or info.scopes != expanded or not info.is_live(now):
                        title = (
                            "the key already exists, and was revoked or has another principal or other scopes"
                        )
                        raise InvalidInput(title, "key", info.id, "create another key")
                    return
            live = [info for info in related if info.is_live(now)]
            for info in live[: max(0, len(live) - LIVE_KEYS + 1)]:
                set_columns(connection, info.id, revoked_at=now)
                note(connection, now, who, "revoked", info.ref)
            add_key(connection, IssuedKey(new_id(), principal, expanded, now), digest, who)

    def revoke(self, id_: str, who: str) -> None:
        """Revoke a key; raise UnknownName if the key does not exist. Revoking a revoked key has no effect."""
        with self._database.changing() as connection:
            infos_by_id = {info.id: info for info in infos(connection)}
            if id_ not in infos_by_id:
                raise UnknownName("there is no key with this ID", "ID", id_, nearest(id_, infos_by_id))
            if infos_by_id[id_].revoked_at is None:
                now = self._clock()
                set_columns(connection, id_, revoked_at=now)
                note(connection, now, who, "revoked", infos_by_id[id_].ref)

    def note_used(self, used: dict[str, float]) -> None:
        """Record when keys were last used. `used` has the time by key id, in seconds since 1970."""
        with self._database.reading() as connection:
            before = {info.id: info.used_at or -math.inf for info in infos(connection)}
        late = {id_: at for id_, at in used.items() if id_ in before and at >= before[id_] + USED_EVERY_S}
        if late:
            with self._database.changing() as connection:
                for id_, at in late.items():
                    set_columns(connection, id_, used_at=at)

    def ring(self, connection: sa.Connection) -> KeyRing:
        """Return all live keys, each with its expiry, as the key ring with which gateways check callers."""
        now = self._clock()
        live = {info.id: info for info in infos(connection) if info.is_live(now)}
        if not live:
            return KeyRing()
        rows = connection.execute(
            sa.select(tables.keys.c.id, tables.keys.c.digest).order_by(tables.keys.c.id)
        )
        records = (
            KeyRecord(bytes(digest), frozenset(live[id_].scopes), id_, live[id_].expires_at)
            for id_, digest in rows
            if id_ in live
        )
        return KeyRing(tuple(records), self._home.pepper())

    def holders(self, connection: sa.Connection) -> tuple[Holder, ...]:
        """Return the holders of all live keys, each with its expiry."""
        now, columns = self._clock(), tables.keys.c
        rows = connection.execute(
            sa.select(columns.id, columns.principal, columns.scopes, columns.digest, columns.expires_at)
            .where(columns.revoked_at.is_(None))
            .order_by(columns.id)
        )
        holders = (
            Holder(
                row.id, row.principal, frozenset(json.loads(row.scopes)), bytes(row.digest), row.expires_at
            )
            for row in rows
        )
        return tuple(holder for holder in holders if holder.is_live(now))

    def digest_of(self, key: bytes) -> bytes:
        """Return the digest of a key; the catalog stores only the digest."""
        if self._pepper is None:
            self._pepper = self._home.pepper()
        return hmac.digest(self._pepper, key, hashlib.sha256)

    def users(self, connection: sa.Connection, ref: Ref) -> list[str]:
        """Return the live keys that have a scope for this tenant or stream."""
        now, scope = self._clock(), scope_of(ref)
        return [f"key {info.id}" for info in infos(connection) if scope in info.scopes and info.is_live(now)]


def new_id() -> str:
    return f"k{secrets.token_hex(6)}"


def check_principal(principal: str) -> None:
    if not is_name(principal):
        raise InvalidInput("this is not a valid name", "principal", principal, A_NAME)


def scope_of(ref: Ref) -> str | None:
    match ref.kind:
        case "Tenant":
            return f"{TENANT}{ref.name}"
        case "Stream":
            return f"{INGEST}{ref.name.lower()}"
    return None


def known_scopes(connection: sa.Connection, scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes, with `ingest:A,B` split into a scope per stream; raise UnknownName if a tenant or stream does not exist."""
    rows = connection.execute(sa.select(tables.documents.c.kind, tables.documents.c.name))
    names: dict[str, list[str]] = {"Tenant": [], "Stream": []}
    for kind, name in rows:
        names.setdefault(kind, []).append(name)
    expanded: set[str] = set()
    for scope in scopes:
        expanded |= set(parts_of(scope, names))
    if not expanded:
        raise InvalidInput("the key needs at least one scope", "scope", hint=f"give {SCOPES}")
    return tuple(sorted(expanded))


def parts_of(scope: str, names: dict[str, list[str]]) -> Iterable[str]:
    if scope in (ADMIN, METRICS, FEEDS):
        yield scope
    elif scope.startswith(TENANT):
        tenant = scope.removeprefix(TENANT)
        if tenant not in names["Tenant"]:
            raise UnknownName(
                "the catalog has no tenant of this name", "scope", scope, nearest(tenant, names["Tenant"])
            )
        yield scope
    elif scope.startswith(INGEST):
        for stream in scope.removeprefix(INGEST).split(","):
            if stream.lower() not in {name.lower() for name in names["Stream"]}:
                raise UnknownName(
                    "the catalog has no stream of this name", "scope", scope, nearest(stream, names["Stream"])
                )
            yield f"{INGEST}{stream.lower()}"
    else:
        raise InvalidInput("the text is not a scope of a key", "scope", scope, f"give {SCOPES}")


def infos(connection: sa.Connection) -> list[IssuedKey]:
    columns = [column for column in tables.keys.c if column.name != "digest"]
    query = sa.select(*columns).order_by(tables.keys.c.created_at, tables.keys.c.id)
    rows = connection.execute(query).mappings()
    return [IssuedKey(**{**row, "scopes": tuple(json.loads(row["scopes"]))}) for row in rows]


def add_key(connection: sa.Connection, info: IssuedKey, digest: bytes, who: str) -> None:
    columns = {**asdict(info), "scopes": json.dumps(info.scopes), "digest": digest}
    connection.execute(sa.insert(tables.keys).values(columns))
    note(connection, info.created_at, who, "created", info.ref)


def set_columns(connection: sa.Connection, id_: str, **columns: object) -> None:
    connection.execute(sa.update(tables.keys).where(tables.keys.c.id == id_).values(columns))
