"""Kinds of arrivals: number, spacing and order of the arrival times. Equal seeds give equal times."""

import itertools
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.scenario.arrivals import (
    Arrivals,
    BurstArrivals,
    ConstantArrivals,
    PoissonArrivals,
    RateStep,
    Stall,
    StepArrivals,
    TraceArrivals,
)
from sim.run.arrivals import CHUNK, arrival_chunks, pareto

CONSTANT = ConstantArrivals(kind="constant", rate=200)
POISSON = PoissonArrivals(kind="poisson", rate=200)
BURSTS = BurstArrivals(kind="bursts", rate=200, on_s=0.5, off_s=1.0, alpha=1.5)
EVEN_BURSTS = BurstArrivals(kind="bursts", rate=200, on_s=0.5, off_s=1.0, alpha=8)
STEPS = StepArrivals(kind="steps", steps=(RateStep(at_s=0, rate=300), RateStep(at_s=10, rate=100)))
TRACE = TraceArrivals(kind="trace", times_s=(0.0, 0.25, 0.25, 1.0), repeat=True)
EVERY_KIND = [
    pytest.param(one, id=one.kind) for one in (CONSTANT, POISSON, EVEN_BURSTS, BURSTS, STEPS, TRACE)
]


def times(
    settings: Arrivals, end_s: float, scale: float = 1.0, seed: int = 1, stalls: Sequence[Stall] = ()
) -> list[float]:
    return list(itertools.chain(*arrival_chunks(settings, random.Random(seed), scale, end_s, stalls)))


def test_tuples_that_arrive_together_share_the_first_arrival_time() -> None:
    alone = times(POISSON, 1.0)
    together = times(POISSON.model_copy(update={"together": 3}), 1.0)
    assert together[: len(alone)] == [alone[place - place % 3] for place in range(len(alone))]
    assert len(alone) <= len(together) < len(alone) + 3


def gaps(arrivals: Sequence[float]) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(arrivals)]


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def dispersion(arrivals: Sequence[float], window_s: float, end_s: float) -> float:
    """Count the arrivals in each window, and return the variance divided by the mean: 1 for Poisson arrivals, 0 for equal spacing."""
    counts = [0] * round(end_s / window_s)
    for at in arrivals:
        counts[min(int(at / window_s), len(counts) - 1)] += 1
    middle = mean(counts)
    return mean([(count - middle) ** 2 for count in counts]) / middle


# -- properties of every kind of arrivals ----------------------------------------------------------------


@pytest.mark.parametrize("settings", EVERY_KIND)
def test_arrivals_ascend_and_stay_before_the_end_of_the_run(settings: Arrivals) -> None:
    arrivals = times(settings, 30)
    assert arrivals == sorted(arrivals)
    assert arrivals[0] >= 0
    assert 29 < arrivals[-1] < 30


@pytest.mark.parametrize("settings", EVERY_KIND)
def test_all_chunks_but_the_last_are_full_and_no_chunk_is_empty(settings: Arrivals) -> None:
    sizes = [len(chunk) for chunk in arrival_chunks(settings, random.Random(1), 10, 30)]
    assert len(sizes) > 1 or settings is TRACE
    assert set(sizes[:-1]) <= {CHUNK}
    assert 0 < sizes[-1] <= CHUNK


@pytest.mark.parametrize("settings", EVERY_KIND)
def test_the_same_seed_gives_the_same_arrivals(settings: Arrivals) -> None:
    assert times(settings, 20, seed=7) == times(settings, 20, seed=7)


@pytest.mark.parametrize("settings", EVERY_KIND)
def test_another_seed_gives_other_arrivals_unless_the_arrivals_are_a_trace(settings: Arrivals) -> None:
    assert (times(settings, 20, seed=7) == times(settings, 20, seed=8)) == (settings is TRACE)


@pytest.mark.parametrize(
    ("settings", "expected", "sigmas"),
    [
        pytest.param(CONSTANT, 200 * 300, 0, id="constant"),
        pytest.param(POISSON, 200 * 300, 1, id="poisson"),
        # There are about 200 bursts of over 100 arrivals each, so the total varies up to 15 times as much as for Poisson arrivals.
        pytest.param(EVEN_BURSTS, 200 * 300, 15, id="bursts"),
        pytest.param(STEPS, 300 * 10 + 100 * 290, 0, id="steps"),
        pytest.param(TRACE, 4 * 300, 0, id="trace"),
    ],
)
@pytest.mark.parametrize("scale", [1, 2.5])
def test_the_number_of_arrivals_grows_in_proportion_to_the_scale(
    settings: Arrivals, expected: int, sigmas: float, scale: float
) -> None:
    # Scaling multiplies the rates, but not the times at which rates change and arrivals end.
    wanted = expected * scale
    assert abs(len(times(settings, 300, scale)) - wanted) <= 1 + 4 * sigmas * math.sqrt(wanted)


@pytest.mark.parametrize(
    "settings", [pytest.param(one, id=one.kind) for one in (CONSTANT, POISSON, BURSTS, TRACE)]
)
def test_the_long_run_rate_is_the_declared_mean_rate(settings: Arrivals) -> None:
    # The margin is wide, because the lengths of bursts have infinite variance, and so their mean converges slowly.
    assert len(times(settings, 3000)) / 3000 == pytest.approx(settings.mean_rate(), rel=0.15)


# -- constant rate ---------------------------------------------------------------------------------------


def test_a_constant_stream_is_equally_spaced() -> None:
    assert gaps(times(CONSTANT, 10)) == pytest.approx([1 / 200] * 1999, abs=1e-12)


def test_constant_streams_of_equal_rate_begin_at_different_times() -> None:
    first = [times(CONSTANT, 1, seed=seed)[0] for seed in range(20)]
    assert len(set(first)) == 20
    assert 0 <= min(first) < 0.001 < 0.004 < max(first) < 0.005


# -- Poisson arrivals ------------------------------------------------------------------------------------


def test_gaps_of_a_poisson_stream_are_exponential() -> None:
    found = gaps(times(POISSON, 500))
    for multiple in (0.1, 0.5, 1, 2, 4):
        longer = sum(gap > multiple / 200 for gap in found) / len(found)
        assert longer == pytest.approx(math.exp(-multiple), abs=4 * 0.5 / math.sqrt(len(found)))


def test_counts_of_a_poisson_stream_have_equal_mean_and_variance_at_every_scale() -> None:
    arrivals = times(POISSON, 500)
    assert dispersion(arrivals, 0.05, 500) == pytest.approx(1, abs=0.1)
    assert dispersion(arrivals, 1.0, 500) == pytest.approx(1, abs=0.3)


# -- bursts of arrivals ----------------------------------------------------------------------------------


def test_lengths_of_bursts_have_the_given_mean_and_a_pareto_tail() -> None:
    rng = random.Random(1)
    lengths = [pareto(0.5, 3.0, rng) for _ in range(50_000)]
    least = 0.5 * 2 / 3
    assert mean(lengths) == pytest.approx(0.5, rel=0.02)
    assert least <= min(lengths) < 1.001 * least
    for multiple in (1.5, 2, 4):
        beyond = sum(one > multiple * least for one in lengths) / len(lengths)
        assert beyond == pytest.approx(multiple**-3.0, abs=0.01)


def test_bursts_are_dense_and_the_time_between_bursts_is_silent() -> None:
    # About 200 times, 0.5 s with 600 arrivals per second are followed by 1 s without arrivals.
    found = gaps(times(EVEN_BURSTS, 300))
    silences = [gap for gap in found if gap > 0.5]
    assert 180 <= len(silences) <= 220
    assert mean(silences) == pytest.approx(1.0, rel=0.05)
    assert mean([gap for gap in found if gap <= 0.5]) == pytest.approx(1 / 600, rel=0.05)


def test_a_bursty_stream_begins_with_a_burst() -> None:
    assert times(EVEN_BURSTS, 0.1)[0] < 0.05


def test_bursts_with_heavy_tailed_lengths_are_bursty_at_every_time_scale() -> None:
    arrivals = times(BURSTS, 3000)
    assert dispersion(arrivals, 0.1, 3000) > 10
    assert dispersion(arrivals, 1.0, 3000) > 50
    # If the length of bursts had finite variance, windows ten times as long would have the same dispersion.
    assert dispersion(arrivals, 10.0, 3000) > 1.5 * dispersion(arrivals, 1.0, 3000)


# -- rates that change in steps --------------------------------------------------------------------------


def test_a_step_changes_the_spacing_exactly_at_its_time() -> None:
    settings = StepArrivals(kind="steps", steps=(RateStep(at_s=0, rate=10), RateStep(at_s=5, rate=40)))
    arrivals = times(settings, 10)
    before, after = [at for at in arrivals if at < 5], [at for at in arrivals if at >= 5]
    assert gaps(before) == pytest.approx([0.1] * (len(before) - 1))
    assert gaps(after) == pytest.approx([0.025] * (len(after) - 1))
    # When the rate grows to four times, the remaining time until the next arrival shrinks to a quarter.
    waited = (5 - before[-1]) * 10
    assert after[0] == pytest.approx(5 + (1 - waited) / 40)


def test_arrivals_pause_during_a_silent_step_and_then_continue() -> None:
    steps = (RateStep(at_s=0, rate=10), RateStep(at_s=1, rate=0), RateStep(at_s=3, rate=10))
    arrivals = times(StepArrivals(kind="steps", steps=steps), 4)
    assert len(arrivals) == 20
    assert [at for at in arrivals if 1 <= at < 3] == []
    assert arrivals[10:] == pytest.approx([at + 3 for at in arrivals[:10]])


def test_a_stream_that_begins_silent_starts_at_its_first_step_with_a_rate() -> None:
    settings = StepArrivals(kind="steps", steps=(RateStep(at_s=0, rate=0), RateStep(at_s=2, rate=5)))
    arrivals = times(settings, 4)
    assert len(arrivals) == 10
    assert 2 <= arrivals[0] <= 2.2


@st.composite
def steps(draw: st.DrawFn) -> StepArrivals:
    lengths = draw(st.lists(st.floats(0.01, 3), min_size=1, max_size=6))
    rates = draw(st.lists(st.sampled_from([0.0, 0.3, 1.0, 7.5, 40.0]), min_size=7, max_size=7))
    starts = [0.0, *itertools.accumulate(lengths)]
    return StepArrivals(
        kind="steps", steps=tuple(RateStep(at_s=at, rate=r) for at, r in zip(starts, rates, strict=False))
    )


@given(steps(), st.integers(0, 1000), st.floats(0.1, 20))
def test_the_number_of_arrivals_follows_the_sum_of_the_step_rates(
    settings: StepArrivals, seed: int, until: float
) -> None:
    ends = [one.at_s for one in settings.steps[1:]] + [math.inf]
    due = math.fsum(
        one.rate * max(0.0, min(end, until) - one.at_s) for one, end in zip(settings.steps, ends, strict=True)
    )
    assert abs(len(times(settings, until, seed=seed)) - due) <= 1 + 1e-6


# -- arrivals from a trace file --------------------------------------------------------------------------


def trace(*times_s: float, repeat: bool = False) -> TraceArrivals:
    return TraceArrivals(kind="trace", times_s=times_s, repeat=repeat)


def test_a_trace_is_replayed_unchanged() -> None:
    assert times(trace(0.0, 0.5, 0.5, 2.0), 10) == [0.0, 0.5, 0.5, 2.0]


def test_a_trace_is_cut_at_the_end_of_the_run() -> None:
    assert times(trace(0.0, 0.5, 0.5, 2.0), 2.0) == [0.0, 0.5, 0.5]


def test_a_repeated_trace_starts_again_at_the_time_of_its_last_arrival() -> None:
    assert times(trace(0.5, 2.0, repeat=True), 7) == [0.5, 2.0, 2.5, 4.0, 4.5, 6.0, 6.5]


def test_a_trace_scaled_by_two_is_replayed_twice_as_fast() -> None:
    assert times(trace(0.5, 2.0, repeat=True), 3, scale=2) == [0.25, 1.0, 1.25, 2.0, 2.25]


# -- stalls ------------------------------------------------------------------------------------------------------

SECONDLY = trace(*(number + 0.5 for number in range(10)))


def test_tuples_that_a_stall_collects_arrive_together_at_its_end() -> None:
    stalls = [Stall(at_s=2, for_s=3)]
    assert times(SECONDLY, 8, stalls=stalls) == [0.5, 1.5, 5.0, 5.0, 5.0, 5.5, 6.5, 7.5]


def test_a_producer_catches_up_at_its_rate_and_keeps_the_order_of_its_tuples() -> None:
    stalls = [Stall(at_s=2, for_s=3, catch_up_rate=2)]
    # Tuples are sent every half second from 5 s on. At 7.5 s, nothing older is left to send.
    assert times(SECONDLY, 9, stalls=stalls) == [0.5, 1.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.5]


def test_the_catch_up_rate_is_scaled_like_the_arrivals() -> None:
    stalls = [Stall(at_s=2, for_s=3, catch_up_rate=2)]
    arrivals = times(CONSTANT.model_copy(update={"rate": 1}), 20, scale=10, stalls=stalls)
    assert gaps([at for at in arrivals if 4.99 < at < 6.99]) == pytest.approx([1 / 20] * 39)


def test_a_producer_that_sleeps_sends_nothing_of_its_stall_later() -> None:
    stalls = [Stall(at_s=2, for_s=3, collects=False)]
    assert times(SECONDLY, 8, stalls=stalls) == [0.5, 1.5, 5.5, 6.5, 7.5]


def test_a_stall_interrupts_the_catching_up_after_an_earlier_stall() -> None:
    stalls = [Stall(at_s=1, for_s=3, catch_up_rate=2), Stall(at_s=4.75, for_s=2)]
    # The second stall ends at 6.75 s. By then, the tuples of 3.5, 4.5, 5.5 and 6.5 s have been collected.
    assert times(SECONDLY, 7, stalls=stalls) == [0.5, 4.0, 4.5, 6.75, 6.75, 6.75, 6.75]


def test_tuples_of_a_stall_beyond_the_end_of_the_run_do_not_arrive() -> None:
    assert times(SECONDLY, 8, stalls=[Stall(at_s=2, for_s=30)]) == [0.5, 1.5]


@st.composite
def stalls_of_a_run(draw: st.DrawFn) -> list[Stall]:
    at_s, drawn = 0.0, []
    for wait_s, for_s in draw(st.lists(st.tuples(st.floats(0.1, 3), st.floats(0.01, 2)), max_size=5)):
        rate = draw(st.none() | st.floats(20.5, 200))
        drawn.append(Stall(at_s=at_s + wait_s, for_s=for_s, catch_up_rate=rate))
        at_s = drawn[-1].end_s
    return drawn


@given(stalls_of_a_run(), st.integers(0, 1000))
def test_a_stalled_stream_sends_every_tuple_once_in_order_and_none_early_or_in_a_stall(
    stalls: list[Stall], seed: int
) -> None:
    made = times(POISSON.model_copy(update={"rate": 20}), 60, seed=seed)
    sent = times(POISSON.model_copy(update={"rate": 20}), 60, seed=seed, stalls=stalls)
    assert sent == sorted(sent)
    assert len(sent) <= len(made)
    assert all(later >= earlier for earlier, later in zip(made, sent, strict=False))
    assert not any(stall.at_s <= at < stall.end_s for at in sent for stall in stalls)
    first_s = stalls[0].at_s if stalls else math.inf
    assert [at for at in sent if at < first_s] == [at for at in made if at < first_s]


@given(stalls_of_a_run(), st.integers(0, 1000))
def test_a_producer_without_a_catch_up_rate_has_nothing_left_after_each_stall(
    stalls: list[Stall], seed: int
) -> None:
    at_once = [stall.model_copy(update={"catch_up_rate": None}) for stall in stalls]
    made = times(POISSON.model_copy(update={"rate": 20}), 30, seed=seed)
    moved = [next((stall.end_s for stall in at_once if stall.at_s <= at < stall.end_s), at) for at in made]
    assert times(POISSON.model_copy(update={"rate": 20}), 30, seed=seed, stalls=at_once) == [
        at for at in moved if at < 30
    ]
