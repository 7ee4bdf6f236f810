"""Policies by QoS graphs, on the examples of Carney's thesis: slacks, gradients of utility, and buckets of operators."""

import pytest

from configs.classes.policies import policy_of
from configs.classes.utility import UtilityGraph
from scheduler.operators.network import Estimate, Network, NetworkEstimates, ScheduledOperator
from scheduler.operators.policies import NONE, Policy, build_policy
from scheduler.operators.policies.bucket import BucketPolicy, Grid
from scheduler.operators.policies.outlook import least_slack, outlooks
from scheduler.operators.policies.slope import SlopeSlackPolicy
from tests.support.utility_graphs import gradient_at, slack_at


def graph(*points: tuple[float, float]) -> UtilityGraph:
    """Return the QoS graph through points (response time in seconds, utility)."""
    return UtilityGraph.model_validate(
        {"points": [{"latency_ms": 1e3 * at, "utility": worth} for at, worth in points]}
    )


def due(at_s: float) -> UtilityGraph:
    return graph((at_s, 1.0), (at_s + 0.1, 0.0))


def chains(*deadlines: UtilityGraph, length: int = 3) -> NetworkEstimates:
    """Return one chain of operators for each QoS graph. Each operator costs 1, and the first operator of a chain is a source."""
    operators = tuple(
        ScheduledOperator(
            f"b{(row + 1) * length - place}",
            (row * length + place + 1,) if place + 1 < length else (),
            place == 0,
            utility=None if place + 1 < length else one,
        )
        for row, one in enumerate(deadlines)
        for place in range(length)
    )
    return NetworkEstimates(Network(operators), (Estimate(1.0, 1.0),) * len(operators))


TWO = chains(due(4), due(8))


def drained(policy: Policy, now: float = 0.0) -> list[int]:
    picks = []
    while (operator := policy.pick(now)) != NONE:
        picks.append(operator)
        policy.idle(operator)
    return picks


def test_slacks_equal_the_table_of_the_thesis() -> None:
    slacks = dict(zip([one.name for one in TWO.network.operators], least_slack(TWO, range(6)), strict=True))
    assert slacks == {"b1": -3, "b2": -2, "b3": -1, "b4": -7, "b5": -6, "b6": -5}


def test_fixed_priority_runs_operators_in_the_order_of_the_thesis() -> None:
    policy = build_policy(policy_of("fixed"), TWO)
    for operator in range(6):
        policy.ready(operator, 0.0)
    names = [TWO.network.operators[one].name for one in drained(policy)]
    assert " ".join(names) == "b3 b2 b1 b6 b5 b4"


def test_output_cost_is_the_cost_of_one_answer_from_a_queue() -> None:
    # For one answer, operator b2 must process 4 tuples, and operator b3 before it must process 8.
    believed = NetworkEstimates(
        chains(due(4)).network, (Estimate(1.0, 0.5), Estimate(2.0, 0.25), Estimate(3.0, 1.0))
    )
    assert [one.output_cost_s for one in outlooks(believed)] == [8 * 1 + 4 * 2 + 3, 4 * 2 + 3, 3]


def test_a_shared_operator_is_as_urgent_as_the_most_urgent_of_its_queries() -> None:
    network = Network(
        (
            ScheduledOperator("s", (1, 2), source=True),
            ScheduledOperator("b", utility=due(9)),
            ScheduledOperator("c", utility=due(5)),
        )
    )
    shared = outlooks(NetworkEstimates(network, (Estimate(1.0, 1.0),) * 3))[0]
    assert (shared.slack_s, shared.graph) == (3, due(5))


@pytest.mark.parametrize(
    ("heads", "trains", "first"),
    [
        ((0, 0), (1, 1), 0),  # Neither operator is losing utility; the slacks are 1 and 5.
        ((0, -4.5), (1, 1), 3),  # Neither operator is losing utility; the slacks are 1 and 0.5.
        ((-2, 0), (1, 1), 3),  # The first operator's answer would take 5, so its utility is already 0.
        ((-1.05, 0), (1, 1), 0),  # The first operator's answer would take 4.05, so it is losing utility.
        ((0, 0), (2, 1), 3),  # Two tuples need 6 time units until they are answered.
    ],
)
@pytest.mark.parametrize("kind", ["slope-slack", "bucket"])
def test_the_operator_with_the_largest_loss_of_utility_runs_first_and_ties_go_to_the_least_slack(
    kind: str, heads: tuple[float, float], trains: tuple[int, int], first: int
) -> None:
    policy = build_policy(policy_of(kind), TWO)
    assert isinstance(policy, SlopeSlackPolicy | BucketPolicy)
    for operator, head, train in zip((0, 3), heads, trains, strict=True):
        policy.pending(operator, train)
        policy.ready(operator, head)
    assert policy.pick(0.0) == first


# QoS graphs of Figures 4.8 to 4.11 of Carney's thesis, with utilities divided by 5. Slacks and slopes have four buckets each.
FIRST, SECOND = graph((1, 1.0), (3, 0.6), (4, 0.0)), graph((1, 1.0), (5, 0.2))
GRID = Grid.over([FIRST, SECOND], 4, 4)


@pytest.mark.parametrize(
    ("graph", "latency", "slack_bucket", "slope_bucket", "bucket"),
    [
        (FIRST, 1.5, 2, 2, (3, 2)),
        (FIRST, 0.5, 1, 1, (4, 1)),
        (FIRST, 3.5, 1, 4, (1, 1)),
        (SECOND, 1.5, 4, 2, (3, 4)),
        (SECOND, 2.5, 3, 2, (3, 3)),
    ],
)
def test_buckets_equal_the_table_of_the_thesis(
    graph: UtilityGraph, latency: float, slack_bucket: int, slope_bucket: int, bucket: tuple[int, int]
) -> None:
    row, column = bucket
    found = (
        GRID.slack_bucket(slack_at(graph, latency)) + 1,
        GRID.gradient_bucket(gradient_at(graph, latency)) + 1,
        bucket_at(graph, latency),
    )
    assert found == (slack_bucket, slope_bucket, 4 * (row - 1) + column - 1)


def bucket_at(graph: UtilityGraph, latency: float) -> int:
    latencies, buckets = GRID.moves(graph)
    return buckets[sum(one <= latency for one in latencies)]


def test_an_operator_passes_through_the_buckets_of_its_qos_graph_as_latency_grows() -> None:
    # As the response time grows, the utility is at first 1, then falls slowly, then falls fast, and at last is 0.
    latencies, buckets = GRID.moves(FIRST)
    assert latencies == pytest.approx([-2, -1, 0, 1, 2, 3, 4])
    assert buckets == [15, 14, 13, 12, 9, 8, 0, 16]


def test_if_all_slacks_fall_into_one_bucket_the_oldest_tuple_goes_first() -> None:
    policy = build_policy(policy_of("bucket:gradients=1,slacks=1"), TWO)
    for operator, head in ((0, 3.0), (3, 2.0), (5, 2.5)):
        policy.ready(operator, head)
    assert drained(policy, 3.0) == [3, 5, 0]


def test_operators_change_buckets_as_time_passes() -> None:
    policy = build_policy(policy_of("bucket"), TWO)
    policy.ready(0, 0.0)
    policy.ready(3, 0.0)
    # An answer takes 3 s after the first operator is picked. If that operator is picked after second 1, utility is lost.
    # The second chain's operator can be picked until second 5 without losing utility.
    assert [policy.pick(now) for now in (0.0, 0.9, 1.05, 1.2, 4.9, 5.05, 9.0)] == [0, 0, 0, 3, 3, 3, 0]


def test_a_bucket_policy_needs_bounded_memory_although_one_operator_is_never_picked() -> None:
    policy = BucketPolicy(20, 20, TWO)
    policy.ready(3, 0.0)
    for second in range(2000):
        policy.ready(0, float(second))
        assert policy.pick(float(second)) in (0, 3)
        policy.idle(0)
    assert sum(map(len, policy._heaps)) < 50
    assert len(policy._calendar) < 50
