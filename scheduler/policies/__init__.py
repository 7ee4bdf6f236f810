"""Level 2: the policies that choose a class's next operator, behind one protocol."""

from scheduler.policies.build import build_policy, by_sums, tree_gain
from scheduler.policies.protocol import NONE, CountingPolicy, Policy

__all__ = ["NONE", "CountingPolicy", "Policy", "build_policy", "by_sums", "tree_gain"]
