"""Results of scenarios of periodic queries under every schedule: the figures of the parts add up to the
figures of the whole.

1. Answers of sub-groups add up to those of their group, and answers of groups to those of the whole; the same
   holds for runs and processor time.
2. A query that runs separately has a run per answer; without a sharing schedule nothing is shared.
3. The processor is never used for longer than the run lasts.
4. No query has a period longer than its slide, and the period of an exact query equals its slide.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.scenario.periodic_scenario import PeriodicScenario, checked_periodic
from configs.scenario.scenario_files import ScenarioData
from sim.windows.periodic_results import compare

INTERVALS = st.sampled_from([0.1, 0.5, 1.0, 3.0])


@st.composite
def queries(draw: st.DrawFn, interval_s: float) -> dict[str, Any]:
    window = draw(st.integers(1, 20))
    return {
        "range_s": window * interval_s,
        "slide_s": draw(st.integers(1, window)) * interval_s,
        "at_most": draw(st.integers(0, 3)) > 0,
    }


@st.composite
def scenarios(draw: st.DrawFn) -> PeriodicScenario:
    groups: dict[str, Any] = {}
    synopses: dict[str, Any] = {}
    for place in range(draw(st.integers(1, 3))):
        interval_s = draw(INTERVALS)
        synopses[f"s{place}"] = {
            "interval_s": interval_s,
            "rate": 10,
            "tuple_us": draw(st.sampled_from([0, 5000])),
        }
        costs = draw(
            st.sampled_from(
                [
                    {"kind": "scan", "interval_us": 2000, "call_us": 1000, "answer_us": 500},
                    {"kind": "scan", "interval_us": 100_000},
                    {"kind": "counts", "distinct": 50, "count_us": 100, "answering": 0.1},
                ]
            )
        )
        listed = draw(st.lists(queries(interval_s), min_size=1, max_size=5))
        named = [one | {"name": f"q{number}"} for number, one in enumerate(listed)]
        groups[f"g{place}"] = {"synopsis": f"s{place}", "costs": costs, "queries": named}
    data = {
        "kind": "periodic",
        "name": "drawn",
        "seconds": draw(st.sampled_from([0.5, 10, 40])),
        "schedule": {"kind": "hybrid", "eager": draw(st.booleans())},
        "synopses": synopses,
        "groups": groups,
    }
    return checked_periodic(ScenarioData("periodic", data, "scenario.yaml"))


@given(scenarios())
def test_figures_of_groups_and_sub_groups_add_up_under_every_schedule(scenario: PeriodicScenario) -> None:
    for one in compare(scenario, scenario.seed)["schedules"]:
        groups = one["groups"]
        for key in ("queries", "answers", "runs", "shared"):
            assert one[key] == sum(group[key] for group in groups)
        assert one["busy_s"] == pytest.approx(sum(group["busy_s"] for group in groups), abs=1e-5)
        for group in groups:
            for key in ("queries", "answers"):
                assert group[key] == sum(sub[key] for sub in group["sub_groups"])
            for sub in group["sub_groups"]:
                assert 0 < sub["period_s"] <= sub["slide_s"]
                assert sub["at_most"] or sub["period_s"] == sub["slide_s"]
        assert one["utilisation"] <= 1 + 1e-6
        assert one["shared"] <= one["runs"] <= one["answers"]
        if one["schedule"] == "none:tasks=query":
            assert one["runs"] == one["answers"]
        if one["settings"]["kind"] == "none":
            assert one["shared"] == 0
            assert one["shortened_pct"] == 0
