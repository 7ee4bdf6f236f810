"""Operators that the simulator runs as cost models, made from a scenario's networks, and their connections for the scheduler.

A query network has one source operator per stream, which takes tuples into the network and feeds every query that
reads the stream. Sharaf's testbed has no such sources: each query's first operator has its own queue of the stream.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import erf, gcd, sqrt

from configs.classes.utility import UtilityGraph
from configs.scenario.cost_drift import CostStep
from configs.scenario.scenario import (
    AggregateBox,
    Costs,
    JoinBox,
    LookupBox,
    NetworkModel,
    OperatorModel,
    OperatorNetwork,
    ProjectBox,
    QueryNetwork,
    SelectBox,
    SharafNetwork,
)
from scheduler.operators.network import Estimate, Network, ScheduledOperator
from scheduler.operators.policies import NONE

SQRT_2 = sqrt(2.0)


@dataclass(frozen=True, slots=True)
class Box:
    """Cost model of one operator: a call on n tuples costs call_s + n·tuple_s seconds, plus the cost of the results."""

    name: str
    query: str  # Name of the query; empty for a source
    call_s: float
    tuple_s: float
    model: OperatorModel | None = None  # Model of the operator; None for a source
    size_out: float = 1.0
    partner: int | None = None  # For a side of a join: number of the operator that is the other side
    drift: Drift | None = None  # Drift of the data that a select or a lookup filters
    cost_drifts: tuple[tuple[CostStep, ...], ...] = ()  # Drifts of the cost, which multiply each other


@dataclass(frozen=True, slots=True)
class Drift:
    """Normal distribution of values with a drifting mean, which begins at 50 and rises by one in each of 100 intervals (Sharaf §3.8.5).

    A query keeps the values of one range. The width of the range is the query's selectivity on uniform data, and its position is
    random. If all ranges began at 0, the order of the queries by selectivity would never change, and assumed orders would stay
    right.
    """

    std: float
    seconds: float
    place: float
    """Place of the range: 0 if it begins at the least value, 1 if it ends at the greatest value."""

    def chance(self, selectivity: float, at: float) -> float:
        """Return the probability that a value which arrives at time `at` lies in the range."""
        mean = 50 + int(100 * at / self.seconds)
        least = self.place * 100 * (1 - selectivity)
        return self._below(least + 100 * selectivity - mean) - self._below(least - mean)

    def _below(self, deviation: float) -> float:
        return 0.5 * (1.0 + erf(deviation / (self.std * SQRT_2)))


@dataclass
class BoxPlan:
    """Operators of a class in topological order, their connections, and the operators where streams enter."""

    boxes: list[Box] = field(default_factory=list)
    downstream: list[list[int]] = field(default_factory=list)
    # Operators that take tuples from a stream, by stream.
    entries: dict[str, list[int]] = field(default_factory=dict)
    # Streams that the query of a root reads, by root.
    readers: dict[int, tuple[str, ...]] = field(default_factory=dict)
    # QoS graph of a root that has a QoS graph of its own, by root.
    utilities: dict[int, UtilityGraph] = field(default_factory=dict)
    # Weight of the query of a root, by root; a root without an entry has weight 1.
    weights: dict[int, float] = field(default_factory=dict)
    # Seconds after which the answers of a root are tardy, by root.
    slacks: dict[int, float] = field(default_factory=dict)
    # Estimated cost and selectivity of an operator that policies get instead of the true values, by operator; true values if missing.
    beliefs: dict[int, Estimate] = field(default_factory=dict)

    def add(self, box: Box, fed_by: Sequence[int] = ()) -> int:
        self.boxes.append(box)
        self.downstream.append([])
        number = len(self.boxes) - 1
        for feeder in fed_by:
            self.downstream[feeder].append(number)
        return number

    def network(self, graph: UtilityGraph | None = None) -> Network:
        """Return the network of operators for the scheduler; `graph` is the QoS graph for roots without a QoS graph of their own."""
        sources = {number for entry in self.entries.values() for number in entry}
        return Network(
            tuple(
                ScheduledOperator(
                    box.name,
                    tuple(below),
                    number in sources,
                    box.size_out,
                    box.partner,
                    utility=None if below else self.utilities.get(number, graph),
                    slack_s=None if below else self.slacks.get(number),
                    weight=self.weights.get(number, 1.0),
                )
                for number, (box, below) in enumerate(zip(self.boxes, self.downstream, strict=True))
            )
        )

    def load(self, train: int, rates: Mapping[str, float]) -> float:
        """Return the load in processors that the streams offer at the given rates and train length."""
        segments = self.network().segments(self.estimates(train, rates))
        return sum(
            rates[stream] * segments[n].cost_s for stream, entry in self.entries.items() for n in entry
        )

    def estimates(self, train: int, rates: Mapping[str, float]) -> list[Estimate]:
        """Return the modelled cost and selectivity of each operator, at the given train length and stream rates."""
        inflow = [0.0] * len(self.boxes)
        for stream, numbers in self.entries.items():
            for number in numbers:
                inflow[number] += rates.get(stream, 0.0)
        estimates = []
        for number, box in enumerate(self.boxes):
            # Operators that feed a join come before both sides of the join, so the input rate of the other side is already known.
            across = inflow[box.partner] if box.partner is not None else 0.0
            selectivity, extra_s = expected(box.model, inflow[number], across)
            estimates.append(Estimate(box.call_s / train + box.tuple_s + extra_s, selectivity))
            for below in self.downstream[number]:
                inflow[below] += inflow[number] * selectivity
        return estimates


def expected(model: OperatorModel | None, inflow: float, across: float) -> tuple[float, float]:
    """Return the mean number of output tuples and the mean extra processor-seconds per input tuple.

    `inflow` is the operator's input rate in tuples per second. For a side of a join, `across` is the input rate of the other side.
    """
    match model:
        case None | ProjectBox():
            return 1.0, 0.0
        case SelectBox() | LookupBox():
            return model.selectivity, 0.0
        case AggregateBox():
            # A slide without tuples has no results, so one tuple leads to at most one result per group.
            per_tuple = model.groups / max(model.slide_s * inflow, 1.0) if inflow > 0 else 0.0
            return per_tuple, per_tuple * model.result_us * 1e-6
        case JoinBox():
            per_tuple = model.selectivity * across * model.window_s  # Matches in the other input's window
            return per_tuple, per_tuple * model.match_us * 1e-6


def build_plan(
    model: NetworkModel, costs: Costs, rng: random.Random, cost_scale: float = 1.0, seconds: float = 1.0
) -> BoxPlan:
    """Return the operators of a network. `seconds`, the length of the run, matters only for drifting data."""
    match model:
        case QueryNetwork():
            return query_plan(model, costs)
        case SharafNetwork():
            plan = sharaf_plan(model, costs, rng, cost_scale)
            if model.drift_std is not None:
                places = {box.query: rng.random() for box in plan.boxes}
                plan.boxes = [
                    replace(box, drift=Drift(model.drift_std, seconds, places[box.query]))
                    for box in plan.boxes
                ]
            return plan
        case OperatorNetwork():
            return operator_plan(model, costs)


def operator_plan(model: OperatorNetwork, costs: Costs) -> BoxPlan:
    plan = BoxPlan()
    streams: list[set[str]] = [set() for _ in model.operators]
    queries = queries_of(model)
    for number, box in enumerate(model.operators):
        lookup = LookupBox(
            kind="lookup",
            selectivity=box.selectivity,
            tuple_us=box.tuple_us,
            call_us=box.call_us,
            cost_drift=box.cost_drift,
        )
        plan.add(replace(box_of(box.name, queries[number], lookup, costs), partner=box.partner))
        plan.downstream[number] = list(box.feeds)
        if box.stream is not None:
            plan.entries.setdefault(box.stream, []).append(number)
            streams[number].add(box.stream)
        if box.believed_us is not None and box.believed_selectivity is not None:
            plan.beliefs[number] = Estimate(1e-6 * box.believed_us, box.believed_selectivity)
        for below in box.feeds:
            streams[below] |= streams[number]
        if not box.feeds:
            plan.readers[number] = tuple(sorted(streams[number]))
            if box.utility is not None:
                plan.utilities[number] = UtilityGraph(points=box.utility)
            plan.weights[number] = box.weight
            if box.slack_ms is not None:
                plan.slacks[number] = box.slack_ms / 1e3
    return plan


def queries_of(model: OperatorNetwork) -> list[str]:
    """Return the query of each operator. A root without a query becomes its own query, with the operator's name."""
    taken = {operator.query for operator in model.operators}
    queries = []
    for number, box in enumerate(model.operators):
        query = box.query
        if not query and not box.feeds:
            query = box.name if box.name not in taken else f"{box.name}#{number}"
            taken.add(query)
        queries.append(query)
    return queries


def query_plan(model: QueryNetwork, costs: Costs) -> BoxPlan:
    plan = BoxPlan()
    for stream in model.streams():
        source = Box(f"source:{stream}", "", costs.call_us * 1e-6, costs.source_tuple_us * 1e-6)
        plan.entries[stream] = [plan.add(source)]
    for query in model.queries:
        first = len(plan.boxes)
        numbers = [plan.entries[stream][0] for stream in query.reads]
        for operator in query.operators:
            name = f"{query.name}.{operator.kind}"
            if operator.kind == "join":
                numbers = add_join(
                    plan, name, query=query.name, operator=operator, costs=costs, fed_by=numbers
                )
            else:
                numbers = [plan.add(box_of(name, query.name, operator, costs), numbers)]
        for number in numbers:
            plan.readers[number] = query.reads
            if query.utility is not None:
                plan.utilities[number] = UtilityGraph(points=query.utility)
            plan.weights[number] = query.weight
            # A window's answer is due one pane after the end of the window (`loadshed.tardiness`).
            for operator in query.operators:
                if operator.kind == "aggregate":
                    plan.slacks[number] = pane_s(operator)
        if query.cost_drift:
            for number in range(first, len(plan.boxes)):
                box = plan.boxes[number]
                plan.boxes[number] = replace(box, cost_drifts=(*box.cost_drifts, query.cost_drift))
    return plan


def pane_s(window: AggregateBox) -> float:
    """Return the length of the window's panes in seconds: the greatest common divisor of range and slide, as in a running system."""
    return gcd(round(window.range_s * 1e6), round(window.slide_s * 1e6)) / 1e6 or window.slide_s


def add_join(
    plan: BoxPlan, name: str, query: str, operator: OperatorModel, costs: Costs, fed_by: list[int]
) -> list[int]:
    """Add the two sides of a join, each fed by one of the two operators in `fed_by`; return their numbers."""
    first = len(plan.boxes)
    for side, feeder, partner in zip(("left", "right"), fed_by, (first + 1, first), strict=True):
        plan.add(replace(box_of(f"{name}.{side}", query, operator, costs), partner=partner), [feeder])
    return [first, first + 1]


def sharaf_plan(model: SharafNetwork, costs: Costs, rng: random.Random, cost_scale: float) -> BoxPlan:
    streams = model.streams()
    plan = BoxPlan(entries={stream: [] for stream in streams})
    select, stream = NONE, streams[0]
    for place in range(model.queries):
        name = f"Q{place + 1}"
        # Each `model.shared` consecutive queries share one select. Queries are drawn at random, so the queries that share a select are random.
        is_first = place % model.shared == 0
        if is_first and len(streams) > 1:
            stream = streams[rng.randrange(len(streams))]
        tuple_us = model.tuple_us * cost_scale * 2 ** rng.randrange(model.cost_classes)
        # Selectivities are whole percentages, because the thesis draws them from attributes in [1, 100].
        selectivity = (
            rng.randint(round(model.selectivity_min * 100), round(model.selectivity_max * 100)) / 100
        )
        selecting = SelectBox(kind="select", selectivity=selectivity, tuple_us=tuple_us)
        if model.joins:
            window_s = rng.uniform(model.window_min_s, model.window_max_s)
            joining = JoinBox(kind="join", window_s=window_s, selectivity=selectivity, tuple_us=tuple_us)
            add_joined(plan, name, streams=streams, selecting=selecting, joining=joining, costs=costs)
            continue
        chain: tuple[OperatorModel, ...] = (
            selecting,
            LookupBox(kind="lookup", selectivity=selectivity, tuple_us=tuple_us),
            ProjectBox(kind="project", tuple_us=tuple_us),
        )
        if is_first:
            select = plan.add(box_of(f"{name}.select", name, chain[0], costs))
            plan.entries[stream].append(select)
        number = select
        for operator in chain[1:]:
            number = plan.add(box_of(f"{name}.{operator.kind}", name, operator, costs), [number])
        plan.readers[number] = (stream,)
    return plan


def add_joined(
    plan: BoxPlan, name: str, streams: Sequence[str], selecting: SelectBox, joining: JoinBox, costs: Costs
) -> None:
    """Add a query that selects from each of its streams, and then joins them."""
    selects = [plan.add(box_of(f"{name}.select.{stream}", name, selecting, costs)) for stream in streams]
    for stream, number in zip(streams, selects, strict=True):
        plan.entries[stream].append(number)
    sides = add_join(plan, f"{name}.join", query=name, operator=joining, costs=costs, fed_by=selects)
    project = ProjectBox(kind="project", tuple_us=joining.tuple_us)
    plan.readers[plan.add(box_of(f"{name}.project", name, project, costs), sides)] = tuple(streams)


def box_of(name: str, query: str, operator: OperatorModel, costs: Costs) -> Box:
    call_us = costs.call_us if operator.call_us is None else operator.call_us
    return Box(
        name=name,
        query=query,
        call_s=call_us * 1e-6,
        tuple_s=operator.tuple_us * 1e-6,
        model=operator,
        size_out=operator.size_out,
        cost_drifts=(operator.cost_drift,) if operator.cost_drift else (),
    )
