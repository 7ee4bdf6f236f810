"""Planner for admission: forecasts which delay targets would hold in a system, and what other classes would lose.

    plan(situation) simulates the situation without the new classes, with the new classes, and in the worst case

In the worst case, every other class asks for twice what it is entitled to, and the new classes may not borrow. Delay
targets of new classes must hold in this case too. The simulator uses the same round robin, load managers, coordinator and
operator schedulers as the live system. The same situation always gives the same plan.

A target holds if the 95th percentile of response times is not above the target, losses are not above `max_drop`, and no queue keeps
growing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from configs.numbers import duration
from loadshed.ledger import TupleLedger
from sim.admission.planned_scenario import SINGLE_MAX, TARGET_MAX_S, WARM_UP_S, Builder, Simulated
from sim.admission.situation import AdmissionPlan, ClassLoad, ClassPlan, Forecast, Situation
from sim.simulation import Simulation

# Tolerance for `max_drop`: shedding is random, so a class may lose slightly more than planned.
DROP_TOLERANCE = 0.01
# A queue counts as growing if it grew by more than this fraction of the input.
GROWTH = 0.02
# Warnings mention additional losses above LOSS_TOLD, as a fraction of the input.
# Warnings mention a p95 that is above SLOWER_TOLD times its previous value and above NEAR_TOLD times the target.
LOSS_TOLD, SLOWER_TOLD, NEAR_TOLD = 0.005, 1.2, 0.5
# Maximum number of classes that warnings of one kind name; further classes are only counted.
CLASSES_TOLD = 20
# Fraction of lane time in use above which the plan warns that small differences of input change the result.
BUSY_TOLD = 0.9


def plan(situation: Situation) -> AdmissionPlan:
    """Return the plan for a situation: a forecast for every class, warnings, and assumptions."""
    planned = {load.name: load for load in situation.planned}
    after = situation.after()
    before, then = run(situation, situation.running), run(situation, after)
    alone = all(load.name in planned for load in after)
    worst = then if alone else run(situation, after, frozenset(planned))
    classes = []
    for load in after:
        at_worst = worst.classes[load.name] if load.name in planned else None
        classes.append(class_plan(load, before.classes.get(load.name), then.classes[load.name], at_worst))
    missed = [class_ for class_ in classes if not class_.holds and is_to_hold(class_)]
    missed_now = [plan for plan in missed if not is_kept(plan, plan.after)]
    return AdmissionPlan(
        classes=tuple(classes),
        holds=not missed,
        holds_now=not missed_now,
        busy=then.busy,
        warnings=tuple(warnings(classes)),
        assumed=(*situation.assumed, *simplified(situation, after, then.busy)),
    )


def class_plan(
    one: ClassLoad, before: Forecast | None, after: Forecast, at_worst: Forecast | None
) -> ClassPlan:
    plan = ClassPlan(
        name=one.name,
        target_ms=one.declared.delay_target_ms,
        max_drop=one.max_drop,
        planned=at_worst is not None,
        before=before,
        after=after,
        at_worst=at_worst,
        holds=False,
        why="",
    )
    now, then = is_kept(plan, after), at_worst is None or is_kept(plan, at_worst)
    return replace(plan, holds=now and then, why=reason(plan) + ages(one, plan))


def is_kept(one: ClassPlan, run: Forecast) -> bool:
    """Return True if the class's target holds in this run."""
    in_time = run.p95_ms is None or run.p95_ms <= min(one.target_ms, 1e3 * TARGET_MAX_S)
    return in_time and run.drop <= one.max_drop + DROP_TOLERANCE and not run.falls_behind


def is_to_hold(one: ClassPlan) -> bool:
    """Return True if the class's delay target must hold; running classes that already miss their targets are exempt."""
    return one.planned or one.before is None or is_kept(one, one.before)


def reason(one: ClassPlan) -> str:
    outcomes = [f"with the present load, {outcome(one, one.after)}"]
    if one.at_worst is not None:
        outcomes.append(f"at worst {outcome(one, one.at_worst)}")
    return "; ".join(outcomes)


def ages(one: ClassLoad, found: ClassPlan) -> str:
    """Return a text on what happens if the class cannot keep up with its input; empty if the class keeps up or has a maximum age."""
    runs = [found.after] if found.at_worst is None else [found.after, found.at_worst]
    if not any(run.falls_behind for run in runs):
        return ""
    if one.lossless:
        return "; its producers are held back"
    if one.declared.holds_back:
        return "; its producers are held back: declare max_age_ms to bound the age of its answers instead"
    if one.declared.max_age_ms is None:
        return "; its queue grows and nothing bounds the age of its answers: declare max_age_ms"
    return ""


def outcome(one: ClassPlan, run: Forecast) -> str:
    if run.p95_ms is None and not run.falls_behind:
        return "the class has no input"
    times = (
        "there are no answers"
        if run.p95_ms is None
        else f"p95 {duration(run.p95_ms)} of {duration(one.target_ms)}"
    )
    if is_kept(one, run):
        return f"{times} and {lost(run.drop)}"
    if run.falls_behind or run.drop >= one.max_drop - DROP_TOLERANCE:
        return f"{times}: the class needs {run.load:.2g} processors and may lose at most {one.max_drop:.0%}"
    return f"{times} and {lost(run.drop)}"


def lost(drop: float) -> str:
    return "nothing is lost" if drop < LOSS_TOLD else f"{drop:.0%} of its input is lost"


def warnings(classes: Sequence[ClassPlan], names: Collection[str] | None = None) -> Iterable[str]:
    """Yield warnings about missed targets, then about losses of other classes. With `names`, only classes in `names` are named."""
    missed = [
        f"{called(class_, names)} would miss its delay target of {duration(class_.target_ms)}: {class_.why}"
        for class_ in classes
        if not class_.holds and is_to_hold(class_)
    ]
    yield from first_of(missed, "would miss their delay targets")
    losses = [
        f"{called(class_, names)} {lost}"
        for class_ in classes
        if not class_.planned and class_.before is not None and (lost := loss(class_, class_.before))
    ]
    yield from first_of(losses, "would lose more, or answer later")


def first_of(told: Sequence[str], others: str) -> Iterable[str]:
    yield from told[:CLASSES_TOLD]
    if len(told) > CLASSES_TOLD:
        yield f"{len(told) - CLASSES_TOLD} more classes {others}"


def called(one: ClassPlan, names: Collection[str] | None) -> str:
    return f"class {one.name}" if names is None or one.name in names else "another class"


def seen_by(found: AdmissionPlan, names: Collection[str]) -> AdmissionPlan:
    """Return the plan for a user that may see only the classes `names`; losses of other classes are shown without names."""
    own = tuple(class_ for class_ in found.classes if class_.name in names)
    return replace(found, classes=own, warnings=tuple(warnings(found.classes, names)))


def loss(one: ClassPlan, before: Forecast) -> str:
    """Return a text on what a running class would lose; empty if the loss is too small to mention."""
    after = one.after
    losses = []
    if after.drop > before.drop + LOSS_TOLD:
        losses.append(f"would lose {after.drop:.1%} of its input instead of {before.drop:.1%}")
    if (
        before.p95_ms is not None
        and after.p95_ms is not None
        and after.p95_ms > max(SLOWER_TOLD * before.p95_ms, NEAR_TOLD * one.target_ms)
    ):
        losses.append(f"would answer within {after.p95_ms:.0f} ms (p95) instead of {before.p95_ms:.0f}")
    return " and ".join(losses)


def simplified(situation: Situation, classes: Sequence[ClassLoad], busy: float) -> Iterable[str]:
    awake = [class_ for class_ in classes if class_.rate]
    if len(awake) > SINGLE_MAX:
        yield f"the {len(awake) - SINGLE_MAX} classes with the smallest load were planned in groups of similar classes"
    for load in situation.planned:
        if load.declared.delay_target_ms > 1e3 * TARGET_MAX_S:
            yield f"class {load.name} was planned with a target of {TARGET_MAX_S:g} s"
    if busy > BUSY_TOLD:
        yield f"lanes are busy for {busy:.0%} of the time: near saturation, slightly more or less input changes the result"


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Forecast of each class from one simulated run, and the fraction of lane time in which classes ran."""

    classes: Mapping[str, Forecast]
    busy: float


def run(
    situation: Situation, classes: Sequence[ClassLoad], modest: frozenset[str] | None = None
) -> RunFigures:
    """Simulate the classes. With `modest`, simulate the worst case: each class that is not in `modest` asks for more than its share."""
    if not classes:
        return RunFigures({}, 0.0)
    simulated = Builder(situation, modest).built(classes)
    warm_up = RunObservation()
    ended = Simulation(simulated.scenario, situation.settings.manager, on_cycle=warm_up.look).run()
    forecasts = {name: warm_up.forecast(ended, name) for name in ended.hosts}
    busy = (ended.busy_s + ended.overhead_s) / (ended.now * simulated.scenario.lanes)
    return RunFigures(
        {class_.name: of_class(class_, simulated, forecasts) for class_ in classes}, round(min(busy, 1.0), 4)
    )


@dataclass
class Begun:
    """Tuple counts of a class at the end of the warm-up, which are subtracted from its counts at the end of the run."""

    ledger: TupleLedger
    shared_s: float
    cycles: int
    held: int


@dataclass
class RunObservation:
    """Observer of a run, which measures classes only after the warm-up."""

    begun: dict[str, Begun] = field(default_factory=dict)

    def look(self, run: Simulation) -> None:
        """Record the counts of tuples when the warm-up ends, because they are subtracted later. Called after each load cycle."""
        if not self.begun and run.now >= WARM_UP_S:
            for name, host in run.hosts.items():
                held = host.door.held(run.now)
                self.begun[name] = Begun(host.door.ledger(), run.series.shared_s[name], run.ring.cycles, held)
                host.answers.restart_responses()

    def forecast(self, run: Simulation, name: str) -> Forecast:
        host, begun = run.hosts[name], self.begun[name]
        ledger, manager = host.door.ledger(), run.ring.manager_of(name)
        offered = ledger.offered - begun.ledger.offered
        lost = ledger.lost() - begun.ledger.lost()
        keep = manager.control.keep if manager is not None else 1.0
        at_most = manager is None or keep <= 1 - host.settings.max_drop + DROP_TOLERANCE
        cycles = run.ring.cycles - begun.cycles
        shared_s = run.series.shared_s[name] - begun.shared_s
        series = run.series.classes[name]
        first = next(place for place, at_s in enumerate(series.at_s) if at_s > WARM_UP_S)
        loads = [load for load in series.load[first:] if load is not None]
        responses, has_answers = host.answers.responses.response_ms(), host.answers.responses.count > 0
        return Forecast(
            share=shared_s / (cycles * run.scenario.load.cycle_ms / 1e3),
            load=sum(loads) / len(loads) if loads else host.processed_s / run.scenario.seconds,
            drop=lost / offered if offered else 0.0,
            mean_ms=responses["mean"] if has_answers else None,
            p95_ms=responses["p95"] if has_answers else None,
            p99_ms=responses["p99"] if has_answers else None,
            within_target=host.answers.responses.target_met_pct() / 100 if has_answers else None,
            falls_behind=at_most
            and grown(series.queued[first:]) + host.door.held(run.now) - begun.held > GROWTH * offered,
        )


def grown(queued: Sequence[int]) -> float:
    """Return the growth of a queue in tuples: its mean length in the last third of the run minus that in the first third."""
    third = len(queued) // 3
    return (sum(queued[-third:]) - sum(queued[:third])) / third


def of_class(one: ClassLoad, simulated: Simulated, forecasts: Mapping[str, Forecast]) -> Forecast:
    """Return the forecast of a class, computed from the forecasts of the simulated classes that represent the class."""
    own = [forecasts[name] for name in simulated.units[one.name]]
    part = simulated.grouped.get(one.name, 1.0)
    return rounded(
        Forecast(
            share=part * sum(forecast.share for forecast in own),
            load=part * sum(forecast.load for forecast in own),
            drop=sum(forecast.drop for forecast in own) / len(own),
            mean_ms=mean([forecast.mean_ms for forecast in own]),
            p95_ms=worst([forecast.p95_ms for forecast in own]),
            p99_ms=worst([forecast.p99_ms for forecast in own]),
            within_target=mean([forecast.within_target for forecast in own]),
            falls_behind=any(forecast.falls_behind for forecast in own),
        )
    )


def mean(values: Sequence[float | None]) -> float | None:
    figures = [value for value in values if value is not None]
    return sum(figures) / len(figures) if figures else None


def worst(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def rounded(one: Forecast) -> Forecast:
    """Return the forecast with its figures rounded for display: times in ms to two digits, all others to four."""
    figures = {name: value for name, value in asdict(one).items() if isinstance(value, float)}
    near: dict[str, Any] = {
        name: round(value, 2 if name.endswith("_ms") else 4) for name, value in figures.items()
    }
    return replace(one, **near)
