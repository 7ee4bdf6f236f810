"""Which of the due tasks runs next: window results in the simulator, and operators under the policies `edf` and `edf-hr`
(`policies/deadlines.py`).

    EDF     the earliest deadline (Golab §4.1)
    HR      the most answers for its cost: least tardiness once everybody is late (Sharaf §3.5.1)
    EDF/HR  two lists: who can still make its deadline (t + C ≤ D) by deadline, the others by rate. HR's head runs if EDF's
            can wait for it (t + C_HR < D_EDF), else EDF's head (Sharaf §3.5.2)

Tasks are kept in heaps. One that is gone, or has changed, leaves its old places in them when they surface, or when they have come
to be as many as the others: an entry counts only while the task's `place` is that of the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

from configs.classes.periodic_schedules import Order

# Of a task that is not waiting.
NOWHERE = 0
# A heap of fewer entries is not looked through for old ones.
FEW = 64


class WaitingTask(Protocol):
    """What an order has to know of a task."""

    deadline_s: float
    cost: float
    place: int

    @property
    def rate(self) -> float:
        """Answers for its cost."""

    @property
    def tie(self) -> int:
        """Of equal ones the lowest goes first, then who came first."""


AnyTask = TypeVar("AnyTask", bound=WaitingTask)


class TaskHeap(Generic[AnyTask]):
    """Tasks by a key, then by their ties, then as they came."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, AnyTask]] = []
        self._most = FEW

    def push(self, key: float, task: AnyTask) -> None:
        heappush(self._heap, (key, task.tie, task.place, task))
        if len(self._heap) > self._most:
            self._heap = [entry for entry in self._heap if entry[3].place == entry[2]]
            heapify(self._heap)
            self._most = max(FEW, 2 * len(self._heap))

    def fill(self, tasks: Sequence[AnyTask], key: Callable[[AnyTask], float]) -> None:
        """With many at once, which takes less than one after another."""
        self._heap += [(key(task), task.tie, task.place, task) for task in tasks]
        heapify(self._heap)
        self._most = max(FEW, 2 * len(self._heap))

    def head(self) -> AnyTask | None:
        while self._heap:
            _, _, place, task = self._heap[0]
            if task.place == place:
                return task
            heappop(self._heap)
        return None


class TaskOrder(Protocol[AnyTask]):
    """Due tasks."""

    def put(self, task: AnyTask) -> None:
        """It is due, or has changed since."""

    def fill(self, tasks: Sequence[AnyTask]) -> None:
        """They are all due."""

    def head(self, now: float) -> AnyTask | None:
        """Which one runs next; it leaves when its `place` is NOWHERE."""


class KeyOrder(Generic[AnyTask]):
    """The least key first: EDF, HR."""

    def __init__(self, key: Callable[[WaitingTask], float]) -> None:
        self._key = key
        self._tasks = TaskHeap[AnyTask]()
        self._places = NOWHERE

    def put(self, task: AnyTask) -> None:
        self._places += 1
        task.place = self._places
        self._tasks.push(self._key(task), task)

    def fill(self, tasks: Sequence[AnyTask]) -> None:
        for task in tasks:
            self._places += 1
            task.place = self._places
        self._tasks.fill(tasks, self._key)

    def head(self, now: float) -> AnyTask | None:
        return self._tasks.head()


class DeadlineOrRateOrder(Generic[AnyTask]):
    """EDF/HR."""

    def __init__(self) -> None:
        self._by_deadline = TaskHeap[AnyTask]()
        self._by_latest_start = TaskHeap[AnyTask]()  # the same tasks
        self._by_rate = TaskHeap[AnyTask]()
        self._places = NOWHERE

    def put(self, task: AnyTask) -> None:
        self._places += 1
        task.place = self._places
        self._by_deadline.push(task.deadline_s, task)
        self._by_latest_start.push(latest_start(task), task)

    def fill(self, tasks: Sequence[AnyTask]) -> None:
        for task in tasks:
            self._places += 1
            task.place = self._places
        self._by_deadline.fill(tasks, deadline)
        self._by_latest_start.fill(tasks, latest_start)

    def head(self, now: float) -> AnyTask | None:
        # With the heap's own key, so that rounding cannot hold one up that is no longer first.
        while (task := self._by_latest_start.head()) is not None and now > latest_start(task):
            self._places += 1
            task.place = self._places
            self._by_rate.push(negative_rate(task), task)
        in_time, too_late = self._by_deadline.head(), self._by_rate.head()
        if too_late is None or (in_time is not None and now + too_late.cost >= in_time.deadline_s):
            return in_time
        return too_late


def deadline(task: WaitingTask) -> float:
    return task.deadline_s


def latest_start(task: WaitingTask) -> float:
    return task.deadline_s - task.cost


def negative_rate(task: WaitingTask) -> float:
    return -task.rate


def build_order(order: Order) -> TaskOrder[AnyTask]:
    match order:
        case "edf":
            return KeyOrder(deadline)
        case "hr":
            return KeyOrder(negative_rate)
        case "edf-hr":
            return DeadlineOrRateOrder()
