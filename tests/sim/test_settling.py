"""Settle points: all answers to one train are delivered together, as in the live system.

Only if a slice ends before the work is done, finished answers are delivered earlier.
"""

from __future__ import annotations

from typing import Any

import pytest

from configs.scenario.scenario import Scenario
from configs.yaml_loading import parse_model
from sim.outcome.results import results
from sim.simulation import Simulation


def run(settles: bool, policy: str, round_ms: float = 10.0) -> dict[str, Any]:
    """Return the results of a run with a cheap and an expensive query on one stream, where two tuples arrive together."""
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
def test_answers_to_a_train_are_delivered_together(policy: str) -> None:
    found = run(settles=True, policy=policy)
    # The two queries take 5 ms per tuple. A call takes one tuple at a time.
    assert (found["results"], found["response_ms"]["mean"], found["response_ms"]["max"]) == (4, 7.5, 10.0)


def test_if_answers_are_not_held_for_a_settle_point_the_policy_decides_which_query_answers_first() -> None:
    assert run(settles=False, policy="hr")["response_ms"]["mean"] == 5.5
    assert run(settles=False, policy="fcfs")["response_ms"]["mean"] == 7.0


def test_if_a_slice_ends_midway_answers_of_a_finished_query_are_delivered() -> None:
    for policy in ("hr", "fcfs"):
        settled, at_once = (
            run(settles=settles, policy=policy, round_ms=0.5)["response_ms"] for settles in (True, False)
        )
        assert settled == at_once
