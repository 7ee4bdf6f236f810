"""What a load manager is shown of its class at the end of a load cycle. Frozen; measured by the shell around it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InputCycle:
    """One input stream of the class during the cycle."""

    stream: str
    offered: int  # tuples that arrived, before shedding
    work_s: float  # processor-seconds one tuple causes, down to the roots
    waiting_s: float = 0.0  # age of the oldest tuple in its queue, 0 if the queue is empty
    batches: int = 0  # in which they arrived; 0 if they came one by one


@dataclass(frozen=True, slots=True)
class OutputCycle:
    """One query of the class during the cycle."""

    query: str
    target_s: float
    results: int
    mean_s: float  # mean response time of the cycle's results, 0 without any
    waiting_s: float = 0.0  # age of the oldest tuple waiting to be read by the query


@dataclass(frozen=True, slots=True)
class CycleEnded:
    """The end of a load cycle of length `cycle_s` as the class saw it."""

    cycle_s: float
    inputs: tuple[InputCycle, ...]
    outputs: tuple[OutputCycle, ...]
    queued_work_s: float  # processor-seconds queued in the class
    worked_s: float | None = None  # processor-seconds that the class has had; None if nobody has measured
    ran_dry: bool = False  # whether the class had nothing to do for some of the time
    held_back: bool = False  # whether input waited outside for room in the queue
