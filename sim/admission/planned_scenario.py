"""From the classes of a plan to a scenario that is run in a second or two, whatever the rates and however many classes.

A simulated tuple stands for a *bundle*: as many tuples as it takes for all streams together to have no more than
some thousand a second. Loads stay what they are, and so do the costs of calls; trains are as much shorter in bundles. What is
lost is detail below the work of a bundle, a millisecond or so.

A class is one source a stream with what follows from it as a chain of equal steps, so that a slice may end within it. With
more classes than `SINGLE_MAX` those that ask for least are planned in groups of such as are alike; those that are asleep, which
only lend, are always one group.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from configs.classes.priority_class import PriorityClass
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

# Warm-up: headroom is learned and shares settle within some redistributions of 1.5 s; then what is planned is what comes.
WARM_UP_S, SEEN_S = 6.0, 12.0
# All streams together, and for each class more; what is simulated of one takes some microseconds.
BUNDLES_PER_S, BUNDLES_OF_CLASS = 4000.0, 50.0
# Awake classes that are simulated one by one.
SINGLE_MAX = 60
# A queue that may be longer than this takes longer to fill than the run lasts: such a target is planned as this one.
TARGET_MAX_S = 4.0
# Handing a lane over takes so long live (bench/RESULTS.md, p50), and choosing an operator.
COSTS = Costs(turn_us=50.0, decision_us=1.0)
# No step is to take longer than this, since live it is many operators' calls, between which slices end.
STEP_S, STEPS_MAX = 0.002, 6
# The rarest answers of a class are simulated as if they were this part of the most frequent ones, to be seen at all.
RAREST = 0.05
# A class runs in one lane at a time: what stands for several is divided so that a lane has room for more than one.
LANE_PART = 0.5
# Entitled to something, and asking for so many times that.
GREED = 2.0
NEVER_S = 1e9
# Who asks for less has hardly any input.
LEAST_LOAD = 1e-6


@dataclass(frozen=True)
class Simulated:
    """A scenario, and who stands in it for whom."""

    scenario: Scenario
    units: Mapping[str, tuple[str, ...]]
    """By class, the simulated ones that are it, or that it is one of."""
    grouped: Mapping[str, float]
    """Of classes that are planned with others, which part of the group's share and load is theirs."""


@dataclass(frozen=True)
class ClassGroup:
    """Classes that are simulated as one, or the shards of one that are simulated as several."""

    members: tuple[ClassLoad, ...]
    whole: ClassLoad
    pieces: int = 1


@dataclass
class Builder:
    """One scenario in the making."""

    situation: Situation
    greedy: frozenset[str] | None = None
    """At worst: who does not ask for all that there is, but has no more than its original share."""
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
            arrivals, bundle = arrivals_of(
                rate, load.batch_s, most, self._phase(group.members[0].name, place)
            )
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

    def _phase(self, name: str, place: int) -> float:
        """When in a period batches come; the same in all runs of a plan, which are compared."""
        return generator(self.situation.seed, "phase", name, str(place)).random()

    def _at_worst(self, group: ClassGroup, groups: Sequence[ClassGroup]) -> ClassGroup:
        """Who is planned may not borrow; everybody else asks for more than he is entitled to."""
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
    """The class with so much input that it asks for this load, at least."""
    inputs = one.inputs
    if sum(input_.load(train_max) for input_ in inputs) < LEAST_LOAD:
        inputs = tuple(replace(input_, rate=1.0) for input_ in inputs if input_.tuple_s > 0) or (SOMETHING,)
    factor = max(1.0, load / sum(input_.load(train_max) for input_ in inputs))
    return replace(one, inputs=tuple(replace(input_, rate=factor * input_.rate) for input_ in inputs))


# A class without queries, once it has some.
SOMETHING = InputLoad(rate=1.0, tuple_s=1e-5)


# -- groups ------------------------------------------------------------------------------------------------------


def grouped(classes: Sequence[ClassLoad], planned: set[str], lanes: int, train_max: int) -> list[ClassGroup]:
    """Who is simulated by himself, as several or with others; in the order of names, as shares are moved."""
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
    """Processors, about: calls are those of trains that come a hundred times a second, or as batches do."""
    return sum(
        load.rate * load.tuple_s + load.call_s * min(load.rate, trains_of(load)) for load in one.inputs
    )


def trains_of(given: InputLoad) -> float:
    return 1 / given.batch_s if given.batch_s else 100.0


def likeness(one: ClassLoad, planned: bool) -> Hashable:
    """Of classes that may be planned as one; loads within a factor of two of each other's, as parts of what they have."""
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
    """By their targets' size alone."""
    buckets: defaultdict[Hashable, list[ClassLoad]] = defaultdict(list)
    for key, members in alike.items():
        planned = isinstance(key, tuple) and key[0]
        for member in members:
            buckets[planned, round(math.log2(member.declared.delay_target_ms)), member.max_drop > 0].append(
                member
            )
    return buckets


def together(members: Sequence[ClassLoad], train_max: int) -> ClassLoad:
    """One class that is entitled to what all of them are, and asks for what they ask; its terms are the strictest."""
    if len(members) == 1:
        return members[0]
    declared = [member.declared for member in members]
    priority = sum(class_.priority for class_ in declared)
    changed: dict[str, Any] = {
        "priority": priority,
        "delay_target_ms": min(class_.delay_target_ms for class_ in declared),
        "min_share": min(1.0, sum(class_.min_share for class_ in declared)),
        "lendable": sum(class_.priority * class_.lendable for class_ in declared) / priority,
        "borrow_limit": min(1.0, sum(class_.borrow_limit for class_ in declared)),
        "max_drop": min(member.max_drop for member in members),
        # None lets tuples grow older than any age.
        "max_age_ms": max(ages) if (ages := known_ages(declared)) else None,
    }
    loads = [each for member in members for each in member.inputs]
    inputs = [without_calls(load, train_max) for load in [each for each in loads if each.rate > 0] or loads]
    return ClassLoad(declared[0].model_copy(update=changed), (one_queue(inputs),) if inputs else ())


def known_ages(declared: Sequence[PriorityClass]) -> list[float]:
    """Return the ages from which on each class drops; empty if one of them has none."""
    ages = [class_.max_age_ms for class_ in declared]
    return [age for age in ages if age is not None] if None not in ages else []


def without_calls(given: InputLoad, train_max: int) -> InputLoad:
    """With the cost of calls as one of tuples: trains of several classes cannot be one train."""
    train = min(max(given.rate / trains_of(given), 1.0), train_max) if given.rate > 0 else train_max
    return replace(given, tuple_s=given.tuple_s + given.call_s / train, call_s=0.0)


def one_queue(inputs: Sequence[InputLoad]) -> InputLoad:
    """Several streams as one: of a group, and of a class in which they wait for each other; each train has some of all."""
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
    """A turn of what stands for several classes is as long as theirs together."""
    awake = [group for group in groups if group.whole.rate]
    turns = sum(max(member.shards for member in group.members) * len(group.members) for group in awake)
    simulated = sum(group.pieces for group in awake)
    if turns <= simulated:
        return COSTS
    return COSTS.model_copy(update={"turn_us": COSTS.turn_us * turns / simulated})


# -- input -------------------------------------------------------------------------------------------------------


def water_level(rates: Iterable[float], most: float) -> float:
    """The rate to which the highest are lowered so that all together are no more than `most`."""
    left, level = most, math.inf
    ordered = sorted(rates)
    for place, rate in enumerate(ordered):
        level = left / (len(ordered) - place)
        if rate > level:
            return level
        left -= rate
    return math.inf


def arrivals_of(rate: float, batch_s: float, most: float, phase: float) -> tuple[Arrivals, float]:
    """How bundles come, and how many tuples one is."""
    in_batch = round(min(rate, most) * batch_s)
    if in_batch > 1:
        at_s = min(phase, 0.999) * batch_s
        times = (*[at_s] * (in_batch - 1), batch_s)
        return TraceArrivals(kind="trace", times_s=times, repeat=True), rate * batch_s / in_batch
    if rate * batch_s >= 1 and most * batch_s >= 1:
        return ConstantArrivals(kind="constant", rate=1 / batch_s), rate * batch_s
    if rate > most:  # many tuples come more evenly than one stands for them could by chance
        return ConstantArrivals(kind="constant", rate=most), rate / most
    return PoissonArrivals(kind="poisson", rate=rate), 1.0


def query_of(stream: str, given: InputLoad, bundle: float, train_max: int, answers: float) -> QueryModel:
    """All that follows from a stream's tuples, in steps that are not too long."""
    whole_s = train_max * given.tuple_s + given.call_s
    steps = max(1, min(STEPS_MAX, given.calls, math.ceil(whole_s / STEP_S)))
    tuple_us, call_us = 1e6 * given.tuple_s * bundle / steps, 1e6 * given.call_s / steps
    project = ProjectBox(kind="project", tuple_us=tuple_us, call_us=call_us)
    last = LookupBox(kind="lookup", selectivity=min(answers, 1.0), tuple_us=tuple_us, call_us=call_us)
    return QueryModel(name=f"q{stream}", reads=(stream,), operators=(*[project] * (steps - 1), last))
