"""The coordinator without Ray: which classes there are, where their units run, and what shares they have.

    what happens              what follows
    apply, remove_class, …    refused with a reason, or in force: units placed, hosts started, shares set
    nodes_changed             units of a lost node go on at their homes; a new node is there for units to come
    report                    what a unit uses goes to its node's core; under `common` also to the one load manager
    redistribute              each node's core moves shares
    compared                  the core of a class that tunes itself may have its units go on by another policy or plan
    …_restarted               whoever began anew is told again what it is to know

Where units run is `actors.coordinator.placement_state`'s to know, their shares `actors.coordinator.node_shares`'s, how much all keep under `common` is
`actors.coordinator.common_manager`'s, and who has been told what `actors.coordinator.state_sync`'s.

Guarantees:
1. What is refused has changed nothing. What is accepted is saved before anybody is told.
2. Everything that is told says how things are to be, so it may be told twice; only `scale_headroom` tells of a step, with
   the share it leads to.
3. A plane made from saved state tells everything again, and nothing of it is new to the system: placement, shares and
   what has been lent are as they were.
4. Shares of a node's units add up to 1, and a unit is in one host.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from actors.coordinator.common_manager import Common
from actors.coordinator.effects import Effects
from actors.coordinator.node_shares import NodeCores, OpenRecord
from actors.coordinator.placement_state import Declared, Seating
from actors.coordinator.policy_tuners import Tunings
from actors.coordinator.state_sync import Telling
from actors.messages.unit_messages import Unit, UnitReport, class_of
from configs.classes.live_class import LiveClass, LiveSettings
from configs.classes.managers import moves_shares
from configs.classes.objectives import Objective
from configs.errors import InvalidInput, UnknownName, WeirError, nearest
from engine.class_.admission import CheckedClass, check_change, check_together, checked, runnable
from engine.data.schema import StreamSchema
from engine.sql import parse_create_stream
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
from scheduler.tuning import Compared, Explanation

STATE_VERSION = 1
# How much of a unit's load, as it is for placement, is its last cycle's: a burst moves nobody.
LOAD_SMOOTHING = 0.05
# Far beyond what one coordinator's reports allow; each unit has a log, a descriptor and an entry in every state.
UNITS_MAX = 10_000


@dataclass
class ControlPlane:
    """Every method is called by one thread."""

    settings: LiveSettings
    effects: Effects
    open_record: OpenRecord | None = None
    _seating: Seating = field(init=False)
    _cores: NodeCores = field(init=False)
    _common: Common = field(init=False)
    _telling: Telling = field(init=False)
    _tunings: Tunings = field(init=False)
    changes: int = field(init=False, default=0)
    """Grows with everything that `status` and `lending` tell."""
    _moving: dict[str, str] = field(init=False, default_factory=dict)
    _reports: dict[str, UnitReport] = field(init=False, default_factory=dict)
    _loads: dict[str, float] = field(init=False, default_factory=dict)
    # Units that are no more, and where they were.
    _gone: list[tuple[str, str]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._seating = Seating(self.settings.classes_per_host)
        self._cores = NodeCores(self.settings.manager, self.redistribution_s, self.open_record)
        self._common = Common(self.settings, self.open_record)
        self._telling = Telling(self.effects)
        self._tunings = Tunings(self.open_record)

    @property
    def redistribution_s(self) -> float:
        """From one redistribution to the next."""
        return self.settings.load.redistribute_every * self.settings.load.cycle_ms / 1e3

    # -- what is declared -----------------------------------------------------------------------------

    @property
    def classes(self) -> list[LiveClass]:
        return [class_.declared for class_ in self._seating.classes.values()]

    def apply(self, classes: Sequence[LiveClass], now: float) -> None:
        """Add classes, or change those of the same names; all of them or none."""
        names = Counter(class_.name for class_ in classes)
        for name, count in names.items():
            if count > 1:
                raise InvalidInput("class names must differ", "classes.name", name, "rename one of the two")
        with planning():
            found = [checked(class_) for class_ in classes]
        for one in found:
            if one.name in self._seating.classes:
                check_change(self._seating.classes[one.name], one)
        self._declare(self._seating.classes | {one.name: one for one in found}, now)

    def remove_class(self, name: str, now: float) -> None:
        self._known(name)
        self._declare({other: one for other, one in self._seating.classes.items() if other != name}, now)

    def add_query(self, class_name: str, name: str, sql: str, now: float) -> None:
        with planning():
            changed = self._known(class_name).with_query(name, sql)
        self._declare(self._seating.classes | {class_name: changed}, now)

    def remove_query(self, class_name: str, name: str, now: float) -> None:
        changed = self._known(class_name).without_query(name)
        self._declare(self._seating.classes | {class_name: changed}, now)

    def declare_stream(self, sql: str, now: float) -> None:
        """There is to be a stream, whether or not a class reads it; declaring it again is no mistake if it is the same."""
        with planning():
            schema = parse_create_stream(sql)
        streams = self._seating.streams
        known = streams.get(schema.name.lower())
        for other in [class_.streams.get(schema.name.lower()) for class_ in self._seating.classes.values()]:
            check_same(other, schema)
        if known is not None:
            check_same(known.schema, schema)
            return
        self._seating.streams = {**streams, schema.name.lower(): Declared(sql, schema)}
        self._arrange(now)

    def drop_stream(self, name: str, now: float) -> None:
        """What classes read stays until they are gone."""
        streams = self._seating.streams
        if name.lower() not in streams:
            raise UnknownName("no such stream", "stream", name, nearest(name, streams))
        self._seating.streams = {other: one for other, one in streams.items() if other != name.lower()}
        self._arrange(now)

    def _known(self, name: str) -> CheckedClass:
        if name not in self._seating.classes:
            raise UnknownName("no such class", "class", name, nearest(name, self._seating.classes))
        return self._seating.classes[name]

    def _declare(self, classes: dict[str, CheckedClass], now: float) -> None:
        check_together(list(classes.values()))
        for name, one in self._seating.streams.items():
            for other in classes.values():
                check_same(other.streams.get(name), one.schema)
        units = sum(class_.declared.shards for class_ in classes.values())
        if units > UNITS_MAX:
            raise InvalidInput(
                f"all classes together may have {UNITS_MAX:,} shards", "shards", units, "declare fewer"
            )
        self._seating.classes = classes
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
        self._known(class_name)
        seats = self._seating.seats
        return {unit: seat.host for unit, seat in seats.items() if class_of(unit) == class_name}

    def nodes_changed(self, lanes: Mapping[str, int], now: float) -> None:
        """The nodes that are alive, with their lanes."""
        if dict(lanes) == self._seating.nodes:
            return
        for node in self._seating.nodes.keys() - lanes.keys():
            self._telling.forget_node(node)
        self._seating.nodes = dict(lanes)
        seats = self._seating.seats
        self._moving = {
            unit: node
            for unit, node in self._moving.items()
            if node in lanes and unit in seats and seats[unit].node in lanes
        }
        self._arrange(now)

    def host_restarted(self, host: str) -> None:
        self._telling.forget_host(host)
        self._tell()

    def dispatcher_restarted(self, node: str) -> None:
        self._telling.forget_dispatcher(node)
        self._tell()

    def gateway_restarted(self, node: str) -> None:
        self._telling.forget_gateway(node)
        self._tell()

    # -- the control loop -----------------------------------------------------------------------------

    @property
    def is_awake(self) -> bool:
        """Whether some unit has input, and so shares may have to move."""
        return any(not one.asleep for one in tuple(self._reports.values()))

    def report(self, host: str, reports: Iterable[UnitReport], now: float) -> None:
        """From a host, at the end of a load cycle. What is said of a unit that is elsewhere by now does not count."""
        for one in reports:
            seat = self._seating.seats.get(one.unit)
            if seat is None or seat.host != host:
                continue
            self.changes += 1
            slept = one.unit in self._reports and self._reports[one.unit].asleep
            self._reports[one.unit] = one
            before = self._loads.get(one.unit, one.load)
            self._loads[one.unit] = 0.0 if one.asleep else before + LOAD_SMOOTHING * (one.load - before)
            if moves_shares(self.settings.manager):
                if one.asleep and not slept:
                    self._hear(seat.node, ClassAsleep(one.unit), now)
                elif not one.asleep:
                    self._hear(seat.node, UsageReported(one.unit, one.usage, one.load), now)
                if one.reclaim:
                    self._hear(seat.node, ReclaimRequested(one.unit), now)
            if one.cycle is not None and self._common.hear(one.unit, one.cycle, now):
                self._save_shares()
                self._tell_keep()

    def compared(self, class_name: str, objective: Objective, event: Compared, now: float) -> None:
        """What a class that tunes itself comes to, and would come to by each policy and plan."""
        if self._tunings.compared(class_name, objective, event, now):
            self._save_shares()
            self._tell_hosts()

    def redistribute(self, now: float) -> None:
        """A redistribution cycle has ended."""
        if moves_shares(self.settings.manager):
            moved = [self._hear(node, RedistributionDue(), now) for node in self._cores.nodes]
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
        for field_name, name, known in (("unit", unit, seating.seats), ("node", node, seating.nodes)):
            if name not in known:
                raise UnknownName(f"no such {field_name}", field_name, name, nearest(name, known))
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
            self._telling.forget_copies()
            self.host_restarted(self._seating.seats[unit].host)

    def _hear(self, node: str, event: CapacityEvent, now: float) -> bool:
        """Whether shares have changed."""
        commands = self._cores.handle(node, event, now)
        for command in commands:
            match command:
                case HeadroomScaled(unit, factor, share, original):
                    host = self._seating.seats[unit].host
                    self.effects.scale_headroom(host, unit, factor, share, original)
                case SharesChanged():
                    self._save_shares()
                    self._tell_dispatcher(node)
        return bool(commands)

    # -- what follows, and telling it -----------------------------------------------------------------

    def _arrange(self, now: float) -> None:
        """Seats, cores and streams as classes and nodes ask for."""
        for unit, seat in self._seating.arrange().items():
            kept_at = {seat.node, *self._telling.nodes_with_copies(unit)}
            self._gone += [(node, unit) for node in kept_at & self._seating.nodes.keys()]
        self._settle(now)

    def _settle(self, now: float) -> None:
        """All that follows from who sits where."""
        self.changes += 1
        seating = self._seating
        self._reports = {unit: one for unit, one in self._reports.items() if unit in seating.seats}
        self._loads = {unit: one for unit, one in self._loads.items() if unit in seating.seats}
        self._common.keep_only(seating.seats)
        self._tunings.set_classes(self.classes)
        seating.find_homes()
        # Before anybody is told of a share: whoever asks after a crash must find the unit.
        self.effects.save("declared", self.declared_state())
        for node, event in self._cores.changes(seating, now):
            self._hear(node, event, now)
        self._set_common()
        self._save_shares()
        self._tell()

    def _set_common(self) -> None:
        self._common.set_classes(self.classes, sum(self._seating.nodes.values()))

    def _tell(self) -> None:
        """Tell everybody what has changed since it was told last."""
        self._telling.streams(self._seating.streams_at())
        self._telling.copies(self._seating.copies_at())
        self._tell_hosts()
        for node in self._cores.nodes:
            self._tell_dispatcher(node)
        self._tell_keep()
        while self._gone:
            self.effects.forget(*self._gone.pop())

    def _tell_hosts(self) -> None:
        wanted: dict[str, list[Unit]] = {}
        shares = self._cores.shares()
        for name, unit in self._seating.units().items():
            seat = self._seating.seats.get(name)
            if seat is not None:
                original, share = self._cores.original(seat.node, name), shares[seat.node][name]
                choice = self._tunings.choice_of(class_of(name))
                given = replace(unit, original=original, share=share, choice=choice)
                wanted.setdefault(seat.host, []).append(given)
        self._telling.units(wanted, self.hosts)

    def _tell_dispatcher(self, node: str) -> None:
        shares = self._cores.shares_on(node)
        self._telling.shares(node, shares, {unit: self._seating.seats[unit].host for unit in shares})

    def _tell_keep(self) -> None:
        if self._common.keep is not None:
            self._telling.keep(self._seating.seats, self._common.keep)

    # -- what is saved, and what people are told ---------------------------------------------------------

    def declared_state(self) -> dict[str, Any]:
        return {
            "version": STATE_VERSION,
            "classes": [class_.model_dump(mode="json") for class_ in self.classes],
            **self._seating.state(),
        }

    def _save_shares(self) -> None:
        self.changes += 1
        state = {**self._cores.state(), "common": self._common.state(), "tuning": self._tunings.state()}
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
        # This version may not plan all that ran before: each class continues with the queries that can be planned.
        found = [runnable(LiveClass.model_validate(one))[0] for one in declared["classes"]]
        self._seating.classes = {one.name: one for one in found}
        self._seating.nodes = dict(lanes)
        self._seating.restore(declared)
        if shares is not None:
            self._cores.restore(shares)
            self._set_common()
            self._common.restore(shares["common"])
            # What was saved before classes tuned themselves has none.
            self._tunings.restore(shares.get("tuning", {}))
        self._arrange(now)

    def lending(self, now: float) -> dict[str, dict[str, float]]:
        """lender → borrower → processor-seconds, by class, on all nodes, up to now."""
        return self._cores.lending(now)

    def moves(self, class_name: str, last: int) -> list[ShareMove]:
        """The last moves of shares of a class."""
        self._known(class_name)
        seats = self._seating.seats
        units = {unit: seat.node for unit, seat in seats.items() if class_of(unit) == class_name}
        moves = self.share_moves(set(units.values()))
        return [move for move in moves if any(map(move.concerns, units))][-last:] if last > 0 else []

    def tuned(self, class_name: str, last: int) -> tuple[Explanation, ...]:
        """The last decisions on the policy of a class that tunes itself, and all by which it came to another one."""
        return self._tunings.explanations(class_name, last)

    def last_moves(self, last: int) -> list[ShareMove]:
        """Of all nodes, those that have moved anything, oldest first."""
        moved = (move for move in reversed(self.share_moves(self.nodes)) if move.is_any)
        return list(islice(moved, last))[::-1]

    def share_moves(self, nodes: Iterable[str]) -> list[ShareMove]:
        """The last moves of shares on these nodes, oldest first."""
        return self._cores.moves(nodes)

    def status(self) -> SystemStatus:
        seating, shares = self._seating, self._cores.shares()
        units = {
            unit: UnitStatus(
                class_name=class_of(unit),
                node=seat.node,
                host=seat.host,
                original=self._cores.original(seat.node, unit),
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
            classes=tuple(self.classes),
            units=units,
            unplaced=tuple(waiting),
            homes=dict(seating.homes),
            streams={stream.schema.name: stream.sql for stream in seating.streams.values()},
            policies=self._tunings.in_force(),
        )


@dataclass(frozen=True, slots=True)
class UnitStatus:
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
    units: Mapping[str, UnitStatus]
    unplaced: tuple[str, ...]
    """Units for which there is no node."""
    homes: Mapping[str, str]
    """The node at which a stream comes in, by name in small letters."""
    streams: Mapping[str, str] = field(default_factory=dict)
    """Statements of those that were declared by themselves, by name."""
    policies: Mapping[str, str] = field(default_factory=dict)
    """Of classes that tune themselves, what they have come to."""


def check_same(one: StreamSchema | None, other: StreamSchema) -> None:
    if one is not None and one != other:
        hint = "remove what reads it first, or choose another name"
        raise InvalidInput("the stream is declared otherwise", "stream", other.name, hint)


@contextmanager
def planning() -> Iterator[None]:
    """A planner that fails on somebody's query must not take the coordinator down with it."""
    try:
        yield
    except WeirError:
        raise
    except Exception as problem:
        traceback.print_exc()
        raise InvalidInput(
            "a query cannot be planned",
            value=repr(problem),
            hint="this is a mistake of Weir's; simplify the query",
        ) from problem
