"""Placement of shards on nodes and in host processes.

A class consists of one or more shards. The lanes of a node are divided between its shards by their weights. `place` assigns a
seat to each new shard and to each shard of a dead node, the heaviest first; all other shards keep their seats. It prefers the
nodes with the fewest shards of the same class, and among these the node with the smallest weight per lane.

A host runs in one lane at a time. So shards share a host only if they are together entitled to a small part of a lane, and
shards of the same class never share one. `relief` proposes one move at a time when a node's offered load exceeds its lanes.

Properties (`tests/property/test_placement.py`):
1. Every shard has a seat on a live node, if there is one; a shard on a live node keeps its seat.
2. Shards of a new class are spread over all nodes, or each is on its own node if there are more nodes than shards.
3. The weights per lane of newly placed shards differ between nodes by at most one shard's weight.
4. A host is on one node and has at most `classes_per_host` shards, all of different classes.
5. A move takes load from a node above `OVERLOADED` to a node that stays below `ROOM` with it. So under constant load no
   shard moves twice, and the moves come to an end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

ShardName = tuple[str, int]

# Limits of a node's offered load, as a fraction of its lanes. A node above OVERLOADED gives a shard away.
# A node takes over a shard only if its load then stays below ROOM. The gap between the limits avoids moves because of noise.
OVERLOADED = 0.95
ROOM = 0.8
# Maximum part of a lane to which the shards of one host are entitled together, so that they rarely wait for each other.
HOST_LANES_MAX = 0.5


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    lanes: int
    alive: bool = True


@dataclass(frozen=True, slots=True)
class Seat:
    """Node and host in which a shard runs."""

    node: str
    host: str


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard: a part of a class, split by key, that runs on its own."""

    class_name: str
    number: int
    weight: float  # Entitlement of the class divided by its number of shards
    load: float = 0.0  # Measured offered load in processors
    seat: Seat | None = None

    @property
    def name(self) -> ShardName:
        return self.class_name, self.number


@dataclass(frozen=True, slots=True)
class Move:
    """Proposal to move a shard to another node."""

    shard: ShardName
    origin: str
    target: str


def place(nodes: Sequence[Node], shards: Sequence[Shard], classes_per_host: int = 1) -> dict[ShardName, Seat]:
    """Return a seat for each shard; the result is empty if no node is alive."""
    alive = {node.name: node for node in nodes if node.alive}
    on: dict[str, list[Shard]] = {name: [] for name in alive}
    weight, siblings = dict.fromkeys(alive, 0.0), Counter[tuple[str, str]]()

    def take_in(node: str, shard: Shard) -> None:
        on[node].append(shard)
        weight[node] += shard.weight
        siblings[node, shard.class_name] += 1

    homeless = []
    for shard in shards:
        if shard.seat is not None and shard.seat.node in alive:
            take_in(shard.seat.node, shard)
        elif alive:
            homeless.append(replace(shard, seat=None))
    # The sums are exact, so a rounding error that depends on the order of the shards cannot decide between two nodes.
    weight = {name: fsum(shard.weight for shard in there) for name, there in on.items()}
    for shard in sorted(homeless, key=lambda shard: (-shard.weight, shard.name)):
        orders = (
            (siblings[name, shard.class_name], (weight[name] + shard.weight) / node.lanes, name)
            for name, node in alive.items()
        )
        take_in(min(orders)[2], shard)
    return {
        name: seat
        for node in alive.values()
        for name, seat in seats(node, on[node.name], classes_per_host).items()
    }


def seats(node: Node, shards: Sequence[Shard], classes_per_host: int) -> dict[ShardName, Seat]:
    """Return the seats on a node. Shards without a seat get seats in hosts with room or in new hosts, lightest first."""
    total = sum(shard.weight for shard in shards)
    hosts: dict[str, list[Shard]] = {}
    for shard in shards:
        if shard.seat is not None:
            hosts.setdefault(shard.seat.host, []).append(shard)
    for shard in sorted(shards, key=lambda shard: (shard.weight, shard.name)):
        if shard.seat is None:
            most = HOST_LANES_MAX * total / node.lanes
            fitting = (host for host, held in hosts.items() if fits(shard, held, classes_per_host, most))
            hosts.setdefault(next(fitting, None) or new_host(node, hosts), []).append(shard)
    return {shard.name: Seat(node.name, host) for host, held in hosts.items() for shard in held}


def fits(shard: Shard, held: Sequence[Shard], classes_per_host: int, weight_max: float) -> bool:
    return (
        len(held) < classes_per_host
        and shard.class_name not in {unit.class_name for unit in held}
        and sum(unit.weight for unit in held) + shard.weight <= weight_max
    )


def new_host(node: Node, taken: Iterable[str]) -> str:
    """Return the first unused name for a host of the node."""
    taken = set(taken)
    return next(name for n in range(len(taken) + 1) if (name := f"{node.name}-{n}") not in taken)


def relief(nodes: Sequence[Node], shards: Sequence[Shard]) -> Move | None:
    """Return a move of a shard away from an overloaded node, or None. Overloaded nodes are tried in the order of falling load."""
    alive = {node.name: node for node in nodes if node.alive}
    on: dict[str, list[Shard]] = {name: [] for name in alive}
    for shard in shards:
        if shard.seat is not None and shard.seat.node in alive:
            on[shard.seat.node].append(shard)
    load = {name: sum(shard.load for shard in there) for name, there in on.items()}
    for node in sorted(alive.values(), key=lambda node: (-load[node.name] / node.lanes, node.name)):
        excess = load[node.name] - OVERLOADED * node.lanes
        if excess <= 0:
            return None
        if move := best_move(node, excess, alive.values(), on, load):
            return move
    return None


def best_move(
    origin: Node,
    excess: float,
    nodes: Iterable[Node],
    on: Mapping[str, Sequence[Shard]],
    load: Mapping[str, float],
) -> Move | None:
    """Return the best move of a shard away from a node, or None.

    The smallest shard with a load of at least `excess` is moved. If all shards have less load, the largest shard is moved.
    Nodes without shards of the same class are preferred, and then nodes with the most room.
    """
    choices = []
    for target in nodes:
        siblings = {shard.class_name for shard in on[target.name]}
        for shard in on[origin.name]:
            full = (load[target.name] + shard.load) / target.lanes
            if shard.load > 0 and target != origin and full < ROOM:
                least = (False, shard.load) if shard.load >= excess else (True, -shard.load)
                choices.append((least, shard.class_name in siblings, full, shard.name, target.name))
    if not choices:
        return None
    *_, name, target_name = min(choices)
    return Move(name, origin.name, target_name)
