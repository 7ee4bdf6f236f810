"""A node's loop in a thread, and the two ends of its sockets as tests hold them.

A `Peer` is a host that a test speaks for, message by message; so is the dispatcher that one speaks for to a real host.
"""

import select
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from actors.dispatcher.turn_loop import TurnLoop, TurnStatus
from actors.messages.turn_messages import Ended, Hello, Message, Ready, decode, encode
from actors.runtime.unix_channel import Channel, Listener, connect
from scheduler.turns.round_robin import Grant, TurnEvent

SHARES = {"gold": 0.5, "silver": 0.25, "bronze": 0.25}
# Long enough that a slice is never overdue here, unless the test is about that.
ROUND_S = 10.0
# Not how long anything should take: a test that waits for what never comes fails instead of hanging.
HUNG_S = 60.0

Decision = tuple[TurnEvent, float, tuple[Grant, ...]]


@dataclass
class Node:
    """A loop in a thread, and what it has recorded."""

    path: Path
    round_s: float = ROUND_S
    lanes: int = 1
    rests: bool = False
    recorded: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loop = TurnLoop(self.path, self.round_s, self.lanes, self.record, rests=self.rests)
        self.thread = threading.Thread(target=self.loop.run)
        self.thread.start()

    def record(self, core: str, event: TurnEvent, now: float, grants: tuple[Grant, ...]) -> None:
        assert core == "turns"
        self.recorded.append((event, now, grants))

    def share(self, *names: str, **shares: float) -> None:
        """Each class in a host of its own."""
        self.loop.set_shares({name: SHARES[name] for name in names} | shares, {})
        self.settle()

    def settle(self) -> TurnStatus:
        """All that was sent before has been heard: each answer is from a pass that hears one message of each host."""
        for _ in range(5):
            self.loop.status()
        return self.loop.status()

    def stop(self) -> None:
        self.loop.stop()
        self.thread.join()


@dataclass
class Peer:
    """A host as the dispatcher sees it."""

    channel: Channel

    def say(self, *messages: Message) -> None:
        for message in messages:
            self.channel.send(encode(message))

    def heard(self) -> Message | None:
        assert select.select([self.channel], [], [], HUNG_S)[0], "nothing was said"
        packet = self.channel.receive()
        return None if packet is None else decode(packet)

    def hears_nothing(self) -> bool:
        return not select.select([self.channel], [], [], 0)[0]


MakeNode = Callable[..., Node]


def peer(node: Node, *classes: str, ready: bool = True) -> Peer:
    """A host that has said hello, and that its classes have input."""
    one = Peer(connect(node.path))
    one.say(Hello(f"host-{classes[0]}", classes), *(Ready(name) for name in classes if ready))
    node.settle()
    return one


def ended(name: str, used_s: float = 0.0, backlog: bool = True, lane: int = 0) -> Ended:
    return Ended(name, lane, used_s, used_s, backlog)


def accepted(listener: Listener) -> Channel:
    assert select.select([listener], [], [], HUNG_S)[0], "nobody came"
    channel = listener.accept()
    assert channel is not None
    return channel
