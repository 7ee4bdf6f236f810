"""When a unit takes a snapshot, and what that costs.

A snapshot costs no more than SNAPSHOT_PART of the unit's time, unless input or commits since the last one have come near the
bounds of what is kept of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from actors.host.commit_writer import CommitWriter
from actors.log.segment_log import LogFull
from actors.log.unit_log import UnitLog
from configs.classes.live_class import LiveSettings
from engine.class_.hosted_class import HostedClass

# Of a unit's processor time.
SNAPSHOT_PART = 0.01
# Part of the kept input that, once read since the last snapshot, asks for another one at once.
FILLED_PART = 0.25


class UnitSnapshots:
    """Snapshots of one life of a unit."""

    def __init__(
        self, log: UnitLog, hosted: HostedClass, commits: CommitWriter, settings: LiveSettings
    ) -> None:
        self.is_asked = False
        self.released: Mapping[str, int] = {}
        """By stream, the first batch that is still needed; empty once the host has passed that on."""
        self._log, self._hosted, self._commits, self._settings = log, hosted, commits, settings
        self._saved_at, self._cost_s = time.monotonic(), 0.0
        self._used_s = 0.0  # by the unit, when the last one was taken
        self._bytes = 0  # of input, when the last one was taken

    def is_due(self, used_s: float, bytes_in: int) -> bool:
        """Return True if a unit with this use of time and this much input should take a snapshot."""
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
        """Take a snapshot now, unless what came before it cannot be written."""
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
