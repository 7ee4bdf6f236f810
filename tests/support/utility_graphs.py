"""Figures of utility graphs, with which the policies of operators are compared."""

from bisect import bisect_right
from math import inf

from configs.classes.utility import UtilityGraph


def gradient_at(graph: UtilityGraph, latency_s: float) -> float:
    """Return the utility lost per second directly after this latency."""
    return graph.gradients[bisect_right(graph.latencies_s, latency_s)]


def slack_at(graph: UtilityGraph, latency_s: float) -> float:
    """Return the seconds until the next point of the graph, or `inf` after the last point."""
    place = bisect_right(graph.latencies_s, latency_s)
    return graph.latencies_s[place] - latency_s if place < len(graph.latencies_s) else inf
