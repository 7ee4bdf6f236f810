"""Answers that are handed out at settle points, as live: with what came of one train, whichever operator answered first, but where
a slice ends amid the work on it.
"""

from __future__ import annotations

from typing import Any

import pytest

from configs.scenario.scenario import Scenario
from configs.yaml_loading import parse_model
from sim.outcome.results import results
from sim.simulation import Simulation


def run(settles: bool, policy: str, round_ms: float = 10.0) -> dict[str, Any]:
    """A cheap and a dear query of one stream, on which two tuples come at a time."""
    project = {"kind": "project", "call_us": 0}
    queries = [
        {"name": "dear", "reads": ["s"], "operators": [project | {"tuple_us": 4000}]},
        {"name": "cheap", "reads": ["s"], "operators": [project | {"tuple_us": 1000}]},
    ]
    arrivals = {"kind": "trace", "times_s": [1.0, 1.0]}
    declared = {
        "name": "settling",
        "seconds": 2,
        "settles": settles,
        "round_ms": round_ms,
        "train_max": 1,
        "networks": {"n": {"kind": "queries", "queries": queries}},
        "classes": [
            {
                "name": "c",
                "priority": 1,
                "delay_target_ms": 100,
                "network": "n",
                "policy": {"kind": policy},
                "streams": {"s": {"arrivals": arrivals}},
            }
        ],
    }
    ended = Simulation(parse_model(Scenario, declared), "none").run()
    (found,) = results(ended, policy)["classes"]
    return dict(found)


@pytest.mark.parametrize("policy", ["hr", "fcfs"])
def test_answers_of_a_train_come_together(policy: str) -> None:
    found = run(settles=True, policy=policy)
    # Five milliseconds of work for each of the tuples, which are taken one by one.
    assert (found["results"], found["response_ms"]["mean"], found["response_ms"]["max"]) == (4, 7.5, 10.0)


def test_without_settling_the_policy_decides_who_answers_first() -> None:
    assert run(settles=False, policy="hr")["response_ms"]["mean"] == 5.5
    assert run(settles=False, policy="fcfs")["response_ms"]["mean"] == 7.0


def test_where_slices_end_amid_the_work_a_query_that_has_nothing_left_is_answered() -> None:
    for policy in ("hr", "fcfs"):
        settled, at_once = (
            run(settles=settles, policy=policy, round_ms=0.5)["response_ms"] for settles in (True, False)
        )
        assert settled == at_once
