"""Counters of metrics never fall and count nothing twice, whichever process restarts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.control_plane import PlacedUnit, SystemStatus
from actors.messages.unit_messages import BOUNDS, Figures, ResponseCounts, UnitCounts, UnitReport
from configs.classes.live_class import LiveClass
from loadshed.aloma import AlomaBranch
from loadshed.ledger import TupleLedger
from services.metrics.monotonic_counters import OFFERED, RESULTS, ClassCounters, Counters

TARGET_MS = 100.0
SLICES = ("weir_class_slices_total",)


def system(reports: dict[str, UnitReport], target_ms: float = TARGET_MS, shards: int = 2) -> SystemStatus:
    gold = LiveClass(
        name="gold", priority=1, delay_target_ms=target_ms, key="k", shards=shards, queries={"q": "SELECT 1"}
    )
    units = {
        name: PlacedUnit("gold", "n1", f"host of {name}", 0.5, 0.5, None, report, "n1")
        for name, report in reports.items()
    }
    return SystemStatus({"n1": 1}, (gold,), units, (), {})


@dataclass
class Life:
    """Model of a unit: its work up to now, the part of the work that survives a restart, and the counts since
    its last restart.
    """

    name: str
    done: int = 0
    safe: int = 0
    life: int = 0
    lives: int = 0
    slices: int = 0
    answers: int = 0
    earlier_slices: int = 0
    earlier_answers: int = 0
    farthest: int = 0

    def work(self, amount: int, saved: bool) -> None:
        self.done += amount
        self.slices += amount
        self.answers += amount
        self.farthest = max(self.farthest, self.done)
        if saved:
            self.safe = self.done

    def killed(self) -> None:
        """Restart the unit from the work that was saved."""
        self.lives += 1
        self.done = self.safe
        self.earlier_slices += self.slices
        self.earlier_answers += self.answers
        self.slices = self.answers = 0

    def report(self, target_ms: float = TARGET_MS) -> UnitReport:
        answered = ResponseCounts(
            target_ms / 1e3, self.answers, self.answers, 0.5 * self.answers, (self.answers,) * len(BOUNDS)
        )
        counted = UnitCounts(
            pid=100 + self.lives,
            born=float(self.lives),
            recovered=self.lives > 0,
            slices=self.slices,
            branches=(0,) * len(AlomaBranch),
            answered=answered,
            results={"q": self.done},
        )
        accounts = {"s": (TupleLedger(offered=self.done), self.done)}
        return UnitReport(self.name, 0.0, 0.0, False, False, Figures(), accounts=accounts, counted=counted)


STEPS = st.lists(
    st.tuples(st.sampled_from(["gold#0", "gold#1"]), st.sampled_from(["work", "save", "kill"]), st.integers(0, 9)),
    max_size=30,
)  # fmt: skip


@given(STEPS)
def test_counters_of_a_class_never_fall_and_count_each_event_once(steps: list[tuple[str, str, int]]) -> None:
    lives, counters = {name: Life(name) for name in ("gold#0", "gold#1")}, ClassCounters()
    counters.hear(system({unit: life.report() for unit, life in lives.items()}))
    before: dict[tuple[str, ...], float] = {}
    for name, what, amount in steps:
        one = lives[name]
        if what == "kill":
            one.killed()
        else:
            one.work(amount, what == "save")
        counters.hear(system({unit: life.report() for unit, life in lives.items()}))
        found = counters.of("gold")
        assert all(found.values[key] >= value for key, value in before.items())
        before = dict(found.values)
        farthest = sum(life.farthest for life in lives.values())
        assert (found.values[OFFERED, "s"], found.values[RESULTS, "q"]) == (farthest, farthest)
        slices = sum(life.earlier_slices + life.slices for life in lives.values())
        answers = sum(life.earlier_answers + life.answers for life in lives.values())
        assert found.values[SLICES] == slices
        assert (found.times.count, found.times.in_time, found.times.sum_s) == (answers, answers, answers / 2)
        assert found.times.within == [answers] * len(BOUNDS)
        assert found.restarts == counters.host_restarts["n1"] == sum(life.lives for life in lives.values())


def test_the_counter_of_a_class_keeps_counts_of_units_that_are_silent_or_removed() -> None:
    counters, first, second = ClassCounters(), Life("gold#0"), Life("gold#1")
    first.work(5, saved=True)
    second.work(3, saved=True)
    counters.hear(system({"gold#0": first.report(), "gold#1": second.report()}))
    # The coordinator has restarted and has no report yet.
    silent = system({})
    counters.hear(silent)
    assert counters.of("gold").values[SLICES] == 8
    first.work(1, saved=True)
    counters.hear(system({"gold#0": first.report()}, shards=1))
    assert counters.of("gold").values[SLICES] == 9
    counters.hear(replace(silent, classes=()))
    assert counters.of("gold").values == {}


def test_a_redeclared_class_adds_to_its_earlier_counts() -> None:
    counters, one = ClassCounters(), Life("gold#0")
    one.work(50, saved=True)
    counters.hear(system({"gold#0": one.report()}))
    another = replace(one.report(), accounts={"s": (TupleLedger(offered=60), 0)})
    assert another.counted is not None
    redeclared = replace(another, counted=replace(another.counted, pid=7, born=7.0, recovered=False))
    counters.hear(system({"gold#0": redeclared}))
    assert counters.of("gold").values[OFFERED, "s"] == 110


def test_histogram_buckets_are_reset_when_the_delay_target_changes() -> None:
    counters, one = ClassCounters(), Life("gold#0")
    one.work(5, saved=True)
    counters.hear(system({"gold#0": one.report()}))
    one.killed()
    one.work(2, saved=True)
    # The coordinator knows the new delay target before the unit counts by that target.
    counters.hear(system({"gold#0": one.report()}, target_ms=200.0))
    assert counters.of("gold").times.count == 5
    counters.hear(system({"gold#0": one.report(200.0)}, target_ms=200.0))
    times = counters.of("gold").times
    assert (times.target_s, times.count, times.within) == (0.2, 2, [2] * len(BOUNDS))


def test_counts_of_answers_disappear_when_their_query_is_removed() -> None:
    counters, one = ClassCounters(), Life("gold#0")
    one.work(5, saved=True)
    counters.hear(system({"gold#0": one.report()}))
    report = one.report()
    assert report.counted is not None
    gone = system({"gold#0": replace(report, counted=replace(report.counted, results={}))})
    without = gone.classes[0].model_copy(update={"queries": {}})
    counters.hear(replace(gone, classes=(without,)))
    assert (RESULTS, "q") not in counters.of("gold").values


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5)), max_size=20))
def test_the_total_over_restarts_is_the_sum_of_the_counts_between_restarts(
    steps: list[tuple[int, int]],
) -> None:
    counters, total, value, life, before = Counters(), 0, 0, 0, 0.0
    for another, more in steps:
        if another == 1:
            life, value = life + 1, 0
        value, total = value + more, total + more
        found = counters.of_life(("x",), value, life)
        counters.end_round()
        assert found == total >= before
        before = found


def test_a_counter_continues_from_its_last_value_when_its_source_restarts_from_a_lower_value() -> None:
    counters = Counters()
    assert [counters.until_it_falls(("f",), value) for value in (3, 5, 2, 2, 4)] == [3, 5, 7, 7, 9]
    assert [counters.kept(("k",), value) for value in (10, 8, 9, 12, 1, 2)] == [10, 10, 10, 12, 13, 14]
    assert [counters.changes(("c",), pid) for pid in (7, 7, 8, 8, 9)] == [0, 0, 1, 1, 2]


def test_the_counter_of_a_removed_series_restarts_when_the_series_returns() -> None:
    counters = Counters()
    counters.of_life(("x",), 5, 1)
    counters.end_round()
    counters.end_round()
    assert counters.of_life(("x",), 5, 2) == 5
