"""One class host, driven by hand as a lane drives it."""

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
    """A host whose stream `s` has tuples at the given times; a source tuple costs 1 ms."""
    given = tenant("c", {"s": at(*times_s)}, victim=victim)
    given["streams"]["s"] |= {"late_fraction": late, "keys": keys}
    return hosted(scenario(given, networks=networks, **{"costs": {"source_tuple_us": 1000}} | settings))


def costs(host: SimulatedHost, now: float) -> list[float]:
    """Run until nothing has input; what each call cost."""
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


# -- calls and trains ----------------------------------------------------------------------------------------


def test_a_host_without_input_does_not_start() -> None:
    host = host_of(1.0)
    host.door.ingest(0.5)
    assert (host.start(0.5), host.has_input(), host.is_empty(), host.door.next_arrival) == (
        -1.0,
        False,
        True,
        1.0,
    )


def test_a_call_takes_the_whole_queue_and_costs_by_the_tuple() -> None:
    host = host_of(0.0, 0.0, 0.0, networks=TWO_STEPS)
    assert costs(host, 0.0) == pytest.approx([0.003, 0.03, 0.06])
    assert host.door.ledger() == ledger(offered=3, delivered=3)
    assert host.answers.responses.response_ms()["mean"] == pytest.approx(93)


def test_a_train_is_no_longer_than_allowed_and_the_rest_waits_its_turn() -> None:
    host = host_of(*[0.0] * 5, train_max=2)
    # Sources come last: what was let in is done before more is.
    assert costs(host, 0.0) == pytest.approx([0.002, 0.02, 0.002, 0.02, 0.001, 0.01])


def test_a_call_costs_once_whatever_the_train() -> None:
    host = host_of(0.0, 0.0, 0.0, costs={"call_us": 500, "source_tuple_us": 1000})
    assert costs(host, 0.0) == pytest.approx([0.0035, 0.0305])


def test_operators_without_cost_pass_their_tuples_on() -> None:
    host = host_of(0.0, 0.0, networks={"n": queries(free=[project(0), select(1, 0)])}, costs={})
    assert costs(host, 1.5) == pytest.approx([0.0, 0.0, 0.0])
    assert (host.answers.responses.count, host.answers.responses.response_ms()["max"]) == (2, 1500)


def test_what_arrives_during_a_call_is_taken_in_after_it() -> None:
    host = host_of(0.0, 0.001, 0.0105, 0.05)
    assert costs(host, 0.0) == pytest.approx([0.001, 0.01, 0.002, 0.02])
    assert host.door.next_arrival == 0.05


def test_results_of_a_call_are_there_when_it_ends_and_not_before() -> None:
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


def test_slowdown_is_the_response_over_the_queries_own_cost() -> None:
    host = host_of(0.0, 0.0, train_max=1)
    costs(host, 0.0)
    # Each needs 11 ms; the second one waits for the first.
    assert host.answers.responses.slowdown() == pytest.approx({"mean": 1.5, "max": 2.0, "l2": 5**0.5})


def test_a_tuple_found_by_several_queries_is_one_tuple_and_several_answers() -> None:
    host = host_of(0.0, networks={"n": queries(one=[project(10)], two=[lookup(3, 10)])})
    costs(host, 0.0)
    assert (host.door.ledger(), host.answers.responses.count) == (ledger(offered=1, delivered=1), 4)


# -- the door ------------------------------------------------------------------------------------------------

FREE = {"n": queries(all=[project(0)])}


def ages(host: SimulatedHost, now: float) -> tuple[int, float, float]:
    """Answer all that is queued at once, where nothing costs: how many tuples, their mean age and the largest."""
    costs(host, now)
    answers = host.answers.responses.response_ms()
    return host.answers.responses.count, answers["mean"] / 1e3, answers["max"] / 1e3


def test_what_a_full_queue_cannot_hold_is_rejected() -> None:
    host = host_of(*[0.0] * 7, 1.0, queue_max=5)
    host.door.ingest(0.5)
    assert (host.door.ledger(), host.door.queued(host.door.entries[0])) == (ledger(offered=7, rejected=2), 5)
    costs(host, 0.5)
    host.door.ingest(1.0)
    costs(host, 1.0)
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=8, delivered=6, rejected=2), True)


def test_a_tuple_rejected_by_one_of_a_streams_queues_is_rejected_by_all() -> None:
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


def test_newest_sheds_arrivals_evenly_and_keeps_what_is_queued() -> None:
    host = host_of(*range(10), networks=FREE, victim="newest", costs={})
    host.door.set_keep(0.5)
    host.door.ingest(9.0)
    assert ages(host, 9.0) == pytest.approx((5, (9 + 7 + 5 + 3 + 1) / 5, 9))
    assert host.door.ledger() == ledger(offered=10, delivered=5, shed=5)


def test_oldest_sheds_the_head_of_the_queue_and_keeps_what_arrives() -> None:
    host = host_of(*range(10), networks=FREE, victim="oldest", costs={})
    host.door.set_keep(0.5)
    host.door.ingest(9.0)
    assert ages(host, 9.0) == pytest.approx((5, (4 + 3 + 2 + 1 + 0) / 5, 4))
    assert host.door.ledger() == ledger(offered=10, delivered=5, shed=5)


def test_oldest_sheds_the_arrival_itself_where_nothing_older_is_queued() -> None:
    host = host_of(0, 1, 2, 3, victim="oldest")
    host.door.set_keep(0.05)
    for now in range(4):
        costs(host, now)
    # The first one's drop was not due yet.
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=4, delivered=1, shed=3), True)


def three_queries(*times_s: float, tuple_us: float, **settings: Any) -> SimulatedHost:
    """Three queries, each with its own queue and three operators that keep everything."""
    network = {"kind": "sharaf", "queries": 3, "selectivity_min": 1, "cost_classes": 1, "tuple_us": tuple_us}
    given = tenant("c", {"tuples": at(*times_s)}, network="t", **settings)
    return hosted(scenario(given, networks={"t": network}, train_max=4))


def test_oldest_sheds_from_all_queues_of_a_stream_what_none_has_taken() -> None:
    arrivals = [number / 8 for number in range(20)]
    host = three_queries(*arrivals, tuple_us=1e-6, victim="oldest")
    host.door.ingest(arrivals[9])
    host.start(2.5)  # one query takes the first four
    host.finish(2.5)
    host.door.set_keep(0.5)
    host.door.ingest(2.5)
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=20, shed=5), True)
    # The fifth to the ninth go, for all three queries.
    answered = 3 * [2.5 - arrival for arrival in arrivals[:4] + arrivals[9:]]
    assert ages(host, 2.5) == pytest.approx((45, sum(answered) / 45, 2.5))
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=20, delivered=15, shed=5), True)


def test_random_sheds_each_arrival_by_its_own_coin() -> None:
    host = host_of(*range(4000), networks=FREE, costs={}, seconds=5000)
    host.door.set_keep(0.3)
    host.door.ingest(4000.0)
    count, mean_age, _ = ages(host, 4000.0)
    assert count / 4000 == pytest.approx(0.3, abs=0.03)
    assert mean_age == pytest.approx(2000, rel=0.1)
    assert host.door.ledger() == ledger(offered=4000, delivered=count, shed=4000 - count)


@pytest.mark.parametrize("keys", [1, 50])
def test_fair_keeps_the_fraction_once_it_has_seen_the_keys(keys: int) -> None:
    host = host_of(*(number / 1000 for number in range(8000)), victim="fair", keys=keys)
    host.door.set_keep(0.4)
    for second in range(1, 9):
        host.door.ingest(float(second))
        host.door.begin_cycle()
    assert host.door.ledger().shed / 8000 == pytest.approx(0.6, abs=0.04)
    assert host.door.closes()


class Witness(Shedder):
    """A shedder that remembers what it was shown."""

    def __init__(self) -> None:
        super().__init__("fair", np.random.default_rng(1))
        self.seen: Counter[int] = Counter()

    def admit(self, tuples: int, keys: Keys | None = None) -> Admission:
        self.seen.update(() if keys is None else keys.tolist())
        return super().admit(tuples, keys)


@pytest.mark.parametrize("keys", [1, 2, 5])
def test_the_keys_of_a_stream_are_as_many_as_it_says_and_skewed(keys: int) -> None:
    host = host_of(*range(8000), victim="fair", keys=keys, seconds=9000)
    witness = host.door.entries[0].shedder = Witness()
    host.door.ingest(8000.0)
    parts = {key: count / 8000 for key, count in sorted(witness.seen.items())}
    expected = {rank: math.log((rank + 1) / rank, keys + 1) for rank in range(1, keys + 1)}
    assert parts == pytest.approx(expected, abs=0.02)


# -- the load cycle ------------------------------------------------------------------------------------------


def test_a_cycle_reports_what_came_what_it_costs_and_how_long_it_took() -> None:
    host = host_of(0.0, 0.25, 0.5)
    costs(host, 0.0)
    costs(host, 0.25)
    host.door.ingest(0.5)
    cycle = host.end_cycle(0.625, 1.0)
    (entry,), (output,) = cycle.inputs, cycle.outputs
    assert (entry.stream, entry.offered, entry.waiting_s) == ("s", 3, 0.125)
    assert (output.query, output.results, output.target_s, output.waiting_s) == ("only", 2, 60, 0.125)
    # What one tuple costs, and takes: a millisecond to let it in, ten to work on.
    assert (entry.work_s, cycle.queued_work_s, output.mean_s) == pytest.approx((0.011, 0.011, 0.011))


def test_a_tuple_of_a_testbed_costs_what_every_query_makes_of_it() -> None:
    (entry,) = three_queries(0.0, tuple_us=1000).end_cycle(1.0, 1.0).inputs
    assert entry.work_s == pytest.approx(3 * 3 * 1e-3)


def test_a_cycle_begins_with_nothing_of_the_one_before() -> None:
    host = host_of(0.0)
    costs(host, 0.0)
    assert [one.results for one in host.end_cycle(1.0, 1.0).outputs] == [1]
    cycle = host.end_cycle(2.0, 1.0)
    assert ([one.offered for one in cycle.inputs], [one.results for one in cycle.outputs]) == ([0], [0])


def test_queued_work_counts_what_waits_inside_the_network_as_well() -> None:
    host = host_of(0.0, 0.0, networks={"n": queries(one=[select(0.5, 10), project(20)])}, selection="even")
    host.door.ingest(0.0)
    host.start(0.0)
    host.finish(0.002)
    # Two tuples wait for the filter, whose every second result takes 20 ms more.
    assert host.end_cycle(0.002, 1.0).queued_work_s == pytest.approx(2 * (0.01 + 0.5 * 0.02))


def test_shed_tuples_count_as_offered() -> None:
    host = host_of(*[0.0] * 10, victim="newest")
    host.door.set_keep(0.05)
    host.door.ingest(0.0)
    assert [one.offered for one in host.end_cycle(1.0, 1.0).inputs] == [10]


# -- faults --------------------------------------------------------------------------------------------------


def test_a_host_that_is_down_does_not_start_but_still_takes_input_in() -> None:
    host = host_of(0.0, 1.0)
    host.die(retained=True)
    host.door.ingest(1.0)
    assert (host.start(1.0), host.has_input(), host.queues.tuples()) == (-1.0, False, 2)
    assert host.end_cycle(3.0, 1.0).inputs[0].waiting_s == 3.0


def test_retained_input_is_worked_on_after_the_return_and_only_once() -> None:
    host = host_of(0.0, 0.0, train_max=1)
    host.door.ingest(0.0)
    host.start(0.0)
    host.finish(0.001)
    host.start(0.001)
    host.die(retained=True)
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=2, delivered=1), True)
    host.finish(0.011)  # the lane's call ends, but its host is gone
    assert (host.answers.responses.count, host.is_empty()) == (0, False)
    host.revive(rebuild_s=0.5)
    assert costs(host, 2.0) == pytest.approx([0.51, 0.001, 0.01])
    assert (host.door.ledger(), host.answers.responses.count) == (ledger(offered=2, delivered=2), 2)


def test_input_that_is_not_retained_has_failed_wherever_it_was() -> None:
    host = host_of(*[0.0] * 5, train_max=2)
    host.door.ingest(0.0)
    for now, cost in ((0.0, 0.002), (0.002, 0.02), (0.022, 0.002)):
        assert host.start(now) == pytest.approx(cost)
        host.finish(now + cost)
    host.start(0.024)  # two tuples are answered, two inside, one is queued
    host.die(retained=False)
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=5, delivered=2, failed=3), True)
    host.revive(rebuild_s=0)
    assert (host.start(1.0), host.is_empty(), host.answers.responses.count) == (-1.0, True, 2)


def test_a_train_that_was_being_let_in_fails_once() -> None:
    host = host_of(*[0.0] * 3, train_max=2)
    host.door.ingest(0.0)
    host.start(0.0)
    host.die(retained=False)
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=3, failed=3), True)


def test_no_tuple_of_a_testbed_fails_twice() -> None:
    host = three_queries(*[0.0] * 6, tuple_us=1000)
    host.door.ingest(0.0)
    host.start(0.0)
    host.finish(0.1)  # one query has taken four tuples, the two others none
    host.die(retained=False)
    assert (host.door.ledger(), host.door.closes()) == (ledger(offered=6, failed=6), True)


@pytest.mark.parametrize("dies_in_call", range(8))
def test_a_join_finds_every_pair_once_although_its_host_dies_in_the_middle(dies_in_call: int) -> None:
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


def test_a_clock_that_jumps_stamps_what_comes_and_not_what_came() -> None:
    host = host_of(0.0, 1.0, networks=FREE, costs={})
    host.door.ingest(0.0)
    host.clock.offset_s = 10.0
    # By the clock the first tuple is 11 s old, the second has just arrived.
    assert ages(host, 1.0) == pytest.approx((2, 5.5, 11))
