"""What a unit keeps where its process's end does not reach: commits, snapshots, and what its queries are called.

    classes/<unit>/             commits (`actors.log.commit_format`), and a snapshot where the unit has come to rest
    classes/<unit>/snapshots/   snapshots, the last two
    classes/<unit>/queries.json by query, for who reads its answers, their columns and where they begin
    classes/<unit>/steered      what load was kept with (`Steered`), at this node alone

Guarantees:
1. After `append` the commit outlives this process, whole; after LogFull nothing of it was written.
2. Whatever came between two calls, `found` gives the last state and the commits after it, in order.
3. Answers stay for readers as long as the log has room; what is needed since the last snapshot is never forgotten.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from actors.log.commit_format import (
    SnapshotFrame,
    commit_parts,
    is_snapshot,
    snapshot_of,
    snapshot_parts,
    steps_of,
)
from actors.log.segment import PAGE, LogMissing
from actors.log.segment_log import (
    SEGMENT_BYTES,
    SEGMENTS_LEAST,
    FrameForgotten,
    LogFull,
    Reader,
    SegmentWriter,
)
from configs.errors import WeirError
from engine.class_.steps import Commit
from engine.plan.plan import Query

SNAPSHOTS = "snapshots"
QUERIES = "queries.json"
QUERIES_VERSION = 2
MARK_BYTES = 4
SNAPSHOTS_KEPT = 2
STEERED = "steered"
STEERED_VERSION = 1
_STEERED = Struct("=Qddd")  # version, kept fraction, headroom, share
# Each snapshot gets a segment of its own, so that forgetting one frees it. As many fit as memory has room for.
SNAPSHOT_SEGMENT_BYTES = 2 * PAGE
SNAPSHOT_BYTES = 1 << 40


class LogBroken(WeirError):
    """Commits are missing that the state cannot be found again without."""


@dataclass(frozen=True, slots=True)
class LogContents:
    """What a unit goes on from."""

    snapshot: SnapshotFrame | None
    commits: Sequence[Commit]


@dataclass(frozen=True, slots=True)
class Steered:
    """What the last load cycle has come to."""

    keep: float
    headroom: float
    """0 where no load manager is the unit's own."""
    share: float
    """The one that the headroom is for."""


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """The answers of a query, from the moment it was added until it is removed."""

    columns: tuple[tuple[str, str], ...]
    """Names and types."""
    mark: str
    """Tells them from those of another query of the name, or of another class."""
    began: int
    """No frame before this one has any of them."""


class UnitLog:
    """The writer of both logs; for one thread."""

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self.folder = folder
        self._commits = SegmentWriter(folder, bytes_max=bytes_max, segment_bytes=SEGMENT_BYTES)
        try:
            self._snapshots = SegmentWriter(
                folder / SNAPSHOTS, bytes_max=SNAPSHOT_BYTES, segment_bytes=SNAPSHOT_SEGMENT_BYTES
            )
        except BaseException:
            self._commits.close()
            raise
        self._steered = os.open(folder / STEERED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.steered = steered_of(os.pread(self._steered, _STEERED.size, 0))
        self.frame_max = bytes_max // SEGMENTS_LEAST  # of one commit
        # What the segment of the last snapshot held before it stays, and so does a segment's end that was too short.
        self._filled = max(self.frame_max, bytes_max // 2 - self._commits.segment_bytes)
        self.bytes_since = 0  # of commits after the last snapshot
        self.lost_answers = 0  # of commits that no log of this size takes

    @property
    def next(self) -> int:
        return self._commits.next

    @property
    def is_filling(self) -> bool:
        """Whether a snapshot should make room."""
        return self.bytes_since > self._filled

    def found(self) -> LogContents:
        """LogBroken if there is no state that all later commits are known of."""
        snapshot = self._last_snapshot()
        start = self._commits.first if snapshot is None else snapshot.following
        commits: list[Commit] = []
        log, missing = Reader(self.folder), start > 0 and snapshot is None
        while True:
            try:
                for number, payload in log.frames(start):
                    start = number + 1
                    if is_snapshot(payload):
                        snapshot, commits, missing = snapshot_of(payload), [], False
                    else:
                        commits.append(steps_of(payload))
                break
            except FrameForgotten as lost:
                start, missing = lost.next, True
        if missing:
            raise LogBroken("commits are missing after the last snapshot", file=str(self.folder))
        self._commits.keep_from = 0 if snapshot is None else snapshot.following
        return LogContents(snapshot, commits)

    def append(self, commit: Commit) -> None:
        parts, size = commit_parts(commit)
        if size > self.frame_max:
            # Steps must be there, or all that follows could not be repeated.
            self.lost_answers += sum(len(answer.train) for answer in commit.answers)
            parts, size = commit_parts(Commit(commit.steps, (), commit.answered))
        self._commits.append(parts, size)
        self.bytes_since += size

    def save(self, state: bytes) -> None:
        """A state that knows of everything appended so far. LogFull if there is no room for it."""
        number = self._snapshots.append(*snapshot_parts(SnapshotFrame(self.next, state)))
        self._snapshots.forget(number - SNAPSHOTS_KEPT + 1)
        self._commits.keep_from = self.next
        self.bytes_since = 0

    def rest(self, state: bytes) -> None:
        """The same as the last frame of the log itself, which may be taken to another place."""
        self._commits.append(*snapshot_parts(SnapshotFrame(self.next + 1, state)))

    def describe(self, queries: Mapping[str, Query], added: Collection[str] = ()) -> None:
        """Beside those that are there: answers of queries that have gone can be read as long as they are kept.

        Those that are `added` begin with the next frame, which is yet to be appended: whoever sees their answers knows
        whose they are.
        """
        known = described(self.folder)
        for name, query in queries.items():
            if name in added or name not in known:
                columns = tuple((field.name, str(field.type)) for field in query.plan.schema.fields)
                began = self.next if name in added else 0
                known[name] = LoggedQuery(columns, secrets.token_hex(MARK_BYTES), began)
        told = {name: [one.columns, one.mark, one.began] for name, one in known.items()}
        try:
            describe_as(self.folder, json.dumps({"version": QUERIES_VERSION, "queries": told}).encode())
        except OSError as error:
            raise LogFull("no memory to describe the queries", str(self.folder), hint=str(error)) from error

    def steer(self, steered: Steered) -> None:
        """Let the next life begin with it."""
        if steered == self.steered:
            return
        self.steered = steered
        with suppress(OSError):  # where memory has run out, that life learns it anew
            record = _STEERED.pack(STEERED_VERSION, steered.keep, steered.headroom, steered.share)
            os.pwrite(self._steered, record, 0)

    def close(self) -> None:
        os.close(self._steered)
        self._commits.close()
        self._snapshots.close()

    def remove(self) -> None:
        """Nobody will need any of it; what readers have mapped stays with them."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _last_snapshot(self) -> SnapshotFrame | None:
        log = Reader(self.folder / SNAPSHOTS)
        for _, payload in log.frames(max(log.first, log.next - 1)):
            return snapshot_of(payload)
        return None


def steered_of(record: bytes) -> Steered | None:
    if len(record) < _STEERED.size:
        return None
    version, keep, headroom, share = _STEERED.unpack(record)
    return Steered(keep, headroom, share) if version == STEERED_VERSION else None


def describe_as(folder: Path, description: bytes) -> None:
    draft = folder / f"{QUERIES}.draft"
    draft.write_bytes(description)
    os.replace(draft, folder / QUERIES)


def described(folder: Path) -> dict[str, LoggedQuery]:
    """By query."""
    try:
        record = json.loads((folder / QUERIES).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if record["version"] != QUERIES_VERSION:
        raise LogMissing("queries are described in another version", file=str(folder / QUERIES))
    return {
        name: LoggedQuery(tuple((column, kind) for column, kind in columns), mark, began)
        for name, (columns, mark, began) in record["queries"].items()
    }


__all__ = ["LoggedQuery", "LogContents", "LogBroken", "LogFull", "Steered", "UnitLog", "described"]
