"""Measured costs and selectivities of operators: each is an average over windows of samples that ignores single outliers."""

import pytest

from scheduler.operators.network import Estimate
from scheduler.operators.statistics import OperatorStatistics

ALPHA, WINDOW = 0.175, 100


def starting_at(cost_s: float, selectivity: float, adaptive: bool = True) -> OperatorStatistics:
    return OperatorStatistics([Estimate(cost_s, selectivity)], adaptive)


def observe_costs(statistics: OperatorStatistics, *costs_s: float) -> list[float]:
    """Observe a whole window of equal samples for each cost. Return the estimated cost after each window."""
    believed = []
    for cost_s in costs_s:
        statistics.observe(0, WINDOW, WINDOW, WINDOW * cost_s)
        believed.append(statistics.estimates[0].cost_s)
    return believed


def assert_believed(statistics: OperatorStatistics, *expected: tuple[float, float]) -> None:
    assert [(one.cost_s, one.selectivity) for one in statistics.estimates] == [
        pytest.approx(one) for one in expected
    ]


def averaged(old: float, sample: float) -> float:
    return (1 - ALPHA) * old + ALPHA * sample


def test_estimates_of_an_operator_stay_unchanged_until_a_measurement_window_is_full() -> None:
    statistics = starting_at(1.0, 0.5)
    statistics.observe(0, 60, 60, 90.0)
    statistics.observe(0, 39, 0, 3.0)
    assert (statistics.estimates[0], statistics.changed) == (Estimate(1.0, 0.5), False)


def test_a_full_measurement_window_is_averaged_into_the_estimates_as_a_whole() -> None:
    statistics = starting_at(1.0, 0.5)
    statistics.observe(0, 60, 60, 50.0)
    statistics.observe(0, 60, 12, 58.0)
    assert_believed(statistics, (averaged(1.0, 108 / 120), averaged(0.5, 72 / 120)))
    assert statistics.changed


def test_measurements_are_reset_after_every_window() -> None:
    statistics = starting_at(1.0, 0.5)
    statistics.observe(0, 100, 100, 100.0)
    statistics.observe(0, 100, 0, 100.0)
    assert statistics.estimates[0].selectivity == pytest.approx(averaged(averaged(0.5, 1.0), 0.0))


def test_operators_are_measured_separately() -> None:
    statistics = OperatorStatistics([Estimate(1.0, 0.5), Estimate(2.0, 0.25)])
    statistics.observe(0, 50, 50, 50.0)
    statistics.observe(1, 99, 99, 99.0)
    statistics.observe(0, 50, 50, 50.0)
    assert_believed(statistics, (1.0, averaged(0.5, 1.0)), (2.0, 0.25))


def test_a_measurement_window_that_confirms_the_estimate_changes_nothing() -> None:
    statistics = starting_at(1.0, 0.5)
    statistics.observe(0, WINDOW, WINDOW // 2, 1.0 * WINDOW)
    assert (statistics.estimates[0], statistics.changed) == (Estimate(1.0, 0.5), False)


def test_a_single_cost_far_above_the_average_is_ignored() -> None:
    statistics = starting_at(1.0, 1.0)
    assert observe_costs(statistics, 5.0, 1.0, 5.0, 5.0, 1.0) == [1.0] * 5


def test_the_third_outlier_in_a_row_and_later_outliers_change_the_estimate() -> None:
    believed = observe_costs(starting_at(1.0, 1.0), 5.0, 5.0, 5.0, 5.0)
    third = averaged(1.0, 5.0)
    assert believed == pytest.approx([1.0, 1.0, third, averaged(third, 5.0)])


def test_an_ordinary_measurement_window_restarts_the_count_of_outliers_in_a_row() -> None:
    believed = observe_costs(starting_at(1.0, 1.0), 5.0, 5.0, 1.0, 5.0, 5.0)
    assert believed == [1.0] * 5


def test_the_selectivity_of_a_measurement_window_counts_even_if_its_cost_is_an_ignored_outlier() -> None:
    statistics = starting_at(1.0, 1.0)
    statistics.observe(0, WINDOW, 0, 5.0 * WINDOW)
    assert_believed(statistics, (1.0, averaged(1.0, 0.0)))


def test_a_cost_below_the_average_is_never_an_outlier() -> None:
    assert observe_costs(starting_at(1.0, 1.0), 0.01) == pytest.approx([averaged(1.0, 0.01)])


def test_a_cost_within_a_tenth_of_the_average_is_no_outlier() -> None:
    within, above = starting_at(1.0, 1.0), starting_at(1.0, 1.0)
    assert observe_costs(within, 1.09) == pytest.approx([averaged(1.0, 1.09)])
    assert observe_costs(above, 1.11) == [1.0]


def test_the_outlier_limit_grows_with_the_observed_spread() -> None:
    # After a sample 0.8 below the average, the standard deviation is 0.335. Samples more than 0.502 above the average are outliers.
    ordinary, far = starting_at(1.0, 1.0), starting_at(1.0, 1.0)
    (now,) = observe_costs(ordinary, 0.2)
    observe_costs(far, 0.2)
    assert observe_costs(ordinary, now + 0.50) == pytest.approx([averaged(now, now + 0.50)])
    assert observe_costs(far, now + 0.51) == pytest.approx([now])


def test_without_adaptation_the_initial_estimates_stay() -> None:
    statistics = starting_at(1.0, 0.5, adaptive=False)
    for _ in range(5):
        statistics.observe(0, 1000, 1000, 0.0)
    assert (statistics.estimates[0], statistics.changed) == (Estimate(1.0, 0.5), False)


def test_the_first_measured_call_without_tuples_replaces_the_initial_cost_estimate() -> None:
    statistics = starting_at(1e-6, 0.5)
    statistics.observe_call(0, 40, 2.0)
    assert_believed(statistics, (2.0, averaged(0.5, 40.0)))
    assert statistics.changed
    statistics.observe_call(0, 20, 1.8)
    assert_believed(statistics, (averaged(2.0, 1.8), averaged(averaged(0.5, 40.0), 20.0)))


def test_without_adaptation_calls_change_nothing() -> None:
    statistics = starting_at(1.0, 0.5, adaptive=False)
    statistics.observe_call(0, 40, 2.0)
    assert (statistics.estimates[0], statistics.changed) == (Estimate(1.0, 0.5), False)


def test_the_selectivity_of_an_operator_that_rarely_emits_stays_stable() -> None:
    statistics = starting_at(1e-6, 0.5)
    believed = []
    for train in range(3000):
        statistics.observe(0, 1000, train % 50 == 49, 1e-3)
        believed.append(statistics.estimates[0].selectivity)
    assert max(believed[1000:]) / min(believed[1000:]) < 2
    assert believed[-1] == pytest.approx(1 / 50_000, rel=0.5)


def test_an_operator_that_emits_unexpectedly_gets_a_new_selectivity_before_its_measurement_window_is_full() -> (
    None
):
    statistics = starting_at(1.0, 1e-9)
    for given in (0, 0.5, 0, 1, 0, 0.5):
        assert statistics.estimates[0].selectivity == 1e-9
        statistics.observe(0, 1000, given, 1000.0)
    assert_believed(statistics, (1.0, 2 / 6000))
    assert statistics.changed


def test_if_output_was_expected_the_estimate_stays_unchanged_until_the_measurement_window_is_full() -> None:
    statistics = starting_at(1.0, 1e-3)
    for given in (1, 1, 1, 0, 0, 0, 0, 0, 0):
        statistics.observe(0, 100, given, 100.0)
    assert_believed(statistics, (1.0, 1e-3))
    statistics.observe(0, 100, 0, 100.0)
    assert_believed(statistics, (1.0, averaged(1e-3, 3 / 1000)))
