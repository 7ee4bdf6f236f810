"""Order in which a class computes window results that are due together, if the computation takes several slices.

Time is virtual: each call of a window takes the cost that the test sets, all other calls take no time, and a slice ends with each
call of a window. The expected order and tardiness come from a queue in this file and from the tasks of `scheduler.windows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.classes.periodic_schedules import Order
from configs.classes.policies import policy_of
from engine.class_.runner import ClassRunner
from engine.data.schema import INT64
from engine.data.train import Train, Values, same_arrival
from engine.sql import SqlCatalog, parse_create_stream, plan_query
from scheduler.windows import PeriodicQuery, PeriodicScheduler, ScanCosts
from tests.support.schedules import periodic_of

STREAM = parse_create_stream("CREATE STREAM s (ts int64, x int64, WATERMARK FOR ts AS ts)")
# Until second LEARNING_S, the class learns costs undisturbed; measuring begins much later, at second BEGIN_S.
LEARNING_S, BEGIN_S = 60, 6000
SLIDES = (1, 2, 3, 4, 5, 6)
# Costs of a result in seconds, which differ by much more than the 1 µs that the class assumes for other operators.
# No sum of these costs is a whole second, so that no result leaves exactly at its deadline.
COSTS = tuple(parts / 64 + 2**-14 for parts in (1, 2, 3, 5, 8, 13, 21, 32))
TINY_S = 1e-9
# Tuples per second, and the longest train in tuples: all tuples of a second form one train.
TUPLES = 100


@dataclass(frozen=True)
class Window:
    """Tumbling window of `slide_s` seconds, which has one pane. Computing a result takes `cost_s`."""

    slide_s: int
    cost_s: float


@dataclass
class Class:
    """Class that runs windows under a policy. Windows share no panes. The clock advances by the cost of each computed result."""

    windows: Sequence[Window]
    policy: str
    now: float = 0.0
    came: list[tuple[float, str]] = field(default_factory=list)
    ends: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runner = ClassRunner(self._answer, policy_of(self.policy), train_max=TUPLES)
        texts = [
            f"SELECT window_start, window_end, COUNT(*) AS n FROM s [RANGE {one.slide_s} SECONDS] WHERE x > -{place + 1}"
            for place, one in enumerate(self.windows)
        ]
        self.runner.add(
            *(plan_query(f"q{place}", text, SqlCatalog.of([STREAM])) for place, text in enumerate(texts))
        )
        self.runner.scheduled.believed()
        self.costs = {
            number: self.windows[int(min(node.users)[1:])].cost_s
            for number, node in enumerate(self.runner.network.nodes)
            if node.timed
        }

    def _answer(self, query: str, train: Train) -> None:
        self.came.append((self.now, query))
        self.ends.setdefault(query, []).extend(train.columns[1].data.tolist())

    def work(self) -> float:
        """Return the total cost of the results computed since the start, in seconds."""
        return sum(self.runner.scheduled.calls[number] * cost for number, cost in self.costs.items())

    def run(self, begin_s: int, end_s: int) -> None:
        """Offer a train per second, which arrives at its event time; then run until no input is left."""
        self.now = max(self.now, float(begin_s))
        second = begin_s
        while second < end_s or self.runner.has_input():
            while second < end_s and second <= self.now:
                times = np.full(TUPLES, 1000 * second)
                columns = Values(INT64, times), Values(INT64, np.zeros(TUPLES, np.int64))
                self.runner.offer("s", Train(columns, same_arrival(float(second), TUPLES)))
                second += 1
            if self.runner.has_input():
                self._slice()
            else:
                self.now = float(second)

    def _slice(self) -> None:
        before, start = self.work(), self.now

        def now() -> float:
            self.now = start + self.work() - before
            return self.now

        self.runner.run(TINY_S, now, self.work)
        now()

    def learn(self) -> None:
        self.run(0, LEARNING_S)
        self.runner.scheduled.believed()
        self.came.clear()

    def tardiness_s(self) -> float:
        return sum(
            one.tardiness.sum_s for one in self.runner.answers.quality.values() if one.tardiness is not None
        )


def measured(windows: Sequence[Window], policy: str, seconds: int) -> tuple[list[tuple[float, str]], float]:
    """Run the windows under the policy. Return each result as (time, query), and the sum of the tardiness in seconds."""
    one = Class(windows, policy)
    one.learn()
    before = one.tardiness_s()
    one.run(BEGIN_S, BEGIN_S + seconds)
    return one.came, one.tardiness_s() - before


def by_the_core(windows: Sequence[Window], order: Order, seconds: int) -> Iterator[tuple[float, str, float]]:
    """Yield the time, query and tardiness of each result, as Golab's periodic scheduler computes them with one synopsis per window.

    Work that is due at a second begins after all earlier work. One slice computes a result, and the next slice delivers it.
    """
    now = 0.0
    for second in range(BEGIN_S, BEGIN_S + seconds):
        now = max(now, float(second))
        scheduler = PeriodicScheduler(periodic_of("none", order=order, tasks="query"))
        for place, one in enumerate(windows):
            if second > BEGIN_S and second % one.slide_s:
                continue
            scheduler.open(f"s{place}", float(one.slide_s))
            scheduler.add(PeriodicQuery(f"q{place}", f"s{place}", "g", 1, 1), ScanCosts(0.0, one.cost_s))
            scheduler.updated(f"s{place}", float(second))
        done: list[tuple[float, str]] = []
        while (task := scheduler.pick(now)) is not None:
            now += task.cost
            scheduler.done(task, now)
            done.append((now, task.queries[0]))
        for (_, query), (left, _) in pairwise([*done, *done[-1:]]):
            yield left, query, max(0.0, left - second - windows[int(query[1:])].slide_s)


some_windows = st.lists(st.sampled_from(COSTS), min_size=2, max_size=6, unique=True).flatmap(
    lambda costs: st.tuples(*(st.builds(Window, st.sampled_from(SLIDES), st.just(one)) for one in costs))
)


@settings(max_examples=10)
@given(some_windows, st.sampled_from(["edf-hr", "edf", "hr"]))
def test_results_of_windows_due_together_come_in_the_order_of_golabs_scheduler(
    windows: Sequence[Window], order: Order
) -> None:
    expected = list(by_the_core(windows, order, 24))
    came, tardiness_s = measured(windows, order, 24)
    assert came == [(at, query) for at, query, _ in expected]
    assert tardiness_s == pytest.approx(sum(late_s for _, _, late_s in expected))


# The windows of BUSY need 0.76 processors, the windows of BUSIER 1.1 processors.
# The last window of BUSY is due every second and takes half a second, so other windows can delay its results beyond the deadline.
BUSY = [
    Window(3, COSTS[5]),
    Window(3, COSTS[6]),
    Window(3, COSTS[4]),
    Window(2, COSTS[3]),
    Window(1, COSTS[7]),
]
BUSIER = [*BUSY, Window(1, COSTS[6])]
OTHERS = ("hr", "fcfs", "rr")


def test_edf_hr_meets_all_deadlines_and_other_policies_do_not() -> None:
    tardy = {policy: tardiness(BUSY, policy) for policy in ("edf-hr", *OTHERS)}
    assert tardy["edf-hr"] == 0.0
    assert all(tardy[policy] > 1.5 for policy in OTHERS)


def test_edf_meets_all_deadlines_except_in_overload() -> None:
    assert tardiness(BUSY, "edf") == 0.0
    assert tardiness(BUSIER, "edf") >= tardiness(BUSIER, "edf-hr") > 0


def test_edf_hr_has_the_least_tardiness_in_overload() -> None:
    tardy = {policy: tardiness(BUSIER, policy) for policy in ("edf-hr", *OTHERS)}
    assert tardy["edf-hr"] == min(tardy.values())
    assert tardy["edf-hr"] > 0


def tardiness(windows: Sequence[Window], policy: str) -> float:
    """Return the sum of the tardiness of all results in 30 s, in seconds."""
    _, found = measured(windows, policy, 30)
    return found


@pytest.mark.parametrize("policy", ["hr", "fcfs", "rr", "bsd"])
def test_answers_do_not_depend_on_the_order_of_windows(policy: str) -> None:
    ends = []
    for one in (Class(BUSIER, "edf-hr"), Class(BUSIER, policy)):
        one.run(0, 30)
        ends.append(one.ends)
    assert ends[0] == ends[1]
    assert ends[0]["q4"] == [1000 * (second + 1) for second in range(29)]


def test_results_of_windows_due_together_are_delivered_query_by_query_at_the_ends_of_slices() -> None:
    one = Class(BUSY, "edf-hr")
    one.run(0, 13)
    twelfth = [(at, query) for at, query in one.came if at >= 12.0]
    # At second 12 all windows are due.
    # One slice computes a result, and the next slice delivers it. Only the last two results leave together.
    assert len({at for at, _ in twelfth}) == len(BUSY) - 1
    assert next(query for _, query in twelfth) == "q4"


def test_estimated_costs_of_results_and_tuples_match_their_real_costs() -> None:
    one = Class(BUSY, "edf-hr")
    one.run(0, LEARNING_S)
    believed = one.runner.scheduled.believed()
    nodes = one.runner.network.nodes
    costs = {number: believed.estimates[number].cost_s for number, node in enumerate(nodes) if node.timed}
    assert costs == {number: pytest.approx(cost_s) for number, cost_s in one.costs.items()}
    source = next(number for number, node in enumerate(nodes) if node.source)
    a_second = sum(window.cost_s / window.slide_s for window in BUSY)
    assert believed.segments[source].cost_s == pytest.approx(a_second / TUPLES, rel=0.1)
