"""What a priority class declares: the one declaration behind every promise."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from configs.base import Fraction, Name, Positive, Settings
from configs.classes.objectives import Objective, policy_for
from configs.classes.policies import Automatic, ClassPolicy, PolicySettings
from configs.classes.policy_and_plan import Choice
from configs.classes.utility import Utility, UtilityGraph

MOST_DROP = 0.95
"""Highest part of its input that any class may shed: below it, a class keeps rows that it cannot work off."""
MaxDrop = Annotated[float, Field(ge=0, le=MOST_DROP)]
TrainMax = Annotated[int, Field(ge=1, le=1_000_000)]
Victim = Literal["random", "oldest", "newest", "fair"]
Weight = Annotated[float, Field(ge=1e-3, le=1e3)]
"""Only ratios between weights count: a million to one is as much as means anything."""


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

    max_drop: MaxDrop = MOST_DROP
    """Highest part of the input that may be shed."""

    max_age_ms: Positive | None = None
    """Age in the class's queue from which on tuples are dropped, the oldest first, whatever `max_drop` says; None: at no age."""

    victim: Victim = "random"
    """Which tuples go first when some must."""

    objective: Objective = "response"
    """What the class is measured by, and what its policy is chosen for."""

    policy: ClassPolicy | None = None
    """Level-2 policy: which of the class's operators runs next. None: the one that serves the objective; `auto`: whichever
    serves it best as things are."""

    train_max: TrainMax | None = None
    """Most tuples one call of its operators takes: fewer let urgent ones go between, more spare calls. Left out, as the system says;
    live never more than that, so that an overrun stays small."""

    utility: Utility | None = None
    """What an answer is worth by its latency, where its query says nothing else; left out, all of it up to the delay target,
    and nothing from twice of it on."""

    @property
    def holds_back(self) -> bool:
        """Return True if input that may not be dropped waits outside the class while its queue is full."""
        return self.max_drop < MOST_DROP and self.max_age_ms is None

    @property
    def first_policy(self) -> PolicySettings:
        """What it runs by; if it tunes itself, until it knows better."""
        if self.policy is None or isinstance(self.policy, Automatic):
            return policy_for(self.objective)
        return self.policy

    @property
    def first_choice(self) -> Choice:
        """The same, with the plan of its queries."""
        return Choice(self.first_policy)

    @property
    def policy_name(self) -> str:
        """The kind of what runs it, or `auto`."""
        return "auto" if isinstance(self.policy, Automatic) else self.first_policy.kind

    @property
    def graph(self) -> UtilityGraph:
        """Of a query without a graph of its own."""
        return (
            UtilityGraph.step(self.delay_target_ms)
            if self.utility is None
            else UtilityGraph(points=self.utility)
        )
