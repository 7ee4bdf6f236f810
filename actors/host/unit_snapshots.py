"""Snapshots of a unit: when they are taken, and what they cost.

Snapshots cost no more than SNAPSHOT_PART of the unit's processor time, unless input or commits since the last snapshot have
nearly filled the space that is kept for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from actors.host.commit_writer import CommitWriter
from actors.log.segment_log import LogFull
from actors.log.unit_log import UnitLog
from configs.classes.live_class import LiveSettings
from engine.class_.hosted_class import HostedClass

# Maximum part of a unit's processor time that snapshots may take.
SNAPSHOT_PART = 0.01
# A snapshot is due at once when input of this fraction of `retained_bytes` has been read since the last snapshot.
FILLED_PART = 0.25


class UnitSnapshots:
    """Snapshots of a unit since it was opened."""

    def __init__(
        self, log: UnitLog, hosted: HostedClass, commits: CommitWriter, settings: LiveSettings
    ) -> None:
        self.is_asked = False
        self.released: Mapping[str, int] = {}
        """First batch of each stream that is still needed; empty once the host has sent it to the gateway."""
        self._log, self._hosted, self._commits, self._settings = log, hosted, commits, settings
        self._saved_at, self._cost_s = time.monotonic(), 0.0
        self._used_s = 0.0  # Processor-seconds that the unit had used at the last snapshot
        self._bytes = 0  # Bytes of input that the unit had read at the last snapshot

    def is_due(self, used_s: float, bytes_in: int) -> bool:
        """Return True if a snapshot is due; `used_s` and `bytes_in` are the unit's processor time and input since it was opened."""
        if self.is_asked:
            return True
        if self._hosted.repeating:
            return False
        filled = bytes_in - self._bytes > FILLED_PART * self._settings.retained_bytes
        if filled or self._log.is_filling:
            return True
        if time.monotonic() - self._saved_at < self._settings.snapshot_s:
            return False
        return used_s - self._used_s > self._cost_s / SNAPSHOT_PART

    def save(self, used_s: float, bytes_in: int, cpu: Callable[[], float]) -> None:
        """Take a snapshot now, unless the log has no room for commits before it."""
        began = cpu()
        state = self._commits.settled_state()
        if state is not None:
            try:
                self._log.save(state)
            except LogFull as full:
                self._commits.problem = str(full)
            else:
                self._commits.problem = ""
                self.released = self._hosted.input.positions()
        self.is_asked = False
        self._saved_at, self._bytes = time.monotonic(), bytes_in
        self._cost_s = cpu() - began
        self._used_s = used_s + self._cost_s
