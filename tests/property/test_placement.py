"""The numbered properties of `scheduler.capacity.placement`, computed here from its inputs and outputs alone: nodes, shards and seats."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.capacity.placement import Move, Node, Seat, Shard, ShardName, place, relief

NAMES = ("a", "b", "c", "d")
NEAR = 1e-9

nodes = st.lists(
    st.builds(Node, st.sampled_from(NAMES), st.integers(1, 4), st.sampled_from([True, True, False])),
    max_size=4,
    unique_by=lambda node: node.name,
)
loads = st.sampled_from([0.0, 0.1, 0.3, 0.95]) | st.floats(0, 4)


@st.composite
def shards(draw: st.DrawFn, seated: bool = True) -> list[Shard]:
    """Draw shards of up to eight classes. Some shards have a seat, in a host with or without other shards.

    The node of a seat may be gone.
    """
    made = []
    for class_name in range(draw(st.integers(0, 8))):
        count, weight = draw(st.integers(1, 3)), draw(st.integers(1, 8))
        for number in range(count):
            seat = None
            if seated and draw(st.booleans()):
                node = draw(st.sampled_from(NAMES))
                # The host of a shard is named by the shard's number, so that no host has two shards of one class.
                seat = Seat(node, f"{node}-{number}")
            made.append(Shard(f"class{class_name}", number, weight / count, draw(loads), seat))
    return made


def per_lane(on: Sequence[Node], given: Sequence[Shard], seats: Mapping[ShardName, Seat]) -> list[float]:
    sums: dict[str, float] = defaultdict(float)
    for shard in given:
        sums[seats[shard.name].node] += shard.weight
    return [sums[node.name] / node.lanes for node in on]


@given(nodes, shards(), st.integers(1, 4))
def test_every_shard_has_a_seat_and_keeps_it_while_its_node_lives(
    on: list[Node], drawn: list[Shard], per_host: int
) -> None:
    alive = {node.name for node in on if node.alive}
    seats = place(on, drawn, per_host)
    assert seats.keys() == ({shard.name for shard in drawn} if alive else set())
    for shard in drawn:
        if alive:
            assert seats[shard.name].node in alive
        if shard.seat is not None and shard.seat.node in alive:
            assert seats[shard.name] == shard.seat


@given(nodes, shards(), st.integers(1, 4))
def test_placing_shards_again_moves_none_and_the_order_of_nodes_and_shards_does_not_matter(
    on: list[Node], drawn: list[Shard], per_host: int
) -> None:
    seats = place(on, drawn, per_host)
    seated = [replace(shard, seat=seats.get(shard.name)) for shard in drawn]
    assert place(on, seated, per_host) == seats
    other = place(on[::-1], drawn[::-1], per_host)
    assert {name: seat.node for name, seat in other.items()} == {
        name: seat.node for name, seat in seats.items()
    }


@given(nodes, shards(seated=False))
def test_shards_of_a_new_class_are_on_as_many_nodes_as_possible(on: list[Node], drawn: list[Shard]) -> None:
    seats, alive = place(on, drawn), [node for node in on if node.alive]
    for class_name in {shard.class_name for shard in drawn if alive}:
        mine = [seat.node for (name, _), seat in seats.items() if name == class_name]
        assert len(set(mine)) == min(len(mine), len(alive))


@given(nodes, shards(seated=False))
def test_nodes_of_classes_with_one_shard_differ_in_weight_by_at_most_the_heaviest_shard(
    on: list[Node], drawn: list[Shard]
) -> None:
    single = [shard for shard in drawn if shard.number == 0]
    alive = [node for node in on if node.alive]
    if alive:
        seats = place(on, single)
        heaviest = max((shard.weight for shard in single), default=0.0)
        full = per_lane(alive, single, seats)
        for node, other in zip(alive, full, strict=True):
            assert max(full) <= other + heaviest / node.lanes + NEAR


@given(nodes, shards(), st.integers(1, 4))
def test_a_host_is_on_one_node_within_its_limit_and_has_no_two_shards_of_a_class(
    on: list[Node], drawn: list[Shard], per_host: int
) -> None:
    alive = {node.name for node in on if node.alive}
    seats = place(on, drawn, per_host)
    stays = {shard.name for shard in drawn if shard.seat is not None and shard.seat.node in alive}
    held: dict[str, list[ShardName]] = defaultdict(list)
    for name, seat in seats.items():
        assert seat.host.startswith(f"{seat.node}-")
        held[seat.host].append(name)
    for names in held.values():
        assert len({class_name for class_name, _ in names}) == len(names)
        assert len(names) <= per_host or stays.issuperset(names)


def after(drawn: Sequence[Shard], move: Move) -> list[Shard]:
    return [
        replace(shard, seat=Seat(move.target, f"{move.target}-x{number}"))
        if shard.name == move.shard
        else shard
        for number, shard in enumerate(drawn)
    ]


def load_of(drawn: Sequence[Shard], node: str) -> float:
    return sum(shard.load for shard in drawn if shard.seat is not None and shard.seat.node == node)


def helpful(on: Sequence[Node], drawn: Sequence[Shard]) -> list[Move]:
    """Return every move of a shard from an overloaded node to a node with room."""
    alive = [node for node in on if node.alive]
    return [
        Move(shard.name, origin.name, target.name)
        for origin in alive
        if load_of(drawn, origin.name) > 0.95 * origin.lanes
        for shard in drawn
        if shard.seat is not None and shard.seat.node == origin.name and shard.load > 0
        for target in alive
        if target != origin and load_of(drawn, target.name) + shard.load < 0.8 * target.lanes
    ]


@given(nodes, shards())
def test_a_shard_moves_from_an_overloaded_node_if_another_node_has_room(
    on: list[Node], drawn: list[Shard]
) -> None:
    move, possible = relief(on, drawn), helpful(on, drawn)
    assert move in possible if possible else move is None


@given(nodes, shards())
def test_under_constant_load_each_shard_moves_at_most_once(on: list[Node], drawn: list[Shard]) -> None:
    moved = []
    while (move := relief(on, drawn)) is not None:
        moved.append(move.shard)
        assert len(set(moved)) == len(moved)
        drawn = after(drawn, move)
        assert place(on, drawn).get(move.shard, Seat(move.target, "")).node == move.target
