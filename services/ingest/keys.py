"""API keys. A caller with a key may do what the scopes of the key allow.

- The scope `admin` allows everything.
- The scope `tenant:NAME` gives access to the queries of a tenant, their answers, and reports about both.
- The scope `ingest:STREAM` allows writing to a stream; case is ignored in the name of the stream.
- The scope `metrics` allows reading the metrics of all tenants for Prometheus, and nothing else.
- The scope `feeds` allows reading the feeds that Spark must run, with the secrets of sources, and writing to all streams.

A key is `weir_` and 43 random characters. Only the HMAC-SHA256 of a key is stored. The pepper of the HMAC is stored elsewhere, so
that stolen records are of no use. A ring of keys may be published in a file, for a server in another process.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter

PREFIX = "weir_"
KEY_BYTES = 32
ADMIN, TENANT, INGEST, METRICS, FEEDS = "admin", "tenant:", "ingest:", "metrics", "feeds"


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """Scopes and expiry of a key, with the key's digest instead of the key itself."""

    digest: bytes
    scopes: frozenset[str]
    id: str = ""
    expires_at: float | None = None
    """Expiry in seconds since 1970; None if the key does not expire."""

    def writes(self, stream: str) -> bool:
        return bool({ADMIN, FEEDS, f"{INGEST}{stream.lower()}"} & self.scopes)

    def reads(self, class_name: str) -> bool:
        return bool({ADMIN, f"{TENANT}{class_name}"} & self.scopes)

    def is_live(self, now: float) -> bool:
        return self.expires_at is None or now < self.expires_at


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Records of API keys. All keys were hashed together with the same secret, the `pepper`."""

    __pydantic_config__ = ConfigDict(ser_json_bytes="hex", val_json_bytes="hex")

    records: tuple[KeyRecord, ...] = ()
    pepper: bytes = field(default=b"", repr=False)

    def with_key(self, key: str, scopes: Iterable[str] = (ADMIN,)) -> KeyRing:
        record = KeyRecord(self.digest_of(key), frozenset(scopes))
        return replace(self, records=(*self.records, record))

    def digest_of(self, key: str) -> bytes:
        return hmac.digest(self.pepper, key.encode(), hashlib.sha256)

    def record_of(self, key: str, now: float) -> KeyRecord | None:
        """Return the record of a valid key, or None. The call takes the same time for all keys, so that its duration reveals nothing."""
        digest, holder = self.digest_of(key), None
        for record in self.records:
            if hmac.compare_digest(digest, record.digest) and record.is_live(now):
                holder = record
        return holder

    def publish(self, path: Path) -> None:
        """Write this key ring to the file at `path`. Only the owner of the file may read it."""
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(file, "wb") as writer:
            writer.write(RING_JSON.dump_json(self))
        os.replace(draft, path)


RING_JSON = TypeAdapter(KeyRing)
"""Conversion of a ring to JSON, and back."""


def new_key() -> str:
    return PREFIX + secrets.token_urlsafe(KEY_BYTES)


class PublishedKeys:
    """Key ring that another process publishes in a file. The file is read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._ring = KeyRing()

    def ring(self) -> KeyRing:
        try:
            stat = self._path.stat()
            version = (stat.st_ino, stat.st_mtime_ns)
            if version != self._seen:
                self._ring, self._seen = RING_JSON.validate_json(self._path.read_bytes()), version
        except FileNotFoundError:
            self._ring, self._seen = KeyRing(), None
        return self._ring
