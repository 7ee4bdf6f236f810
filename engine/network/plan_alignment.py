"""What runs of a class, and which operators its queries would have by another of the equivalent plans (`engine.plan.plan_rewrites`).

    planned(plan)        by which plan each query would go on, where it cannot be exchanged by the one that it has
    network(planned)     the operators that there would be, without input
    aligned(planned)     which of the running operators computes what one of these would

Plans of one query are alike but for conditions, which stand before a join or in it, and for columns that are left out. So their
windows, joins and unions are paired by their places in the query, and what stands between two of them by its order.

1. Operators that are paired give the same tuples; only joins and lookups may be given others (`tests/property/test_running.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from configs.classes.limits import ClassLimits
from configs.classes.plans import PlanSettings
from configs.classes.policy_and_plan import Choice
from configs.classes.utility import UtilityGraph
from engine.data.train import Train
from engine.network.network import ClassNetwork, walk
from engine.plan.plan import Apart, Filter, Plan, Project, Query, inputs
from engine.plan.plan_exchange import Unbounded, wait_us
from engine.plan.plan_rewrites import arranged

# Until an exchange both networks run: a plan that takes more event time than this until then is not thought of.
WAIT_MAX_US = 300_000_000


@dataclass(frozen=True, slots=True)
class Moved:
    """Conditions that one plan tests before a join, and the other does not."""

    away: tuple[Plan, ...] = ()
    """Those that are tested before it now."""
    here: tuple[Plan, ...] = ()
    """Those that would be."""


@dataclass
class Aligned:
    """Of what another plan computes, by what is computed now."""

    plans: dict[Plan, Plan | None] = field(default_factory=dict)
    """None for a condition that nobody tests by itself now, or a projection that nobody makes."""
    moved: dict[Plan, Moved] = field(default_factory=dict)
    """Of joins and lookups."""

    def add(self, now: Plan, other: Plan) -> Moved:
        """All of one query from here down; the conditions that have moved on top of the next window, join or stream."""
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
    """By query: those that could not be exchanged run by another plan than the class's."""
    choice: Choice
    keys: tuple[Hashable, ...]
    """What each operator computes, in their order."""
    pane_lengths: Mapping[Hashable, int]
    graphs: Mapping[str, UtilityGraph]
    """By query, what its answers are worth."""
    weights: Mapping[str, float]
    """By query, how much it counts that they are fresh, where that is not 1."""
    samples: Mapping[str, Train]
    """Some tuples of each stream, by its name in small letters."""

    def planned(self, plan: PlanSettings) -> dict[str, PlanSettings] | None:
        """None if the exchange would take too long."""
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
        return arranged(self._known[name], self._known, plan, name)


def steps_of(plan: Plan) -> tuple[list[Plan], Plan]:
    """The conditions and projections on top of a window, join or stream, topmost first, and that."""
    return list(_steps(plan)), without_steps(plan)


def _steps(plan: Plan) -> Iterator[Plan]:
    while isinstance(plan, Filter | Project | Apart):
        if not isinstance(plan, Apart):
            yield plan
        plan = below_step(plan)


def below_step(plan: Filter | Project | Apart) -> Plan:
    """What the operator takes in: a projection with the condition below it is one."""
    if isinstance(plan, Project) and isinstance(plan.input, Filter):
        return plan.input.input
    return plan.input


def without_steps(plan: Plan) -> Plan:
    while isinstance(plan, Filter | Project | Apart):
        plan = plan.input
    return plan


def is_select(plan: Plan) -> bool:
    return isinstance(plan, Project) and isinstance(plan.input, Filter)


def divided(steps: list[Plan]) -> tuple[tuple[Plan, ...], tuple[Plan, ...]]:
    """Those that test a condition, and those that do not."""
    tests = tuple([step for step in steps if isinstance(step, Filter) or is_select(step)])
    return tests, tuple([step for step in steps if step not in tests])
