"""What the gain comes from (§IV-C): S_c beside a machine on which neither a call nor a turn costs anything."""

from __future__ import annotations

from configs.scenario.scenario import QueryNetwork, Scenario, load_scenario
from sim.papers.claim import Chart, Experiment, ExperimentOutcome, Finding
from sim.papers.dilos.runs import RUNS, fared

# Class 1's on S_c when nothing is lent: what its tuples cost is what trains of this length cost.
SHORT_TRAIN = 2.5


def run_trains(quick: bool) -> ExperimentOutcome:
    """The same with a machine on which calls and turns cost nothing: a tuple always costs what it does in short trains."""
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
                "DILoS gains by batches: where neither a call nor a turn costs anything, lending takes from one what it gives to "
                "another",
                "(no figure)",
                f"all classes together lose {alone.all_lost_pct:.1f}% without lending and {dilos.all_lost_pct:.1f}% with it; where "
                f"calls are free {free_alone.all_lost_pct:.1f}% and {free.all_lost_pct:.1f}%",
                gain > 0 and abs(free_gain) <= gain / 10,
                rule="where calls are free lending changes the loss of all by at most a tenth of what it saves otherwise",
            ),
            Finding(
                "§IV-C",
                "The more tuples an operator processes in a batch, the lower the cost of a tuple",
                "(no figure)",
                f"with lending class 1's tuples cost {cheaper:.1%} less; where calls are free {abs(free_cheaper):.1%}",
                cheaper >= 0.05 and abs(free_cheaper) < 0.01,
                rule="lending makes class 1's tuples at least 5% cheaper; where calls are free it changes less than 1%",
            ),
            Finding(
                "§IV-C, criterion 2",
                "What is lent goes to class 2 before class 3, also where calls are free and there is not enough for both",
                "always",
                f"class 2 sheds {shed:.1%} while class 3 holds {borrowed:.2f} more than its own",
                shed < 0.01 or borrowed <= 0,
                rule="over the second half class 2 sheds less than 1%, or class 3 has borrowed nothing",
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
    """What a call costs is put on its tuples, as if all trains were short; turns cost nothing."""
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
    "S_c where neither a call nor a turn costs anything",
    run_trains,
    "As S_c, five runs of 60 s (quick: one of 20 s), beside a machine on which calls and turns cost nothing and a tuple always what "
    "it does in trains of 2.5, class 1's own when nothing is lent.",
)
