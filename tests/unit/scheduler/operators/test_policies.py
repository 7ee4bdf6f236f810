"""Level-2 policies on small networks: the thesis's Example 1, cycles, ties, ranking anew, and sources last."""

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
    """Queries of a single operator each."""
    estimates = tuple(Estimate(cost, selectivity) for cost, selectivity in cost_and_selectivity)
    operators = tuple(ScheduledOperator(f"query{number}", source=True) for number in range(len(estimates)))
    return NetworkEstimates(Network(operators), estimates)


def policy(kind: str, believed: NetworkEstimates, clusters: int = 0, ready: str = "") -> Policy:
    """The policy; `ready` names operators with their head's arrival, as in "0:1.5 2:0"."""
    built = build_policy(policy_of(kind, clusters), believed)
    for one in ready.split():
        operator, head = one.split(":")
        built.ready(int(operator), float(head))
    return built


def drain(policy: Policy, now: float = 10.0) -> list[int]:
    """Picks until nothing is ready, each operator left without input by its run."""
    picks = []
    while (operator := policy.pick(now)) != NONE:
        picks.append(operator)
        policy.idle(operator)
    return picks


# Example 1 of the thesis, in milliseconds: Q1 (5 ms, s = 1) and Q2 (2 ms, s = 0.33), three tuples each at time 0.
EXAMPLE_1 = queries((5, 1.0), (2, 0.33))
KEPT = ((True, True, True), (False, True, False))


def responses_and_slowdowns(kind: str) -> tuple[list[float], list[float]]:
    """Runs Example 1 a tuple a step; of every answer its response and its slowdown."""
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
def test_example_1_of_the_thesis(kind: str, first: int, response: float, slowdown: float) -> None:
    responses, slowdowns = responses_and_slowdowns(kind)
    assert policy(kind, EXAMPLE_1, ready="0:0 1:0").pick(0.0) == first
    assert (mean(responses), mean(slowdowns)) == pytest.approx((response, slowdown))


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("srpt", [2, 1, 3, 0]),  # T = 8, 4, 2, 5
        ("hr", [2, 0, 1, 3]),  # S/C̄ = 0.1, 0.05, 0.125, 0.02
        ("hnr", [2, 0, 1, 3]),  # S/(C̄·T) = 0.0125, 0.0125, 0.0625, 0.004
        ("chain", [2, 1, 3, 0]),  # a root releases its whole input: 1/c = 0.125, 0.25, 0.5, 0.2
    ],
)
def test_static_policies_run_queries_by_priority_and_ties_by_number(kind: str, order: list[int]) -> None:
    believed = queries((8, 0.8), (4, 0.2), (2, 0.25), (5, 0.1))
    assert drain(policy(kind, believed, ready="0:0 1:1 2:2 3:3")) == order


@pytest.mark.parametrize(
    ("kind", "younger_head", "while_older_leads", "when_younger_leads"),
    [
        ("lsf", 9.0, 11.9, 12.1),  # W/T with T = 8 and 2: they meet at 12
        ("brt", 4.0, 19.9, 20.1),  # W·S/C̄ with 0.1 and 0.125: they meet at 20
        ("bsd", 9.5, 9.9, 10.1),  # W·S/(C̄·T²) with 0.8/8³ and 0.25/2³: they meet at 10
    ],
)
def test_waiting_policies_let_the_older_tuple_lead_until_the_more_urgent_query_has_waited_enough(
    kind: str, younger_head: float, while_older_leads: float, when_younger_leads: float
) -> None:
    chosen = policy(kind, queries((8, 0.8), (2, 0.25)), ready=f"0:0 1:{younger_head}")
    assert [chosen.pick(while_older_leads), chosen.pick(when_younger_leads)] == [0, 1]


@pytest.mark.parametrize("now", [0.0, 1.7e9])
@pytest.mark.parametrize("clusters", [0, 2])
@pytest.mark.parametrize("kind", CLUSTERED_KINDS)
def test_among_tuples_that_have_just_come_the_static_part_decides(
    kind: str, clusters: int, now: float
) -> None:
    chosen = policy(kind, queries((8, 0.5), (2, 0.5)), clusters, ready=f"0:{now} 1:{now}")
    assert chosen.pick(now) == 1


@pytest.mark.parametrize("clusters", [0, 12])
@pytest.mark.parametrize("kind", CLUSTERED_KINDS)
def test_operators_without_cost_or_without_output_have_their_place(kind: str, clusters: int) -> None:
    believed = queries((1, 0.0), (0, 1.0), (1, 1.0))
    assert set(drain(policy(kind, believed, clusters, ready="0:0 1:0 2:0"))) == {0, 1, 2}
    assert policy(kind, believed, clusters, ready="0:0 1:0 2:0").pick(10.0) == 1


def test_a_cluster_runs_its_oldest_tuple_first() -> None:
    # T is 2, 3 and 8: two clusters on [2, 4) and [4, 8], the first two queries share one.
    chosen = policy("lsf", queries((2, 1), (3, 1), (8, 1)), clusters=2, ready="0:5 1:4 2:9")
    assert drain(chosen) == [1, 0, 2]


def test_a_cluster_still_runs_its_oldest_tuple_first_when_ranked_anew() -> None:
    believed = queries((2, 1), (3, 1), (8, 1))
    chosen = policy("lsf", believed, clusters=2, ready="0:5 1:4 2:9")
    chosen.rank(believed)
    assert drain(chosen) == [1, 0, 2]


def test_round_robin_goes_round_the_ready_operators() -> None:
    chosen = policy("rr", queries((1, 1), (1, 1), (1, 1)), ready="2:0 0:0 1:0")
    assert [chosen.pick(0.0) for _ in range(5)] == [0, 1, 2, 0, 1]
    chosen.idle(2)
    assert [chosen.pick(0.0) for _ in range(3)] == [0, 1, 0]


def test_round_robin_takes_a_newly_ready_operator_in_its_place_of_the_cycle() -> None:
    chosen = policy("rr", queries((1, 1), (1, 1), (1, 1), (1, 1)), ready="1:0 3:0")
    assert chosen.pick(0.0) == 1
    chosen.ready(0, 0.0)
    chosen.ready(2, 0.0)
    assert [chosen.pick(0.0) for _ in range(5)] == [2, 3, 0, 1, 2]


def test_round_robin_starts_from_the_beginning_when_nothing_was_left_to_run() -> None:
    chosen = policy("rr", queries((1, 1), (1, 1), (1, 1)), ready="1:0")
    assert drain(chosen) == [1]
    chosen.ready(2, 0.0)
    chosen.ready(0, 0.0)
    assert drain(chosen) == [0, 2]


def test_first_come_first_served_follows_the_heads() -> None:
    chosen = policy("fcfs", queries((1, 1), (1, 1), (1, 1)), ready="0:2 1:1 2:1")
    assert chosen.pick(5.0) == 1
    chosen.ready(1, 3.0)
    assert drain(chosen) == [2, 0, 1]


# -- longest queue first ---------------------------------------------------------------------------------


def test_the_longest_queue_runs_first_and_of_equal_ones_the_lower_number() -> None:
    chosen = policy("lqf", queries((1, 1), (1, 1), (1, 1)))
    assert isinstance(chosen, CountingPolicy)
    for operator, tuples in ((0, 2), (1, 5), (2, 5)):
        chosen.pending(operator, tuples)
        chosen.ready(operator, 0.0)
    assert chosen.pick(1.0) == 1
    chosen.pending(1, 1)  # a train was taken
    assert chosen.pick(1.0) == 2
    chosen.pending(0, 6)
    assert drain(chosen) == [0, 2, 1]


# -- every policy --------------------------------------------------------------------------------------

EVERY_POLICY = [(kind, 0) for kind in POLICY_KINDS] + [(kind, 3) for kind in CLUSTERED_KINDS]
# By what comes first, how much waits, or when an answer is due.
BY_TIME = ("rr", "fcfs", "lqf", "superbox", "fixed", "slope-slack", "bucket", "edf")
every_policy = pytest.mark.parametrize(("kind", "clusters"), EVERY_POLICY)
MIXED = queries((8, 0.8), (4, 0.2), (2, 0.25), (5, 0.1))


@every_policy
def test_twins_of_the_same_age_run_in_the_order_of_their_numbers(kind: str, clusters: int) -> None:
    twins = queries((2, 0.5), (2, 0.5), (2, 0.5))
    assert drain(policy(kind, twins, clusters, ready="2:1 0:1 1:1")) == [0, 1, 2]


@every_policy
def test_operators_run_even_when_the_clock_has_jumped_back_before_their_heads(
    kind: str, clusters: int
) -> None:
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
def test_an_operator_that_went_idle_runs_again_when_it_has_input_again(kind: str, clusters: int) -> None:
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
def test_ranking_anew_keeps_exactly_the_ready_operators(kind: str, clusters: int) -> None:
    chosen = policy(kind, MIXED, clusters, ready="0:0 1:1 2:2 3:3")
    chosen.idle(1)
    chosen.rank(queries((1, 0.1), (1, 1.0), (9, 0.9), (3, 0.3)))
    assert sorted(drain(chosen)) == [0, 2, 3]


@pytest.mark.parametrize(("kind", "clusters"), [one for one in EVERY_POLICY if one[0] not in BY_TIME])
def test_ranking_anew_decides_by_the_new_statistics(kind: str, clusters: int) -> None:
    chosen = policy(kind, queries((1, 0.5), (9, 0.5)), clusters, ready="0:0 1:0")
    before = chosen.pick(1.0)
    chosen.rank(queries((9, 0.5), (1, 0.5)))
    assert (before, chosen.pick(1.0)) == (0, 1)


def test_an_unknown_policy_is_refused_with_the_nearest_ones() -> None:
    with pytest.raises(UnknownName, match="did you mean fcfs"):
        policy_of("fcf")


def test_a_policy_is_named_with_its_settings() -> None:
    assert policy_of("fas:beta=0.25") == FreshnessAware(beta=0.25)
    assert policy_of("bsd:clusters=12") == BalanceSlowdown(clusters=12)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "fas:beta=2",
            "--policy fas:beta: must be at most 1 .got '2'.\n  hint: give a number from 0 to 1; 1 if left out",
        ),
        ("fixed:push_through=maybe", "--policy fixed:push_through: must be true or false .got 'maybe'."),
        (
            "superbox:traversal=min-costs",
            "--policy superbox:traversal: no such choice .*\n  hint: did you mean min-cost?",
        ),
        (
            "bsd:clustering=uniform",
            "--policy bsd:clustering: there are no clusters .got 'uniform'.\n  hint: add clusters: 12",
        ),
        ("fas:alpha=1", "fas has the settings beta"),
        ("hr:beta", "write fas:beta=0.25"),
    ],
)
def test_settings_that_a_policy_cannot_have_are_refused_with_those_that_it_has(name: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        policy_of(name)


# -- freshness ------------------------------------------------------------------------------------------


def test_the_fresher_output_is_the_one_with_less_to_do_and_beta_zero_does_not_count() -> None:
    # Priorities (1 − 0.5³)/(3·1) = 0.29 and 0.5/1.5 = 0.33; by rates 0.5 and 0.33.
    picked = []
    for beta in (1.0, 0.0):
        chosen = FreshnessPolicy(beta, queries((1, 0.5), (1.5, 0.5)))
        for operator, tuples in ((0, 3), (1, 1)):
            chosen.pending(operator, tuples)
            chosen.ready(operator, 0.0)
        picked.append(chosen.pick(0.0))
    assert picked == [1, 0]


def test_a_query_of_more_weight_is_fresh_first() -> None:
    network = Network(
        (ScheduledOperator("q0", source=True), ScheduledOperator("q1", source=True, weight=3.0))
    )
    believed = NetworkEstimates(network, (Estimate(1, 0.5), Estimate(2, 0.5)))
    chosen = FreshnessPolicy(1.0, believed)
    for operator in (0, 1):
        chosen.ready(operator, 0.0)
    assert chosen.pick(0.0) == 1


# -- shared operators -------------------------------------------------------------------------------------

# One select for three queries: the first two make its tree, the third costs more than it gains.
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
        # 2/4 for the tree, 0.3 for the other, 1/9 for what is left.
        ("pdt", [0, 1, 2, 4, 3]),
        # 3/13.
        ("sum", [4, 0, 1, 2, 3]),
        # 1/2.
        ("max", [0, 1, 2, 3, 4]),
    ],
)
def test_a_shared_operator_runs_with_its_tree_and_what_is_left_when_it_is_its_turn(
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


def test_whole_queries_run_one_after_the_other_also_when_operators_have_come() -> None:
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


# -- the scheduler of a class --------------------------------------------------------------------------

# Two streams, each with a filter that answers; the filters are dear and keep little, so that every policy but
# for the rule would let a source go first.
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


def test_what_a_source_lets_in_runs_before_the_next_source() -> None:
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
