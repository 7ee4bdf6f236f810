"""Accounts for the state that the operators of a class hold, and enforces the limits of `configs.classes.limits`.

An operator reports to its `Holding` how much state it adds or releases, and asks for room before it stores more. Tuples
without room are refused by the operator and counted by reason; all other work continues. Bytes are the sizes of arrays
and texts, plus an allowance for Python's overhead. They are counted as state changes, never by walking over the state.

Numbered properties:
1. State and queues together never exceed `state_bytes`, except by the keys and indexes that the current train adds.
2. A part 1/QUEUES of the bytes is reserved for queues and the rest for state, so neither can block the other.
   Tuples that wait at a source operator are not counted here: the door limits their number.
3. Keys never exceed `groups`.
4. Room is freed when windows expire and when queries are removed.
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
# Up to this number of keys, an operator does not remove unused keys.
# With more keys, an operator removes unused keys each time the number of its keys has doubled.
FEW_KEYS = 1024


class StateAccount:
    """Account of the state and queues of all operators of a class."""

    def __init__(self, limits: ClassLimits) -> None:
        self.set_limits(limits)
        self.groups = self.state = self.queued = 0
        self.holdings: dict[int, Holding] = {}

    def set_limits(self, limits: ClassLimits) -> None:
        """Set the limits for new tuples; state that is already held stays."""
        self.limits = limits
        self.queue_limit = limits.state_bytes // QUEUES
        self.state_limit = limits.state_bytes - self.queue_limit

    @property
    def queue_room(self) -> int:
        return max(0, self.queue_limit - self.queued)

    @property
    def is_nearly_full(self) -> bool:
        """True if the operators use more than three quarters of the bytes or of the groups that the limits allow."""
        return 4 * self.state > 3 * self.state_limit or 4 * self.groups > 3 * self.limits.groups

    def make_room(self) -> None:
        """Let every operator of the class remove the keys for which it holds no tuples."""
        for holding in self.holdings.values():
            holding.compact()


class Holding:
    """Keys and state that one operator holds, as part of its class's account."""

    def __init__(self) -> None:
        self._account = StateAccount(ClassLimits())
        self.groups = self.keys = self.state = 0
        self.refused: Counter[str] = Counter()
        self.compact: Callable[[], None] = lambda: None
        # True if tuples were refused; unused keys are then removed before the next tuples are added.
        self._pressed = False

    def enter(self, account: StateAccount) -> None:
        """Count the operator's keys and bytes in the account of a class, now and after each change."""
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
        """Subtract everything that the operator holds from the account."""
        self.set_keys(0, 0)
        self.set_state(0)
        self._account.holdings.pop(id(self), None)

    @property
    def room(self) -> int:
        """Bytes of state that the operator may hold now in addition to its present state."""
        return max(0, self._account.state_limit - self._account.state)

    def codes(self, index: KeyIndex, keys: Sequence[Values], each: int = 0) -> Codes:
        """Return the code number of each tuple's key.

        A new key takes the bytes of the key and `each` more bytes; if there is no room for these bytes, the tuple gets NO_CODE.
        """
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
        """Return the first tuples of a train, as many as there is room for; count the other tuples as refused.

        Each tuple takes the bytes of its columns and `more` bytes.
        """
        size = train_bytes(train) + more * len(train)
        if size <= self.room:
            return train
        fitting = len(train) * self.room // size
        self.refuse_bytes(len(train) - fitting)
        return beginning(train, fitting)

    def refuse_keys(self, tuples: int) -> None:
        """Count tuples that were refused because there was no room for their key."""
        if self._account.groups < self._account.limits.groups:
            self.refuse_bytes(tuples)
        else:
            self.refused[f"too many groups (limit {self._account.limits.groups:,})"] += tuples

    def refuse_bytes(self, tuples: int) -> None:
        self._pressed = True
        self.refused[f"state is full (limit {self._account.limits.state_bytes:,} bytes)"] += tuples


class Lot:
    """Train in one or more queues; its bytes are counted until it has left all these queues."""

    __slots__ = ("_account", "_queues", "_size")

    def __init__(self, account: StateAccount, size: int, queues: int) -> None:
        self._account, self._size, self._queues = account, size, queues
        account.queued += size

    def leave(self) -> None:
        """Record that the train has left one of its queues."""
        self._queues -= 1
        if not self._queues:
            self._account.queued -= self._size


def train_bytes(train: Train) -> int:
    """Return the bytes of a train's columns and arrival times."""
    size = 0 if is_same(train.arrival) else train.arrival.nbytes
    for column in train.columns:
        size += column.data.nbytes
        if column.valid is not None:
            size += column.valid.nbytes
    return size


def tuple_bytes(train: Train) -> int:
    """Return the bytes per tuple of a train without text columns; 0 if there is a text column."""
    if any(column.type.kind is TypeKind.STRING for column in train.columns):
        return 0
    return int(train.arrival.itemsize + sum(column.data.itemsize + 1 for column in train.columns))


def beginning(train: Train, tuples: int) -> Train:
    """Return the first tuples of a train with its watermark, and with a kept fraction that counts the other tuples as dropped."""
    kept = train.kept * tuples / len(train) if tuples else train.kept
    # The tuples are copied, because a numpy view would keep the whole train in memory.
    part = train.take(np.arange(tuples))
    part.kept = kept
    return part
