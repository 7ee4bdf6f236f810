"""Orders of due tasks: window results in the simulator, and operators under the policies `edf` and `edf-hr`
(`policies/deadlines.py`). In the order EDF, the task with the earliest deadline runs first. In the order HR, it is the task with the most
answers for its cost. EDF/HR combines both orders.

    EDF     the task with the earliest deadline (Golab §4.1)
    HR      the task with the most answers for its cost: least tardiness once all tasks are late (Sharaf §3.5.1)
    EDF/HR  two lists: tasks that can still meet their deadlines (t + C ≤ D) by deadline, all other tasks by rate. The first task
            by rate runs if the first by deadline can wait for it (t + C_HR < D_EDF); otherwise the latter runs (Sharaf §3.5.2)

Tasks are kept in heaps. An entry is valid only while it has the same number `place` as its task. Entries of removed or changed tasks are
dropped when they reach the top, or when they are as many as the valid entries.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

from configs.classes.periodic_schedules import Order

# Value of `place` for a task that is not waiting.
NOWHERE = 0
# Number of entries below which a heap is not searched for invalid entries.
FEW = 64


class WaitingTask(Protocol):
    """Properties of a task that determine when it runs."""

    deadline_s: float
    cost: float
    place: int

    @property
    def rate(self) -> float:
        """Number of answers divided by the cost."""

    @property
    def tie(self) -> int:
        """Number that orders tasks with equal keys, the lowest first. Tasks with equal numbers are in the order in which they were added."""


AnyTask = TypeVar("AnyTask", bound=WaitingTask)


class TaskHeap(Generic[AnyTask]):
    """Heap of tasks by a key, then by `tie`, then in the order in which the tasks were added."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, AnyTask]] = []
        self._most = FEW

    def push(self, key: float, task: AnyTask) -> None:
        heappush(self._heap, (key, task.tie, task.place, task))
        if len(self._heap) > self._most:
            self._heap = [entry for entry in self._heap if entry[3].place == entry[2]]
            heapify(self._heap)
            self._most = max(FEW, 2 * len(self._heap))

    def head(self) -> AnyTask | None:
        while self._heap:
            _, _, place, task = self._heap[0]
            if task.place == place:
                return task
            heappop(self._heap)
        return None


class TaskOrder(Generic[AnyTask]):
    """Order of due tasks by the smallest key, for EDF and HR."""

    def __init__(self, key: Callable[[WaitingTask], float]) -> None:
        self._key = key
        self._tasks = TaskHeap[AnyTask]()
        self._places = NOWHERE

    def put(self, task: AnyTask) -> None:
        """Add a due task, or move a changed task to its new position in the order."""
        self._places += 1
        task.place = self._places
        self._tasks.push(self._key(task), task)

    def head(self, now: float) -> AnyTask | None:
        """Return the task to run next. The caller removes the task by setting the task's `place` to NOWHERE."""
        return self._tasks.head()


class DeadlineOrRateOrder(TaskOrder[AnyTask]):
    """Order EDF/HR: by deadline while deadlines can be met, by rate otherwise."""

    def __init__(self) -> None:
        super().__init__(deadline)
        # Heap of the tasks that can still meet their deadlines, by the latest time at which they have to start.
        self._by_latest_start = TaskHeap[AnyTask]()
        self._by_rate = TaskHeap[AnyTask]()

    def put(self, task: AnyTask) -> None:
        super().put(task)
        self._by_latest_start.push(latest_start(task), task)

    def head(self, now: float) -> AnyTask | None:
        # The time is compared with `latest_start`, the key of the heap. With a differently rounded key, a late task might count as in time.
        while (task := self._by_latest_start.head()) is not None and now > latest_start(task):
            self._places += 1
            task.place = self._places
            self._by_rate.push(negative_rate(task), task)
        in_time, too_late = self._tasks.head(), self._by_rate.head()
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
            return TaskOrder(deadline)
        case "hr":
            return TaskOrder(negative_rate)
        case "edf-hr":
            return DeadlineOrRateOrder()
