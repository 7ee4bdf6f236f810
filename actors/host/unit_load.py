"""The load management of a unit: decisions of its load manager, and the kept fraction that its doors apply."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from actors.host.slice_counts import Counting
from actors.host.unit_input import UnitInput
from actors.log.unit_log import Steered, UnitLog
from actors.messages.unit_messages import Unit
from configs.classes.live_class import LiveSettings
from configs.classes.managers import sheds
from engine.class_.hosted_class import HostedClass
from loadshed.build import load_manager
from loadshed.cycle import CycleEnded
from loadshed.manager import (
    DropOlder,
    HoldBack,
    LoadManager,
    ManagerDecision,
    ReportUsage,
    RequestReclaim,
    SetKeep,
    TrimQueue,
)
from scheduler.capacity.core import HeadroomScaled

Record = Callable[[Any, float, Sequence[Any]], None]
OpenRecord = Callable[[LoadManager], Record]


def not_recorded(manager: LoadManager) -> Record:
    return lambda event, now, commands: None


class UnitLoad:
    """Load management of a unit: carries out the decisions of the unit's own load manager, or of the common manager of all units."""

    def __init__(
        self,
        hosted: HostedClass,
        input_: UnitInput,
        log: UnitLog,
        settings: LiveSettings,
        open_record: OpenRecord,
    ) -> None:
        self.manager: LoadManager | None = None
        """Load manager of this unit; None if one manager decides for all units, or nothing is shed."""
        self.keep = 1.0
        self._hosted, self._input, self._log, self._settings = hosted, input_, log, settings
        self._open_record = open_record
        self._record: Record = lambda event, now, commands: None
        self._cycles = 0

    def begin(self, unit: Unit) -> None:
        """Build the load manager from the saved state of the previous load manager, which may have run elsewhere with another share."""
        steered, shedding = self._log.steered, sheds(self._settings.manager)
        if shedding == "everybody" and steered is not None:
            self.keep = steered.keep
        if shedding != "each":
            return
        named = unit.declared.model_copy(update={"name": unit.name})
        settings = self._settings
        self.manager = load_manager(named, settings.load, unit.share, unit.original, settings.lanes)
        if steered is not None and steered.headroom > 0:
            self.manager.resume(steered.headroom * unit.share / steered.share, steered.keep)
        self.keep = self.manager.control.keep
        self._record = self._open_record(self.manager)

    def set_keep(self, keep: float) -> None:
        """Keep this fraction of the input, as the manager for all units has decided."""
        self.keep = keep
        self.pass_on()

    def set_share(self, unit: str, share: float, original: float, factor: float | None = None) -> None:
        """Set a changed share, and scale the headroom by `factor`; without a factor, in proportion to the share."""
        manager = self.manager
        if manager is None or (manager.share, manager.original_share) == (share, original):
            return
        factor = share / manager.share if factor is None else factor
        event, now = HeadroomScaled(unit, factor, share, original), time.monotonic()
        self._record(event, now, manager.handle(event, now))

    def decide(
        self, cycle: CycleEnded, now: float, *, lossless: bool, counting: Counting
    ) -> tuple[float, float, bool]:
        """Handle the end of a load cycle; return usage, load, and True if capacity is reclaimed. A lossless class drops nothing."""
        if self.manager is None:
            load = sum(input_.offered * input_.work_s for input_ in cycle.inputs) / max(cycle.cycle_s, 1e-9)
            self.pass_on()
            return 0.0, load, False
        usage, load, reclaim = 0.0, 0.0, False
        commands = self.manager.handle(cycle, now)
        self._record(cycle, now, commands)
        for command in commands:
            match command:
                case ReportUsage(usage, load):
                    pass
                case SetKeep(keep):
                    self.keep = keep
                case RequestReclaim():
                    reclaim = True
                case TrimQueue(part) if not lossless:
                    self._hosted.input.trim(part)
                    self._input.account()
                case DropOlder(age_s) if not lossless:
                    counting.counts.expired += self._hosted.input.drop_older(age_s, now)
                    self._input.account()
                case HoldBack(rooms):
                    self._input.inbox.rooms = rooms
        counting.decided(self.manager.explanations[-1], reclaim, cycle.cycle_s)
        self.pass_on()
        return usage, load, reclaim

    def pass_on(self) -> None:
        """Pass the kept fraction to the doors, and save it for the next start of the unit."""
        self._cycles += 1
        self._input.inbox.keep = (self._cycles, self.keep)
        manager = self.manager
        headroom, share = (0.0, 1.0) if manager is None else (manager.control.headroom, manager.share)
        self._log.steer(Steered(self.keep, headroom, share))

    def explanations(self, last: int) -> tuple[ManagerDecision, ...]:
        """Return the last decisions of the unit's load manager."""
        if self.manager is None or last <= 0:
            return ()
        return tuple(self.manager.explanations)[-last:]
