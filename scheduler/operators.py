"""Level 2 of one class: its policy, with source operators last (DILoS §III-A).

Operators inside the network go first; source operators, which let new tuples in, run only when no other
operator has input. The two groups are ranked independently, by the same policy.

The runner's loop (the simulator's and the live one alike) is

    operator = scheduler.pick(now)
    …run it on a train, measured from outside…
    scheduler.ready(fed, head)           for each operator that now has input
    scheduler.ready(operator, head)      if input is left, else scheduler.idle(operator)
    scheduler.statistics.observe(operator, tuples_in, tuples_out, cost_s)

and scheduler.refresh() once a load cycle, which is when changed statistics change priorities.
"""

from __future__ import annotations

from collections.abc import Sequence

from configs.policies import PolicySettings
from scheduler.network import Estimate, Network, NetworkEstimates
from scheduler.policies import NONE, build_policy
from scheduler.statistics import OperatorStatistics


class OperatorScheduler:
    """Which operator of the class runs next."""

    def __init__(
        self, network: Network, settings: PolicySettings, initial: Sequence[Estimate], adaptive: bool = True
    ) -> None:
        self.network = network
        self.statistics = OperatorStatistics(initial, adaptive)
        believed = self._believed = NetworkEstimates(network, tuple(initial))
        self._inner = build_policy(settings, believed)
        self._sources = build_policy(settings, believed)
        self._group = [self._sources if operator.source else self._inner for operator in network.operators]

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
            self._sources.rank(self._believed)
        return self._believed
