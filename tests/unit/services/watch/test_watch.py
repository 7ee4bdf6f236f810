"""Views of a running system: how new they are, what is remembered of them, and what is made of them."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from ray.exceptions import GetTimeoutError, RayActorError

from actors.coordinator.control_plane import PlacedUnit, SystemStatus
from actors.coordinator.coordinator_status import Number, StatusMoment
from actors.runtime.names import NoSuchActor
from configs import errors
from loadshed.ledger import TupleLedger
from services.cli.upkeep.up_service import absent, check_there
from services.watch.accounts import accounts
from services.watch.history import FIGURES, HistoryStore
from services.watch.loans import Lent, lending
from services.watch.sentences import Lately, in_words
from services.watch.source import RunningSystem, SourceAway, away
from services.watch.watch import View, Watch
from tests.support.control import report_of
from tests.support.watched import NODE, InProcess, declared

HUNG_S = 60.0


class Clock:
    """Both clocks of a watch."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def three() -> InProcess:
    return InProcess().declare(declared("gold", 6.0), declared("silver", 3.0), declared("bronze", 1.0))


@pytest.fixture
def system() -> InProcess:
    return three()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(system: InProcess, clock: Clock) -> Iterator[Watch]:
    """Its clock stands still unless a test moves it: nothing is looked at that nobody has asked for, but once."""
    with Watch(system, clock=clock, wall=clock) as running:
        yield running


# -- views -----------------------------------------------------------------------------------------------------


def test_a_view_shows_the_classes_as_they_are_now(system: InProcess, watch: Watch, clock: Clock) -> None:
    watch.view()
    system.cycle("gold", 0.2, (TupleLedger(10, 7), 3), p99_ms=12.0)
    clock.now += 0.3
    view = watch.view()
    assert list(view.classes) == ["gold", "silver", "bronze"]
    gold = view.classes["gold"]
    assert (gold.share, gold.figures.offered, gold.figures.p99_ms) == (0.6, 10, 12.0)
    assert (view.name, view.at) == ("test", 100.3)


def test_many_who_ask_at_a_time_share_one_look(system: InProcess, watch: Watch, clock: Clock) -> None:
    before = watch.view()
    looks = system.looks
    clock.now += 0.3
    with ThreadPoolExecutor(16) as pool:
        views = list(pool.map(lambda _: watch.view(), range(200)))
    assert all(one.seen == clock.now > before.seen for one in views)
    # Whoever asked while it was under way may have waited for another one.
    assert system.looks - looks <= 2


def test_a_view_that_is_fresh_is_given_again(system: InProcess, watch: Watch, clock: Clock) -> None:
    before, looks = watch.view(), system.looks
    clock.now += 0.2
    assert watch.view() is before
    assert watch.age_s(before) == pytest.approx(0.2)
    assert system.looks == looks


def test_while_the_coordinator_is_away_the_last_view_is_given_with_its_age(
    system: InProcess, watch: Watch, clock: Clock
) -> None:
    before = watch.view()
    system.is_away = True
    clock.now += 30
    view = watch.view()
    assert (view, watch.age_s(view)) == (before, 30)
    assert "does not answer" in watch.problem
    system.is_away = False
    watch.look()
    assert watch.age_s(watch.view()) == 0
    assert watch.problem == ""


def test_a_system_that_is_away_for_long_or_has_ended_is_not_ready_and_ends_the_command(
    system: InProcess, watch: Watch, clock: Clock
) -> None:
    watch.view()
    assert (watch.away_s, absent(watch)) == (0, "")
    system.is_away = True
    for moment, said in ((105, ""), (130, "the system test has not answered for 30 s")):
        clock.now = moment
        watch.look()
        assert (watch.away_s, watch.has_ended, absent(watch)) == (moment - 100, False, said)
        check_there(watch)
    clock.now = 146
    with pytest.raises(errors.Away, match="has not answered for 46 s"):
        check_there(watch)
    system.is_away = False
    watch.look()
    check_there(watch)
    assert (watch.away_s, absent(watch)) == (0, "")
    system.is_away = system.ended = True
    watch.look()
    with pytest.raises(errors.Away, match="the system test has ended"):
        check_there(watch)


class NoCoordinator:
    """A system of which Ray knows no actor."""

    name = "none"

    @property
    def coordinator(self) -> object:
        raise NoSuchActor("the running system has no actor coordinator now")


def test_ray_s_own_words_are_shown_to_nobody() -> None:
    with pytest.raises(SourceAway) as caught:
        RunningSystem(NoCoordinator()).look(None)  # type: ignore[arg-type]  # what is asked of it is there
    assert (caught.value.title, caught.value.hint) == (
        "the running system does not answer",
        "ask again in a few seconds; the running system has no actor coordinator now",
    )
    hints = {
        away(problem).hint
        for problem in (
            GetTimeoutError("Get timed out: some object(s) not ready."),
            RayActorError(),
        )
    }
    assert hints == {
        "ask again in a few seconds; it has not answered within 5 s",
        "ask again in a few seconds",
    }


def test_a_look_that_fails_by_a_mistake_of_ours_is_not_the_last(clock: Clock) -> None:
    class Mistaken(InProcess):
        """Once."""

        def look(self, seen: Number | None) -> StatusMoment | None:
            if not self.looks:
                self.looks += 1
                raise AssertionError("a mistake")
            return super().look(seen)

    with Watch(Mistaken().declare(declared("gold")), clock=clock, wall=clock) as watch:
        while "a mistake" not in watch.problem:
            threading.Event().wait(0.001)
        clock.now += 1
        assert list(watch.view().classes) == ["gold"]
        assert watch.problem == ""


def test_who_asks_before_anything_was_seen_is_told_so(system: InProcess, clock: Clock) -> None:
    system.is_away = True
    with Watch(system, clock=clock) as watch, pytest.raises(SourceAway, match="has not answered yet"):
        watch.view()


def test_where_nothing_has_changed_the_view_stays_and_is_new_all_the_same(
    system: InProcess, watch: Watch, clock: Clock
) -> None:
    before = watch.view()
    clock.now += 5
    after = watch.view()
    assert after.look is before.look
    assert (after.at, watch.age_s(after)) == (105.0, 0)
    system.restarts += 1
    clock.now += 5
    assert watch.view().look is not before.look


def test_the_end_of_a_watch_keeps_nobody_waiting(system: InProcess) -> None:
    class Slow(InProcess):
        """Answers when it is let go on."""

        def look(self, seen: Number | None) -> StatusMoment | None:
            asked.set()
            go_on.wait(HUNG_S)
            raise SourceAway("too late")

    asked, go_on = threading.Event(), threading.Event()
    watch = Watch(Slow())
    watch.start()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(watch.view)
        assert asked.wait(HUNG_S)
        go_on.set()
        watch.stop()
        with pytest.raises(SourceAway):
            waiting.result(HUNG_S)


def test_places_of_a_class_are_its_units_in_their_order(
    system: InProcess, watch: Watch, clock: Clock
) -> None:
    wide = declared("wide", key="sensor", shards=11)
    system.declare(wide)
    clock.now += 1
    watch.view()
    places = watch.places("wide")
    assert [one.unit for one in places] == [f"wide#{number}" for number in range(11)]
    assert {(one.dirs, one.endpoint) for one in places} == {(None, "grpc://127.0.0.1:2")}
    assert list(watch.places("nobody")) == []
    assert watch.endpoint(NODE) == "grpc://127.0.0.1:2"


# -- history ---------------------------------------------------------------------------------------------------


def noted(system: InProcess, history: HistoryStore, at: float) -> None:
    watch = Watch(system, clock=lambda: at, wall=lambda: at)
    watch.look()
    history.note(watch.view())


def test_a_history_has_a_value_of_each_figure_for_each_moment(system: InProcess) -> None:
    history = HistoryStore()
    system.cycle("gold", 0.2, (TupleLedger(100, 90), 10), results=50, used_s=1.0)
    noted(system, history, 1.0)
    system.cycle(
        "gold", 0.3, (TupleLedger(300, 190, 60, 10), 40), results=90, used_s=1.5, mean_ms=5.0, p50_ms=4.0,
        utility_now=0.75, missed_now=0.5, staleness_now=0.25, slowdown_now=8.0,
    )  # fmt: skip
    noted(system, history, 3.0)
    past = history.past(60, ["gold", "bronze"])
    assert past.at == [1.0, 3.0]
    gold = past.classes["gold"]
    assert set(gold) == set(FIGURES)
    assert gold["share"] == [0.6, 0.6]
    assert gold["offered_per_s"] == [None, 100.0]
    assert gold["delivered_per_s"] == [None, 50.0]
    assert gold["lost_per_s"] == [None, 35.0]
    assert gold["results_per_s"] == [None, 20.0]
    assert gold["used"] == [None, 0.25]
    assert gold["mean_ms"] == [None, 5.0]
    told = {figure: gold[figure] for figure in ("utility", "missed", "staleness", "slowdown", "tardy")}
    assert told == {
        "utility": [None, 0.75],
        "missed": [None, 0.5],
        "staleness": [None, 0.25],
        "slowdown": [None, 8.0],
        "tardy": [None, None],
    }
    assert gold["queued"] == [10.0, 40.0]
    assert past.classes["bronze"]["p99_ms"] == [None, None]


def test_what_is_lent_shows_on_both_sides(system: InProcess) -> None:
    history = HistoryStore()
    for _ in range(3):
        system.cycle("gold", 0.02)
        system.cycle("silver", 0.02)
        system.cycle("bronze", 0.4)
    system.redistribute()
    noted(system, history, 1.0)
    past = history.past(60, ["gold", "silver", "bronze"])
    (lent, also), (borrowed,) = (
        [past.classes[name]["lent"][0] or 0 for name in ("gold", "silver")],
        [past.classes["bronze"]["borrowed"][0] or 0],
    )
    assert borrowed > 0.1
    assert lent + also == pytest.approx(borrowed, abs=1e-5)


def test_a_class_that_was_not_there_has_no_values(system: InProcess) -> None:
    history = HistoryStore()
    noted(system, history, 1.0)
    system.declare(declared("late"))
    noted(system, history, 2.0)
    system.remove("gold")
    noted(system, history, 3.0)
    past = history.past(60, ["gold", "late"])
    assert [value is None for value in past.classes["gold"]["share"]] == [False, False, True]
    assert [value is None for value in past.classes["late"]["share"]] == [True, False, False]


def test_a_class_that_begins_anew_has_no_rates_at_first(system: InProcess) -> None:
    history = HistoryStore()
    system.cycle("gold", 0.2, (TupleLedger(100, 100), 0), results=50)
    noted(system, history, 1.0)
    system.cycle("gold", 0.2, (TupleLedger(10, 10), 0), results=5)
    noted(system, history, 2.0)
    assert history.past(60, ["gold"]).classes["gold"]["results_per_s"] == [None, None]


def test_only_so_many_samples_are_kept_and_so_many_bytes(system: InProcess) -> None:
    history, row = HistoryStore(samples_max=5), 3 * len(FIGURES) * 4
    few = HistoryStore(bytes_max=2 * row)
    for second in range(8):
        noted(system, history, float(second))
        noted(system, few, float(second))
    assert history.past(600, []).at == [3.0, 4.0, 5.0, 6.0, 7.0]
    assert history.past(2, []).at == [6.0, 7.0]
    assert few.past(600, []).at == [6.0, 7.0]
    assert HistoryStore().past(600, ["gold"]).classes["gold"]["share"] == []


def test_the_watch_notes_a_sample_when_a_second_is_over(
    system: InProcess, watch: Watch, clock: Clock
) -> None:
    watch.view()
    clock.now += 1
    watch.view()
    clock.now += 0.5
    watch.view()
    watch.stop()
    assert watch.history.past(600, []).at == [100.0, 101.0]


def test_figures_of_a_class_that_does_not_report_grow_older(
    system: InProcess, watch: Watch, clock: Clock
) -> None:
    system.cycle("gold", 0.2)
    system.cycle("silver", 0.2)
    system.cycle("bronze", 0.2, asleep=True)
    clock.now += 1.0
    watch.view(max_age_s=0.0)
    clock.now += 8.0
    system.cycle("silver", 0.2)
    view = watch.view(max_age_s=0.0)
    ages = {name: watch.report_age_s(view, name) for name in ("gold", "silver", "bronze")}
    assert ages == {"gold": 8.0, "silver": 0.0, "bronze": 0.0}
    system.cycle("gold", 0.2)
    clock.now += 1.0
    assert watch.report_age_s(watch.view(max_age_s=0.0), "gold") == 0.0


# -- the ledger ------------------------------------------------------------------------------------------------


def test_the_ledger_has_each_class_and_stream_and_closes(system: InProcess) -> None:
    fates = TupleLedger(offered=100, delivered=50, shed=20, late=4, rejected=3, failed=2)
    system.cycle("gold", 0.2, (fates, 21))
    system.cycle("bronze", 0.2, (replace(fates, offered=101), 21))
    gold, bronze = accounts(system.world.plane.status())
    assert (gold.tenant, gold.stream, gold.ledger, gold.queued, gold.closes) == (
        "gold",
        "Readings",
        fates,
        21,
        True,
    )
    assert (bronze.tenant, bronze.closes) == ("bronze", False)
    assert accounts(system.world.plane.status(), ["silver"]) == []


def test_the_account_of_a_stream_that_a_class_has_left_is_marked_as_ended() -> None:
    system = InProcess().declare(declared("gold"))
    status = system.world.plane.status()
    unit = with_account(status, "gold", TupleLedger(10, 5), 5)
    assert unit.report is not None
    left = {"alerts": (TupleLedger(9, 5, 4), 0), **unit.report.accounts}
    reported = {"gold": replace(unit, report=replace(unit.report, accounts=left))}
    read, ended = accounts(replace(status, units=reported))
    assert (read.stream, read.ended) == ("Readings", False)
    assert (ended.stream, ended.ended, ended.ledger, ended.closes) == (
        "alerts",
        True,
        TupleLedger(9, 5, 4),
        True,
    )


def test_shards_of_a_class_have_one_account() -> None:
    system = InProcess().declare(declared("gold", key="sensor", shards=2))
    status = system.world.plane.status()
    one, other = TupleLedger(10, 5), TupleLedger(20, 20)
    reported = {
        "gold#0": with_account(status, "gold#0", one, 5),
        "gold#1": with_account(status, "gold#1", other, 0),
    }
    (found,) = accounts(replace(status, units=reported))
    assert (found.ledger, found.queued, found.closes) == (TupleLedger(30, 25), 5, True)


def with_account(status: SystemStatus, unit: str, ledger: TupleLedger, queued: int) -> PlacedUnit:
    report = replace(report_of(unit, 0.1, 0.1), accounts={"readings": (ledger, queued)})
    return replace(status.units[unit], report=report)


# -- lending and words -----------------------------------------------------------------------------------------


def test_who_lends_to_whom_is_told_for_now_and_since_the_beginning() -> None:
    system = InProcess().declare(declared("gold", 6.0), declared("bronze", 4.0))
    assert lending(system.world.plane.status(), {}) == []
    for _ in range(3):
        system.cycle("gold", 0.02)
        system.cycle("bronze", 0.7)
    system.redistribute()
    system.now += 1
    seconds = system.world.plane.cores.lending(system.now)
    (found,) = lending(system.world.plane.status(), seconds)
    shares = system.world.shares[NODE]
    assert (found.lender, found.borrower) == ("gold", "bronze")
    assert found.now == pytest.approx(0.6 - shares["gold"])
    assert found.seconds == pytest.approx(found.now * 1.0)
    plane = system.world.plane
    plane.report(plane.units_of("gold")["gold"], [report_of("gold", 2.0, 1.2, reclaim=True)], system.now)
    assert lending(system.world.plane.status(), seconds) == [Lent("gold", "bronze", found.seconds, 0.0)]


def test_what_shards_of_a_class_lend_each_other_is_not_lent() -> None:
    assert lending(three().world.plane.status(), {"gold": {"gold": 3.0}}) == []


def looked_at(system: InProcess) -> View:
    watch = Watch(system)
    watch.look()
    return watch.view(math.inf)


def test_what_was_shed_a_moment_ago_is_in_the_words(system: InProcess) -> None:
    system.cycle("gold", 0.2, results=9, results_per_s=3.0, p95_ms=40.0)
    gold = looked_at(system).classes["gold"]
    assert in_words(gold, Lately(0.004, 0.0)).endswith("; nothing is shed.")
    assert in_words(gold, Lately(0.9, 0.0)).endswith(
        "; nothing is shed now, and in the last minute up to 90% of its input was."
    )
    assert in_words(gold, Lately(0.0, 0.4)).endswith(
        "; nothing is shed now, and in the last minute up to 40% of its queue was dropped, which would have been late."
    )
    assert in_words(gold, Lately(0.9, 0.4)).endswith(
        "; nothing is shed now, and in the last minute up to 90% of its input was and up to 40% of its queue was dropped,"
        " which would have been late."
    )
    for _ in range(20):
        system.cycle("bronze", 0.9, response=3.0, results=9, results_per_s=3.0, p95_ms=300.0)
    bronze = looked_at(system).classes["bronze"]
    assert f"{bronze.drop:.0%} of its input is shed now, because" in in_words(bronze, Lately(0.9, 0.0))
    system.cycle("silver", 0.0, asleep=True)
    assert in_words(looked_at(system).classes["silver"], Lately(0.5, 0.0)).endswith(
        "; in the last minute up to 50% of its input was shed."
    )


def test_a_class_is_described_in_words(system: InProcess) -> None:
    def told(name: str) -> str:
        return in_words(looked_at(system).classes[name])

    assert told("gold") == "It is being started and has not reported yet."
    system.cycle("gold", 0.2, results=9, results_per_s=3.0, p95_ms=40.0)
    assert told("gold") == (
        "95% of its answers come within 40 ms, within its target of 100 ms; "
        "it has its share of 60% of the lanes; nothing is shed."
    )
    system.cycle("gold", 0.2, results=9, results_per_s=3.0, p95_ms=140.0, utility_now=0.75, missed_now=0.5)
    assert "target of 100 ms; they are worth 75% of what they could be, 50% came after" in told("gold")
    late = {"due": 8, "tardy": 2, "mean_ms": 25.0, "max_ms": 90.0}
    system.cycle("gold", 0.2, results=9, results_per_s=3.0, p95_ms=40.0, tardiness=late, tardy_now=0.4)
    assert "of 100 ms; 40% of its windows' answers are tardy, by 25 ms on average so far; it has" in told(
        "gold"
    )
    system.cycle("gold", 0.2, results=9, results_per_s=3.0, p95_ms=40.0, late_now={"s": 0.004})
    assert told("gold").endswith("; nothing is shed.")
    system.cycle("gold", 0.2, results=9, results_per_s=3.0, p95_ms=40.0, late_now={"s": 0.82, "t": 0.01})
    assert told("gold") == (
        "It is late: 82% of the rows of stream s in the last minute of input were late (behind its watermark)"
        " and are in no answer, and there were such rows of t; a larger WATERMARK would take them in;"
        " it has its share of 60% of the lanes; nothing is shed."
    )
    for _ in range(20):
        system.cycle("bronze", 0.9, response=3.0, results=9, results_per_s=3.0, p95_ms=300.0)
    assert "300 ms, above its target of 100 ms" in told("bronze")
    assert "of its input is shed now, because its load is above what it can do." in told("bronze")
    system.cycle("silver", 0.0, asleep=True)
    assert told("silver") == "It has no input and sleeps; it has its share of 30% of the lanes."
