"""Forecasts of a class's objective under other policies and under other, equivalent plans of its queries.

    forecasts(now, policies, …)     the current plan with all policies; other plans with the current and the best policy

Only the current plan has been measured. An operator of another plan has the cost and selectivity of the operator that
computes the same in the current plan. Cost and selectivity of all other operators are estimated:

    operator of the other plan              estimate
    a condition that moves before a join    selectivity on a sample of recent tuples; cost of similar operators
    a join after which it is then tested    more input and the same output; its cost grows with the pairs that it finds
                                            and with testing the condition on each pair
    an operator per query instead of one    cost and selectivity of the shared operator
    for several queries

1. A plan is not forecast if an estimate is missing, or if the plan has the same operators as another plan. Nor is a plan that
   takes more than `STEPS_MORE` times as long to simulate as the current plan.
2. All plans are simulated for the same input and time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from configs.classes.plans import PlanSettings
from configs.classes.policies import PolicySettings, policy_text
from configs.classes.policy_and_plan import PLANS, Choice
from engine.class_.explain import PlanLine
from engine.data.train import Train
from engine.measure.answer_values import urgency
from engine.network.network import ClassNetwork
from engine.network.node import QueuedOperator, slack_of
from engine.network.plan_alignment import Aligned, Moved, RunningPlan, below_step, is_select
from engine.operators.select import SelectOperator
from engine.plan.plan import Apart, Filter, Plan, Project, Scan
from sim.forecast import policy_forecast
from sim.forecast.operator_costs import Cost, cost_of_kind, is_measured, likes
from sim.forecast.policy_forecast import (
    ClassNow,
    Simulate,
    TriedOperator,
    steps_of_cycle,
    tried_operators,
    with_answers,
)

# Maximum number of queries of a class for which other plans are forecast; making a plan takes about a millisecond per query.
QUERIES_MAX = 1000
STEPS_MORE = 4.0
# Assumed cost of a pair that a join finds, as a multiple of the cost of an input tuple of the join.
PAIR_PART = 0.4
# Minimum number of sampled tuples from which a condition's selectivity is estimated.
SAMPLE_LEAST = 100


def forecasts(now: ClassNow, policies: Sequence[PolicySettings], simulate: Simulate) -> dict[str, float]:
    """Return the forecast value of the objective for each choice of policy and plan, by the choice's text; empty without input."""
    forecasts = policy_forecast.forecasts(now, policies, simulate)
    if now.running is None or not forecasts:
        return forecasts
    choice = now.running.choice
    best = min(
        (policy for policy in policies if policy_text(policy) in forecasts),
        key=lambda one: forecasts[policy_text(one)],
    )
    by_name = by_choice(policies, choice.plan, forecasts)
    for plan, operators in other_plans(now, now.running):
        again = [now.before.policy] if now.before is not None and now.before.plan == plan else []
        tried = list(dict.fromkeys([choice.policy, best, *again]))
        other = replace(now, operators=operators, steps=steps_of_cycle(now))
        by_name |= by_choice(tried, plan, policy_forecast.forecasts(other, tried, simulate))
    return by_name


def by_choice(
    policies: Sequence[PolicySettings], plan: PlanSettings, found: Mapping[str, float]
) -> dict[str, float]:
    names = {policy_text(policy): str(Choice(policy, plan)) for policy in policies}
    return {names[policy]: value for policy, value in found.items()}


def other_plans(
    now: ClassNow, running: RunningPlan
) -> Iterator[tuple[PlanSettings, tuple[TriedOperator, ...]]]:
    """Yield each equivalent plan that has other operators than the current plan, with its operators and their estimated costs."""
    if len(running.queries) > QUERIES_MAX or not all(map(is_known, now.lines)):
        return
    shapes = [shape_of(running.network(running.planned_as))]
    measured = MeasuredOperators(now, running)
    for plan in PLANS:
        planned = None if plan == running.choice.plan else running.planned(plan)
        if planned is None:
            continue
        network = running.network(planned)
        if shape_of(network) in shapes:
            continue
        shapes.append(shape_of(network))
        operators = measured.operators_of(network, running.aligned(planned))
        if operators is None:
            continue
        if steps_of_cycle(replace(now, operators=operators)) <= STEPS_MORE * steps_of_cycle(now):
            yield plan, operators


def is_known(line: PlanLine) -> bool:
    """Return False for a source that has had input, but has not run often enough to know its cost; True for any other operator."""
    return is_measured(line) or not line.name.startswith("source:") or not line.tuples


def shape_of(made: ClassNetwork) -> list[tuple[str, tuple[int, ...]]]:
    """Return the name of each operator with the numbers of the operators that read its output. Plans with equal shapes have the same operators."""
    place = {id(node): number for number, node in enumerate(made.nodes)}
    return [(node.name, tuple([place[id(below)] for below in node.downstream])) for node in made.nodes]


class MeasuredOperators:
    """Measured operators of the current plan, from which operators of other plans are estimated."""

    def __init__(self, now: ClassNow, running: RunningPlan) -> None:
        self._running, self._lines = running, now.lines
        self._operators = tried_operators(now.lines)
        self._place = {key: number for number, key in enumerate(running.keys)}
        self._likes = likes(now.lines)
        self._came = {name: sum(slot.tuples for slot in slots) for name, slots in now.arrivals.items()}
        self._above: dict[int, int] = {}
        self._taken = [0.0 for _ in self._operators]
        """Number of input tuples of each operator."""
        for number, operator in enumerate(self._operators):
            if operator.stream:
                self._taken[number] = float(self._came.get(operator.stream, 0))
            for below in operator.feeds:
                self._above[below] = number
                self._taken[below] += self._given(number)

    def operators_of(self, made: ClassNetwork, aligned: Aligned) -> tuple[TriedOperator, ...] | None:
        """Return the operators of another plan with estimated costs, or None if an estimate is missing."""
        place = {id(node): number for number, node in enumerate(made.nodes)}
        taken = [0.0 for _ in made.nodes]
        operators: list[TriedOperator] = []
        for number, node in enumerate(made.nodes):
            if node.source:
                taken[number] = float(self._came.get(node.stream, 0))
            cost = self._cost_of(node, taken[number], aligned)
            if cost is None:
                return None
            feeds = tuple([place[id(below)] for below in node.downstream])
            for below in feeds:
                taken[below] += cost.selectivity * taken[number]
            partner = None if node.partner is None else place[id(node.partner)]
            graphs = [
                self._running.graphs[output] for output in node.outputs if output in self._running.graphs
            ]
            points = min(graphs, key=urgency).points if graphs and not feeds else None
            weight = sum(sorted(self._running.weights.get(output, 1.0) for output in node.outputs)) or 1.0
            slack = slack_of(node) if node.outputs else None
            same = self.same(node, aligned)
            twin = None if same is None else self._operators[same]
            operators.append(
                TriedOperator(
                    name=node.name,
                    feeds=feeds,
                    cost=cost,
                    stream=node.stream,
                    partner=partner,
                    utility=points,
                    weight=weight,
                    slack_s=None if slack is None else slack(),
                    tells=0.0 if twin is None else twin.tells,
                    told=twin is not None and twin.told,
                    believed=twin.believed if twin is not None and twin.cost == cost else None,
                )
            )
        outputs = [tuple(sorted(node.outputs)) for node in made.nodes]
        return with_answers(operators, outputs, self._running.graphs, self._running.weights)

    def _given(self, number: int) -> float:
        return self._taken[number] * self._operators[number].cost.selectivity

    def _cost_of(self, node: QueuedOperator, taken: float, aligned: Aligned) -> Cost | None:
        number, plan = self.same(node, aligned), plan_of(node)
        if number is None:
            return self._cost_of_step(node, plan) if isinstance(plan, Filter | Project) else None
        if plan in aligned.moved:
            return self._cost_of_join(node, number, taken, aligned.moved[plan])
        return self._operators[number].cost

    def same(self, node: QueuedOperator, aligned: Aligned) -> int | None:
        """Return the number of the running operator that computes the same as the given operator, or None."""
        if node.source:
            return self._place.get(node.key)
        if node.name == "panes":
            # The key of a panes operator depends on all windows over the panes, and plans may differ in these windows.
            # Because keys may differ between plans, the panes operator of the running plan is found through one of its windows.
            window = self.same(node.downstream[0], aligned)
            return None if window is None else self._above.get(window)
        plan = plan_of(node)
        same = None if plan is None else aligned.plans.get(plan)
        return self._place.get((same, node.key[1]) if isinstance(node.key, tuple) else same)

    def _cost_of_step(self, node: QueuedOperator, plan: Filter | Project) -> Cost | None:
        """Return the estimated cost of a condition or projection that has no operator of its own in the current plan."""
        assumed = cost_of_kind(node.name.partition(":")[0], self._likes)
        part = self._part(plan) if isinstance(plan, Filter) or is_select(plan) else 1.0
        return None if part is None else replace(assumed, selectivity=part)

    def _cost_of_join(self, node: QueuedOperator, number: int, taken: float, moved: Moved) -> Cost | None:
        """Return the estimated cost of a join if the plan moves conditions to a place before the join, or after it."""
        cost, before, returned = self._operators[number].cost, self._taken[number], self._given(number)
        tests = [self._place.get(part) for part in moved.away]
        parts = [self._part(part) for part in moved.here]
        if not is_measured(self._lines[number]) or before <= 0 or taken <= 0:
            return None
        if None in parts or not all(test is not None and is_measured(self._lines[test]) for test in tests):
            return None
        tested = [self._operators[test].cost for test in tests if test is not None]
        passed_now = math.prod(cost.selectivity for cost in tested)
        passed_then = math.prod(part for part in parts if part is not None)
        if min(passed_now, passed_then) <= 0:
            return None
        # A join finds more pairs than it emits if conditions are tested on the pairs.
        pairs = returned / before * max(1.0, passed_now / passed_then)
        pairs_then = returned / taken * max(1.0, passed_then / passed_now)
        tuple_s = cost.tuple_s
        if node.name.startswith("join."):
            tuple_s *= (1 + PAIR_PART * pairs_then) / (1 + PAIR_PART * pairs)
        tuple_s += pairs_then * sum(cost.tuple_s for cost in tested)
        return Cost(cost.call_s, tuple_s, returned / taken)

    def _part(self, plan: Plan) -> float | None:
        """Return the fraction of sampled recent tuples that pass a condition; None if there are too few samples."""
        assert isinstance(plan, Filter | Project)
        sample = passed(below_step(plan), self._running.samples)
        if sample is None or len(sample) < SAMPLE_LEAST:
            return None
        return max(len(step(plan, sample)), 0.5) / len(sample)


def plan_of(node: QueuedOperator) -> Plan | None:
    """Return the plan step that the operator computes. For a side of a join, return the join. For sources and panes, return None."""
    key = node.key[0] if isinstance(node.key, tuple) else node.key
    return None if isinstance(key, str) else cast(Plan, key)


def passed(plan: Plan, samples: Mapping[str, Train]) -> Train | None:
    """Return the output of a plan for the sampled tuples; None if the plan has steps other than conditions and projections."""
    if isinstance(plan, Scan):
        return samples.get(plan.stream.name.lower())
    if not isinstance(plan, Filter | Project | Apart):
        return None
    sample = passed(below_step(plan), samples)
    return sample if sample is None or isinstance(plan, Apart) else step(plan, sample)


def step(plan: Plan, given: Train) -> Train:
    match plan:
        case Project(Filter(_, condition), expressions):
            operator = SelectOperator(condition, expressions)
        case Project(_, expressions):
            operator = SelectOperator(None, expressions)
        case Filter(_, condition):
            operator = SelectOperator(condition, None)
        case _:
            raise AssertionError(f"{type(plan).__name__} is not tested tuple by tuple")
    return operator.process(given) or given.slice(0, 0)
