"""The one place where a policy's settings become the policy."""

from __future__ import annotations

from configs.policies import POLICY_KINDS, PolicySettings, policy_of
from configs.problems import UnknownName, nearest
from scheduler.network import NetworkEstimates
from scheduler.policies.arrival import FirstComeFirstServedPolicy, RoundRobinPolicy
from scheduler.policies.bucket import BucketPolicy
from scheduler.policies.chain import steepest_release
from scheduler.policies.freshness import FreshnessPolicy
from scheduler.policies.outlook import least_slack
from scheduler.policies.paths import fastest_release, highest_path_capacity
from scheduler.policies.protocol import Policy
from scheduler.policies.slope import SlopeSlackPolicy
from scheduler.policies.static import (
    Priorities,
    StaticPolicy,
    highest_normalized_rate,
    highest_rate,
    shortest_ideal,
)
from scheduler.policies.waiting import ClusteredPolicy, WaitingPolicy, balance_slowdown


def build_policy(settings: PolicySettings, believed: NetworkEstimates) -> Policy:
    """The policy over all operators of the network, ranked by what is believed of it."""
    match settings.kind:
        case "rr":
            return RoundRobinPolicy(len(believed.estimates))
        case "fcfs":
            return FirstComeFirstServedPolicy(len(believed.estimates))
        case "srpt":
            return StaticPolicy(shortest_ideal, believed)
        case "hr":
            return StaticPolicy(highest_rate, believed)
        case "hnr":
            return StaticPolicy(highest_normalized_rate, believed)
        case "chain":
            return StaticPolicy(steepest_release, believed)
        case "path":
            return StaticPolicy(highest_path_capacity, believed)
        case "segment":
            return StaticPolicy(fastest_release(), believed)
        case "simplified-segment":
            return StaticPolicy(fastest_release(settings.gamma), believed)
        case "fixed":
            return StaticPolicy(least_slack, believed)
        case "slope-slack":
            return SlopeSlackPolicy(believed)
        case "bucket":
            return BucketPolicy(settings.gradients, settings.slacks, believed)
        case "superbox":
            return build_policy(policy_of(settings.order), believed)
        case "lsf":
            return waiting(shortest_ideal, settings.clusters, believed)
        case "brt":
            return waiting(highest_rate, settings.clusters, believed)
        case "bsd":
            return waiting(balance_slowdown, settings.clusters, believed)
        case "fas":
            return FreshnessPolicy(settings.beta, believed)
    raise UnknownName("no such policy", "policy.kind", settings.kind, nearest(settings.kind, POLICY_KINDS))


def waiting(phi: Priorities, clusters: int, believed: NetworkEstimates) -> Policy:
    return ClusteredPolicy(phi, clusters, believed) if clusters else WaitingPolicy(phi, believed)
