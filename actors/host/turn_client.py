"""The host's side of turns: reports which classes have input, and runs the slices that the dispatcher grants.

The class thread runs `serve`; any thread may call `ready`. A class is idle (without input), waits for a turn, or runs a slice.
The table shows how the state of a class changes:

    state                event                          becomes
    idle                 ready                          waiting, Ready is sent
    waiting              Granted                        running
    running              ready                          running with news
    running (with news)  slice ended, backlog or news   waiting, Ended(backlog) is sent
    running              slice ended, neither           idle, Ended(no backlog) is sent

Guarantees:
1. Input that arrived before a call of `ready` is seen by the current slice or by a slice that begins after the call: no
   wake-up is lost. The price is an empty slice now and then, if the current slice has already taken the input.
2. Only the class thread calls `run` and `between`, hence never at the same time.
3. If the dispatcher dies, the current slice is finished. Then the client tries to reconnect until it succeeds, and reports
   the classes that wait. Meanwhile `between` is called after each `wake`.
4. `ready`, `join`, `leave`, `wake` and `stop` do not wait for the dispatcher.
5. `between` is also called when the time that `quiet_s` last returned is over, so that due work needs no thread of its own.
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

# Seconds between two attempts to connect. A dispatcher restarts within about two seconds, in which no class gets turns.
BACKOFF_LEAST_S, BACKOFF_MOST_S = 0.01, 1.0
# Milliseconds after which a dispatcher that reads nothing is considered to hang; the client then reconnects.
ROOM_MS = 1000

Run = Callable[[str, float], tuple[float, bool]]


class RefusedByDispatcher(Exception):
    """Refusal of this host by the dispatcher, because the dispatcher could not decode the host's messages. A retry would not help."""


class TurnState(Enum):
    IDLE = "idle"
    WAITING = "waiting"
    RUNNING = "running"
    RUNNING_WITH_NEWS = "running with news"


class SliceClient:
    """Connection of a host to its dispatcher, on the class thread.

    `run(class, quota_s)` runs a slice and returns the processor time used and True if there is a backlog. `between()` does all
    other work: it is called after each slice has been reported, after `wake`, and after `quiet_s()` seconds without either.
    """

    def __init__(
        self,
        path: Path,
        host: str,
        run: Run,
        between: Callable[[], None],
        classes: Iterable[str] = (),
        cores: Cores | None = None,
        quiet_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._path, self._host = path, host
        self._run, self._between, self._quiet_s = run, between, quiet_s
        self._cores = cores or Cores(why_not="pinning is not requested")
        self._lane = -1  # Number of the lane to which the class thread is pinned
        self._lock = threading.Lock()  # Lock for `_states`, `_channel` and `_unsaid`
        self._states = dict.fromkeys(classes, TurnState.IDLE)
        self._channel: Channel | None = None
        # Messages that found no room in the socket, and all later messages.
        self._unsaid: deque[Message] = deque()
        self._wake_up = WakeUp()
        self._stopping = False

    # Any thread may call the following methods.

    def ready(self, name: str) -> None:
        """Report that the class has input. Do nothing if the class has left the host."""
        with self._lock:
            state = self._states.get(name)
            if state is TurnState.IDLE:
                self._states[name] = TurnState.WAITING
                self._say(Ready(name))
            elif state is TurnState.RUNNING:
                self._states[name] = TurnState.RUNNING_WITH_NEWS

    def join(self, name: str) -> None:
        """Add a class to the host."""
        with self._lock:
            if name not in self._states:
                self._states[name] = TurnState.IDLE
                self._say(Hello(self._host, (name,)))

    def leave(self, name: str) -> None:
        """Remove a class from the host. If a slice of the class is running, the slice is finished."""
        with self._lock:
            if self._states.pop(name, None) is not None:
                self._say(Left(name))

    def wake(self) -> None:
        """Make the class thread call `between`."""
        self._wake_up.set()

    def stop(self) -> None:
        """Make `serve` return after the current slice."""
        self._stopping = True
        self._wake_up.set()

    # Only the class thread calls the following methods.

    def serve(self) -> None:
        """Connect to the dispatcher and run granted slices, until `stop` is called."""
        backoff = Backoff(BACKOFF_LEAST_S, BACKOFF_MOST_S)
        while not self._stopping:
            if self._take_turns():
                backoff.succeeded()
            self._rest(backoff.failed())

    def _take_turns(self) -> bool:
        """Connect once and run slices until the dispatcher is gone. Return True if the dispatcher has sent a message."""
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
                    self._wake_up.clear()
                    self._say_unsaid(channel)
                    if not self._stopping:
                        self._between()
                    continue
                packet = channel.receive()
                if packet is None:
                    return heard
                heard = True
                self._hear(decode(packet))
        return heard

    def _quiet_ms(self) -> float | None:
        """Return the milliseconds until work is due, rounded up so that the thread does not wake up too early."""
        quiet_s = self._quiet_s()
        return None if quiet_s is None else math.ceil(1e3 * max(quiet_s, 0.0))

    def _hear(self, message: Message) -> None:
        match message:
            case Granted():
                self._slice(message)
            case RefusedHost(reason):
                raise RefusedByDispatcher(reason)
            case _:
                raise AssertionError(f"a dispatcher does not send {message}")

    def _slice(self, granted: Granted) -> None:
        name, lane = granted.name, granted.lane
        with self._lock:
            held = name in self._states
            if held:
                self._states[name] = TurnState.RUNNING
            else:  # The class has left this host since the dispatcher sent the grant.
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
        """Set the class's state after a slice; return True if the class waits for another slice."""
        state = self._states.get(name)
        if state is None:  # The class has left this host during the slice.
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

    # The following methods send messages to the dispatcher.

    def _say(self, message: Message) -> None:
        """Send a message, or queue it for the class thread if the socket has no room. The caller holds the lock."""
        if self._channel is None:
            return  # The message is not needed: after a reconnect, the host announces all its classes with input.
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
        """Send a message; return False if the socket has no room. If the dispatcher is gone, the message is dropped."""
        try:
            channel.send(encode(message))
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True
