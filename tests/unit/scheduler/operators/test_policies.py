"""Policies that pick the next operator, on small networks: Example 1 of Sharaf's thesis, ties, new estimates, and sources last."""

from collections.abc import Sequence

import pytest

from configs.classes.policies import (
    CLUSTERED_KINDS,
    POLICY_KINDS,
    BalanceSlowdown,
    Chain,
    FreshnessAware,
    policy_of,
)
from configs.errors import InvalidInput, UnknownName
from scheduler.operators.network import Estimate, Network, NetworkEstimates, ScheduledOperator
from scheduler.operators.policies import NONE, CountingPolicy, Policy, build_policy
from scheduler.operators.policies.freshness import FreshnessPolicy
from scheduler.operators.scheduler import OperatorScheduler, QueryScheduler


def queries(*cost_and_selectivity: tuple[float, float]) -> NetworkEstimates:
    """Return a network of queries that consist of one operator each."""
    estimates = tuple(Estimate(cost, selectivity) for cost, selectivity in cost_and_selectivity)
    operators = tuple(ScheduledOperator(f"query{number}", source=True) for number in range(len(estimates)))
    return NetworkEstimates(Network(operators), estimates)


def policy(kind: str, believed: NetworkEstimates, clusters: int = 0, ready: str = "") -> Policy:
    """Return the policy. `ready` lists the operators with input, and the arrival of each operator's oldest tuple, such as "0:1.5 2:0"."""
    built = build_policy(policy_of(kind, clusters), believed)
    for one in ready.split():
        operator, head = one.split(":")
        built.ready(int(operator), float(head))
    return built


def drain(policy: Policy, now: float = 10.0) -> list[int]:
    """Pick operators until none is ready, and return the picked operators. Each picked operator processes all its input."""
    picks = []
    while (operator := policy.pick(now)) != NONE:
        picks.append(operator)
        policy.idle(operator)
    return picks


# Example 1 of Sharaf's thesis: queries with costs of 5 and 2 ms and selectivities of 1 and 0.33. Each has three tuples at time 0.
EXAMPLE_1 = queries((5, 1.0), (2, 0.33))
KEPT = ((True, True, True), (False, True, False))


def responses_and_slowdowns(kind: str) -> tuple[list[float], list[float]]:
    """Run Example 1 with one tuple per pick, and return the response time and the slowdown of each answer."""
    chosen = policy(kind, EXAMPLE_1, ready="0:0 1:0")
    now, done = 0.0, [0, 0]
    responses, slowdowns = list[float](), list[float]()
    while (query := chosen.pick(now)) != NONE:
        cost = EXAMPLE_1.estimates[query].cost_s
        now += cost
        if KEPT[query][done[query]]:
            responses.append(now)
            slowdowns.append(now / cost)
        done[query] += 1
        if done[query] == 3:
            chosen.idle(query)
        else:
            chosen.ready(query, 0.0)
    return responses, slowdowns


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize(
    ("kind", "first", "response", "slowdown"), [("hr", 0, 12.25, 3.875), ("hnr", 1, 13.0, 2.9)]
)
def test_policies_run_example_1_as_in_the_thesis(
    kind: str, first: int, response: float, slowdown: float
) -> None:
    responses, slowdowns = responses_and_slowdowns(kind)
    assert policy(kind, EXAMPLE_1, ready="0:0 1:0").pick(0.0) == first
    assert (mean(responses), mean(slowdowns)) == pytest.approx((response, slowdown))


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("srpt", [2, 1, 3, 0]),  # The processing times T are 8, 4, 2 and 5; the least comes first.
        ("hr", [2, 0, 1, 3]),  # selectivity divided by cost: 0.1, 0.05, 0.125 and 0.02
        ("hnr", [2, 0, 1, 3]),  # selectivity divided by cost and by time T: 0.0125, 0.0125, 0.0625 and 0.004
        ("chain", [2, 1, 3, 0]),  # memory released per time unit: 0.125, 0.25, 0.5 and 0.2
    ],
)
def test_static_policies_run_queries_by_priority_and_break_ties_by_number(
    kind: str, order: list[int]
) -> None:
    believed = queries((8, 0.8), (4, 0.2), (2, 0.25), (5, 0.1))
    assert drain(policy(kind, believed, ready="0:0 1:1 2:2 3:3")) == order


@pytest.mark.parametrize(
    ("kind", "younger_head", "while_older_leads", "when_younger_leads"),
    [
        ("lsf", 9.0, 11.9, 12.1),  # The waits divided by T are equal at time 12: 12/8 and 3/2.
        ("brt", 4.0, 19.9, 20.1),  # The products of wait and S/C̄ are equal at time 20: 20·0.1 and 16·0.125.
        # The products of wait and S/(C̄·T²) are equal at time 10: 10·0.8/8³ and 0.5·0.25/2³.
        ("bsd", 9.5, 9.9, 10.1),
    ],
)
def test_waiting_policies_switch_to_the_urgent_query_once_it_has_waited_enough(
    kind: str, younger_head: float, while_older_leads: float, when_younger_leads: float
) -> None:
    chosen = policy(kind, queries((8, 0.8), (2, 0.25)), ready=f"0:0 1:{younger_head}")
    assert [chosen.pick(while_older_leads), chosen.pick(when_younger_leads)] == [0, 1]


@pytest.mark.parametrize("now", [0.0, 1.7e9])
@pytest.mark.parametrize("clusters", [0, 2])
@pytest.mark.parametrize("kind", CLUSTERED_KINDS)
def test_between_tuples_that_just_arrived_the_static_priority_decides(
    kind: str, clusters: int, now: float
) -> None:
    chosen = policy(kind, queries((8, 0.5), (2, 0.5)), clusters, ready=f"0:{now} 1:{now}")
    assert chosen.pick(now) == 1


@pytest.mark.parametrize("clusters", [0, 12])
@pytest.mark.parametrize("kind", CLUSTERED_KINDS)
def test_clustered_policies_pick_operators_without_cost_or_output(kind: str, clusters: int) -> None:
    believed = queries((1, 0.0), (0, 1.0), (1, 1.0))
    assert set(drain(policy(kind, believed, clusters, ready="0:0 1:0 2:0"))) == {0, 1, 2}
    assert policy(kind, believed, clusters, ready="0:0 1:0 2:0").pick(10.0) == 1


def test_a_cluster_runs_its_oldest_tuple_first() -> None:
    # The times T are 2, 3 and 8. Queries with T from 2 to 4 form a cluster, which the policy ranks together.
    chosen = policy("lsf", queries((2, 1), (3, 1), (8, 1)), clusters=2, ready="0:5 1:4 2:9")
    assert drain(chosen) == [1, 0, 2]


def test_a_cluster_runs_its_oldest_tuple_first_after_a_new_ranking() -> None:
    believed = queries((2, 1), (3, 1), (8, 1))
    chosen = policy("lsf", believed, clusters=2, ready="0:5 1:4 2:9")
    chosen.rank(believed)
    assert drain(chosen) == [1, 0, 2]


def test_round_robin_cycles_through_the_ready_operators() -> None:
    chosen = policy("rr", queries((1, 1), (1, 1), (1, 1)), ready="2:0 0:0 1:0")
    assert [chosen.pick(0.0) for _ in range(5)] == [0, 1, 2, 0, 1]
    chosen.idle(2)
    assert [chosen.pick(0.0) for _ in range(3)] == [0, 1, 0]


def test_round_robin_runs_a_newly_ready_operator_at_its_place_in_the_cycle() -> None:
    chosen = policy("rr", queries((1, 1), (1, 1), (1, 1), (1, 1)), ready="1:0 3:0")
    assert chosen.pick(0.0) == 1
    chosen.ready(0, 0.0)
    chosen.ready(2, 0.0)
    assert [chosen.pick(0.0) for _ in range(5)] == [2, 3, 0, 1, 2]


def test_round_robin_restarts_the_cycle_after_all_ready_operators_ran() -> None:
    chosen = policy("rr", queries((1, 1), (1, 1), (1, 1)), ready="1:0")
    assert drain(chosen) == [1]
    chosen.ready(2, 0.0)
    chosen.ready(0, 0.0)
    assert drain(chosen) == [0, 2]


def test_first_come_first_served_follows_the_oldest_tuples() -> None:
    chosen = policy("fcfs", queries((1, 1), (1, 1), (1, 1)), ready="0:2 1:1 2:1")
    assert chosen.pick(5.0) == 1
    chosen.ready(1, 3.0)
    assert drain(chosen) == [2, 0, 1]


# -- the policy that runs the longest queue first --------------------------------------------------------


def test_the_longest_queue_runs_first_and_ties_go_to_the_lower_number() -> None:
    chosen = policy("lqf", queries((1, 1), (1, 1), (1, 1)))
    assert isinstance(chosen, CountingPolicy)
    for operator, tuples in ((0, 2), (1, 5), (2, 5)):
        chosen.pending(operator, tuples)
        chosen.ready(operator, 0.0)
    assert chosen.pick(1.0) == 1
    chosen.pending(1, 1)  # a train was taken from this queue, so the queue is shorter now
    assert chosen.pick(1.0) == 2
    chosen.pending(0, 6)
    assert drain(chosen) == [0, 2, 1]


# -- properties of every policy ------------------------------------------------------------------------

EVERY_POLICY = [(kind, 0) for kind in POLICY_KINDS] + [(kind, 3) for kind in CLUSTERED_KINDS]
# Policies that decide by arrival order, queue length or due time, not by estimates of operators.
BY_TIME = ("rr", "fcfs", "lqf", "superbox", "fixed", "slope-slack", "bucket", "edf")
every_policy = pytest.mark.parametrize(("kind", "clusters"), EVERY_POLICY)
MIXED = queries((8, 0.8), (4, 0.2), (2, 0.25), (5, 0.1))


@every_policy
def test_identical_operators_of_equal_age_run_in_order_of_number(kind: str, clusters: int) -> None:
    twins = queries((2, 0.5), (2, 0.5), (2, 0.5))
    assert drain(policy(kind, twins, clusters, ready="2:1 0:1 1:1")) == [0, 1, 2]


@every_policy
def test_operators_run_even_if_the_clock_jumps_back_before_arrivals(kind: str, clusters: int) -> None:
    chosen = policy(kind, MIXED, clusters, ready="1:1000 3:2000")
    assert set(drain(chosen, now=5.0)) == {1, 3}


@every_policy
def test_nothing_is_picked_when_nothing_is_ready(kind: str, clusters: int) -> None:
    chosen = policy(kind, MIXED, clusters)
    assert chosen.pick(0.0) == NONE
    chosen.ready(1, 0.0)
    chosen.idle(1)
    chosen.idle(2)
    assert chosen.pick(0.0) == NONE


@every_policy
def test_an_idle_operator_runs_again_when_it_has_input_again(kind: str, clusters: int) -> None:
    chosen = policy(kind, MIXED, clusters, ready="1:0")
    chosen.idle(1)
    chosen.pick(0.0)
    chosen.ready(1, 0.0)
    once = chosen.pick(1.0)
    chosen.idle(1)
    chosen.rank(MIXED)
    chosen.ready(1, 0.0)
    assert (once, chosen.pick(1.0)) == (1, 1)


@every_policy
def test_a_policy_with_a_new_ranking_still_runs_exactly_the_ready_operators(kind: str, clusters: int) -> None:
    chosen = policy(kind, MIXED, clusters, ready="0:0 1:1 2:2 3:3")
    chosen.idle(1)
    chosen.rank(queries((1, 0.1), (1, 1.0), (9, 0.9), (3, 0.3)))
    assert sorted(drain(chosen)) == [0, 2, 3]


@pytest.mark.parametrize(("kind", "clusters"), [one for one in EVERY_POLICY if one[0] not in BY_TIME])
def test_a_new_ranking_decides_by_the_new_estimates(kind: str, clusters: int) -> None:
    chosen = policy(kind, queries((1, 0.5), (9, 0.5)), clusters, ready="0:0 1:0")
    before = chosen.pick(1.0)
    chosen.rank(queries((9, 0.5), (1, 0.5)))
    assert (before, chosen.pick(1.0)) == (0, 1)


def test_an_unknown_policy_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="did you mean fcfs"):
        policy_of("fcf")


def test_a_policy_is_written_with_its_settings() -> None:
    assert policy_of("fas:beta=0.25") == FreshnessAware(beta=0.25)
    assert policy_of("bsd:clusters=12") == BalanceSlowdown(clusters=12)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "fas:beta=2",
            "--policy fas:beta: the value must be at most 1 .got '2'.\n  hint: give a number from 0 to 1; 1 if left out",
        ),
        (
            "fixed:push_through=maybe",
            "--policy fixed:push_through: the value must be true or false .got 'maybe'.",
        ),
        (
            "superbox:traversal=min-costs",
            "--policy superbox:traversal: the value is not one of the allowed choices .*\n  hint: did you mean min-cost?",
        ),
        (
            "bsd:clustering=uniform",
            "--policy bsd:clustering: the policy option clustering needs clusters, but `clusters` is 0 .got 'uniform'.\n  hint: add clusters: 12",
        ),
        ("fas:alpha=1", "fas has the settings beta"),
        ("hr:beta", "write fas:beta=0.25"),
    ],
)
def test_invalid_policy_settings_are_refused_with_a_hint(name: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        policy_of(name)


# -- the policy for fresh outputs ---------------------------------------------------------------------------


def test_the_freshness_policy_prefers_the_query_with_less_queued_work_unless_beta_is_zero() -> None:
    # With beta 1 the priorities are (1 − 0.5³)/(3·1) = 0.29 and 0.5/1.5 = 0.33. With beta 0 they are 0.5 and 0.33.
    picked = []
    for beta in (1.0, 0.0):
        chosen = FreshnessPolicy(beta, queries((1, 0.5), (1.5, 0.5)))
        for operator, tuples in ((0, 3), (1, 1)):
            chosen.pending(operator, tuples)
            chosen.ready(operator, 0.0)
        picked.append(chosen.pick(0.0))
    assert picked == [1, 0]


def test_a_query_with_more_weight_is_refreshed_first() -> None:
    network = Network(
        (ScheduledOperator("q0", source=True), ScheduledOperator("q1", source=True, weight=3.0))
    )
    believed = NetworkEstimates(network, (Estimate(1, 0.5), Estimate(2, 0.5)))
    chosen = FreshnessPolicy(1.0, believed)
    for operator in (0, 1):
        chosen.ready(operator, 0.0)
    assert chosen.pick(0.0) == 1


# -- operators that several queries share -----------------------------------------------------------------

# One select feeds three queries. The select is ranked together with the first two queries; the third would lower the priority.
SHARED = Network(
    (
        ScheduledOperator("select", (1, 2, 3), source=True),
        ScheduledOperator("cheap"),
        ScheduledOperator("fair"),
        ScheduledOperator("dear"),
        ScheduledOperator("other", source=True),
    )
)
SHARED_ESTIMATES = (Estimate(1, 1), Estimate(1, 1), Estimate(2, 1), Estimate(9, 1), Estimate(1, 0.3))


@pytest.mark.parametrize(
    ("sharing", "expected"),
    [
        # The select with the first two queries has priority 2/4, operator `other` 0.3, and the third query 1/9.
        ("pdt", [0, 1, 2, 4, 3]),
        # The select with all three queries has priority 3/13.
        ("sum", [4, 0, 1, 2, 3]),
        # The select has the priority of its best query, 1/2.
        ("max", [0, 1, 2, 3, 4]),
    ],
)
def test_a_shared_operator_and_the_operators_chosen_to_run_with_it_run_before_lower_priorities(
    sharing: str, expected: list[int]
) -> None:
    scheduler = QueryScheduler(SHARED, policy_of(f"hr:sharing={sharing}"), SHARED_ESTIMATES)
    scheduler.ready(0, 0.0)
    scheduler.ready(4, 0.0)
    picks = []
    while (operator := scheduler.pick(1.0)) != NONE:
        picks.append(operator)
        for below in SHARED.operators[operator].downstream:
            scheduler.ready(below, 0.0)
        scheduler.idle(operator)
    assert picks == expected


def test_whole_queries_run_one_after_another_in_a_network_that_grew() -> None:
    scheduler = QueryScheduler(
        Network((ScheduledOperator("first", source=True),)), policy_of("fcfs"), [Estimate(1, 1)]
    )
    scheduler.extend(
        [ScheduledOperator("second", (2,), source=True), ScheduledOperator("end")], [], [Estimate(1, 1)] * 2
    )
    for operator, head in ((0, 1.0), (1, 0.0)):
        scheduler.ready(operator, head)
    assert scheduler.pick(2.0) == 1
    scheduler.ready(2, 5.0)
    scheduler.idle(1)
    assert scheduler.pick(2.0) == 2
    scheduler.idle(2)
    assert scheduler.pick(2.0) == 0


# -- the scheduler of a class, which runs sources last -------------------------------------------------

# Two streams, each with one query that filters. The filters are expensive, and few tuples pass.
# Without the rule that sources run last, every policy would run a source first.
TWO_STREAMS = Network(
    (
        ScheduledOperator("clicks", (2,), source=True),
        ScheduledOperator("orders", (3,), source=True),
        ScheduledOperator("hot clicks"),
        ScheduledOperator("large orders"),
    )
)
TWO_STREAMS_ESTIMATES = (Estimate(1, 1), Estimate(1, 1), Estimate(9, 0.01), Estimate(9, 0.01))


@every_policy
def test_sources_run_only_when_no_other_operator_has_input(kind: str, clusters: int) -> None:
    scheduler = OperatorScheduler(TWO_STREAMS, policy_of(kind, clusters), TWO_STREAMS_ESTIMATES)
    for operator, head in ((0, 0.0), (1, 0.0), (2, 9.0), (3, 9.0)):
        scheduler.ready(operator, head)
    picks = []
    while (operator := scheduler.pick(10.0)) != NONE:
        picks.append(operator)
        scheduler.idle(operator)
    assert [sorted(picks[:2]), sorted(picks[2:])] == [[2, 3], [0, 1]]


def test_tuples_from_a_source_run_before_the_next_source() -> None:
    scheduler = OperatorScheduler(TWO_STREAMS, Chain(), TWO_STREAMS_ESTIMATES)
    scheduler.ready(0, 0.0)
    scheduler.ready(1, 0.0)
    first = scheduler.pick(1.0)
    scheduler.ready(2, 0.0)
    assert (first, scheduler.pick(1.0)) == (0, 2)


@pytest.mark.parametrize(("first", "second"), [(0, 1), (2, 3)], ids=["sources", "others"])
def test_measured_statistics_change_priorities_at_the_next_refresh(first: int, second: int) -> None:
    scheduler = OperatorScheduler(TWO_STREAMS, policy_of("hr"), TWO_STREAMS_ESTIMATES)
    scheduler.ready(first, 0.0)
    scheduler.ready(second, 0.0)
    scheduler.statistics.observe(3, 100, 90, 900.0)
    before = scheduler.pick(1.0)
    believed = scheduler.refresh()
    assert (before, scheduler.pick(1.0)) == (first, second)
    assert scheduler.refresh() is believed
    assert believed.estimates[3].selectivity == pytest.approx(0.825 * 0.01 + 0.175 * 0.9)


def test_without_adaptation_a_refresh_changes_nothing() -> None:
    scheduler = OperatorScheduler(TWO_STREAMS, policy_of("hr"), TWO_STREAMS_ESTIMATES, adaptive=False)
    scheduler.ready(2, 0.0)
    scheduler.ready(3, 0.0)
    scheduler.statistics.observe(3, 100, 90, 900.0)
    assert scheduler.refresh().estimates == TWO_STREAMS_ESTIMATES
    assert scheduler.pick(1.0) == 2
