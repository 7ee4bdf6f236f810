"""Simple host of boxes (operators) as in Aurora: one processor, operators, queues and an operator scheduler, without classes or shedding.

The host runs set-ups that a scenario cannot describe: trees of boxes, queues that are full at the beginning, and
*schedules*. A schedule is several boxes that are chosen at one moment and then run one after another. Aurora's prototype
used schedules to decide rarely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from configs.classes.policies import PolicySettings
from configs.classes.utility import UtilityGraph
from loadshed.steadiness import INTERVAL_S, OutputSteadiness
from loadshed.utility import UtilityStatistics
from scheduler.operators.network import Estimate, Network, ScheduledOperator
from scheduler.operators.policies import NONE
from scheduler.operators.scheduler import OperatorScheduler

WHOLE_QUEUE = 10**9


@dataclass
class BoxHost:
    """Host with fixed times per call, per tuple and per decision. Selectivities are exact, without randomness."""

    network: Network
    policy: PolicySettings
    estimates: Sequence[Estimate]  # Cost per tuple, without the cost of the call
    call_s: float = 0.0
    decision_s: float = 0.0
    train_max: int = WHOLE_QUEUE
    schedule: int = 1  # Number of boxes that one decision chooses, before the first of these boxes runs
    counted_s: float = (
        INTERVAL_S  # Length of the intervals in which answers are counted, to measure their unevenness
    )

    now: float = field(init=False, default=0.0)
    calls: list[int] = field(init=False, default_factory=list)
    decided: int = field(init=False, default=0)
    """Number of moments at which boxes were chosen."""
    latencies: dict[int, list[float]] = field(init=False)
    memory: list[tuple[float, float]] = field(init=False, default_factory=list)
    """Pairs of time and total size of queued tuples, after each call."""

    def __post_init__(self) -> None:
        self.scheduler = OperatorScheduler(self.network, self.policy, self.estimates, False, False)
        self.queues: list[list[float]] = [[] for _ in self.network.operators]
        self._owed = [0.5] * len(self.queues)
        self.latencies = {root: [] for root in self.network.roots}
        self.steadiness = OutputSteadiness(interval_s=self.counted_s)
        self.queued = 0.0
        self._known = 0  # Number of scheduling decisions for which time has been charged

    def enter(self, number: int, arrivals: Sequence[float]) -> None:
        if not arrivals:
            return
        self.queues[number].extend(arrivals)
        self.queued += len(arrivals) * size_in(self.network, number)
        self._tell(number)

    def run(self, arrivals: Sequence[tuple[float, int]] = ()) -> BoxHost:
        """Run until all arrivals are processed; `arrivals` has pairs (time, box) in ascending order."""
        place = 0
        while True:
            while place < len(arrivals) and arrivals[place][0] <= self.now:
                at, number = arrivals[place]
                self.enter(number, [at])
                place += 1
            chosen = self._chosen()
            if not chosen and place == len(arrivals):
                return self
            if not chosen:
                self.now = arrivals[place][0]
            for number in chosen:
                self._call(number)
                while self.schedule > 1 and self.network.operators[number].downstream:
                    # The output of each chosen box is processed down to the root before the next chosen box runs.
                    (number,) = self.network.operators[number].downstream
                    self._call(number)

    def _chosen(self) -> list[int]:
        number = self.scheduler.pick(self.now)
        if number == NONE:
            return []
        if self.scheduler.decisions > self._known:
            self.decided += 1
            self.now += self.decision_s
        chosen = [number]
        while len(chosen) < self.schedule:
            self.scheduler.idle(chosen[-1])
            number = self.scheduler.pick(self.now)
            if number == NONE:
                break
            chosen.append(number)
        self._known = self.scheduler.decisions
        return chosen

    def _call(self, number: int) -> None:
        queue, own = self.queues[number], self.network.operators[number]
        if not queue:
            return
        train, self.queues[number] = queue[: self.train_max], queue[self.train_max :]
        self.now += self.call_s
        self.calls.append(number)
        out = self._work(number, train)
        self.queued -= len(train) * size_in(self.network, number)
        self._tell(number)
        for below in own.downstream:
            self.enter(below, out)
        self.memory.append((self.now, self.queued))

    def _work(self, number: int, train: Sequence[float]) -> list[float]:
        estimate, is_root, out = self.estimates[number], not self.network.operators[number].downstream, []
        for arrival in train:
            self.now += estimate.cost_s
            self._owed[number] += estimate.selectivity
            while self._owed[number] >= 1.0:
                self._owed[number] -= 1.0
                out.append(arrival)
                if is_root:
                    self.latencies[number].append(self.now - arrival)
                    self.steadiness.answered(1, self.now)
        return out

    def _tell(self, number: int) -> None:
        queue, scheduler = self.queues[number], self.scheduler
        if not queue:
            scheduler.idle(number)
            return
        if scheduler.counted[number]:
            scheduler.pending(number, len(queue))
        scheduler.ready(number, queue[0])

    @property
    def mean_latency_s(self) -> float:
        every = [latency for latencies in self.latencies.values() for latency in latencies]
        return sum(every) / len(every)

    def missed(self) -> float:
        """Return the part of all answers that came after the deadline of their application."""
        late = sum(
            latency > graph.deadline_s
            for root, latencies in self.latencies.items()
            if (graph := self.network.operators[root].utility) is not None
            for latency in latencies
        )
        return late / sum(map(len, self.latencies.values()))

    def utilities(self) -> dict[int, float]:
        """Return the mean utility of the answers of each root."""
        utilities = {}
        for root, latencies in self.latencies.items():
            statistics = UtilityStatistics(self.network.operators[root].utility or UtilityGraph.step(1000.0))
            statistics.add(latencies)
            utilities[root] = statistics.mean
        return utilities


def size_in(network: Network, number: int) -> float:
    feeders = network.upstream[number]
    return network.operators[feeders[0]].size_out if feeders else 1.0


def tree(
    depth: int, fanout: int, name: str = "", first: int = 0, utility: UtilityGraph | None = None
) -> list[ScheduledOperator]:
    """Return the tree of boxes of one application, with numbers from `first` on: inputs have the first numbers, the root has the last."""
    widths = [fanout**level for level in range(depth - 1, -1, -1)]
    operators, start = list[ScheduledOperator](), first
    for level, width in enumerate(widths):
        below = start + width
        for place in range(width):
            downstream = () if level == depth - 1 else (below + place // fanout,)
            operators.append(
                ScheduledOperator(
                    f"{name}{level}.{place}", downstream, level == 0, utility=None if downstream else utility
                )
            )
        start = below
    return operators


def forest(
    trees: int, depth: int, fanout: int, utilities: Sequence[UtilityGraph | None] = (None,)
) -> Network:
    operators = list[ScheduledOperator]()
    for number in range(trees):
        graph = utilities[number % len(utilities)]
        operators += tree(depth, fanout, f"A{number}.", len(operators), graph)
    return Network(tuple(operators))
