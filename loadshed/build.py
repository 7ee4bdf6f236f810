"""Construction of the cores of each manager from the declarations of classes, for live systems and simulations.

- none: no shedding, fixed shares
- common: one core for all classes, fixed shares
- per-class: one core per class, fixed shares
- dilos: one core per class; shares are redistributed and reclaimed, and headroom is scaled when a share moves
- dilos-unscaled: like dilos, but headroom is not scaled (ablation)
- dilos-no-lending: like dilos, but no class lends (ablation; must behave like per-class)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from configs.classes.load_manager import LoadSettings
from configs.classes.managers import Manager, lends, sheds
from configs.classes.priority_class import PriorityClass
from loadshed.cycle import CycleEnded
from loadshed.manager import HOLD_LEAST_S, HOLD_TARGETS, LoadManager
from scheduler.capacity.redistribution import ClassAccount

# Name under which the common manager serves all classes.
EVERYBODY = "*"


def class_account(declared: PriorityClass, original: float, manager: Manager) -> ClassAccount:
    """Return the entitlement and need of a class before any capacity is lent."""
    return ClassAccount(
        name=declared.name,
        priority=declared.priority,
        original=original,
        share=original,
        usage=None,
        lendable=declared.lendable if lends(manager) else 0.0,
        borrow_limit=declared.borrow_limit,
        min_share=declared.min_share,
    )


def load_manager(
    declared: PriorityClass, settings: LoadSettings, share: float, original: float, lanes: int
) -> LoadManager:
    """Return the load manager of one class."""
    target_s = declared.delay_target_ms / 1e3
    return LoadManager(
        name=declared.name,
        settings=settings,
        target_s=target_s,
        share=share,
        original_share=original,
        max_drop=declared.max_drop,
        lanes=lanes,
        max_age_s=None if declared.max_age_ms is None else declared.max_age_ms / 1e3,
        hold_s=max(HOLD_TARGETS * target_s, HOLD_LEAST_S) if declared.holds_back else None,
    )


def common_manager(classes: Sequence[PriorityClass], settings: LoadSettings, lanes: int) -> LoadManager:
    """Return one load manager for all classes, with the shortest target and the lowest maximum drop of any class."""
    target_s = min(class_.delay_target_ms for class_ in classes) / 1e3
    max_drop = min(class_.max_drop for class_ in classes)
    # The common manager does not trim queues, because its measurements do not say to which class a queued tuple belongs.
    return LoadManager(
        name=EVERYBODY,
        settings=settings,
        target_s=target_s,
        share=1.0,
        original_share=1.0,
        max_drop=max_drop,
        lanes=lanes,
        headroom_max=float(lanes),
        trims=False,
    )


def load_managers(
    manager: Manager,
    classes: Sequence[PriorityClass],
    settings: LoadSettings,
    shares: Mapping[str, float],
    lanes: int,
) -> dict[str, LoadManager]:
    """Return all load managers of a run, by the name of the class that each manager serves."""
    match sheds(manager):
        case "nobody":
            return {}
        case "everybody":
            return {EVERYBODY: common_manager(classes, settings, lanes)}
        case "each":
            return {
                class_.name: load_manager(class_, settings, shares[class_.name], shares[class_.name], lanes)
                for class_ in classes
            }


def merged(cycles: Mapping[str, CycleEnded]) -> CycleEnded:
    """Return the measurements of all classes in a load cycle, combined into one CycleEnded for the common manager."""
    first = next(iter(cycles.values()))
    return CycleEnded(
        cycle_s=first.cycle_s,
        inputs=tuple(
            replace(input_, stream=f"{name}/{input_.stream}")
            for name, cycle in cycles.items()
            for input_ in cycle.inputs
        ),
        outputs=tuple(
            replace(output, query=f"{name}/{output.query}")
            for name, cycle in cycles.items()
            for output in cycle.outputs
        ),
        queued_work_s=sum(cycle.queued_work_s for cycle in cycles.values()),
        worked_s=sum(cycle.worked_s or 0.0 for cycle in cycles.values()),
        ran_dry=all(cycle.ran_dry for cycle in cycles.values()),
    )
