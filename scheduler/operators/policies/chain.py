"""Chain (Babcock et al.; Sharaf §3.8.2): run what releases memory fastest.

The progress chart of a path plots the expected size of a tuple against the processor time spent on it. Its
lower envelope cuts the path into segments of falling steepness; every operator of an envelope segment has that
segment's slope as its priority, because starting a segment only pays when it is carried to its end. An operator
on several paths takes the best slope it has on any of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scheduler.operators.network import Estimate, Network, NetworkEstimates


def chain_slopes(believed: NetworkEstimates) -> list[float]:
    """Slope (size released per second of processor time) of each operator's envelope segment."""
    network, estimates = believed.network, believed.estimates
    best = [float("-inf")] * len(network.operators)
    for path in network.depth_first_paths():
        for operator, slope in zip(
            path, envelope_slopes(progress_chart(network, estimates, path)), strict=True
        ):
            best[operator] = max(best[operator], slope)
    return best


def steepest_release(believed: NetworkEstimates, operators: Collection[int]) -> list[float]:
    slopes = chain_slopes(believed)
    return [slopes[operator] for operator in operators]


def progress_chart(
    network: Network, estimates: Sequence[Estimate], path: Sequence[int]
) -> list[tuple[float, float]]:
    """Points (cumulative expected cost, expected size) from before the first operator to after the last."""
    spent, kept = 0.0, 1.0
    chart = [(0.0, 1.0)]
    for operator in path:
        spent += kept * estimates[operator].cost_s
        kept *= estimates[operator].selectivity
        # What leaves a root leaves the system's memory.
        size = network.operators[operator].size_out if network.operators[operator].downstream else 0.0
        chart.append((spent, kept * size))
    return chart


def envelope_slopes(chart: Sequence[tuple[float, float]]) -> list[float]:
    """Per step of the chart, the steepness of the lower envelope over it (positive: size falls)."""
    slopes: list[float] = []
    at = 0
    while at < len(chart) - 1:
        spent, size = chart[at]
        steepness, end = max(
            ((size - after) / (cost - spent) if cost > spent else float("inf"), step)
            for step, (cost, after) in enumerate(chart[at + 1 :], start=at + 1)
        )
        slopes.extend([steepness] * (end - at))
        at = end
    return slopes
