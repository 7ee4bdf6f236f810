"""Seats of the units of all classes, and the home nodes at which their streams come in.

A seat is the node and host of a unit. The home of a stream is the node that has the original of the stream; other nodes may have
copies. The methods of `Seating` place units and streams, and return where they are:

arrange                  gives each unit a seat, if there is a node; units of lost nodes move to their home nodes,
                         which have copies of their logs
bring                    gives one unit a seat on another node
find_homes               gives each stream a home node; if that node is lost, another one
streams_at, copies_at    return the streams and copies that each gateway should have
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from actors.coordinator.declarations import SystemDeclarations
from actors.coordinator.effects import NodeStream
from actors.messages.unit_messages import Copy, Unit, class_of, copies_reader
from engine.class_.admission import CheckedClass
from engine.plan.plan import Scan
from engine.plan.plan_references import sources
from scheduler.capacity.placement import Node, Seat, Shard, place, relief, seats


@dataclass
class Seating:
    classes_per_host: int
    declarations: SystemDeclarations
    nodes: dict[str, int] = field(init=False, default_factory=dict)
    """Nodes that are alive, with their numbers of lanes."""
    seats: dict[str, Seat] = field(init=False, default_factory=dict)
    """Node and host of each unit."""
    homes: dict[str, str] = field(init=False, default_factory=dict)
    """Node at which each stream comes in."""
    _hosts_made: int = field(init=False, default=0)
    _read: dict[str, tuple[CheckedClass, tuple[str, ...]]] = field(init=False, default_factory=dict)
    """Cache by class: the checked declaration, and the streams that its queries read."""

    def units(self) -> dict[str, Unit]:
        """Return all units of the declared classes, by name, without shares."""
        units = (
            Unit(class_.declared, shard)
            for class_ in self.declarations.classes.values()
            for shard in range(class_.declared.shards)
        )
        return {unit.name: unit for unit in units}

    @property
    def hosts(self) -> dict[str, str]:
        """Return the node of each host."""
        return {seat.host: seat.node for seat in self.seats.values()}

    def arrange(self) -> dict[str, Seat]:
        """Give all units of the declared classes a seat; return removed units with their former seats."""
        before = self.seats
        self._go_home()
        shards = self._shards()
        placed = place(self._placing(), list(shards.values()), self.classes_per_host)
        self._take_seats({name: placed[shard.name] for name, shard in shards.items() if shard.name in placed})
        return {unit: seat for unit, seat in before.items() if unit not in shards}

    def bring(self, unit: str, node: str) -> None:
        """Give the unit a seat in a host on the node. The other units keep their seats."""
        shards = self._shards()
        there = [shard for shard in shards.values() if shard.seat is not None and shard.seat.node == node]
        there.append(replace(shards[unit], seat=None))
        placed = seats(Node(node, self.nodes[node]), there, self.classes_per_host)
        self._take_seats(self.seats | {unit: placed[shards[unit].name]})

    def relief(self, loads: Mapping[str, float]) -> tuple[str, str] | None:
        """Return a unit that should leave its overloaded node, and a node with room for it; None if there is no such pair."""
        shards = {name: replace(shard, load=loads.get(name, 0.0)) for name, shard in self._shards().items()}
        move = relief(self._placing(), list(shards.values()))
        if move is None:
            return None
        return next(name for name, shard in shards.items() if shard.name == move.shard), move.target

    def _shards(self) -> dict[str, Shard]:
        """Return all units of the declared classes as input for placement."""
        return {
            name: Shard(unit.declared.name, unit.shard, weight(unit), seat=self.seats.get(name))
            for name, unit in self.units().items()
        }

    def _placing(self) -> list[Node]:
        return [Node(name, lanes) for name, lanes in self.nodes.items()]

    def _go_home(self) -> None:
        for unit in self.units():
            seat, home = self.seats.get(unit), self.home_of(unit)
            if seat is not None and seat.node not in self.nodes and home in self.nodes:
                self.bring(unit, home)

    def _take_seats(self, found: Mapping[str, Seat]) -> None:
        """Store new seats. A new host gets a name that no host has had, because the process of an old host may still run."""
        names = {seat.host: seat.host for seat in self.seats.values() if seat.node in self.nodes}
        taken: dict[str, Seat] = {}
        for unit, seat in found.items():
            if seat.host not in names:
                self._hosts_made += 1
                names[seat.host] = f"h{self._hosts_made}"
            taken[unit] = Seat(seat.node, names[seat.host])
        self.seats = taken

    def home_of(self, unit: str) -> str | None:
        """Return the home node of a unit: its input arrives and its answers are read there, even if the unit runs on another node."""
        return self.homes.get(next(iter(self.declarations.classes[class_of(unit)].streams), ""))

    def find_homes(self) -> None:
        streams = {
            stream for class_ in self.declarations.classes.values() for stream in class_.streams
        } | self.declarations.streams.keys()
        self.homes = {
            stream: node for stream, node in self.homes.items() if stream in streams and node in self.nodes
        }
        readers = {stream: self._nodes_reading(stream) for stream in streams}
        for stream in sorted(streams - self.homes.keys()):
            if self.nodes:
                taken = Counter(self.homes.values())
                self.homes[stream] = min(readers[stream] or self.nodes, key=lambda node: (taken[node], node))

    def _nodes_reading(self, stream: str) -> set[str]:
        """Return the nodes on which units that may read the stream run, and the home nodes of these units."""
        units = [unit for unit in self.seats if stream in self.declarations.classes[class_of(unit)].streams]
        homes = {home for unit in units if (home := self.home_of(unit)) is not None}
        return homes | {self.seats[unit].node for unit in units}

    def streams_at(self) -> dict[str, dict[str, NodeStream]]:
        """Return the streams of each node: streams with their home at the node, and streams that units on the node read."""
        streams: dict[str, dict[str, NodeStream]] = {node: {} for node in self.nodes}
        readers = self._readers()
        declared = [(stream.sql, stream.schema) for stream in self.declarations.streams.values()]
        for class_ in self.declarations.classes.values():
            declared += zip(class_.declared.streams, class_.streams.values(), strict=True)
        for sql, schema in declared:
            name = schema.name.lower()
            home = self.homes.get(name)
            if home is not None:
                for node in {home, *self._nodes_reading(name)}:
                    stream = NodeStream(sql, home, readers.get((node, name), {}))
                    streams[node].setdefault(schema.name, stream)
        return streams

    def _readers(self) -> dict[tuple[str, str], dict[str, bool]]:
        """Return the readers of each stream on each node, with True for readers that may not lose any input."""
        readers: dict[tuple[str, str], dict[str, bool]] = {}
        for unit, seat in self.seats.items():
            class_ = self.declarations.classes[class_of(unit)]
            for stream in self._streams_read(class_):
                home = self.homes.get(stream)
                readers.setdefault((seat.node, stream), {})[unit] = class_.declared.holds_back
                if home is not None and home != seat.node:
                    # If a unit runs away from the home of its stream, the home keeps each frame until the unit's node has copied the frame.
                    readers.setdefault((home, stream), {})[copies_reader(seat.node)] = True
        return readers

    def _streams_read(self, one: CheckedClass) -> tuple[str, ...]:
        """Return the streams that the queries of a class read. The result is cached, because walking through all plans takes long."""
        read = self._read.get(one.name)
        if read is None or read[0] is not one:
            self._read = {
                name: read for name, read in self._read.items() if name in self.declarations.classes
            }
            read = self._read[one.name] = (one, streams_read(one))
        return read[1]

    def copies_at(self) -> dict[str, dict[str, Copy]]:
        """Return, for each home node, the units that run on other nodes, so that the home node copies their logs."""
        copies: dict[str, dict[str, Copy]] = {node: {} for node in self.nodes}
        for unit, seat in self.seats.items():
            class_, home = self.declarations.classes[class_of(unit)], self.home_of(unit)
            if home is not None and home != seat.node:
                copies[home][unit] = Copy(
                    seat.node,
                    self._streams_read(class_),
                    class_.declared.holds_back,
                    class_.declared.limits.result_bytes,
                )
        return copies

    def state(self) -> dict[str, Any]:
        return {
            "seats": {unit: [seat.node, seat.host] for unit, seat in self.seats.items()},
            "homes": self.homes,
            "hosts_made": self._hosts_made,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.seats = {unit: Seat(*seat) for unit, seat in state["seats"].items()}
        self.homes = dict(state["homes"])
        self._hosts_made = state["hosts_made"]


def weight(unit: Unit) -> float:
    """Return the priority of a unit: the shards of a class divide its priority equally."""
    return unit.declared.priority / unit.declared.shards


def streams_read(one: CheckedClass) -> tuple[str, ...]:
    """Return the names of streams that queries of the class read, in lower case."""
    plans = [query.plan for query in one.queries.values()]
    names = {scan.stream.name.lower() for plan in plans for scan in sources(plan) if isinstance(scan, Scan)}
    return tuple(sorted(names))
