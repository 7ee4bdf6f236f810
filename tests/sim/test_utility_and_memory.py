"""The figures that a run reports: utility of its answers, missed deadlines, tardiness, and memory of its queues."""

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


def test_utility_is_read_from_the_graph_of_the_class_and_answers_after_the_deadline_are_missed() -> None:
    # The response times are 100, 200 and 300 ms, with utilities 1, 3/4 and 1/4.
    _, found = answered(queries(q=[project(100)]), 0, 0, 0, utility=FALLS)
    assert found["utility"] == pytest.approx(
        {"mean": 2 / 3, "lost": 1 / 3, "of_queries": 2 / 3, "missed": 2, "missed_pct": 200 / 3}, abs=1e-6
    )


def test_without_a_graph_utility_is_zero_from_twice_the_target() -> None:
    _, found = answered(queries(q=[project(100)]), 0, 0, 0, delay_target_ms=150)
    assert (found["utility"]["mean"], found["utility"]["missed"]) == (
        pytest.approx((1 + 2 / 3 + 0) / 3, abs=1e-6),
        2,
    )


def test_the_utility_of_a_query_follows_its_own_graph_if_it_has_one() -> None:
    network = queries(one=[project(100)], other=[project(100)])
    network["queries"][1]["utility"] = LATER
    _, found = answered(network, 0, 0, utility=FALLS, policy={"kind": "rr"})
    # The two queries run alternately: `one` answers after 100 and 300 ms, `other` after 200 and 400 ms.
    shown = {name: (one["results"], one["utility"], one["missed"]) for name, one in found["queries"].items()}
    assert shown == {"one": (2, 0.625, 1), "other": (2, 0.5, 1)}
    assert found["utility"]["of_queries"] == 0.5625


def test_each_query_has_its_own_response_times_slowdown_and_staleness() -> None:
    network = queries(one=[project(100)], other=[project(50), project(50)])
    run, found = answered(network, 0, policy={"kind": "hr"}, delay_target_ms=150)
    # Both queries need 100 ms for an answer. Query `one` runs first, because its operator has the lower number.
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
                "unevenness": 0.0,
            },
            rel=1e-5,
        )
        for name, response_s, worth, missed in (("one", 0.1, 1.0, 0), ("other", 0.2, 2 / 3, 1))
    }


def test_each_operator_that_answers_has_the_utility_of_its_own_graph() -> None:
    boxes = [
        {"name": name, "stream": "s", "tuple_us": 100_000, "utility": graph}
        for name, graph in (("one", FALLS), ("other", LATER), ("other", FALLS))
    ]
    _, found = answered({"kind": "operators", "operators": boxes}, 0, policy={"kind": "rr"})
    assert [*found["queries"]] == ["one", "other", "other#2"]
    # The responses take 100, 200 and 300 ms.
    # By the QoS graph FALLS, the first and last answer have utilities 1 and 1/4. By LATER, the second answer has utility 1.
    shown = [(one["mean_ms"], one["utility"]) for one in found["queries"].values()]
    assert shown == [pytest.approx(one) for one in ((100, 1), (200, 1), (300, 0.25))]


def test_tardiness_is_reported_only_for_queries_with_windows() -> None:
    network = queries(window=[aggregate(0.1, groups=2, ms=150)], plain=[project(0)])
    _, found = answered(network, 0.05, 0.15, 0.25)
    shown = found["queries"]["window"]["tardiness"]
    assert shown == pytest.approx({"due": 4, "tardy": 4, "mean_ms": 125}, rel=1e-3)
    assert found["queries"]["plain"]["tardiness"] is None


def test_if_a_window_is_no_multiple_of_its_slide_answers_are_tardy_one_pane_after_its_end() -> None:
    # A range of 0.25 s and a slide of 0.1 s make panes of 0.05 s.
    window = aggregate(0.1, groups=1, ms=75) | {"range_s": 0.25}
    _, found = answered(queries(window=[window]), 0.05, 0.15)
    late = {"due": 1, "tardy": 1, "mean_ms": 25, "max_ms": 25}
    assert found["tardiness"] == pytest.approx(late, rel=1e-3)


def test_answers_of_a_window_are_tardy_one_slide_after_its_end() -> None:
    # The second and third tuple close the windows that end at 0.1 and 0.2 s. Their answers take 200 and 250 ms.
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


def test_memory_counts_the_output_size_of_operators() -> None:
    network = queries(q=[project(100) | {"size_out": 5.0}, project(100)])
    run, found = answered(network, 0, 0.15)
    assert found["memory"]["max"] == 6
    # Each tuple takes 1 unit of memory for 100 ms, then 5 units for 100 ms. The second tuple also waits for 50 ms with 1 unit.
    assert found["memory"]["mean"] * run.now == pytest.approx(0.1 + 0.5 + 0.05 + 0.1 + 0.5, abs=1e-5)


@pytest.mark.parametrize(
    ("times_s", "unevenness"), [([second + 0.5 for second in range(10)], 0.0), ([4.5] * 10, 3.0)]
)
def test_answers_that_leave_together_are_more_uneven_than_steady_answers(
    times_s: list[float], unevenness: float
) -> None:
    one = tenant("c", {"s": at(*times_s)})
    run = ran(scenario(one, networks={"n": queries(q=[project(1)])}, train_max=1, adaptive=False))
    (found,) = results(run, "as configured")["classes"]
    expected = pytest.approx(unevenness, abs=1e-6)
    assert found["unevenness"] == {"mean": expected, "max": expected}
    assert found["queries"]["q"]["unevenness"] == expected
