"""A node's turn loop in a thread, and `Peer`, with which a test sends and reads messages over a real socket.

A test uses a `Peer` to play a host for a real turn loop, or a dispatcher for a real host, message by message.
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
# Length of a round: long enough that no slice is overdue, except in tests with a shorter round.
ROUND_S = 10.0
# Maximum wait for a message. No message should take nearly this long; the limit lets a test fail instead of hang.
HUNG_S = 60.0

Decision = tuple[TurnEvent, float, tuple[Grant, ...]]


@dataclass
class Node:
    """Turn loop that runs in a thread and records its decisions."""

    path: Path
    round_s: float = ROUND_S
    lanes: int = 1
    rests: bool = False
    recorded: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loop = TurnLoop(self.path, self.round_s, self.lanes, self.record, rests=self.rests)
        self.thread = threading.Thread(target=self.loop.run)
        self.thread.start()

    def record(self, event: TurnEvent, now: float, grants: tuple[Grant, ...]) -> None:
        self.recorded.append((event, now, grants))

    def share(self, *names: str, **shares: float) -> None:
        """Set the shares of classes, each class in a host of its own."""
        self.loop.set_shares({name: SHARES[name] for name in names} | shares, {})
        self.settle()

    def settle(self) -> TurnStatus:
        """Wait until the loop has handled the earlier messages, up to five per host. Each status comes from
        another pass of the loop, and a pass reads one message of each host.
        """
        for _ in range(5):
            self.loop.status()
        return self.loop.status()

    def stop(self) -> None:
        self.loop.stop()
        self.thread.join()


@dataclass
class Peer:
    """Host or dispatcher that a test plays, at one end of a socket."""

    channel: Channel

    def say(self, *messages: Message) -> None:
        for message in messages:
            self.channel.send(encode(message))

    def heard(self) -> Message | None:
        assert select.select([self.channel], [], [], HUNG_S)[0], "no message has arrived"
        packet = self.channel.receive()
        return None if packet is None else decode(packet)

    def hears_nothing(self) -> bool:
        return not select.select([self.channel], [], [], 0)[0]


MakeNode = Callable[..., Node]


def peer(node: Node, *classes: str, ready: bool = True) -> Peer:
    """Connect a host that has sent its hello message and, if `ready`, the message that its classes have input."""
    host = Peer(connect(node.path))
    host.say(Hello(f"host-{classes[0]}", classes), *(Ready(name) for name in classes if ready))
    node.settle()
    return host


def ended(name: str, used_s: float = 0.0, backlog: bool = True, lane: int = 0) -> Ended:
    return Ended(name, lane, used_s, used_s, backlog)


def accepted(listener: Listener) -> Channel:
    assert select.select([listener], [], [], HUNG_S)[0], "no host has connected"
    channel = listener.accept()
    assert channel is not None
    return channel
