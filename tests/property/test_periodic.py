"""Properties of the schedules of periodic queries, numbered in `periods.py` and `tasks.py`, compared with
brute force.

Costs are counted update by update over the hyperperiod, the least common multiple of all periods. The sub-groups
that may run follow from the time to each sub-group's deadline, which falls by one per update as in Golab's paper.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from itertools import permutations, product
from math import isclose, lcm

from hypothesis import given
from hypothesis import strategies as st

from configs.classes.periodic_schedules import Late, Order
from scheduler.windows import PeriodicQuery, PeriodicScheduler, ScanCosts, Task
from scheduler.windows.periods import (
    Periods,
    Search,
    cheapest_periods,
    cost_rate,
    own_periods,
    shortest_periods,
)
from scheduler.windows.scan_model import SubGroup
from tests.support.schedules import periodic_of

costs = st.builds(
    ScanCosts,
    interval=st.sampled_from([1.0, 0.5, 3.0]),
    call=st.sampled_from([0.0, 1.0, 10.0]),
    answer=st.sampled_from([0.0, 0.5, 4.0]),
    answer_interval=st.sampled_from([0.0, 0.1, 1.0]),
)


@st.composite
def groups(draw: st.DrawFn, size_max: int = 5) -> list[SubGroup]:
    slides = draw(st.lists(st.integers(1, 9), min_size=1, max_size=size_max, unique=True))
    return [
        SubGroup(
            slide,
            draw(st.integers(1, 40)),
            draw(st.integers(1, 4)),
            windows=draw(st.integers(1, 90)),
            at_most=draw(st.integers(0, 4)) > 0,
        )
        for slide in slides
    ]


def counted_rate(group: list[SubGroup], periods: tuple[int, ...], costs: ScanCosts) -> float:
    hyperperiod, total = lcm(*periods), 0.0
    for update in range(1, hyperperiod + 1):
        due = [one for one, period in zip(group, periods, strict=True) if update % period == 0]
        if due:
            total += costs.call + costs.interval * (max(one.longest for one in due) - 1)
            total += sum(costs.answer * one.answers + costs.answer_interval * one.windows for one in due)
    return total / hyperperiod


def assignments(group: list[SubGroup]) -> list[tuple[int, ...]]:
    slides = [one.slide for one in group]
    options = [
        [slide for slide in slides if slide <= one.slide] if one.at_most else [one.slide] for one in group
    ]
    return list(product(*options))


class TestPeriods:
    @given(groups(), costs, st.data())
    def test_the_computed_cost_rate_equals_the_cost_counted_over_updates_until_all_periods_repeat(
        self, group: list[SubGroup], costs: ScanCosts, data: st.DataObject
    ) -> None:
        periods = data.draw(st.sampled_from(assignments(group)))
        assert isclose(
            cost_rate(group, periods, costs), counted_rate(group, periods, costs), rel_tol=1e-9, abs_tol=1e-9
        )

    @given(groups(), costs)
    def test_hybrid_periods_are_the_cheapest_of_all_period_assignments(
        self, group: list[SubGroup], costs: ScanCosts
    ) -> None:
        chosen = cheapest_periods(group, costs)
        least = min(counted_rate(group, periods, costs) for periods in assignments(group))
        assert chosen.exact
        assert chosen.periods in assignments(group)
        assert isclose(chosen.cost, least, rel_tol=1e-9, abs_tol=1e-9)
        assert isclose(counted_rate(group, chosen.periods, costs), least, rel_tol=1e-9, abs_tol=1e-9)

    @given(groups(), costs, st.booleans())
    def test_the_search_for_periods_finds_the_cheapest_from_any_initial_periods(
        self, group: list[SubGroup], costs: ScanCosts, meetings: bool
    ) -> None:
        own = own_periods(group, costs).periods
        known = Periods(own, cost_rate(group, own, costs, meetings))
        found = Search(group, costs, meetings, narrow=1).run(known, states_max=10**6)
        least = min(cost_rate(group, periods, costs, meetings) for periods in assignments(group))
        assert isclose(found.cost, least, rel_tol=1e-9, abs_tol=1e-9)

    @given(groups(), costs)
    def test_if_only_sub_groups_of_equal_period_share_scans_the_cheapest_periods_are_found(
        self, group: list[SubGroup], costs: ScanCosts
    ) -> None:
        def apart(periods: tuple[int, ...]) -> float:
            alike = [
                [one for one, period in zip(group, periods, strict=True) if period == shared]
                for shared in sorted(set(periods))
            ]
            return sum(
                counted_rate(ones, (period,) * len(ones), costs)
                for ones, period in zip(alike, sorted(set(periods)), strict=True)
            )

        chosen = cheapest_periods(group, costs, meetings=False)
        least = min(apart(periods) for periods in assignments(group))
        assert isclose(apart(chosen.periods), least, rel_tol=1e-9, abs_tol=1e-9)
        assert chosen.cost >= cheapest_periods(group, costs).cost - 1e-9

    @given(groups(8), costs, st.integers(0, 20))
    def test_shared_scans_never_cost_more_than_separate_scans_however_short_the_search(
        self, group: list[SubGroup], costs: ScanCosts, states: int
    ) -> None:
        hybrid, conservative = cheapest_periods(group, costs, states_max=states), own_periods(group, costs)
        assert hybrid.cost <= min(conservative.cost, shortest_periods(group, costs).cost) + 1e-9
        separate = [costs.scan(one.longest) + costs.answering(one.answers, one.windows) for one in group]
        rate = sum(cost / one.slide for cost, one in zip(separate, group, strict=True))
        assert conservative.cost <= rate + 1e-9


# -- the algorithms of Golab's paper, step by step -------------------------------------------------------


@dataclass
class Written:
    """Algorithms 1 to 3 of Golab's paper, in which d is the number of updates until a sub-group's deadline.

    After a run in time, the next run is at a multiple of the period.
    """

    kind: str
    late: Late
    periods: dict[str, int]
    """Period of each sub-group, which is named by its group and slide, such as a/3."""
    d: dict[str, int] = field(init=False)
    number: int = 0

    def __post_init__(self) -> None:
        self.d = dict(self.periods)

    def update(self) -> None:
        self.number += 1
        self.d = {name: d - 1 for name, d in self.d.items()}

    def may_run(self) -> list[set[str]]:
        """Return every set of sub-groups that Golab's algorithm allows to run together at the current update."""
        lowest = min(self.d.values())
        if lowest > 0:
            return []
        together = {name for name, d in self.d.items() if d == lowest}
        if self.kind == "none":
            return [{name} for name in together]
        if lowest < 0 and self.late != "off":
            bound = 0 if self.late == "late-pending" else -1
            together = {name for name, d in self.d.items() if d <= bound}
        choices = {name.split("/")[0] for name in together if self.d[name] == lowest}
        return [{name for name in together if name.startswith(f"{group}/")} for group in choices]

    def ran(self, names: set[str]) -> None:
        """Record a run of sub-groups that belong to the same group."""
        group = next(iter(names)).split("/")[0]
        others = [d for name, d in self.d.items() if name.startswith(f"{group}/") and name not in names]
        in_time = all(self.d[name] == 0 for name in names) and all(d >= 0 for d in others)
        for name in names:
            period = self.periods[name]
            self.d[name] = period - self.number % period if in_time else period


@st.composite
def workloads(draw: st.DrawFn, exact_too: bool = False) -> list[PeriodicQuery]:
    wanted = draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 6)), min_size=1, max_size=8))
    return [
        PeriodicQuery(
            f"{group}/{slide}/{place}",
            "synopsis",
            group,
            draw(st.integers(1, 30)),
            slide,
            at_most=not (exact_too and draw(st.booleans())),
        )
        for place, (group, slide) in enumerate(wanted)
    ]


def scheduler_of(queries: list[PeriodicQuery], kind: str, **given: object) -> PeriodicScheduler:
    scheduler = PeriodicScheduler(periodic_of(kind, **given))
    scheduler.open("synopsis", 1.0)
    for query in queries:
        scheduler.add(query)
    return scheduler


def sub_groups(task: Task) -> set[str]:
    return {query.rpartition("/")[0] for query in task.queries}


schedules = st.one_of(
    st.tuples(st.sampled_from(["conservative", "hybrid", "aggressive"]), st.sampled_from(["off", "late", "late-pending"])),
    st.tuples(st.just("none"), st.just("off")),
)  # fmt: skip
# Number of sub-groups that have time to run after each update.
capacities = st.lists(st.integers(0, 3), max_size=25)


class TestTasks:
    @given(workloads(), schedules, capacities)
    def test_each_run_has_sub_groups_that_the_algorithms_of_the_paper_would_run_together(
        self, queries: list[PeriodicQuery], schedule: tuple[str, Late], capacity: list[int]
    ) -> None:
        kind, late = schedule
        scheduler = scheduler_of(queries, kind, **({} if kind == "none" else {"late": late}))
        periods = {
            name.rpartition("/")[0]: period
            for group in {query.group for query in queries}
            for name, period in scheduler.periods("synopsis", group).items()
        }
        written = Written(kind, late, periods)
        for now, runs in enumerate(capacity, start=1):
            scheduler.updated("synopsis", float(now))
            written.update()
            for _ in range(runs):
                task, choices = scheduler.pick(float(now)), written.may_run()
                assert (task is None) == (not choices)
                if task is None:
                    break
                assert sub_groups(task) in choices
                scheduler.done(task, float(now))
                assert {
                    part.queries[0].rpartition("/")[0]: part.due - task.number for part in task.parts
                } == {name: written.d[name] for name in sub_groups(task)}
                written.ran(sub_groups(task))

    @given(workloads(), st.sampled_from(["conservative", "hybrid", "aggressive"]), capacities)
    def test_adding_late_sub_groups_to_a_run_leaves_out_no_query_of_the_run(
        self, queries: list[PeriodicQuery], kind: str, capacity: list[int]
    ) -> None:
        scheduler = scheduler_of(queries, kind, late="off")
        for now, runs in enumerate(capacity, start=1):
            scheduler.updated("synopsis", float(now))
            for _ in range(runs):
                found = [scheduler.pick(float(now))]
                if found[0] is None:
                    break
                scheduler.done(found[0], float(now))
            alike = [copy.deepcopy(scheduler) for _ in range(3)]
            for one, late in zip(alike, ("off", "late", "late-pending"), strict=True):
                one.settings = periodic_of(kind, late=late)
            tasks = [one.pick(float(now)) for one in alike]
            off, late_too, all_due = (set(task.queries) if task else set() for task in tasks)
            assert off <= late_too <= all_due

    @given(workloads(exact_too=True), schedules, st.integers(1, 40))
    def test_no_query_is_late_if_all_due_work_fits_between_two_updates(
        self, queries: list[PeriodicQuery], schedule: tuple[str, Late], updates: int
    ) -> None:
        kind, late = schedule
        scheduler = scheduler_of(queries, kind, **({} if kind == "none" else {"late": late}))
        slide = {query.name: query.slide for query in queries}
        exact = {query.name for query in queries if not query.at_most}
        ran = dict.fromkeys(slide, 0)
        for number in range(1, updates + 1):
            scheduler.updated("synopsis", float(number))
            while (task := scheduler.pick(float(number))) is not None:
                assert [one.tardiness_s for one in scheduler.done(task, number + 0.5)] == [0.0] * len(
                    task.parts
                )
                for name in task.queries:
                    assert 0 < number - ran[name] <= slide[name]
                    assert name not in exact or number % slide[name] == 0
                    ran[name] = number
        assert all(updates - at < slide[name] for name, at in ran.items())

    @given(workloads(), capacities, st.integers(1, 6))
    def test_after_an_overload_runs_return_to_multiples_of_their_periods(
        self, queries: list[PeriodicQuery], capacity: list[int], rounds: int
    ) -> None:
        scheduler = scheduler_of(queries, "hybrid")
        for now, runs in enumerate(capacity, start=1):
            scheduler.updated("synopsis", float(now))
            for _ in range(runs):
                if (task := scheduler.pick(float(now))) is not None:
                    scheduler.done(task, float(now))
        for number in range(len(capacity) + 1, len(capacity) + 60 * rounds):
            scheduler.updated("synopsis", float(number))
            while (task := scheduler.pick(float(number))) is not None:
                scheduler.done(task, float(number))
                if number > len(capacity) + 12:
                    assert all(
                        number % scheduler.periods("synopsis", task.group)[name] == 0 for name in task.queries
                    )


# -- the order in which due tasks run --------------------------------------------------------------------


@dataclass(frozen=True)
class One:
    deadline_s: int
    window: int


def tasks_due_at_once(ones: list[One], order: Order) -> PeriodicScheduler:
    """Return a scheduler with one due task per item of `ones`. Each task has a separate synopsis.

    The interval of the synopsis is the time to the task's deadline.
    """
    scheduler = PeriodicScheduler(periodic_of("conservative", order=order))
    for place, one in enumerate(ones):
        scheduler.open(f"s{place}", float(one.deadline_s))
        scheduler.add(PeriodicQuery(f"{place}", f"s{place}", "g", one.window + 1, 1))
        scheduler.updated(f"s{place}", 0.0)
    return scheduler


def order_of(scheduler: PeriodicScheduler) -> list[int]:
    now, found = 0.0, []
    while (task := scheduler.pick(now)) is not None:
        now += task.cost
        found.append(int(task.queries[0]))
        scheduler.done(task, now)
    return found


def all_in_time(ones: list[One], order: tuple[int, ...] | list[int]) -> bool:
    now = 0
    for place in order:
        now += ones[place].window
        if now > ones[place].deadline_s:
            return False
    return True


due_at_once = st.lists(st.builds(One, st.integers(1, 20), st.integers(1, 6)), min_size=1, max_size=6)


class TestOrder:
    @given(due_at_once, st.sampled_from(["edf", "edf-hr"]))
    def test_tasks_due_together_are_all_in_time_if_any_order_has_no_late_task(
        self, ones: list[One], order: Order
    ) -> None:
        if any(all_in_time(ones, one) for one in permutations(range(len(ones)))):
            assert all_in_time(ones, order_of(tasks_due_at_once(ones, order)))

    @given(due_at_once)
    def test_running_the_shortest_task_first_minimises_the_total_response_time(self, ones: list[One]) -> None:
        def waits(order: list[int]) -> int:
            ends, now = 0, 0
            for place in order:
                now += ones[place].window
                ends += now
            return ends

        least = min(waits(list(one)) for one in permutations(range(len(ones))))
        assert waits(order_of(tasks_due_at_once(ones, "hr"))) == least

    @given(due_at_once)
    def test_edf_hr_picks_the_earliest_reachable_deadline_or_a_late_task_that_ends_before_that_deadline(
        self, ones: list[One]
    ) -> None:
        left, now = set(range(len(ones))), 0
        for place in order_of(tasks_due_at_once(ones, "edf-hr")):
            can = [one for one in left if now + ones[one].window <= ones[one].deadline_s]
            lost = [one for one in left if one not in can]
            first = min((ones[one].deadline_s for one in can), default=None)
            shortest = min((ones[one].window for one in lost), default=None)
            if shortest is not None and (first is None or now + shortest < first):
                assert place in lost
                assert ones[place].window == shortest
            else:
                assert place in can
                assert ones[place].deadline_s == first
            left.remove(place)
            now += ones[place].window
