"""Level 2 of one class: chooses the next operator by a policy, with source operators last (DILoS §III-A).

Operators inside the network go first. Source operators, which let new tuples in, run only when no other operator has input. The
same policy ranks the two groups independently. All work that follows from a source is done before the next source is chosen. So a
source that several queries share has the priority of all of them together (Sharaf eq. 3.9), and priority-defining trees are used
only for the operators inside. Only the simulator may rank sources together with the other operators (`sources_last=False`), as
Aurora, MavStream and Sharaf's testbed do; tuples then wait inside the network, too.

The runner's loop (the simulator's and the live one alike) is

    operator = scheduler.pick(now)
    …run it on a train, measured from outside…
    scheduler.pending(operator, tuples)  whenever the number of waiting tuples has changed, if `counts`
    scheduler.ready(fed, head)           for each operator that now has input
    scheduler.ready(operator, head)      if input is left, else scheduler.idle(operator)
    scheduler.operators.statistics.observe(operator, tuples_in, tuples_out, cost_s)

and scheduler.refresh() once per load cycle, when changed statistics change priorities. New operators (`extend`) are ranked at
once, together with the existing ones. A decision may have a plan (`policies/decision_plans.py`). The plan is then carried out pick
by pick without consulting the policy, which is not informed of changes inside meanwhile.

The policy can be replaced between two picks (`switch`):
1. Exactly the operators that were ready for the former policy are ready for the new one.
2. Network, statistics and estimates stay; the new policy ranks by the current estimates.
3. The new policy decides as if it had been in use from the beginning. Only round robin depends on what ran before; it begins a
   new cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from configs.classes.policies import PolicySettings
from scheduler.operators.network import Estimate, Network, NetworkEstimates, ScheduledOperator
from scheduler.operators.policies import (
    NONE,
    CountingPolicy,
    build_plans,
    build_policy,
    by_sums,
    tree_gain,
)
from scheduler.operators.policies.decision_plans import Plan
from scheduler.operators.segment_trees import whole_tree
from scheduler.operators.statistics import OperatorStatistics


class OperatorScheduler:
    """Scheduler of one class, which chooses the next operator."""

    def __init__(
        self,
        network: Network,
        settings: PolicySettings,
        initial: Sequence[Estimate],
        adaptive: bool = True,
        sources_last: bool = True,
    ) -> None:
        self.network = network
        self.statistics = OperatorStatistics(initial, adaptive)
        self._believed = NetworkEstimates(network, tuple(initial))
        self._sources_last = sources_last
        self._begin(settings)

    def _begin(self, settings: PolicySettings) -> None:
        network, believed = self.network, self._believed
        self._inner = build_policy(settings, believed)
        self._sources = build_policy(by_sums(settings), believed) if self._sources_last else self._inner
        self._group = [self._sources if operator.source else self._inner for operator in network.operators]
        self._plans = build_plans(settings, believed, self._sources_last)
        self.decisions = 0  # Number of decisions; operators that run by a decision plan are not counted
        # In a decision plan, `_current` is the operator that runs until it has no input, and `_rest` has the operators after it.
        # `_told` marks the ready operators (operators with input) that the policies know.
        # `_waiting` has operators that got input during the decision plan. The policies are informed of them at the end of the plan.
        self._is_planned = False  # True while a decision plan is in progress
        self._current = NONE
        self._rest: Iterator[int] = iter(())
        self._told = [False] * len(network.operators)
        self._is_source = [operator.source for operator in network.operators]
        self._waiting: dict[int, float] = {}
        self.counts = isinstance(self._inner, CountingPolicy)
        """True if the policy needs the number of waiting tuples."""
        self.counted = self._counted(network.operators)
        """True for operators with a number of waiting tuples that the policy needs; False for operators that only plans run."""
        self._counting = self._who_counts(network.operators)

    def extend(
        self, more: Sequence[ScheduledOperator], edges: Iterable[tuple[int, int]], initial: Sequence[Estimate]
    ) -> None:
        """Add operators after the existing operators, and edges from existing to new operators. The new operators have no input yet."""
        self.network = self.network.extended(more, edges)
        self.statistics.extend(initial)
        self._believed, changed = self._believed.extended(self.network, initial)
        self._inner.extend(self._believed, changed)
        if self._sources is not self._inner:
            self._sources.extend(self._believed, changed)
        group = [self._sources if operator.source else self._inner for operator in more]
        self._group += group
        self._counting += self._who_counts(more)
        self.counted += self._counted(more)
        self._told += [False for _ in more]
        self._is_source += [operator.source for operator in more]
        if self._plans is not None:
            self._plans.extend(self._believed, changed)

    def _who_counts(self, operators: Sequence[ScheduledOperator]) -> list[CountingPolicy]:
        """Return for each operator the policy that must be informed of its number of waiting tuples; empty if no policy needs it.

        The type is checked only once, since checking it for 1,000 operators would take milliseconds.
        """
        inner, sources = self._inner, self._sources
        if not isinstance(inner, CountingPolicy) or not isinstance(sources, CountingPolicy):
            return []
        return [sources if operator.source else inner for operator in operators]

    def _counted(self, operators: Sequence[ScheduledOperator]) -> list[bool]:
        return [self.counts and (self._plans is None or operator.source) for operator in operators]

    def pending(self, operator: int, tuples: int) -> None:
        """Report the number of tuples waiting at an operator; called before ready() for the same change."""
        self._counting[operator].pending(operator, tuples)

    def switch(self, settings: PolicySettings, heads: Iterable[tuple[int, float, int]]) -> None:
        """Replace the policy and stop the decision plan that is in progress.

        `heads` lists the operators with input, each with the arrival of its oldest tuple and the number of waiting tuples.
        """
        self._believe()
        self._begin(settings)
        for operator, head, tuples in heads:
            if self.counted[operator]:
                self.pending(operator, tuples)
            self.ready(operator, head)

    def ready(self, operator: int, head: float) -> None:
        if self._is_planned and not self._told[operator]:
            self._waiting[operator] = head
            return
        if self._plans is not None:
            self._told[operator] = True
        self._group[operator].ready(operator, head)

    def idle(self, operator: int) -> None:
        # An operator in `_waiting` is unknown to the policy, so the policy is informed only of other operators.
        if self._waiting.pop(operator, None) is None:
            self._told[operator] = False
            self._group[operator].idle(operator)

    def pick(self, now: float) -> int:
        """Return the operator to run now; NONE if no operator has input."""
        if self._is_planned:
            waiting, announced, operator = self._waiting, self._told, self._current
            if operator != NONE and (operator in waiting or announced[operator]):
                return operator
            for operator in self._rest:
                if operator in waiting or announced[operator]:
                    self._current = NONE if self._is_source[operator] else operator
                    return operator
            self._end_plan()
        operator = self._inner.pick(now)
        if operator == NONE:
            operator = self._sources.pick(now)
        if operator == NONE:
            return NONE
        self.decisions += 1
        if self._plans is not None:
            return self._begin_plan(self._plans.plan_of(operator), operator)
        return operator

    def _begin_plan(self, plan: Plan, picked: int) -> int:
        """Start a decision plan and return its first operator with input; the picked operator is in the plan and has input."""
        self._is_planned = len(plan) > 1
        if not self._is_planned:
            return picked
        self._rest, announced = iter(plan), self._told
        for operator in self._rest:
            if announced[operator]:
                break
        self._current = NONE if self._is_source[operator] else operator
        return operator

    def _end_plan(self) -> None:
        self._is_planned = False
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for operator, head in waiting.items():
                self.ready(operator, head)

    @property
    def looked(self) -> int:
        """Number of priorities that the last decision compared; 0 for policies that do not count comparisons."""
        groups = [self._inner] if self._sources is self._inner else [self._inner, self._sources]
        return sum(getattr(group, "looked", 0) for group in groups)

    def refresh(self) -> NetworkEstimates:
        """Update priorities if statistics have changed; return the current estimates for the load monitor."""
        if self._believe():
            self._inner.rank(self._believed)
            if self._sources is not self._inner:
                self._sources.rank(self._believed)
            if self._plans is not None:
                self._plans.rank(self._believed)
        return self._believed

    def _believe(self) -> bool:
        """Use the latest measured estimates from now on; return True if estimates have changed."""
        has_changed = self.statistics.changed
        if has_changed:
            self.statistics.changed = False
            self._believed = NetworkEstimates(self.network, tuple(self.statistics.estimates))
        return has_changed


class QueryScheduler(OperatorScheduler):
    """Scheduler that decides for whole queries, as Sharaf's testbed does: a picked operator runs with all downstream operators.

    With priority-defining trees, the picked operator runs only with its tree. A segment outside the tree of a shared operator
    waits for its own turn, and is ranked by the same policy together with the source operators. No other operator runs between
    an operator and its followers. A policy with its own plans follows these plans instead.
    """

    def __init__(
        self, network: Network, settings: PolicySettings, initial: Sequence[Estimate], adaptive: bool = True
    ) -> None:
        super().__init__(network, settings, initial, adaptive, sources_last=False)

    def _begin(self, settings: PolicySettings) -> None:
        super()._begin(settings)
        self._gain = tree_gain(settings)
        self._is_ready = [False] * len(self.network.operators)
        # Operators that still run with the last picked operator, in reverse order.
        self._followers: list[int] = []
        self._units: dict[int, list[int]] = {}
        self._looked = 0

    def extend(
        self, more: Sequence[ScheduledOperator], edges: Iterable[tuple[int, int]], initial: Sequence[Estimate]
    ) -> None:
        super().extend(more, edges, initial)
        self._is_ready += [False for _ in more]
        self._units = {}

    def ready(self, operator: int, head: float) -> None:
        self._is_ready[operator] = True
        super().ready(operator, head)

    def idle(self, operator: int) -> None:
        self._is_ready[operator] = False
        super().idle(operator)

    def pick(self, now: float) -> int:
        followers = self._followers
        while followers:
            operator = followers[-1]
            if self._is_ready[operator]:
                self._looked = 0
                return operator
            followers.pop()
        operator = super().pick(now)
        if operator != NONE and self._plans is None:
            self._followers = self._unit(operator)[:]
        self._looked = super().looked
        return operator

    @property
    def looked(self) -> int:
        return self._looked

    def _unit(self, operator: int) -> list[int]:
        """Return the operators that run together with a picked operator, in reverse order."""
        unit = self._units.get(operator)
        if unit is None:
            if self._gain is None:
                members = self.network.fed_by(operator)
            else:
                members = set(whole_tree(operator, self._believed.trees(self._gain)))
            unit = self._units[operator] = sorted(members - {operator}, reverse=True)
        return unit

    def refresh(self) -> NetworkEstimates:
        if self.statistics.changed:
            self._units = {}
        return super().refresh()
