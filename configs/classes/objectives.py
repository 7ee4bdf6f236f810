"""Objectives of classes, each with the policy that serves it best.

`PriorityClass.objective` names a row of the table `WAYS`. A class without a `policy` runs with the policy of this row. A
class with a `policy` runs with that policy, and the objective is only measured; `policy: {kind: auto}` tunes the class for
the objective.
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
# Number of clusters (groups of operators with similar priorities), from Sharaf's thesis (§3.8.3).
# With 12 clusters of operators, results are within 5% of results without clusters, and more operators do not make a decision slower.
CLUSTERS = 12


@dataclass(frozen=True, slots=True)
class Way:
    """Objective of a class: how it is measured, and the policy that serves it best."""

    words: str
    """Name of the quantity to minimise; for the objective utility, this is the utility that is lost."""
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
    "staleness": Way("part of the time in which outputs are stale", "", "fas"),
    "utility": Way("utility lost to latency", "", "bucket"),
    "tardiness": Way("time after deadlines", "ms", "edf-hr"),
}


def policy_for(objective: Objective) -> PolicySettings:
    """Return the policy that serves the objective best."""
    way = WAYS[objective]
    return policy_of(way.kind, way.clusters)


def candidates(objective: Objective) -> list[PolicySettings]:
    """Return all policies that a class may choose when it tunes itself, beginning with its objective's own policy.

    Some policies can compare either all ready operators, or one operator of each cluster (group of operators with similar priorities).
    Such policies are returned only with clusters, because the simulator does not count the time of decisions.
    """
    own = policy_for(objective)
    policies = [policy_of(kind, CLUSTERS if kind in CLUSTERED_KINDS else 0) for kind in POLICY_KINDS]
    return [own, *(policy for policy in policies if policy != own)]
