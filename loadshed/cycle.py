"""Measurements of a class that its load manager receives at the end of a load cycle."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InputCycle:
    """Measurements of one input stream of the class during the cycle."""

    stream: str
    offered: int  # Tuples that arrived, before shedding
    work_s: float  # Processor-seconds that one tuple takes in all operators, down to the roots
    waiting_s: float = 0.0  # Age of the oldest tuple in the stream's queue, 0 if the queue is empty
    batches: int = 0  # Number of batches in which the tuples arrived; 0 if tuples arrived one by one


@dataclass(frozen=True, slots=True)
class OutputCycle:
    """Measurements of one query of the class during the cycle."""

    query: str
    target_s: float
    results: int
    mean_s: float  # Mean response time of the cycle's results, 0 without results
    waiting_s: float = 0.0  # Age of the oldest tuple that waits to be read by the query


@dataclass(frozen=True, slots=True)
class CycleEnded:
    """End of a load cycle of length `cycle_s`, with the measurements of the class."""

    cycle_s: float
    inputs: tuple[InputCycle, ...]
    outputs: tuple[OutputCycle, ...]
    queued_work_s: float  # Processor-seconds of work queued in the class
    worked_s: float | None = None  # Processor-seconds that the class used; None if they were not measured
    ran_dry: bool = False  # True if the class had no input for a part of the cycle
    held_back: bool = False  # True if input was not read because the queue was full
