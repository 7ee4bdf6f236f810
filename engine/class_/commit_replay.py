"""Doing again what was committed: the steps of commits, a source's train at a time; their answers are known already."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from engine.class_.runner import Clock
from engine.class_.steps import Commit, Step

# More than anybody reads; a class with a mistake may find one with each commit.
MISMATCHES_KEPT = 100


@dataclass
class Mismatches:
    """What did not come out as it had before: the first ones in words, and how many more there were."""

    _first: list[str] = field(init=False, default_factory=list)
    _more: int = field(init=False, default=0)

    def add(self, what: str) -> None:
        if len(self._first) < MISMATCHES_KEPT:
            self._first.append(what)
        else:
            self._more += 1

    def __bool__(self) -> bool:
        return bool(self._first)

    def __iter__(self) -> Iterator[str]:
        yield from self._first
        if self._more:
            yield f"and {self._more:,} more"


class Repetition:
    def __init__(
        self,
        repeat: Callable[[Step, Clock], None],
        check: Callable[[Commit], None],
        commits: Iterable[Commit] = (),
    ) -> None:
        """`repeat` does a step again, `check` looks at what has come of a commit's."""
        self._repeat, self._check = repeat, check
        self._commits = deque(commits)
        self._steps: deque[Step] = deque()

    def __bool__(self) -> bool:
        return bool(self._commits or self._steps)

    def run(self, quota_s: float, now: Clock, cpu: Clock) -> float:
        began = cpu()
        while self and cpu() - began < quota_s:
            if not self._steps:
                self._steps.extend(self._commits[0].steps)
            if self._steps:
                self._repeat(self._steps.popleft(), now)
            if not self._steps:
                self._check(self._commits.popleft())
        return cpu() - began
