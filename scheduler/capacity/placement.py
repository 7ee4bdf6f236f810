"""Where shards run: on which node, and in which host process.

A class is cut into one shard or more; a node's lanes are divided by the weights of the shards on it. `place` finds a
seat for those that are new or whose node is gone, the heaviest first; nobody who has a seat is moved. A node is chosen
that has the fewest shards of the same class, then the one whose weights per lane are least with the shard.

A host runs in one lane at a time, so only shards that together are entitled to a small part of a lane share one, and
never two of a class. `relief` names one move at a time when a node's offered load is more than its lanes can take.

Properties (`tests/property/test_placement.py`):
1. Every shard has a seat on a node that is alive, if there is one; a shard whose node is alive keeps its seat.
2. Shards of a new class are on as many nodes as there are, or as there are shards.
3. Between nodes, weights placed anew differ by no more per lane than one shard's weight.
4. A host is on one node and has no more than `classes_per_host` shards, no two of a class.
5. A move takes load from a node above `OVERLOADED` to one that stays below `ROOM` with it. So under constant load no
   shard moves twice, and at last nobody moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

ShardName = tuple[str, int]

# Offered load, as a part of the node's lanes: above the first the node is relieved; below the second, with the shard
# counted in, another one takes it over. What lies between keeps a measurement's noise from moving anybody.
OVERLOADED = 0.95
ROOM = 0.8
# Shards share a host up to this part of a lane, so that they seldom have to wait for each other.
HOST_LANES_MAX = 0.5


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    lanes: int
    alive: bool = True


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a shard runs."""

    node: str
    host: str


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a class that runs on its own."""

    class_name: str
    number: int
    weight: float  # what the class is entitled to, divided by its shards
    load: float = 0.0  # offered, in processors, as measured
    seat: Seat | None = None

    @property
    def name(self) -> ShardName:
        return self.class_name, self.number


@dataclass(frozen=True, slots=True)
class Move:
    """Let the shard run on another node."""

    shard: ShardName
    origin: str
    target: str


def place(nodes: Sequence[Node], shards: Sequence[Shard], classes_per_host: int = 1) -> dict[ShardName, Seat]:
    """A seat for each shard; without a node that is alive nobody has one."""
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
    """The seats on a node; those without one get into hosts with room, the lightest first, or into new ones."""
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
    """The first name of the node's that no host has."""
    taken = set(taken)
    return next(name for n in range(len(taken) + 1) if (name := f"{node.name}-{n}") not in taken)


def relief(nodes: Sequence[Node], shards: Sequence[Shard]) -> Move | None:
    """The move that helps the most loaded of the overloaded nodes, or the next one for which there is any."""
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
    """The least shard that is enough, or else the largest one, to where it has the fewest siblings and most room."""
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
