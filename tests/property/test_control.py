"""Invariants of a system under any sequence of events.

1. The shares of a node's units add up to 1, and every unit that has a node is in exactly one host of that node.
2. Hosts, dispatchers and gateways have the state that the control plane has.
3. A control plane that is restored from its saved state sends nothing new to them.
"""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages.unit_messages import class_of
from configs.classes.live_class import LiveSettings
from configs.errors import InvalidInput
from tests.support.control import ALERTS, READINGS, World, declared, report_of

NAMES = ["a", "b", "c", "d"]
names = st.sampled_from(NAMES)
node_sets = st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), st.just(1), max_size=3)
priorities = st.sampled_from([1.0, 2.0, 5.0])
happenings = st.one_of(
    st.tuples(st.just("apply"), names, priorities, st.sampled_from([1, 3])),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("nodes"), node_sets),
    st.tuples(st.just("report"), names, st.sampled_from([0.1, 0.9, 3.0])),
    st.tuples(st.just("redistribute")),
    st.tuples(st.just("move"), names, st.sampled_from(["n1", "n2", "n3"])),
    st.tuples(st.just("restart"), names),
    st.tuples(st.just("declare"), st.sampled_from([READINGS, ALERTS])),
    st.tuples(st.just("drop"), st.sampled_from(["readings", "alerts"])),
    st.tuples(st.just("begin again")),
)


class Course:
    """System with nodes, in which the test triggers one event per second."""

    def __init__(self, classes_per_host: int) -> None:
        self.nodes = {"n1": 1}
        self.now = 0.0
        self.world = World(LiveSettings(classes_per_host=classes_per_host))
        self.world.plane.nodes_changed(self.nodes, self.now)

    def happen(self, what: str, *given_: object) -> None:
        self.now += 1.0
        plane = self.world.plane
        held = [unit for unit in plane.status().units if given_ and class_of(unit) == given_[0]]
        match what, *given_:
            case "apply", str(name), float(priority), int(shards):
                plane.apply([declared(name, priority, shards=shards, key="sensor")], self.now)
            case "remove", str(name):
                plane.remove_class(name, self.now)
            case "nodes", dict(nodes):
                self.nodes = nodes
                plane.nodes_changed(nodes, self.now)
            case "report", _, float(usage):
                for unit in held:
                    one = plane.status().units[unit]
                    plane.report(one.host, [report_of(unit, usage, usage * one.share)], self.now)
            case "declare", str(sql):
                plane.declare_stream(sql, self.now)
            case "drop", str(name):
                plane.drop_stream(name, self.now)
            case "redistribute", *_:
                plane.redistribute(self.now)
            case "move", _, str(node):
                for unit in held[:1]:
                    plane.move(unit, node)
                    plane.moved(unit, self.now)
            case "restart", *_:
                for unit in held[:1]:
                    plane.sync.host_restarted(plane.status().units[unit].host)
            case _:
                self.begin_again()

    def begin_again(self) -> None:
        again = self.world.begin_again(self.now, self.nodes)
        for part in ("hosts", "placed", "shares", "hosts_of", "homes"):
            found, known = getattr(again, part), getattr(self.world, part)
            assert {key: one for key, one in known.items() if key in found} == found, part
        self.world = again

    def check(self) -> None:
        found = self.world.plane.status()
        assert set(found.nodes) == set(self.nodes)
        assert not (found.unplaced and found.nodes)
        assert self.world.placed == {unit: one.node for unit, one in found.units.items()}
        for node in {one.node for one in found.units.values()}:
            here = {unit: one for unit, one in found.units.items() if one.node == node}
            assert self.world.shares[node] == {unit: one.share for unit, one in here.items()}
            assert self.world.hosts_of[node] == {unit: one.host for unit, one in here.items()}
            assert sum(one.share for one in here.values()) == pytest.approx(1.0)
            assert sum(one.original for one in here.values()) == pytest.approx(1.0)
            assert self.world.homes[node]["readings"] == found.homes["readings"]
        known = {name.lower() for name in found.streams} | ({"readings"} if found.units else set())
        if found.nodes:
            assert found.homes.keys() == known
        for name, home in found.homes.items():
            assert self.world.homes[home][name] == home


@settings(max_examples=150)
@given(st.lists(happenings, max_size=25), st.sampled_from([1, 3]))
def test_after_any_events_hosts_dispatchers_and_gateways_agree_with_the_control_plane(
    course: list[tuple[object, ...]], classes_per_host: int
) -> None:
    run = Course(classes_per_host)
    for what, *given_ in course:
        with suppress(InvalidInput):
            run.happen(str(what), *given_)
        run.check()
    run.begin_again()
    run.check()
