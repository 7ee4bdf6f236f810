"""The one place where a policy's settings become the policy."""

from __future__ import annotations

from collections.abc import Mapping

from configs.classes.policies import POLICY_KINDS, PolicySettings, Waiting, policy_of
from configs.errors import UnknownName, nearest
from scheduler.operators.network import Gain, NetworkEstimates
from scheduler.operators.policies.arrival import FirstComeFirstServedPolicy, RoundRobinPolicy
from scheduler.operators.policies.bucket import BucketPolicy
from scheduler.operators.policies.chain import steepest_release
from scheduler.operators.policies.deadlines import DeadlinePolicy
from scheduler.operators.policies.freshness import FreshnessPolicy
from scheduler.operators.policies.outlook import least_slack
from scheduler.operators.policies.paths import fastest_release, highest_path_capacity
from scheduler.operators.policies.protocol import Policy
from scheduler.operators.policies.slope import SlopeSlackPolicy
from scheduler.operators.policies.static import (
    Priorities,
    StaticPolicy,
    gain_by_cost,
    shortest_ideal,
)
from scheduler.operators.policies.wait_time import ClusteredPolicy, PrunedPolicy, WaitingPolicy

GAINS: Mapping[str, Gain] = {
    "hr": "selectivity",
    "hnr": "answers_per_ideal",
    "brt": "selectivity",
    "bsd": "answers_per_ideal_sq",
}


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
            return StaticPolicy(gain_by_cost(GAINS["hr"], settings.sharing), believed)
        case "hnr":
            return StaticPolicy(gain_by_cost(GAINS["hnr"], settings.sharing), believed)
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
            return waiting(shortest_ideal, settings, believed)
        case "brt":
            return waiting(gain_by_cost(GAINS["brt"], settings.sharing), settings, believed)
        case "bsd":
            phi = gain_by_cost(GAINS["bsd"], settings.sharing)
            return waiting(phi, settings, believed)
        case "fas":
            return FreshnessPolicy(settings.beta, believed)
        case "edf" | "edf-hr":
            return DeadlinePolicy(settings.kind, believed)
    raise UnknownName("no such policy", "policy.kind", settings.kind, nearest(settings.kind, POLICY_KINDS))


def tree_gain(settings: PolicySettings) -> Gain | None:
    """What the policy's priority-defining trees count an answer as; None if it has none."""
    match settings.kind:
        case "hr" | "hnr" | "brt" | "bsd":
            return GAINS[settings.kind] if settings.sharing == "pdt" else None
    return None


def by_sums(settings: PolicySettings) -> PolicySettings:
    """The same policy, with all segments behind a shared operator where it has trees."""
    return settings if tree_gain(settings) is None else settings.model_copy(update={"sharing": "sum"})


def waiting(phi: Priorities, settings: Waiting, believed: NetworkEstimates) -> Policy:
    if settings.clusters:
        return ClusteredPolicy(phi, settings, believed)
    return PrunedPolicy(phi, believed) if settings.search == "fagin" else WaitingPolicy(phi, believed)
