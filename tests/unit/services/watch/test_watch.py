"""Views of a running system: their age and history, and the tuple counts, loans and explanations that they show."""

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
    """Clock that a test moves. The watch reads both intervals and the time of day from this clock."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def three_classes() -> InProcess:
    return InProcess().declare(declared("gold", 6.0), declared("silver", 3.0), declared("bronze", 1.0))


@pytest.fixture
def system() -> InProcess:
    return three_classes()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def watch(system: InProcess, clock: Clock) -> Iterator[Watch]:
    """Start a watch with a clock that only the test moves. After its first poll, the watch polls only when a reader asks for a view."""
    with Watch(system, clock=clock, wall=clock) as running:
        yield running


# -- views of the running system -------------------------------------------------------------------------------


def test_a_view_shows_the_classes_as_they_are_now(system: InProcess, watch: Watch, clock: Clock) -> None:
    watch.view()
    system.cycle("gold", 0.2, (TupleLedger(10, 7), 3), p99_ms=12.0)
    clock.now += 0.3
    view = watch.view()
    assert list(view.classes) == ["gold", "silver", "bronze"]
    gold = view.classes["gold"]
    assert (gold.share, gold.figures.offered, gold.figures.p99_ms) == (0.6, 10, 12.0)
    assert (view.name, view.at) == ("test", 100.3)


def test_readers_that_ask_at_the_same_time_share_one_poll(
    system: InProcess, watch: Watch, clock: Clock
) -> None:
    before = watch.view()
    looks = system.looks
    clock.now += 0.3
    with ThreadPoolExecutor(16) as pool:
        views = list(pool.map(lambda _: watch.view(), range(200)))
    assert all(view.seen == clock.now > before.seen for view in views)
    # A reader that asked during the first poll waited for a second poll, so there may be two polls.
    assert system.looks - looks <= 2


def test_a_view_that_is_fresh_enough_is_returned_again_without_a_poll(
    system: InProcess, watch: Watch, clock: Clock
) -> None:
    before, looks = watch.view(), system.looks
    clock.now += 0.2
    assert watch.view() is before
    assert watch.age_s(before) == pytest.approx(0.2)
    assert system.looks == looks


def test_the_last_view_is_returned_while_the_coordinator_is_away(
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


def test_a_command_that_watches_a_system_ends_if_the_system_is_away_too_long_or_has_ended(
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
    """System without a coordinator: Ray finds no such actor."""

    name = "none"

    @property
    def coordinator(self) -> object:
        raise NoSuchActor("the running system has no actor coordinator now")


def test_error_messages_of_ray_are_replaced_by_messages_of_weir() -> None:
    with pytest.raises(SourceAway) as caught:
        RunningSystem(NoCoordinator()).look(None)  # type: ignore[arg-type]  # it has all attributes that are used
    assert (caught.value.title, caught.value.hint) == (
        "the running system does not answer",
        "try again in a few seconds; the running system has no actor coordinator now",
    )
    hints = {
        away(problem).hint
        for problem in (
            GetTimeoutError("Get timed out: some object(s) not ready."),
            RayActorError(),
        )
    }
    assert hints == {
        "try again in a few seconds; it has not answered within 5 s",
        "try again in a few seconds",
    }


def test_the_watch_keeps_polling_after_an_unexpected_error(clock: Clock) -> None:
    class Mistaken(InProcess):
        """System that fails at its first poll with an unexpected error."""

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


def test_asking_for_a_view_before_the_first_answer_of_the_system_is_an_error(
    system: InProcess, clock: Clock
) -> None:
    system.is_away = True
    with Watch(system, clock=clock) as watch, pytest.raises(SourceAway, match="has not answered yet"):
        watch.view()


def test_a_view_of_an_unchanged_system_keeps_its_state_and_gets_a_new_time(
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


def test_stopping_a_watch_releases_waiting_readers(system: InProcess) -> None:
    class Slow(InProcess):
        """System that answers only after the test has released it."""

        def look(self, seen: Number | None) -> StatusMoment | None:
            asked.set()
            released.wait(HUNG_S)
            raise SourceAway("too late")

    asked, released = threading.Event(), threading.Event()
    watch = Watch(Slow())
    watch.start()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(watch.view)
        assert asked.wait(HUNG_S)
        released.set()
        watch.stop()
        with pytest.raises(SourceAway):
            waiting.result(HUNG_S)


def test_answer_locations_of_a_class_are_in_the_order_of_its_units(
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


# -- history of figures ----------------------------------------------------------------------------------------


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
    quality = {figure: gold[figure] for figure in ("utility", "missed", "staleness", "slowdown", "tardy")}
    assert quality == {
        "utility": [None, 0.75],
        "missed": [None, 0.5],
        "staleness": [None, 0.25],
        "slowdown": [None, 8.0],
        "tardy": [None, None],
    }
    assert gold["queued"] == [10.0, 40.0]
    assert past.classes["bronze"]["p99_ms"] == [None, None]


def test_a_loan_shows_in_the_history_of_lender_and_borrower(system: InProcess) -> None:
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


def test_a_class_has_no_values_for_times_when_it_did_not_exist(system: InProcess) -> None:
    history = HistoryStore()
    noted(system, history, 1.0)
    system.declare(declared("late"))
    noted(system, history, 2.0)
    system.remove("gold")
    noted(system, history, 3.0)
    past = history.past(60, ["gold", "late"])
    assert [value is None for value in past.classes["gold"]["share"]] == [False, False, True]
    assert [value is None for value in past.classes["late"]["share"]] == [True, False, False]


def test_a_restarted_class_has_no_rates_at_first(system: InProcess) -> None:
    history = HistoryStore()
    system.cycle("gold", 0.2, (TupleLedger(100, 100), 0), results=50)
    noted(system, history, 1.0)
    system.cycle("gold", 0.2, (TupleLedger(10, 10), 0), results=5)
    noted(system, history, 2.0)
    assert history.past(60, ["gold"]).classes["gold"]["results_per_s"] == [None, None]


def test_the_history_keeps_a_limited_number_of_samples_and_bytes(system: InProcess) -> None:
    history, row = HistoryStore(samples_max=5), 3 * len(FIGURES) * 4
    few = HistoryStore(bytes_max=2 * row)
    for second in range(8):
        noted(system, history, float(second))
        noted(system, few, float(second))
    assert history.past(600, []).at == [3.0, 4.0, 5.0, 6.0, 7.0]
    assert history.past(2, []).at == [6.0, 7.0]
    assert few.past(600, []).at == [6.0, 7.0]
    assert HistoryStore().past(600, ["gold"]).classes["gold"]["share"] == []


def test_the_watch_keeps_one_sample_per_second(system: InProcess, watch: Watch, clock: Clock) -> None:
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


# -- the ledger that a view shows ------------------------------------------------------------------------------


def test_the_ledger_has_an_account_per_class_and_stream(system: InProcess) -> None:
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


def test_the_account_of_a_stream_that_a_class_no_longer_reads_is_marked_as_ended() -> None:
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


# -- loans between classes, and sentences that explain decisions -----------------------------------------------


def test_loans_are_listed_with_their_present_size_and_their_total() -> None:
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


def test_loans_between_shards_of_a_class_are_not_listed() -> None:
    assert lending(three_classes().world.plane.status(), {"gold": {"gold": 3.0}}) == []


def view_of(system: InProcess) -> View:
    watch = Watch(system)
    watch.look()
    return watch.view(math.inf)


def test_explanation_of_a_class_mentions_shedding_in_the_last_minute(system: InProcess) -> None:
    system.cycle("gold", 0.2, results=9, results_per_s=3.0, p95_ms=40.0)
    gold = view_of(system).classes["gold"]
    assert in_words(gold, Lately(0.004, 0.0)).endswith("; nothing is shed.")
    assert in_words(gold, Lately(0.9, 0.0)).endswith(
        "; nothing is shed now, but in the last minute up to 90% of its input was shed."
    )
    assert in_words(gold, Lately(0.0, 0.4)).endswith(
        "; nothing is shed now, but in the last minute up to 40% of its queue was dropped because it would have been late."
    )
    assert in_words(gold, Lately(0.9, 0.4)).endswith(
        "; nothing is shed now, but in the last minute up to 90% of its input was shed and up to 40% of its queue was dropped"
        " because it would have been late."
    )
    for _ in range(20):
        system.cycle("bronze", 0.9, response=3.0, results=9, results_per_s=3.0, p95_ms=300.0)
    bronze = view_of(system).classes["bronze"]
    assert f"{bronze.drop:.0%} of its input is shed now, because" in in_words(bronze, Lately(0.9, 0.0))
    system.cycle("silver", 0.0, asleep=True)
    assert in_words(view_of(system).classes["silver"], Lately(0.5, 0.0)).endswith(
        "; in the last minute up to 50% of its input was shed."
    )


def test_a_sentence_describes_each_state_of_a_class(system: InProcess) -> None:
    def sentence(name: str) -> str:
        return in_words(view_of(system).classes[name])

    assert sentence("gold") == "It is being started and has not reported yet."
    system.cycle("gold", 0.2, results=9, results_per_s=3.0, p95_ms=40.0)
    assert sentence("gold") == (
        "95% of its answers come within 40 ms, within its target of 100 ms; "
        "it has its share of 60% of the lanes; nothing is shed."
    )
    system.cycle("gold", 0.2, results=9, results_per_s=3.0, p95_ms=140.0, utility_now=0.75, missed_now=0.5)
    assert "target of 100 ms; their mean utility is 75%, and 50% came after" in sentence("gold")
    late = {"due": 8, "tardy": 2, "mean_ms": 25.0, "max_ms": 90.0}
    system.cycle("gold", 0.2, results=9, results_per_s=3.0, p95_ms=40.0, tardiness=late, tardy_now=0.4)
    tardy = "of 100 ms; 40% of its window answers are tardy; the mean tardiness so far is 25 ms; it has"
    assert tardy in sentence("gold")
    system.cycle("gold", 0.2, results=9, results_per_s=3.0, p95_ms=40.0, late_now={"s": 0.004})
    assert sentence("gold").endswith("; nothing is shed.")
    system.cycle("gold", 0.2, results=9, results_per_s=3.0, p95_ms=40.0, late_now={"s": 0.82, "t": 0.01})
    assert sentence("gold") == (
        "It is late: 82% of the rows of stream s in the last minute of input were late (behind its watermark)"
        " and are in no answer, and rows of t were late too; a larger WATERMARK would include them;"
        " it has its share of 60% of the lanes; nothing is shed."
    )
    for _ in range(20):
        system.cycle("bronze", 0.9, response=3.0, results=9, results_per_s=3.0, p95_ms=300.0)
    assert "300 ms, above its target of 100 ms" in sentence("bronze")
    assert "of its input is shed now, because its load exceeds its capacity." in sentence("bronze")
    system.cycle("silver", 0.0, asleep=True)
    assert sentence("silver") == "It has no input and sleeps; it has its share of 30% of the lanes."
