"""The coordinator without Ray: which classes there are, where their units run, and what shares they have.

    what happens              what follows
    apply, remove_class, …    refused with a reason, or in force: units placed, hosts started, shares set
    nodes_changed             units of a lost node go on at their homes; a new node is there for units to come
    report                    what a unit uses goes to its node's core; under `common` also to the one load manager
    redistribute              each node's core moves shares
    …_restarted               whoever began anew is told again what it is to know

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from actors.units import Copy, Unit, UnitReport, class_of
from configs.live import LiveClass, LiveSettings
from configs.managers import moves_shares, scales_headroom, sheds
from configs.problems import InvalidInput, UnknownName, WeirError, nearest
from engine.admission import CheckedClass, check_change, check_together, checked, sources
from engine.plan import Scan
from loadshed.aloma import Branch, Control
from loadshed.build import class_account, common_manager, merged
from loadshed.cycle import CycleEnded
from loadshed.manager import LoadEvent, LoadManager, SetKeep
from loadshed.records import Core, CoreName
from scheduler.capacity import (
    CapacityCore,
    CapacityEvent,
    ClassAsleep,
    ClassesSet,
    HeadroomScaled,
    ReclaimRequested,
    RedistributionDue,
    ShareMove,
    SharesChanged,
    UsageReported,
)
from scheduler.placement import Node, Seat, Shard, place, relief, seats
from scheduler.redistribution import ClassAccount, entitled

STATE_VERSION = 1
# How much of a unit's load, as it is for placement, is its last cycle's: a burst moves nobody.
LOAD_SMOOTHING = 0.05
# Far beyond what one coordinator's reports allow; each unit has a log, a descriptor and an entry in every state.
UNITS_MAX = 10_000

Part = Literal["declared", "shares"]
"""What is saved: classes and placement, which change seldom and may be long; shares, which change often."""

# Told of every decision of a core: event, time, commands.
Record = Callable[[Any, float, Sequence[Any]], None]
# Shown a core before it is told anything; gives what is to be told of its decisions.
OpenRecord = Callable[[CoreName, str, Core], Record]


class Effects(Protocol):
    """What the plane asks for. Nothing here waits, and nothing is missed if it gets lost: it is told again."""

    def start_host(self, host: str, node: str) -> None: ...

    def stop_host(self, host: str) -> None: ...

    def set_units(self, host: str, units: Sequence[Unit]) -> None: ...

    def scale_headroom(self, host: str, unit: str, factor: float, share: float, original: float) -> None: ...

    def set_keep(self, host: str, unit: str, keep: float) -> None: ...

    def set_shares(self, node: str, shares: Mapping[str, float], hosts: Mapping[str, str]) -> None: ...

    def set_streams(self, node: str, streams: Mapping[str, Stream]) -> None: ...

    def set_copies(self, node: str, copies: Mapping[str, Copy]) -> None:
        """These units that run elsewhere have their home at the node."""

    def forget(self, node: str, unit: str) -> None:
        """Nothing of the unit is needed at the node any more."""

    def move(self, unit: str, host: str, origin: str, node: str) -> None:
        """Bring the unit to rest and its log to the node; the answer is `moved` or `stayed`."""

    def save(self, part: Part, state: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream as a node has it: its own, or a copy of another node's."""

    sql: str
    home: str


@dataclass
class ControlPlane:
    """Every method is called by one thread."""

    settings: LiveSettings
    effects: Effects
    open_record: OpenRecord | None = None
    _classes: dict[str, CheckedClass] = field(init=False, default_factory=dict)
    _nodes: dict[str, int] = field(init=False, default_factory=dict)
    _seats: dict[str, Seat] = field(init=False, default_factory=dict)
    _moving: dict[str, str] = field(init=False, default_factory=dict)
    _homes: dict[str, str] = field(init=False, default_factory=dict)
    _hosts_made: int = field(init=False, default=0)
    _cores: dict[str, CapacityCore] = field(init=False, default_factory=dict)
    # What the cores were told of classes.
    _accounts: dict[str, dict[str, ClassAccount]] = field(init=False, default_factory=dict)
    _records: dict[str, Record] = field(init=False, default_factory=dict)
    # Lent on nodes that are gone.
    _lent_s: dict[tuple[str, str], float] = field(init=False, default_factory=dict)
    _common: LoadManager | None = field(init=False, default=None)
    _cycles: dict[str, CycleEnded] = field(init=False, default_factory=dict)
    _reports: dict[str, UnitReport] = field(init=False, default_factory=dict)
    _loads: dict[str, float] = field(init=False, default_factory=dict)
    # Units that are no more, and where they were.
    _gone: list[tuple[str, str]] = field(init=False, default_factory=list)
    _told: Told = field(init=False, default_factory=lambda: Told())

    @property
    def redistribution_s(self) -> float:
        """From one redistribution to the next."""
        return self.settings.load.redistribute_every * self.settings.load.cycle_ms / 1e3

    # -- what is declared -----------------------------------------------------------------------------

    @property
    def classes(self) -> list[LiveClass]:
        return [one.declared for one in self._classes.values()]

    def apply(self, classes: Sequence[LiveClass], now: float) -> None:
        """Add classes, or change those of the same names; all of them or none."""
        names = Counter(one.name for one in classes)
        for name, count in names.items():
            if count > 1:
                raise InvalidInput("class names must differ", "classes.name", name, "rename one of the two")
        with planning():
            found = [checked(one) for one in classes]
        for one in found:
            if one.name in self._classes:
                check_change(self._classes[one.name], one)
        self._declare(self._classes | {one.name: one for one in found}, now)

    def remove_class(self, name: str, now: float) -> None:
        self._known(name)
        self._declare({other: one for other, one in self._classes.items() if other != name}, now)

    def add_query(self, class_name: str, name: str, sql: str, now: float) -> None:
        with planning():
            changed = self._known(class_name).with_query(name, sql)
        self._declare(self._classes | {class_name: changed}, now)

    def remove_query(self, class_name: str, name: str, now: float) -> None:
        changed = self._known(class_name).without_query(name)
        self._declare(self._classes | {class_name: changed}, now)

    def _known(self, name: str) -> CheckedClass:
        if name not in self._classes:
            raise UnknownName("no such class", "class", name, nearest(name, self._classes))
        return self._classes[name]

    def _declare(self, classes: dict[str, CheckedClass], now: float) -> None:
        check_together(list(classes.values()))
        units = sum(one.declared.shards for one in classes.values())
        if units > UNITS_MAX:
            raise InvalidInput(
                f"all classes together may have {UNITS_MAX:,} shards", "shards", units, "declare fewer"
            )
        self._classes = classes
        self._arrange(now)

    # -- nodes and hosts ------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[str]:
        return list(self._nodes)

    @property
    def hosts(self) -> dict[str, str]:
        """The node of each host."""
        return {seat.host: seat.node for seat in self._seats.values()}

    def units_of(self, class_name: str) -> dict[str, str]:
        """The host of each unit of a class."""
        self._known(class_name)
        return {unit: seat.host for unit, seat in self._seats.items() if class_of(unit) == class_name}

    def nodes_changed(self, lanes: Mapping[str, int], now: float) -> None:
        """The nodes that are alive, with their lanes."""
        if dict(lanes) == self._nodes:
            return
        self._nodes = dict(lanes)
        self._moving = {
            unit: node
            for unit, node in self._moving.items()
            if node in lanes and unit in self._seats and self._seats[unit].node in lanes
        }
        self._arrange(now)

    def host_restarted(self, host: str) -> None:
        self._told.units.pop(host, None)
        self._told.keeps.pop(host, None)
        self._tell()

    def dispatcher_restarted(self, node: str) -> None:
        self._told.shares.pop(node, None)
        self._tell()

    def gateway_restarted(self, node: str) -> None:
        self._told.streams.pop(node, None)
        self._told.copies.pop(node, None)
        self._tell()

    # -- the control loop -----------------------------------------------------------------------------

    @property
    def is_awake(self) -> bool:
        """Whether some unit has input, and so shares may have to move."""
        return any(not one.asleep for one in self._reports.values())

    def report(self, host: str, reports: Iterable[UnitReport], now: float) -> None:
        """From a host, at the end of a load cycle. What is said of a unit that is elsewhere by now does not count."""
        for one in reports:
            seat = self._seats.get(one.unit)
            if seat is None or seat.host != host:
                continue
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
            if one.cycle is not None and self._common is not None:
                if one.unit in self._cycles:
                    self._end_common_cycle(self._common, now)
                self._cycles[one.unit] = one.cycle

    def redistribute(self, now: float) -> None:
        """A redistribution cycle has ended."""
        if moves_shares(self.settings.manager):
            moved = [self._hear(node, RedistributionDue(), now) for node in self._cores]
            # What has been lent since goes on from here after a crash.
            if not any(moved):
                self._save_shares(now)

    def relieve(self) -> None:
        """Begin to move a unit from a node that has too little to one that has room, if that helps."""
        if not self._moving and moves_shares(self.settings.manager):
            shards = self._shards()
            move = relief(self._placing(), list(shards.values()))
            if move is not None:
                self.move(next(name for name, one in shards.items() if one.name == move.shard), move.target)

    def move(self, unit: str, node: str) -> None:
        """Begin to move a unit."""
        for field_name, name, known in (("unit", unit, self._seats), ("node", node, self._nodes)):
            if name not in known:
                raise UnknownName(f"no such {field_name}", field_name, name, nearest(name, known))
        seat = self._seats[unit]
        if seat.node != node and unit not in self._moving:
            self._moving[unit] = node
            self.effects.move(unit, seat.host, seat.node, node)

    def moved(self, unit: str, now: float) -> None:
        """The unit is at rest, and its log where it goes."""
        node = self._moving.pop(unit, None)
        if node is not None and unit in self._seats:
            origin = self._seats[unit].node
            self._seat_on(unit, node)
            self._settle(now)
            if origin != self._home_of(unit):
                self.effects.forget(origin, unit)

    def stayed(self, unit: str) -> None:
        """The unit could not be moved: it goes on where it is."""
        if self._moving.pop(unit, None) is not None and unit in self._seats:
            self._told.copies.clear()
            self.host_restarted(self._seats[unit].host)

    def _hear(self, node: str, event: CapacityEvent, now: float) -> bool:
        """Whether shares have changed."""
        commands = self._cores[node].handle(event, now)
        if node in self._records:
            self._records[node](event, now, commands)
        for command in commands:
            match command:
                case HeadroomScaled(unit, factor, share, original):
                    self.effects.scale_headroom(self._seats[unit].host, unit, factor, share, original)
                case SharesChanged():
                    self._save_shares(now)
                    self._tell_dispatcher(node)
        return bool(commands)

    def _end_common_cycle(self, manager: LoadManager, now: float) -> None:
        """All have reported since the last decision, or one has twice."""
        event: LoadEvent = merged(self._cycles)
        self._cycles = {}
        commands = manager.handle(event, now)
        if manager.name in self._records:
            self._records[manager.name](event, now, commands)
        if any(isinstance(command, SetKeep) for command in commands):
            self._save_shares(now)
            self._tell_keeps()

    # -- units, hosts and shares ----------------------------------------------------------------------

    def _arrange(self, now: float) -> None:
        """Seats, cores and streams as classes and nodes ask for."""
        self._seat()
        self._settle(now)

    def _settle(self, now: float) -> None:
        """All that follows from who sits where."""
        self._reports = {unit: one for unit, one in self._reports.items() if unit in self._seats}
        self._cycles = {unit: one for unit, one in self._cycles.items() if unit in self._seats}
        self._loads = {unit: one for unit, one in self._loads.items() if unit in self._seats}
        self._find_homes()
        # Before anybody is told of a share: whoever asks after a crash must find the unit.
        self.effects.save("declared", self.declared_state())
        self._set_accounts(now)
        self._set_common()
        self._save_shares(now)
        self._tell()

    def _units(self) -> dict[str, Unit]:
        """All units there are to be, by name, without shares."""
        units = (
            Unit(one.declared, shard)
            for one in self._classes.values()
            for shard in range(one.declared.shards)
        )
        return {unit.name: unit for unit in units}

    def _shards(self) -> dict[str, Shard]:
        """All units there are to be, as placement sees them."""
        return {
            name: Shard(
                unit.declared.name,
                unit.shard,
                weight(unit),
                self._loads.get(name, 0.0),
                self._seats.get(name),
            )
            for name, unit in self._units().items()
        }

    def _placing(self) -> list[Node]:
        return [Node(name, lanes) for name, lanes in self._nodes.items()]

    def _seat(self) -> None:
        before = self._seats
        self._go_home()
        shards = self._shards()
        found = place(self._placing(), list(shards.values()), self.settings.classes_per_host)
        self._take_seats({name: found[one.name] for name, one in shards.items() if one.name in found})
        for unit, seat in before.items():
            if unit not in shards:
                copied = {node for node, copies in self._told.copies.items() if unit in copies}
                self._gone += [(node, unit) for node in {seat.node, *copied} & self._nodes.keys()]

    def _go_home(self) -> None:
        """Units of lost nodes, to where copies of their logs are."""
        for unit in self._units():
            seat, home = self._seats.get(unit), self._home_of(unit)
            if seat is not None and seat.node not in self._nodes and home in self._nodes:
                self._seat_on(unit, home)

    def _seat_on(self, unit: str, node: str) -> None:
        """Bring one unit to a node, in one of its hosts."""
        shards = self._shards()
        there = [one for one in shards.values() if one.seat is not None and one.seat.node == node]
        there.append(replace(shards[unit], seat=None))
        found = seats(Node(node, self._nodes[node]), there, self.settings.classes_per_host)
        self._take_seats(self._seats | {unit: found[shards[unit].name]})

    def _take_seats(self, found: Mapping[str, Seat]) -> None:
        """A host that is new gets a name no host has had: the last of that name may be about to end."""
        known = {seat.host: seat.host for seat in self._seats.values() if seat.node in self._nodes}
        taken: dict[str, Seat] = {}
        for unit, seat in found.items():
            if seat.host not in known:
                self._hosts_made += 1
                known[seat.host] = f"h{self._hosts_made}"
            taken[unit] = Seat(seat.node, known[seat.host])
        self._seats = taken

    def _find_homes(self) -> None:
        """A stream comes in at one node; where that is gone, at another."""
        known = {stream for one in self._classes.values() for stream in one.streams}
        self._homes = {
            stream: node for stream, node in self._homes.items() if stream in known and node in self._nodes
        }
        readers = {stream: self._nodes_reading(stream) for stream in known}
        for stream in sorted(known - self._homes.keys()):
            if self._nodes:
                self._homes[stream] = min(readers[stream] or self._nodes)

    def _nodes_reading(self, stream: str) -> set[str]:
        """Where units that may read it run or have their home."""
        units = [unit for unit in self._seats if stream in self._classes[class_of(unit)].streams]
        homes = {home for unit in units if (home := self._home_of(unit)) is not None}
        return homes | {self._seats[unit].node for unit in units}

    def _home_of(self, unit: str) -> str | None:
        """The node of a unit's input; there its answers are read, wherever it runs."""
        return self._homes.get(next(iter(self._classes[class_of(unit)].streams), ""))

    def _set_accounts(self, now: float) -> None:
        for node in [node for node in self._cores if node not in self._nodes]:
            self._keep_lent(self._cores.pop(node), now)
            self._accounts.pop(node, None)
            self._records.pop(node, None)
        for node, lanes in self._nodes.items():
            accounts = self._accounts_on(node)
            if node not in self._cores:
                scales = scales_headroom(self.settings.manager)
                self._add_core(node, CapacityCore((), lanes, scales, self.redistribution_s))
            if self._accounts.get(node, {}) != accounts:
                self._accounts[node] = accounts
                self._hear(node, ClassesSet(tuple(accounts.values())), now)

    def _add_core(self, node: str, core: CapacityCore) -> None:
        self._cores[node] = core
        if self.open_record is not None:
            self._records[node] = self.open_record("capacity", node, core)

    def _keep_lent(self, core: CapacityCore, now: float) -> None:
        for lender, borrowers in core.lending(now).items():
            for borrower, seconds in borrowers.items():
                self._lent_s[lender, borrower] = self._lent_s.get((lender, borrower), 0.0) + seconds

    def _accounts_on(self, node: str) -> dict[str, ClassAccount]:
        """What the units of a node are entitled to there.

        A node with few units gives each more than its class is entitled to on the whole. Minimum shares grow with it,
        and a class's limit of borrowing is for its units there together.
        """
        units = self._units()
        here = [unit for unit, seat in self._seats.items() if seat.node == node]
        total, total_here = sum(map(weight, units.values())), sum(weight(units[unit]) for unit in here)
        beside = Counter(map(class_of, here))
        accounts = []
        for name in here:
            declared, heavy = units[name].declared, weight(units[name])
            account = class_account(declared, heavy / total_here, self.settings.manager)
            accounts.append(
                replace(
                    account,
                    name=name,
                    priority=heavy,
                    min_share=min(account.min_share / declared.shards * total / total_here, account.original),
                    borrow_limit=account.borrow_limit / beside[declared.name],
                )
            )
        return {one.name: one for one in entitled(accounts)}

    def _set_common(self) -> None:
        """One load manager for all, with what it has learned so far."""
        if sheds(self.settings.manager) != "everybody" or not self._classes or not self._nodes:
            self._common = None
            return
        before = self._common
        made = common_manager(self.classes, self.settings.load, sum(self._nodes.values()))
        if before is not None and same_limits(before, made):
            return
        if self.open_record is not None:
            self._records[made.name] = self.open_record("load", made.name, made)
        if before is not None:
            headroom = min(before.control.headroom, made.headroom_max)
            made.control = replace(before.control, headroom=headroom)
        self._common = made

    # -- telling --------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Tell everybody what has changed since it was told last."""
        self._tell_gateways()
        self._tell_copies()
        self._tell_hosts()
        self._tell_dispatchers()
        self._tell_keeps()
        while self._gone:
            self.effects.forget(*self._gone.pop())

    def _tell_gateways(self) -> None:
        wanted: dict[str, dict[str, Stream]] = {node: {} for node in self._nodes}
        for one in self._classes.values():
            for sql, (name, schema) in zip(one.declared.streams, one.streams.items(), strict=True):
                home = self._homes.get(name)
                if home is not None:
                    for node in {home, *self._nodes_reading(name)}:
                        wanted[node].setdefault(schema.name, Stream(sql, home))
        told = self._told.streams
        for node in [node for node in told if node not in wanted]:
            del told[node]
        for node, streams in wanted.items():
            if told.get(node) != streams:
                told[node] = streams
                self.effects.set_streams(node, streams)

    def _tell_copies(self) -> None:
        wanted: dict[str, dict[str, Copy]] = {node: {} for node in self._nodes}
        for unit, seat in self._seats.items():
            one, home = self._classes[class_of(unit)], self._home_of(unit)
            if home is not None and home != seat.node:
                wanted[home][unit] = Copy(seat.node, streams_read(one), one.declared.lossless)
        told = self._told.copies
        for node in [node for node in told if node not in wanted]:
            del told[node]
        for node, copies in wanted.items():
            if told.get(node) != copies:
                told[node] = copies
                self.effects.set_copies(node, copies)

    def _tell_hosts(self) -> None:
        told, nodes = self._told.units, self.hosts
        for host in [host for host in told if host not in nodes]:
            del told[host]
            self._told.keeps.pop(host, None)
            self.effects.stop_host(host)
        wanted: dict[str, list[Unit]] = {}
        for unit in self._seated_units():
            wanted.setdefault(self._seats[unit.name].host, []).append(unit)
        for host, units in wanted.items():
            if host not in told:
                self.effects.start_host(host, nodes[host])
            # Of a share that has moved, the host knows by `scale_headroom`.
            unshared = [replace(unit, share=0.0) for unit in units]
            if told.get(host) != unshared:
                told[host] = unshared
                self.effects.set_units(host, units)

    def _seated_units(self) -> Iterable[Unit]:
        for name, unit in self._units().items():
            seat = self._seats.get(name)
            if seat is not None:
                original = self._accounts[seat.node][name].original
                yield replace(unit, original=original, share=self._cores[seat.node].shares[name])

    def _tell_dispatchers(self) -> None:
        told = self._told.shares
        for node in [node for node in told if node not in self._cores]:
            del told[node]
        for node in self._cores:
            self._tell_dispatcher(node)

    def _tell_dispatcher(self, node: str) -> None:
        shares = self._cores[node].shares
        wanted = (shares, {unit: self._seats[unit].host for unit in shares})
        if self._told.shares.get(node) != wanted:
            self._told.shares[node] = wanted
            self.effects.set_shares(node, *wanted)

    def _tell_keeps(self) -> None:
        if self._common is None:
            return
        for unit, seat in self._seats.items():
            told, keep = self._told.keeps.setdefault(seat.host, {}), self._common.control.keep
            if told.get(unit, 1.0) != keep:
                told[unit] = keep
                self.effects.set_keep(seat.host, unit, keep)

    # -- what is saved, and what people are told ---------------------------------------------------------

    def declared_state(self) -> dict[str, Any]:
        return {
            "version": STATE_VERSION,
            "classes": [one.model_dump(mode="json") for one in self.classes],
            "seats": {unit: [seat.node, seat.host] for unit, seat in self._seats.items()},
            "homes": self._homes,
            "hosts_made": self._hosts_made,
        }

    def shares_state(self, now: float) -> dict[str, Any]:
        common = self._common.control if self._common is not None else None
        return {
            "cores": {node: core.state() for node, core in self._cores.items()},
            "lent_s": [[lender, borrower, seconds] for (lender, borrower), seconds in self._lent_s.items()],
            "common": common and [common.headroom, common.keep, common.branch.value, common.streak],
        }

    def _save_shares(self, now: float) -> None:
        self.effects.save("shares", self.shares_state(now))

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
        found = [checked(LiveClass.model_validate(one)) for one in declared["classes"]]
        self._classes = {one.name: one for one in found}
        self._nodes = dict(lanes)
        self._seats = {unit: Seat(*seat) for unit, seat in declared["seats"].items()}
        self._homes = dict(declared["homes"])
        self._hosts_made = declared["hosts_made"]
        if shares is not None:
            for node, state in shares["cores"].items():
                accounts = (ClassAccount(**one) for one in state["accounts"])
                self._accounts[node] = {one.name: one for one in entitled(list(accounts))}
                self._add_core(node, CapacityCore.restored(state))
            self._lent_s = {(lender, borrower): seconds for lender, borrower, seconds in shares["lent_s"]}
            self._set_common()
            if self._common is not None and shares["common"] is not None:
                headroom, keep, branch, streak = shares["common"]
                self._common.control = Control(headroom, keep, Branch(branch), streak)
        self._arrange(now)

    def lending(self, now: float) -> dict[str, dict[str, float]]:
        """lender → borrower → processor-seconds, by class, on all nodes, up to now."""
        tables = [core.lending(now) for core in self._cores.values()]
        lent = [
            (lender, borrower, seconds)
            for table in tables
            for lender, borrowers in table.items()
            for borrower, seconds in borrowers.items()
        ]
        total: dict[str, dict[str, float]] = {}
        for lender, borrower, seconds in sorted([*lent, *((*pair, s) for pair, s in self._lent_s.items())]):
            row = total.setdefault(class_of(lender), {})
            row[class_of(borrower)] = row.get(class_of(borrower), 0.0) + seconds
        return total

    def moves(self, class_name: str, last: int) -> list[str]:
        """The last moves of shares on the nodes of a class, in words."""
        self._known(class_name)
        nodes = {seat.node for unit, seat in self._seats.items() if class_of(unit) == class_name}
        return [f"{move.at:.2f} s {move.sentence()}" for move in self.share_moves(nodes)[-last:]]

    def share_moves(self, nodes: Iterable[str]) -> list[ShareMove]:
        """The last moves of shares on these nodes, oldest first."""
        found = [move for node in nodes for move in self._cores[node].moves]
        return sorted(found, key=lambda move: move.at)

    def status(self) -> SystemStatus:
        units = {
            unit: UnitStatus(
                class_of(unit),
                seat.node,
                seat.host,
                self._accounts[seat.node][unit].original,
                self._cores[seat.node].shares[unit],
                self._moving.get(unit),
                self._reports.get(unit),
                self._home_of(unit) or seat.node,
            )
            for unit, seat in self._seats.items()
        }
        waiting = [unit for unit in self._units() if unit not in self._seats]
        return SystemStatus(dict(self._nodes), tuple(self.classes), units, tuple(waiting), dict(self._homes))


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
    """The node at which a stream comes in."""


@dataclass
class Told:
    """What everybody was told last."""

    units: dict[str, list[Unit]] = field(default_factory=dict)
    keeps: dict[str, dict[str, float]] = field(default_factory=dict)
    shares: dict[str, tuple[dict[str, float], dict[str, str]]] = field(default_factory=dict)
    streams: dict[str, dict[str, Stream]] = field(default_factory=dict)
    copies: dict[str, dict[str, Copy]] = field(default_factory=dict)


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


def streams_read(one: CheckedClass) -> tuple[str, ...]:
    """Those that queries of the class read, by name in small letters."""
    plans = [query.plan for query in one.queries.values()]
    found = {scan.stream.name.lower() for plan in plans for scan in sources(plan) if isinstance(scan, Scan)}
    return tuple(sorted(found))


def weight(unit: Unit) -> float:
    """What the shards of a class are entitled to is what the class is."""
    return unit.declared.priority / unit.declared.shards


def same_limits(one: LoadManager, other: LoadManager) -> bool:
    return (one.target_s, one.max_drop, one.headroom_max) == (
        other.target_s,
        other.max_drop,
        other.headroom_max,
    )
