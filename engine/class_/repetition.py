"""Queue of commits that are repeated step by step during recovery."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from engine.class_.runner import Clock
from engine.class_.steps import Commit, Step


class Repetition:
    """Queue of commits to repeat; it is false once all commits have been repeated."""

    def __init__(self) -> None:
        self._commits: deque[Commit] = deque()
        self._steps: deque[Step] = deque()

    def __bool__(self) -> bool:
        return bool(self._commits or self._steps)

    def begin(self, commits: Iterable[Commit]) -> None:
        self._commits, self._steps = deque(commits), deque()

    def run(
        self,
        quota_s: float,
        now: Clock,
        cpu: Clock,
        *,
        repeat: Callable[[Step, Clock], None],
        check: Callable[[Commit], None],
    ) -> float:
        """Repeat steps for a slice of processor time, check each commit after its last step, and return the time used."""
        began = cpu()
        while self and cpu() - began < quota_s:
            if not self._steps:
                self._steps.extend(self._commits[0].steps)
            if self._steps:
                repeat(self._steps.popleft(), now)
            if not self._steps:
                check(self._commits.popleft())
        return cpu() - began
