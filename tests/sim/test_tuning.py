"""A class that tunes itself, in virtual time.

If an operator call has a fixed cost, theory may recommend a policy that is not the best. The class finds the best policy.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from configs.classes.objectives import Objective, candidates
from configs.classes.policies import Automatic, ClassPolicy, policy_text
from configs.scenario.scenario import AggregateBox, QueryModel, QueryNetwork, Scenario
from configs.yaml_loading import parse_model
from loadshed.responses import ResponseStatistics
from sim.forecast.policy_forecast import ObjectiveFigures, Queues, objective_value
from sim.policy_tuning import operators_of
from sim.simulation import Simulation
from tests.support.scenarios import constant, queries, ran, scenario, tenant

# Answers before second LEARNS_S do not count, because the class is still comparing policies.
EVERY_S, LEARNS_S = 5.0, 25.0


def workload(seed: int, call_us: float, seconds: float) -> Scenario:
    """Return a scenario of six queries over two bursty streams, at a load of 0.9 with trains of ten tuples."""
    chance = random.Random(seed)
    queries = []
    for number in range(6):
        select = {
            "selectivity": round(chance.uniform(0.05, 1), 2),
            "tuple_us": chance.choice([20, 50, 100, 400]),
        }
        lookup = {
            "selectivity": round(chance.uniform(0.2, 2), 2),
            "tuple_us": chance.choice([20, 50, 200, 800]),
        }
        operators: list[dict[str, Any]] = [
            {"kind": "select"} | select,
            {"kind": "lookup"} | lookup,
            {"kind": "project", "tuple_us": chance.choice([20, 50, 100])},
        ]
        queries.append({"name": f"q{number}", "reads": [chance.choice("ab")], "operators": operators})
    streams = sorted({str(one["reads"][0]) for one in queries})
    arrivals = {"kind": "bursts", "rate": 100, "on_s": 0.5, "off_s": 0.3}
    declared = {
        "name": "testbed",
        "seconds": seconds,
        "drain": True,
        "train_max": 50,
        "queue_max": 100_000_000,
        "load_at_train": 10,
        "costs": {"call_us": call_us, "source_tuple_us": 5},
        "networks": {"n": {"kind": "queries", "queries": queries}},
        "classes": [
            {
                "name": "c",
                "priority": 1,
                "delay_target_ms": 1000,
                "network": "n",
                "offered_load": 0.9,
                "streams": {stream: {"arrivals": arrivals} for stream in streams},
            }
        ],
    }
    return parse_model(Scenario, declared)


def outcome(scenario: Scenario, objective: Objective, policy: ClassPolicy) -> tuple[float, Simulation]:
    """Return the value of the objective for the answers after LEARNS_S, and the run."""
    declared = scenario.classes[0].model_copy(update={"policy": policy, "objective": objective})
    queues, begun = Queues(), list[float]()

    def look(run: Simulation) -> None:
        if run.now < LEARNS_S:
            return
        if not begun:
            begun.append(run.now)
            run.hosts["c"].answers.responses = ResponseStatistics(1.0)
        queues.look(run)

    run = Simulation(scenario.model_copy(update={"classes": (declared,)}), "none", on_cycle=look).run()
    value = objective_value(objective, ObjectiveFigures(run.hosts["c"].answers.responses, queues.mean))
    assert value is not None
    return value, run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "call_us", "objective"),
    [(0, 300.0, "response"), (2, 300.0, "slowdown"), (1, 0.0, "response"), (2, 300.0, "memory")],
)
def test_a_self_tuning_class_reaches_its_objective_to_within_a_tenth_of_the_best_policy(
    seed: int, call_us: float, objective: Objective
) -> None:
    scenario = workload(seed, call_us, seconds=100.0)
    of = partial(outcome, scenario, objective)
    every = {policy_text(policy): of(policy)[0] for policy in candidates(objective)}
    found, run = of(Automatic(every_s=EVERY_S))
    told = "\n".join(one.sentence() for one in run.tunings["c"].core.explanations)
    assert found <= 1.1 * min(every.values()), f"{found} of {every}\n{told}"


@pytest.mark.slow
def test_if_calls_are_expensive_a_self_tuning_class_switches_to_a_policy_with_longer_trains() -> None:
    # A call costs far more than a tuple, so policies under which long trains gather are better.
    scenario = workload(0, 300.0, seconds=16.0)
    _, run = outcome(scenario, "response", Automatic(every_s=EVERY_S))
    told = list(run.tunings["c"].core.explanations)
    assert [one.branch for one in told] == ["consider", "consider", "switch"]
    assert told[-1].policy == "hr"
    assert told[-1].after in ("brt:clusters=12", "bsd:clusters=12", "lsf:clusters=12")
    assert run.hosts["c"].door.closes()


def test_a_class_tuned_for_tardiness_is_measured_by_the_lateness_of_its_windows() -> None:
    scenario = workload(0, 300.0, seconds=1.5)
    network = scenario.networks["n"]
    assert isinstance(network, QueryNetwork)
    window = AggregateBox(kind="aggregate", range_s=0.1, slide_s=0.05, tuple_us=50)
    of_windows = QueryModel(name="window", reads=("a",), operators=(window,))
    changed = network.model_copy(update={"queries": (*network.queries, of_windows)})
    declared = scenario.classes[0].model_copy(
        update={"policy": Automatic(every_s=1.0), "objective": "tardiness"}
    )
    both = {"classes": (declared,), "networks": {"n": changed}}
    run = Simulation(scenario.model_copy(update=both), "none").run()
    (explained,) = run.tunings["c"].core.explanations
    late = run.hosts["c"].answers.tardiness()
    assert late is not None
    assert explained.measured is not None
    assert 0 < explained.measured <= late["max_ms"]
    assert set(explained.forecasts) == {policy_text(one) for one in candidates("tardiness")}


@pytest.mark.slow
def test_tardiness_is_forecast_for_a_window_that_closes_once_in_1500_tuples() -> None:
    # A window closes every 1,500 tuples.
    # Measurements over 100 tuples usually contain no end of a window, so they look as if no window ever closed.
    window = {"kind": "aggregate", "range_s": 2, "slide_s": 1, "groups": 4, "tuple_us": 20, "result_us": 5000}
    one = tenant("c", {"s": constant(1500)}, policy={"kind": "auto", "every_s": 1.9}, objective="tardiness")
    run = ran(scenario(one, networks={"n": queries(window=[window])}, seconds=2), "none")
    told = list(run.tunings["c"].core.explanations)
    assert [len(compared.forecasts) for compared in told] == [len(candidates("tardiness"))]
    (box,) = (one for one in operators_of(run.hosts["c"]) if one.slack_s is not None)
    assert box.cost.selectivity == pytest.approx(4 / 3000, rel=0.01)
    assert box.cost.tuple_s == pytest.approx(20e-6 + 5e-3 * 4 / 3000, rel=0.01)


@pytest.mark.parametrize("objective", ["staleness", "utility"])
def test_a_class_tuned_for_staleness_or_utility_is_measured_by_that_objective(
    objective: Objective,
) -> None:
    scenario = workload(0, 300.0, seconds=EVERY_S + 0.5)
    changed = {"policy": Automatic(every_s=EVERY_S), "objective": objective, "delay_target_ms": 50.0}
    declared = scenario.classes[0].model_copy(update=changed)
    run = Simulation(scenario.model_copy(update={"classes": (declared,)}), "none").run()
    (explained,) = run.tunings["c"].core.explanations
    assert explained.measured is not None
    assert 0 < explained.measured < 1
    assert set(explained.forecasts) == {policy_text(one) for one in candidates(objective)}
