"""Run-time choice of a class's policy: decides when the class switches to another one. (MavStream's thesis leaves this to
future work, §3.5.)

In this module a policy is the name of everything that is chosen together. For classes with a choice of plans, the name includes
the plan (`configs.classes.policy_and_plan`).

    event        what follows
    Compared     SwitchPolicy if needed; the decision is recorded with its numbers

A comparison contains the measured objective of the class and its forecast under each policy. The forecasts come from the
simulator, with the measured costs, selectivities and arrivals (`sim.forecast.policy_forecast`). In all figures, less is better.

Properties (`tests/property/test_tuning.py`):
1. The class switches to another policy only if the forecasts of that policy are better by `gain`, both `steady` times in a row and
   in the sum of the last comparisons. Of several such policies it takes the best. It also switches back by rule 2. In the sum,
   comparisons count by the size of their figures, so a policy that is better only at times of little load is not chosen.
2. After a switch, the next `steady` measurements are compared with the expected value of the former policy: its current
   forecast times the ratio of its measurements to its forecasts. If each measurement is worse by `gain`, the class switches back.
   The disappointing policy is then not a candidate for a time that doubles with each disappointment.
3. After a switch, only a switch back is possible for `PAUSE` comparisons. The pause doubles each time the class returns to a
   policy it has left, up to `PAUSE_MAX`. So even with erratic forecasts and measurements, n comparisons of c policies lead to
   at most c + 2·log2(n) + 2·n/PAUSE_MAX + 2 switches.
4. If forecasts are constant and measurements agree with them, there is at most one switch.
5. A switch that turns out to be impossible is undone, and the policy is not a candidate for a time that doubles.
6. The same events lead to the same decisions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

from configs.classes.objectives import WAYS, Objective
from configs.classes.policies import Automatic
from configs.classes.priority_class import PriorityClass
from configs.numbers import duration, figure

PAUSE, PAUSE_MAX = 4, 64
# Number of comparisons for which a policy that has disappointed is not a candidate. The number doubles with each disappointment.
BARRED, BARRED_MAX = 16, 256
EXPLANATIONS_KEPT = 100
# Factor by which the sum of past forecasts shrinks at each comparison. After three comparisons, about half of it remains.
PAST_KEPT = 0.8
# Maximum number of stored ratios (measurement / forecast), from which a median is computed. `steady` cannot be set higher.
RATIOS_KEPT, RATIOS_TOLD = 50, 5

Branch = Literal["stay", "consider", "switch", "watch", "go back", "give up", "pause", "no forecast"]


@dataclass(frozen=True, slots=True)
class Compared:
    """Measured objective of a class, and its forecasts by name of the policy; policies that were not simulated are left out."""

    measured: float | None
    forecasts: Mapping[str, float]
    given_up: tuple[str, ...] = ()
    """Policies that the class tried to switch to but could not run with."""


@dataclass(frozen=True, slots=True)
class SwitchPolicy:
    """Command to the class to use this policy from now on."""

    policy: str


TuningEvent = Compared
TuningCommand = SwitchPolicy


@dataclass(frozen=True, slots=True)
class Trial:
    """Trial of a policy after a switch, in which the new policy is compared with the former policy."""

    before: str
    """Name of the former policy."""
    ratio: float | None
    """Ratio of measurements to forecasts under the former policy; None without measurements."""
    ratios: tuple[float, ...] = ()
    """Ratios of the measurements since the switch to the forecasts for the former policy."""


@dataclass(frozen=True, slots=True)
class Memory:
    """State of a TuningCore: everything on which a decision depends, except the comparison of policies."""

    policy: str
    streaks: Mapping[str, int] = field(default_factory=dict)
    """Number of consecutive comparisons in which another policy was better by `gain`, by policy."""
    past: Mapping[str, float] = field(default_factory=dict)
    """Decaying sum of the forecasts of the last comparisons, by policy."""
    ratios: tuple[float, ...] = ()
    """Last ratios of measurement to forecast under the current policy."""
    trial: Trial | None = None
    wait: int = 0
    """Number of comparisons until the next switch is considered."""
    pause: int = PAUSE
    left: tuple[str, ...] = ()
    """Policies that the class has left."""
    barred: Mapping[str, int] = field(default_factory=dict)
    """Number of comparisons for which a policy is not a candidate, by policy."""
    disappointed: Mapping[str, int] = field(default_factory=dict)
    """Number of times that a policy has disappointed, by policy."""


@dataclass(frozen=True, slots=True)
class TuningDecision:
    """Tuning decision, with the measurements and forecasts from which it was made."""

    at: float
    name: str
    objective: Objective
    branch: Branch
    policy: str
    """Policy before the decision."""
    measured: float | None
    forecasts: Mapping[str, float]
    best: str
    streak: int
    after: str
    wait: int

    def sentence(self) -> str:
        """Return the time of the decision, the class and the text of `words`."""
        return f"{self.at:.2f} s {self.name}: {self.words()}"

    def words(self) -> str:
        """Return the decision as text: the measurements and forecasts → the decision."""
        way = WAYS[self.objective]
        text = f"{way.words} {told(self.measured, way.unit)} under {self.policy}"
        if self.policy in self.forecasts:
            text += f" (forecast {told(self.forecasts[self.policy], way.unit)})"
        if self.best and self.best != self.policy:
            text += f", {self.best} would have {told(self.forecasts[self.best], way.unit)}"
            if self.policy in self.forecasts:
                text += f", {gain_of(self.forecasts, self.policy, self.best):.0%} less"
        return f"{text} → {self._follows()}"

    def _follows(self) -> str:
        match self.branch:
            case "switch":
                return f"better {self.streak} times in a row: switch to {self.after}"
            case "go back":
                return f"worse than {self.after} was: go back to {self.after}"
            case "give up":
                return f"there was no room for it: go back to {self.after}"
            case "consider":
                return f"better {self.streak} times in a row: not yet enough"
            case "watch":
                return "stay: it is on trial"
            case "pause":
                return f"stay: the next switch is considered in {self.wait} comparisons"
            case "no forecast":
                return "stay: nothing could be forecast"
            case "stay":
                return "stay"


@dataclass
class TuningCore:
    """Tuning of one class. `handle(event, now)` returns SwitchPolicy if the class has to switch."""

    name: str
    objective: Objective
    gain: float
    steady: int
    first: str
    """Policy with which the class begins."""
    explanations: deque[TuningDecision] = field(default_factory=lambda: deque(maxlen=EXPLANATIONS_KEPT))
    memory: Memory = field(init=False)

    def __post_init__(self) -> None:
        # The pause after a switch is at least as long as a trial, so that no other switch is considered during the trial.
        self.memory = Memory(self.first, pause=max(PAUSE, self.steady))

    @property
    def policy(self) -> str:
        """Current policy."""
        return self.memory.policy

    def handle(self, event: TuningEvent, now: float) -> tuple[TuningCommand, ...]:
        before = self.memory
        open_to = {name: value for name, value in event.forecasts.items() if not before.barred.get(name)}
        counted = replace(
            before,
            streaks={
                name: before.streaks.get(name, 0) + 1
                for name in open_to
                if gain_of(event.forecasts, before.policy, name) >= self.gain
            },
            past=with_past(before.past, event, before.policy),
            ratios=with_ratio(before.ratios, event, before.policy),
            wait=max(0, before.wait - 1),
            barred={name: left - 1 for name, left in before.barred.items() if left > 1},
        )
        steady = {
            name: open_to[name]
            for name, times in counted.streaks.items()
            if times >= self.steady and gain_of(counted.past, before.policy, name) >= self.gain
        }
        best = best_of(steady or open_to, before.policy)
        branch, self.memory = self._decide(counted, event, best if steady else "")
        after = self.memory
        self.explanations.append(
            TuningDecision(
                at=now,
                name=self.name,
                objective=self.objective,
                branch=branch,
                policy=before.policy,
                measured=event.measured,
                forecasts=event.forecasts,
                best=best,
                streak=counted.streaks.get(best, 0),
                after=after.policy,
                wait=after.wait,
            )
        )
        return (SwitchPolicy(after.policy),) if after.policy != before.policy else ()

    def _decide(self, memory: Memory, event: Compared, better: str) -> tuple[Branch, Memory]:
        """Return the kind of decision and the new state. `better` names a policy with a better forecast, or is empty."""
        if memory.trial is not None:
            if memory.policy in event.given_up and memory.trial.before not in event.given_up:
                back = self._gone_back(memory, memory.trial.before, event.given_up)
                return "give up", replace(back, trial=None)
            trial = replace(memory.trial, ratios=with_ratio(memory.trial.ratios, event, memory.trial.before))
            if len(trial.ratios) < self.steady and memory.wait:
                return "watch", replace(memory, trial=trial, streaks={})
            memory = replace(memory, trial=None)
            if self._is_worse(trial):
                return "go back", self._gone_back(memory, trial.before, (memory.policy,))
        if memory.wait:
            return "pause", replace(memory, streaks={})
        if memory.policy not in event.forecasts:
            return "no forecast", memory
        if not better:
            return ("consider" if memory.streaks else "stay"), memory
        last = memory.ratios[-max(RATIOS_TOLD, self.steady) :]
        trial = Trial(memory.policy, median(last) if last else None)
        return "switch", replace(switched(memory, better), trial=trial)

    def _is_worse(self, trial: Trial) -> bool:
        if trial.ratio is None or len(trial.ratios) < self.steady:
            return False
        return min(trial.ratios[-self.steady :]) > (1 + self.gain) * trial.ratio

    def _gone_back(self, memory: Memory, before: str, why: tuple[str, ...]) -> Memory:
        """Return the state after a switch back to `before`. The policies `why` have disappointed, and are not candidates for a while."""
        times = max(memory.disappointed.get(choice, 0) for choice in why)
        bar = min(BARRED * 2**times, BARRED_MAX)
        return replace(
            switched(memory, before),
            barred={**memory.barred, **dict.fromkeys(why, bar)},
            disappointed={**memory.disappointed, **dict.fromkeys(why, min(times + 1, 16))},
        )


def last_of(decisions: Iterable[TuningDecision], last: int) -> list[TuningDecision]:
    """Return the last decisions, preceded by all older decisions that switched the policy."""
    every = list(decisions)
    split = max(0, len(every) - last)
    return [*(decision for decision in every[:split] if decision.after != decision.policy), *every[split:]]


def tuning_core(declared: PriorityClass) -> TuningCore | None:
    """Return the tuning core of a class; None unless the class tunes itself."""
    auto = declared.policy
    if not isinstance(auto, Automatic):
        return None
    first = str(declared.first_choice)
    return TuningCore(declared.name, declared.objective, auto.gain, auto.steady, first)


def switched(memory: Memory, policy: str) -> Memory:
    """Return the state after a switch to a policy."""
    pause = min(2 * memory.pause, PAUSE_MAX) if policy in memory.left else memory.pause
    left = tuple(dict.fromkeys((*memory.left, memory.policy)))
    return replace(memory, policy=policy, streaks={}, ratios=(), wait=pause, pause=pause, left=left)


def best_of(forecasts: Mapping[str, float], policy: str) -> str:
    """Return the policy with the lowest forecast; empty without forecasts.

    If several policies have the lowest forecast, the current policy wins, or else the first name.
    """
    return min(forecasts, key=lambda one: (forecasts[one], one != policy, one), default="")


def gain_of(forecasts: Mapping[str, float], policy: str, other: str) -> float:
    """Return the fraction by which the other policy's forecast is lower than the current policy's; 0 if a forecast is missing."""
    if forecasts.get(policy, 0.0) <= 0 or other not in forecasts:
        return 0.0
    return 1 - forecasts[other] / forecasts[policy]


def with_past(past: Mapping[str, float], event: Compared, policy: str) -> Mapping[str, float]:
    """Return the sum of each policy's forecasts, in which older forecasts count less. A new policy begins with the current policy's sum."""
    if policy not in event.forecasts:
        return past
    mean = past.get(policy, 0.0)
    return {name: PAST_KEPT * past.get(name, mean) + value for name, value in event.forecasts.items()}


def with_ratio(ratios: tuple[float, ...], event: Compared, policy: str) -> tuple[float, ...]:
    """Append the ratio (measurement / forecast of the policy) to the ratios, if both values are known."""
    forecast = event.forecasts.get(policy, 0.0)
    if event.measured is None or forecast <= 0:
        return ratios
    return (*ratios, event.measured / forecast)[-RATIOS_KEPT:]


def told(value: float | None, unit: str) -> str:
    if value is None:
        return "not measured"
    return duration(value) if unit == "ms" else f"{figure(value)} {unit}".rstrip()
