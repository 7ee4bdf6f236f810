"""A class host in virtual time: queues, operators as cost models, the class's own scheduler and shedder.

The lane drives it as the live dispatcher drives a live host: `start(now)` begins the next operator call and tells
its cost, `finish(now)` delivers what came out of it. Arrivals are taken in lazily, at every scheduling point up to
that moment, which is when they can first matter. Everything is measured here, around the operators.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isclose

import numpy as np

from configs.classes.policies import PolicySettings
from configs.errors import InvalidInput
from configs.scenario.scenario import Join, Scenario, SimulatedClass, StreamInput
from loadshed.cycle import CycleEnded, InputCycle, OutputCycle
from loadshed.key_table import Keys
from loadshed.ledger import TupleLedger
from loadshed.responses import ResponseStatistics
from loadshed.shedder import Shedder
from scheduler.operators.network import Estimate, Network, NetworkEstimates
from scheduler.operators.policies import NONE
from scheduler.operators.scheduler import OperatorScheduler, QueryScheduler
from sim.run.arrivals import arrival_chunks
from sim.run.networks import Plan, build_plan
from sim.run.operator_models import Effect, build_effect, join_sides, since
from sim.run.queue_memory import QueueMemory
from sim.run.rng import array_generator, generator
from sim.run.simulated_answers import Answers

# Consumed tuples at the front of a queue are cut off when there are this many.
CUT_AT = 4096
# The factor on a class's rates that gives its offered load: how near it is found, and the largest looked for.
SCALE_ERROR, SCALE_MAX = 1e-9, 1e9


@dataclass
class Entry:
    """A stream's way into the class: what is still to arrive, the door, the account."""

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


@dataclass(slots=True)
class Call:
    """The operator call under way, or cut short by the host's death."""

    operator: int
    train: list[float]
    out: list[float]
    cost_s: float
    runs: bool = True


class SimulatedHost:
    """One class of the scenario."""

    def __init__(self, scenario: Scenario, settings: SimulatedClass, seed: int) -> None:
        self.name = settings.name
        self.settings = settings
        self.target_s = settings.delay_target_ms / 1e3
        self.plan, scale = scaled_plan(scenario, settings, seed)
        self.network = self.plan.network(settings.graph)
        self.rates = {name: one.arrivals.mean_rate() * scale for name, one in settings.streams.items()}
        initial = self.plan.estimates(min(scenario.train_max, 10), self.rates)
        for number, believed in self.plan.beliefs.items():
            initial[number] = believed
        sources_last = settings.sources == "last"
        self.scheduler = (
            QueryScheduler(self.network, settings.first_policy, initial, scenario.adaptive)
            if sources_last and scenario.networks[settings.network].kind == "sharaf"
            else OperatorScheduler(
                self.network, settings.first_policy, initial, scenario.adaptive, sources_last
            )
        )
        self.entries = [
            self._entry(scenario, stream, operators, scale, seed)
            for stream, operators in self.plan.entries.items()
        ]
        self.responses = ResponseStatistics(self.target_s)
        self.seen: ResponseStatistics | None = None  # the same, for an owner who begins it anew now and then
        queries = {root: self.plan.boxes[root].query for root in self.network.roots}
        self.answers = Answers(self.network, queries, settings.graph)
        self.memory = QueueMemory()
        self.rooms: Mapping[
            str, int
        ] = {}  # tuples by stream that may queue while the rest waits at its source
        self.clock_offset = 0.0
        self.down = False
        self.decided = True  # whether the call that has begun was chosen, and not part of a plan
        self.next_arrival = min(entry.next_arrival() for entry in self.entries)
        self.processed_s = self._processed_at_cycle = 0.0
        self._ran_dry = True
        self._held_back = False

        size = len(self.plan.boxes)
        self._queue_max, self._train_max = scenario.queue_max, settings.train_max or scenario.train_max
        self._queues: list[list[float]] = [[] for _ in range(size)]
        self._heads = [0] * size
        self._taken = [0] * size
        self._calls = [0] * size
        self._given = [0] * size
        self._spent_s = [0.0] * size
        self._call_s = [box.call_s for box in self.plan.boxes]
        self._tuple_s = [box.tuple_s for box in self.plan.boxes]
        self._size_in = [1.0] * size  # of a tuple in the operator's queue
        for above, below in enumerate(self.plan.downstream):
            for number in below:
                self._size_in[number] = self.plan.boxes[above].size_out
        self._downstream = [tuple(below) for below in self.plan.downstream]
        self._entry_of = {op: entry for entry in self.entries for op in entry.operators}
        alone = self.plan.estimates(1, self.rates)
        even = scenario.selection == "even"
        self._effects = build_effects(
            self.plan, self.network, alone=alone, name=self.name, seed=seed, evenly=even
        )
        ideal = self.network.ideal_costs(alone)
        self._ideal_s = [ideal.get(number, 0.0) for number in range(size)]
        joins = [number for number, box in enumerate(self.plan.boxes) if box.partner is not None]
        self._of_pairs = set().union(*(self.network.fed_by(number) for number in joins))
        self._cycle_sum = [0.0] * size
        self._cycle_results = [0] * size
        self._call: Call | None = None
        self._inside: tuple[int, int] = (NONE, 0)  # the last train that entered: by which operator, how long
        self._rebuild_s = 0.0
        self._settles = scenario.settles
        self._unsettled: list[tuple[int, list[float]]] = []
        self._feeding: dict[int, set[int]] = {}
        self._busy_inside = 0  # operators behind the sources that have input

    def _entry(self, scenario: Scenario, stream: str, operators: list[int], scale: float, seed: int) -> Entry:
        given = self.settings.streams[stream]
        times = arrivals_of(scenario, self.settings, stream, scale, seed)
        shedder = Shedder(self.settings.victim, array_generator(seed, self.name, stream, "shedder"))
        return Entry(
            stream=stream,
            operators=operators,
            chunks=times,
            shedder=shedder,
            rng=array_generator(seed, self.name, stream, "tuples"),
            settings=given,
        )

    # --- what the lane calls -------------------------------------------------------------------------

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

    def _room(self, entry: Entry) -> int:
        """Return how many more tuples of the stream may come in before the next wait at their source."""
        most = self.rooms.get(entry.stream)
        return len(entry.chunk) if most is None else max(0, most - max(map(self._pending, entry.operators)))

    def held(self, now: float) -> int:
        """Return how many tuples wait at their sources for room."""
        return sum(entry.due(now) for entry in self.entries if entry.held)

    def start(self, now: float) -> float:
        """Begin the next operator call; its cost, or −1 if nothing has input."""
        if self.down:
            return -1.0
        if self._call is None:
            decisions = self.scheduler.decisions
            operator = self.scheduler.pick(now + self.clock_offset)
            self.decided = self.scheduler.decisions > decisions
            if operator == NONE:
                self._ran_dry = True
                return -1.0
            self._call = self._call_of(operator)
        else:  # the host died under it: again, with the results it would have had
            self._call.runs = True
        if self._rebuild_s:
            self._call.cost_s, self._rebuild_s = self._call.cost_s + self._rebuild_s, 0.0
        return self._call.cost_s

    def _call_of(self, operator: int) -> Call:
        train = self._take(operator, self._train_max)
        out, extra_s = self._effects[operator](train)
        tuples = len(train)
        self._taken[operator] += tuples
        self._calls[operator] += 1
        self._given[operator] += len(out)
        cost_s = self._call_s[operator] + tuples * self._tuple_s[operator] + extra_s
        self._spent_s[operator] += cost_s
        return Call(operator, train, out, cost_s)

    def finish(self, now: float) -> None:
        """The call under way is done: deliver its results, tell the scheduler, measure."""
        call = self._call
        if call is None or not call.runs:  # the host died under it
            return
        self._call = None
        operator, out, scheduler = call.operator, call.out, self.scheduler
        growth = -len(call.train) * self._size_in[operator]
        if out:
            below = self._downstream[operator]
            if below:
                for number in below:
                    self._feed(number, out)
                    growth += len(out) * self._size_in[number]
            elif self._settles:
                self._unsettled.append((operator, out))
            else:
                self._answer(operator, out, now)
        self._announce(operator)
        self.memory.change(growth, now)
        if self._unsettled and not self._busy_inside:
            self._settle(now)
        if operator in self._entry_of:
            self._inside = (operator, len(call.train))
        scheduler.statistics.observe(operator, len(call.train), len(out), call.cost_s)
        self.processed_s += call.cost_s

    def _settle(self, now: float) -> None:
        """Nothing is queued behind the sources: hand out what has been answered."""
        for root, out in self._unsettled:
            self._answer(root, out, now)
        self._unsettled.clear()

    def slice_ended(self, now: float) -> None:
        """Amid the work on a train, those of the queries are handed out that have nothing left inside."""
        if not self._unsettled:
            return
        unfinished = {
            self.plan.boxes[root].query
            for root in self.network.roots
            if self._inner_pending(self._above(root))
        }
        answers, self._unsettled = self._unsettled, []
        for root, out in answers:
            if self.plan.boxes[root].query in unfinished:
                self._unsettled.append((root, out))
            else:
                self._answer(root, out, now)

    def _above(self, root: int) -> set[int]:
        """The root and all that feeds it."""
        found = self._feeding.get(root)
        if found is None:
            found = self._feeding[root] = self.network.feeding([root])
        return found

    def is_empty(self) -> bool:
        return self._call is None and not any(self._pending(number) for number in range(len(self._queues)))

    def has_input(self) -> bool:
        return not self.down and not self.is_empty()

    # --- what the load cycle calls -------------------------------------------------------------------

    def end_cycle(self, now: float, cycle_s: float) -> CycleEnded:
        """What the load manager is shown, and a new cycle begun."""
        believed = self.scheduler.refresh()
        stamp = now + self.clock_offset
        self.memory.until(now)
        waiting = {entry.stream: self._waiting(entry, stamp) for entry in self.entries}
        cycle = CycleEnded(
            cycle_s=cycle_s,
            inputs=tuple(
                InputCycle(
                    entry.stream,
                    entry.cycle_offered,
                    sum(believed.segments[number].cost_s for number in entry.operators),
                    waiting[entry.stream],
                )
                for entry in self.entries
            ),
            outputs=tuple(
                self._output(root, max(waiting[stream] for stream in streams))
                for root, streams in self.plan.readers.items()
            ),
            queued_work_s=self.queued_work_s(believed),
            worked_s=self.processed_s - self._processed_at_cycle,
            ran_dry=self._ran_dry,
            held_back=self._held_back,
        )
        self._held_back = False
        self._ran_dry = self.is_empty()
        self._processed_at_cycle = self.processed_s
        self._cycle_sum = [0.0] * len(self._cycle_sum)
        self._cycle_results = [0] * len(self._cycle_results)
        for entry in self.entries:
            entry.cycle_offered = 0
        return cycle

    def switch(self, policy: PolicySettings) -> None:
        """Go on by another policy, whatever is queued and under way."""
        places = enumerate(zip(self._queues, self._heads, strict=True))
        heads = [
            (number, queue[head], len(queue) - head) for number, (queue, head) in places if head < len(queue)
        ]
        self.scheduler.switch(policy, heads)

    def set_keep(self, keep: float) -> None:
        for entry in self.entries:
            entry.shedder.keep = keep

    def trim(self, part: float) -> None:
        """Drop this part of what is queued, the oldest first."""
        for entry in self.entries:
            entry.ledger.shed += self._evict(entry, int(part * self.queued(entry)))
            for number in entry.operators:
                self._announce(number)

    def drop_older(self, age_s: float, now: float) -> None:
        """Drop what has been queued for longer than this."""
        before = now + self.clock_offset - age_s
        for entry in self.entries:
            old = min(
                bisect_left(self._queues[number], before, lo=self._heads[number]) - self._heads[number]
                for number in entry.operators
            )
            entry.ledger.shed += self._evict(entry, old)
            for number in entry.operators:
                self._announce(number)

    def begin_cycle(self) -> None:
        for entry in self.entries:
            entry.shedder.end_cycle()

    def queued_work_s(self, believed: NetworkEstimates) -> float:
        """Processor-seconds that everything queued in the class will take."""
        return sum(
            pending * believed.segments[number].cost_s
            for number in range(len(self._queues))
            if (pending := self._pending(number))
        )

    # --- what faults call ----------------------------------------------------------------------------

    def die(self, retained: bool) -> None:
        """The process is gone. Retained input is delivered again, otherwise what was inside has failed."""
        if retained:
            if self._call is not None:
                self._call.runs = False
        else:
            self._fail_everything()
        self.down = True
        for number in range(len(self._queues)):
            self._announce(number)

    def revive(self, rebuild_s: float) -> None:
        """Back again; the next call also pays for rebuilding the windows."""
        self.down = False
        self._rebuild_s = rebuild_s

    # --- accounts ------------------------------------------------------------------------------------

    def queued(self, entry: Entry) -> int:
        """Tuples of the stream that no source operator has finished taking in, measured from the queues."""
        in_call = self._call.operator if self._call is not None else NONE
        return max(
            self._pending(number) + (len(self._call.train) if self._call and number == in_call else 0)
            for number in entry.operators
        )

    @property
    def train_max(self) -> int:
        return self._train_max

    @property
    def settles(self) -> bool:
        return self._settles

    def mean_train(self, operator: int) -> float:
        """Tuples that it takes in a call; 1 before there was one."""
        return max(1.0, self._taken[operator] / max(self._calls[operator], 1))

    def mean_estimate(self, operator: int) -> Estimate | None:
        """Cost and selectivity over all that it has taken; None before it has taken anything."""
        taken = self._taken[operator]
        return Estimate(self._spent_s[operator] / taken, self._given[operator] / taken) if taken else None

    def queued_tuples(self) -> int:
        return sum(self._pending(number) for number in range(len(self._queues)))

    def ledger(self) -> TupleLedger:
        self._count_delivered()
        return sum((entry.ledger for entry in self.entries), TupleLedger())

    def closes(self) -> bool:
        self._count_delivered()
        return all(entry.ledger.closes(self.queued(entry)) for entry in self.entries)

    def _count_delivered(self) -> None:
        """Delivered is what every source operator of the stream has taken in, but for the call under way."""
        call = self._call
        for entry in self.entries:
            entry.ledger.delivered = min(
                self._taken[number] - (len(call.train) if call and call.operator == number else 0)
                for number in entry.operators
            )

    # --- inside --------------------------------------------------------------------------------------

    def _admit(self, entry: Entry, batch: list[float], now: float) -> None:
        ledger, shedder, settings = entry.ledger, entry.shedder, entry.settings
        ledger.offered += len(batch)
        entry.cycle_offered += len(batch)
        if self.clock_offset:
            batch = [arrival + self.clock_offset for arrival in batch]
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
        room = self._queue_max - max(self._pending(number) for number in entry.operators)
        if len(batch) > room:
            ledger.rejected += len(batch) - room
            batch = batch[:room]
        for number in entry.operators:
            self._queues[number].extend(batch)
        copies, stamp = len(entry.operators), now + self.clock_offset
        self.memory.has_come(copies * len(batch), copies * (len(batch) * stamp - sum(batch)), now)
        if evict:
            ledger.shed += self._evict(entry, evict)
        for number in entry.operators:
            self._announce(number)

    def _evict(self, entry: Entry, tuples: int) -> int:
        """Drop the oldest tuples that no operator of the stream has taken; fewer if there are fewer."""
        untouched = min(self._pending(number) for number in entry.operators)
        gone = min(tuples, untouched)
        for number in entry.operators:
            queue = self._queues[number]
            place = len(queue) - untouched
            if place == self._heads[number]:
                self._heads[number] += gone
            else:
                del queue[place : place + gone]
            self.memory.held -= gone * self._size_in[number]
        return gone

    def _pending(self, operator: int) -> int:
        return len(self._queues[operator]) - self._heads[operator]

    def _take(self, operator: int, most: int) -> list[float]:
        queue, head = self._queues[operator], self._heads[operator]
        tuples = len(queue) - head
        if tuples <= most:
            self._queues[operator], self._heads[operator] = [], 0
            self._busy_inside -= operator not in self._entry_of
            return queue[head:] if head else queue
        end = head + most
        train = queue[head:end]
        if end > CUT_AT:
            del queue[:end]
            end = 0
        self._heads[operator] = end
        return train

    def _feed(self, number: int, out: list[float]) -> None:
        queue = self._queues[number]
        is_new = not queue
        self._busy_inside += is_new
        queue.extend(out)
        if self.scheduler.counted[number]:
            self.scheduler.pending(number, len(queue) - self._heads[number])
        if is_new:
            self.scheduler.ready(number, out[0])

    def _announce(self, number: int) -> None:
        """Tell the scheduler whether the operator has input, and since when its oldest tuple waits."""
        queue, head = self._queues[number], self._heads[number]
        if head < len(queue):
            if self.scheduler.counted[number]:
                self.scheduler.pending(number, len(queue) - head)
            self.scheduler.ready(number, queue[head])
        else:
            self.scheduler.idle(number)

    def _answer(self, root: int, out: list[float], now: float) -> None:
        stamp = now + self.clock_offset
        times = [stamp - arrival for arrival in out]
        self._cycle_sum[root] += sum(times)
        self._cycle_results[root] += len(times)
        ideal_s = self._ideal_s[root]
        if root in self._of_pairs and ideal_s > 0:
            slowdowns = [(stamp - since(arrival)) / ideal_s for arrival in out]
            slowed = sum(slowdowns)
            self.responses.add_slowed(times, slowdowns)
            if self.seen is not None:
                self.seen.add_slowed(times, slowdowns)
        else:
            slowed = sum(times) / ideal_s if ideal_s > 0 else 0.0
            self.responses.add(times, ideal_s)
            if self.seen is not None:
                self.seen.add(times, ideal_s)
        self.answers.add(root, out, times, slowed, stamp)

    def _output(self, root: int, waiting_s: float) -> OutputCycle:
        results = self._cycle_results[root]
        mean_s = self._cycle_sum[root] / results if results else 0.0
        return OutputCycle(self.plan.boxes[root].query, self.target_s, results, max(mean_s, 0.0), waiting_s)

    def _waiting(self, entry: Entry, stamp: float) -> float:
        heads = [self._queues[n][self._heads[n]] for n in entry.operators if self._pending(n)]
        if self._call is not None and not self._call.runs and self._call.operator in entry.operators:
            heads.append(self._call.train[0])
        return max(0.0, stamp - min(heads, default=stamp))

    def _fail_everything(self) -> None:
        """All that is queued fails, and the train inside too: sources run last, so there is one at most.

        In Sharaf's testbed a segment outside a tree may wait longer; what its source has taken in stays delivered.
        """
        self._count_delivered()
        source, tuples = self._inside
        busy = self._call is not None and self._call.operator not in self._entry_of
        if source != NONE and (busy or self._inner_pending(range(len(self._queues)))):
            ledger = self._entry_of[source].ledger
            # Those that another source operator has not taken yet are not delivered but queued.
            inside = max(0, ledger.delivered - (self._taken[source] - tuples))
            ledger.delivered -= inside
            ledger.failed += inside
        for entry in self.entries:
            entry.ledger.failed += self.queued(entry)
            for number in entry.operators:
                self._taken[number] = entry.ledger.delivered
        self._queues = [[] for _ in self._queues]
        self._heads = [0] * len(self._heads)
        self._busy_inside = 0
        self._unsettled.clear()
        self._call = None
        self.memory.held = 0.0

    def _inner_pending(self, operators: Iterable[int]) -> bool:
        return any(self._pending(number) for number in operators if number not in self._entry_of)


def build_effects(
    plan: Plan, network: Network, alone: Sequence[Estimate], name: str, seed: int, evenly: bool
) -> list[Effect]:
    """What every operator does, each with its own generator; the two sides of a join share one."""
    effects: list[Effect] = []
    for number, box in enumerate(plan.boxes):
        rng = generator(seed, name, box.name)
        if box.partner is None or not isinstance(box.model, Join):
            effects.append(build_effect(box, rng, evenly))
        elif box.partner > number:
            left_s, right_s = (
                sum(alone[one].cost_s for one in network.feeding([side])) for side in (number, box.partner)
            )
            effects.extend(join_sides(box, plan.boxes[box.partner], rng, evenly, (left_s, right_s)))
    return effects


def scaled_plan(scenario: Scenario, settings: SimulatedClass, seed: int) -> tuple[Plan, float]:
    """The class's plan, and the factor on its arrival rates that gives the offered load it declares.

    Sharaf's testbed scales its costs instead, to the mean rate that its trace really has (§3.7).
    """
    model = scenario.networks[settings.network]
    rates = {name: one.arrivals.mean_rate() for name, one in settings.streams.items()}
    if model.kind == "sharaf":
        rates = {stream: realised_rate(scenario, settings, stream, seed) for stream in rates}

    def plan_of(cost_scale: float) -> Plan:
        return build_plan(
            model, scenario.costs, generator(seed, settings.name, "network"), cost_scale, scenario.seconds
        )

    plan = plan_of(1.0)
    train, offered = scenario.load_at_train, settings.offered_load
    if offered is None:
        return plan, 1.0
    if model.kind == "sharaf":
        return plan_of(offered / plan.load(train, rates)), 1.0
    if plan.load(train, {stream: rate * SCALE_MAX for stream, rate in rates.items()}) < offered:
        hint = "give the operators of its network a cost per tuple, or leave offered_load out"
        raise InvalidInput("no rate gives such a load", f"{settings.name}.offered_load", offered, hint)
    return plan, rate_scale(plan, train, rates, offered)


def rate_scale(plan: Plan, train: int, rates: Mapping[str, float], offered: float) -> float:
    """The factor on the rates at which the plan's load is `offered`: joins make it grow faster than the rates."""

    def load(scale: float) -> float:
        return plan.load(train, {stream: rate * scale for stream, rate in rates.items()})

    linear = offered / load(1.0)
    if isclose(load(linear), offered):
        return linear
    low, high = 0.0, linear
    while load(high) < offered:
        high *= 2
    while high - low > SCALE_ERROR * high:
        middle = (low + high) / 2
        low, high = (middle, high) if load(middle) < offered else (low, middle)
    return high


def realised_rate(scenario: Scenario, settings: SimulatedClass, stream: str, seed: int) -> float:
    chunks = arrivals_of(scenario, settings, stream, 1.0, seed)
    return max(1, sum(len(chunk) for chunk in chunks)) / scenario.seconds


def arrivals_of(
    scenario: Scenario, settings: SimulatedClass, stream: str, scale: float, seed: int
) -> Iterator[list[float]]:
    rng = generator(seed, settings.name, stream, "arrivals")
    return arrival_chunks(settings.streams[stream].arrivals, rng, scale, scenario.seconds)
