"""Causes of a watermark: the advances of event time that led to the watermark, each with the arrival time of its cause.

Trains carry these advances together with the watermark. An event at some time, such as a window's end, is caused by the
first advance that reaches this time. Within a train, the first tuple that reaches the time is the cause. So the cause does
not depend on how input was divided into trains. Where several inputs meet, the slowest input determines the watermark, and
the latest of the inputs' causes counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# Watermark before any progress: earlier than any event time.
NO_PROGRESS = -(2**63)
# Maximum number of advances kept for one watermark, for example while one input of a join is ahead of the other input.
# The earliest kept advance stands for all older advances.
# The limit rarely changes the arrival time of an answer's cause, because that cause mostly belongs to the slowest input.
STEPS_MAX = 256


@dataclass(slots=True)
class Moment:
    """Advance of event time at one arrival time `at`: its tuples arrived together, or the clock caused the advance."""

    upto: int
    at: float

    def arrival(self, time: int) -> float:
        return self.at


@dataclass(slots=True)
class Tuples:
    """Advance of event time by tuples with different arrival times, to the largest event time of these tuples minus `behind`."""

    upto: int
    times: npt.NDArray[np.int64]
    arrivals: npt.NDArray[np.float64]
    behind: int

    def arrival(self, time: int) -> float:
        return float(self.arrivals[int(np.argmax(self.times >= time + self.behind))])


@dataclass(slots=True)
class Together:
    """Advance of the common watermark of several inputs; `inputs` has, for each input, the causes and the delay of its watermark."""

    upto: int
    inputs: tuple[tuple[Causes, int], ...]

    def arrival(self, time: int) -> float:
        return max(arrival_of(steps, time + behind) for steps, behind in self.inputs)


AdvanceCause = Moment | Tuples | Together
"""Advance of a watermark, with its cause. The argument of `arrival` is a time after the previous advance, up to `upto`."""
Causes = tuple[AdvanceCause, ...]


def arrival_of(causes: Causes, time: int) -> float:
    """Return the arrival time of the first cause that reached `time`."""
    step = next(cause for cause in causes if cause.upto >= time)
    return step.arrival(time)


def followed(before: Causes, after: Causes) -> Causes:
    """Return the last STEPS_MAX advances: all of `before`, and then the advances in `after` that reach a later event time."""
    reached = before[-1].upto if before else NO_PROGRESS
    return (*before, *(one for one in after if one.upto > reached))[-STEPS_MAX:]


class Meeting:
    """Common watermark of several inputs: the minimum, over all inputs, of the input's watermark minus the input's delay."""

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
        """Record the progress of one input; return the common watermark, and its causes if it has advanced."""
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
    """Remove and return the advances up to the event time `upto`.

    If the last removed advance is before `upto`, the next advance is returned as well, but not removed.
    """
    found = []
    while steps and steps[0].upto <= upto:
        found.append(steps.popleft())
    if steps and (not found or found[-1].upto < upto):
        found.append(steps[0])
    return tuple(found)
