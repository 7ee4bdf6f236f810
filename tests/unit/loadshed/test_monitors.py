"""The two monitors behind ALoMa's decision: offered load, and the verdict on the response times."""

import pytest

from loadshed.cycle import InputCycle, OutputCycle
from loadshed.monitors import LoadMonitor, ResponseMonitor, Verdict

CYCLE_S = 0.15


def rates(*offered: int, batch: int = 0) -> list[float]:
    """Return the estimated rate after each load cycle.

    `offered` has the number of tuples for each cycle. The tuples arrive in batches of `batch` tuples; 0 means one by one.
    """
    monitor, seen = LoadMonitor(), []
    for tuples in offered:
        batches = tuples // batch if batch else 0
        monitor.offered_load([InputCycle("readings", tuples, 0.001, batches=batches)], CYCLE_S)
        seen.append(round(monitor.rate("readings"), 1))
    return seen


def output(
    mean_s: float, query: str = "q", waiting_s: float = 0.0, results: int = 1, target_s: float = 0.3
) -> OutputCycle:
    return OutputCycle(query, target_s, results, mean_s, waiting_s)


def silent(waiting_s: float = 0.0, query: str = "q") -> OutputCycle:
    return OutputCycle(query, 0.3, 0, 0.0, waiting_s)


# --- monitor of the offered load ------------------------------------------------------------------


def test_the_offered_load_is_the_work_of_all_inputs_per_second() -> None:
    inputs = [InputCycle("readings", 150, 0.001), InputCycle("alerts", 30, 0.002)]
    assert LoadMonitor().offered_load(inputs, CYCLE_S) == pytest.approx(1000 * 0.001 + 200 * 0.002)


def test_a_jump_of_the_arrival_rate_changes_the_estimated_rate_at_once() -> None:
    assert rates(150, 600, 150) == [1000.0, 4000.0, 1000.0]


def test_noise_of_the_arrival_rate_is_smoothed() -> None:
    assert rates(150, 162, 138) == [1000.0, 1014.0, 997.5]


def test_a_change_of_the_arrival_rate_within_the_noise_moves_the_estimated_rate_slowly() -> None:
    assert rates(150, *[165] * 40)[-1] == pytest.approx(1100.0, abs=1)


@pytest.mark.parametrize("before", [1, 5, 1000])
def test_the_rate_of_a_silent_input_decays_to_zero(before: int) -> None:
    after = rates(before, *[0] * 60)
    assert after == sorted(after, reverse=True)
    assert after[-1] == 0.0


def test_the_estimated_rate_stays_steady_although_batches_are_uneven() -> None:
    # Three batches come in every two cycles; now and then a batch is late.
    seen = rates(*[1500, 3000, 1500, 3000, 0, 4500, 1500, 3000, 3000, 1500] * 10, batch=1500)
    assert min(seen[20:]) > 0.75 * 2250 / CYCLE_S
    assert max(seen[20:]) < 1.25 * 2250 / CYCLE_S


def test_the_estimated_rate_stays_steady_although_batches_are_rare() -> None:
    # One batch comes every seven cycles, which is about one per second.
    seen = rates(*[15_000, 0, 0, 0, 0, 0, 0] * 30, batch=15_000)
    mean = 15_000 / (7 * CYCLE_S)
    assert min(seen[70:]) > 0.4 * mean
    assert max(seen[70:]) < 2 * mean


def test_a_jump_in_the_rate_of_batches_changes_the_estimated_rate_at_once() -> None:
    assert rates(*[1500] * 5, 6000, batch=1500)[-1] == 40_000.0


def test_a_cycle_without_duration_leaves_the_load_as_it_was() -> None:
    monitor, readings = LoadMonitor(), [InputCycle("readings", 150, 0.001)]
    first = monitor.offered_load(readings, CYCLE_S)
    assert [monitor.offered_load(readings, cycle_s) for cycle_s in (0.0, -1.0, 1e-320)] == [first] * 3
    assert monitor.offered_load(readings, CYCLE_S) == first


def test_there_is_no_load_before_the_first_cycle_with_a_duration() -> None:
    assert LoadMonitor().offered_load([InputCycle("readings", 150, 0.001)], 0.0) == 0.0


# --- monitor of the response times ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean_s", "verdict", "name"),
    [
        (0.15, Verdict(worst=0.5), "normal"),
        (0.3, Verdict(worst=1.0), "normal"),
        (0.309, Verdict(over_target=True, worst=1.03), "over target"),
        (0.33, Verdict(over_target=True, critical=True, worst=1.1), "critical"),
    ],
)
def test_a_mean_response_slightly_above_the_target_is_not_yet_called_critical(
    mean_s: float, verdict: Verdict, name: str
) -> None:
    seen = ResponseMonitor(gap=0.05).verdict([output(mean_s)], 0.0)
    assert (seen, seen.name) == (verdict, name)


def test_a_class_is_over_its_target_if_one_of_its_queries_is() -> None:
    outputs = [output(0.01, "a"), output(0.6, "b"), output(0.02, "c")]
    assert ResponseMonitor(gap=0.05).verdict(outputs, 0.0) == Verdict(
        over_target=True, critical=True, worst=2.0
    )


def test_each_output_is_judged_by_its_own_target() -> None:
    outputs = [output(0.4, "a", target_s=0.5), output(0.2, "b", target_s=0.1)]
    assert ResponseMonitor(gap=0.05).verdict(outputs, 0.0).worst == 2.0


def test_a_query_without_answers_whose_input_waits_is_as_late_as_its_oldest_waiting_tuple() -> None:
    seen = ResponseMonitor(gap=0.05).verdict([output(0.03, "a"), silent(0.6, "b")], 0.0)
    assert seen == Verdict(over_target=True, critical=True, worst=2.0)


def test_an_output_with_answers_is_judged_by_its_answers_only() -> None:
    assert ResponseMonitor(gap=0.05).verdict([output(0.03, waiting_s=9.0)], 0.0).worst == pytest.approx(0.1)


def test_a_query_without_answers_and_without_waiting_input_is_not_judged() -> None:
    monitor = ResponseMonitor(gap=0.05)
    monitor.verdict([output(0.6)], 0.0)
    assert monitor.verdict([silent()], 0.0) == Verdict()


def test_after_silence_a_response_is_compared_with_the_last_known_response() -> None:
    monitor = ResponseMonitor(gap=0.05)
    for outputs in ([output(0.4)], [silent()]):
        monitor.verdict(outputs, 0.0)
    assert monitor.verdict([output(0.2)], 0.0).falling


def test_a_mean_response_is_called_rising_or_falling_only_after_an_earlier_mean() -> None:
    monitor = ResponseMonitor(gap=0.05)
    seen = [monitor.verdict([output(mean_s)], 0.0) for mean_s in (0.1, 0.2, 0.2, 0.1)]
    assert [(one.rising, one.falling) for one in seen] == [
        (False, False),
        (True, False),
        (False, False),
        (False, True),
    ]


def test_a_response_of_twice_the_lowest_is_called_accumulating_only_if_a_queue_stands() -> None:
    def verdicts(queueing_s: float) -> list[str]:
        monitor = ResponseMonitor(gap=0.05)
        return [monitor.verdict([output(mean_s)], queueing_s).name for mean_s in (0.05, 0.09, 0.11)]

    assert verdicts(queueing_s=0.1) == ["normal", "normal", "accumulating"]
    assert verdicts(queueing_s=0.02) == ["normal", "normal", "normal"]


def test_a_class_over_its_delay_target_is_not_called_accumulating_as_well() -> None:
    monitor = ResponseMonitor(gap=0.05)
    monitor.verdict([output(0.01, "a"), output(0.01, "b")], 0.1)
    seen = monitor.verdict([output(0.2, "a"), output(0.6, "b")], 0.1)
    assert (seen.over_target, seen.accumulating) == (True, False)


def test_a_higher_response_time_that_lasts_is_called_normal_within_ten_seconds() -> None:
    monitor = ResponseMonitor(gap=0.05)
    monitor.verdict([output(0.05)], 0.1)
    names = [monitor.verdict([output(0.15)], 0.1).name for _ in range(60)]
    cycles = names.index("normal")
    assert names == ["accumulating"] * cycles + ["normal"] * (60 - cycles)
    assert 5 < cycles * CYCLE_S < 10


def test_the_response_of_each_query_is_compared_with_its_own_lowest_mean() -> None:
    monitor = ResponseMonitor(gap=0.05)
    monitor.verdict([output(0.01, "a"), output(0.1, "b")], 0.1)
    assert monitor.verdict([output(0.012, "a"), output(0.11, "b")], 0.1).name == "normal"
