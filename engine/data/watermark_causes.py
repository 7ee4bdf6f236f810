"""What brought event time how far: the steps of a watermark, each with the arrival of what caused it.

Steps travel with the watermark. What happens at a time, as a window's end, is caused by the first step that reaches
it; and within a train by the first tuple that does, so the cause does not depend on how input was cut into trains.
Where several inputs meet, event time has come as far as the last of them, and the latest of their causes is the cause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

# Earlier than any event time.
NO_PROGRESS = -(2**63)
# Steps kept of an input that is ahead of the others, or of progress that waits for a turn. Of those long past, the earliest that is known stands for all
# before it: what they meet with has arrived later still, unless trains overtook each other on the way.
STEPS_MAX = 256


class AdvanceCause(Protocol):
    """Event time has come up to `upto`, from wherever it was."""

    @property
    def upto(self) -> int: ...

    def arrival(self, time: int) -> float:
        """When what brought it as far as `time` arrived; `time` is after the step before, and not after `upto`."""
        ...


Causes = tuple[AdvanceCause, ...]


@dataclass(slots=True)
class Moment:
    """By one arrival: of tuples that came together, or of what the clock told."""

    upto: int
    at: float

    def arrival(self, time: int) -> float:
        return self.at


@dataclass(slots=True)
class Tuples:
    """By tuples each with its arrival; event time is complete up to their largest time less `behind`."""

    upto: int
    times: npt.NDArray[np.int64]
    arrivals: npt.NDArray[np.float64]
    behind: int

    def arrival(self, time: int) -> float:
        return float(self.arrivals[int(np.argmax(self.times >= time + self.behind))])


@dataclass(slots=True)
class Together:
    """By several inputs, each `behind` so much."""

    upto: int
    inputs: tuple[tuple[Causes, int], ...]

    def arrival(self, time: int) -> float:
        return max(arrival_of(steps, time + behind) for steps, behind in self.inputs)


def arrival_of(causes: Causes, time: int) -> float:
    """When what brought event time as far as `time` arrived."""
    step = next(cause for cause in causes if cause.upto >= time)
    return step.arrival(time)


def followed(before: Causes, after: Causes) -> Causes:
    """The steps that wait and those that follow them; no more than are kept anywhere, and none that leads no further."""
    reached = before[-1].upto if before else NO_PROGRESS
    return (*before, *(one for one in after if one.upto > reached))[-STEPS_MAX:]


class Meeting:
    """How far several inputs have come together; one counts as far as its own watermark less its `behind`."""

    def __init__(self, behind: Sequence[int]) -> None:
        self.marks = [NO_PROGRESS] * len(behind)
        self._behind = tuple(behind)
        self._steps: list[deque[AdvanceCause]] = [deque(maxlen=STEPS_MAX) for _ in behind]

    @property
    def watermark(self) -> int:
        if NO_PROGRESS in self.marks:
            return NO_PROGRESS
        return min(mark - behind for mark, behind in zip(self.marks, self._behind, strict=True))

    def hear(self, place: int, mark: int, causes: Causes) -> tuple[int, Causes]:
        """One input's progress; the watermark of all, and what brought it if it has moved."""
        if mark <= self.marks[place]:
            return self.watermark, ()
        before = self.watermark
        self.marks[place] = mark
        self._steps[place].extend(causes)
        upto = self.watermark
        if upto == before:
            return upto, ()
        inputs = tuple(
            (passed(steps, upto + behind), behind)
            for steps, behind in zip(self._steps, self._behind, strict=True)
        )
        return upto, (Together(upto, inputs),)

    def snapshot(self, place: int) -> Any:
        return self.marks[place], tuple(self._steps[place])

    def restore(self, place: int, state: Any) -> None:
        self.marks[place], steps = state
        self._steps[place] = deque(steps, STEPS_MAX)


def passed(steps: deque[AdvanceCause], upto: int) -> Causes:
    """The steps as far as `upto`; only one that goes further stays."""
    found = []
    while steps and steps[0].upto <= upto:
        found.append(steps.popleft())
    if steps and (not found or found[-1].upto < upto):
        found.append(steps[0])
    return tuple(found)
