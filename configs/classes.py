"""What a priority class declares: the one declaration behind every promise."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from configs.base import Fraction, Name, Positive, Settings
from configs.policies import HighestRate, PolicySettings
from configs.utility import Utility, UtilityGraph

MaxDrop = Annotated[float, Field(ge=0, le=0.95)]
Victim = Literal["random", "oldest", "newest", "fair"]


class PriorityClass(Settings):
    """A tenant's class: its entitlement, its target, and what may be done to it."""

    name: Name
    priority: Positive
    """Weight of the class: its original share is priority / Σ priorities."""

    delay_target_ms: Positive
    """Response time (arrival in the system to result) that the class is promised."""

    min_share: Fraction = 0.0
    """Share of the lanes the class never falls below, however idle."""

    lendable: Fraction = 1.0
    """Part of the original share that may be lent while it is not needed."""

    borrow_limit: Fraction = 1.0
    """How far above its original share the class may grow, as a share of the lanes."""

    max_drop: MaxDrop = 0.95
    """Highest part of the input that may be shed."""

    victim: Victim = "random"
    """Which tuples go first when some must."""

    policy: PolicySettings = HighestRate()
    """Level-2 policy: which of the class's operators runs next."""

    utility: Utility | None = None
    """What an answer is worth by its latency, where its query says nothing else; left out, all of it up to the delay target,
    and nothing from twice of it on."""

    @property
    def graph(self) -> UtilityGraph:
        """Of a query without a graph of its own."""
        return (
            UtilityGraph.step(self.delay_target_ms)
            if self.utility is None
            else UtilityGraph(points=self.utility)
        )
