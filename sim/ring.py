"""The control ring of a run: which of the pure cores a manager consists of, and how they are joined up.

    manager               shedding             shares
    none                  –                    fixed
    common                one core for all     fixed
    per-class             one core a class     fixed
    dilos                 one core a class     redistributed, reclaimed, headroom scaled
    dilos-unscaled        as dilos, but load managers are not told of a move (ablation)
    dilos-no-lending      as dilos, but nobody lends (ablation; must equal per-class)

The ring carries commands of one core to the next as events, exactly as messages do between live actors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from configs.problems import UnknownName, nearest
from configs.scenario import Scenario
from loadshed.cycle import CycleEnded
from loadshed.manager import LoadManager, ReportUsage, RequestReclaim, SetKeep
from scheduler.capacity import (
    CapacityCore,
    CapacityEvent,
    HeadroomScaled,
    ReclaimRequested,
    RedistributionDue,
    SharesChanged,
    UsageReported,
)
from scheduler.redistribution import ClassAccount
from scheduler.wrr import Grant, RoundRobin, SharesSet

Manager = Literal["none", "common", "per-class", "dilos", "dilos-unscaled", "dilos-no-lending"]
MANAGERS: tuple[Manager, ...] = ("none", "common", "per-class", "dilos", "dilos-unscaled", "dilos-no-lending")

# The common manager serves all classes under this name.
EVERYBODY = "*"

# A message on its way to the coordinator: deliver now (True), or the transport has taken it (False).
Transport = Callable[[str, CapacityEvent], bool]


@dataclass
class ControlRing:
    """Lanes, load managers and coordinator of one run."""

    lanes: RoundRobin
    loads: dict[str, LoadManager]
    capacity: CapacityCore | None
    redistribute_every: int
    cycles: int = field(init=False, default=0)

    def end_cycle(
        self, cycles: Mapping[str, CycleEnded], now: float, transport: Transport
    ) -> tuple[dict[str, float], list[Grant]]:
        """Decide on a load cycle: kept fractions that changed, and grants if shares moved."""
        self.cycles += 1
        keeps: dict[str, float] = {}
        messages: list[UsageReported | ReclaimRequested] = []
        for name, manager in self.loads.items():
            for command in manager.handle(self._seen_by(name, cycles), now):
                match command:
                    case SetKeep(keep):
                        keeps.update(dict.fromkeys(cycles if name == EVERYBODY else [name], keep))
                    case ReportUsage(usage, load):
                        messages.append(UsageReported(name, usage, load))
                    case RequestReclaim():
                        messages.append(ReclaimRequested(name))
        grants: list[Grant] = []
        if self.capacity is not None:
            for message in messages:
                if transport(message.name, message):
                    grants += self.tell_coordinator(message, now)
            if self.cycles % self.redistribute_every == 0:
                grants += self.tell_coordinator(RedistributionDue(), now)
        return keeps, grants

    def tell_coordinator(self, event: CapacityEvent, now: float) -> list[Grant]:
        """Hand a message to the coordinator and carry what it says to lanes and load managers."""
        assert self.capacity is not None
        grants: list[Grant] = []
        for command in self.capacity.handle(event, now):
            match command:
                case SharesChanged(shares):
                    grants += self.lanes.handle(SharesSet(shares), now)
                case HeadroomScaled(name):
                    self.loads[name].handle(command, now)
        return grants

    def manager_of(self, name: str) -> LoadManager | None:
        return self.loads.get(name) or self.loads.get(EVERYBODY)

    def _seen_by(self, name: str, cycles: Mapping[str, CycleEnded]) -> CycleEnded:
        return merged(cycles) if name == EVERYBODY else cycles[name]


def merged(cycles: Mapping[str, CycleEnded]) -> CycleEnded:
    """All classes as one, for the common manager."""
    first = next(iter(cycles.values()))
    return CycleEnded(
        cycle_s=first.cycle_s,
        inputs=tuple(
            replace(one, stream=f"{name}/{one.stream}")
            for name, cycle in cycles.items()
            for one in cycle.inputs
        ),
        outputs=tuple(
            replace(one, query=f"{name}/{one.query}")
            for name, cycle in cycles.items()
            for one in cycle.outputs
        ),
        queued_work_s=sum(cycle.queued_work_s for cycle in cycles.values()),
    )


def build_ring(scenario: Scenario, manager: str) -> ControlRing:
    if manager not in MANAGERS:
        raise UnknownName("no such manager", "--manager", manager, nearest(manager, MANAGERS))
    shares = scenario.original_shares()
    lends = manager in ("dilos", "dilos-unscaled")
    accounts = [
        ClassAccount(
            name=one.name,
            priority=one.priority,
            original=shares[one.name],
            share=shares[one.name],
            usage=None,
            lendable=one.lendable if lends else 0.0,
            borrow_limit=one.borrow_limit,
            min_share=one.min_share,
        )
        for one in scenario.classes
    ]
    capacity = CapacityCore(accounts, scenario.lanes, manager != "dilos-unscaled")
    by_priority = sorted(accounts, key=lambda account: (-account.priority, account.name))
    lanes = RoundRobin({a.name: a.share for a in by_priority}, scenario.round_ms / 1e3, scenario.lanes)
    return ControlRing(
        lanes,
        build_loads(scenario, manager, shares),
        capacity if manager.startswith("dilos") else None,
        scenario.load.redistribute_every,
    )


def build_loads(scenario: Scenario, manager: str, shares: Mapping[str, float]) -> dict[str, LoadManager]:
    if manager == "none":
        return {}
    if manager == "common":
        target_ms = min(one.delay_target_ms for one in scenario.classes)
        max_drop = min(one.max_drop for one in scenario.classes)
        everybody = LoadManager(
            EVERYBODY,
            scenario.load,
            target_ms / 1e3,
            1.0,
            1.0,
            max_drop,
            scenario.lanes,
            float(scenario.lanes),
        )
        return {EVERYBODY: everybody}
    return {
        one.name: LoadManager(
            one.name,
            scenario.load,
            one.delay_target_ms / 1e3,
            shares[one.name],
            shares[one.name],
            one.max_drop,
            scenario.lanes,
        )
        for one in scenario.classes
    }
