"""Declaration of a priority class: what its tenants are promised, and what may be done to their input."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from configs.base import Fraction, Name, Positive, Settings
from configs.classes.objectives import Objective, policy_for
from configs.classes.policies import Automatic, ClassPolicy, PolicySettings
from configs.classes.policy_and_plan import Choice
from configs.classes.utility import Utility, UtilityGraph

MOST_DROP = 0.95
"""Highest value of `max_drop` of any class. A class with a lower `max_drop` keeps rows that it cannot process in time."""
MaxDrop = Annotated[float, Field(ge=0, le=MOST_DROP)]
TrainMax = Annotated[int, Field(ge=1, le=1_000_000)]
Victim = Literal["random", "oldest", "newest", "fair"]
Weight = Annotated[float, Field(ge=1e-3, le=1e3)]
"""Weight of a query. Only ratios between weights count, and these ratios are at most a million to one."""


class PriorityClass(Settings):
    """Terms of a tenant's class: its entitlement, its delay target, and what may be done to its input."""

    name: Name
    priority: Positive
    """Priority of the class. Its original share of the lanes is this number divided by the sum of the priorities of all classes."""

    delay_target_ms: Positive
    """Delay target of the class: the promised response time in ms, from the arrival of a row to the result."""

    min_share: Fraction = 0.0
    """Minimum share of the lanes, which the class keeps even while it is idle."""

    lendable: Fraction = 1.0
    """Fraction of the original share that the class may lend to other classes while it does not need all of its share."""

    borrow_limit: Fraction = 1.0
    """Maximum share of the lanes that the class may borrow on top of its original share."""

    max_drop: MaxDrop = MOST_DROP
    """Highest fraction of the input of the class that may be dropped."""

    max_age_ms: Positive | None = None
    """Age in ms at which tuples in the class's queue are dropped, oldest first, even beyond `max_drop`. Default: no age."""

    victim: Victim = "random"
    """Choice of the tuples to drop: at random, the oldest, the newest, or fairly among the values of `key`."""

    objective: Objective = "response"
    """Objective of the class: the quantity by which the class is measured, and for which its policy is chosen."""

    policy: ClassPolicy | None = None
    """Policy that decides which of the class's operators runs next. Default: the policy for the objective. `auto`: the
    policy that serves the objective best under the present load."""

    train_max: TrainMax | None = None
    """Maximum number of tuples per call of an operator. A small number lets urgent work run sooner; a large number saves
    calls. Default (and upper limit in a running system): the system's `train_max`."""

    utility: Utility | None = None
    """Utility of an answer by its response time, for queries without a utility of their own. Default: 1 up to the delay
    target, falling to 0 at twice the delay target."""

    @property
    def holds_back(self) -> bool:
        """True if input must not be dropped: while the queue of the class is full, input waits outside the class."""
        return self.max_drop < MOST_DROP and self.max_age_ms is None

    @property
    def first_policy(self) -> PolicySettings:
        """Policy with which the class starts; a class that tunes itself may change its policy later."""
        if self.policy is None or isinstance(self.policy, Automatic):
            return policy_for(self.objective)
        return self.policy

    @property
    def first_choice(self) -> Choice:
        """Policy and plan with which the class starts."""
        return Choice(self.first_policy)

    @property
    def policy_name(self) -> str:
        """Kind of the policy, or `auto` for a class that tunes itself."""
        return "auto" if isinstance(self.policy, Automatic) else self.first_policy.kind

    @property
    def graph(self) -> UtilityGraph:
        """Utility graph for queries without a graph of their own."""
        return (
            UtilityGraph.step(self.delay_target_ms)
            if self.utility is None
            else UtilityGraph(points=self.utility)
        )
