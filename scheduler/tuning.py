"""When a class leaves its policy for another: the run-time optimizer that MavStream's thesis leaves to future work (§3.5).

    event        what follows
    Compared     perhaps SwitchPolicy; one Explanation

A policy is a name here, of all that is chosen together: for classes that have plans, of the plan as well (`configs.classes.policy_and_plan`).

A comparison brings what the class's objective comes to now, and what it would come to under each policy there is: the
shell has asked the simulator, with the costs, selectivities and arrivals that were measured (`sim.forecast.policy_forecast`). All figures
are such that less is better.

Properties (`tests/property/test_tuning.py`):
1. A policy is left for another only if that one is forecast to do better by `gain`, `steady` times in a row and over the last
   comparisons together, and is the best of those that are; or if it has turned out worse than the one before (2). Together,
   comparisons count by what was at stake: who would do a little better while there is next to nothing to do is not worth it.
2. After a switch the next `steady` measurements are held against what the policy before would come to: its forecast of that
   moment, times how its measurements compared with its forecasts. If each of them is worse by `gain`, the class goes back,
   and the policy that disappointed is no candidate for a time that doubles with each time it does.
3. After a switch none but going back for `PAUSE` comparisons, and twice as many each time the class returns to a policy
   that it has left, up to `PAUSE_MAX`: however forecasts and measurements jump, in n comparisons among c policies there are
   no more than c + 2·log2(n) + 2·n/PAUSE_MAX + 2 switches.
4. Under forecasts that stay, and measurements that agree with them, there is one switch at most.
5. A switch that turns out to be impossible is taken back, and nothing that cannot be had is a candidate for a time that doubles.
6. The same events give the same decisions.
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
# Comparisons for which a policy that has disappointed once is no candidate; doubled each time.
BARRED, BARRED_MAX = 16, 256
EXPLANATIONS_KEPT = 100
# Of what the last comparisons count together, this much is left at the next one: half of it after three.
PAST_KEPT = 0.8
# Of the last measurements under a policy, the median tells how they compare with forecasts. As many as `steady` may ask for.
RATIOS_KEPT, RATIOS_TOLD = 50, 5

Branch = Literal["stay", "consider", "switch", "watch", "go back", "give up", "pause", "no forecast"]


@dataclass(frozen=True, slots=True)
class Compared:
    """What the objective comes to, and would come to under each policy by its name; without those that were not tried."""

    measured: float | None
    forecasts: Mapping[str, float]
    given_up: tuple[str, ...] = ()
    """Policies that the class could not go on by, if it is switched to one of them."""


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
    ratio: float | None
    """Of what was measured under that one to what was forecast; None if nothing was."""
    ratios: tuple[float, ...] = ()
    """Since then, of what is measured to the forecast of that one."""


@dataclass(frozen=True, slots=True)
class Memory:
    """All that a decision depends on beside what is compared."""

    policy: str
    streaks: Mapping[str, int] = field(default_factory=dict)
    """How many times in a row another would have done better by enough."""
    past: Mapping[str, float] = field(default_factory=dict)
    """What each has been forecast to come to, in the last comparisons together."""
    ratios: tuple[float, ...] = ()
    """Of what was measured to what was forecast, last."""
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
class TuningDecision:
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
        text = f"{way.words} {told(self.measured, way.unit)} under {self.policy}"
        if self.policy in self.forecasts:
            text += f" (forecast {told(self.forecasts[self.policy], way.unit)})"
        if self.best and self.best != self.policy:
            text += f", {self.best} would come to {told(self.forecasts[self.best], way.unit)}"
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
    explanations: deque[TuningDecision] = field(default_factory=lambda: deque(maxlen=EXPLANATIONS_KEPT))
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
        """`better` is the policy to switch to, if nothing speaks against it."""
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
        """Than the policy before would be, as things are now."""
        if trial.ratio is None or len(trial.ratios) < self.steady:
            return False
        return min(trial.ratios[-self.steady :]) > (1 + self.gain) * trial.ratio

    def _gone_back(self, memory: Memory, before: str, why: tuple[str, ...]) -> Memory:
        """To the policy before; those that are the reason are not tried for a while."""
        times = max(memory.disappointed.get(choice, 0) for choice in why)
        bar = min(BARRED * 2**times, BARRED_MAX)
        return replace(
            switched(memory, before),
            barred={**memory.barred, **dict.fromkeys(why, bar)},
            disappointed={**memory.disappointed, **dict.fromkeys(why, min(times + 1, 16))},
        )


def last_of(decisions: Iterable[TuningDecision], last: int) -> list[TuningDecision]:
    """The last decisions, and before them those by which a class has come to go by another policy, however long ago."""
    every = list(decisions)
    split = max(0, len(every) - last)
    return [*(decision for decision in every[:split] if decision.after != decision.policy), *every[split:]]


def tuning_core(declared: PriorityClass) -> TuningCore | None:
    """Of a class that tunes itself."""
    auto = declared.policy
    if not isinstance(auto, Automatic):
        return None
    first = str(declared.first_choice)
    return TuningCore(declared.name, declared.objective, auto.gain, auto.steady, first)


def switched(memory: Memory, policy: str) -> Memory:
    """What is measured from here on is measured under that one."""
    pause = min(2 * memory.pause, PAUSE_MAX) if policy in memory.left else memory.pause
    left = tuple(dict.fromkeys((*memory.left, memory.policy)))
    return replace(memory, policy=policy, streaks={}, ratios=(), wait=pause, pause=pause, left=left)


def best_of(forecasts: Mapping[str, float], policy: str) -> str:
    """The one with the least; the one in force, or else the first by name, among equals. Empty if there is none."""
    return min(forecasts, key=lambda one: (forecasts[one], one != policy, one), default="")


def gain_of(forecasts: Mapping[str, float], policy: str, other: str) -> float:
    """Which part of what the policy comes to the other saves; 0 where nothing is known of one of them."""
    if forecasts.get(policy, 0.0) <= 0 or other not in forecasts:
        return 0.0
    return 1 - forecasts[other] / forecasts[policy]


def with_past(past: Mapping[str, float], event: Compared, policy: str) -> Mapping[str, float]:
    """With what is forecast now. Who was not known before is taken to have been as good as the policy in force."""
    if policy not in event.forecasts:
        return past
    mean = past.get(policy, 0.0)
    return {name: PAST_KEPT * past.get(name, mean) + value for name, value in event.forecasts.items()}


def with_ratio(ratios: tuple[float, ...], event: Compared, policy: str) -> tuple[float, ...]:
    """With that of what is measured to the policy's forecast, if there are both."""
    forecast = event.forecasts.get(policy, 0.0)
    if event.measured is None or forecast <= 0:
        return ratios
    return (*ratios, event.measured / forecast)[-RATIOS_KEPT:]


def told(value: float | None, unit: str) -> str:
    if value is None:
        return "not measured"
    return duration(value) if unit == "ms" else f"{figure(value)} {unit}".rstrip()
