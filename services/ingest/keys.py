"""Keys of the door: who shows one may write to some streams and read some classes.

A key is `weir_` and 43 characters of chance. What is kept of it is its SHA-256, so that nobody who sees the records can
use them; a key of so much chance needs no salt.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

PREFIX = "weir_"
KEY_BYTES = 32
EVERYTHING = frozenset({"*"})


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """What is known of a key."""

    digest: bytes
    streams: frozenset[str] = EVERYTHING
    """Those it may write to, without regard to case; `*` is all."""
    classes: frozenset[str] = EVERYTHING
    """Those whose answers it may read."""

    def writes(self, stream: str) -> bool:
        return bool({"*", stream.lower()} & {name.lower() for name in self.streams})

    def reads(self, class_name: str) -> bool:
        return bool({"*", class_name} & self.classes)


def new_key() -> str:
    return PREFIX + secrets.token_urlsafe(KEY_BYTES)


def digest_of(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def record_of(key: str, records: Iterable[KeyRecord]) -> KeyRecord | None:
    """Takes as long whichever it is, and if there is none."""
    digest, found = digest_of(key), None
    for record in records:
        if hmac.compare_digest(digest, record.digest):
            found = record
    return found
