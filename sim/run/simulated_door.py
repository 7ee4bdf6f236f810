"""The input of a simulated class: arrivals, shedders, and the account of every tuple.

Arrivals are taken in lazily, at every scheduling point up to that moment, which is when they can first matter.
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
    """A host's clock: virtual time, and by how much it is ahead of that."""

    offset_s: float = 0.0

    def stamp(self, now: float) -> float:
        return now + self.offset_s


@dataclass(kw_only=True)
class StreamEntry:
    """A stream's way into the class: arrivals to come, shedder and account."""

    stream: str
    operators: list[int]
    chunks: Iterator[list[float]]
    shedder: Shedder
    rng: np.random.Generator  # which tuples are late, and of which key
    settings: StreamInput
    ledger: TupleLedger = field(default_factory=TupleLedger)
    chunk: list[float] = field(default_factory=list)
    place: int = 0
    cycle_offered: int = 0
    held: bool = False
    """True if arrivals wait at the source for room in the queue."""

    def due(self, now: float) -> int:
        """Return how many arrivals up to now have not come in; fetches the chunks they are in."""
        while self.chunk and self.chunk[-1] <= now and (more := next(self.chunks, [])):
            self.chunk, self.place = [*self.chunk[self.place :], *more], 0
        return bisect_right(self.chunk, now, self.place) - self.place

    def next_arrival(self) -> float:
        """The next arrival, `inf` at the end; fetches a chunk if needed."""
        if self.place >= len(self.chunk):
            self.chunk, self.place = next(self.chunks, []), 0
        return self.chunk[self.place] if self.chunk else inf

    def keys(self, tuples: int) -> Keys | None:
        """Keys for arriving tuples, where they decide what is shed."""
        if self.shedder.victim != "fair":
            return None
        # Zipf-like: the logarithm of the rank, from 1 to just below one more than there are keys, is uniform.
        return ((self.settings.keys + 1) ** self.rng.random(tuples)).astype(np.int64)


class SimulatedDoor:
    """The streams of one class; carries out what its load manager orders."""

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
        """Tuples by stream that may queue while the rest waits at its source."""
        self._queues, self._calls, self._clock = queues, calls, clock
        self._queue_max = queue_max
        self._held_back = False

    # --- arrivals ------------------------------------------------------------------------------------

    def ingest(self, now: float) -> None:
        """Take in all that has arrived up to now and has room, through the shedder. The rest waits at its source."""
        if self.next_arrival > now:
            return
        for entry in self.entries:
            while entry.next_arrival() <= now and (room := self._room(entry)):
                end = min(bisect_right(entry.chunk, now, entry.place), entry.place + room)
                batch = entry.chunk[entry.place : end]
                entry.place = end
                # A source that has waited brings its tuples when there is room.
                self._admit(entry, [now] * len(batch) if entry.held else batch, now)
            entry.held = entry.next_arrival() <= now
            self._held_back |= entry.held
        self.next_arrival = min(entry.next_arrival() for entry in self.entries)

    def _room(self, entry: StreamEntry) -> int:
        """Return how many more tuples of the stream may come in before the next wait at their source."""
        most = self.rooms.get(entry.stream)
        return (
            len(entry.chunk)
            if most is None
            else max(0, most - max(map(self._queues.pending, entry.operators)))
        )

    def held(self, now: float) -> int:
        """Return how many tuples wait at their sources for room."""
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
        # What does not fit into every one of the stream's queues goes into none.
        room = self._queue_max - max(map(self._queues.pending, entry.operators))
        if len(batch) > room:
            ledger.rejected += len(batch) - room
            batch = batch[:room]
        self._queues.extend(entry.operators, batch, self._clock.stamp(now), now)
        self._evict(entry, evict)

    def _evict(self, entry: StreamEntry, tuples: int) -> None:
        """Shed the oldest queued tuples of a stream."""
        if tuples:
            entry.ledger.shed += self._queues.evict(entry.operators, tuples)
        for number in entry.operators:
            self._queues.announce(number)

    # --- what the load manager orders ----------------------------------------------------------------

    def set_keep(self, keep: float) -> None:
        for entry in self.entries:
            entry.shedder.keep = keep

    def trim(self, part: float) -> None:
        """Drop this part of what is queued, the oldest first."""
        for entry in self.entries:
            self._evict(entry, int(part * self.queued(entry)))

    def drop_older(self, age_s: float, now: float) -> None:
        """Drop what has been queued for longer than this."""
        before = self._clock.stamp(now) - age_s
        for entry in self.entries:
            self._evict(entry, min(self._queues.older(number, before) for number in entry.operators))

    # --- load cycles ---------------------------------------------------------------------------------

    def begin_cycle(self) -> None:
        for entry in self.entries:
            entry.shedder.end_cycle()

    def end_cycle(self, believed: NetworkEstimates, stamp: float) -> tuple[tuple[InputCycle, ...], bool]:
        """Return the input of the cycle by stream, and whether any of it was held back at its source."""
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
        """Return for how long the stream's oldest tuple has waited."""
        heads = [head for _, head, _ in self._queues.heads(entry.operators)]
        call = self._calls.under_way
        if call is not None and not call.runs and call.operator in entry.operators:
            heads.append(call.train[0])
        return max(0.0, stamp - min(heads, default=stamp))

    # --- accounts ------------------------------------------------------------------------------------

    def queued(self, entry: StreamEntry) -> int:
        """Tuples of the stream that no source operator has finished taking in, measured from the queues."""
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
        """Account for the loss of all that is queued or in a call, which the caller then clears.

        The train inside fails too: sources run last, so there is one at most. In Sharaf's testbed a segment outside a tree may
        wait longer; what its source has taken in stays delivered.
        """
        self._count_delivered()
        source, tuples = self._calls.last_train
        if source != NONE and (self._calls.is_inside() or self._queues.has_inside()):
            ledger = next(entry.ledger for entry in self.entries if source in entry.operators)
            # Those that another source operator has not taken yet are not delivered but queued.
            inside = max(0, ledger.delivered - (self._calls.taken(source) - tuples))
            ledger.delivered -= inside
            ledger.failed += inside
        for entry in self.entries:
            entry.ledger.failed += self.queued(entry)
            self._calls.reset_taken(entry.operators, entry.ledger.delivered)
