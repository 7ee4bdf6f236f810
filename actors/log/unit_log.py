"""Persistent data of a unit, which survives the end of its process: commits, snapshots, and a description of its queries.

A new process restores the unit from its last snapshot and the later commits. Readers of answers read the commits.
The folder of a unit has these files and folders:

    classes/<unit>/             commits (`actors.log.commit_format`), and a final snapshot if the unit was closed normally
    classes/<unit>/snapshots/   the last two snapshots
    classes/<unit>/queries.json for readers of answers: the columns of each query and the frame where its answers begin
    classes/<unit>/steered      result of the last load cycle (`Steered`), not copied to other nodes

Guarantees:
1. After `append`, the complete commit survives the end of this process. After LogFull, nothing of it was written.
2. Wherever the process was killed, `found` returns the last state and all later commits, in order.
3. Answers can be read as long as the log has room. Commits after the last snapshot are never forgotten.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Collection, Mapping
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
    Reader,
    SegmentWriter,
    no_memory,
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
# Fields of the stored result of a load cycle: version, kept fraction, headroom, share
_STEERED = Struct("=Qddd")


class LogBroken(WeirError):
    """Error for a log that lacks commits that are needed to restore the state."""


@dataclass(frozen=True, slots=True)
class Steered:
    """Result of a unit's last load cycle, with which a restarted unit begins."""

    keep: float
    headroom: float
    """Headroom of the unit's load manager; 0 if the unit does not have its own manager."""
    share: float
    """Share for which the headroom was measured."""


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """Description of the answers that a query gives between its addition and its removal."""

    columns: tuple[tuple[str, str], ...]
    """Names and types of the columns."""
    mark: str
    """Random id that distinguishes the query from an earlier query of the same name."""
    began: int
    """Number of the first frame that can have answers of the query."""


class UnitLog:
    """Writer of a unit's commit and snapshot logs, to be used by one thread."""

    def __init__(self, folder: Path, bytes_max: int) -> None:
        self.folder = folder
        self._commits = SegmentWriter(folder, bytes_max=bytes_max, segment_bytes=SEGMENT_BYTES)
        try:
            self._snapshots = snapshot_writer(folder)
        except BaseException:
            self._commits.close()
            raise
        self._steered = os.open(folder / STEERED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.steered = steered_of(os.pread(self._steered, _STEERED.size, 0))
        self.frame_max = bytes_max // SEGMENTS_LEAST  # Maximum size of one commit, in bytes
        # The size of one segment is deducted, because segments also contain older commits and unused space at their ends.
        self._filled = max(self.frame_max, bytes_max // 2 - self._commits.segment_bytes)
        self.bytes_since = 0  # Bytes of commits after the last snapshot
        self.lost_answers = 0  # Number of answers dropped because their commit was too large for the log

    @property
    def next(self) -> int:
        return self._commits.next

    @property
    def is_filling(self) -> bool:
        """Return True if a snapshot is needed, so that old commits may be deleted."""
        return self.bytes_since > self._filled

    def found(self) -> tuple[SnapshotFrame | None, list[Commit]]:
        """Return the last snapshot and all commits after it; raise LogBroken if such a commit is missing."""
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
            raise LogBroken(
                "the log of the unit lacks commits after its last snapshot", file=str(self.folder)
            )
        self._commits.keep_from = 0 if snapshot is None else snapshot.following
        return snapshot, commits

    def append(self, commit: Commit) -> None:
        parts, size = commit_parts(commit)
        if size > self.frame_max:
            # The answers are dropped, but the steps are written: a restart can repeat later steps only if all earlier steps exist.
            self.lost_answers += sum(len(answer.train) for answer in commit.answers)
            parts, size = commit_parts(Commit(commit.steps, (), commit.answered))
        self._commits.append(parts, size)
        self.bytes_since += size

    def save(self, state: bytes) -> None:
        """Write a snapshot of a state that contains all appended commits. Raise LogFull if there is no room for it."""
        number = self._snapshots.append(*snapshot_parts(SnapshotFrame(self.next, state)))
        self._snapshots.forget(number - SNAPSHOTS_KEPT + 1)
        self._commits.keep_from = self.next
        self.bytes_since = 0

    def rest(self, state: bytes) -> None:
        """Append a snapshot to the commit log itself, as its last frame, so that a copy of this log suffices to restore the unit."""
        self._commits.append(*snapshot_parts(SnapshotFrame(self.next + 1, state)))

    def describe(self, queries: Mapping[str, Query], added: Collection[str] = ()) -> None:
        """Add queries to the description file. Removed queries stay in it, since their answers can still be read.

        Answers of `added` queries begin with the next frame. The file is written before that frame, so that a reader of the
        frame finds the description of its query.
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
            raise no_memory("the description of the queries", self.folder, error) from error

    def steer(self, steered: Steered) -> None:
        """Store the result of a load cycle, with which the unit begins after a restart."""
        if steered == self.steered:
            return
        self.steered = steered
        # If memory has run out, the values are not stored; a restarted unit then learns them again.
        with suppress(OSError):
            record = _STEERED.pack(STEERED_VERSION, steered.keep, steered.headroom, steered.share)
            os.pwrite(self._steered, record, 0)

    def close(self) -> None:
        os.close(self._steered)
        self._commits.close()
        self._snapshots.close()

    def remove(self) -> None:
        """Close and delete the commit log and the snapshot log. Data that readers have mapped stays valid."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _last_snapshot(self) -> SnapshotFrame | None:
        log = Reader(self.folder / SNAPSHOTS)
        for _, payload in log.frames(max(log.first, log.next - 1)):
            return snapshot_of(payload)
        return None


def snapshot_writer(folder: Path) -> SegmentWriter:
    """Return the writer of a unit's snapshots. Only the machine's memory limits the size of this log."""
    # Each snapshot has its own segment, so that deleting a snapshot frees its memory.
    return SegmentWriter(folder / SNAPSHOTS, bytes_max=1 << 40, segment_bytes=2 * PAGE)


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
    """Return the descriptions of a unit's queries, by query; empty if there is no description file."""
    try:
        record = json.loads((folder / QUERIES).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if record["version"] != QUERIES_VERSION:
        raise LogMissing(
            f"the description of queries has version {record['version']}; expected {QUERIES_VERSION}",
            file=str(folder / QUERIES),
        )
    return {
        name: LoggedQuery(tuple((column, kind) for column, kind in columns), mark, began)
        for name, (columns, mark, began) in record["queries"].items()
    }
