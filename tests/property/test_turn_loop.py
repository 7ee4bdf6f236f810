"""The dispatcher's loop with hosts that come, leave and take turns in any order, over real sockets.

After each event, every grant went to the host of a waiting class, on a free lane. No lane is free while a
waiting class could run on it.
"""

import select
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from actors.dispatcher.turn_loop import TurnLoop
from actors.messages.turn_messages import Ended, Granted, Hello, Left, Message, Ready, decode, encode
from actors.runtime.unix_channel import Channel, connect

HOSTS = {"a1": "a", "a2": "a", "b1": "b", "c1": "c"}
ROUND_S = 10.0


@dataclass
class Host:
    channel: Channel
    classes: set[str]
    running: Granted | None = None

    def say(self, message: Message) -> None:
        self.channel.send(encode(message))


@dataclass
class World:
    """Hosts connected to a turn loop, and the state of the loop that must follow from the hosts' messages."""

    loop: TurnLoop
    path: Path
    lanes: int
    hosts: dict[str, Host] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)

    def step(self, draw: st.DataObject) -> None:
        steps = [self.share]
        steps += [self.come] * (len(self.hosts) < 3) + [self.go, self.ready, self.ready] * bool(self.hosts)
        steps += [self.leave] * any(one.classes for one in self.hosts.values())
        steps += [self.end] * 5 * any(one.running for one in self.hosts.values())
        draw.draw(st.sampled_from(steps))(draw)
        for _ in range(5):  # Each pass of the loop handles one message of every host.
            self.loop.status()
        self.hear()
        busy = [one for one in self.hosts.values() if one.running]
        free_to_run = {
            name
            for one in self.hosts.values()
            for name in one.classes & self.waiting & self.shared
            if one.running is None
        }
        assert len(busy) == self.lanes or not free_to_run

    def share(self, draw: st.DataObject) -> None:
        weights = draw.draw(st.dictionaries(st.sampled_from(list(HOSTS)), st.integers(1, 4)))
        self.loop.set_shares({name: weight / 16 for name, weight in weights.items()}, HOSTS)
        self.shared = set(weights)

    def come(self, draw: st.DataObject) -> None:
        name = draw.draw(st.sampled_from([one for one in "abc" if one not in self.hosts]))
        classes = {one for one, host in HOSTS.items() if host == name}
        self.hosts[name] = Host(connect(self.path), classes)
        self.hosts[name].say(Hello(name, tuple(sorted(classes))))

    def go(self, draw: st.DataObject) -> None:
        gone = self.hosts.pop(draw.draw(st.sampled_from(sorted(self.hosts))))
        gone.channel.close()
        self.waiting -= gone.classes

    def ready(self, draw: st.DataObject) -> None:
        host = self.hosts[draw.draw(st.sampled_from(sorted(self.hosts)))]
        idle = host.classes - self.waiting - {host.running.name if host.running else ""}
        if idle:
            name = draw.draw(st.sampled_from(sorted(idle)))
            host.say(Ready(name))
            self.waiting.add(name)

    def leave(self, draw: st.DataObject) -> None:
        host = self.hosts[
            draw.draw(st.sampled_from(sorted(name for name, one in self.hosts.items() if one.classes)))
        ]
        name = draw.draw(st.sampled_from(sorted(host.classes)))
        host.say(Left(name))
        host.classes.remove(name)
        self.waiting.discard(name)

    def end(self, draw: st.DataObject) -> None:
        host = self.hosts[
            draw.draw(st.sampled_from(sorted(name for name, one in self.hosts.items() if one.running)))
        ]
        assert host.running is not None
        name, lane, used_s = host.running.name, host.running.lane, draw.draw(st.floats(0, 30))
        backlog = name in host.classes and draw.draw(st.booleans())
        host.running = None
        host.say(Ended(name, lane, used_s, used_s, backlog))
        self.waiting |= {name} if backlog else set()

    def hear(self) -> None:
        for host in self.hosts.values():
            while select.select([host.channel], [], [], 0)[0]:
                packet = host.channel.receive()
                assert packet is not None, "the loop has hung up"
                self.check(host, decode(packet))

    def check(self, host: Host, message: Message) -> None:
        assert isinstance(message, Granted)
        assert message.name in host.classes & self.waiting & self.shared
        assert host.running is None
        assert message.lane not in {one.running.lane for one in self.hosts.values() if one.running}
        assert 0 <= message.lane < self.lanes
        self.waiting.remove(message.name)
        host.running = message


@given(st.integers(1, 2), st.data())
def test_no_lane_is_free_while_a_waiting_class_could_run(lanes: int, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run" / "dispatcher.sock"
        loop = TurnLoop(path, ROUND_S, lanes)
        thread = threading.Thread(target=loop.run)
        thread.start()
        world = World(loop, path, lanes)
        try:
            for _ in range(data.draw(st.integers(1, 30))):
                world.step(data)
        finally:
            loop.stop()
            thread.join()
            for host in world.hosts.values():
                host.channel.close()
