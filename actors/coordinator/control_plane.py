"""The coordinator without Ray: it decides which classes exist, where their units run, and which shares they have.

The control plane handles one event after another. Events are calls of users, reports of hosts, changes of nodes, and restarts of
actors. The table shows the effect of each event:

    event                     effect
    apply, remove_class, …    the change is refused with a reason; or units are placed, hosts started and shares set
    nodes_changed             units of a lost node continue on their home nodes; a new node can take units
    report                    the unit's usage goes to the core of its node; under `common` also to the common load manager
    redistribute              the core of each node moves shares
    compared                  a class that tunes itself may continue with another policy or plan
    sync.…_restarted          the whole state of a restarted actor is sent to it again

Other modules of `actors.coordinator` hold the parts: `declarations` what is declared, `placement_state` where units run,
`node_shares` their shares, `common_manager` the kept fraction under `common`, and `state_sync` what was sent to other actors.

Guarantees:
1. A refused change has no effect. An accepted change is saved before it is sent to other actors.
2. Messages to other actors contain the complete state they should have, so they may be sent twice. Only `scale_headroom` sends
   a relative change, together with the resulting share.
3. A control plane restored from saved state sends everything again. Placement, shares and lent capacity stay as they were.
4. Shares of a node's units add up to 1, and each unit runs in one host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.coordinator.common_manager import Common
from actors.coordinator.declarations import SystemDeclarations
from actors.coordinator.effects import Effects
from actors.coordinator.node_shares import NodeCores, OpenRecord, not_recorded
from actors.coordinator.placement_state import Seating
from actors.coordinator.policy_tuners import Tunings
from actors.coordinator.state_sync import StateSync
from actors.messages.unit_messages import UnitReport, class_of
from configs.classes.live_class import LiveClass, LiveSettings
from configs.classes.managers import moves_shares
from configs.classes.objectives import Objective
from configs.errors import InvalidInput, UnknownName, nearest
from scheduler.capacity.core import (
    CapacityEvent,
    ClassAsleep,
    HeadroomScaled,
    ReclaimRequested,
    RedistributionDue,
    ShareMove,
    SharesChanged,
    UsageReported,
)
from scheduler.tuning import Compared

STATE_VERSION = 1
# Weight of the last load cycle in the smoothed load that decides about placement: a short burst moves no unit.
LOAD_SMOOTHING = 0.05


@dataclass
class ControlPlane:
    """State and decisions of the coordinator. One thread calls all methods; `is_awake` may be read by any thread."""

    settings: LiveSettings
    effects: Effects
    open_record: OpenRecord = not_recorded
    declarations: SystemDeclarations = field(init=False, default_factory=SystemDeclarations)
    cores: NodeCores = field(init=False)
    tunings: Tunings = field(init=False)
    sync: StateSync = field(init=False)
    changes: int = field(init=False, default=0)
    """Number of changes; it grows whenever the results of `status` or `cores.lending` change."""
    _seating: Seating = field(init=False)
    _common: Common = field(init=False)
    _moving: dict[str, str] = field(init=False, default_factory=dict)
    _reports: dict[str, UnitReport] = field(init=False, default_factory=dict)
    _loads: dict[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._seating = Seating(self.settings.classes_per_host, self.declarations)
        self.cores = NodeCores(self.settings.manager, self.redistribution_s, self.open_record)
        self._common = Common(self.settings, self.open_record)
        self.tunings = Tunings(self.open_record)
        self.sync = StateSync(
            effects=self.effects,
            seating=self._seating,
            cores=self.cores,
            common=self._common,
            tunings=self.tunings,
        )

    @property
    def redistribution_s(self) -> float:
        """Return the seconds between two redistributions."""
        return self.settings.load.redistribute_every * self.settings.load.cycle_ms / 1e3

    def apply(self, classes: Sequence[LiveClass], now: float) -> None:
        """Add classes, or replace existing classes that have the same names. If one class is refused, no class changes."""
        self.declarations.apply(classes)
        self._arrange(now)

    def remove_class(self, name: str, now: float) -> None:
        self.declarations.remove_class(name)
        self._arrange(now)

    def add_query(self, class_name: str, name: str, sql: str, now: float) -> None:
        self.declarations.add_query(class_name, name, sql)
        self._arrange(now)

    def remove_query(self, class_name: str, name: str, now: float) -> None:
        self.declarations.remove_query(class_name, name)
        self._arrange(now)

    def declare_stream(self, sql: str, now: float) -> None:
        """Declare a stream, which exists even if no class reads it. Declaring the same stream again has no effect."""
        if self.declarations.declare_stream(sql):
            self._arrange(now)

    def drop_stream(self, name: str, now: float) -> None:
        """Withdraw the declaration of a stream. While classes read the stream, the stream continues to exist."""
        self.declarations.drop_stream(name)
        self._arrange(now)

    @property
    def nodes(self) -> list[str]:
        return list(self._seating.nodes)

    @property
    def hosts(self) -> dict[str, str]:
        """Return the node of each host."""
        return self._seating.hosts

    def units_of(self, class_name: str) -> dict[str, str]:
        """Return the host of each unit of a class."""
        self.declarations.checked_class(class_name)
        seats = self._seating.seats
        return {unit: seat.host for unit, seat in seats.items() if class_of(unit) == class_name}

    def nodes_changed(self, lanes: Mapping[str, int], now: float) -> None:
        """Set the nodes that are alive and their numbers of lanes, and place units accordingly."""
        if dict(lanes) == self._seating.nodes:
            return
        for node in self._seating.nodes.keys() - lanes.keys():
            self.sync.forget_node(node)
        self._seating.nodes = dict(lanes)
        seats = self._seating.seats
        self._moving = {
            unit: node
            for unit, node in self._moving.items()
            if node in lanes and unit in seats and seats[unit].node in lanes
        }
        self._arrange(now)

    @property
    def is_awake(self) -> bool:
        """Return True if a unit has input, so that shares may have to move."""
        return any(not report.asleep for report in tuple(self._reports.values()))

    def report(self, host: str, reports: Iterable[UnitReport], now: float) -> None:
        """Handle reports of a host at the end of a load cycle; reports about units that now run elsewhere are ignored."""
        for report in reports:
            unit, seat = report.unit, self._seating.seats.get(report.unit)
            if seat is None or seat.host != host:
                continue
            self.changes += 1
            slept = unit in self._reports and self._reports[unit].asleep
            self._reports[unit] = report
            before = self._loads.get(unit, report.load)
            self._loads[unit] = 0.0 if report.asleep else before + LOAD_SMOOTHING * (report.load - before)
            if moves_shares(self.settings.manager):
                if report.asleep and not slept:
                    self._hear(seat.node, ClassAsleep(unit), now)
                elif not report.asleep:
                    self._hear(seat.node, UsageReported(unit, report.usage, report.load), now)
                if report.reclaim:
                    self._hear(seat.node, ReclaimRequested(unit), now)
            if report.cycle is not None and self._common.hear(unit, report.cycle, now):
                self._save_shares()
                self.sync.send_keep()

    def compared(self, class_name: str, objective: Objective, event: Compared, now: float) -> None:
        """Handle the objective of a class that tunes itself: the measured value, and the forecasts for each policy and plan."""
        if self.tunings.compared(class_name, objective, event, now):
            self._save_shares()
            self.sync.send_units()

    def redistribute(self, now: float) -> None:
        """Let the core of each node move shares at the end of a redistribution cycle."""
        if moves_shares(self.settings.manager):
            moved = [self._hear(node, RedistributionDue(), now) for node in self.cores.nodes]
            # Even if no share moved, the account of lent capacity is saved, so that a restarted coordinator continues this account.
            if not any(moved):
                self._save_shares()

    def relieve(self) -> None:
        """Begin to move a unit from an overloaded node to a node with room. Without both nodes, do nothing."""
        if not self._moving and moves_shares(self.settings.manager):
            move = self._seating.relief(self._loads)
            if move is not None:
                self.move(*move)

    def move(self, unit: str, node: str) -> None:
        """Begin to move a unit to another node."""
        seating = self._seating
        for field_name, name, names in (("unit", unit, seating.seats), ("node", node, seating.nodes)):
            if name not in names:
                raise UnknownName(
                    f"the running system has no {field_name} of this name",
                    field_name,
                    name,
                    nearest(name, names),
                )
        seat = seating.seats[unit]
        if seat.node != node and unit not in self._moving:
            self.changes += 1
            self._moving[unit] = node
            self.effects.move(unit, seat.host, seat.node, node)

    def moved(self, unit: str, now: float) -> None:
        """Finish a move: the unit is at rest and its log has been copied, so the unit gets a seat on the new node."""
        node = self._moving.pop(unit, None)
        if node is not None and unit in self._seating.seats:
            origin = self._seating.seats[unit].node
            self._seating.bring(unit, node)
            self._settle(now)
            if origin != self._seating.home_of(unit):
                self.effects.forget(origin, unit)

    def stayed(self, unit: str) -> None:
        """Cancel a failed move. The unit continues on its old node."""
        self.changes += 1
        if self._moving.pop(unit, None) is not None and unit in self._seating.seats:
            self.sync.forget_copies()
            self.sync.host_restarted(self._seating.seats[unit].host)

    def _hear(self, node: str, event: CapacityEvent, now: float) -> bool:
        """Pass an event to the core of a node and carry out the commands that the core returns; return True if there are any commands."""
        commands = self.cores.handle(node, event, now)
        for command in commands:
            match command:
                case HeadroomScaled(unit, factor, share, original):
                    host = self._seating.seats[unit].host
                    self.effects.scale_headroom(host, unit, factor, share, original)
                case SharesChanged():
                    self._save_shares()
                    self.sync.send_shares([node])
        return bool(commands)

    def _arrange(self, now: float) -> None:
        """Place all units of the declared classes on the nodes, then update shares, hosts and streams for the new seats."""
        gone = self._seating.arrange()
        self.sync.forget_units({unit: seat.node for unit, seat in gone.items()})
        self._settle(now)

    def _settle(self, now: float) -> None:
        """Update everything that depends on where units run: saved state, shares, and the state of other actors."""
        self.changes += 1
        seating, declarations = self._seating, self.declarations
        self._reports = {unit: report for unit, report in self._reports.items() if unit in seating.seats}
        self._loads = {unit: load for unit, load in self._loads.items() if unit in seating.seats}
        self._common.keep_only(seating.seats)
        self.tunings.set_classes(declarations.models)
        seating.find_homes()
        # The state is saved before shares are sent: after a crash, the saved state must contain each unit that other actors know.
        state = {
            "version": STATE_VERSION,
            "classes": [class_.model_dump(mode="json") for class_ in declarations.models],
            "streams": [stream.sql for stream in declarations.streams.values()],
            **seating.state(),
        }
        self.effects.save("declared", state)
        for node, event in self.cores.changes(seating, now):
            self._hear(node, event, now)
        self._set_common()
        self._save_shares()
        self.sync.send()

    def _set_common(self) -> None:
        self._common.set_classes(self.declarations.models, sum(self._seating.nodes.values()))

    def _save_shares(self) -> None:
        self.changes += 1
        state = {**self.cores.state(), "common": self._common.state(), "tuning": self.tunings.state()}
        self.effects.save("shares", state)

    def restore(
        self,
        declared: Mapping[str, Any],
        shares: Mapping[str, Any] | None,
        lanes: Mapping[str, int],
        now: float,
    ) -> None:
        """Restore saved state for the nodes that are alive now, and send each actor its state.

        The method is called once, before any other method.
        """
        if declared["version"] != STATE_VERSION:
            raise InvalidInput(
                "this version of Weir cannot read the saved state",
                "version",
                declared["version"],
                f"stop the system with the Weir version that wrote the state; this version reads only state format {STATE_VERSION}",
            )
        # Older versions of Weir could not declare streams separately, so their saved state has no streams.
        self.declarations.restore(declared["classes"], declared.get("streams", ()))
        self._seating.nodes = dict(lanes)
        self._seating.restore(declared)
        if shares is not None:
            self.cores.restore(shares)
            self._set_common()
            self._common.restore(shares["common"])
            # Older versions of Weir had no classes that tune themselves, so their saved state has no choices.
            self.tunings.restore(shares.get("tuning", {}))
        self._arrange(now)

    def moves(self, class_name: str, last: int) -> list[ShareMove]:
        """Return the last moves of shares that changed the share of a unit of the class."""
        units = self.units_of(class_name)
        moves = self.cores.moves({self._seating.seats[unit].node for unit in units})
        return [move for move in moves if any(map(move.concerns, units))][-last:] if last > 0 else []

    def status(self) -> SystemStatus:
        seating, shares = self._seating, self.cores.shares()
        units = {
            unit: PlacedUnit(
                class_name=class_of(unit),
                node=seat.node,
                host=seat.host,
                original=self.cores.original(seat.node, unit),
                share=shares[seat.node][unit],
                moving_to=self._moving.get(unit),
                report=self._reports.get(unit),
                home=seating.home_of(unit) or seat.node,
            )
            for unit, seat in seating.seats.items()
        }
        waiting = [unit for unit in seating.units() if unit not in seating.seats]
        return SystemStatus(
            nodes=dict(seating.nodes),
            classes=tuple(self.declarations.models),
            units=units,
            unplaced=tuple(waiting),
            homes=dict(seating.homes),
            streams={stream.schema.name: stream.sql for stream in self.declarations.streams.values()},
            policies=self.tunings.in_force(),
        )


@dataclass(frozen=True, slots=True)
class PlacedUnit:
    """Node, host, shares and last report of a unit."""

    class_name: str
    node: str
    host: str
    original: float
    share: float
    moving_to: str | None
    report: UnitReport | None
    home: str
    """Node where the unit's answers are read."""


@dataclass(frozen=True, slots=True)
class SystemStatus:
    nodes: Mapping[str, int]
    """Number of lanes of each node."""
    classes: tuple[LiveClass, ...]
    units: Mapping[str, PlacedUnit]
    unplaced: tuple[str, ...]
    """Units without a node to run on."""
    homes: Mapping[str, str]
    """Home node of each stream, where its input comes in, by the stream's name in lower case."""
    streams: Mapping[str, str] = field(default_factory=dict)
    """CREATE STREAM statements of streams that were declared separately from classes, by name."""
    policies: Mapping[str, str] = field(default_factory=dict)
    """Policy and plan that each class with tuning runs by at the moment."""
