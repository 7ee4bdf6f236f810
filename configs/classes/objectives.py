"""What a class is for, and the policy that serves it best: the one table of both.

`PriorityClass.objective` names a row. A class that says no policy runs by the row's; one that says both runs by the policy
it says, and its objective is what it is measured by and, with `policy: {kind: auto}`, tuned for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from configs.classes.policies import CLUSTERED_KINDS, POLICY_KINDS, PolicySettings, policy_of

Objective = Literal[
    "response",
    "slowdown",
    "max-response",
    "max-slowdown",
    "response-l2",
    "slowdown-l2",
    "memory",
    "staleness",
    "utility",
    "tardiness",
]
OBJECTIVE_NAMES: tuple[Objective, ...] = get_args(Objective)
# The thesis's own number (Sharaf §3.8.3): 5% from the ideal, and a decision that does not grow with the operators.
CLUSTERS = 12


@dataclass(frozen=True, slots=True)
class Way:
    """A row."""

    words: str
    """What is to be small; of utility, what is lacking."""
    unit: str
    kind: str
    clusters: int = 0


WAYS: Mapping[Objective, Way] = {
    "response": Way("mean response time", "ms", "hr"),
    "slowdown": Way("mean slowdown", "", "hnr"),
    "max-response": Way("longest response time", "ms", "fcfs"),
    "max-slowdown": Way("largest slowdown", "", "lsf"),
    "response-l2": Way("ℓ2 norm of response times", "ms", "brt"),
    "slowdown-l2": Way("ℓ2 norm of slowdowns", "", "bsd", CLUSTERS),
    "memory": Way("tuples queued", "tuples", "chain"),
    "staleness": Way("time in which input that will be seen waits", "", "fas"),
    "utility": Way("utility lost to latency", "", "bucket"),
    "tardiness": Way("time after deadlines", "ms", "edf-hr"),
}


def policy_for(objective: Objective) -> PolicySettings:
    """The policy that serves it best."""
    way = WAYS[objective]
    return policy_of(way.kind, way.clusters)


def candidates(objective: Objective) -> list[PolicySettings]:
    """All that a class that tunes itself chooses from, its objective's own first. Decisions of those that look at every
    ready operator are simulated as if they took no time, so they are there in clusters."""
    own = policy_for(objective)
    policies = [policy_of(kind, CLUSTERS if kind in CLUSTERED_KINDS else 0) for kind in POLICY_KINDS]
    return [own, *(policy for policy in policies if policy != own)]
