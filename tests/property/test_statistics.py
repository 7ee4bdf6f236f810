"""Estimates of an operator's selectivity stay near the real value, however rarely the operator emits and
however long its trains are.
"""

from __future__ import annotations

from math import ceil
from statistics import fmean

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.operators.network import Estimate
from scheduler.operators.statistics import OperatorStatistics

FOLDS = 400


@given(
    selectivity=st.floats(1e-6, 0.9),
    train=st.integers(1, 10_000),
    guess=st.sampled_from([0.5, 1e-3, 1e-9]),
    seed=st.integers(0, 2**32),
)
def test_the_selectivity_estimate_stays_near_the_real_selectivity(
    selectivity: float, train: int, guess: float, seed: int
) -> None:
    statistics = OperatorStatistics([Estimate(1e-6, guess)])
    chance = np.random.default_rng(seed)
    window = max(100.0, 1 / selectivity)
    size = max(train, ceil(window / 20))
    believed = []
    for given_out in chance.binomial(size, selectivity, ceil(FOLDS * max(window / size, 1))):
        statistics.observe(0, size, int(given_out), 1e-6 * size)
        believed.append(statistics.estimates[0].selectivity)
    later = believed[len(believed) // 4 :]
    assert selectivity / 8 < min(later) <= max(later) < 8 * selectivity
    assert fmean(later) < 1.5 * selectivity
    assert fmean(later) > selectivity / 1.5
