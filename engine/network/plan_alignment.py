"""The running plan of a class, matched operator by operator with an equivalent plan (`engine.plan.plan_rewrites`).

Equivalent plans of a query differ only in conditions, which stand before a join or in it, and in columns that are left
out. So windows, joins and unions are paired by their positions in the query. Filters and projections between them are
paired in their order.

    planned(plan)        plan settings of each query after a switch; a query with a plan that cannot be exchanged keeps its settings
    network(planned)     operators that the class would have with these settings, without input
    aligned(planned)     for each operator of that network, the running operator that computes the same

1. Paired operators emit the same tuples; only the inputs of joins and lookups may differ
   (`tests/property/test_running.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from configs.classes.limits import ClassLimits
from configs.classes.plans import PlanSettings
from configs.classes.policy_and_plan import Choice
from configs.classes.utility import UtilityGraph
from engine.data.train import Train
from engine.network.network import ClassNetwork
from engine.plan.plan import Apart, Filter, Plan, Project, Query, inputs, walk
from engine.plan.plan_exchange import Unbounded, wait_us
from engine.plan.plan_rewrites import arranged

# Exchanges of plans that would take more than 300 s of event time are not made, because both plans run until the exchange.
WAIT_MAX_US = 300_000_000


@dataclass(frozen=True, slots=True)
class Moved:
    """Conditions that only one of two equivalent plans tests before a join."""

    away: tuple[Plan, ...] = ()
    """Conditions that only the running plan tests before the join."""
    here: tuple[Plan, ...] = ()
    """Conditions that only the other plan would test before the join."""


@dataclass
class Aligned:
    """Pairs each part of another plan with the part of the running plan that computes the same result."""

    plans: dict[Plan, Plan | None] = field(default_factory=dict)
    """Part of the running plan for each part of the other plan; None for a filter or projection that no running operator computes."""
    moved: dict[Plan, Moved] = field(default_factory=dict)
    """Conditions moved across each join or lookup of the other plan."""

    def add(self, now: Plan, other: Plan) -> Moved:
        """Match two plans of one query, from the given parts down to the streams.

        Return the conditions that only one of the plans tests directly above the next window, join or stream.
        """
        steps, below = steps_of(now)
        other_steps, other_below = steps_of(other)
        tests, projections = divided(steps)
        other_tests, other_projections = divided(other_steps)
        stay = len(tests) == len(other_tests)
        for place, one in enumerate(other_tests):
            self.plans.setdefault(one, tests[place] if stay else None)
        for place, one in enumerate(other_projections):
            self.plans.setdefault(one, projections[place] if place < len(projections) else None)
        if other_below not in self.plans:
            self.plans[other_below] = below
            sides = [self.add(*pair) for pair in zip(inputs(below), inputs(other_below), strict=True)]
            away = tuple([one for side in sides for one in side.away])
            here = tuple([one for side in sides for one in side.here])
            if away or here:
                self.moved[other_below] = Moved(away, here)
        return Moved() if stay else Moved(tests, other_tests)


@dataclass(frozen=True)
class RunningPlan:
    queries: tuple[Query, ...]
    planned_as: Mapping[str, PlanSettings]
    """Plan settings of each query; a query that could not be exchanged has other settings than the class."""
    choice: Choice
    keys: tuple[Hashable, ...]
    """Key of each operator, which says what it computes, in the order of the operators."""
    pane_lengths: Mapping[Hashable, int]
    graphs: Mapping[str, UtilityGraph]
    """Utility graph of each query, which gives the worth of its answers by response time."""
    weights: Mapping[str, float]
    """Weight of each query's freshness, where it is not 1."""
    samples: Mapping[str, Train]
    """Sample of tuples of each stream, by the stream's name in small letters."""

    def planned(self, plan: PlanSettings) -> dict[str, PlanSettings] | None:
        """Return the plan settings of each query after a switch to `plan`; None if the switch would take too long."""
        found = dict(self.planned_as)
        for name, planned_as in self.planned_as.items():
            if planned_as == plan:
                continue
            before, after = self._arranged(name, planned_as), self._arranged(name, plan)
            try:
                if wait_us(after, set(walk(before))) > WAIT_MAX_US:
                    return None
            except Unbounded:
                continue
            found[name] = plan
        return found

    def network(self, planned: Mapping[str, PlanSettings]) -> ClassNetwork:
        made = ClassNetwork(limits=ClassLimits(queries=max(1, len(self.queries))))
        made.expect(self.pane_lengths)
        for plan, some in groupby(self.queries, lambda one: planned[one.name]):
            made.plan = plan
            made.add(*some)
        return made

    def aligned(self, planned: Mapping[str, PlanSettings]) -> Aligned:
        found = Aligned()
        for query in self.queries:
            found.add(
                self._arranged(query.name, self.planned_as[query.name]),
                self._arranged(query.name, planned[query.name]),
            )
        return found

    @cached_property
    def _known(self) -> Mapping[str, Query]:
        return {query.name: query for query in self.queries}

    def _arranged(self, name: str, plan: PlanSettings) -> Plan:
        return arranged(self._known[name].plan, self._known, plan, name)


def steps_of(plan: Plan) -> tuple[list[Plan], Plan]:
    """Return the filters and projections at the top of a plan, topmost first, and the window, join or stream below them."""
    steps: list[Plan] = []
    while isinstance(plan, Filter | Project | Apart):
        if not isinstance(plan, Apart):
            steps.append(plan)
        plan = below_step(plan)
    return steps, plan


def below_step(plan: Filter | Project | Apart) -> Plan:
    """Return the input of the operator that computes this part of a plan.

    One operator computes a projection together with the filter directly below.
    """
    return plan.input.input if isinstance(plan.input, Filter) and is_select(plan) else plan.input


def is_select(plan: Plan) -> bool:
    return isinstance(plan, Project) and isinstance(plan.input, Filter)


def divided(steps: list[Plan]) -> tuple[tuple[Plan, ...], tuple[Plan, ...]]:
    """Return the parts of a plan that test a condition, and the parts without a condition."""
    tests = tuple([step for step in steps if isinstance(step, Filter) or is_select(step)])
    return tests, tuple([step for step in steps if step not in tests])
