"""Cost per tuple of a stream. The cost is measured at the stream's operators, or taken from similar operators or calibrated defaults."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from engine.class_.explain import PlanLine
from sim.forecast.operator_costs import COSTS, OTHER, Cost, like, likes, measured, meet, stream_costs


def line(
    number: int, name: str, *feeds: int, tuples: int = 0, calls: int = 0, us: float = 1.0, kept: float = 1.0
) -> PlanLine:
    return PlanLine(number, name, feeds, ("q",), tuples, us, kept, 0.0, 0, calls)


def test_the_cost_per_tuple_is_the_measured_cost_without_the_known_cost_of_a_call() -> None:
    known = COSTS["filter"].call_s
    found = measured(line(0, "filter", tuples=100_000, calls=1000, us=1.0, kept=0.3))
    assert astuple(found) == pytest.approx((known, 1e-6 - known / 100, 0.3))


def test_the_cost_of_a_call_is_capped_for_short_trains() -> None:
    found = measured(line(0, "filter", tuples=5000, calls=5000, us=5.0))
    assert astuple(found) == pytest.approx((4.5e-6, 0.5e-6, 1.0))


def test_costs_of_similar_operators_are_averaged_by_tuples() -> None:
    busy = line(0, "panes", tuples=30_000, calls=10, us=0.4)
    quiet = line(1, "panes", tuples=10_000, calls=10, us=0.8)
    fresh = line(2, "panes", tuples=10, calls=10, us=99.0)
    each = [measured(busy), measured(quiet)]
    expected = (3 * each[0].tuple_s + each[1].tuple_s) / 4
    assert likes([busy, quiet, fresh])["panes"].tuple_s == pytest.approx(expected)


def test_a_new_filter_is_assumed_to_cost_as_much_as_running_filters_and_to_keep_the_default_part() -> None:
    known = {"filter": Cost(1e-5, 1e-8, 0.01)}
    assert like(line(0, "filter"), known) == Cost(1e-5, 1e-8, COSTS["filter"].selectivity)
    assert like(line(0, "panes"), known) == COSTS["panes"]
    assert like(line(0, "unheard_of"), known) == OTHER
    assert like(line(0, "table:sensors"), known) == COSTS["table"]


def test_the_cost_of_a_stream_is_the_sum_over_its_operators() -> None:
    lines = [line(0, "source:S", 1, 2), line(1, "filter", 3), line(2, "project"), line(3, "project")]
    costs = [Cost(1.0, 0.1), Cost(2.0, 0.2, 0.5), Cost(4.0, 0.4), Cost(8.0, 0.8)]
    (found,) = stream_costs(lines, costs)
    assert (found.stream, found.operators) == ("s", 4)
    assert found.call_s == pytest.approx(1 + 2 + 4 + 8)
    assert found.tuple_s == pytest.approx(0.1 + 0.2 + 0.4 + 0.5 * 0.8)
    assert found.answers == pytest.approx(0.5 + 1.0)


def test_the_call_cost_of_a_stream_weights_each_operator_by_its_counted_calls() -> None:
    lines = [line(0, "source:s", 1, calls=100), line(1, "panes", 2, calls=100), line(2, "window", calls=5)]
    costs = [Cost(1.0, 0.0), Cost(2.0, 0.0, 0.0), Cost(4.0, 0.0)]
    assert stream_costs(lines, costs)[0].call_s == pytest.approx(1 + 2 + 0.05 * 4)


def test_the_call_cost_of_a_stream_assumes_rare_calls_for_windows_without_counted_calls() -> None:
    lines = [line(0, "source:s", 1), line(1, "panes", 2), line(2, "window", 3), line(3, "project")]
    costs = [Cost(1.0, 0.0), Cost(2.0, 0.0, 0.0), Cost(4.0, 0.0), Cost(8.0, 0.0)]
    assert stream_costs(lines, costs)[0].call_s == pytest.approx(1 + 2 + 0.01 * 12)


def test_each_stream_of_a_join_has_the_costs_of_its_own_side() -> None:
    lines = [
        line(0, "source:a", 2),
        line(1, "source:b", 3),
        line(2, "join.left"),
        line(3, "join.right"),
    ]
    costs = [Cost(1.0, 0.1), Cost(1.0, 0.1), Cost(2.0, 0.2, 3.0), Cost(5.0, 0.5, 4.0)]
    left, right = stream_costs(lines, costs)
    assert (left.stream, right.stream) == ("a", "b")
    assert (left.call_s, left.tuple_s, left.answers) == pytest.approx((3.0, 0.3, 3.0))
    assert (right.call_s, right.tuple_s, right.answers) == pytest.approx((6.0, 0.6, 4.0))
    assert meet(lines)
    assert not meet(lines[:2])
