"""The host's end of the turns: says which classes have input, runs the slices they are granted.

The class thread is in `serve`; any thread may say `ready`. For each class:

    state                event                          becomes
    idle                 ready                          waiting, Ready is sent
    waiting              Granted                        running
    running              ready                          running with news
    running (with news)  slice ended, backlog or news   waiting, Ended(backlog) is sent
    running              slice ended, neither           idle, Ended(no backlog) is sent

Guarantees:
1. Input that was there before `ready` was called is seen by a slice that begins after the call, or by the one under way:
   no wake-up is lost. The price is a slice that finds nothing, now and then, if the one under way has taken the input.
2. `run` and `between` are called by the class thread only, hence never at the same time.
3. When the dispatcher dies, the slice under way is finished; then the client connects again, for ever, and says what
   waits. `between` is called meanwhile whenever `wake` was.
4. `ready`, `join`, `leave`, `wake` and `stop` do not wait for the dispatcher.
5. `between` is called, too, when the time is over that `quiet_s` has told last: what is due then is not waited for by a
   thread of its own.
"""

from __future__ import annotations

import math
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path

from actors.messages.turn_messages import (
    CLASSES_A_HELLO,
    Ended,
    Granted,
    Hello,
    Left,
    Message,
    Ready,
    RefusedHost,
    decode,
    encode,
)
from actors.runtime.backoff import Backoff
from actors.runtime.cpu_pinning import Cores, pin_this_thread
from actors.runtime.eventfd import WakeUp
from actors.runtime.unix_channel import Channel, connect

# Between two tries to connect. A restarted dispatcher is there after some two seconds, which is when nobody has turns.
BACKOFF_LEAST_S, BACKOFF_MOST_S = 0.01, 1.0
# A dispatcher that reads nothing for so long hangs; connecting again finds it out.
ROOM_MS = 1000

Run = Callable[[str, float], tuple[float, bool]]


def for_ever() -> float | None:
    return None


class RefusedByDispatcher(Exception):
    """The dispatcher does not understand this host, and would not the next time either."""


class TurnState(Enum):
    IDLE = "idle"
    WAITING = "waiting"
    RUNNING = "running"
    RUNNING_WITH_NEWS = "running with news"


class SliceClient:
    """`run(class, quota_s)` runs a slice and tells processor time used and backlog; `between()` does the rest.

    `between` is called after each slice was answered, after `wake`, and after `quiet_s()` without either.
    """

    def __init__(
        self,
        path: Path,
        host: str,
        run: Run,
        between: Callable[[], None],
        classes: Iterable[str] = (),
        cores: Cores | None = None,
        quiet_s: Callable[[], float | None] = for_ever,
    ) -> None:
        self._path, self._host = path, host
        self._run, self._between, self._quiet_s = run, between, quiet_s
        self._cores = cores or Cores(why_not="not asked for")
        self._lane = -1  # whose core the class thread is on
        self._lock = threading.Lock()  # over what follows
        self._states = dict.fromkeys(classes, TurnState.IDLE)
        self._channel: Channel | None = None
        self._unsaid: deque[Message] = deque()  # found no room; later ones queue behind
        self._wake_up = WakeUp()
        self._stopping = False

    # -- for any thread -----------------------------------------------------------------------------

    def ready(self, name: str) -> None:
        """The class has got input. Of a class that has left, this is no news."""
        with self._lock:
            state = self._states.get(name)
            if state is TurnState.IDLE:
                self._states[name] = TurnState.WAITING
                self._say(Ready(name))
            elif state is TurnState.RUNNING:
                self._states[name] = TurnState.RUNNING_WITH_NEWS

    def join(self, name: str) -> None:
        """The host holds one more class."""
        with self._lock:
            if name not in self._states:
                self._states[name] = TurnState.IDLE
                self._say(Hello(self._host, (name,)))

    def leave(self, name: str) -> None:
        """The host no longer holds the class; a slice under way is finished."""
        with self._lock:
            if self._states.pop(name, None) is not None:
                self._say(Left(name))

    def wake(self) -> None:
        """There is something for `between`."""
        self._wake_up.set()

    def stop(self) -> None:
        """`serve` returns after the slice under way."""
        self._stopping = True
        self._wake_up.set()

    @property
    def not_pinned(self) -> str:
        """Why the class thread is on no lane's core; empty if it is, or will be with its first slice."""
        return self._cores.why_not

    # -- the class thread ---------------------------------------------------------------------------

    def serve(self) -> None:
        """Take turns until `stop`."""
        backoff = Backoff(BACKOFF_LEAST_S, BACKOFF_MOST_S)
        while not self._stopping:
            if self._take_turns():
                backoff.succeeded()
            self._rest(backoff.failed())

    def _take_turns(self) -> bool:
        """Until the dispatcher is gone; whether it was heard at all."""
        try:
            channel = connect(self._path)
        except OSError:
            return False
        try:
            self._greet(channel)
            return self._listen(channel)
        finally:
            with self._lock:
                self._channel = None
                self._unsaid.clear()
            channel.close()

    def _greet(self, channel: Channel) -> None:
        with self._lock:
            names = list(self._states)
            for begin in range(0, max(len(names), 1), CLASSES_A_HELLO):
                self._unsaid.append(Hello(self._host, tuple(names[begin : begin + CLASSES_A_HELLO])))
            waiting = [name for name, state in self._states.items() if state is TurnState.WAITING]
            self._unsaid.extend(map(Ready, waiting))
            self._channel = channel
        self._say_unsaid(channel)

    def _listen(self, channel: Channel) -> bool:
        heard = False
        poll = select.poll()
        poll.register(channel, select.POLLIN)
        poll.register(self._wake_up, select.POLLIN)
        woken = self._wake_up.fileno()
        while not self._stopping:
            events = poll.poll(self._quiet_ms())
            if not events:
                self._between()
            for number, _ in events:
                if number == woken:
                    self._woken(channel)
                    continue
                packet = channel.receive()
                if packet is None:
                    return heard
                heard = True
                self._hear(decode(packet))
        return heard

    def _quiet_ms(self) -> float | None:
        """Rounded up: what is due then must be due."""
        quiet_s = self._quiet_s()
        return None if quiet_s is None else math.ceil(1e3 * max(quiet_s, 0.0))

    def _woken(self, channel: Channel) -> None:
        self._wake_up.clear()
        self._say_unsaid(channel)
        if not self._stopping:
            self._between()

    def _hear(self, message: Message) -> None:
        match message:
            case Granted():
                self._slice(message)
            case RefusedHost(reason):
                raise RefusedByDispatcher(reason)
            case _:
                raise AssertionError(f"a dispatcher does not say {message}")

    def _slice(self, granted: Granted) -> None:
        name, lane = granted.name, granted.lane
        with self._lock:
            held = name in self._states
            if held:
                self._states[name] = TurnState.RUNNING
            else:  # it left while the grant was under way
                self._say(Ended(name, lane, 0.0, 0.0, backlog=False))
        if held:
            if lane != self._lane:
                self._cores, self._lane = pin_this_thread(self._cores, lane), lane
            began = time.monotonic()
            used_s, backlog = self._run(name, granted.quota_s)
            ran_s = time.monotonic() - began
            with self._lock:
                self._say(Ended(name, lane, used_s, ran_s, self._settle(name, backlog)))
        self._between()

    def _settle(self, name: str, backlog: bool) -> bool:
        """The class's state after a slice; whether it waits for another."""
        state = self._states.get(name)
        if state is None:  # it left during the slice
            return False
        waits = state in (TurnState.RUNNING_WITH_NEWS, TurnState.WAITING) or (
            backlog and state is TurnState.RUNNING
        )
        self._states[name] = TurnState.WAITING if waits else TurnState.IDLE
        return waits

    def _rest(self, pause_s: float) -> None:
        poll = select.poll()
        poll.register(self._wake_up, select.POLLIN)
        until = time.monotonic() + pause_s
        while not self._stopping and (left_s := until - time.monotonic()) > 0:
            quiet_ms = self._quiet_ms()
            if poll.poll(1e3 * left_s if quiet_ms is None else min(1e3 * left_s, quiet_ms)):
                self._wake_up.clear()
                if not self._stopping:
                    self._between()
            elif quiet_ms is not None and quiet_ms < 1e3 * left_s:
                self._between()

    # -- saying things --------------------------------------------------------------------------------

    def _say(self, message: Message) -> None:
        """With the lock held. What finds no room is left to the class thread, which may wait for it."""
        if self._channel is None:
            return  # the next greeting tells
        if not self._unsaid and self._sent(self._channel, message):
            return
        self._unsaid.append(message)
        self._wake_up.set()

    def _say_unsaid(self, channel: Channel) -> None:
        poll = select.poll()
        poll.register(channel, select.POLLOUT)
        while True:
            with self._lock:
                while self._unsaid and self._sent(channel, self._unsaid[0]):
                    self._unsaid.popleft()
                if not self._unsaid:
                    return
            if not poll.poll(ROOM_MS):
                channel.end()

    def _sent(self, channel: Channel, message: Message) -> bool:
        """False if there is no room. If the peer is gone nothing is missed: EOF is read next, and a greeting follows."""
        try:
            channel.send(encode(message))
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True
