"""When a class leaves its policy for another: the run-time optimizer that MavStream's thesis leaves to future work (§3.5).

    event        what follows
    Compared     perhaps SwitchPolicy; one Explanation

A comparison brings what the class's objective comes to now, and what it would come to under each policy there is: the
shell has asked the simulator, with the costs, selectivities and arrivals that were measured (`sim.lookahead`). All figures
are such that less is better.

Properties (`tests/property/test_tuning.py`):
1. A policy is left for another only if that one is forecast to do better by `gain`, `steady` times in a row, and if it is
   the best there is each time; or if it has turned out worse than the one before (2).
2. After a switch the next `steady` measurements are held against what the policy before would come to now: what it came to
   then, times what its forecast has changed by since. If they are worse by `gain`, the class goes back at once, and the
   policy that disappointed is no candidate for a time that doubles with each time it does.
3. After a switch none but going back for `PAUSE` comparisons, and twice as many each time the class returns to a policy
   that it has left, up to `PAUSE_MAX`: however forecasts and measurements jump, in n comparisons among c policies there are
   no more than c + 2·log2(n) + 2·n/PAUSE_MAX + 2 switches.
4. Under forecasts that stay, and measurements that agree with them, there is one switch at most.
5. The same events give the same decisions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

from configs.objectives import WAYS, Objective

PAUSE, PAUSE_MAX = 4, 64
# Comparisons for which a policy that has disappointed once is no candidate; doubled each time.
BARRED, BARRED_MAX = 16, 256
EXPLANATIONS_KEPT = 100
# Measurements under the policy that is left, whose median is what it came to.
MEASURED_KEPT = 5

Branch = Literal["stay", "consider", "switch", "watch", "go back", "pause", "no forecast"]


@dataclass(frozen=True, slots=True)
class Compared:
    """What the objective comes to, and would come to under each policy by its name; without those that were not tried."""

    measured: float | None
    forecasts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SwitchPolicy:
    """To the class: go on by this one."""

    policy: str


TuningEvent = Compared
TuningCommand = SwitchPolicy


@dataclass(frozen=True, slots=True)
class Trial:
    """A policy since it was switched to."""

    before: str
    """The policy that it took the place of."""
    came_to: float | None
    """What the objective came to under that one."""
    forecast: float
    """And what it was forecast to."""
    measured: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """All that a decision depends on beside what is compared."""

    policy: str
    favourite: str = ""
    streak: int = 0
    """How many times in a row the favourite was the best by far enough."""
    measured: tuple[float, ...] = ()
    trial: Trial | None = None
    wait: int = 0
    """Comparisons until the next switch is thought of."""
    pause: int = PAUSE
    left: tuple[str, ...] = ()
    """Policies that have been left."""
    barred: Mapping[str, int] = field(default_factory=dict)
    """Comparisons for which a policy is no candidate."""
    disappointed: Mapping[str, int] = field(default_factory=dict)
    """How often."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision with the numbers it was made on."""

    at: float
    name: str
    objective: Objective
    branch: Branch
    policy: str
    """In force until then."""
    measured: float | None
    forecasts: Mapping[str, float]
    best: str
    streak: int
    after: str
    wait: int

    def sentence(self) -> str:
        """When, about whom, and the words."""
        return f"{self.at:.2f} s {self.name}: {self.words()}"

    def words(self) -> str:
        """The decision in words: what was seen → what follows."""
        way = WAYS[self.objective]
        seen = f"{way.words} {told(self.measured, way.unit)} under {self.policy}"
        if self.policy in self.forecasts:
            seen += f" (forecast {told(self.forecasts[self.policy], way.unit)})"
        if self.best and self.best != self.policy:
            seen += f", {self.best} would come to {told(self.forecasts[self.best], way.unit)}"
            if self.policy in self.forecasts:
                seen += f", {gain_of(self.forecasts, self.policy, self.best):.0%} less"
        return f"{seen} → {self._follows()}"

    def _follows(self) -> str:
        match self.branch:
            case "switch":
                return f"best {self.streak} times in a row: switch to {self.after}"
            case "go back":
                return f"worse than {self.after} was: go back to {self.after}"
            case "consider":
                return f"best {self.streak} times in a row: not yet enough"
            case "watch":
                return "stay: it is on trial"
            case "pause":
                return f"stay: a switch is thought of again in {self.wait} comparisons"
            case "no forecast":
                return "stay: nothing could be forecast"
            case "stay":
                return "stay"


@dataclass
class TuningCore:
    """Of one class."""

    name: str
    objective: Objective
    gain: float
    steady: int
    first: str
    """The policy that it begins with."""
    explanations: deque[Explanation] = field(default_factory=lambda: deque(maxlen=EXPLANATIONS_KEPT))
    memory: Memory = field(init=False)

    def __post_init__(self) -> None:
        # A policy is on trial for no longer than nothing else is thought of.
        self.memory = Memory(self.first, pause=max(PAUSE, self.steady))

    @property
    def policy(self) -> str:
        """In force."""
        return self.memory.policy

    def handle(self, event: TuningEvent, now: float) -> tuple[TuningCommand, ...]:
        before = self.memory
        forecasts = {name: value for name, value in event.forecasts.items() if not before.barred.get(name)}
        counted = replace(
            before,
            measured=remembered(before.measured, event.measured),
            wait=max(0, before.wait - 1),
            barred={name: left - 1 for name, left in before.barred.items() if left > 1},
        )
        best = best_of(forecasts, before.policy)
        branch, self.memory = self._decide(counted, event, forecasts, best)
        after = self.memory
        self.explanations.append(
            Explanation(
                now,
                self.name,
                self.objective,
                branch,
                before.policy,
                event.measured,
                event.forecasts,
                best,
                self.steady if branch == "switch" else after.streak,
                after.policy,
                after.wait,
            )
        )
        return (SwitchPolicy(after.policy),) if after.policy != before.policy else ()

    def _decide(
        self, memory: Memory, event: Compared, forecasts: Mapping[str, float], best: str
    ) -> tuple[Branch, Memory]:
        if memory.trial is not None:
            trial = replace(memory.trial, measured=remembered(memory.trial.measured, event.measured))
            if len(trial.measured) < self.steady and memory.wait:
                return "watch", replace(memory, trial=trial)
            memory = replace(memory, trial=None)
            if trial.measured and self._is_worse(trial, event.forecasts):
                return "go back", self._gone_back(memory, trial)
        if memory.wait:
            return "pause", replace(memory, favourite="", streak=0)
        if memory.policy not in event.forecasts or not best:
            return "no forecast", replace(memory, favourite="", streak=0)
        if best == memory.policy or gain_of(event.forecasts, memory.policy, best) < self.gain:
            return "stay", replace(memory, favourite="", streak=0)
        streak = memory.streak + 1 if best == memory.favourite else 1
        if streak < self.steady:
            return "consider", replace(memory, favourite=best, streak=streak)
        came_to = median(memory.measured) if memory.measured else None
        trial = Trial(memory.policy, came_to, event.forecasts[memory.policy])
        return "switch", replace(switched(memory, best), trial=trial)

    def _is_worse(self, trial: Trial, forecasts: Mapping[str, float]) -> bool:
        """Than the policy before would be, as things are now."""
        if trial.came_to is None:
            return False
        changed = 1.0
        if trial.before in forecasts and trial.forecast > 0:
            changed = forecasts[trial.before] / trial.forecast
        return median(trial.measured) > (1 + self.gain) * trial.came_to * changed

    def _gone_back(self, memory: Memory, trial: Trial) -> Memory:
        times = memory.disappointed.get(memory.policy, 0)
        bar = min(BARRED * 2**times, BARRED_MAX)
        return replace(
            switched(memory, trial.before),
            barred={**memory.barred, memory.policy: bar},
            disappointed={**memory.disappointed, memory.policy: min(times + 1, 16)},
        )


def switched(memory: Memory, policy: str) -> Memory:
    """What is measured from here on is measured under that one."""
    pause = min(2 * memory.pause, PAUSE_MAX) if policy in memory.left else memory.pause
    left = tuple(dict.fromkeys((*memory.left, memory.policy)))
    return replace(
        memory, policy=policy, favourite="", streak=0, measured=(), wait=pause, pause=pause, left=left
    )


def best_of(forecasts: Mapping[str, float], policy: str) -> str:
    """The one with the least; the one in force, or else the first by name, among equals. Empty if there is none."""
    return min(forecasts, key=lambda one: (forecasts[one], one != policy, one), default="")


def gain_of(forecasts: Mapping[str, float], policy: str, other: str) -> float:
    """Which part of what the policy comes to the other saves."""
    return 1 - forecasts[other] / forecasts[policy] if forecasts[policy] > 0 else 0.0


def remembered(values: tuple[float, ...], value: float | None) -> tuple[float, ...]:
    return values if value is None else (*values, value)[-MEASURED_KEPT:]


def told(value: float | None, unit: str) -> str:
    if value is None:
        return "not measured"
    return f"{value:.3g} {unit}".rstrip()
