"""A simulated host of one class, which the tests call as a lane would."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from configs.scenario.scenario import Scenario
from loadshed.key_table import Keys
from loadshed.ledger import TupleLedger
from loadshed.shedder import Admission, Shedder
from sim.run.simulated_host import SimulatedHost
from tests.support.scenarios import (
    Data,
    aggregate,
    at,
    join,
    lookup,
    poisson,
    project,
    queries,
    scenario,
    select,
    tenant,
)

ONE = {"n": queries(only=[project(10)])}
TWO_STEPS = {"n": queries(only=[project(10), project(20)])}


def hosted(settings: Scenario) -> SimulatedHost:
    return SimulatedHost(settings, settings.classes[0], settings.seed)


def host_of(
    *times_s: float,
    networks: Data = ONE,
    victim: str = "random",
    late: float = 0,
    keys: int = 1,
    **settings: Any,
) -> SimulatedHost:
    """Return a host to which tuples of stream `s` arrive at these times. The source operator takes 1 ms per tuple."""
    given = tenant("c", {"s": at(*times_s)}, victim=victim)
    given["streams"]["s"] |= {"late_fraction": late, "keys": keys}
    return hosted(scenario(given, networks=networks, **{"costs": {"source_tuple_us": 1000}} | settings))


def costs(host: SimulatedHost, now: float) -> list[float]:
    """Run until no operator has input, and return the cost of each call."""
    spent = []
    host.door.ingest(now)
    while (cost := host.start(now)) >= 0:
        spent.append(cost)
        now += cost
        host.finish(now)
        host.door.ingest(now)
    return spent


def ledger(**fates: int) -> TupleLedger:
    return TupleLedger(**fates)


# -- operator calls and trains -------------------------------------------------------------------------------


def test_a_host_without_input_does_not_start() -> None:
    host = host_of(1.0)
    host.door.ingest(0.5)
    assert (host.start(0.5), host.has_input(), host.is_empty(), host.door.next_arrival) == (
        -1.0,
        False,
        True,
        1.0,
    )


def test_an_operator_call_processes_the_whole_queue_and_takes_time_for_each_tuple() -> None:
    host = host_of(0.0, 0.0, 0.0, networks=TWO_STEPS)
    assert costs(host, 0.0) == pytest.approx([0.003, 0.03, 0.06])
    assert host.door.ledger() == ledger(offered=3, delivered=3)
    assert host.answers.responses.response_ms()["mean"] == pytest.approx(93)


def test_a_train_has_at_most_the_maximum_length_and_the_rest_waits() -> None:
    host = host_of(*[0.0] * 5, train_max=2)
    # Sources run last: tuples inside the network are finished before the source lets more tuples in.
    assert costs(host, 0.0) == pytest.approx([0.002, 0.02, 0.002, 0.02, 0.001, 0.01])


def test_a_call_has_a_fixed_cost_in_addition_to_the_cost_per_tuple() -> None:
    host = host_of(0.0, 0.0, 0.0, costs={"call_us": 500, "source_tuple_us": 1000})
    assert costs(host, 0.0) == pytest.approx([0.0035, 0.0305])


def test_the_cost_of_a_call_follows_the_steps_and_ramps_of_its_operator() -> None:
    drift = [{"at_s": 2, "factor": 3}, {"at_s": 4, "factor": 1, "ramp_s": 2}]
    host = host_of(
        1.0, 3.0, 5.0, 7.0, networks={"n": queries(only=[project(10) | {"cost_drift": drift}])}, costs={}
    )
    spent = [costs(host, now)[1] for now in (1.0, 3.0, 5.0, 7.0)]
    assert spent == pytest.approx([0.01, 0.03, 0.02, 0.01])


def test_the_factor_of_a_drifting_cost_multiplies_calls_tuples_and_results() -> None:
    costly = aggregate(slide_s=1, groups=2, ms=10, result_ms=100) | {"cost_drift": [{"at_s": 0, "factor": 2}]}
    host = host_of(0.5, 1.5, networks={"n": queries(only=[costly])}, costs={"call_us": 1000})
    # One call takes two tuples, and the second tuple causes two results.
    assert costs(host, 1.5) == pytest.approx([0.001, 2 * (0.001 + 2 * 0.01 + 2 * 0.1)])


def test_the_drifts_of_a_query_and_of_its_operator_multiply() -> None:
    network = queries(only=[project(10) | {"cost_drift": [{"at_s": 0, "factor": 3}]}, project(10)])
    network["queries"][0]["cost_drift"] = [{"at_s": 0, "factor": 2}]
    assert costs(host_of(0.0, networks={"n": network}, costs={}), 0.0) == pytest.approx([0.0, 0.06, 0.02])


def test_operators_without_cost_process_their_tuples_in_no_time() -> None:
    host = host_of(0.0, 0.0, networks={"n": queries(free=[project(0), select(1, 0)])}, costs={})
    assert costs(host, 1.5) == pytest.approx([0.0, 0.0, 0.0])
    assert (host.answers.responses.count, host.answers.responses.response_ms()["max"]) == (2, 1500)


def test_tuples_that_arrive_during_a_call_are_ingested_after_the_call() -> None:
    host = host_of(0.0, 0.001, 0.0105, 0.05)
    assert costs(host, 0.0) == pytest.approx([0.001, 0.01, 0.002, 0.02])
    assert host.door.next_arrival == 0.05


def test_results_of_a_call_appear_when_the_call_ends() -> None:
    host = host_of(0.0)
    host.door.ingest(0.0)
    host.start(0.0)
    host.finish(0.001)
    host.start(0.001)
    assert (host.answers.responses.count, host.door.ledger().delivered, host.is_empty()) == (0, 1, False)
    host.finish(0.011)
    assert (host.answers.responses.count, host.is_empty()) == (1, True)
    assert host.processed_s == pytest.approx(0.011)


def test_a_tuple_that_every_query_filters_out_is_delivered_without_an_answer() -> None:
    host = host_of(0.0, networks={"n": queries(none=[select(0, 10)])})
    costs(host, 0.0)
    assert (host.door.ledger(), host.answers.responses.count) == (ledger(offered=1, delivered=1), 0)


def test_slowdown_is_the_response_divided_by_the_querys_own_cost() -> None:
    host = host_of(0.0, 0.0, train_max=1)
    costs(host, 0.0)
    # Each tuple needs 11 ms; the second waits for the first.
    assert host.answers.responses.slowdown() == pytest.approx({"mean": 1.5, "max": 2.0, "l2": 5**0.5})


def test_a_tuple_that_several_queries_answer_counts_once_as_delivered() -> None:
    host = host_of(0.0, networks={"n": queries(one=[project(10)], two=[lookup(3, 10)])})
    costs(host, 0.0)
    assert (host.door.ledger(), host.answers.responses.count) == (ledger(offered=1, delivered=1), 4)


# -- the door, where tuples are accepted or dropped ----------------------------------------------------------

FREE = {"n": queries(all=[project(0)])}


def ages(host: SimulatedHost, now: float) -> tuple[int, float, float]:
    """Answer all queued tuples at time `now`. Return the number of answers, and their mean and largest response time in seconds."""
    costs(host, now)
    answers = host.answers.responses.response_ms()
    return host.answers.responses.count, answers["mean"] / 1e3, answers["max"] / 1e3


def test_tuples_beyond_a_full_queue_are_rejected() -> None:
    host = host_of(*[0.0] * 7, 1.0, queue_max=5)
    host.door.ingest(0.5)
    assert (host.door.ledger(), host.door.queued(host.door.entries[0])) == (ledger(offered=7, rejected=2), 5)
    costs(host, 0.5)
    host.door.ingest(1.0)
    costs(host, 1.0)
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=8, delivered=6, rejected=2), True)


def test_a_tuple_rejected_by_one_queue_of_a_stream_is_rejected_by_all() -> None:
    class_ = tenant("c", {"tuples": poisson(100)}, network="t", offered_load=2)
    host = hosted(scenario(class_, networks={"t": {"kind": "sharaf", "queries": 5}}, queue_max=20))
    now = 0.0
    while now < 10:
        host.door.ingest(now)
        cost = host.start(now)
        assert host.door.closes()
        now = now + cost if cost >= 0 else host.door.next_arrival
        host.finish(now)
        assert host.door.closes()
    costs(host, now)
    assert host.door.ledger().rejected > 100
    assert host.door.ledger().delivered == host.door.ledger().offered - host.door.ledger().rejected


@pytest.mark.parametrize(("fraction", "least", "most"), [(0.0, 0, 0), (0.25, 200, 300), (1.0, 1000, 1000)])
def test_late_tuples_are_counted_and_never_reach_the_queue(fraction: float, least: int, most: int) -> None:
    host = host_of(*[0.0] * 1000, late=fraction)
    host.door.ingest(0.0)
    late = host.door.ledger().late
    assert least <= late <= most
    assert (host.door.ledger(), host.queues.tuples()) == (ledger(offered=1000, late=late), 1000 - late)


def test_victim_newest_sheds_arrivals_evenly_and_nothing_from_the_queue() -> None:
    host = host_of(*range(10), networks=FREE, victim="newest", costs={})
    host.door.set_keep(0.5)
    host.door.ingest(9.0)
    assert ages(host, 9.0) == pytest.approx((5, (9 + 7 + 5 + 3 + 1) / 5, 9))
    assert host.door.ledger() == ledger(offered=10, delivered=5, shed=5)


def test_victim_oldest_sheds_the_head_of_the_queue_and_keeps_arrivals() -> None:
    host = host_of(*range(10), networks=FREE, victim="oldest", costs={})
    host.door.set_keep(0.5)
    host.door.ingest(9.0)
    assert ages(host, 9.0) == pytest.approx((5, (4 + 3 + 2 + 1 + 0) / 5, 4))
    assert host.door.ledger() == ledger(offered=10, delivered=5, shed=5)


def test_victim_oldest_sheds_the_arrival_if_the_queue_is_empty() -> None:
    host = host_of(0, 1, 2, 3, victim="oldest")
    host.door.set_keep(0.05)
    for now in range(4):
        costs(host, now)
    # With a keep of 0.05, the first tuple is accepted, and the other three tuples are dropped.
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=4, delivered=1, shed=3), True)


def three_queries(*times_s: float, tuple_us: float, **settings: Any) -> SimulatedHost:
    """Return a host of three queries. Each query has its own queue, and three operators that drop no tuple."""
    network = {"kind": "sharaf", "queries": 3, "selectivity_min": 1, "cost_classes": 1, "tuple_us": tuple_us}
    given = tenant("c", {"tuples": at(*times_s)}, network="t", **settings)
    return hosted(scenario(given, networks={"t": network}, train_max=4))


def test_with_victim_set_to_oldest_only_tuples_that_no_query_has_taken_are_shed() -> None:
    arrivals = [number / 8 for number in range(20)]
    host = three_queries(*arrivals, tuple_us=1e-6, victim="oldest")
    host.door.ingest(arrivals[9])
    host.start(2.5)  # one query takes the first four tuples
    host.finish(2.5)
    host.door.set_keep(0.5)
    host.door.ingest(2.5)
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=20, shed=5), True)
    # The door drops tuples 5 to 9 for all three queries, because no query has taken these tuples.
    answered = 3 * [2.5 - arrival for arrival in arrivals[:4] + arrivals[9:]]
    assert ages(host, 2.5) == pytest.approx((45, sum(answered) / 45, 2.5))
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=20, delivered=15, shed=5), True)


def test_victim_random_sheds_each_arrival_independently() -> None:
    host = host_of(*range(4000), networks=FREE, costs={}, seconds=5000)
    host.door.set_keep(0.3)
    host.door.ingest(4000.0)
    count, mean_age, _ = ages(host, 4000.0)
    assert count / 4000 == pytest.approx(0.3, abs=0.03)
    assert mean_age == pytest.approx(2000, rel=0.1)
    assert host.door.ledger() == ledger(offered=4000, delivered=count, shed=4000 - count)


@pytest.mark.parametrize("keys", [1, 50])
def test_victim_fair_keeps_the_kept_fraction_of_a_stream_with_one_or_many_keys(keys: int) -> None:
    host = host_of(*(number / 1000 for number in range(8000)), victim="fair", keys=keys)
    host.door.set_keep(0.4)
    for second in range(1, 9):
        host.door.ingest(float(second))
        host.door.begin_cycle()
    assert host.door.ledger().shed / 8000 == pytest.approx(0.6, abs=0.04)
    assert host.door.closes()


class Witness(Shedder):
    """Shedder that counts, for each key, how often it sees the key."""

    def __init__(self) -> None:
        super().__init__("fair", np.random.default_rng(1))
        self.seen: Counter[int] = Counter()

    def admit(self, tuples: int, keys: Keys | None = None) -> Admission:
        self.seen.update(() if keys is None else keys.tolist())
        return super().admit(tuples, keys)


@pytest.mark.parametrize("keys", [1, 2, 5])
def test_the_simulated_keys_of_a_stream_have_the_declared_number_and_skewed_frequencies(keys: int) -> None:
    host = host_of(*range(8000), victim="fair", keys=keys, seconds=9000)
    witness = host.door.entries[0].shedder = Witness()
    host.door.ingest(8000.0)
    parts = {key: count / 8000 for key, count in sorted(witness.seen.items())}
    expected = {rank: math.log((rank + 1) / rank, keys + 1) for rank in range(1, keys + 1)}
    assert parts == pytest.approx(expected, abs=0.02)


# -- figures of a load cycle ---------------------------------------------------------------------------------


def test_a_cycle_reports_offered_tuples_their_cost_and_response_time() -> None:
    host = host_of(0.0, 0.25, 0.5)
    costs(host, 0.0)
    costs(host, 0.25)
    host.door.ingest(0.5)
    cycle = host.end_cycle(0.625, 1.0)
    (entry,), (output,) = cycle.inputs, cycle.outputs
    assert (entry.stream, entry.offered, entry.waiting_s) == ("s", 3, 0.125)
    assert (output.query, output.results, output.target_s, output.waiting_s) == ("only", 2, 60, 0.125)
    # A tuple takes 11 ms from its arrival to its answer: 1 ms in the source and 10 ms in the operator.
    assert (entry.work_s, cycle.queued_work_s, output.mean_s) == pytest.approx((0.011, 0.011, 0.011))


def test_the_reported_cost_of_a_tuple_is_the_sum_over_all_queries_that_read_it() -> None:
    (entry,) = three_queries(0.0, tuple_us=1000).end_cycle(1.0, 1.0).inputs
    assert entry.work_s == pytest.approx(3 * 3 * 1e-3)


def test_a_load_cycle_does_not_count_results_of_the_previous_cycle() -> None:
    host = host_of(0.0)
    costs(host, 0.0)
    assert [one.results for one in host.end_cycle(1.0, 1.0).outputs] == [1]
    cycle = host.end_cycle(2.0, 1.0)
    assert ([one.offered for one in cycle.inputs], [one.results for one in cycle.outputs]) == ([0], [0])


def test_queued_work_includes_tuples_inside_the_network() -> None:
    host = host_of(0.0, 0.0, networks={"n": queries(one=[select(0.5, 10), project(20)])}, selection="even")
    host.door.ingest(0.0)
    host.start(0.0)
    host.finish(0.002)
    # Two tuples wait for the filter, which takes 10 ms per tuple. Half of the tuples pass the filter and then take 20 ms.
    assert host.end_cycle(0.002, 1.0).queued_work_s == pytest.approx(2 * (0.01 + 0.5 * 0.02))


def test_shed_tuples_count_as_offered() -> None:
    host = host_of(*[0.0] * 10, victim="newest")
    host.door.set_keep(0.05)
    host.door.ingest(0.0)
    assert [one.offered for one in host.end_cycle(1.0, 1.0).inputs] == [10]


# -- death of the host, and jumps of the clock ---------------------------------------------------------------


def test_a_dead_host_does_not_start_but_accepts_input() -> None:
    host = host_of(0.0, 1.0)
    host.die(retained=True)
    host.door.ingest(1.0)
    assert (host.start(1.0), host.has_input(), host.queues.tuples()) == (-1.0, False, 2)
    assert host.end_cycle(3.0, 1.0).inputs[0].waiting_s == 3.0


def test_after_a_host_returns_its_retained_input_is_processed_once() -> None:
    host = host_of(0.0, 0.0, train_max=1)
    host.door.ingest(0.0)
    host.start(0.0)
    host.finish(0.001)
    host.start(0.001)
    host.die(retained=True)
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=2, delivered=1), True)
    host.finish(0.011)  # the operator call that the lane had begun ends after the death of the host
    assert (host.answers.responses.count, host.is_empty()) == (0, False)
    host.revive(rebuild_s=0.5)
    assert costs(host, 2.0) == pytest.approx([0.51, 0.001, 0.01])
    assert (host.door.ledger(), host.answers.responses.count) == (ledger(offered=2, delivered=2), 2)


def test_when_a_host_dies_queued_and_half_processed_input_fails_unless_retained() -> None:
    host = host_of(*[0.0] * 5, train_max=2)
    host.door.ingest(0.0)
    for now, cost in ((0.0, 0.002), (0.002, 0.02), (0.022, 0.002)):
        assert host.start(now) == pytest.approx(cost)
        host.finish(now + cost)
    host.start(0.024)  # Two tuples are answered, two are in an operator, and one is queued.
    host.die(retained=False)
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=5, delivered=2, failed=3), True)
    host.revive(rebuild_s=0)
    assert (host.start(1.0), host.is_empty(), host.answers.responses.count) == (-1.0, True, 2)


def test_tuples_in_a_source_call_count_once_as_failed_when_the_host_dies() -> None:
    host = host_of(*[0.0] * 3, train_max=2)
    host.door.ingest(0.0)
    host.start(0.0)
    host.die(retained=False)
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=3, failed=3), True)


def test_a_tuple_queued_for_several_queries_counts_once_as_failed_when_the_host_dies() -> None:
    host = three_queries(*[0.0] * 6, tuple_us=1000)
    host.door.ingest(0.0)
    host.start(0.0)
    host.finish(0.1)  # one query has processed four tuples, the other two queries none
    host.die(retained=False)
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=6, failed=6), True)


@pytest.mark.parametrize("dies_in_call", range(8))
def test_a_join_finds_every_pair_once_if_its_host_dies_midway(dies_in_call: int) -> None:
    streams = {"s": at(0.0, 0.25, 0.5), "t": at(0.125, 0.25, 0.375)}
    network = {"n": queries(pairs=[join(window_s=1, selectivity=1, ms=1)])}
    host = hosted(scenario(tenant("c", streams), networks=network, train_max=2))
    host.door.ingest(1.0)
    for call in range(8):
        assert host.start(1.0) >= 0
        if call == dies_in_call:
            host.die(retained=True)
            host.finish(1.0)
            host.revive(rebuild_s=0)
            host.start(1.0)
        host.finish(1.0)
    assert (host.start(1.0), host.answers.responses.count) == (-1.0, 9)


def test_a_clock_jump_changes_only_the_arrival_times_of_later_tuples() -> None:
    host = host_of(0.0, 1.0, networks=FREE, costs={})
    host.door.ingest(0.0)
    host.clock.offset_s = 10.0
    # After the jump, the clock shows 11 s. The first tuple arrived at 0 s, the second at 11 s.
    assert ages(host, 1.0) == pytest.approx((2, 5.5, 11))
