"""Runs of the three classes under a manager, with results averaged over seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from configs.scenario.scenario import Scenario
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

OnCycle = Callable[[Simulation], None]


@dataclass
class ManagerRuns:
    """Results of the three classes under one manager, averaged over all runs; `first` is the complete result of the first run."""

    first: Simulation
    answers: Sequence[Mapping[str, Any]]
    shed_settled: Sequence[int]
    """Tuples that each class shed after `SETTLED_S`, summed over all runs."""

    def _mean(self, value: Callable[[Mapping[str, Any]], float]) -> list[float]:
        return [
            sum(value(answer["classes"][place]) for answer in self.answers) / len(self.answers)
            for place in range(len(NAMES))
        ]

    @property
    def loss_pct(self) -> list[float]:
        return self._mean(lambda one: one["loss_pct"])

    @property
    def all_lost_pct(self) -> float:
        """Percentage of all input that was shed, over all classes together."""
        classes = [class_ for answer in self.answers for class_ in answer["classes"]]
        lost: int = sum(class_["shed"] for class_ in classes)
        offered: int = sum(class_["offered"] for class_ in classes)
        return 100 * lost / offered

    @property
    def mean_ms(self) -> list[float]:
        return self._mean(lambda one: one["response_ms"]["mean"])

    @property
    def p95_ms(self) -> list[float]:
        return self._mean(lambda one: one["response_ms"]["p95"])

    @property
    def cost_us(self) -> list[float]:
        """Processor time per delivered tuple in the first run, by class."""
        return [1e6 * host.processed_s / host.door.ledger().delivered for host in self.first.hosts.values()]

    @property
    def series(self) -> Mapping[str, ClassSeries]:
        return self.first.series.classes

    def over(self, name: str, column: str, begin_s: float, end_s: float) -> float:
        """Return the mean of a figure of the first run between two times."""
        series = self.series[name]
        inside: list[float] = [
            value
            for at_s, value in zip(series.at_s, getattr(series, column), strict=True)
            if begin_s <= at_s < end_s and value is not None
        ]
        return sum(inside) / len(inside)

    def within_targets(self) -> bool:
        targets = [class_.delay_target_ms for class_ in self.first.scenario.classes]
        return all(ms <= target for ms, target in zip(self.p95_ms, targets, strict=True))


def fared(scenario: Scenario, manager: str, runs: int, watch: OnCycle | None = None) -> ManagerRuns:
    """Run the scenario with the seeds 1, 2, …, and return the results; `watch` is called at each load cycle of the first run."""
    first, answers, shed_settled = None, [], [0] * len(NAMES)
    for seed in range(1, runs + 1):
        settled = Settled(watch if seed == 1 else None)
        run = Simulation(scenario, manager, seed, settled).run()
        first = first or run
        answers.append(results(run, "hr"))
        assert answers[-1]["ledger_closed"]
        for place, (name, host) in enumerate(run.hosts.items()):
            shed_settled[place] += host.door.ledger().shed - settled.shed.get(name, 0)
    assert first is not None
    return ManagerRuns(first, answers, shed_settled)


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
