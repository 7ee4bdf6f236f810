"""The load manager that all units share if the manager is `common`. It merges the load cycles that units report, then decides."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from actors.coordinator.node_shares import OpenRecord, Record
from configs.classes.live_class import LiveClass, LiveSettings
from configs.classes.managers import sheds
from loadshed.aloma import AlomaBranch, Control
from loadshed.build import common_manager, merged
from loadshed.cycle import CycleEnded
from loadshed.manager import LoadEvent, LoadManager, SetKeep

# Function that returns the limits of a load manager.
limits_of = attrgetter("target_s", "max_drop", "headroom_max")


@dataclass
class Common:
    settings: LiveSettings
    open_record: OpenRecord
    _manager: LoadManager | None = field(init=False, default=None)
    _record: Record = field(init=False)
    _cycles: dict[str, CycleEnded] = field(init=False, default_factory=dict)

    @property
    def keep(self) -> float | None:
        """Return the fraction of input that every unit accepts, or None without a common manager."""
        return None if self._manager is None else self._manager.control.keep

    def set_classes(self, classes: Sequence[LiveClass], lanes: int) -> None:
        """Build a manager for these classes and lanes. It begins with the headroom and the kept fraction of the previous manager."""
        if sheds(self.settings.manager) != "everybody" or not classes or not lanes:
            self._manager = None
            return
        before = self._manager
        manager = common_manager(classes, self.settings.load, lanes)
        if before is not None and limits_of(before) == limits_of(manager):
            return
        self._record = self.open_record("load", manager.name, manager)
        if before is not None:
            headroom = min(before.control.headroom, manager.headroom_max)
            manager.control = replace(before.control, headroom=headroom)
        self._manager = manager

    def keep_only(self, units: Container[str]) -> None:
        self._cycles = {unit: cycle for unit, cycle in self._cycles.items() if unit in units}

    def hear(self, unit: str, cycle: CycleEnded, now: float) -> bool:
        """Add the load cycle of a unit. Return True if the kept fraction has changed.

        The manager makes a decision when a unit has reported twice since the last decision.
        """
        if self._manager is None:
            return False
        decided = unit in self._cycles and self._decide(self._manager, now)
        self._cycles[unit] = cycle
        return decided

    def _decide(self, manager: LoadManager, now: float) -> bool:
        event: LoadEvent = merged(self._cycles)
        self._cycles = {}
        commands = manager.handle(event, now)
        self._record(event, now, commands)
        return any(isinstance(command, SetKeep) for command in commands)

    def state(self) -> list[Any] | None:
        if self._manager is None:
            return None
        control = self._manager.control
        return [control.headroom, control.keep, control.branch.value, control.streak]

    def restore(self, state: Sequence[Any] | None) -> None:
        if self._manager is not None and state is not None:
            headroom, keep, branch, streak = state
            self._manager.control = Control(headroom, keep, AlomaBranch(branch), streak)
