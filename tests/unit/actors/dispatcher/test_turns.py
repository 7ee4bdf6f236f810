"""The dispatcher's turn loop over real sockets: which class gets a turn, and the status of the loop."""

import select

import pytest

from actors.messages.turn_messages import Ended, Granted, Left
from scheduler.turns.round_robin import TurnRoundRobin
from tests.unit.actors.dispatcher.nodes import HUNG_S, ROUND_S, SHARES, MakeNode, ended, peer

# Tests of the choice of the class that gets a turn.


def test_a_class_with_input_is_granted_its_quota_at_once(make_node: MakeNode) -> None:
    assert peer(make_node(), "gold").heard() == Granted("gold", 0, 5.0)


def test_hosts_take_turns_with_quotas_by_their_shares(make_node: MakeNode) -> None:
    node = make_node()
    hosts = {name: peer(node, name) for name in SHARES}
    for name in [*SHARES] * 3:
        quota_s = SHARES[name] * ROUND_S
        assert hosts[name].heard() == Granted(name, 0, quota_s)
        assert all(one.hears_nothing() for one in hosts.values())
        hosts[name].say(ended(name, quota_s))


def test_a_lane_waits_when_hosts_report_more_slice_time_than_has_passed(
    make_node: MakeNode,
) -> None:
    round_s, rounds = 0.02, 10
    node = make_node(round_s=round_s, rests=True)
    hosts = {name: peer(node, name) for name in SHARES}
    order = []
    for _ in range(rounds * len(SHARES)):
        ready, _, _ = select.select([one.channel for one in hosts.values()], [], [], HUNG_S)
        name = next(name for name, one in hosts.items() if one.channel in ready)
        assert hosts[name].heard() == Granted(name, 0, SHARES[name] * round_s)
        order.append(name)
        hosts[name].say(ended(name, SHARES[name] * round_s))
    assert order == [*SHARES] * rounds
    node.settle()
    granted_at = [now for event, now, grants in node.recorded if grants]
    used_s = (rounds - 1) * round_s
    assert granted_at[-1] - granted_at[0] > used_s - 2 * round_s
    assert node.loop.status().lanes[0].used_s == pytest.approx(rounds * round_s)


def test_a_lane_is_freed_only_once_if_its_last_host_dies_while_the_lane_rests(make_node: MakeNode) -> None:
    node = make_node(round_s=0.02, rests=True)
    gold = peer(node, "gold")
    gold.heard()
    gold.say(ended("gold", 0.1))
    node.settle()
    gold.channel.close()
    silver = peer(node, "silver")
    assert silver.heard() == Granted("silver", 0, 0.005)
    silver.say(ended("silver", 0.001))
    assert silver.heard() == Granted("silver", 0, 0.005)


def test_each_free_lane_is_granted_to_a_class(make_node: MakeNode) -> None:
    node = make_node(lanes=2)
    gold, silver, bronze = (peer(node, name) for name in SHARES)
    assert gold.heard() == Granted("gold", 0, 10.0)
    assert silver.heard() == Granted("silver", 1, 5.0)
    silver.say(ended("silver", lane=1))
    assert bronze.heard() == Granted("bronze", 1, 5.0)


def test_a_host_runs_a_single_class_at_a_time_on_two_lanes(make_node: MakeNode) -> None:
    node = make_node(lanes=2)
    node.loop.set_shares(SHARES, dict.fromkeys(SHARES, "host-gold"))
    host = peer(node, *SHARES)
    for name in SHARES:
        assert host.heard() == Granted(name, 0, 2 * SHARES[name] * ROUND_S)
        assert host.hears_nothing()
        host.say(ended(name, backlog=False))
        node.settle()


def test_a_class_that_is_ready_before_it_has_a_share_gets_its_turn_later(make_node: MakeNode) -> None:
    node = make_node(shared=False)
    gold, silver = peer(node, "gold"), peer(node, "silver")
    assert gold.hears_nothing()
    node.share("silver")
    assert silver.heard() == Granted("silver", 0, 2.5)
    node.share("gold", "silver")
    silver.say(ended("silver", 2.5))
    assert gold.heard() == Granted("gold", 0, 5.0)


def test_a_waiting_class_without_a_share_gets_no_turn(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver = peer(node, "gold"), peer(node, "silver")
    node.share("gold")
    assert gold.heard() == Granted("gold", 0, 5.0)
    gold.say(ended("gold", backlog=False))
    node.settle()
    assert silver.hears_nothing()
    node.share("gold", "silver")
    assert silver.heard() == Granted("silver", 0, 2.5)


def test_a_class_that_left_its_host_gets_no_turn(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver, bronze = (peer(node, name) for name in SHARES)
    silver.say(Left("silver"))
    node.settle()
    gold.say(ended("gold", 5.0))
    assert bronze.heard() == Granted("bronze", 0, 2.5)
    assert silver.hears_nothing()


def test_a_class_that_left_its_host_during_a_slice_still_returns_the_lane(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver = peer(node, "gold"), peer(node, "silver")
    gold.say(Left("gold"))
    node.settle()
    assert silver.hears_nothing()
    gold.say(ended("gold"))
    assert silver.heard() == Granted("silver", 0, 2.5)


def test_recorded_events_replay_to_the_same_grants(make_node: MakeNode) -> None:
    node = make_node(lanes=2, shared=False)
    hosts = {name: peer(node, name) for name in SHARES}
    node.share(*SHARES)
    for name in (*SHARES, *SHARES):
        granted = hosts[name].heard()
        assert isinstance(granted, Granted)
        hosts[name].say(ended(name, 3.0, lane=granted.lane))
    hosts["gold"].channel.close()
    node.settle()
    node.stop()
    again = TurnRoundRobin({}, ROUND_S, lanes=2)
    assert [again.handle(event, now) for event, now, _ in node.recorded] == [
        grants for _, _, grants in node.recorded
    ]


# Tests of the status of the loop.


def test_status_shows_slice_times_and_the_running_class(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver = peer(node, "gold"), peer(node, "silver")
    gold.say(Ended("gold", 0, used_s=0.25, ran_s=0.5, backlog=True))
    assert isinstance(silver.heard(), Granted)
    status = node.settle()
    (lane,) = status.lanes
    assert (lane.running, lane.slices, lane.used_s, lane.in_slices_s) == ("silver", 1, 0.25, 0.5)
    assert lane.busy_s > 0
    assert lane.idle_s > 0
    assert status.rounds == 1
    assert status.hosts == {"host-gold": ("gold",), "host-silver": ("silver",)}
    assert status.not_pinned == "pinning is not requested"


def test_a_stopped_loop_closes_its_channels_and_removes_its_socket(make_node: MakeNode) -> None:
    node = make_node()
    gold = peer(node, "gold", ready=False)
    node.stop()
    node.stop()
    assert gold.heard() is None
    assert not node.path.exists()
    with pytest.raises(TimeoutError):
        node.loop.status(wait_s=0)
