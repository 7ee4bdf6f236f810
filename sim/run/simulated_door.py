"""Input of a simulated class: arrivals, shedders, and the ledger of all tuples.

Arrivals are processed lazily: each scheduling decision first processes all arrivals up to the time of the decision.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from configs.scenario.scenario import StreamInput
from loadshed.cycle import InputCycle
from loadshed.key_table import Keys
from loadshed.ledger import TupleLedger
from loadshed.shedder import Shedder
from scheduler.operators.network import NetworkEstimates
from scheduler.operators.policies import NONE
from sim.run.operator_calls import OperatorCalls
from sim.run.operator_queues import OperatorQueues


@dataclass(slots=True)
class HostClock:
    """Clock of a host: virtual time plus an offset in seconds; faults change the offset."""

    offset_s: float = 0.0

    def stamp(self, now: float) -> float:
        return now + self.offset_s


@dataclass(kw_only=True)
class StreamEntry:
    """Entry of a stream into a class: future arrivals, shedder and ledger of the stream."""

    stream: str
    operators: list[int]
    chunks: Iterator[list[float]]
    shedder: Shedder
    rng: np.random.Generator  # Random generator for the lateness and the keys of tuples
    settings: StreamInput
    ledger: TupleLedger = field(default_factory=TupleLedger)
    chunk: list[float] = field(default_factory=list)
    place: int = 0
    cycle_offered: int = 0
    held: bool = False
    """True if arrivals wait at the source for room in the queue."""

    def due(self, now: float) -> int:
        """Return the number of tuples that have arrived until `now` but are not processed yet; fetches chunks as needed."""
        while self.chunk and self.chunk[-1] <= now and (more := next(self.chunks, [])):
            self.chunk, self.place = [*self.chunk[self.place :], *more], 0
        return bisect_right(self.chunk, now, self.place) - self.place

    def next_arrival(self) -> float:
        """Return the time of the next arrival, `inf` after the last; fetches a chunk if needed."""
        if self.place >= len(self.chunk):
            self.chunk, self.place = next(self.chunks, []), 0
        return self.chunk[self.place] if self.chunk else inf

    def keys(self, tuples: int) -> Keys | None:
        """Return random keys for arriving tuples; None if shedding does not depend on keys."""
        if self.shedder.victim != "fair":
            return None
        # Frequencies of keys are like Zipf's law: the logarithm of a key's number is uniformly distributed.
        return ((self.settings.keys + 1) ** self.rng.random(tuples)).astype(np.int64)


class SimulatedDoor:
    """Door of one simulated class: accepts or sheds arriving tuples as the load manager orders."""

    def __init__(
        self,
        entries: Sequence[StreamEntry],
        queues: OperatorQueues,
        calls: OperatorCalls,
        clock: HostClock,
        queue_max: int,
    ) -> None:
        self.entries = entries
        self.next_arrival = min(entry.next_arrival() for entry in entries)
        self.rooms: Mapping[str, int] = {}
        """Maximum number of queued tuples by stream; further tuples wait at their source."""
        self._queues, self._calls, self._clock = queues, calls, clock
        self._queue_max = queue_max
        self._held_back = False

    # --- arriving tuples ------------------------------------------------------------------------------------

    def ingest(self, now: float) -> None:
        """Pass the tuples that have arrived until `now` through the shedder into the queue. Tuples without room wait at their source."""
        if self.next_arrival > now:
            return
        for entry in self.entries:
            while entry.next_arrival() <= now and (room := self._room(entry)):
                end = min(bisect_right(entry.chunk, now, entry.place), entry.place + room)
                batch = entry.chunk[entry.place : end]
                entry.place = end
                # Tuples that waited at their source count as arriving now, because there is room now.
                self._admit(entry, [now] * len(batch) if entry.held else batch, now)
            entry.held = entry.next_arrival() <= now
            self._held_back |= entry.held
        self.next_arrival = min(entry.next_arrival() for entry in self.entries)

    def _room(self, entry: StreamEntry) -> int:
        """Return for how many more tuples of the stream there is room; tuples without room wait at their source."""
        most = self.rooms.get(entry.stream)
        return (
            len(entry.chunk)
            if most is None
            else max(0, most - max(map(self._queues.pending, entry.operators)))
        )

    def held(self, now: float) -> int:
        """Return the number of tuples that wait at their sources for room."""
        return sum(entry.due(now) for entry in self.entries if entry.held)

    def _admit(self, entry: StreamEntry, batch: list[float], now: float) -> None:
        ledger, shedder, settings = entry.ledger, entry.shedder, entry.settings
        ledger.offered += len(batch)
        entry.cycle_offered += len(batch)
        if offset_s := self._clock.offset_s:
            batch = [arrival + offset_s for arrival in batch]
        if settings.late_fraction:
            in_time = np.flatnonzero(entry.rng.random(len(batch)) >= settings.late_fraction)
            ledger.late += len(batch) - len(in_time)
            batch = [batch[place] for place in in_time.tolist()]
        evict = 0
        if shedder.keep < 1 or shedder.victim == "fair":
            admission = shedder.admit(len(batch), entry.keys(len(batch)))
            if admission.kept is not None:
                ledger.shed += len(batch) - len(admission.kept)
                batch = [batch[place] for place in admission.kept.tolist()]
            evict = admission.evict_oldest
        # A tuple enters all queues of the stream or none, so the longest queue decides how many tuples have room.
        room = self._queue_max - max(map(self._queues.pending, entry.operators))
        if len(batch) > room:
            ledger.rejected += len(batch) - room
            batch = batch[:room]
        self._queues.extend(entry.operators, batch, self._clock.stamp(now), now)
        self._evict(entry, evict)

    def _evict(self, entry: StreamEntry, tuples: int) -> None:
        if tuples:
            entry.ledger.shed += self._queues.evict(entry.operators, tuples)
        for number in entry.operators:
            self._queues.announce(number)

    # --- shedding, as the load manager orders ------------------------------------------------------------------

    def set_keep(self, keep: float) -> None:
        for entry in self.entries:
            entry.shedder.keep = keep

    def trim(self, part: float) -> None:
        """Drop a fraction of the queued tuples, the oldest tuples first."""
        for entry in self.entries:
            self._evict(entry, int(part * self.queued(entry)))

    def drop_older(self, age_s: float, now: float) -> None:
        """Drop tuples that have been queued for more than `age_s` seconds."""
        before = self._clock.stamp(now) - age_s
        for entry in self.entries:
            self._evict(entry, min(self._queues.older(number, before) for number in entry.operators))

    # --- measurements of a load cycle ---------------------------------------------------------------------------------

    def begin_cycle(self) -> None:
        for entry in self.entries:
            entry.shedder.end_cycle()

    def end_cycle(self, believed: NetworkEstimates, stamp: float) -> tuple[tuple[InputCycle, ...], bool]:
        """Return the input of the load cycle by stream, and True if tuples had to wait at their source."""
        inputs = tuple(
            InputCycle(
                entry.stream,
                entry.cycle_offered,
                sum(believed.segments[number].cost_s for number in entry.operators),
                self._waiting_s(entry, stamp),
            )
            for entry in self.entries
        )
        held_back, self._held_back = self._held_back, False
        for entry in self.entries:
            entry.cycle_offered = 0
        return inputs, held_back

    def _waiting_s(self, entry: StreamEntry, stamp: float) -> float:
        """Return how long the stream's oldest tuple has waited, in seconds."""
        heads = [head for _, head, _ in self._queues.heads(entry.operators)]
        call = self._calls.under_way
        if call is not None and not call.runs and call.operator in entry.operators:
            heads.append(call.train[0])
        return max(0.0, stamp - min(heads, default=stamp))

    # --- counts of tuples inside the class ------------------------------------------------------------------------------------

    def queued(self, entry: StreamEntry) -> int:
        """Return the number of the stream's tuples in queues and calls of its source operators."""
        return max(
            self._queues.pending(number) + self._calls.tuples_under_way(number) for number in entry.operators
        )

    def ledger(self) -> TupleLedger:
        self._count_delivered()
        return sum((entry.ledger for entry in self.entries), TupleLedger())

    def closes(self) -> bool:
        self._count_delivered()
        return all(entry.ledger.closes(self.queued(entry)) for entry in self.entries)

    def _count_delivered(self) -> None:
        for entry in self.entries:
            entry.ledger.delivered = self._calls.delivered(entry.operators)

    def fail_everything(self) -> None:
        """Count all tuples that are queued or in a call as failed; the caller then clears the queues. A train behind the
        sources also fails. There is at most one such train, because sources run last. In Sharaf's testbed, segments outside
        the tree of a shared operator may hold older tuples; these remain counted as delivered.
        """
        self._count_delivered()
        source, tuples = self._calls.last_train
        if source != NONE and (self._calls.is_inside() or self._queues.has_inside()):
            ledger = next(entry.ledger for entry in self.entries if source in entry.operators)
            # If several source operators take a stream, a tuple counts as delivered only after all these operators have taken the tuple.
            inside = max(0, ledger.delivered - (self._calls.taken(source) - tuples))
            ledger.delivered -= inside
            ledger.failed += inside
        for entry in self.entries:
            entry.ledger.failed += self.queued(entry)
            self._calls.reset_taken(entry.operators, entry.ledger.delivered)
