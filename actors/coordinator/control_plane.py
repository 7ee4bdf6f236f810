"""The coordinator without Ray: which classes there are, where their units run, and what shares they have.

    what happens              what follows
    apply, remove_class, …    refused with a reason, or in force: units placed, hosts started, shares set
    nodes_changed             units of a lost node go on at their homes; a new node is there for units to come
    report                    what a unit uses goes to its node's core; under `common` also to the one load manager
    redistribute              each node's core moves shares
    compared                  the core of a class that tunes itself may have its units go on by another policy or plan
    sync.…_restarted          an actor that has restarted is sent its whole state again

In `actors.coordinator`: what is declared is in `declarations`, where units run in `placement_state`, their shares in `node_shares`,
how much all keep under `common` in `common_manager`, and what was sent to other actors in `state_sync`.

Guarantees:
1. What is refused has changed nothing. What is accepted is saved before anybody is told.
2. Everything that is told says how things are to be, so it may be told twice; only `scale_headroom` tells of a step, with
   the share it leads to.
3. A plane made from saved state tells everything again, and nothing of it is new to the system: placement, shares and
   what has been lent are as they were.
4. Shares of a node's units add up to 1, and a unit is in one host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.coordinator.common_manager import Common
from actors.coordinator.declarations import SystemDeclarations
from actors.coordinator.effects import Effects
from actors.coordinator.node_shares import NodeCores, OpenRecord
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
# How much of a unit's load, as it is for placement, is its last cycle's: a burst moves nobody.
LOAD_SMOOTHING = 0.05


@dataclass
class ControlPlane:
    """Every method is called by one thread."""

    settings: LiveSettings
    effects: Effects
    open_record: OpenRecord | None = None
    declarations: SystemDeclarations = field(init=False, default_factory=SystemDeclarations)
    cores: NodeCores = field(init=False)
    tunings: Tunings = field(init=False)
    sync: StateSync = field(init=False)
    changes: int = field(init=False, default=0)
    """Grows with everything that `status` and `cores.lending` tell."""
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
        """From one redistribution to the next."""
        return self.settings.load.redistribute_every * self.settings.load.cycle_ms / 1e3

    # -- what is declared -----------------------------------------------------------------------------

    def apply(self, classes: Sequence[LiveClass], now: float) -> None:
        """Add classes, or change those of the same names; all of them or none."""
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
        """There is to be a stream, whether or not a class reads it; declaring it again is no mistake if it is the same."""
        if self.declarations.declare_stream(sql):
            self._arrange(now)

    def drop_stream(self, name: str, now: float) -> None:
        """What classes read stays until they are gone."""
        self.declarations.drop_stream(name)
        self._arrange(now)

    # -- nodes and hosts ------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[str]:
        return list(self._seating.nodes)

    @property
    def hosts(self) -> dict[str, str]:
        """The node of each host."""
        return self._seating.hosts

    def units_of(self, class_name: str) -> dict[str, str]:
        """The host of each unit of a class."""
        self.declarations.checked_class(class_name)
        seats = self._seating.seats
        return {unit: seat.host for unit, seat in seats.items() if class_of(unit) == class_name}

    def nodes_changed(self, lanes: Mapping[str, int], now: float) -> None:
        """The nodes that are alive, with their lanes."""
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

    # -- the control loop -----------------------------------------------------------------------------

    @property
    def is_awake(self) -> bool:
        """Whether some unit has input, and so shares may have to move."""
        return any(not report.asleep for report in tuple(self._reports.values()))

    def report(self, host: str, reports: Iterable[UnitReport], now: float) -> None:
        """From a host, at the end of a load cycle. What is said of a unit that is elsewhere by now does not count."""
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
        """What a class that tunes itself comes to, and would come to by each policy and plan."""
        if self.tunings.compared(class_name, objective, event, now):
            self._save_shares()
            self.sync.send_units()

    def redistribute(self, now: float) -> None:
        """A redistribution cycle has ended."""
        if moves_shares(self.settings.manager):
            moved = [self._hear(node, RedistributionDue(), now) for node in self.cores.nodes]
            # What has been lent since goes on from here after a crash.
            if not any(moved):
                self._save_shares()

    def relieve(self) -> None:
        """Begin to move a unit from a node that has too little to one that has room, if that helps."""
        if not self._moving and moves_shares(self.settings.manager):
            move = self._seating.relief(self._loads)
            if move is not None:
                self.move(*move)

    def move(self, unit: str, node: str) -> None:
        """Begin to move a unit."""
        seating = self._seating
        for field_name, name, names in (("unit", unit, seating.seats), ("node", node, seating.nodes)):
            if name not in names:
                raise UnknownName(f"no such {field_name}", field_name, name, nearest(name, names))
        seat = seating.seats[unit]
        if seat.node != node and unit not in self._moving:
            self.changes += 1
            self._moving[unit] = node
            self.effects.move(unit, seat.host, seat.node, node)

    def moved(self, unit: str, now: float) -> None:
        """The unit is at rest, and its log where it goes."""
        node = self._moving.pop(unit, None)
        if node is not None and unit in self._seating.seats:
            origin = self._seating.seats[unit].node
            self._seating.bring(unit, node)
            self._settle(now)
            if origin != self._seating.home_of(unit):
                self.effects.forget(origin, unit)

    def stayed(self, unit: str) -> None:
        """The unit could not be moved: it goes on where it is."""
        self.changes += 1
        if self._moving.pop(unit, None) is not None and unit in self._seating.seats:
            self.sync.forget_copies()
            self.sync.host_restarted(self._seating.seats[unit].host)

    def _hear(self, node: str, event: CapacityEvent, now: float) -> bool:
        """Whether shares have changed."""
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

    # -- what follows ---------------------------------------------------------------------------------

    def _arrange(self, now: float) -> None:
        """Seats, cores and streams as classes and nodes ask for."""
        gone = self._seating.arrange()
        self.sync.forget_units({unit: seat.node for unit, seat in gone.items()})
        self._settle(now)

    def _settle(self, now: float) -> None:
        """All that follows from who sits where."""
        self.changes += 1
        seating, declarations = self._seating, self.declarations
        self._reports = {unit: report for unit, report in self._reports.items() if unit in seating.seats}
        self._loads = {unit: load for unit, load in self._loads.items() if unit in seating.seats}
        self._common.keep_only(seating.seats)
        self.tunings.set_classes(declarations.models)
        seating.find_homes()
        # Before anybody is told of a share: whoever asks after a crash must find the unit.
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

    # -- what is saved, and what people are told ---------------------------------------------------------

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
        """Go on from what was saved, with the nodes that are alive now; once, before anything else.

        Everybody is told what he should know already.
        """
        if declared["version"] != STATE_VERSION:
            raise InvalidInput(
                "the saved state is of another version",
                "version",
                declared["version"],
                f"stop the system with the version that wrote it, or remove it; this one reads {STATE_VERSION}",
            )
        # A state that was saved before streams were declared by themselves has none.
        self.declarations.restore(declared["classes"], declared.get("streams", ()))
        self._seating.nodes = dict(lanes)
        self._seating.restore(declared)
        if shares is not None:
            self.cores.restore(shares)
            self._set_common()
            self._common.restore(shares["common"])
            # What was saved before classes tuned themselves has none.
            self.tunings.restore(shares.get("tuning", {}))
        self._arrange(now)

    def moves(self, class_name: str, last: int) -> list[ShareMove]:
        """The last moves of shares of a class."""
        self.declarations.checked_class(class_name)
        seats = self._seating.seats
        units = {unit: seat.node for unit, seat in seats.items() if class_of(unit) == class_name}
        moves = self.cores.moves(set(units.values()))
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
    """A unit as it is placed, and its last report."""

    class_name: str
    node: str
    host: str
    original: float
    share: float
    moving_to: str | None
    report: UnitReport | None
    home: str
    """The node where its answers are read."""


@dataclass(frozen=True, slots=True)
class SystemStatus:
    nodes: Mapping[str, int]
    """Lanes by node."""
    classes: tuple[LiveClass, ...]
    units: Mapping[str, PlacedUnit]
    unplaced: tuple[str, ...]
    """Units for which there is no node."""
    homes: Mapping[str, str]
    """The node at which a stream comes in, by name in small letters."""
    streams: Mapping[str, str] = field(default_factory=dict)
    """Statements of those that were declared by themselves, by name."""
    policies: Mapping[str, str] = field(default_factory=dict)
    """Of classes that tune themselves, what they have come to."""
