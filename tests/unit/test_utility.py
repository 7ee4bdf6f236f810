"""QoS graphs: utility, gradient and slack by latency."""

import pytest
from pydantic import ValidationError

from configs.utility import UtilityGraph

GRAPH = UtilityGraph.model_validate(
    {
        "points": [
            {"latency_ms": 200, "utility": 1.0},
            {"latency_ms": 400, "utility": 0.5},
            {"latency_ms": 900, "utility": 0.0},
        ]
    }
)


@pytest.mark.parametrize(
    ("latency_s", "utility", "gradient", "slack"),
    [
        (0.0, 1.0, 0.0, 0.2),
        (0.2, 1.0, 2.5, 0.2),
        (0.3, 0.75, 2.5, 0.1),
        (0.65, 0.25, 1.0, 0.25),
        (0.9, 0.0, 0.0, float("inf")),
        (5.0, 0.0, 0.0, float("inf")),
    ],
)
def test_utility_gradient_and_slack_are_those_of_the_line_at_a_latency(
    latency_s: float, utility: float, gradient: float, slack: float
) -> None:
    found = (GRAPH.utility_at(latency_s), GRAPH.gradient_at(latency_s), GRAPH.slack_at(latency_s))
    assert found == pytest.approx((utility, gradient, slack))


def test_the_deadline_is_where_utility_begins_to_fall() -> None:
    assert (GRAPH.deadline_s, UtilityGraph.step(300).deadline_s) == (0.2, 0.3)


@pytest.mark.parametrize(
    ("points", "told"),
    [
        ([(200, 0.5), (400, 0.6)], "utility must not rise with latency"),
        ([(200, 1.0), (200, 0.5)], "latencies must ascend"),
    ],
)
def test_a_graph_that_rises_or_goes_back_is_refused(points: list[tuple[float, float]], told: str) -> None:
    given = [{"latency_ms": latency, "utility": utility} for latency, utility in points]
    with pytest.raises(ValidationError, match=told):
        UtilityGraph.model_validate({"points": given})
