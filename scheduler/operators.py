"""Level 2 of one class: its policy, with source operators last (DILoS §III-A).

Operators inside the network go first; source operators, which let new tuples in, run only when no other
operator has input. The two groups are ranked independently, by the same policy. Only the simulator may rank sources among
the others (`sources_last=False`), as Aurora, MavStream and Sharaf's testbed do: tuples then wait inside as well.

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
from scheduler.policies import NONE, CountingPolicy, build_policy
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
        self._sources = build_policy(settings, believed) if sources_last else self._inner
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

    def refresh(self) -> NetworkEstimates:
        """Rank anew if statistics have changed; what is believed now, for the load monitor."""
        if self.statistics.changed:
            self.statistics.changed = False
            self._believed = NetworkEstimates(self.network, tuple(self.statistics.estimates))
            self._inner.rank(self._believed)
            if self._sources is not self._inner:
                self._sources.rank(self._believed)
        return self._believed
