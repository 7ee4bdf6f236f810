"""Table of all policies: for each policy the function that builds it, the plans of its decisions, and its priority-defining trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from configs.base import Settings
from configs.classes import policies
from configs.classes.policies import PolicySettings, PrioritySearch, policy_of
from scheduler.operators.network import Gain, NetworkEstimates
from scheduler.operators.policies.arrival import FirstComeFirstServedPolicy, RoundRobinPolicy
from scheduler.operators.policies.bucket import BucketPolicy
from scheduler.operators.policies.chain import steepest_release
from scheduler.operators.policies.deadlines import DeadlinePolicy
from scheduler.operators.policies.decision_plans import (
    Plans,
    PushThroughPlans,
    StretchPlans,
    SuperboxPlans,
)
from scheduler.operators.policies.freshness import FreshnessPolicy
from scheduler.operators.policies.outlook import least_slack
from scheduler.operators.policies.paths import (
    best_paths,
    best_segments,
    fastest_release,
    highest_path_capacity,
)
from scheduler.operators.policies.protocol import Policy
from scheduler.operators.policies.queue_length import LongestQueuePolicy
from scheduler.operators.policies.slope import SlopeSlackPolicy
from scheduler.operators.policies.static import (
    Priorities,
    StaticPolicy,
    gain_by_cost,
    shortest_ideal,
)
from scheduler.operators.policies.wait_time import ClusteredPolicy, PrunedPolicy, WaitingPolicy

Build = Callable[[Any, NetworkEstimates], Policy]


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """Row of the table: how to build a policy from its settings and the estimates of the network."""

    build: Build
    plans: Callable[[Any, NetworkEstimates, bool], Plans | None] | None = None
    """Function that builds the policy's decision plans; None if the policy makes a decision before every operator."""
    gain: Gain | None = None
    """Gain of an answer in the policy's priority-defining trees; None if the policy has no such trees."""


def static(priorities: Priorities) -> Build:
    return lambda settings, believed: StaticPolicy(priorities, believed)


def by_gain(gain: Gain) -> PolicyRow:
    """Return the table row of a policy that ranks operators by gain / cost.

    If the policy has settings of the class PrioritySearch, it multiplies this ratio by the waiting time.
    """

    def build(settings: Any, believed: NetworkEstimates) -> Policy:
        priorities = gain_by_cost(gain, settings.sharing)
        if isinstance(settings, PrioritySearch):
            return waiting(priorities, settings, believed)
        return StaticPolicy(priorities, believed)

    return PolicyRow(build, gain=gain)


def waiting(phi: Priorities, settings: PrioritySearch, believed: NetworkEstimates) -> Policy:
    if settings.clusters:
        return ClusteredPolicy(phi, settings, believed)
    return PrunedPolicy(phi, believed) if settings.search == "fagin" else WaitingPolicy(phi, believed)


def push_through(
    settings: policies.FixedPriority | policies.SlopeSlack | policies.Bucketed,
    believed: NetworkEstimates,
    sources_last: bool,
) -> Plans | None:
    return PushThroughPlans(believed) if settings.push_through else None


ROWS: Mapping[type[Settings], PolicyRow] = {
    policies.RoundRobin: PolicyRow(lambda _, believed: RoundRobinPolicy(len(believed.estimates))),
    policies.FirstComeFirstServed: PolicyRow(
        lambda _, believed: FirstComeFirstServedPolicy(len(believed.estimates))
    ),
    policies.LongestQueueFirst: PolicyRow(lambda _, believed: LongestQueuePolicy(len(believed.estimates))),
    policies.ShortestRemaining: PolicyRow(static(shortest_ideal)),
    policies.HighestRate: by_gain("selectivity"),
    policies.HighestNormalizedRate: by_gain("answers_per_ideal"),
    policies.Chain: PolicyRow(static(steepest_release)),
    policies.PathCapacity: PolicyRow(
        static(highest_path_capacity),
        lambda _, believed, sources_last: StretchPlans(best_paths, believed, sources_last),
    ),
    policies.Segment: PolicyRow(
        static(fastest_release()),
        lambda _, believed, sources_last: StretchPlans(
            partial(best_segments, gamma=None), believed, sources_last
        ),
    ),
    policies.SimplifiedSegment: PolicyRow(
        lambda settings, believed: StaticPolicy(fastest_release(settings.gamma), believed),
        lambda settings, believed, sources_last: StretchPlans(
            partial(best_segments, gamma=settings.gamma), believed, sources_last
        ),
    ),
    policies.FixedPriority: PolicyRow(static(least_slack), push_through),
    policies.SlopeSlack: PolicyRow(lambda _, believed: SlopeSlackPolicy(believed), push_through),
    policies.Bucketed: PolicyRow(
        lambda settings, believed: BucketPolicy(settings.gradients, settings.slacks, believed), push_through
    ),
    policies.Superbox: PolicyRow(
        lambda settings, believed: build_policy(policy_of(settings.order), believed),
        lambda settings, believed, sources_last: SuperboxPlans(settings.traversal, believed, sources_last),
    ),
    policies.LongestStretchFirst: PolicyRow(
        lambda settings, believed: waiting(shortest_ideal, settings, believed)
    ),
    policies.BalanceResponse: by_gain("selectivity"),
    policies.BalanceSlowdown: by_gain("answers_per_ideal_sq"),
    policies.FreshnessAware: PolicyRow(lambda settings, believed: FreshnessPolicy(settings.beta, believed)),
    policies.EarliestDeadline: PolicyRow(lambda settings, believed: DeadlinePolicy(settings.kind, believed)),
    policies.DeadlineOrRate: PolicyRow(lambda settings, believed: DeadlinePolicy(settings.kind, believed)),
}


def build_policy(settings: PolicySettings, believed: NetworkEstimates) -> Policy:
    """Return a policy over all operators of the network, ranked by their estimates."""
    return ROWS[type(settings)].build(settings, believed)


def build_plans(settings: PolicySettings, believed: NetworkEstimates, sources_last: bool) -> Plans | None:
    """Return the policy's decision plans; None if the policy makes a decision before every operator."""
    plans = ROWS[type(settings)].plans
    return None if plans is None else plans(settings, believed, sources_last)


def tree_gain(settings: PolicySettings) -> Gain | None:
    """Return the kind of gain in the policy's priority-defining trees; None if the policy has no such trees."""
    return ROWS[type(settings)].gain if getattr(settings, "sharing", "") == "pdt" else None


def by_sums(settings: PolicySettings) -> PolicySettings:
    """Return the settings without priority-defining trees, so that all segments of a shared operator count for its priority."""
    return settings if tree_gain(settings) is None else settings.model_copy(update={"sharing": "sum"})
