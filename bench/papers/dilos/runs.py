"""Runs of the three classes under a manager, with results averaged over seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from configs.scenario.scenario import Scenario
from scheduler.ratios import mean
from sim.outcome.results import results
from sim.series import ClassSeries
from sim.simulation import Simulation

NAMES = ("class1", "class2", "class3")
# Number of runs per experiment, as in the paper (§V).
RUNS = 5
# Seconds after which three redistributions have happened. Earlier losses are due to capacity that was not lent yet.
SETTLED_S = 5.0

MACHINE = (
    "One processor. An operator call costs 24 µs plus 12–21 µs per tuple, and handing the processor to the next class costs 40 µs. Three "
    "classes have priorities 6 : 3 : 1 and delay targets of 300, 400, 500 ms; each has five window aggregates, two window joins and four "
    "selects. A load cycle takes 150 ms, and every tenth cycle ends with a redistribution."
)

TIMES_DIFFER = (
    "the paper gives no cost of a call or of a tuple, and its machine is another. The costs here give each class about the paper's "
    "part of the capacity, but not the paper's times"
)

OnCycle = Callable[[Simulation], None]


@dataclass(kw_only=True)
class ManagerRuns:
    """Results of the three classes under one manager. Figures are means over all runs, which differ in their seeds."""

    scenario: Scenario
    answers: Sequence[Mapping[str, Any]]
    series: Sequence[Mapping[str, ClassSeries]]
    """Figures of each class over time, by run."""
    costs_us: Sequence[Sequence[float]]
    """Processor time per delivered tuple of each class, by run."""
    shed_settled: Sequence[int]
    """Tuples that each class shed after `SETTLED_S`, summed over all runs."""
    end_s: float
    """Time at which the first run ended, when all queues were empty if the scenario drains them."""

    def _mean(self, value: Callable[[Mapping[str, Any]], float]) -> list[float]:
        return [
            mean([value(answer["classes"][place]) for answer in self.answers]) for place in range(len(NAMES))
        ]

    @property
    def loss_pct(self) -> list[float]:
        return self._mean(lambda class_: class_["loss_pct"])

    @property
    def all_lost_pct(self) -> float:
        """Percentage of all input that was shed, over all classes together."""
        classes = [class_ for answer in self.answers for class_ in answer["classes"]]
        lost: int = sum(class_["shed"] for class_ in classes)
        offered: int = sum(class_["offered"] for class_ in classes)
        return 100 * lost / offered

    @property
    def mean_ms(self) -> list[float]:
        return self._mean(lambda class_: class_["response_ms"]["mean"])

    @property
    def p95_ms(self) -> list[float]:
        return self._mean(lambda class_: class_["response_ms"]["p95"])

    @property
    def cost_us(self) -> list[float]:
        """Processor time per delivered tuple, by class."""
        return [mean(costs) for costs in zip(*self.costs_us, strict=True)]

    def over(self, name: str, column: str, begin_s: float, end_s: float) -> float:
        """Return the mean of a figure of a class between two times."""
        inside: list[float] = [
            value
            for classes in self.series
            for at_s, value in zip(classes[name].at_s, getattr(classes[name], column), strict=True)
            if begin_s <= at_s < end_s and value is not None
        ]
        return mean(inside)

    def within_targets(self) -> bool:
        targets = [class_.delay_target_ms for class_ in self.scenario.classes]
        return all(ms <= target for ms, target in zip(self.p95_ms, targets, strict=True))


def fared(scenario: Scenario, manager: str, runs: int, watches: Sequence[OnCycle] = ()) -> ManagerRuns:
    """Run the scenario with the seeds 1, 2, …, and return the results. Each run calls its own function of `watches` at each load cycle."""
    answers, series, costs_us, ends, shed_settled = [], [], [], [], [0] * len(NAMES)
    for seed in range(1, runs + 1):
        settled = Settled(watches[seed - 1] if watches else None)
        run = Simulation(scenario, manager, seed, settled).run()
        answers.append(results(run, "hr"))
        assert answers[-1]["ledger_closed"]
        series.append(run.series.classes)
        costs_us.append(
            [1e6 * host.processed_s / host.door.ledger().delivered for host in run.hosts.values()]
        )
        ends.append(run.now)
        for place, (name, host) in enumerate(run.hosts.items()):
            shed_settled[place] += host.door.ledger().shed - settled.shed.get(name, 0)
    return ManagerRuns(
        scenario=scenario,
        answers=answers,
        series=series,
        costs_us=costs_us,
        shed_settled=shed_settled,
        end_s=ends[0],
    )


@dataclass
class Settled:
    """Callback that records how much each class had shed when lending had settled."""

    watch: OnCycle | None
    shed: dict[str, int] = field(default_factory=dict)

    def __call__(self, run: Simulation) -> None:
        if not self.shed and run.now >= SETTLED_S:
            self.shed = {name: host.door.ledger().shed for name, host in run.hosts.items()}
        if self.watch is not None:
            self.watch(run)
