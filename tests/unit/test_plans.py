"""From a scenario's networks to boxes, and what they are expected to cost against what a run measures."""

import random
from collections import Counter
from typing import Any

import pytest
from pydantic import TypeAdapter

from configs.problems import InvalidInput
from configs.scenario import Costs, NetworkModel
from sim.networks import Box, Plan, build_plan
from tests.sim.scenarios import (
    aggregate,
    constant,
    join,
    lookup,
    poisson,
    project,
    queries,
    ran,
    scenario,
    select,
    tenant,
)

COSTS = Costs(call_us=20, source_tuple_us=3)
PAIRS = {"p": queries(pairs=[join(2, 0.1, 0.1, match_ms=0.2)])}


def plan(network: Any, costs: Costs = COSTS, seed: int = 1, cost_scale: float = 1.0) -> Plan:
    model: NetworkModel = TypeAdapter[NetworkModel](NetworkModel).validate_python(network)
    return build_plan(model, costs, random.Random(seed), cost_scale)


def sharaf(count: int, **settings: Any) -> dict[str, Any]:
    return {"kind": "sharaf", "queries": count} | settings


def shape(boxes: list[Box]) -> list[tuple[str, str, int | None]]:
    return [(box.name, box.query, box.partner) for box in boxes]


# -- written queries ---------------------------------------------------------------------------------------


def test_every_stream_has_one_source_that_feeds_all_its_readers() -> None:
    made = plan(queries(few=[select(0.5, 1), project(2)], pairs=[join(1, 0.1, 1)], all=[project(1)]))
    assert shape(made.boxes) == [
        ("source:s", "", None),
        ("source:t", "", None),
        ("few.select", "few", None),
        ("few.project", "few", None),
        ("pairs.join.left", "pairs", 5),
        ("pairs.join.right", "pairs", 4),
        ("all.project", "all", None),
    ]
    assert made.downstream == [[2, 4, 6], [5], [3], [], [], [], []]
    assert made.entries == {"s": [0], "t": [1]}
    assert made.readers == {3: ("s",), 4: ("s", "t"), 5: ("s", "t"), 6: ("s",)}
    assert made.network().sources == (0, 1)
    assert made.network().roots == (3, 4, 5, 6)


def test_what_follows_a_join_is_fed_by_both_its_sides() -> None:
    made = plan(queries(pairs=[join(1, 0.1, 1), project(2)]))
    assert made.downstream == [[2], [3], [4], [4], []]
    assert made.readers == {4: ("s", "t")}


def test_an_operators_own_call_cost_goes_before_the_machines() -> None:
    made = plan(
        queries(
            own=[project(1) | {"call_us": 7}], machines=[project(2)], none=[select(1, 0) | {"call_us": 0}]
        )
    )
    assert [(box.call_s, box.tuple_s) for box in made.boxes] == [
        pytest.approx(pair) for pair in [(20e-6, 3e-6), (7e-6, 1e-3), (20e-6, 2e-3), (0, 0)]
    ]


def test_a_join_of_a_stream_with_itself_has_one_source() -> None:
    network = queries(pairs=[join(1, 0.1, 1)])
    network["queries"][0]["reads"] = ["s", "s"]
    made = plan(network)
    assert (made.entries, made.downstream) == ({"s": [0]}, [[1, 2], [], []])


# -- Sharaf's testbed --------------------------------------------------------------------------------------


def test_a_testbed_query_has_its_own_queue_and_three_operators_of_one_cost() -> None:
    made = plan(sharaf(40), Costs())
    assert made.entries == {"tuples": list(range(0, 120, 3))}
    assert made.network().sources == tuple(range(0, 120, 3))
    for place in range(40):
        chain = made.boxes[3 * place : 3 * place + 3]
        assert [box.name for box in chain] == [
            f"Q{place + 1}.{kind}" for kind in ("select", "lookup", "project")
        ]
        assert made.downstream[3 * place : 3 * place + 3] == [[3 * place + 1], [3 * place + 2], []]
        assert len({box.tuple_s for box in chain}) == 1
        first, second = (
            estimate.selectivity for estimate in made.estimates(1, {})[3 * place : 3 * place + 2]
        )
        assert first == second


def test_testbed_costs_double_from_class_to_class_and_selectivities_come_in_percent() -> None:
    made = plan(sharaf(2000, cost_classes=3, tuple_us=10, selectivity_min=0.2, selectivity_max=0.4), Costs())
    costs = Counter(round(box.tuple_s * 1e6, 9) for box in made.boxes[::3])
    assert set(costs) == {10, 20, 40}
    assert min(costs.values()) > 2000 / 3 * 0.85
    drawn = Counter(estimate.selectivity for estimate in made.estimates(1, {})[::3])
    assert set(drawn) == {percent / 100 for percent in range(20, 41)}


def test_the_testbed_is_the_same_for_the_same_seed_and_scales_all_its_costs() -> None:
    one, other = plan(sharaf(20), Costs()), plan(sharaf(20), Costs(), cost_scale=2.5)
    assert one == plan(sharaf(20), Costs())
    assert one != plan(sharaf(20), Costs(), seed=2)
    assert shape(other.boxes) == shape(one.boxes)
    assert [box.tuple_s for box in other.boxes] == pytest.approx([2.5 * box.tuple_s for box in one.boxes])


# -- what a plan expects, by hand ----------------------------------------------------------------------------


def test_a_call_is_shared_by_the_tuples_of_a_train() -> None:
    made = plan(queries(all=[project(1)]))
    for train, cost in ((1, 1020e-6), (10, 1002e-6), (20, 1001e-6)):
        assert made.estimates(train, {"s": 5})[1].cost_s == pytest.approx(cost)


def test_results_of_windows_and_joins_cost_and_count_by_the_rates() -> None:
    made = plan(
        queries(sums=[aggregate(2, 8, 1, result_ms=0.5)], pairs=[join(0.5, 0.01, 1, match_ms=0.25)]), Costs()
    )
    sums, left, right = made.estimates(1, {"s": 100, "t": 40})[2:]
    # 8 results every 200 tuples; a tuple of s meets 0.5·40 of t, one of t 0.5·100 of s.
    assert (sums.selectivity, sums.cost_s) == pytest.approx((0.04, 1e-3 + 0.04 * 0.5e-3))
    assert (left.selectivity, left.cost_s) == pytest.approx((0.2, 1e-3 + 0.2 * 0.25e-3))
    assert (right.selectivity, right.cost_s) == pytest.approx((0.5, 1e-3 + 0.5 * 0.25e-3))


def test_what_passes_an_operator_decides_how_often_the_next_ones_results_come() -> None:
    made = plan(queries(sums=[select(0.25, 1), aggregate(2, 8, 1)]), Costs())
    assert made.estimates(1, {"s": 100})[2].selectivity == 8 / 50


def test_a_stream_slower_than_the_slides_has_one_set_of_results_a_tuple() -> None:
    made = plan(queries(sums=[aggregate(0.1, 3, 1)]), Costs())
    assert [made.estimates(1, {"s": rate})[1].selectivity for rate in (0, 0.5, 5, 10, 20)] == [
        0,
        3,
        3,
        3,
        1.5,
    ]


# -- what a plan expects, against a run ------------------------------------------------------------------------

NETWORKS = {
    "chain": (queries(one=[select(0.4, 0.3), lookup(2.5, 0.2), project(0.1)]), poisson),
    "shared": (
        queries(one=[select(0.9, 0.2)], two=[project(0.1), select(0.1, 0.5)], three=[project(0.2)]),
        poisson,
    ),
    "aggregate": (queries(one=[aggregate(0.5, 6, 0.3, result_ms=0.4), select(0.5, 0.2)]), poisson),
    "sparse": (queries(one=[select(0.02, 0.3), aggregate(0.1, 6, 0.3, result_ms=4), project(1)]), constant),
    "join": (queries(one=[join(1.5, 0.02, 0.3, match_ms=0.1), select(0.3, 0.4)]), poisson),
    "join then aggregate": (queries(one=[join(1, 0.05, 0.2), aggregate(1, 4, 0.1, result_ms=1)]), poisson),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_run_takes_the_processor_time_that_its_plan_expects(name: str) -> None:
    network, arrivals = NETWORKS[name]
    streams = {"s": arrivals(150), "t": arrivals(60)} if "join" in name else {"s": arrivals(150)}
    settings = scenario(
        tenant("c", streams), networks={"n": network}, seconds=80, train_max=1, selection="even"
    )
    run = ran(settings)
    expected = run.hosts["c"].plan.load(1, run.hosts["c"].rates)
    assert 0.05 < expected < 0.95
    # What varies is how many tuples a Poisson stream has.
    assert run.busy_s / run.now == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("selection", ["random", "even"])
def test_measured_costs_and_selectivities_come_to_what_the_plan_expects(selection: str) -> None:
    network = queries(
        chain=[select(0.4, 0.05), lookup(2.5, 0.1), project(0.2)],
        sums=[aggregate(0.5, 20, 0.1, result_ms=0.02)],
        pairs=[join(0.5, 0.02, 0.1, match_ms=0.05)],
    )
    streams = {"s": constant(400), "t": constant(100)}
    settings = scenario(
        tenant("c", streams), networks={"n": network}, seconds=25, train_max=1, selection=selection
    )
    host = ran(settings).hosts["c"]
    expected, measured = host.plan.estimates(1, host.rates), host.scheduler.statistics.estimates
    assert measured != expected
    for want, got in zip(expected, measured, strict=True):
        assert got.cost_s == pytest.approx(want.cost_s, rel=0.1)
        assert got.selectivity == pytest.approx(want.selectivity, rel=0.25 if selection == "random" else 0.1)


# -- the load a class declares ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "sparse"])
def test_a_class_that_declares_its_offered_load_asks_for_that_much(name: str) -> None:
    network, arrivals = NETWORKS[name]
    streams = {"s": arrivals(10), "t": arrivals(4)} if "join" in name else {"s": arrivals(10)}
    settings = scenario(
        tenant("c", streams, offered_load=0.6),
        networks={"n": network},
        seconds=25,
        train_max=1,
        load_at_train=1,
        selection="even",
    )
    assert (run := ran(settings)).busy_s / run.now == pytest.approx(0.6, rel=0.05)


def test_an_offered_load_is_meant_at_the_given_trains() -> None:
    network = {"n": queries(all=[project(0.1)])}
    costs = {"call_us": 900, "source_tuple_us": 0}
    class_ = tenant("c", {"s": constant(1)}, offered_load=0.5)
    rates = [
        ran(scenario(class_, networks=network, costs=costs, load_at_train=train, seconds=1))
        .hosts["c"]
        .rates["s"]
        for train in (1, 100)
    ]
    # Source and projection together: 2·900 + 100 µs alone, 2·9 + 100 µs in a train of a hundred.
    assert rates == [pytest.approx(0.5 / 1900e-6), pytest.approx(0.5 / 118e-6)]


def test_the_testbed_scales_its_costs_to_the_tuples_that_really_come() -> None:
    bursts = {"kind": "bursts", "rate": 20, "on_s": 1, "off_s": 2, "alpha": 1.2}
    settings = scenario(
        tenant("c", {"tuples": bursts}, offered_load=0.3, network="testbed"),
        networks={"testbed": sharaf(20)},
        seconds=100,
        train_max=1,
        load_at_train=1,
        selection="even",
        drain=True,
    )
    assert ran(settings).busy_s / 100 == pytest.approx(0.3, rel=0.05)


def test_a_load_that_no_rate_gives_is_refused() -> None:
    free = {"n": queries(all=[select(0.5, 0)])}
    with pytest.raises(InvalidInput, match=r"c\.offered_load: no rate gives such a load"):
        ran(scenario(tenant("c", {"s": constant(1)}, offered_load=0.5), networks=free))
    results_only = {"n": queries(all=[aggregate(1, 1, 0, result_ms=1)])}
    with pytest.raises(InvalidInput, match="no rate gives such a load"):
        ran(scenario(tenant("c", {"s": constant(1)}, offered_load=0.5), networks=results_only))
