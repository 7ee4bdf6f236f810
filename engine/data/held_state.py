"""What the operators of a class hold, beside what the class may hold (`configs.classes.limits`).

An operator tells its holding what it has come to hold and what it has let go, and asks for room before it takes more.
Tuples for which there is none are refused there and counted by reason; nothing else stops. Bytes are those of arrays
and texts, with an allowance for what Python adds to each; they are counted as state changes, never by walking over it.

Numbered properties:
1. State and queues together never exceed `state_bytes`, but for the keys and indexes that a train in work adds.
2. Queues have a QUEUES-th of the bytes to themselves and state the rest: neither can keep the other from going on.
   What waits at a source is not among them: the door bounds it.
3. Keys never exceed `groups`.
4. Room comes back when windows expire and when queries go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from configs.classes.limits import ClassLimits
from engine.data.keys import KEY_BYTES, Codes, KeyIndex
from engine.data.schema import TypeKind
from engine.data.train import Train, Values, is_same

QUEUES = 4
# Keys of which nothing is held any more are forgotten when keys have doubled since the last time, and are not this few.
FEW_KEYS = 1024


class StateAccount:
    """What all operators of a class hold."""

    def __init__(self, limits: ClassLimits) -> None:
        self.set_limits(limits)
        self.groups = self.state = self.queued = 0
        self.holdings: dict[int, Holding] = {}

    def set_limits(self, limits: ClassLimits) -> None:
        """Refuse what exceeds these limits from now on; what is held stays."""
        self.limits = limits
        self.queue_limit = limits.state_bytes // QUEUES
        self.state_limit = limits.state_bytes - self.queue_limit

    @property
    def queue_room(self) -> int:
        return max(0, self.queue_limit - self.queued)

    @property
    def is_nearly_full(self) -> bool:
        """Return True if there may soon be no room for tuples."""
        return 4 * self.state > 3 * self.state_limit or 4 * self.groups > 3 * self.limits.groups

    def make_room(self) -> None:
        """Let every operator forget the keys of which it holds no tuple any more."""
        for holding in self.holdings.values():
            holding.compact()


class Holding:
    """What one operator and its queue hold, as part of its class's account."""

    def __init__(self) -> None:
        self._account = StateAccount(ClassLimits())
        self.groups = self.keys = self.state = 0
        self.refused: Counter[str] = Counter()
        self.compact: Callable[[], None] = lambda: None
        self._pressed = False  # whether tuples were refused that might have had the room of forgotten keys

    def enter(self, account: StateAccount) -> None:
        """Count from now on in the account."""
        self._account = account
        account.groups += self.groups
        account.state += self.keys + self.state
        account.holdings[id(self)] = self

    def set_keys(self, groups: int, size: int) -> None:
        self._account.groups += groups - self.groups
        self._account.state += size - self.keys
        self.groups, self.keys = groups, size

    def set_state(self, size: int) -> None:
        self._account.state += size - self.state
        self.state = size

    def release(self) -> None:
        """The operator has gone."""
        self.set_keys(0, 0)
        self.set_state(0)
        self._account.holdings.pop(id(self), None)

    @property
    def room(self) -> int:
        """How many more bytes of state the operator may hold now."""
        return max(0, self._account.state_limit - self._account.state)

    def codes(self, index: KeyIndex, keys: Sequence[Values], each: int = 0) -> Codes:
        """The codes of tuples' keys; NO_CODE where there is no room for a new key and `each` bytes beside it."""
        if self._pressed:
            self._pressed = False
            self._account.make_room()
        codes = index.codes(keys, self._most_keys(index, each))
        if len(index) != self.groups:
            self.set_keys(len(index), index.bytes)
        if index.refused:
            self._account.make_room()
            codes = index.codes(keys, self._most_keys(index, each))
            self.set_keys(len(index), index.bytes)
        return codes

    def _most_keys(self, index: KeyIndex, each: int) -> int:
        account = self._account
        groups = account.limits.groups - account.groups
        room = (account.state_limit - account.state) // (KEY_BYTES + each)
        return len(index) + max(0, min(groups, room))

    def admitted(self, train: Train, more: int = 0) -> Train:
        """As much of a train as there is room for, if each tuple takes so much beside its columns."""
        size = train_bytes(train) + more * len(train)
        if size <= self.room:
            return train
        fitting = len(train) * self.room // size
        self.refuse_bytes(len(train) - fitting)
        return beginning(train, fitting)

    def refuse_keys(self, tuples: int) -> None:
        """Tuples without a code."""
        if self._account.groups < self._account.limits.groups:
            self.refuse_bytes(tuples)
        else:
            self.refused[f"too many groups (limit {self._account.limits.groups:,})"] += tuples

    def refuse_bytes(self, tuples: int) -> None:
        self._pressed = True
        self.refused[f"state is full (limit {self._account.limits.state_bytes:,} bytes)"] += tuples


class Lot:
    """A train that waits in queues, and takes its bytes until it has left the last of them."""

    __slots__ = ("_account", "_queues", "_size")

    def __init__(self, account: StateAccount, size: int, queues: int) -> None:
        self._account, self._size, self._queues = account, size, queues
        account.queued += size

    def leave(self) -> None:
        """One queue is done with it."""
        self._queues -= 1
        if not self._queues:
            self._account.queued -= self._size


def train_bytes(train: Train) -> int:
    """What a train's columns take."""
    size = 0 if is_same(train.arrival) else train.arrival.nbytes
    for column in train.columns:
        size += column.data.nbytes
        if column.valid is not None:
            size += column.valid.nbytes
    return size


def tuple_bytes(train: Train) -> int:
    """What each tuple of a train takes, if none has a text; 0 otherwise."""
    if any(column.type.kind is TypeKind.STRING for column in train.columns):
        return 0
    return int(train.arrival.itemsize + sum(column.data.itemsize + 1 for column in train.columns))


def beginning(train: Train, tuples: int) -> Train:
    """The first tuples of a train, with all its progress; the others do not count as kept."""
    kept = train.kept * tuples / len(train) if tuples else train.kept
    part = train.take(np.arange(tuples))  # a slice would hold all of it
    part.kept = kept
    return part
