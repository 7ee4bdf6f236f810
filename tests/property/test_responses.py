"""Response times and slowdowns that are computed from trains equal the response times and slowdowns of the single answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadshed.responses import ResponseStatistics

TIMES = st.lists(st.floats(0, 1e4), min_size=1, max_size=200)


@given(
    st.lists(st.tuples(TIMES, st.floats(1e-6, 10), st.just(0.0) | st.floats(0, 10)), min_size=1, max_size=5)
)
def test_response_statistics_collected_by_train_equal_those_of_single_answers(
    given_trains: list[tuple[list[float], float, float]],
) -> None:
    found, slowdowns = ResponseStatistics(), list[float]()
    for responses, ideal_s, apart_s in given_trains:
        found.add_array(np.array(responses), ideal_s, apart_s)
        slowdowns += [(one + apart_s) / ideal_s for one in responses]
    assert found.count == len(slowdowns)
    of_trains = found.slowdown()
    assert of_trains["mean"] == pytest.approx(math.fsum(slowdowns) / len(slowdowns))
    assert of_trains["max"] == pytest.approx(max(slowdowns))
    assert of_trains["l2"] == pytest.approx(math.sqrt(math.fsum(one * one for one in slowdowns)))
    every = [one for responses, *_ in given_trains for one in responses]
    assert found.response_ms()["mean"] == pytest.approx(1e3 * math.fsum(every) / len(every))
