"""The dispatcher's loop with hosts that die, reconnect, send invalid messages or take too long: other hosts keep their turns."""

import subprocess
import sys

import pytest

from actors.messages.turn_messages import VERSION, Granted, Hello, Left, Ready, RefusedHost, encode
from tests.support.checkout import ROOT
from tests.unit.actors.dispatcher.nodes import SHARES, MakeNode, ended, peer


def test_a_closed_connection_ends_the_slice_of_its_host(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver = peer(node, "gold"), peer(node, "silver")
    assert gold.heard() == Granted("gold", 0, 5.0)
    gold.channel.close()
    assert silver.heard() == Granted("silver", 0, 2.5)
    assert node.settle().hosts == {"host-silver": ("silver",)}


def test_classes_of_a_disconnected_host_leave_the_round(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver, bronze = (peer(node, name) for name in SHARES)
    silver.channel.close()
    node.settle()
    gold.say(ended("gold", 5.0))
    assert bronze.heard() == Granted("bronze", 0, 2.5)


def test_a_reconnected_host_gets_turns_again(make_node: MakeNode) -> None:
    node = make_node()
    gold = peer(node, "gold")
    gold.channel.close()
    node.settle()
    assert isinstance(peer(node, "gold").heard(), Granted)


def test_a_killed_host_process_frees_its_lane(make_node: MakeNode) -> None:
    node = make_node()
    code = (
        "import sys; from pathlib import Path; from actors.host.turn_client import SliceClient\n"
        "run = lambda name, quota_s: (print('runs', flush=True), sys.stdin.read())\n"
        "client = SliceClient(Path(sys.argv[1]), 'host', run, lambda: None, classes=['gold'])\n"
        "client.ready('gold'); client.serve()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, node.path],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        silver = peer(node, "silver")
        assert silver.hears_nothing()
        process.kill()
        assert silver.heard() == Granted("silver", 0, 2.5)


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (b"?", "the packet is shorter than any message"),
        (bytes([VERSION, 99]), "the turn message has an unknown kind 99"),
        (bytes([VERSION + 1]) + encode(Ready("gold"))[1:], f"version {VERSION + 1} of the turn messages"),
        (encode(ended("gold"))[:5], "is malformed"),
        (encode(Ready("no name")), "no name"),
        (encode(Granted("gold", 0, 1.0)), "a host sent Granted, which only a dispatcher sends"),
        (encode(RefusedHost("no")), "a host sent RefusedHost, which only a dispatcher sends"),
    ],
)
def test_a_host_that_sends_an_invalid_message_is_refused_with_the_reason(
    make_node: MakeNode, packet: bytes, reason: str
) -> None:
    node = make_node()
    gold, silver = peer(node, "gold"), peer(node, "silver")
    assert gold.heard() == Granted("gold", 0, 5.0)
    gold.channel.send(packet)
    gold.say(Ready("gold"), Hello("host-gold", ("gold",)), Ready("gold"))
    refused = gold.heard()
    assert isinstance(refused, RefusedHost)
    assert reason in refused.reason
    assert silver.heard() == Granted("silver", 0, 2.5)
    status = node.settle()
    assert (status.refused_count, status.stray_count) == (1, 0)
    assert status.hosts == {"host-silver": ("silver",)}
    gold.channel.close()


def test_messages_about_slices_of_another_host_are_counted_and_ignored(make_node: MakeNode) -> None:
    node = make_node()
    gold, silver = peer(node, "gold"), peer(node, "silver", ready=False)
    assert gold.heard() == Granted("gold", 0, 5.0)
    for stray in (ended("gold"), ended("silver"), ended("gold", lane=7), Ready("gold"), Left("gold")):
        silver.say(stray)
    assert node.settle().stray_count == 5
    gold.say(ended("gold"))
    assert gold.heard() == Granted("gold", 0, 5.0)


def test_a_class_gets_its_turns_on_the_last_host_that_announced_it(make_node: MakeNode) -> None:
    node = make_node()
    old = peer(node, "gold")
    assert old.heard() == Granted("gold", 0, 5.0)
    new = peer(node, "gold")
    assert new.hears_nothing()  # A class has only one slice at a time.
    old.say(ended("gold", backlog=False))
    assert new.heard() == Granted("gold", 0, 5.0)
    old.say(Ready("gold"))
    assert node.settle().stray_count == 1


def test_a_slice_continues_although_another_host_announces_the_same_class_and_disconnects(
    make_node: MakeNode,
) -> None:
    node = make_node()
    old, silver = peer(node, "gold"), peer(node, "silver")
    peer(node, "gold").channel.close()
    node.settle()
    assert silver.hears_nothing()
    old.say(ended("gold"))
    assert silver.heard() == Granted("silver", 0, 2.5)


def test_a_class_gets_its_turn_on_its_new_host_when_its_old_host_dies(make_node: MakeNode) -> None:
    node = make_node()
    old = peer(node, "gold")
    new = peer(node, "gold")
    old.channel.close()
    assert isinstance(new.heard(), Granted)


def test_an_overdue_slice_frees_its_lane_but_blocks_its_host(make_node: MakeNode) -> None:
    node = make_node(round_s=0.001)
    hung, silver = peer(node, "gold", "bronze"), peer(node, "silver", ready=False)
    assert hung.heard() == Granted("gold", 0, 0.0005)
    silver.say(Ready("silver"))
    assert isinstance(silver.heard(), Granted)
    status = node.settle()
    assert (status.overdue, status.overdue_count) == (("gold",), 1)
    silver.say(ended("silver", backlog=False))
    node.settle()
    assert hung.hears_nothing()  # Class bronze waits, because its host still runs gold.
    hung.say(ended("gold", backlog=False))
    assert hung.heard() == Granted("bronze", 0, 0.00025)
    assert node.settle().overdue == ()


def test_an_overdue_host_that_ends_its_slice_with_backlog_gets_turns_again(make_node: MakeNode) -> None:
    node = make_node(round_s=0.001)
    hung, silver = peer(node, "gold"), peer(node, "silver")
    assert isinstance(hung.heard(), Granted)
    assert isinstance(silver.heard(), Granted)
    silver.say(ended("silver", backlog=False))
    hung.say(ended("gold"))
    assert isinstance(hung.heard(), Granted)


def test_the_late_end_of_a_slice_does_not_wake_a_class_of_another_host(make_node: MakeNode) -> None:
    node = make_node(round_s=0.001)
    hung, silver = peer(node, "gold"), peer(node, "silver")
    assert isinstance(hung.heard(), Granted)
    assert isinstance(silver.heard(), Granted)
    silver.say(ended("silver", backlog=False))
    new = peer(node, "gold", ready=False)
    hung.say(ended("gold", backlog=True))
    assert node.settle().overdue == ()
    assert new.hears_nothing()


def test_an_overdue_host_that_dies_can_reconnect(make_node: MakeNode) -> None:
    node = make_node(round_s=0.001)
    hung, silver = peer(node, "gold"), peer(node, "silver")
    assert isinstance(silver.heard(), Granted)
    hung.channel.close()
    again = peer(node, "gold")
    silver.say(ended("silver", backlog=False))
    assert isinstance(again.heard(), Granted)
