"""Snapshot of the catalog in memory, so that reads never touch the database.

A change made through this service refreshes the snapshot before the caller gets the response; a thread polls for changes that
other processes make. Each snapshot is one consistent state of the whole catalog, and replaces the previous snapshot as a whole.
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
from services.catalog.state import CatalogState, StoredDeclaration
from services.common.background_thread import BackgroundThread

LOG = logging.getLogger(__name__)
LOOK_S = 0.25
# Seconds between writes of the times at which keys were last used.
NOTE_S = 5.0


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """Declaration with its JSON documents, which are rendered once and then sent to all callers."""

    stored: StoredDeclaration
    document: bytes
    """JSON document for administrators, without secrets."""
    public: bytes
    """JSON document for callers other than administrators, without secrets and without the source."""

    @property
    def ref(self) -> Ref:
        return self.stored.ref

    @property
    def etag(self) -> str:
        return f'"{self.stored.version}"'


@dataclass(frozen=True)
class SnapshotContents:
    """Snapshot of all declarations and live keys at one moment."""

    revision: int
    state: CatalogState
    entries: Mapping[Ref, SnapshotEntry]
    of_kind: Mapping[str, Sequence[SnapshotEntry]]
    """Declarations by kind, each kind in the order of declaration."""
    queries: Mapping[str, Sequence[SnapshotEntry]]
    """Queries by tenant, in the order in which they were declared."""
    holders: Mapping[bytes, Holder]
    """Live keys by digest."""
    by_id: Mapping[str, Holder]

    def get(self, ref: Ref) -> SnapshotEntry | None:
        return self.entries.get(ref)


class CatalogSnapshot(BackgroundThread):
    """Holder of the current snapshot of the catalog (`now`); a thread keeps the snapshot up to date between `start` and `stop`."""

    def __init__(self, catalog: Catalog, look_s: float = LOOK_S) -> None:
        super().__init__("snapshot")
        self._catalog, self._look_s = catalog, look_s
        self._lock = threading.Lock()
        self._used: dict[str, float] = {}
        self._noted_at = time.monotonic()
        self._is_away = False
        self.now = SnapshotContents(
            revision=-1, state=CatalogState(), entries={}, of_kind={}, queries={}, holders={}, by_id={}
        )
        self.refresh()

    def holder_of(self, key: bytes) -> Holder | None:
        """Return the holder of the key, or None if the key is not live."""
        digest = self._catalog.keys.digest_of(key)
        holder = self.now.holders.get(digest)
        # Keys are looked up by a peppered hash, so that the time of a lookup does not reveal how much of a wrong key is right.
        is_right = hmac.compare_digest(digest, holder.digest if holder else b"")
        return holder if holder and is_right and holder.is_live(time.time()) else None

    def holder(self, key_id: str) -> Holder | None:
        """Return the holder of the key with this ID, or None if the key is not live."""
        holder = self.now.by_id.get(key_id)
        return holder if holder and holder.is_live(time.time()) else None

    def priority_classes(self) -> dict[str, str]:
        """Return the priority class of each tenant."""
        tenants = self.now.state.of_kind(TenantDeclaration)
        return {tenant.name: tenant.priority_class for tenant in tenants}

    def note_used(self, key_id: str) -> None:
        self._used[key_id] = time.time()

    def refresh(self) -> SnapshotContents:
        """Read the catalog's changes into a new snapshot, if there are any, and return the current snapshot."""
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
            state=change.state,
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
        """Refresh the snapshot, and store when each key was last used. If the catalog does not answer, keep the old snapshot."""
        try:
            self.refresh()
            if is_last or time.monotonic() >= self._noted_at + NOTE_S:
                self._note()
        except Exception as problem:
            if not self._is_away:
                is_ours = isinstance(problem, WeirError)
                LOG.warning("cannot read the catalog: %s", problem, exc_info=None if is_ours else problem)
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


def page(entries: Sequence[SnapshotEntry], after: int, limit: int) -> Sequence[SnapshotEntry]:
    """Return up to `limit` entries with order numbers above `after`."""
    first = bisect_right(entries, after, key=lambda one: one.stored.place)
    return entries[first : first + limit]
