"""The placement of shards on nodes and hosts, one situation per test."""

from collections.abc import Mapping
from dataclasses import replace

from scheduler.capacity.placement import Move, Node, Seat, Shard, ShardName, place, relief

TWO = [Node("a", 2), Node("b", 2)]


def shard(name: str, weight: float = 1.0, number: int = 0, on: str = "", load: float = 0.0) -> Shard:
    """Return a shard. If `on` names a node, the shard already runs alone in a host on this node."""
    return Shard(name, number, weight, load, Seat(on, f"{on}-{name}{number}") if on else None)


def nodes_of(seats: Mapping[ShardName, Seat]) -> dict[str, str]:
    return {f"{name}{number}": seat.node for (name, number), seat in seats.items()}


def hosts_of(seats: Mapping[ShardName, Seat]) -> dict[str, str]:
    return {f"{name}{number}": seat.host for (name, number), seat in seats.items()}


def test_a_new_shard_goes_to_the_node_with_the_least_weight_per_lane() -> None:
    there = [shard("gold", 6, on="a"), shard("silver", 1, on="b")]
    nodes = [Node("a", 8), Node("b", 1)]
    assert nodes_of(place(nodes, [*there, shard("bronze", 1)]))["bronze0"] == "a"


def test_the_heaviest_shards_are_placed_first() -> None:
    shards = [shard("a1", 1), shard("b1", 1), shard("c2", 2)]
    assert nodes_of(place(TWO, shards)) == {"c20": "a", "a10": "b", "b10": "b"}


def test_a_second_shard_of_a_class_goes_to_another_node_although_that_node_is_heavier() -> None:
    there = [shard("gold", 1, on="a"), shard("silver", 9, on="b")]
    assert nodes_of(place(TWO, [*there, shard("gold", 1, number=1)]))["gold1"] == "b"


def test_a_shard_keeps_its_seat_however_uneven_the_nodes_become() -> None:
    there = [shard("gold", 6, on="a"), shard("silver", 3, on="a")]
    assert place([*TWO, Node("c", 8)], there) == {one.name: one.seat for one in there}


def test_a_shard_of_a_lost_node_gets_a_seat_on_another_node() -> None:
    nodes = [replace(TWO[0], alive=False), TWO[1]]
    seats = place(nodes, [shard("gold", on="a"), shard("silver", on="b"), shard("bronze", on="gone")])
    assert nodes_of(seats) == {"gold0": "b", "silver0": "b", "bronze0": "b"}
    assert len(set(hosts_of(seats).values())) == 3


def test_without_a_live_node_no_shard_has_a_seat() -> None:
    assert place([replace(TWO[0], alive=False)], [shard("gold", on="a")]) == place([], [shard("gold")]) == {}


def test_each_shard_has_its_own_host_unless_sharing_is_allowed() -> None:
    shards = [shard("gold"), shard("silver")]
    assert hosts_of(place(TWO[:1], shards)) == {"gold0": "a-0", "silver0": "a-1"}


def test_small_classes_share_a_host_up_to_the_configured_number_of_classes() -> None:
    shards = [shard(f"c{n}", 1) for n in range(8)]
    hosts = hosts_of(place([Node("a", 1)], shards, classes_per_host=3))
    assert [hosts[f"c{n}0"] for n in range(8)] == ["a-0"] * 3 + ["a-1"] * 3 + ["a-2"] * 2


def test_classes_entitled_to_much_of_a_lane_share_no_host() -> None:
    shards = [shard("gold", 6), shard("silver", 2), shard("bronze", 1), shard("copper", 1)]
    hosts = hosts_of(place([Node("a", 1)], shards, classes_per_host=10))
    assert hosts == {"bronze0": "a-0", "copper0": "a-0", "silver0": "a-0", "gold0": "a-1"}


def test_two_shards_of_a_class_share_no_host() -> None:
    shards = [shard("gold", 1, number) for number in range(2)] + [shard("other", 8)]
    hosts = hosts_of(place([Node("a", 1)], shards, classes_per_host=10))
    assert hosts["gold0"] != hosts["gold1"]


def test_a_new_class_joins_a_host_with_room() -> None:
    there = [shard("gold", 8, on="a"), shard("silver", 1, on="a")]
    hosts = hosts_of(place([Node("a", 1)], [*there, shard("bronze", 1)], classes_per_host=2))
    assert hosts["bronze0"] == hosts["silver0"] == "a-silver0"


def test_a_new_host_gets_an_unused_name() -> None:
    there = replace(shard("gold", on="a"), seat=Seat("a", "a-0"))
    assert hosts_of(place(TWO[:1], [shard("silver"), there])) == {"gold0": "a-0", "silver0": "a-1"}


# -- relief --------------------------------------------------------------------------------------------


def test_the_smallest_shard_that_relieves_an_overloaded_node_moves_to_the_node_with_most_room() -> None:
    there = [
        shard("gold", on="a", load=1.2),
        shard("silver", on="a", load=0.5),
        shard("bronze", on="a", load=0.25),
    ]
    nodes = [*TWO, Node("c", 2)]
    assert relief(nodes, [*there, shard("copper", on="b", load=0.1)]) == Move(("bronze", 0), "a", "c")


def test_if_no_single_shard_relieves_an_overloaded_node_the_largest_that_fits_on_another_node_moves() -> None:
    there = [
        shard(name, on="a", load=load) for name, load in (("gold", 1.7), ("silver", 1.0), ("bronze", 0.5))
    ]
    assert relief(TWO, there) == Move(("silver", 0), "a", "b")


def test_no_shard_leaves_a_node_that_is_busy_but_not_overloaded() -> None:
    assert relief(TWO, [shard("gold", on="a", load=1.0), shard("silver", on="a", load=0.9)]) is None


def test_no_shard_moves_to_a_node_that_would_be_nearly_full() -> None:
    there = [
        shard("gold", on="a", load=1.5),
        shard("silver", on="a", load=0.6),
        shard("bronze", on="b", load=1.0),
    ]
    assert relief(TWO, there) is None


def test_no_shard_moves_to_a_dead_node() -> None:
    there = [shard("gold", on="a", load=1.5), shard("silver", on="a", load=0.6)]
    assert relief([TWO[0], replace(TWO[1], alive=False)], there) is None


def test_a_shard_prefers_a_node_without_shards_of_its_class() -> None:
    there = [shard("gold", on="a", load=1.5), shard("silver", on="a", load=1.0)]
    others = [shard("silver", number=1, on="b", load=0.1), shard("bronze", on="c", load=0.4)]
    assert relief([*TWO, Node("c", 2)], [*there, *others]) == Move(("silver", 0), "a", "c")


def test_if_no_shard_can_leave_the_most_loaded_node_the_next_node_is_relieved() -> None:
    there = [
        shard("gold", on="a", load=9.0),
        shard("silver", on="b", load=1.5),
        shard("bronze", on="b", load=0.6),
    ]
    assert relief([*TWO, Node("c", 2)], there) == Move(("bronze", 0), "b", "c")
