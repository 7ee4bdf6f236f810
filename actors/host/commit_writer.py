"""Writer of the log of a class: appends steps, and the answers that a restarted class would compute again from these steps."""

from __future__ import annotations

import time

from actors.log.segment_log import LogFull
from actors.log.unit_log import UnitLog
from engine.class_.hosted_class import HostedClass
from engine.class_.steps import Commit, QueryAdded, QueryRemoved


class CommitWriter:
    """Writer of commits. If the log has no room for a commit, the commit waits, and no later commit is written before it."""

    def __init__(self, log: UnitLog, hosted: HostedClass) -> None:
        self.problem = ""
        """Reason why the last write to the log failed; empty if it succeeded."""
        self.queries_moved = False
        """True after queries were added or removed, so that the class may read other streams."""
        self._log, self._hosted = log, hosted
        self._unwritten: Commit | None = None

    @property
    def is_stuck(self) -> bool:
        """Return True if a commit waits for room in the log. The class does not run until the commit is written."""
        return self._unwritten is not None

    def commit(self) -> None:
        """Write the new steps, and the answers that can be computed again from these steps. If an earlier commit waits, do nothing."""
        if self.write():
            self._unwritten = self._hosted.committed()
            self.write()

    def write(self) -> bool:
        """Write the commit that waits for room, if there is such a commit. Return True if no commit waits afterwards."""
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
        """Write all waiting commits and return the class's state at a settle point; None if the log has no room for the commits."""
        self._hosted.rest(time.monotonic)
        self.commit()
        return None if self.is_stuck else self._hosted.state()
