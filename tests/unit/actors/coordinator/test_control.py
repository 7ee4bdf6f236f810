"""The coordinator's logic without Ray: what is refused, what follows from what happens, and beginning again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from configs.classes.live_class import LiveClass, LiveSettings
from configs.classes.managers import MANAGERS
from configs.errors import InvalidInput, UnknownName
from loadshed.cycle import CycleEnded, InputCycle, OutputCycle
from tests.support.control import ALERTS, BY_SENSOR, READINGS, World, declared, report_of

ALL = "SELECT avg(temp) FROM readings [RANGE 2 SECONDS SLIDE 1 SECOND]"


def three(world: World, now: float = 0.0) -> World:
    world.plane.nodes_changed({"n1": 1}, now)
    world.plane.apply([declared("gold", 6.0), declared("silver", 3.0), declared("bronze", 1.0)], now)
    return world


# -- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "at", "why"),
    [
        ([declared("a"), declared("a")], "classes.name", "must differ"),
        ([declared("a", queries={"q": "SELECT x FROM readings"})], "classes.a.queries.q", "x"),
        ([declared("a", queries={"Readings": "SELECT sensor FROM readings"})], "classes.a.queries", "taken"),
        ([declared("a", queries={"q": ALL, "Q": ALL})], "classes.a.queries", "taken"),
        ([declared("a", streams=("CREATE STREAM",))], "classes.a.streams[0]", ""),
        ([declared("a", streams=(READINGS, READINGS))], "classes.a.streams[1]", "once"),
        (
            [declared("a"), declared("b", streams=(READINGS.replace("float64", "float32"),))],
            "classes.b.streams",
            "class gold declares stream readings otherwise",
        ),
        (
            [declared("a", min_share=0.6), declared("b")],
            "classes.a.min_share",
            "cannot exceed the original share",
        ),
        ([declared("a", key="room")], "classes.a.key", "has no such column"),
        (
            [declared("a", key="sensor", shards=2, queries={"q": ALL})],
            "classes.a.queries.q",
            "split by sensor",
        ),
        (
            [declared("a", key="sensor", shards=2, streams=(READINGS, ALERTS.replace("int32", "int64")))],
            "classes.a.key",
            "one type",
        ),
        (
            [declared("a", limits={"queries": 1}, queries={"q": ALL, "r": ALL})],
            "classes.a.limits.queries",
            "as many",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_and_changes_nothing(
    classes: list[LiveClass], at: str, why: str
) -> None:
    world = three(World())
    before = dict(world.saved)
    with pytest.raises(InvalidInput) as problem:
        world.plane.apply([declared("good"), *classes], 1.0)
    assert (problem.value.field, why in str(problem.value)) == (at, True), str(problem.value)
    assert world.saved == before
    assert "good" not in [one.name for one in world.plane.declarations.models]


def test_a_class_that_runs_keeps_its_shards_and_streams() -> None:
    world = three(World())
    for changed, at in (
        (declared("gold", 6.0, key="sensor", shards=2), "classes.gold.shards"),
        (declared("gold", 6.0, streams=(READINGS.replace("float64", "float32"),)), "classes.gold.streams"),
    ):
        with pytest.raises(InvalidInput, match="cannot change") as problem:
            world.plane.apply([changed], 1.0)
        assert problem.value.field == at


def test_who_does_not_exist_is_named_with_who_does() -> None:
    plane = three(World()).plane
    for ask in (
        lambda: plane.remove_class("golf", 1.0),
        lambda: plane.add_query("golf", "q", ALL, 1.0),
        lambda: plane.units_of("golf"),
    ):
        with pytest.raises(InvalidInput, match="did you mean gold"):
            ask()
    with pytest.raises(InvalidInput, match="no such query"):
        plane.remove_query("gold", "p", 1.0)


# -- classes and queries ---------------------------------------------------------------------------------------


def test_classes_get_a_host_each_and_shares_by_priority() -> None:
    world = three(World())
    assert world.placed == {"gold": "n1", "silver": "n1", "bronze": "n1"}
    assert world.shares["n1"] == {"gold": 0.6, "silver": 0.3, "bronze": 0.1}
    assert len(set(world.hosts_of["n1"].values())) == 3
    assert {unit.name: (unit.original, unit.share) for units in world.units.values() for unit in units} == {
        "gold": (0.6, 0.6),
        "silver": (0.3, 0.3),
        "bronze": (0.1, 0.1),
    }
    assert world.homes == {"n1": {"readings": "n1"}}


def test_classes_share_a_host_but_shards_of_a_class_do_not() -> None:
    world = World(LiveSettings(classes_per_host=3))
    world.plane.nodes_changed({"n1": 1}, 0.0)
    world.plane.apply(
        [declared("a", key="sensor", shards=2), declared("b"), declared("c"), declared("heavy", 7.0)], 0.0
    )
    held = sorted(sorted(unit.name for unit in units) for units in world.units.values())
    assert held == [["a#0", "b", "c"], ["a#1"], ["heavy"]]
    assert world.shares["n1"] == pytest.approx({"a#0": 0.05, "a#1": 0.05, "b": 0.1, "c": 0.1, "heavy": 0.7})


def test_a_class_that_goes_takes_its_host_along_and_leaves_its_share() -> None:
    world = three(World())
    world.plane.remove_class("gold", 1.0)
    assert world.placed == {"silver": "n1", "bronze": "n1"}
    assert world.story[-1] == ("forget", "n1", "gold")
    assert world.shares["n1"] == pytest.approx({"silver": 0.75, "bronze": 0.25})
    assert set(world.hosts) == set(world.units)
    world.plane.remove_class("silver", 1.0)
    world.plane.remove_class("bronze", 1.0)
    assert (world.hosts, world.shares["n1"], world.homes["n1"]) == ({}, {}, {})


def test_queries_come_and_go_and_only_their_host_hears_of_it() -> None:
    world = three(World())
    before = dict(world.units)
    world.plane.add_query("gold", "all", ALL, 1.0)
    host = world.plane.units_of("gold")["gold"]
    assert dict(world.units[host][0].declared.queries) == {"q": BY_SENSOR, "all": ALL}
    assert all(world.units[other] is before[other] for other in before if other != host)
    world.plane.add_query("gold", "over", "SELECT sensor FROM q", 1.0)
    with pytest.raises(InvalidInput, match="query over reads the output"):
        world.plane.remove_query("gold", "q", 1.0)
    world.plane.remove_query("gold", "over", 1.0)
    world.plane.remove_query("gold", "q", 1.0)
    assert list(world.units[host][0].declared.queries) == ["all"]


def test_a_change_of_priority_reaches_lanes_and_load_managers() -> None:
    world = three(World())
    world.plane.apply([declared("bronze", 11.0)], 1.0)
    assert world.shares["n1"] == pytest.approx({"gold": 0.3, "silver": 0.15, "bronze": 0.55})
    scaled = {
        unit: (factor, share)
        for kind, _, unit, factor, share in [one for one in world.story if one[0] == "scale"]
    }
    assert scaled == {"gold": (0.5, 0.3), "silver": (0.5, 0.15), "bronze": (5.5, 0.55)}


# -- the control loop ------------------------------------------------------------------------------------------


def test_idle_capacity_is_lent_and_comes_back_at_once() -> None:
    world = three(World())
    world.report(0.1, gold=0.2, silver=0.5, bronze=4.0)
    assert world.plane.is_awake
    world.plane.redistribute(1.5)
    lent = world.shares["n1"]
    assert lent["bronze"] > 0.3
    assert sum(lent.values()) == pytest.approx(1.0)
    told = {one[2]: one[4] for one in world.story if one[0] == "scale"}
    assert told == pytest.approx(lent)
    host = world.plane.units_of("gold")["gold"]
    world.plane.report(host, [report_of("gold", 2.0, 1.2, reclaim=True)], 2.5)
    assert world.shares["n1"]["gold"] == pytest.approx(0.6)
    assert world.plane.cores.lending(2.5)["gold"]["bronze"] > 0
    assert world.plane.moves("gold", 1)[0].reason == "reclaim by gold"
    world.plane.report(host, [report_of("gold", 2.0, 1.2, reclaim=True)], 2.6)
    # The last one has moved nothing.
    reasons = ["classes set", "redistribution", "reclaim by gold"]
    assert [one.reason for one in world.plane.cores.last_moves(10)] == reasons
    assert [one.reason for one in world.plane.cores.last_moves(2)] == reasons[1:]
    assert world.plane.cores.last_moves(2)[0].loans[0][:2] == ("gold", "bronze")
    assert [loan[:2] for loan in world.plane.cores.last_moves(1)[0].loans] == [("silver", "bronze")]


@pytest.mark.parametrize("manager", [one for one in MANAGERS if one not in ("dilos", "dilos-unscaled")])
def test_without_lending_shares_stay(manager: Any) -> None:
    world = three(World(LiveSettings(manager=manager)))
    world.report(0.1, gold=0.2, silver=0.5, bronze=4.0)
    world.plane.redistribute(1.5)
    assert world.shares["n1"] == {"gold": 0.6, "silver": 0.3, "bronze": 0.1}
    assert world.plane.cores.lending(2.0) == {}


def test_load_managers_are_not_told_of_a_move_in_the_ablation() -> None:
    world = three(World(LiveSettings(manager="dilos-unscaled")))
    world.report(0.1, gold=0.2, silver=0.5, bronze=4.0)
    world.plane.redistribute(1.5)
    assert {one[3] for one in world.story if one[0] == "scale"} == {1.0}


def test_a_class_asleep_lends_what_it_has() -> None:
    world = three(World())
    host = world.plane.units_of("gold")["gold"]
    world.plane.report(host, [report_of("gold", 0.0, 0.0, asleep=True)], 0.1)
    world.report(0.1, bronze=9.0)
    world.plane.redistribute(1.5)
    assert world.shares["n1"]["gold"] == pytest.approx(0.05 * 0.6)
    host = world.plane.units_of("bronze")["bronze"]
    world.plane.report(host, [report_of("bronze", 0.0, 0.0, asleep=True)], 2.0)
    assert not world.plane.is_awake


def test_reports_of_hosts_that_no_longer_have_the_unit_do_not_count() -> None:
    world = three(World())
    world.plane.report("elsewhere", [report_of("gold", 9.0, 9.0), report_of("gone", 1.0, 1.0)], 0.1)
    assert not world.plane.is_awake
    assert world.plane.status().units["gold"].report is None


def overloaded() -> CycleEnded:
    inputs = (InputCycle("readings", 1000, 1e-3, 0.5),)
    return CycleEnded(0.15, inputs, (OutputCycle("q", 0.1, 10, 0.5, 0.5),), 0.5)


def test_the_common_manager_sheds_everybody_alike() -> None:
    world = three(World(LiveSettings(manager="common")))
    for cycle in range(3):
        for name in ("gold", "silver", "bronze"):
            host = world.plane.units_of(name)[name]
            world.plane.report(host, [report_of(name, 1.0, 1.0, cycle=overloaded())], 0.15 * cycle)
    assert set(world.keeps) == {"gold", "silver", "bronze"}
    assert len(set(world.keeps.values())) == 1
    assert world.keeps["gold"] < 1
    again = world.begin_again(1.0)
    assert again.keeps == world.keeps


# -- nodes and hosts -------------------------------------------------------------------------------------------


def test_units_of_a_lost_node_are_placed_anew() -> None:
    world = World()
    world.plane.nodes_changed({"n1": 1, "n2": 1}, 0.0)
    world.plane.apply([declared("a"), declared("b")], 0.0)
    assert sorted(world.placed.values()) == ["n1", "n2"]
    assert [sum(shares.values()) for shares in world.shares.values()] == pytest.approx([1.0, 1.0])
    assert world.homes == {"n1": {"readings": "n1"}, "n2": {"readings": "n1"}}
    world.plane.nodes_changed({"n2": 1}, 1.0)
    assert world.placed == {"a": "n2", "b": "n2"}
    assert world.shares["n2"] == {"a": 0.5, "b": 0.5}
    assert world.homes["n2"] == {"readings": "n2"}
    world.plane.nodes_changed({}, 2.0)
    assert (world.hosts, world.plane.status().unplaced) == ({}, ("a", "b"))
    world.plane.nodes_changed({"n3": 2}, 3.0)
    assert world.placed == {"a": "n3", "b": "n3"}


def test_a_unit_moves_when_it_is_at_rest() -> None:
    world = World()
    world.plane.nodes_changed({"n1": 1, "n2": 1}, 0.0)
    world.plane.apply([declared("a"), declared("b")], 0.0)
    origin, host = world.placed["a"], world.plane.units_of("a")["a"]
    there = "n2" if origin == "n1" else "n1"
    world.plane.move("a", there)
    world.plane.move("a", there)
    assert [one for one in world.story if one[0] == "move"] == [("move", "a", host, origin, there)]
    assert world.placed["a"] == origin
    world.plane.moved("a", 1.0)
    assert set(world.placed.values()) == {there}
    assert host not in world.hosts
    # Its home is where its stream comes in.
    assert (origin, world.copies[origin]) == ("n1", {"a": there, "b": there})
    assert world.shares[there] == {"a": 0.5, "b": 0.5}
    world.plane.moved("a", 1.0)
    world.plane.stayed("a")
    assert world.plane.units_of("a")["a"] != host


def apart() -> World:
    """A class that runs elsewhere than at its home."""
    world = World()
    world.plane.nodes_changed({"n1": 1}, 0.0)
    world.plane.apply([declared("a")], 0.0)
    world.plane.nodes_changed({"n1": 1, "n2": 1, "n3": 8}, 1.0)
    world.plane.move("a", "n2")
    world.plane.moved("a", 2.0)
    return world


def test_the_home_of_a_unit_has_copies_while_it_runs_elsewhere() -> None:
    world = apart()
    assert world.plane.status().units["a"].home == "n1"
    assert (world.copies["n1"], world.homes["n2"]) == ({"a": "n2"}, {"readings": "n1"})
    assert ("forget", "n1", "a") not in world.story
    world.plane.sync.gateway_restarted("n1")
    assert world.copies["n1"] == {"a": "n2"}
    world.plane.move("a", "n3")
    world.plane.moved("a", 3.0)
    assert world.copies["n1"] == {"a": "n3"}
    assert world.story[-1] == ("forget", "n2", "a")
    world.plane.move("a", "n1")
    world.plane.moved("a", 4.0)
    assert world.copies["n1"] == {}


def test_streams_expect_the_units_that_read_them_and_the_nodes_that_have_copies() -> None:
    world = apart()
    assert world.readers["n1"] == {"readings": {"node-n2": True}}
    assert world.readers["n2"] == {"readings": {"a": False}}
    world.plane.apply([declared("b", streams=(READINGS, ALERTS), lossless=True)], 3.0)
    found = {(node, unit) for node, streams in world.readers.items() for unit in streams.get("readings", {})}
    assert (world.placed["b"], "b") in found
    assert not any("alerts" in streams and streams["alerts"] for streams in world.readers.values())
    assert world.readers[world.placed["b"]]["readings"]["b"]
    world.plane.remove_class("a", 4.0)
    world.plane.remove_class("b", 4.0)
    assert not any(world.readers.values())


def test_a_unit_of_a_lost_node_goes_on_where_its_copies_are() -> None:
    world = apart()
    world.plane.move("a", "n3")
    world.plane.nodes_changed({"n1": 1, "n3": 8}, 3.0)
    assert (world.placed["a"], world.copies["n1"]) == ("n1", {})
    world.plane.moved("a", 4.0)
    assert world.placed["a"] == "n1"
    again = apart().begin_again(3.0, {"n1": 1, "n3": 8})
    assert (again.placed["a"], again.copies["n1"]) == ("n1", {})


def test_copies_go_with_their_class() -> None:
    world = apart()
    world.plane.remove_class("a", 3.0)
    assert world.copies["n1"] == {}
    assert set(world.story[-2:]) == {("forget", "n1", "a"), ("forget", "n2", "a")}


def test_an_overloaded_node_is_relieved() -> None:
    world = World()
    world.plane.nodes_changed({"n1": 1, "n2": 1}, 0.0)
    world.plane.apply([declared("a"), declared("b"), declared("c"), declared("d")], 0.0)
    busy = [unit for unit, node in world.placed.items() if node == "n1"]
    world.report(0.1, **dict.fromkeys(busy, 1.3))
    world.plane.relieve()
    world.plane.relieve()
    moves = [one for one in world.story if one[0] == "move"]
    for unit in busy:
        world.plane.report(world.plane.units_of(unit)[unit], [report_of(unit, 0.0, 0.0, asleep=True)], 0.2)
    world.plane.stayed(moves[0][1])
    world.plane.relieve()
    moves = [one for one in world.story if one[0] == "move"]
    assert [(one[1] in busy, one[3:]) for one in moves] == [(True, ("n1", "n2"))]


def test_a_unit_that_cannot_be_moved_goes_on_where_it_is() -> None:
    world = World()
    world.plane.nodes_changed({"n1": 1, "n2": 1}, 0.0)
    world.plane.apply([declared("a")], 0.0)
    host = world.plane.units_of("a")["a"]
    world.plane.move("a", "n2" if world.placed["a"] == "n1" else "n1")
    world.units[host] = []  # it was brought to rest
    world.plane.stayed("a")
    assert [unit.name for unit in world.units[host]] == ["a"]


def test_who_begins_anew_is_told_what_it_is_to_know() -> None:
    world = three(World())
    world.report(0.1, gold=0.2, silver=0.5, bronze=4.0)
    world.plane.redistribute(1.5)
    units, shares, homes = dict(world.units), dict(world.shares), dict(world.homes)
    host = world.plane.units_of("bronze")["bronze"]
    world.units[host], world.shares["n1"], world.homes["n1"] = [], {}, {}
    world.plane.sync.host_restarted(host)
    world.plane.sync.dispatcher_restarted("n1")
    world.plane.sync.gateway_restarted("n1")
    assert (world.shares, world.homes) == (shares, homes)
    assert world.units[host][0].share == pytest.approx(shares["n1"]["bronze"])
    assert [unit.declared for unit in world.units[host]] == [unit.declared for unit in units[host]]


# -- beginning again -------------------------------------------------------------------------------------------


def test_a_coordinator_that_was_killed_changes_nothing() -> None:
    world = three(World())
    world.report(0.1, gold=0.2, silver=0.5, bronze=4.0)
    world.plane.redistribute(1.5)
    world.plane.add_query("gold", "all", ALL, 1.6)
    again = world.begin_again(2.0)
    assert (again.hosts, again.placed, again.homes) == (world.hosts, world.placed, world.homes)
    assert (again.shares, again.hosts_of) == (world.shares, world.hosts_of)
    assert again.plane.declarations.models == world.plane.declarations.models
    assert again.plane.cores.lending(3.0) == world.plane.cores.lending(3.0)
    assert not [one for one in again.story if one[0] == "scale"]
    for plane in (world.plane, again.plane):
        plane.apply([declared("more", 2.0)], 4.0)
    assert (again.hosts, again.shares, again.placed) == (world.hosts, world.shares, world.placed)


def test_a_node_that_went_while_there_was_no_coordinator_is_not_missed() -> None:
    world = World()
    world.plane.nodes_changed({"n1": 1, "n2": 1}, 0.0)
    world.plane.apply([declared("a"), declared("b"), declared("c")], 0.0)
    again = world.begin_again(1.0, {"n2": 1})
    assert set(again.placed) == {"a", "b", "c"}
    assert set(again.hosts.values()) == {"n2"}
    assert again.shares == {"n2": pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})}


def test_a_system_without_classes_begins_again_too() -> None:
    world = World()
    world.plane.nodes_changed({"n1": 1}, 0.0)
    assert world.begin_again(1.0).plane.nodes == ["n1"]


def test_state_of_another_version_is_refused() -> None:
    world = three(World())
    state = json.loads(world.saved["declared"]) | {"version": 99}
    with pytest.raises(InvalidInput, match="another version"):
        World().plane.restore(state, None, {}, 0.0)


def test_telling_twice_changes_nothing() -> None:
    world = three(World())
    told = len(world.story)
    before = dict(world.units)
    world.plane.nodes_changed({"n1": 1}, 1.0)
    world.plane.apply([declared("gold", 6.0)], 1.0)
    assert all(world.units[host] is units for host, units in before.items())
    assert len(world.story) == told


# -- streams by themselves ---------------------------------------------------------------------------------------


def test_a_stream_comes_in_at_one_node_before_and_after_a_class_reads_it() -> None:
    world = World()
    world.plane.nodes_changed({"n1": 1, "n2": 1}, 0.0)
    world.plane.declare_stream(READINGS, 0.0)
    assert world.plane.status().streams == {"readings": READINGS}
    home = world.plane.status().homes["readings"]
    assert world.homes[home] == {"readings": home}
    world.plane.apply([declared("a"), declared("b"), declared("c")], 1.0)
    assert world.plane.status().homes["readings"] == home
    for name in ("a", "b", "c"):
        world.plane.remove_class(name, 2.0)
    assert world.homes[home] == {"readings": home}
    assert world.begin_again(3.0, {"n1": 1, "n2": 1}).plane.status().streams == {"readings": READINGS}
    world.plane.drop_stream("READINGS", 4.0)
    assert world.homes == {"n1": {}, "n2": {}}


def test_streams_that_nobody_reads_yet_are_divided_between_nodes() -> None:
    world = World()
    world.plane.nodes_changed({"n1": 1, "n2": 1}, 0.0)
    world.plane.declare_stream(READINGS, 0.0)
    world.plane.declare_stream(ALERTS, 0.0)
    assert world.plane.status().homes == {"readings": "n1", "alerts": "n2"}


def test_a_stream_that_was_declared_otherwise_is_refused() -> None:
    other = READINGS.replace("float64", "float32")
    world = World()
    world.plane.nodes_changed({"n1": 1}, 0.0)
    world.plane.declare_stream(READINGS, 0.0)
    world.plane.declare_stream(READINGS.lower(), 0.0)
    with pytest.raises(InvalidInput, match="declared otherwise"):
        world.plane.declare_stream(other, 1.0)
    with pytest.raises(InvalidInput, match="declared otherwise"):
        world.plane.apply([declared("a", streams=(other,))], 1.0)
    with pytest.raises(UnknownName, match="no such stream"):
        world.plane.drop_stream("alerts", 1.0)
    three(World()).plane.declare_stream(READINGS, 1.0)
    with pytest.raises(InvalidInput, match="declared otherwise"):
        three(World()).plane.declare_stream(other, 1.0)
