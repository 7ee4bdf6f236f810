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
    scheduler.statistics.observe(operator, tuples_in, tuples_out, cost_s)

and scheduler.refresh() once a load cycle, which is when changed statistics change priorities. Operators that are added
(`extend`) are ranked at once, beside those that are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from configs.policies import PolicySettings
from scheduler.network import Estimate, Network, NetworkEstimates, Operator
from scheduler.policies import NONE, CountingPolicy, build_policy, by_sums, tree_gain
from scheduler.sharing import whole_tree
from scheduler.statistics import OperatorStatistics


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
        believed = self._believed = NetworkEstimates(network, tuple(initial))
        self._inner = build_policy(settings, believed)
        self._sources = build_policy(by_sums(settings), believed) if sources_last else self._inner
        self._group = [self._sources if operator.source else self._inner for operator in network.operators]
        self.counts = isinstance(self._inner, CountingPolicy)
        """Whether the policy is to be told how many tuples wait."""
        self._counting = [policy for policy in self._group if isinstance(policy, CountingPolicy)]

    def extend(
        self, more: Sequence[Operator], edges: Iterable[tuple[int, int]], initial: Sequence[Estimate]
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
        self._counting += [policy for policy in group if isinstance(policy, CountingPolicy)]

    def pending(self, operator: int, tuples: int) -> None:
        """So many tuples wait at the operator; told before ready() of the same change."""
        self._counting[operator].pending(operator, tuples)

    def ready(self, operator: int, head: float) -> None:
        self._group[operator].ready(operator, head)

    def idle(self, operator: int) -> None:
        self._group[operator].idle(operator)

    def pick(self, now: float) -> int:
        """The operator to run now, NONE if nothing has input."""
        operator = self._inner.pick(now)
        return operator if operator != NONE else self._sources.pick(now)

    @property
    def looked(self) -> int:
        """How many priorities the last decision compared, of policies that compare several."""
        groups = [self._inner] if self._sources is self._inner else [self._inner, self._sources]
        return sum(getattr(one, "looked", 0) for one in groups)

    def refresh(self) -> NetworkEstimates:
        """Rank anew if statistics have changed; what is believed now, for the load monitor."""
        if self.statistics.changed:
            self.statistics.changed = False
            self._believed = NetworkEstimates(self.network, tuple(self.statistics.estimates))
            self._inner.rank(self._believed)
            if self._sources is not self._inner:
                self._sources.rank(self._believed)
        return self._believed


class QueryScheduler(OperatorScheduler):
    """Decides for whole queries, as Sharaf's testbed does: what is picked runs with all that follows from it.

    Not all if priority-defining trees are at work: a segment outside the tree of a shared operator waits there for its own
    turn, beside the operators that let tuples in. One policy ranks them all; nothing comes between an operator and those that
    run with it.
    """

    def __init__(
        self, network: Network, settings: PolicySettings, initial: Sequence[Estimate], adaptive: bool = True
    ) -> None:
        super().__init__(network, settings, initial, adaptive, sources_last=False)
        self._settings = settings
        self._is_ready = [False] * len(network.operators)
        # What runs with the operator that was picked last; the next one at the end.
        self._rest: list[int] = []
        self._units: dict[int, list[int]] = {}
        self._looked = 0

    def extend(
        self, more: Sequence[Operator], edges: Iterable[tuple[int, int]], initial: Sequence[Estimate]
    ) -> None:
        super().extend(more, edges, initial)
        self._is_ready += [False for _ in more]
        self._units = {}

    def ready(self, operator: int, head: float) -> None:
        self._is_ready[operator] = True
        self._sources.ready(operator, head)

    def idle(self, operator: int) -> None:
        self._is_ready[operator] = False
        self._sources.idle(operator)

    def pick(self, now: float) -> int:
        rest = self._rest
        while rest:
            operator = rest[-1]
            if self._is_ready[operator]:
                self._looked = 0
                return operator
            rest.pop()
        operator = self._sources.pick(now)
        if operator != NONE:
            self._rest = self._unit(operator)[:]
        self._looked = getattr(self._sources, "looked", 0)
        return operator

    @property
    def looked(self) -> int:
        return self._looked

    def _unit(self, operator: int) -> list[int]:
        """What runs with the operator, the last one first."""
        unit = self._units.get(operator)
        if unit is None:
            gain = tree_gain(self._settings)
            if gain is None:
                members = self.network.fed_by(operator)
            else:
                members = set(whole_tree(operator, self._believed.trees(gain)))
            unit = self._units[operator] = sorted(members - {operator}, reverse=True)
        return unit

    def refresh(self) -> NetworkEstimates:
        if self.statistics.changed:
            self._units = {}
        return super().refresh()
