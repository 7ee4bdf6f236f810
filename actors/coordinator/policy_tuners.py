"""Classes that tune themselves. Each such class has a core that decides which policy and plan the class's units use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from actors.coordinator.node_shares import OpenRecord, Record, not_recorded
from configs.classes.live_class import LiveClass
from configs.classes.objectives import Objective
from configs.classes.policy_and_plan import Choice, choice_of
from configs.errors import WeirError
from loadshed.records import KINDS, NotARecord
from scheduler.tuning import Compared, TuningCore, TuningDecision, last_of, tuning_core

# Function that returns the settings of a core. A core with equal settings can continue with the state of another core.
settings_of = attrgetter("objective", "gain", "steady", "first")


@dataclass
class Tunings:
    open_record: OpenRecord = not_recorded
    _cores: dict[str, TuningCore] = field(init=False, default_factory=dict)
    _records: dict[str, Record] = field(init=False, default_factory=dict)

    def set_classes(self, classes: Iterable[LiveClass]) -> None:
        """Set the classes. A class keeps its core unless its objective, plan or tuning settings have changed."""
        cores = {class_.name: core for class_ in classes if (core := tuning_core(class_)) is not None}
        self._records = {name: record for name, record in self._records.items() if name in cores}
        before, self._cores = self._cores, {}
        for name, core in cores.items():
            running = before.get(name)
            if running is not None and settings_of(running) == settings_of(core):
                self._cores[name] = running
            else:
                self._add(core)

    def _add(self, core: TuningCore) -> None:
        self._cores[core.name] = core
        self._records[core.name] = self.open_record("tuning", core.name, core)

    def choice_of(self, name: str) -> Choice | None:
        """Return the policy and plan of a class that tunes itself; None for other classes."""
        core = self._cores.get(name)
        return None if core is None else choice_of(core.policy)

    def in_force(self) -> dict[str, str]:
        """Return the current policy and plan of each class that tunes itself."""
        return {name: core.policy for name, core in self._cores.items()}

    def compared(self, name: str, objective: Objective, event: Compared, now: float) -> bool:
        """Pass measured and forecast values of the objective to the core of a class; return True if the class changes its policy or plan.

        Values of an objective that the class no longer has are ignored.
        """
        core = self._cores.get(name)
        if core is None or core.objective != objective:
            return False
        commands = core.handle(event, now)
        self._records[name](event, now, commands)
        return bool(commands)

    def explanations(self, name: str, last: int) -> tuple[TuningDecision, ...]:
        core = self._cores.get(name)
        return () if core is None or last <= 0 else tuple(last_of(core.explanations, last))

    def state(self) -> dict[str, Any]:
        return {name: KINDS["tuning"].settings_of(core) for name, core in self._cores.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore saved cores. If the saved core of a class cannot be read, the class gets a new core."""
        for saved in state.values():
            try:
                core = KINDS["tuning"].core_of(saved)
                assert isinstance(core, TuningCore)
                choice_of(core.policy)
            except (NotARecord, WeirError):
                continue
            self._add(core)
