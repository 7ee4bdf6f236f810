"""Work that the classes of a scenario really offer, and what follows from it for Weir's promises.

The figures are computed from the generated arrivals and from the costs that the scenario declares, never from what the simulator
measures or estimates. A class *fits* if a queue that is served at the original share of the class never holds much work:

    backlog at any time + one call of an operator + short trains  ≤  BACKLOG_PART · delay target · original share

and if the class need not wait longer than the rest of its delay target for a turn: one round, and one call of each other class.

The work of a tuple is the declared cost of each operator, times the expected number of tuples that reach the operator. The cost per
call is divided among the tuples of a train of AT_TRAIN tuples. Trains are shorter while a class has less than AT_TRAIN
tuples, so the work of that many tuples is added to the backlog ("short trains"). A cost that drifts is the higher of the costs at
the arrival and one delay target later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from configs.scenario.cost_drift import CostStep
from configs.scenario.scenario import (
    AggregateBox,
    Costs,
    JoinBox,
    OperatorModel,
    QueryModel,
    QueryNetwork,
    Scenario,
    SimulatedClass,
)
from sim.run.offered_load import arrivals_of

Array = npt.NDArray[np.float64]

AT_TRAIN = 8
# Part of the delay target for which the queue of a class that fits may hold work. The rest is for the turns of other classes.
BACKLOG_PART = 0.5
# Steps of a drifting cost at one moment are this many seconds apart for interpolation.
AT_ONCE_S = 1e-9


@dataclass(frozen=True, kw_only=True)
class OfferedWork:
    """Work of the tuples of one class in processor-seconds, in the order of arrival."""

    times: Array
    work_s: Array
    capacity: float
    """Processors to which the original share entitles the class."""
    target_s: float
    extra_s: float
    """Work that the class may have to do in addition to its backlog: one call, and the calls of short trains."""

    long_trains: float
    """Least ratio of the work of a tuple in the longest trains of the class to its work in trains of AT_TRAIN tuples."""
    wait_s: float
    """Longest time that the class may wait for a turn: one round, and one call of each other class."""

    def peak_backlog_s(self) -> float:
        """Return the most work that a queue of all tuples holds if it is served at the original share."""
        if not len(self.times):
            return 0.0
        done = np.cumsum(self.work_s)
        served = self.capacity * self.times
        before = np.minimum.accumulate(np.concatenate([[0.0], done[:-1]]) - served)
        return float(np.max(done - served - before))

    def fits(self) -> bool:
        most_s = BACKLOG_PART * self.target_s * self.capacity
        waits_briefly = self.wait_s <= (1 - BACKLOG_PART) * self.target_s
        return waits_briefly and self.peak_backlog_s() + self.extra_s <= most_s

    def load(self, start_s: float, end_s: float) -> float:
        """Return the load in processors between two times."""
        low, high = np.searchsorted(self.times, [start_s, end_s])
        return float(self.work_s[low:high].sum()) / (end_s - start_s)

    def loads(self, bin_s: float, seconds: float) -> Array:
        """Return the load in processors in each interval of `bin_s` seconds."""
        bins = max(1, int(seconds / bin_s))
        edges = np.arange(bins + 1) * bin_s
        return np.histogram(self.times, edges, weights=self.work_s)[0] / bin_s

    def woken_part(self, cycle_s: float, seconds: float) -> float:
        """Return the part of the tuples that arrive in the two load cycles after the load rises.

        The load rises when a load cycle has clearly more load than the mean of the ten cycles before it. Only within two load
        cycles, an owner may still wait for its lent capacity.
        """
        loads = self.loads(cycle_s, seconds)
        # Classes begin with their original shares, as if they had used all of them before.
        earlier = np.concatenate([np.full(10, self.capacity), loads])
        before = np.convolve(earlier, np.full(10, 0.1), "valid")[: len(loads)]
        risen = loads > 1.25 * before + 0.1 * self.capacity
        woken = risen | np.concatenate([[False], risen[:-1]])
        cycles = np.minimum((self.times / cycle_s).astype(np.int64), len(loads) - 1)
        return float(np.mean(woken[cycles])) if len(cycles) else 0.0


def offered_work(scenario: Scenario, class_: SimulatedClass, seed: int) -> OfferedWork:
    """Return the work that a class offers in a run with this seed."""
    network = scenario.networks[class_.network]
    assert isinstance(network, QueryNetwork), "only networks of listed queries have declared costs"
    assert class_.offered_load is None, "the rates must be those of the scenario"
    target_s = class_.delay_target_ms / 1e3
    arrivals = {
        stream: np.array([*chain.from_iterable(arrivals_of(scenario, class_, stream, 1.0, seed))])
        for stream in class_.streams
    }
    work = {
        stream: stream_work(scenario.costs, network.queries, stream, arrivals, target_s)
        for stream in arrivals
    }
    times, amounts = np.concatenate([*arrivals.values()]), np.concatenate([*work.values()])
    order = np.argsort(times, kind="stable")
    share = scenario.original_shares()[class_.name]
    return OfferedWork(
        times=times[order],
        work_s=amounts[order],
        capacity=share * scenario.lanes * turns_part(scenario),
        target_s=target_s,
        extra_s=call_s(scenario, class_) + short_trains_s(scenario.costs, network.queries),
        long_trains=min(long_trains(scenario, class_, network.queries, stream) for stream in arrivals),
        wait_s=scenario.round_ms / 1e3
        + sum(call_s(scenario, other) for other in scenario.classes if other is not class_),
    )


def turns_part(scenario: Scenario) -> float:
    """Return the part of a lane's time that is left for operators if every class has a turn in every round."""
    turns_s = len(scenario.classes) * scenario.costs.turn_us * 1e-6
    return scenario.round_ms * 1e-3 / (scenario.round_ms * 1e-3 + turns_s)


def call_overhead_us(costs: Costs, call_us: float | None = None) -> float:
    """Return the cost of a call without tuples, and of the decision before the call."""
    return (costs.call_us if call_us is None else call_us) + costs.decision_us


def tuple_work_us(costs: Costs, queries: Sequence[QueryModel], stream: str, train: int = AT_TRAIN) -> float:
    """Return the work of a tuple in µs, without drift, without results of windows and matches of joins."""
    return source_work_us(costs, train) + sum(
        sum(operator_works_us(costs, query, train)) for query in queries if stream in query.reads
    )


def source_work_us(costs: Costs, train: int = AT_TRAIN) -> float:
    return call_overhead_us(costs) / train + costs.source_tuple_us


def operator_works_us(costs: Costs, query: QueryModel, train: int = AT_TRAIN) -> Iterator[float]:
    """Yield the work in µs that each operator of a query does for one tuple that enters the query."""
    reach = 1.0  # Expected number of tuples that reach the operator
    for operator in query.operators:
        calls = min(1.0, train * reach) / train
        yield reach * operator.tuple_us + calls * call_overhead_us(costs, operator.call_us)
        if isinstance(operator, AggregateBox | JoinBox):
            return
        reach *= operator.selectivity


def long_trains(
    scenario: Scenario, class_: SimulatedClass, queries: Sequence[QueryModel], stream: str
) -> float:
    longest = class_.train_max or scenario.train_max
    return tuple_work_us(scenario.costs, queries, stream, longest) / tuple_work_us(
        scenario.costs, queries, stream
    )


def stream_work(
    costs: Costs,
    queries: Sequence[QueryModel],
    stream: str,
    arrivals: Mapping[str, Array],
    horizon_s: float,
) -> Array:
    """Return the work in seconds of each tuple of a stream."""
    times = arrivals[stream]
    work_us = np.full(len(times), source_work_us(costs))
    for query in queries:
        if stream not in query.reads:
            continue
        of_query = highest_factor(query.cost_drift, times, horizon_s)
        for operator, operator_us in zip(query.operators, operator_works_us(costs, query), strict=False):
            factor = of_query * highest_factor(operator.cost_drift, times, horizon_s)
            work_us += factor * (operator_us + results_us(operator, query, stream, arrivals))
    return work_us * 1e-6


def results_us(
    operator: OperatorModel, query: QueryModel, stream: str, arrivals: Mapping[str, Array]
) -> Array:
    """Return the work in µs of the results that each tuple of a stream causes in a window, or in a join with earlier tuples.

    The first tuple after the end of a slide causes the results of the slide.
    """
    times = arrivals[stream]
    if isinstance(operator, AggregateBox):
        slides = np.floor(times / operator.slide_s)
        ends = np.diff(slides, prepend=slides[:1]) > 0
        return np.asarray(operator.groups * operator.result_us * ends, dtype=np.float64)
    if isinstance(operator, JoinBox):
        (other,) = (arrivals[name] for name in query.reads if name != stream)
        partners = np.searchsorted(other, times) - np.searchsorted(other, times - operator.window_s)
        return np.asarray(operator.selectivity * operator.match_us * partners, dtype=np.float64)
    return np.zeros(len(times))


def highest_factor(drift: Sequence[CostStep], times: Array, horizon_s: float) -> Array:
    """Return the higher of the factors of a drifting cost at each time and `horizon_s` seconds later."""
    if not drift:
        return np.ones(len(times))
    at_s, factors = [0.0], [1.0]
    for step in drift:
        at_s += [step.at_s, step.at_s + max(step.ramp_s, AT_ONCE_S)]
        factors += [factors[-1], step.factor]
    return np.maximum(np.interp(times, at_s, factors), np.interp(times + horizon_s, at_s, factors))


def call_s(scenario: Scenario, class_: SimulatedClass) -> float:
    """Return the longest time that a call of one operator of a class can take, without the results of windows and joins."""
    network, train = scenario.networks[class_.network], class_.train_max or scenario.train_max
    assert isinstance(network, QueryNetwork), "only networks of listed queries have declared costs"
    longest_us = max(
        call_overhead_us(scenario.costs, operator.call_us) + train * operator.tuple_us * most_factor(query)
        for query in network.queries
        for operator in query.operators
    )
    return longest_us * 1e-6


def most_factor(query: QueryModel) -> float:
    """Return the highest factor by which the costs of a query drift."""
    of_operators = [step.factor for operator in query.operators for step in operator.cost_drift]
    return max([1.0, *(step.factor for step in query.cost_drift)]) * max([1.0, *of_operators])


def short_trains_s(costs: Costs, queries: Sequence[QueryModel]) -> float:
    """Return the work by which AT_TRAIN tuples of each stream, taken one at a time, exceed a train of the same tuples."""
    streams = {stream for query in queries for stream in query.reads}
    calls_us = sum(
        call_overhead_us(costs, operator.call_us) for query in queries for operator in query.operators
    )
    return (AT_TRAIN - 1) * (calls_us + len(streams) * call_overhead_us(costs)) * 1e-6
