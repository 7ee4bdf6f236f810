"""Level 2 of one class: its policy, with source operators last (DILoS §III-A).

Operators inside the network go first; source operators, which let new tuples in, run only when no other
operator has input. The two groups are ranked independently, by the same policy; but all that follows from a source runs
before the next one is looked at, so a source that several queries share has the priority of all of them together (Sharaf
eq. 3.9), and priority-defining trees are for the operators inside. Only the simulator may rank sources among the others
(`sources_last=False`), as Aurora, MavStream and Sharaf's testbed do: tuples then wait inside as well.

The runner's loop (the simulator's and the live one alike) is

    operator = scheduler.pick(now)
    …run it on a train, measured from outside…
    scheduler.pending(operator, tuples)  whenever the number of tuples that wait there has changed, if `counts`
    scheduler.ready(fed, head)           for each operator that now has input
    scheduler.ready(operator, head)      if input is left, else scheduler.idle(operator)
    scheduler.operators.statistics.observe(operator, tuples_in, tuples_out, cost_s)

and scheduler.refresh() once a load cycle, which is when changed statistics change priorities. Operators that are added
(`extend`) are ranked at once, beside those that are there. A decision may have a plan (`policies/decision_plans.py`), which is then carried out
pick by pick without asking the policy again; nor is the policy told of what comes and goes inside meanwhile.

The policy may be another from one pick to the next (`switch`):
1. What is ready for the one before it is ready for it, and nothing else: no operator that has input is forgotten.
2. Network, statistics and what is believed of them stay; it is ranked by what is believed now.
3. What it decides is what it would have decided, had it been there from the beginning and been told of the same.
   Round robin alone remembers what ran before: it begins a new cycle.
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
    """Which operator of the class runs next."""

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
        """By this policy, which has been told of nobody's input."""
        network, believed = self.network, self._believed
        self._inner = build_policy(settings, believed)
        self._sources = build_policy(by_sums(settings), believed) if self._sources_last else self._inner
        self._group = [self._sources if operator.source else self._inner for operator in network.operators]
        self._plans = build_plans(settings, believed, self._sources_last)
        self.decisions = 0  # so far; a step of a plan is none
        # With plans: whether one is under way, its operator that runs until it has no input, and those that follow; who has
        # input that the policies know of; and who has got some since, which they are told of at the plan's end if it is left.
        self._is_planned = False
        self._current = NONE
        self._rest: Iterator[int] = iter(())
        self._told = [False] * len(network.operators)
        self._is_source = [operator.source for operator in network.operators]
        self._waiting: dict[int, float] = {}
        self.counts = isinstance(self._inner, CountingPolicy)
        """Whether the policy is to be told how many tuples wait."""
        self.counted = self._counted(network.operators)
        """Of which operators; of those that only plans run, nobody asks."""
        self._counting = self._who_counts(network.operators)

    def extend(
        self, more: Sequence[ScheduledOperator], edges: Iterable[tuple[int, int]], initial: Sequence[Estimate]
    ) -> None:
        """More operators at the end, without input; edges lead to them from those that are there."""
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
        """The policy of each, if it counts. Whether it does is asked once: for 1,000 operators that would take milliseconds."""
        inner, sources = self._inner, self._sources
        if not isinstance(inner, CountingPolicy) or not isinstance(sources, CountingPolicy):
            return []
        return [sources if operator.source else inner for operator in operators]

    def _counted(self, operators: Sequence[ScheduledOperator]) -> list[bool]:
        return [self.counts and (self._plans is None or operator.source) for operator in operators]

    def pending(self, operator: int, tuples: int) -> None:
        """So many tuples wait at the operator; told before ready() of the same change."""
        self._counting[operator].pending(operator, tuples)

    def switch(self, settings: PolicySettings, heads: Iterable[tuple[int, float, int]]) -> None:
        """Go on by another policy, with no plan under way; `heads` are the operators that have input, with the arrivals of
        their oldest tuples and how many wait."""
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
        # Who is waiting to be told of is not told of, and nobody else waits.
        if self._waiting.pop(operator, None) is None:
            self._told[operator] = False
            self._group[operator].idle(operator)

    def pick(self, now: float) -> int:
        """The operator to run now, NONE if nothing has input."""
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
        """The first of the plan that has input; there is one, for the operator that was picked is in it."""
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
        """How many priorities the last decision compared, of policies that compare several."""
        groups = [self._inner] if self._sources is self._inner else [self._inner, self._sources]
        return sum(getattr(group, "looked", 0) for group in groups)

    def refresh(self) -> NetworkEstimates:
        """Rank anew if statistics have changed; what is believed now, for the load monitor."""
        if self._believe():
            self._inner.rank(self._believed)
            if self._sources is not self._inner:
                self._sources.rank(self._believed)
            if self._plans is not None:
                self._plans.rank(self._believed)
        return self._believed

    def _believe(self) -> bool:
        """What has been measured; whether it is other than before."""
        has_changed = self.statistics.changed
        if has_changed:
            self.statistics.changed = False
            self._believed = NetworkEstimates(self.network, tuple(self.statistics.estimates))
        return has_changed


class QueryScheduler(OperatorScheduler):
    """Decides for whole queries, as Sharaf's testbed does: what is picked runs with all that follows from it.

    Not all if priority-defining trees are at work: a segment outside the tree of a shared operator waits there for its own
    turn, beside the operators that let tuples in. One policy ranks them all; nothing comes between an operator and those that
    run with it. A policy with plans of its own decides by these.
    """

    def __init__(
        self, network: Network, settings: PolicySettings, initial: Sequence[Estimate], adaptive: bool = True
    ) -> None:
        super().__init__(network, settings, initial, adaptive, sources_last=False)

    def _begin(self, settings: PolicySettings) -> None:
        super()._begin(settings)
        self._gain = tree_gain(settings)
        self._is_ready = [False] * len(self.network.operators)
        # What runs with the operator that was picked last; the next one at the end.
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
        """What runs with the operator, the last one first."""
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
