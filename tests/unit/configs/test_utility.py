"""QoS graphs: the utility, the gradient and the slack for each response time."""

from typing import Any

import pytest
from pydantic import ValidationError

from configs.classes.utility import UtilityGraph, points_in, told
from configs.documents.declarations import declared_in
from configs.errors import InvalidInput
from tests.support.utility_graphs import gradient_at, slack_at

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
def test_utility_gradient_and_slack_are_read_from_the_graph(
    latency_s: float, utility: float, gradient: float, slack: float
) -> None:
    found = (GRAPH.utility_at(latency_s), gradient_at(GRAPH, latency_s), slack_at(GRAPH, latency_s))
    assert found == pytest.approx((utility, gradient, slack))


def test_the_deadline_is_where_utility_begins_to_fall() -> None:
    assert (GRAPH.deadline_s, UtilityGraph.step(300).deadline_s) == (0.2, 0.3)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([(200, 0.5), (400, 0.6)], "utility must not rise with latency"),
        ([(200, 1.0), (200, 0.5)], "latencies must ascend"),
    ],
)
def test_a_graph_with_rising_utility_or_unordered_latencies_is_refused(
    points: list[tuple[float, float]], message: str
) -> None:
    given = [{"latency_ms": latency, "utility": utility} for latency, utility in points]
    with pytest.raises(ValidationError, match=message):
        UtilityGraph.model_validate({"points": given})


def test_a_graph_is_shown_in_the_form_of_the_command_line() -> None:
    text = "200:1,400:0.5,900:0"
    assert UtilityGraph.model_validate({"points": points_in(text, "--utility")}) == GRAPH
    assert (told(GRAPH.points), told(None)) == (text, "")


@pytest.mark.parametrize(
    ("text", "wrong"), [("", ""), ("200", "200"), ("200:1,,", ""), ("200:1,fast:0", "fast:0")]
)
def test_an_invalid_point_is_refused_with_the_format_of_points(text: str, wrong: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        points_in(text, "--utility")
    problem = caught.value
    assert (problem.field, problem.value) == ("--utility", wrong)
    assert "200:1,400:0.5" in problem.hint


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], "utility: the value must not be empty"),
        ([[200, 1.0]] * 33, "utility: the value must have at most 32 entries"),
        ([[200, 1.5]], "utility[0].utility: the value must be at most 1 (got 1.5)"),
        ([[-1, 1.0]], "utility[0].latency_ms: the value must be at least 0 (got -1)"),
        (
            [[200, 0.5], [400, 0.6]],
            "utility[1].utility: utility must not rise with latency, but it is 0.5 at 200 ms",
        ),
        ([[400, 1.0], [200, 0.5]], "utility[1].latency_ms: latencies must ascend"),
        ([[200, float("nan")]], "utility[0].utility: the value must be a finite number"),
    ],
)
@pytest.mark.parametrize("kind", ["Query", "PriorityClass", "Tenant"])
def test_an_invalid_graph_is_refused_in_every_kind_of_document(
    kind: str, points: list[list[float]], message: str
) -> None:
    utility = [{"latency_ms": latency, "utility": worth} for latency, worth in points]
    documents: dict[str, dict[str, Any]] = {
        "Query": {"tenant": "acme", "sql": "SELECT 1", "utility": utility},
        "PriorityClass": {"priority": 1, "delay_target_ms": 1, "utility": utility},
        "Tenant": {"priority_class": "gold", "overrides": {"utility": utility}},
    }
    with pytest.raises(InvalidInput) as caught:
        declared_in({"kind": kind, "name": "one", **documents[kind]})
    assert ("overrides." if kind == "Tenant" else "") + message in str(caught.value)
    assert caught.value.hint
