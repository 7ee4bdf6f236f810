"""What a run says its answers were worth, how many came late and by how much, and how much memory its queues took."""

from typing import Any

import pytest

from sim.outcome.results import results
from sim.simulation import Simulation
from tests.support.scenarios import Data, aggregate, at, project, queries, ran, scenario, tenant

FALLS = [{"latency_ms": 150, "utility": 1.0}, {"latency_ms": 350, "utility": 0.0}]
LATER = [{"latency_ms": 250, "utility": 1.0}, {"latency_ms": 260, "utility": 0.0}]


def answered(network: Data, *times_s: float, **settings: Any) -> tuple[Simulation, dict[str, Any]]:
    one = tenant("c", {"s": at(*times_s)}, **settings)
    run = ran(scenario(one, networks={"n": network}, seconds=1, drain=True, train_max=1, adaptive=False))
    (found,) = results(run, "as configured")["classes"]
    return run, found


def test_answers_are_worth_what_the_class_says_and_are_late_after_its_deadline() -> None:
    # After 100, 200 and 300 ms: 1, 3/4 and 1/4.
    _, found = answered(queries(q=[project(100)]), 0, 0, 0, utility=FALLS)
    assert found["utility"] == pytest.approx(
        {"mean": 2 / 3, "lost": 1 / 3, "of_queries": 2 / 3, "missed": 2, "missed_pct": 200 / 3}, abs=1e-6
    )


def test_without_a_graph_answers_are_worth_nothing_from_twice_the_target_on() -> None:
    _, found = answered(queries(q=[project(100)]), 0, 0, 0, delay_target_ms=150)
    assert (found["utility"]["mean"], found["utility"]["missed"]) == (
        pytest.approx((1 + 2 / 3 + 0) / 3, abs=1e-6),
        2,
    )


def test_a_query_may_have_a_graph_of_its_own() -> None:
    network = queries(one=[project(100)], other=[project(100)])
    network["queries"][1]["utility"] = LATER
    _, found = answered(network, 0, 0, utility=FALLS, policy={"kind": "rr"})
    # In turn: the one after 100 and 300 ms, the other after 200 and 400.
    told = {name: (one["results"], one["utility"], one["missed"]) for name, one in found["queries"].items()}
    assert told == {"one": (2, 0.625, 1), "other": (2, 0.5, 1)}
    assert found["utility"]["of_queries"] == 0.5625


def test_each_query_has_its_own_response_times_slowdown_and_staleness() -> None:
    network = queries(one=[project(100)], other=[project(50), project(50)])
    run, found = answered(network, 0, policy={"kind": "hr"}, delay_target_ms=150)
    # The second's last operator answers soonest once it has been begun; the first has the lower number.
    assert [one.pop("tardiness") for one in found["queries"].values()] == [None, None]
    assert found["queries"] == {
        name: pytest.approx(
            {
                "results": 1,
                "mean_ms": response_s * 1e3,
                "deadline_ms": 150,
                "slowdown": response_s / 0.1,
                "utility": worth,
                "missed": missed,
                "staleness": response_s / run.now,
            },
            rel=1e-5,
        )
        for name, response_s, worth, missed in (("one", 0.1, 1.0, 0), ("other", 0.2, 2 / 3, 1))
    }


def test_operators_that_name_no_query_are_each_valued_by_their_own_graph() -> None:
    boxes = [
        {"name": name, "stream": "s", "tuple_us": 100_000, "utility": graph}
        for name, graph in (("one", FALLS), ("other", LATER), ("other", FALLS))
    ]
    _, found = answered({"kind": "operators", "operators": boxes}, 0, policy={"kind": "rr"})
    assert [*found["queries"]] == ["one", "other", "other#2"]
    # After 100, 200 and 300 ms: by FALLS 1 and 1/4; by LATER 1.
    told = [(one["mean_ms"], one["utility"]) for one in found["queries"].values()]
    assert told == [pytest.approx(one) for one in ((100, 1), (200, 1), (300, 0.25))]


def test_tardiness_is_told_by_query_where_there_are_windows() -> None:
    network = queries(window=[aggregate(0.1, groups=2, ms=150)], plain=[project(0)])
    _, found = answered(network, 0.05, 0.15, 0.25)
    told = found["queries"]["window"]["tardiness"]
    assert told == pytest.approx({"due": 4, "tardy": 4, "mean_ms": 125}, rel=1e-3)
    assert found["queries"]["plain"]["tardiness"] is None


def test_a_window_that_its_slide_does_not_divide_is_tardy_a_pane_after_it_fell_due_as_live() -> None:
    # Of 0.25 and 0.1 s the panes are of 0.05 s.
    window = aggregate(0.1, groups=1, ms=75) | {"range_s": 0.25}
    _, found = answered(queries(window=[window]), 0.05, 0.15)
    late = {"due": 1, "tardy": 1, "mean_ms": 25, "max_ms": 25}
    assert found["tardiness"] == pytest.approx(late, rel=1e-3)


def test_answers_of_a_window_are_tardy_a_slide_after_they_fell_due() -> None:
    # The windows that end at 0.1 and 0.2 s are closed by the second and third tuple, answered after 200 and 250 ms.
    network = queries(window=[aggregate(0.1, groups=2, ms=150)], plain=[project(0)])
    _, found = answered(network, 0.05, 0.15, 0.25)
    assert found["tardiness"] == pytest.approx(
        {"due": 4, "tardy": 4, "mean_ms": 125, "max_ms": 150}, rel=1e-3
    )
    _, found = answered(queries(plain=[project(100)]), 0.05)
    assert found["tardiness"] is None


def test_a_tuple_takes_memory_from_its_arrival_to_its_answer() -> None:
    run, found = answered(queries(q=[project(100)]), 0, 0, 0)
    assert found["memory"]["max"] == 3
    assert found["memory"]["mean"] * run.now == pytest.approx(0.1 * (3 + 2 + 1), abs=1e-5)


def test_memory_goes_by_the_size_of_what_an_operator_gives() -> None:
    network = queries(q=[project(100) | {"size_out": 5.0}, project(100)])
    run, found = answered(network, 0, 0.15)
    assert found["memory"]["max"] == 6
    # The first is of size 1 for 100 ms and of size 5 for another 100; the second, that comes meanwhile, waits for 50.
    assert found["memory"]["mean"] * run.now == pytest.approx(0.1 + 0.5 + 0.05 + 0.1 + 0.5, abs=1e-5)
