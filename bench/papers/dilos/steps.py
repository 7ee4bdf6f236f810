"""Set-up S_steps (§V): class 1's rate rises and falls; classes 2 and 3 have more input than their shares can process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bench.papers.claim import Experiment, ExperimentOutcome, Finding, figures_of
from bench.papers.dilos.figures import headrooms, millis, percents, plotted, responses
from bench.papers.dilos.runs import MACHINE, NAMES, RUNS, TIMES_DIFFER, ManagerRuns, fared
from configs.scenario.arrivals import StepArrivals
from configs.scenario.scenario import Scenario, load_scenario
from sim.simulation import Simulation

STEP_S, QUICK_STEP_S = 50.0, 15.0


def s_steps(quick: bool) -> Scenario:
    """Return the preset; in the quick form, class 1 has a new rate every 15 s, and the run ends soon after the fourth rate begins."""
    scenario = load_scenario("dilos-steps")
    if not quick:
        return scenario
    class1 = scenario.classes[0]
    readings = class1.streams["readings"]
    assert isinstance(readings.arrivals, StepArrivals)
    steps = tuple(
        step.model_copy(update={"at_s": step.at_s * QUICK_STEP_S / STEP_S})
        for step in readings.arrivals.steps
    )
    arrivals = readings.arrivals.model_copy(update={"steps": steps})
    streams = dict(class1.streams) | {"readings": readings.model_copy(update={"arrivals": arrivals})}
    classes = (class1.model_copy(update={"streams": streams}), *scenario.classes[1:])
    return scenario.model_copy(update={"classes": classes, "seconds": 3.3 * QUICK_STEP_S})


@dataclass
class Return:
    """Callback that records how long class 1 waits for its whole share when its load rises while it lends.

    The wait begins with the step of the load, and not with the load cycle that noticed the step. If class 1 is overloaded again
    after the same step, the next wait begins with the load cycle in which class 1 is overloaded.
    """

    original: float
    rises_s: Sequence[float]
    """Times at which class 1's rate rises, in order."""
    since_s: list[float] = field(default_factory=list)
    """Times at which waits began."""
    after_s: list[float] = field(default_factory=list)
    """Lengths of the waits that have ended."""
    _share: float = field(init=False)

    def __post_init__(self) -> None:
        self._share = self.original

    def __call__(self, run: Simulation) -> None:
        cycle, share = run.ring.loads["class1"].explanations[-1], run.ring.shares()["class1"]
        waits, lends = len(self.since_s) > len(self.after_s), self._share < self.original - 1e-9
        # A load that exceeds the headroom by less than 5% counts as noise.
        if lends and not waits and cycle.offered_load > 1.05 * cycle.before.headroom:
            cycle_began_s = run.now - run.scenario.load.cycle_ms / 1e3
            rises = [at_s for at_s in self.rises_s if at_s <= run.now and at_s not in self.since_s]
            self.since_s.append(rises[-1] if rises else cycle_began_s)
            waits = True
        if waits and share >= self.original - 1e-9:
            self.after_s.append(run.now - self.since_s[-1])
        self._share = share


def rises_of(scenario: Scenario) -> list[float]:
    """Return the times at which the rate of class 1 rises."""
    arrivals = scenario.classes[0].streams["readings"].arrivals
    assert isinstance(arrivals, StepArrivals)
    return [step.at_s for before, step in pairwise(arrivals.steps) if step.rate > before.rate]


@dataclass(frozen=True, kw_only=True)
class StepRuns:
    """Runs of the scenario with and without lending."""

    dilos: ManagerRuns
    alone: ManagerRuns
    waits: Sequence[Return]
    """Waits of class 1 for its share, by run."""
    low: tuple[float, float]
    """Begin and end of the measured part of the first step, in which class 1's rate is low."""
    high: tuple[float, float]
    """Begin and end of the measured part of the third step, in which class 1's rate is high."""


def run_steps(quick: bool) -> ExperimentOutcome:
    """Run the set-up S_steps (the rate of class 1 changes in steps) with and without lending."""
    scenario = s_steps(quick)
    count, step_s = (1, QUICK_STEP_S) if quick else (RUNS, STEP_S)
    original, rises_s = scenario.original_shares()["class1"], rises_of(scenario)
    waits = [Return(original, rises_s) for _ in range(count)]
    dilos = fared(scenario, "dilos", count, waits)
    runs = StepRuns(
        dilos=dilos,
        alone=fared(scenario, "per-class", count),
        waits=waits,
        low=(step_s / 10, step_s),
        high=(2 * step_s + step_s / 10, 3 * step_s),
    )
    return ExperimentOutcome(
        (*answer_findings(runs), *lending_findings(runs)),
        (
            responses(dilos, "Fig. 7: response times"),
            headrooms(dilos, "Fig. 8: headrooms"),
            plotted(dilos, "Fig. 8: shedding", "drop", "part of the input shed"),
            plotted(dilos, "Shares", "share", "share of the lane"),
        ),
    )


def answer_findings(runs: StepRuns) -> tuple[Finding, ...]:
    dilos, lost = runs.dilos, runs.dilos.loss_pct
    return (
        Finding(
            "§V, Table IV",
            "S_steps: class 1 loses nothing and answers quickly at all of its rates",
            "0%, 6.67 ms",
            f"{lost[0]:g}%, {dilos.mean_ms[0]:.2f} ms",
            lost[0] == 0 and dilos.mean_ms[0] < 10 and dilos.p95_ms[0] <= 300,
            rule="class 1 loses no tuple, its mean is below 10 ms, and its p95 is within its target",
            figures=figures_of((0.0,), lost[:1]),
        ),
        Finding(
            "§V, Fig. 7, Table IV",
            "S_steps: all classes answer within their delay targets of 300, 400, 500 ms",
            "6.67, 96.8, 226 ms",
            f"{millis(dilos.mean_ms)}; p95 {millis(dilos.p95_ms)}",
            dilos.within_targets(),
            rule="p95 of each class at most its target",
            figures=figures_of((6.67, 96.77, 226.05), dilos.mean_ms),
            why=TIMES_DIFFER,
        ),
        Finding(
            "§V, Table IV",
            "S_steps: response times and losses follow the priorities",
            "6.67 < 96.8 < 226 ms; 0 < 5.19 < 50.97%",
            f"{millis(dilos.mean_ms)}; {percents(lost)}",
            all(a < b for a, b in pairwise(dilos.mean_ms)) and all(a <= b for a, b in pairwise(lost)),
            rule="mean response times rise from class 1 to class 3, and losses do not fall",
        ),
        Finding(
            "§V, Table IV",
            "S_steps: class 2 loses 5% of its input, and class 3 half of it",
            "5.19%, 50.97%",
            percents(lost[1:]),
            0 < lost[1] < lost[2],
            why="the paper shows class 1's rates only in a picture, so we had to choose how much it can lend. And class 2 is not "
            "overloaded here: its turns make long trains of its 1,500 tuples/s, which take "
            f"{dilos.over('class2', 'load', *runs.high):.3f} of a processor, less than its share of 0.3",
            rule="class 2 loses a part of its input, and class 3 a larger part",
            figures=figures_of((5.19, 50.97), lost[1:]),
        ),
    )


def lending_findings(runs: StepRuns) -> tuple[Finding, ...]:
    dilos, alone, lost = runs.dilos, runs.alone, runs.dilos.loss_pct
    shares = {name: [dilos.over(name, "share", *when) for when in (runs.low, runs.high)] for name in NAMES}
    return (
        Finding(
            "§V, Fig. 8",
            "S_steps: while class 1's load is low, its unused capacity goes to the other classes",
            "(picture)",
            f"class 1 holds {shares['class1'][0]:.2f} while its rate is low, {shares['class1'][1]:.2f} while it is high; the "
            f"others {1 - shares['class1'][0]:.2f} and {1 - shares['class1'][1]:.2f}",
            shares["class1"][0] <= 0.5
            and shares["class1"][1] >= 0.55
            and all(shares[name][0] > shares[name][1] for name in NAMES[1:]),
            rule="class 1 holds at most 0.50 of its 0.60 in the first step and at least 0.55 in the third; classes 2 and 3 hold more "
            "in the first step",
        ),
        Finding(
            "§V",
            "S_steps: because class 1 lends, the other classes shed less",
            "(no figure)",
            f"class 3 loses {lost[2]:.1f}%, without lending {alone.loss_pct[2]:.1f}%",
            lost[1] <= alone.loss_pct[1] and lost[2] <= 0.75 * alone.loss_pct[2],
            rule="class 3 loses at least a quarter less than without lending, and class 2 loses no more",
        ),
        whole_again(runs.waits),
    )


def whole_again(waits: Sequence[Return]) -> Finding:
    """Return the finding on how soon class 1 has its whole share again after its load has risen."""
    longest_s: dict[float, float] = {}
    for wait in waits:
        for since_s, after_s in zip(wait.since_s, wait.after_s, strict=False):
            longest_s[since_s] = max(longest_s.get(since_s, 0.0), after_s)
    text = "; ".join(
        f"load rises at {since_s:g} s, share whole after {1e3 * after_s:.0f} ms"
        for since_s, after_s in sorted(longest_s.items())
    )
    ended = all(len(wait.after_s) == len(wait.since_s) for wait in waits)
    return Finding(
        "§V, Fig. 8",
        "S_steps: as soon as class 1's load rises, class 1 gets back all or part of its original capacity",
        "(picture)",
        text or "class 1 never waits for its share",
        ended and all(after_s <= 0.3 + 1e-9 for after_s in longest_s.values()) and bool(longest_s),
        rule="whenever a step overloads class 1, its whole original share is back within two load cycles of the step: 300 ms, in every run",
    )


EXPERIMENT = Experiment(
    "dilos",
    "dilos-steps",
    "S_steps: class 1's rate changes every 50 s",
    run_steps,
    f"{MACHINE} Class 1 gets 500, 1,400, 2,100, 900, 1,500, 2,000 tuples/s in turn (the paper shows its rates only in a picture), class 2 "
    "gets 1,500, class 3 gets 900. Five runs of 300 s (quick: one run of 50 s with a step every 15 s).",
    seeds=RUNS,
)
