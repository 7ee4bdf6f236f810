"""The coordinator's control plane without Ray: refused declarations, placement, lending, lost nodes and restarts."""

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


# Tests of declarations that the control plane refuses.


@pytest.mark.parametrize(
    ("classes", "at", "why"),
    [
        ([declared("a"), declared("a")], "classes.name", "same name"),
        ([declared("a", queries={"q": "SELECT x FROM readings"})], "classes.a.queries.q", "x"),
        (
            [declared("a", queries={"Readings": "SELECT sensor FROM readings"})],
            "classes.a.queries",
            "already has this name",
        ),
        ([declared("a", queries={"q": ALL, "Q": ALL})], "classes.a.queries", "already has this name"),
        ([declared("a", streams=("CREATE STREAM",))], "classes.a.streams[0]", ""),
        ([declared("a", streams=(READINGS, READINGS))], "classes.a.streams[1]", "twice"),
        (
            [declared("a"), declared("b", streams=(READINGS.replace("float64", "float32"),))],
            "classes.b.streams",
            "class gold declares a stream of this name with other columns or another event time",
        ),
        (
            [declared("a", min_share=0.6), declared("b")],
            "classes.a.min_share",
            "exceeds the class's original share",
        ),
        ([declared("a", key="room")], "classes.a.key", "has no column of this name"),
        (
            [declared("a", key="sensor", shards=2, queries={"q": ALL})],
            "classes.a.queries.q",
            "split into shards by sensor",
        ),
        (
            [declared("a", key="sensor", shards=2, streams=(READINGS, ALERTS.replace("int32", "int64")))],
            "classes.a.key",
            "the same type in all streams",
        ),
        (
            [declared("a", limits={"queries": 1}, queries={"q": ALL, "r": ALL})],
            "classes.a.limits.queries",
            "maximum number of queries",
        ),
    ],
)
def test_invalid_declarations_are_refused_and_change_nothing(
    classes: list[LiveClass], at: str, why: str
) -> None:
    world = three(World())
    before = dict(world.saved)
    with pytest.raises(InvalidInput) as problem:
        world.plane.apply([declared("good"), *classes], 1.0)
    assert (problem.value.field, why in str(problem.value)) == (at, True), str(problem.value)
    assert world.saved == before
    assert "good" not in [one.name for one in world.plane.declarations.models]


def test_shards_and_streams_of_a_running_class_cannot_change() -> None:
    world = three(World())
    for changed, at in (
        (declared("gold", 6.0, key="sensor", shards=2), "classes.gold.shards"),
        (declared("gold", 6.0, streams=(READINGS.replace("float64", "float32"),)), "classes.gold.streams"),
    ):
        with pytest.raises(InvalidInput, match="cannot change") as problem:
            world.plane.apply([changed], 1.0)
        assert problem.value.field == at


def test_unknown_classes_and_queries_are_refused() -> None:
    plane = three(World()).plane
    for ask in (
        lambda: plane.remove_class("golf", 1.0),
        lambda: plane.add_query("golf", "q", ALL, 1.0),
        lambda: plane.units_of("golf"),
    ):
        with pytest.raises(InvalidInput, match="did you mean gold"):
            ask()
    with pytest.raises(InvalidInput, match="no query of this name"):
        plane.remove_query("gold", "p", 1.0)


# Tests of classes and queries that are declared, changed and removed.


def test_each_class_gets_a_host_and_a_share_by_priority() -> None:
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


def test_different_classes_share_a_host_but_shards_of_one_class_do_not() -> None:
    world = World(LiveSettings(classes_per_host=3))
    world.plane.nodes_changed({"n1": 1}, 0.0)
    world.plane.apply(
        [declared("a", key="sensor", shards=2), declared("b"), declared("c"), declared("heavy", 7.0)], 0.0
    )
    held = sorted(sorted(unit.name for unit in units) for units in world.units.values())
    assert held == [["a#0", "b", "c"], ["a#1"], ["heavy"]]
    assert world.shares["n1"] == pytest.approx({"a#0": 0.05, "a#1": 0.05, "b": 0.1, "c": 0.1, "heavy": 0.7})


def test_removing_a_class_stops_its_host_and_divides_its_share() -> None:
    world = three(World())
    world.plane.remove_class("gold", 1.0)
    assert world.placed == {"silver": "n1", "bronze": "n1"}
    assert world.story[-1] == ("forget", "n1", "gold")
    assert world.shares["n1"] == pytest.approx({"silver": 0.75, "bronze": 0.25})
    assert set(world.hosts) == set(world.units)
    world.plane.remove_class("silver", 1.0)
    world.plane.remove_class("bronze", 1.0)
    assert (world.hosts, world.shares["n1"], world.homes["n1"]) == ({}, {}, {})


def test_adding_or_removing_a_query_updates_only_the_host_of_its_class() -> None:
    world = three(World())
    before = dict(world.units)
    world.plane.add_query("gold", "all", ALL, 1.0)
    host = world.plane.units_of("gold")["gold"]
    assert dict(world.units[host][0].declared.queries) == {"q": BY_SENSOR, "all": ALL}
    assert all(world.units[other] is before[other] for other in before if other != host)
    world.plane.add_query("gold", "over", "SELECT sensor FROM q", 1.0)
    with pytest.raises(InvalidInput, match="query over reads its output"):
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


# Tests of loads that hosts report, and shares that move.


def test_idle_capacity_is_lent_and_reclaimed_at_once() -> None:
    world = three(World())
    world.report(0.1, gold=0.2, silver=0.5, bronze=4.0)
    assert world.plane.is_awake
    world.plane.redistribute(1.5)
    lent = world.shares["n1"]
    assert lent["bronze"] > 0.3
    assert sum(lent.values()) == pytest.approx(1.0)
    scaled = {one[2]: one[4] for one in world.story if one[0] == "scale"}
    assert scaled == pytest.approx(lent)
    host = world.plane.units_of("gold")["gold"]
    world.plane.report(host, [report_of("gold", 2.0, 1.2, reclaim=True)], 2.5)
    assert world.shares["n1"]["gold"] == pytest.approx(0.6)
    assert world.plane.cores.lending(2.5)["gold"]["bronze"] > 0
    assert world.plane.moves("gold", 1)[0].reason == "reclaim by gold"
    world.plane.report(host, [report_of("gold", 2.0, 1.2, reclaim=True)], 2.6)
    # Check that the second reclaim has moved no share.
    reasons = ["classes set", "redistribution", "reclaim by gold"]
    assert [one.reason for one in world.plane.cores.last_moves(10)] == reasons
    assert [one.reason for one in world.plane.cores.last_moves(2)] == reasons[1:]
    assert world.plane.cores.last_moves(2)[0].loans[0][:2] == ("gold", "bronze")
    assert [loan[:2] for loan in world.plane.cores.last_moves(1)[0].loans] == [("silver", "bronze")]


@pytest.mark.parametrize("manager", [one for one in MANAGERS if one not in ("dilos", "dilos-unscaled")])
def test_shares_do_not_change_with_managers_that_do_not_lend(manager: Any) -> None:
    world = three(World(LiveSettings(manager=manager)))
    world.report(0.1, gold=0.2, silver=0.5, bronze=4.0)
    world.plane.redistribute(1.5)
    assert world.shares["n1"] == {"gold": 0.6, "silver": 0.3, "bronze": 0.1}
    assert world.plane.cores.lending(2.0) == {}


def test_with_manager_dilos_unscaled_a_move_of_shares_does_not_scale_headroom() -> None:
    world = three(World(LiveSettings(manager="dilos-unscaled")))
    world.report(0.1, gold=0.2, silver=0.5, bronze=4.0)
    world.plane.redistribute(1.5)
    assert {one[3] for one in world.story if one[0] == "scale"} == {1.0}


def test_a_sleeping_class_lends_most_of_its_share() -> None:
    world = three(World())
    host = world.plane.units_of("gold")["gold"]
    world.plane.report(host, [report_of("gold", 0.0, 0.0, asleep=True)], 0.1)
    world.report(0.1, bronze=9.0)
    world.plane.redistribute(1.5)
    assert world.shares["n1"]["gold"] == pytest.approx(0.05 * 0.6)
    host = world.plane.units_of("bronze")["bronze"]
    world.plane.report(host, [report_of("bronze", 0.0, 0.0, asleep=True)], 2.0)
    assert not world.plane.is_awake


def test_reports_about_units_that_the_reporting_host_does_not_run_are_ignored() -> None:
    world = three(World())
    world.plane.report("elsewhere", [report_of("gold", 9.0, 9.0), report_of("gone", 1.0, 1.0)], 0.1)
    assert not world.plane.is_awake
    assert world.plane.status().units["gold"].report is None


def overloaded() -> CycleEnded:
    inputs = (InputCycle("readings", 1000, 1e-3, 0.5),)
    return CycleEnded(0.15, inputs, (OutputCycle("q", 0.1, 10, 0.5, 0.5),), 0.5)


def test_the_common_manager_sets_the_same_keep_for_all_classes() -> None:
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


# Tests of nodes and hosts that are added or lost.


def test_units_of_a_lost_node_are_placed_on_other_nodes() -> None:
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


def test_a_unit_is_placed_on_its_new_node_when_its_move_ends() -> None:
    world = World()
    world.plane.nodes_changed({"n1": 1, "n2": 1}, 0.0)
    world.plane.apply([declared("a"), declared("b")], 0.0)
    origin, host = world.placed["a"], world.plane.units_of("a")["a"]
    target = "n2" if origin == "n1" else "n1"
    world.plane.move("a", target)
    world.plane.move("a", target)
    assert [one for one in world.story if one[0] == "move"] == [("move", "a", host, origin, target)]
    assert world.placed["a"] == origin
    world.plane.moved("a", 1.0)
    assert set(world.placed.values()) == {target}
    assert host not in world.hosts
    # The home of a unit is the node at which its stream arrives.
    assert (origin, world.copies[origin]) == ("n1", {"a": target, "b": target})
    assert world.shares[target] == {"a": 0.5, "b": 0.5}
    world.plane.moved("a", 1.0)
    world.plane.stayed("a")
    assert world.plane.units_of("a")["a"] != host


def apart() -> World:
    """Return a system with a class that runs on node n2, while its streams arrive at node n1 (its home)."""
    world = World()
    world.plane.nodes_changed({"n1": 1}, 0.0)
    world.plane.apply([declared("a")], 0.0)
    world.plane.nodes_changed({"n1": 1, "n2": 1, "n3": 8}, 1.0)
    world.plane.move("a", "n2")
    world.plane.moved("a", 2.0)
    return world


def test_the_home_node_keeps_copies_of_the_logs_of_a_unit_that_runs_elsewhere() -> None:
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


def test_readers_of_a_stream_are_the_units_that_read_it_and_the_nodes_that_copy_it() -> None:
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


def test_a_unit_of_a_lost_node_resumes_on_the_node_with_copies_of_its_logs() -> None:
    world = apart()
    world.plane.move("a", "n3")
    world.plane.nodes_changed({"n1": 1, "n3": 8}, 3.0)
    assert (world.placed["a"], world.copies["n1"]) == ("n1", {})
    world.plane.moved("a", 4.0)
    assert world.placed["a"] == "n1"
    again = apart().begin_again(3.0, {"n1": 1, "n3": 8})
    assert (again.placed["a"], again.copies["n1"]) == ("n1", {})


def test_removing_a_class_removes_the_copies_of_its_logs() -> None:
    world = apart()
    world.plane.remove_class("a", 3.0)
    assert world.copies["n1"] == {}
    assert set(world.story[-2:]) == {("forget", "n1", "a"), ("forget", "n2", "a")}


def test_a_unit_moves_away_from_an_overloaded_node() -> None:
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


def test_a_unit_whose_move_fails_resumes_on_its_old_host() -> None:
    world = World()
    world.plane.nodes_changed({"n1": 1, "n2": 1}, 0.0)
    world.plane.apply([declared("a")], 0.0)
    host = world.plane.units_of("a")["a"]
    world.plane.move("a", "n2" if world.placed["a"] == "n1" else "n1")
    world.units[host] = []  # The unit was drained (its queues were emptied) for the move.
    world.plane.stayed("a")
    assert [unit.name for unit in world.units[host]] == ["a"]


def test_restarted_processes_receive_their_full_state() -> None:
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


# Tests of restarts of the control plane.


def test_a_restarted_coordinator_keeps_hosts_shares_and_loans() -> None:
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


def test_units_of_a_node_lost_during_a_coordinator_restart_are_placed_again() -> None:
    world = World()
    world.plane.nodes_changed({"n1": 1, "n2": 1}, 0.0)
    world.plane.apply([declared("a"), declared("b"), declared("c")], 0.0)
    again = world.begin_again(1.0, {"n2": 1})
    assert set(again.placed) == {"a", "b", "c"}
    assert set(again.hosts.values()) == {"n2"}
    assert again.shares == {"n2": pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})}


def test_a_coordinator_without_classes_restarts() -> None:
    world = World()
    world.plane.nodes_changed({"n1": 1}, 0.0)
    assert world.begin_again(1.0).plane.nodes == ["n1"]


def test_saved_state_of_another_version_is_refused() -> None:
    world = three(World())
    state = json.loads(world.saved["declared"]) | {"version": 99}
    with pytest.raises(InvalidInput, match="cannot read the saved state"):
        World().plane.restore(state, None, {}, 0.0)


def test_repeating_a_node_report_or_a_declaration_changes_nothing() -> None:
    world = three(World())
    effects = len(world.story)
    before = dict(world.units)
    world.plane.nodes_changed({"n1": 1}, 1.0)
    world.plane.apply([declared("gold", 6.0)], 1.0)
    assert all(world.units[host] is units for host, units in before.items())
    assert len(world.story) == effects


# Tests of streams without classes.


def test_a_stream_keeps_its_home_node_when_classes_come_and_leave() -> None:
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


def test_streams_without_readers_are_spread_evenly_over_nodes() -> None:
    world = World()
    world.plane.nodes_changed({"n1": 1, "n2": 1}, 0.0)
    world.plane.declare_stream(READINGS, 0.0)
    world.plane.declare_stream(ALERTS, 0.0)
    assert world.plane.status().homes == {"readings": "n1", "alerts": "n2"}


def test_a_stream_declared_again_with_other_columns_is_refused() -> None:
    other = READINGS.replace("float64", "float32")
    world = World()
    world.plane.nodes_changed({"n1": 1}, 0.0)
    world.plane.declare_stream(READINGS, 0.0)
    world.plane.declare_stream(READINGS.lower(), 0.0)
    with pytest.raises(InvalidInput, match="already declared with other columns"):
        world.plane.declare_stream(other, 1.0)
    with pytest.raises(InvalidInput, match="already declared with other columns"):
        world.plane.apply([declared("a", streams=(other,))], 1.0)
    with pytest.raises(UnknownName, match="no stream of this name"):
        world.plane.drop_stream("alerts", 1.0)
    three(World()).plane.declare_stream(READINGS, 1.0)
    with pytest.raises(InvalidInput, match="already declared with other columns"):
        three(World()).plane.declare_stream(other, 1.0)
