"""Figures of each class for display, merged from the reports of its units. `weir top`, `weir demo` and the service show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from actors.coordinator.control_plane import PlacedUnit, SystemStatus
from actors.coordinator.coordinator_status import CoordinatorStatus
from actors.messages.unit_messages import GIVEN_UP, OF_UNITS, Failure, Figures, UnitReport, class_of
from configs.classes.live_class import LiveClass
from configs.classes.policies import Automatic, policy_text
from scheduler.ratios import mean
from services.watch.losses import failures_together
from services.watch.states import NOT_REPORTED, TROUBLED, ClassState, Condition, condition_of

Lending = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class ClassView:
    """State and figures of a class at one moment."""

    settings: LiveClass
    share: float
    """Current share, as a part of all lanes."""
    original: float
    """Original share, as a part of all lanes."""
    lent_s: float
    borrowed_s: float
    figures: Figures
    units: int
    """Number of units that have reported."""
    asleep: bool
    problems: tuple[str, ...] = ()
    """Problems of units that do not run as declared."""
    policy: str = ""
    """Policy that schedules the operators now."""
    condition: Condition = NOT_REPORTED
    failures: tuple[Failure, ...] = ()
    """Rows that failed in operators of the queries, by operator and reason."""
    age_s: float = 0.0
    """Age of the last report in seconds; only views that were read from the service have it, others have 0."""

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def tunes_itself(self) -> bool:
        return isinstance(self.settings.policy, Automatic)

    @property
    def drop(self) -> float:
        """Part of the input that is shed at present; always 0 for a lossless class, which makes producers wait instead."""
        return 0.0 if self.settings.lossless else 1 - self.figures.keep

    @property
    def shed_now(self) -> float:
        """Part of the input that was shed in the last seconds; if nothing was shed, the part that is shed at this moment."""
        return 0.0 if self.settings.lossless else self.figures.shed_now or self.drop


def class_views(system: SystemStatus, lending: Lending) -> list[ClassView]:
    """Return the views of all classes, in the order of declaration."""
    lanes = sum(system.nodes.values()) or 1
    lent, borrowed = lending_by_class(lending)
    by_class: dict[str, list[PlacedUnit]] = {}
    for unit in system.units.values():
        by_class.setdefault(unit.class_name, []).append(unit)
    views = []
    for settings in system.classes:
        units = by_class.get(settings.name, [])
        reports = [unit.report for unit in units if unit.report is not None]
        share = sum(unit.share * system.nodes.get(unit.node, 0) for unit in units) / lanes
        figures = together([report.figures for report in reports])
        asleep = bool(reports) and all(report.asleep for report in reports)
        failures = failures_together(report.failures for report in reports)
        troubles = [(report.trouble, trouble_of(report, settings)) for report in reports if report.trouble]
        views.append(
            ClassView(
                settings=settings,
                share=share,
                original=sum(unit.original * system.nodes.get(unit.node, 0) for unit in units) / lanes,
                lent_s=lent.get(settings.name, 0.0),
                borrowed_s=borrowed.get(settings.name, 0.0),
                figures=figures,
                units=len(reports),
                asleep=asleep,
                problems=tuple(f"{report.unit}: {report.problem}" for report in reports if report.problem),
                policy=system.policies.get(settings.name, policy_text(settings.first_policy)),
                condition=condition_of(
                    settings,
                    figures,
                    units=len(reports),
                    asleep=asleep,
                    share=share,
                    troubles=troubles,
                    failures=failures,
                ),
                failures=failures,
            )
        )
    return views


def trouble_of(report: UnitReport, settings: LiveClass) -> str:
    """Return why a unit does not run as declared, prefixed with the unit's name if its class has several units."""
    text = report.problem.removeprefix(f"{GIVEN_UP}: ")
    return text if settings.shards == 1 else f"{report.unit}: {text}"


def lending_by_class(lending: Lending) -> tuple[dict[str, float], dict[str, float]]:
    """Return the processor-seconds lent and borrowed by each class; loans between shards of a class count as lent and as borrowed."""
    lent: dict[str, float] = {}
    borrowed: dict[str, float] = {}
    for lender, borrowers in lending.items():
        for borrower, seconds in borrowers.items():
            lent[class_of(lender)] = lent.get(class_of(lender), 0.0) + seconds
            borrowed[class_of(borrower)] = borrowed.get(class_of(borrower), 0.0) + seconds
    return lent, borrowed


def together(parts: Sequence[Figures]) -> Figures:
    """Return the figures of a class, merged from the figures of its units. The metadata of a field of `Figures` define how it is merged."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Figures()
    figures: dict[str, Any] = {}
    for field in fields(Figures):
        values = [getattr(part, field.name) for part in parts]
        if field.name in TOGETHER:
            figures[field.name] = TOGETHER[field.name](parts)
        elif isinstance(values[0], dict):
            figures[field.name] = {key: max(value.get(key, 0.0) for value in values) for key in values[0]}
        else:
            figures[field.name] = OF_UNITS_AS[field.metadata.get(OF_UNITS, "sum")](values)
    return Figures(**figures)


def late_together(parts: Sequence[Figures]) -> dict[str, float]:
    """Return the fraction of late rows by stream. If several units read a stream, the largest fraction is returned."""
    streams = {stream for part in parts for stream in part.late_now}
    return {stream: max(part.late_now.get(stream, 0.0) for part in parts) for stream in streams}


def utilities_together(parts: Sequence[Figures]) -> dict[str, float]:
    """Return the merged utilities of units with answers; means are weighted by the number of answers."""
    answered = [(part.utility, part.results) for part in parts if part.utility]
    missed, counts = sum(utility["missed"] for utility, _ in answered), [count for _, count in answered]
    results = sum(counts)
    means = {
        name: mean([utility[name] for utility, _ in answered], counts, 1.0) for name in ("mean", "of_queries")
    }
    pct = 100.0 * missed / results if results else 0.0
    return {**means, "lost": 1.0 - means["mean"], "missed": missed, "missed_pct": pct}


def slowdowns_together(parts: Sequence[Figures]) -> dict[str, float]:
    """Return the merged slowdowns of units with answers; means are weighted by the number of answers."""
    answered = [(part.slowdown, part.results) for part in parts if part.slowdown and part.results]
    counts = [count for _, count in answered]
    return {
        name: mean([slowdown[name] for slowdown, _ in answered], counts) for name in ("mean", "of_queries")
    }


def tardiness_together(parts: Sequence[Figures]) -> dict[str, float]:
    """Return the merged tardiness of units with window answers; an empty mapping if no unit has window answers."""
    tardy = [part.tardiness for part in parts if part.tardiness]
    if not tardy:
        return {}
    due = sum(tardiness["due"] for tardiness in tardy)
    return {
        "due": due,
        "tardy": sum(tardiness["tardy"] for tardiness in tardy),
        "mean_ms": sum(tardiness["mean_ms"] * tardiness["due"] for tardiness in tardy) / due,
        "max_ms": max(tardiness["max_ms"] for tardiness in tardy),
    }


OF_UNITS_AS: Mapping[str, Callable[[Sequence[float]], float]] = {"sum": sum, "mean": mean, "worst": max}
# Functions that merge one figure of several units, by name of the figure. Each function gets all figures of the units.
TOGETHER: Mapping[str, Callable[[Sequence[Figures]], Any]] = {
    "late_now": late_together,
    "utility": utilities_together,
    "slowdown": slowdowns_together,
    "tardiness": tardiness_together,
    "within_target_pct": lambda parts: mean(
        [part.within_target_pct for part in parts], [part.results for part in parts], 100.0
    ),
}


def troubles(views: Sequence[ClassView]) -> list[str]:
    """Return a line for each class that needs attention. Lines have no numbers that change, because a changed line is printed again."""
    lines = []
    for view in views:
        state, reason = view.condition.state, view.condition.reason
        if state is ClassState.STARVED:
            lines.append(f"{view.name}: {state}; see weir explain {view.name}")
        elif state in TROUBLED:
            lines.append(f"{view.name}: {state}: {reason}")
    return lines


def restarts(status: CoordinatorStatus) -> list[str]:
    """Return a line for each class with a dead host, and for each node with a dead dispatcher."""
    # These functions are imported here, because tables of the command line must not wait for the import of Ray.
    from actors.runtime.names import dispatcher_name, host_name

    ended, lines = set(status.quarantined), dict[str, None]()
    for unit in status.system.units.values():
        if host_name(unit.host) in ended:
            lines[f"class {unit.class_name}: its host ended and is being restarted"] = None
    for node in status.system.nodes:
        if dispatcher_name(node) in ended:
            lines[f"node {node}: its dispatcher ended and is being restarted"] = None
    return list(lines)


def as_json(view: ClassView) -> dict[str, Any]:
    """Return a class in the format of `weir top -o json`."""
    settings, figures = view.settings, view.figures
    return {
        "name": view.name,
        "priority": settings.priority,
        "delay_target_ms": settings.delay_target_ms,
        "share": {"original": view.original, "now": view.share},
        "lent_s": view.lent_s,
        "borrowed_s": view.borrowed_s,
        "asleep": view.asleep,
        "state": view.condition.state,
        "reason": view.condition.reason,
        "objective": settings.objective,
        "policy": view.policy,
        "tunes_itself": view.tunes_itself,
        "failures": [asdict(failure) for failure in view.failures],
    } | {field.name: getattr(figures, field.name) for field in fields(Figures)}


def view_told(told: Mapping[str, Any]) -> ClassView:
    """Return the view of a class that the service has sent as JSON."""
    names = ("name", "priority", "delay_target_ms", "lossless", "objective")
    settings = {name: told[name] for name in names}
    # A view needs the setting `policy` only to know if the class tunes itself. The policy in use is a field of the view.
    settings["policy"] = Automatic() if told["tunes_itself"] else None
    return ClassView(
        settings=LiveClass.model_validate(settings),
        share=told["share"]["now"],
        original=told["share"]["original"],
        lent_s=told["lent_s"],
        borrowed_s=told["borrowed_s"],
        figures=Figures(**{field.name: told[field.name] for field in fields(Figures) if field.name in told}),
        units=told["units"],
        asleep=told["asleep"],
        policy=told["policy"],
        condition=Condition(ClassState(told["state"]), told["reason"]),
        failures=tuple(
            Failure(**failure | {"queries": tuple(failure["queries"])})
            for failure in told.get("failures", ())
        ),
        age_s=told.get("age_s", 0.0),
    )


def unit_lines(units: Mapping[str, PlacedUnit]) -> list[dict[str, Any]]:
    """Return a line for each unit with its node, host and share."""
    return [
        {
            "unit": name,
            "class": unit.class_name,
            "node": unit.node,
            "host": unit.host,
            "share": unit.share,
            "moving_to": unit.moving_to,
        }
        for name, unit in units.items()
    ]
