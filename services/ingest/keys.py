"""Keys: who shows one may do what its scopes say.

    admin            everything
    tenant:NAME      what is a tenant's: its queries, their answers, and what is told of them
    ingest:STREAM    write to a stream, letters' case aside
    metrics          read what Prometheus is told, of everybody, and nothing else
    feeds            read what Spark is to bring, secrets of sources too, and write to all streams

A key is `weir_` and 43 characters of chance. What is kept of it is its HMAC-SHA256 under a pepper that is kept elsewhere,
so that nobody who sees the records can use them. A ring of keys may be published in a file, for a door in another process.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

PREFIX = "weir_"
KEY_BYTES = 32
ADMIN, TENANT, INGEST, METRICS, FEEDS = "admin", "tenant:", "ingest:", "metrics", "feeds"


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """What is known of a key."""

    digest: bytes
    scopes: frozenset[str]
    id: str = ""
    expires_at: float | None = None
    """Seconds since 1970."""

    def writes(self, stream: str) -> bool:
        return bool({ADMIN, FEEDS, f"{INGEST}{stream.lower()}"} & self.scopes)

    def reads(self, class_name: str) -> bool:
        return bool({ADMIN, f"{TENANT}{class_name}"} & self.scopes)

    def is_live(self, now: float) -> bool:
        return self.expires_at is None or now < self.expires_at


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All keys that one pepper belongs to."""

    records: tuple[KeyRecord, ...] = ()
    pepper: bytes = field(default=b"", repr=False)

    def with_key(self, key: str, scopes: Iterable[str] = (ADMIN,)) -> KeyRing:
        record = KeyRecord(self.digest_of(key), frozenset(scopes))
        return replace(self, records=(*self.records, record))

    def digest_of(self, key: str) -> bytes:
        return hmac.digest(self.pepper, key.encode(), hashlib.sha256)

    def record_of(self, key: str, now: float) -> KeyRecord | None:
        """Takes as long whichever it is, and if there is none."""
        digest, holder = self.digest_of(key), None
        for record in self.records:
            if hmac.compare_digest(digest, record.digest) and record.is_live(now):
                holder = record
        return holder

    def publish(self, path: Path) -> None:
        """For its owner alone, whole or not at all."""
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(file, "w", encoding="utf-8") as writer:
            json.dump(
                {"pepper": self.pepper.hex(), "records": [as_json(record) for record in self.records]}, writer
            )
        os.replace(draft, path)


def new_key() -> str:
    return PREFIX + secrets.token_urlsafe(KEY_BYTES)


def as_json(one: KeyRecord) -> dict[str, object]:
    return {
        "id": one.id,
        "digest": one.digest.hex(),
        "scopes": sorted(one.scopes),
        "expires_at": one.expires_at,
    }


def published(path: Path) -> KeyRing:
    content = json.loads(path.read_text(encoding="utf-8"))
    records = (
        KeyRecord(
            bytes.fromhex(record["digest"]), frozenset(record["scopes"]), record["id"], record["expires_at"]
        )
        for record in content["records"]
    )
    return KeyRing(tuple(records), bytes.fromhex(content["pepper"]))


class PublishedKeys:
    """A ring in a file, as it is there now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._ring = KeyRing()

    def ring(self) -> KeyRing:
        try:
            stat = self._path.stat()
            version = (stat.st_ino, stat.st_mtime_ns)
            if version != self._seen:
                self._ring, self._seen = published(self._path), version
        except FileNotFoundError:
            self._ring, self._seen = KeyRing(), None
        return self._ring
