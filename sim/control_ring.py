"""Decision makers of a simulated run (turns, load managers, coordinator), and the connections between them.

Commands of one decision maker (core) reach the next core as events, exactly as messages between live actors do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from configs.classes.managers import known_manager, moves_shares, scales_headroom
from configs.scenario.scenario import Scenario
from loadshed.build import EVERYBODY, class_account, load_managers, merged
from loadshed.cycle import CycleEnded
from loadshed.manager import (
    DropOlder,
    HoldBack,
    LoadCommand,
    LoadEvent,
    LoadManager,
    ReportUsage,
    RequestReclaim,
    SetKeep,
    TrimQueue,
)
from loadshed.records import Core, CoreName
from scheduler.capacity.core import (
    CapacityCommand,
    CapacityCore,
    CapacityEvent,
    HeadroomScaled,
    ReclaimRequested,
    RedistributionDue,
    SharesChanged,
    UsageReported,
)
from scheduler.capacity.redistribution import by_priority
from scheduler.tuning import SwitchPolicy, TuningCommand, TuningCore, TuningEvent
from scheduler.turns.round_robin import Grant, SharesSet, TurnEvent, TurnRoundRobin

# Name of the only node in a simulated run.
NODE = "node"

# Function that returns True if a class's message to the coordinator is delivered now, False if the message is delayed or lost.
Transport = Callable[[str, CapacityEvent], bool]

# Function that records one decision of a core: event, time and commands.
Record = Callable[[Any, float, Sequence[Any]], None]
# Function that gets a new core before its first decision, and returns the function that records the decisions of the core.
OpenRecord = Callable[[CoreName, str, Core], Record]

Event = TypeVar("Event")
Command = TypeVar("Command")
Handle = Callable[[Event, float], tuple[Command, ...]]


# Pair of a class's name and a command to the shedder or scheduler of that class.
Order = tuple[str, SetKeep | TrimQueue | DropOlder | HoldBack | SwitchPolicy]


@dataclass
class ControlRing:
    """Decision makers of one run: turns, load managers, coordinator and tuning."""

    lanes: TurnRoundRobin
    loads: dict[str, LoadManager]
    capacity: CapacityCore | None
    redistribute_every: int
    originals: Mapping[str, float]
    """Original shares, by class."""
    tunings: Mapping[str, TuningCore] = field(default_factory=dict)
    """Tuning cores, which choose policies, by name of the self-tuning class."""
    open_record: OpenRecord | None = None
    cycles: int = field(init=False, default=0)
    turn: Handle[TurnEvent, Grant] = field(init=False)
    _decide: dict[str, Handle[LoadEvent, LoadCommand]] = field(init=False)
    _tune: dict[str, Handle[TuningEvent, TuningCommand]] = field(init=False)
    _coordinate: Handle[CapacityEvent, CapacityCommand] = field(init=False)

    def __post_init__(self) -> None:
        self.turn = self._handle_of("turns", NODE, self.lanes)
        self._decide = {name: self._handle_of("load", name, core) for name, core in self.loads.items()}
        self._tune = {name: self._handle_of("tuning", name, core) for name, core in self.tunings.items()}
        if self.capacity is not None:
            self._coordinate = self._handle_of("capacity", NODE, self.capacity)

    def _handle_of(self, kind: CoreName, name: str, core: Core) -> Handle[Any, Any]:
        """Return a core's `handle` function, which also records each decision if the run is recorded."""
        if self.open_record is None:
            return core.handle
        record = self.open_record(kind, name, core)

        def handle(event: Any, now: float) -> tuple[Any, ...]:
            commands = core.handle(event, now)
            record(event, now, commands)
            return commands

        return handle

    def end_cycle(
        self, cycles: Mapping[str, CycleEnded], now: float, transport: Transport
    ) -> tuple[list[Order], list[Grant]]:
        """Pass the end of a load cycle to the load managers; return orders to shedders, and granted turns if shares moved."""
        self.cycles += 1
        orders: list[Order] = []
        messages: list[UsageReported | ReclaimRequested] = []
        for name, decide in self._decide.items():
            for command in decide(merged(cycles) if name == EVERYBODY else cycles[name], now):
                match command:
                    case SetKeep() | TrimQueue() | DropOlder() | HoldBack():
                        orders += [(cycle, command) for cycle in (cycles if name == EVERYBODY else [name])]
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
        return orders, grants

    def compare(self, name: str, event: TuningEvent, now: float) -> list[Order]:
        """Pass a comparison of policies to a class's tuning core, and return its orders."""
        return [(name, command) for command in self._tune[name](event, now)]

    def tell_coordinator(self, event: CapacityEvent, now: float) -> list[Grant]:
        """Pass a message to the coordinator, and pass its commands on to lanes and load managers; return the granted turns."""
        assert self.capacity is not None
        grants: list[Grant] = []
        for command in self._coordinate(event, now):
            match command:
                case SharesChanged(shares):
                    grants += self.turn(SharesSet(shares), now)
                case HeadroomScaled(name):
                    self._decide[name](command, now)
        return grants

    def shares(self) -> Mapping[str, float]:
        return self.originals if self.capacity is None else self.capacity.shares

    def manager_of(self, name: str) -> LoadManager | None:
        return self.loads.get(name) or self.loads.get(EVERYBODY)


def build_ring(
    scenario: Scenario,
    name: str,
    open_record: OpenRecord | None = None,
    tunings: Mapping[str, TuningCore] | None = None,
) -> ControlRing:
    manager = known_manager(name)
    shares = scenario.original_shares()
    accounts = [class_account(class_, shares[class_.name], manager) for class_ in scenario.classes]
    capacity = CapacityCore(accounts, scenario.lanes, scales_headroom(manager))
    ranked = {account.name: account.share for account in by_priority(accounts)}
    return ControlRing(
        lanes=TurnRoundRobin(ranked, scenario.round_ms / 1e3, scenario.lanes),
        loads=load_managers(manager, scenario.classes, scenario.load, shares, scenario.lanes),
        capacity=capacity if moves_shares(manager) else None,
        redistribute_every=scenario.load.redistribute_every,
        originals=shares,
        tunings=tunings or {},
        open_record=open_record,
    )
