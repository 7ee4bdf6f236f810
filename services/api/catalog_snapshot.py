"""The catalog as it is now, in memory: reads never touch the database.

It is refreshed by whoever changes something through this service, before that is answered, and by a thread that looks
for changes of others. What is seen is one state of the whole catalog; a later one takes its place at once.
"""

from __future__ import annotations

import hmac
import logging
import threading
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from configs.documents.declarations import Ref, TenantDeclaration
from configs.errors import WeirError
from services.catalog.catalog import Catalog
from services.catalog.keys import Holder
from services.catalog.redaction import shown_document
from services.catalog.state import StoredDeclaration
from services.common.background_thread import BackgroundThread

LOG = logging.getLogger(__name__)
LOOK_S = 0.25
# When keys were used last is known to the minute; it may be written as late as that.
NOTE_S = 5.0


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """A declaration, and how it is shown."""

    stored: StoredDeclaration
    document: bytes
    """JSON, without secrets."""
    public: bytes
    """What those who are no administrators see of it."""

    @property
    def ref(self) -> Ref:
        return self.stored.ref

    @property
    def etag(self) -> str:
        return f'"{self.stored.version}"'


@dataclass(frozen=True)
class SnapshotContents:
    """All that is declared, as of one moment."""

    revision: int
    entries: Mapping[Ref, SnapshotEntry]
    of_kind: Mapping[str, Sequence[SnapshotEntry]]
    """In the order in which they were declared; so are these:"""
    queries: Mapping[str, Sequence[SnapshotEntry]]
    """By tenant."""
    holders: Mapping[bytes, Holder]
    """Live keys by their digests."""
    by_id: Mapping[str, Holder]

    def get(self, ref: Ref) -> SnapshotEntry | None:
        return self.entries.get(ref)

    def has_tenant(self, name: str) -> bool:
        return Ref("Tenant", name) in self.entries


class CatalogSnapshot(BackgroundThread):
    """`now` is what is known; from `start` to `stop` it follows the catalog."""

    def __init__(self, catalog: Catalog, look_s: float = LOOK_S) -> None:
        super().__init__("snapshot")
        self._catalog, self._look_s = catalog, look_s
        self._lock = threading.Lock()
        self._used: dict[str, float] = {}
        self._noted_at = time.monotonic()
        self._is_away = False
        self.now = SnapshotContents(revision=-1, entries={}, of_kind={}, queries={}, holders={}, by_id={})
        self.refresh()

    # -- reading ---------------------------------------------------------------------------------------

    def holder_of(self, key: bytes) -> Holder | None:
        """Who shows the key, if anybody may."""
        digest = self._catalog.keys.digest_of(key)
        holder = self.now.holders.get(digest)
        # Found by its hash under a pepper, of which no caller can tell how much was right.
        is_right = hmac.compare_digest(digest, holder.digest if holder else b"")
        return holder if holder and is_right and holder.is_live(time.time()) else None

    def holder(self, key_id: str) -> Holder | None:
        """Of a key that is live."""
        holder = self.now.by_id.get(key_id)
        return holder if holder and holder.is_live(time.time()) else None

    def priority_classes(self) -> dict[str, str]:
        """What each tenant is declared with."""
        tenants = (
            declaration_entry.stored.declaration for declaration_entry in self.now.of_kind.get("Tenant", ())
        )
        return {
            tenant.name: tenant.priority_class for tenant in tenants if isinstance(tenant, TenantDeclaration)
        }

    def note_used(self, key_id: str) -> None:
        self._used[key_id] = time.time()

    # -- following -------------------------------------------------------------------------------------

    def refresh(self) -> SnapshotContents:
        """As the catalog is now, or later."""
        with self._lock:
            before = self.now
            if self._catalog.revision() != before.revision:
                self.now = self._later(before)
            return self.now

    def _later(self, before: SnapshotContents) -> SnapshotContents:
        change = self._catalog.known(before.revision)
        entries: dict[Ref, SnapshotEntry] = {}
        of_kind: defaultdict[str, list[SnapshotEntry]] = defaultdict(list)
        queries: defaultdict[str, list[SnapshotEntry]] = defaultdict(list)
        for ref, stored in change.state.items():
            entry = before.entries.get(ref)
            if entry is None or entry.stored is not stored:
                entry = entry_of(stored)
            entries[ref] = entry
            of_kind[ref.kind].append(entry)
            if ref.tenant:
                queries[ref.tenant].append(entry)
        holders = before.holders if change.keys is None else {key.digest: key for key in change.keys}
        by_id = {holder.id: holder for holder in holders.values()}
        return SnapshotContents(
            revision=change.revision,
            entries=entries,
            of_kind=dict(of_kind),
            queries=dict(queries),
            holders=holders,
            by_id=by_id,
        )

    def _run(self) -> None:
        while not self._stopping.wait(self._look_s):
            self._look()
        self._look(is_last=True)

    def _look(self, is_last: bool = False) -> None:
        """What was known stands while the catalog does not answer."""
        try:
            self.refresh()
            if is_last or time.monotonic() >= self._noted_at + NOTE_S:
                self._note()
        except Exception as problem:
            if not self._is_away:
                LOG.warning("the catalog cannot be followed: %s", problem, exc_info=not_ours(problem))
            self._is_away = True
        else:
            self._is_away = False

    def _note(self) -> None:
        used, self._used = self._used, {}
        self._noted_at = time.monotonic()
        if used:
            self._catalog.keys.note_used(dict(used))


def entry_of(stored: StoredDeclaration) -> SnapshotEntry:
    document = shown_document(stored.declaration)
    whole = orjson.dumps(document)
    if document.pop("source", None) is None:
        return SnapshotEntry(stored, whole, whole)
    return SnapshotEntry(stored, whole, orjson.dumps(document))


def not_ours(problem: Exception) -> Exception | None:
    """Whose story is worth telling."""
    return None if isinstance(problem, WeirError) else problem


def page(entries: Sequence[SnapshotEntry], after: int, limit: int) -> Sequence[SnapshotEntry]:
    """Those that were declared after a place."""
    first = bisect_right(entries, after, key=lambda one: one.stored.place)
    return entries[first : first + limit]
