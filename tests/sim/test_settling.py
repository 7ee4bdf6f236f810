"""Answers that are handed out at settle points, as live: with what came of one train, whichever operator answered first."""

from __future__ import annotations

from typing import Any

import pytest

from configs.reading import parse_model
from configs.scenario import Scenario
from sim.results import results
from sim.simulation import Simulation


def run(settles: bool, policy: str) -> dict[str, Any]:
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
