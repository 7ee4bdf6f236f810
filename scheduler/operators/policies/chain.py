"""Chain (Babcock et al.; Sharaf §3.8.2): run the operators that release memory fastest.

The progress chart of a path plots the expected size of a tuple against the processor time spent on it. The chart's lower envelope consists
of stretches ("envelope segments") of falling steepness; every operator of an envelope segment has that segment's slope as its priority,
because starting a segment only pays off if all of its operators run. An operator on several paths takes the best slope it has on any of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scheduler.operators.network import Estimate, Network, NetworkEstimates


def chain_slopes(believed: NetworkEstimates) -> list[float]:
    """Return the priority of each operator: the slope (size released per second of processor time) of its stretch of the envelope."""
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
    """Return the points of the progress chart: expected cost spent and expected size, at the start and after each operator."""
    spent, kept = 0.0, 1.0
    chart = [(0.0, 1.0)]
    for operator in path:
        spent += kept * estimates[operator].cost_s
        kept *= estimates[operator].selectivity
        # The output of a root takes no memory, because answers leave the system.
        size = network.operators[operator].size_out if network.operators[operator].downstream else 0.0
        chart.append((spent, kept * size))
    return chart


def envelope_slopes(chart: Sequence[tuple[float, float]]) -> list[float]:
    """Return the steepness of the lower envelope between each two neighbouring points of the chart (positive if the size falls)."""
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
