"""Cause of the gain by DILoS (§IV-C): set-up S_c, compared with the same set-up on a machine on which calls and turns cost nothing."""

from __future__ import annotations

from bench.papers.claim import Chart, Experiment, ExperimentOutcome, Finding
from bench.papers.dilos.runs import RUNS, fared
from configs.scenario.scenario import QueryNetwork, Scenario, load_scenario

# Train length at which tuples cost as much as class 1's tuples in set-up S_c without lending.
SHORT_TRAIN = 2.5


def run_trains(quick: bool) -> ExperimentOutcome:
    """Run the set-up S_c (constant rates) as it is, and on a machine where calls and turns cost nothing, and tuples always cost as much as in short trains."""
    scenario = load_scenario("dilos-sc").model_copy(update={"seconds": 20.0 if quick else 60.0})
    runs = 1 if quick else RUNS
    alone, dilos = (fared(scenario, manager, runs) for manager in ("per-class", "dilos"))
    free_alone, free = (fared(free_calls(scenario), manager, runs) for manager in ("per-class", "dilos"))
    gain = alone.all_lost_pct - dilos.all_lost_pct
    free_gain = free_alone.all_lost_pct - free.all_lost_pct
    end_s = scenario.seconds
    shed = free.over("class2", "drop", end_s / 2, end_s)
    borrowed = free.over("class3", "share", end_s / 2, end_s) - 0.1
    cheaper, free_cheaper = (
        1 - dilos.cost_us[0] / alone.cost_us[0],
        1 - free.cost_us[0] / free_alone.cost_us[0],
    )
    return ExperimentOutcome(
        (
            Finding(
                "§IV-C",
                "DILoS gains because batches grow: if calls and turns cost nothing, lending only takes from one class what it gives to "
                "another",
                "(no figure)",
                f"all classes together lose {alone.all_lost_pct:.1f}% without lending and {dilos.all_lost_pct:.1f}% with it; with "
                f"free calls {free_alone.all_lost_pct:.1f}% and {free.all_lost_pct:.1f}%",
                gain > 0 and abs(free_gain) <= gain / 10,
                rule="with free calls, lending changes the loss of all classes by at most a tenth of what it saves otherwise",
            ),
            Finding(
                "§IV-C",
                "The more tuples an operator processes in a batch, the lower the cost of a tuple",
                "(no figure)",
                f"lending makes class 1's tuples {cheaper:.1%} cheaper; with free calls their cost changes by {abs(free_cheaper):.1%}",
                cheaper >= 0.05 and abs(free_cheaper) < 0.01,
                rule="lending makes class 1's tuples at least 5% cheaper; with free calls their cost changes by less than 1%",
            ),
            Finding(
                "§IV-C, criterion 2",
                "Lent capacity goes to class 2 before class 3, also with free calls and too little capacity for both",
                "always",
                f"class 2 sheds {shed:.1%} while class 3 holds {borrowed:.2f} more than its own share",
                shed < 0.01 or borrowed <= 0,
                rule="over the second half of the run, class 2 sheds less than 1%, or class 3 has borrowed nothing",
            ),
        ),
        (
            Chart(
                "Lost by all classes together",
                "",
                "lost, %",
                bars={
                    "load managers alone": alone.all_lost_pct,
                    "with lending": dilos.all_lost_pct,
                    "free calls, load managers alone": free_alone.all_lost_pct,
                    "free calls, with lending": free.all_lost_pct,
                },
            ),
        ),
    )


def free_calls(scenario: Scenario) -> Scenario:
    """Return the scenario with the cost of calls moved to tuples, as if all trains were short; turns cost nothing."""
    more_us = scenario.costs.call_us / SHORT_TRAIN
    network = scenario.networks["w11"]
    assert isinstance(network, QueryNetwork)
    queries = tuple(
        query.model_copy(
            update={
                "operators": tuple(
                    operator.model_copy(update={"tuple_us": operator.tuple_us + more_us})
                    for operator in query.operators
                )
            }
        )
        for query in network.queries
    )
    costs = scenario.costs.model_copy(
        update={
            "call_us": 0.0,
            "source_tuple_us": scenario.costs.source_tuple_us + more_us,
            "turn_us": 0.0,
            "decision_us": 0.0,
        }
    )
    networks = {"w11": network.model_copy(update={"queries": queries})}
    return scenario.model_copy(update={"costs": costs, "networks": networks})


EXPERIMENT = Experiment(
    "dilos",
    "dilos-trains",
    "S_c if calls and turns cost nothing",
    run_trains,
    "S_c in five runs of 60 s (quick: one run of 20 s), compared with a machine on which calls and turns cost nothing. There, a tuple "
    "always costs as much as in trains of 2.5 tuples, the length of class 1's trains without lending.",
    seeds=RUNS,
)
