"""Writes what settles in a class to its log, in order."""

from __future__ import annotations

import time

from actors.log.segment_log import LogFull
from actors.log.unit_log import UnitLog
from engine.class_.hosted_class import HostedClass
from engine.class_.steps import Commit, QueryAdded, QueryRemoved


class CommitWriter:
    """Keeps one commit while the log has no room for it; nothing that settles later is written before it."""

    def __init__(self, log: UnitLog, hosted: HostedClass) -> None:
        self.problem = ""
        """Why the log could not be written last; empty if it could."""
        self.queries_moved = False
        """Whether other streams may be read than before."""
        self._log, self._hosted = log, hosted
        self._unwritten: Commit | None = None

    @property
    def is_stuck(self) -> bool:
        """Return True if the log has no room; the class does not run until it has."""
        return self._unwritten is not None

    def commit(self) -> None:
        """Write what has settled, as soon as what came before it is written."""
        if self.write():
            self._unwritten = self._hosted.committed()
            self.write()

    def write(self) -> bool:
        """Return True if everything that was to be written is in the log."""
        if self._unwritten is None:
            return True
        steps = self._unwritten.steps
        added = {step.name for step in steps if isinstance(step, QueryAdded)}
        try:
            if added:
                self._log.describe(self._hosted.queries.by_name, added)
            self._log.append(self._unwritten)
        except LogFull as full:
            self.problem = str(full)
            return False
        if added or any(isinstance(step, QueryRemoved) for step in steps):
            self.queries_moved = True
        self._unwritten, self.problem = None, ""
        return True

    def settled_state(self) -> bytes | None:
        """Return the state with everything before it written down; None while that cannot be."""
        self._hosted.rest(time.monotonic)
        self.commit()
        return None if self.is_stuck else self._hosted.state()
