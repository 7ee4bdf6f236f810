"""Policies of level 2, which choose a class's next operator and share one protocol (`protocol.py`)."""

from scheduler.operators.policies.build import build_plans, build_policy, by_sums, tree_gain
from scheduler.operators.policies.protocol import NONE, CountingPolicy, Policy

__all__ = ["NONE", "CountingPolicy", "Policy", "build_plans", "build_policy", "by_sums", "tree_gain"]
