"""Utility and missed deadlines, for every way of adding answers, compared with a sum over single answers."""

from math import fsum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.classes.utility import UtilityGraph, UtilityPoint
from loadshed.utility import UtilityStatistics


@st.composite
def graphs(draw: st.DrawFn) -> UtilityGraph:
    latencies = sorted(draw(st.sets(st.integers(0, 500), min_size=1, max_size=6)))
    utilities = sorted(
        draw(st.lists(st.integers(0, 10), min_size=len(latencies), max_size=len(latencies))), reverse=True
    )
    return UtilityGraph(
        points=tuple(
            UtilityPoint(latency_ms=latency, utility=utility / 10)
            for latency, utility in zip(latencies, utilities, strict=True)
        )
    )


responses = st.lists(st.integers(0, 600).map(lambda ms: ms / 1e3), max_size=150)


@given(graphs(), responses, st.data())
def test_utility_and_missed_deadlines_counted_in_groups_equal_those_of_single_answers(
    graph: UtilityGraph, given_s: list[float], data: st.DataObject
) -> None:
    whole, part = UtilityStatistics(graph), UtilityStatistics(graph)
    at = 0
    while at < len(given_s):
        end = data.draw(st.integers(at + 1, len(given_s)))
        piece, into = given_s[at:end], data.draw(st.sampled_from([whole, part]))
        match data.draw(st.sampled_from(["list", "array", "same"])):
            case "list":
                into.add(piece)
            case "array":
                into.add_array(np.array(piece))
            case _:
                for one in piece:
                    into.add_same(one, 1)
        at = end
    whole.include(part)
    expected = fsum(graph.utility_at(one) for one in given_s)
    late = sum(one > graph.deadline_s for one in given_s)
    assert (whole.count, whole.missed) == (len(given_s), late)
    assert whole.sum == pytest.approx(expected)
    assert whole.mean == pytest.approx(expected / len(given_s) if given_s else 1.0)
    assert whole.missed_pct == pytest.approx(100 * late / len(given_s) if given_s else 0.0)
