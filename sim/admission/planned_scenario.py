"""Scenario for an admission plan, made from the classes of the plan. The scenario is simulated in a second or two, whatever the rates
and the number of classes.

A simulated tuple stands for a *bundle* of tuples. Bundles are so large that all streams together have at most a few thousand
of them per second. Loads and the costs of calls stay the same, and trains have fewer simulated tuples. Times that are shorter than
the work on one bundle, about a millisecond, are not simulated exactly.

A simulated class has one source per stream, followed by a chain of equal operators, so that a slice may end between two
operators. With more awake classes than `SINGLE_MAX`, the classes with the smallest load are planned in groups of similar
classes. Sleeping classes, which only lend, are always one group.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from configs.scenario.arrivals import Arrivals, ConstantArrivals, PoissonArrivals, TraceArrivals
from configs.scenario.scenario import (
    Costs,
    LookupBox,
    ProjectBox,
    QueryModel,
    QueryNetwork,
    Scenario,
    SimulatedClass,
    StreamInput,
)
from sim.admission.situation import ClassLoad, InputLoad, Situation
from sim.run.rng import generator

# Length of the warm-up, in which headrooms and shares settle, and of the measured part of the run, in seconds.
WARM_UP_S, SEEN_S = 6.0, 12.0
# Maximum number of bundles per second: of all streams together, and in addition for each class.
BUNDLES_PER_S, BUNDLES_OF_CLASS = 4000.0, 50.0
# Maximum number of awake classes that are simulated one by one.
SINGLE_MAX = 60
# Longest delay target that is simulated. Longer targets are shortened to it, because their queues would not fill within the run.
TARGET_MAX_S = 4.0
# Time for handing a lane to another class in a live system (median in bench/RESULTS.md), and time for choosing an operator.
COSTS = Costs(turn_us=50.0, decision_us=1.0)
# Maximum length of one simulated operator call in seconds. A live class runs many short calls, and slices end between calls.
STEP_S, STEPS_MAX = 0.002, 6
# Minimum number of simulated answers per tuple of a stream, relative to the class's stream with the most answers per tuple.
# With fewer simulated answers, a stream with rare answers might have no answer in the whole run.
RAREST = 0.05
# Maximum load of one simulated class, in lanes. A class runs in one lane at a time, so a group with more load is divided.
LANE_PART = 0.5
# In the worst case, every other class asks for this multiple of the capacity to which it is entitled.
GREED = 2.0
NEVER_S = 1e9
# Load below which a class counts as having no input, in processors.
LEAST_LOAD = 1e-6


@dataclass(frozen=True)
class Simulated:
    """Scenario to simulate, and the simulated classes that represent each real class."""

    scenario: Scenario
    units: Mapping[str, tuple[str, ...]]
    """Names of the simulated classes that represent a real class or its group, by name of the real class."""
    grouped: Mapping[str, float]
    """Fraction of a group's share and load that belongs to one class, by name of the class; only for classes in groups."""


@dataclass(frozen=True)
class ClassGroup:
    """Classes that are simulated together. `whole` is their sum, which is divided into `pieces` simulated classes."""

    members: tuple[ClassLoad, ...]
    whole: ClassLoad
    pieces: int = 1


@dataclass
class Builder:
    """Builder of the scenario that an admission plan simulates."""

    situation: Situation
    greedy: frozenset[str] | None = None
    """Names of the planned classes, to simulate the worst case: planned classes may not borrow, and other classes ask for
    more than their share."""
    networks: dict[str, QueryNetwork] = field(default_factory=dict)
    classes: list[SimulatedClass] = field(default_factory=list)

    def built(self, classes: Sequence[ClassLoad]) -> Simulated:
        settings, lanes = self.situation.settings, self.situation.lanes
        groups = grouped(
            classes, {planned.name for planned in self.situation.planned}, lanes, settings.train_max
        )
        if self.greedy is not None:
            groups = [self._at_worst(group, groups) for group in groups]
        rates = [
            load.rate / group.pieces
            for group in groups
            for load in group.whole.inputs
            for _ in range(group.pieces)
        ]
        most = water_level(rates, BUNDLES_PER_S + BUNDLES_OF_CLASS * sum(group.pieces for group in groups))
        names: dict[str, tuple[str, ...]] = {}
        parts: dict[str, float] = {}
        for group in groups:
            units = tuple(self._add(group, most) for _ in range(group.pieces))
            for member in group.members:
                names[member.name] = units
                if len(group.members) > 1:
                    parts[member.name] = member.declared.priority / group.whole.declared.priority
        scenario = Scenario(
            name="plan",
            seconds=WARM_UP_S + SEEN_S,
            seed=self.situation.seed,
            lanes=lanes,
            round_ms=settings.round_ms,
            queue_max=settings.queue_max,
            costs=turn_costs(classes, groups),
            load=settings.load,
            networks=self.networks,
            classes=tuple(self.classes),
        )
        return Simulated(scenario, names, parts)

    def _add(self, group: ClassGroup, most: float) -> str:
        whole, number = group.whole, len(self.classes)
        name = f"u{number:05}"
        declared = whole.declared
        streams: dict[str, StreamInput] = {}
        queries, bundles = [], [1.0]
        frequent = max([load.answers for load in whole.inputs if load.rate > 0], default=0.0)
        for place, load in enumerate(whole.inputs):
            if load.rate <= 0:
                continue
            stream, rate = f"s{place}", load.rate / group.pieces
            # Each batch arrives at the same part of its period in all runs, so that runs can be compared.
            phase = generator(self.situation.seed, "phase", group.members[0].name, str(place)).random()
            arrivals, bundle = arrivals_of(rate, load.batch_s, most, phase)
            streams[stream] = StreamInput(arrivals=arrivals)
            bundles.append(bundle)
            answers = load.answers / frequent if frequent > 0 else 1.0
            queries.append(
                query_of(stream, load, bundle, self.situation.settings.train_max, max(answers, RAREST))
            )
        if not queries:
            streams["s0"] = StreamInput(arrivals=TraceArrivals(kind="trace", times_s=(NEVER_S,)))
            queries.append(
                QueryModel(name="q", reads=("s0",), operators=(ProjectBox(kind="project", tuple_us=1.0),))
            )
        self.networks[name] = QueryNetwork(queries=tuple(queries))
        self.classes.append(
            SimulatedClass(
                name=name,
                priority=declared.priority / group.pieces,
                delay_target_ms=min(declared.delay_target_ms, 1e3 * TARGET_MAX_S),
                min_share=min(1.0, declared.min_share / group.pieces),
                lendable=declared.lendable,
                borrow_limit=min(1.0, declared.borrow_limit / group.pieces),
                max_drop=whole.max_drop,
                max_age_ms=None if whole.lossless else declared.max_age_ms,
                victim="random" if declared.victim == "fair" else declared.victim,
                policy=declared.first_policy,
                network=name,
                streams=streams,
                train_max=max(1, round(self.situation.settings.train_max / max(bundles))),
            )
        )
        return name

    def _at_worst(self, group: ClassGroup, groups: Sequence[ClassGroup]) -> ClassGroup:
        """Return the group for the worst case: a planned class may not borrow, and any other class asks for more than its share."""
        assert self.greedy is not None
        whole = group.whole
        if all(member.name in self.greedy for member in group.members):
            return replace(
                group, whole=replace(whole, declared=whole.declared.model_copy(update={"borrow_limit": 0.0}))
            )
        share = whole.declared.priority / sum(other.whole.declared.priority for other in groups)
        return replace(
            group,
            whole=asking(whole, GREED * share * self.situation.lanes, self.situation.settings.train_max),
        )


def asking(one: ClassLoad, load: float, train_max: int) -> ClassLoad:
    """Return the class with its input raised until its load is at least `load`, in processors."""
    inputs = one.inputs
    if sum(input_.load(train_max) for input_ in inputs) < LEAST_LOAD:
        inputs = tuple(replace(input_, rate=1.0) for input_ in inputs if input_.tuple_s > 0) or (SOMETHING,)
    factor = max(1.0, load / sum(input_.load(train_max) for input_ in inputs))
    return replace(one, inputs=tuple(replace(input_, rate=factor * input_.rate) for input_ in inputs))


# Input assumed in the worst case for a class that has no queries yet.
SOMETHING = InputLoad(rate=1.0, tuple_s=1e-5)


def grouped(classes: Sequence[ClassLoad], planned: set[str], lanes: int, train_max: int) -> list[ClassGroup]:
    """Return the groups of classes that are simulated together, in the order of the names of their first classes."""
    total = sum(class_.declared.priority for class_ in classes)
    asleep = [class_ for class_ in classes if not class_.rate and class_.name not in planned]
    awake = sorted(
        (class_ for class_ in classes if class_.rate or class_.name in planned),
        key=lambda one: (one.name not in planned, -load_of(one), one.name),
    )
    groups = [ClassGroup((member,), member, member.shards) for member in awake[:SINGLE_MAX]]
    alike: defaultdict[Hashable, list[ClassLoad]] = defaultdict(list)
    for member in awake[SINGLE_MAX:]:
        alike[likeness(member, member.name in planned)].append(member)
    if len(alike) > SINGLE_MAX:
        alike = coarser(alike)
    for members in [*alike.values(), asleep]:
        if members:
            whole = together(members, train_max)
            needed = max(load_of(whole), whole.declared.priority / total * lanes)
            groups.append(ClassGroup(tuple(members), whole, max(1, math.ceil(needed / LANE_PART))))
    return sorted(groups, key=lambda one: one.members[0].name)


def load_of(one: ClassLoad) -> float:
    """Return the approximate load of a class in processors. A batch counts as one train; without batches, 100 trains per second count."""
    return sum(
        load.rate * load.tuple_s + load.call_s * min(load.rate, trains_of(load)) for load in one.inputs
    )


def trains_of(given: InputLoad) -> float:
    return 1 / given.batch_s if given.batch_s else 100.0


def likeness(one: ClassLoad, planned: bool) -> Hashable:
    """Return a key by which classes are grouped: classes with equal keys have similar terms and similar load per priority."""
    declared = one.declared
    size = round(math.log2(max(load_of(one) / declared.priority, 1e-9)))
    return (
        planned,
        declared.delay_target_ms,
        one.max_drop,
        declared.max_age_ms,
        declared.lendable,
        declared.first_policy.kind,
        size,
    )


def coarser(alike: Mapping[Hashable, list[ClassLoad]]) -> defaultdict[Hashable, list[ClassLoad]]:
    """Merge groups, so that only three criteria separate classes: planned or not, size of the delay target, lossless or not."""
    buckets: defaultdict[Hashable, list[ClassLoad]] = defaultdict(list)
    for key, members in alike.items():
        planned = isinstance(key, tuple) and key[0]
        for member in members:
            buckets[planned, round(math.log2(member.declared.delay_target_ms)), member.max_drop > 0].append(
                member
            )
    return buckets


def together(members: Sequence[ClassLoad], train_max: int) -> ClassLoad:
    """Combine several classes into one class, with the sums of their priorities and loads and the strictest of their terms."""
    if len(members) == 1:
        return members[0]
    declared = [member.declared for member in members]
    priority = sum(class_.priority for class_ in declared)
    # A maximum age of None means no limit, so the group has no limit if one of its classes has no limit.
    oldest_ms = max(class_.max_age_ms or math.inf for class_ in declared)
    changed: dict[str, Any] = {
        "priority": priority,
        "delay_target_ms": min(class_.delay_target_ms for class_ in declared),
        "min_share": min(1.0, sum(class_.min_share for class_ in declared)),
        "lendable": sum(class_.priority * class_.lendable for class_ in declared) / priority,
        "borrow_limit": min(1.0, sum(class_.borrow_limit for class_ in declared)),
        "max_drop": min(member.max_drop for member in members),
        "max_age_ms": None if oldest_ms == math.inf else oldest_ms,
    }
    loads = [each for member in members for each in member.inputs]
    inputs = [without_calls(load, train_max) for load in [each for each in loads if each.rate > 0] or loads]
    return ClassLoad(declared[0].model_copy(update=changed), (one_queue(inputs),) if inputs else ())


def without_calls(given: InputLoad, train_max: int) -> InputLoad:
    """Return the input with the cost of calls added to the cost of tuples, because tuples of different classes share no train."""
    train = min(max(given.rate / trains_of(given), 1.0), train_max) if given.rate > 0 else train_max
    return replace(given, tuple_s=given.tuple_s + given.call_s / train, call_s=0.0)


def one_queue(inputs: Sequence[InputLoad]) -> InputLoad:
    """Combine several inputs into one: for a group of classes, or for a class in which tuples of several streams wait for each other."""
    rate = sum(input_.rate for input_ in inputs)
    weights = [input_.rate / rate if rate else 1 / len(inputs) for input_ in inputs]
    each = list(zip(weights, inputs, strict=True))
    return InputLoad(
        rate,
        tuple_s=sum(weight * load.tuple_s for weight, load in each),
        call_s=sum(input_.call_s for input_ in inputs),
        answers=sum(weight * load.answers for weight, load in each),
        batch_s=max(input_.batch_s for input_ in inputs),
        calls=sum(input_.calls for input_ in inputs),
    )


def turn_costs(classes: Sequence[ClassLoad], groups: Sequence[ClassGroup]) -> Costs:
    """Return the costs of scheduling; a simulated class that stands for several classes has the costs of all of their turns."""
    awake = [group for group in groups if group.whole.rate]
    turns = sum(max(member.shards for member in group.members) * len(group.members) for group in awake)
    simulated = sum(group.pieces for group in awake)
    if turns <= simulated:
        return COSTS
    return COSTS.model_copy(update={"turn_us": COSTS.turn_us * turns / simulated})


def water_level(rates: Iterable[float], most: float) -> float:
    """Return the rate to which higher rates must be lowered so that the sum of the rates is at most `most`."""
    left, level = most, math.inf
    ordered = sorted(rates)
    for place, rate in enumerate(ordered):
        level = left / (len(ordered) - place)
        if rate > level:
            return level
        left -= rate
    return math.inf


def arrivals_of(rate: float, batch_s: float, most: float, phase: float) -> tuple[Arrivals, float]:
    """Return the arrivals of bundles, and the number of tuples in a bundle."""
    in_batch = round(min(rate, most) * batch_s)
    if in_batch > 1:
        at_s = min(phase, 0.999) * batch_s
        times = (*[at_s] * (in_batch - 1), batch_s)
        return TraceArrivals(kind="trace", times_s=times, repeat=True), rate * batch_s / in_batch
    if rate * batch_s >= 1 and most * batch_s >= 1:
        return ConstantArrivals(kind="constant", rate=1 / batch_s), rate * batch_s
    if rate > most:  # Bundles of many tuples arrive more evenly than single tuples at random times.
        return ConstantArrivals(kind="constant", rate=most), rate / most
    return PoissonArrivals(kind="poisson", rate=rate), 1.0


def query_of(stream: str, given: InputLoad, bundle: float, train_max: int, answers: float) -> QueryModel:
    """Return the query that stands for all work on a stream's tuples, divided into operator calls of limited length."""
    whole_s = train_max * given.tuple_s + given.call_s
    steps = max(1, min(STEPS_MAX, given.calls, math.ceil(whole_s / STEP_S)))
    tuple_us, call_us = 1e6 * given.tuple_s * bundle / steps, 1e6 * given.call_s / steps
    project = ProjectBox(kind="project", tuple_us=tuple_us, call_us=call_us)
    last = LookupBox(kind="lookup", selectivity=min(answers, 1.0), tuple_us=tuple_us, call_us=call_us)
    return QueryModel(name=f"q{stream}", reads=(stream,), operators=(*[project] * (steps - 1), last))
