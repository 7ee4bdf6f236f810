"""Tables of classes and queries in `weir top` and `weir demo`, and the class views that they show."""

from dataclasses import replace

import pytest
from rich.console import Console
from rich.text import Text

from actors.coordinator.control_plane import PlacedUnit, SystemStatus
from actors.coordinator.coordinator_status import CoordinatorStatus
from actors.messages.unit_messages import Figures, UnitReport
from configs.classes.live_class import LiveClass
from configs.classes.utility import UtilityGraph
from configs.numbers import compact
from services.cli.demonstration.live_run import mean_between, query_results, tardiness_of
from services.cli.tables.class_tables import class_quality_table, class_view_table, quality_table
from services.cli.tables.sheet import Sheet
from services.watch.class_views import ClassView, Lending, as_json, class_views, restarts, together
from services.watch.quality import QueryWorth

BUSY = Figures(
    headroom=0.5873,
    load=1.2345,
    keep=0.615,
    queued=1_234_567,
    results=98_765_432,
    results_per_s=123_456.7,
    p50_ms=187.4,
    p95_ms=391.0,
    p99_ms=412.6,
    offered=10_000_000,
    delivered=6_000_000,
    shed=3_765_433,
    within_target_pct=96.0,
    response_ms={"mean": 190.0, "p95": 391.0},
    mean_ms=188.2,
    utility={"mean": 0.75, "lost": 0.25, "of_queries": 0.5, "missed": 1_000_000, "missed_pct": 1.0125},
    staleness={"mean": 0.5, "max": 0.75},
    slowdown={"mean": 2500.0, "of_queries": 100.0},
    slowdown_now=12_345.6,
    utility_now=0.834,
    missed_now=0.256,
    staleness_now=0.987,
    queue_bytes=123_456_789,
)


def declared(name: str, **settings: object) -> LiveClass:
    given = {"name": name, "priority": 1, "delay_target_ms": 400, "queries": {"q": "SELECT v FROM s"}}
    return LiveClass.model_validate(given | settings)


def seated(
    name: str, figures: Figures | None, *, share: float = 0.3, node: str = "n1", asleep: bool = False
) -> PlacedUnit:
    report = None if figures is None else UnitReport(name, 1.0, 1.0, False, asleep, figures)
    return PlacedUnit(name.partition("#")[0], node, "h1", 0.3, share, None, report, node)


def views_of(
    *units: tuple[str, PlacedUnit], nodes: dict[str, int] | None = None, lending: Lending | None = None
) -> list[ClassView]:
    names = dict.fromkeys(one.class_name for _, one in units)
    classes = tuple(declared(name) for name in names)
    status = SystemStatus(nodes or {"n1": 1}, classes, dict(units), (), {})
    return class_views(status, lending or {})


def lines(views: list[ClassView], width: int) -> list[str]:
    return printed(class_view_table("system 1234", views), width)


def printed(table: Sheet, width: int) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as printed:
        console.print(table)
    return [line.rstrip() for line in printed.get().splitlines() if line.strip()]


def test_a_class_of_one_unit_has_the_figures_of_the_unit() -> None:
    (view,) = views_of(
        ("gold", seated("gold", BUSY, share=0.4)), lending={"silver": {"gold": 1.25}, "gold": {"silver": 0.5}}
    )
    assert (view.figures, view.share, view.original) == (BUSY, 0.4, 0.3)
    assert (view.lent_s, view.borrowed_s, view.units, view.asleep) == (0.5, 1.25, 1, False)


def test_a_sharded_class_adds_counts_and_takes_the_slowest_response_time() -> None:
    slow = replace(
        BUSY,
        p99_ms=900.0,
        results=98_765_432 * 3,
        within_target_pct=48.0,
        response_ms={"mean": 300, "p95": 1},
        utility={"mean": 0.25, "lost": 0.75, "of_queries": 0.5, "missed": 10, "missed_pct": 1.0},
        slowdown={"mean": 500.0, "of_queries": 500.0},
        slowdown_now=0.4,
        staleness={"mean": 0.25, "max": 1.0},
        utility_now=0.434,
        tardiness={"due": 30, "tardy": 3, "mean_ms": 2.0, "max_ms": 70.0},
        tardy_now=0.5,
    )
    (view,) = views_of(
        ("gold#0", seated("gold#0", BUSY)),
        ("gold#1", seated("gold#1", slow, share=0.5, node="n2")),
        nodes={"n1": 1, "n2": 3},
        lending={"gold#0": {"silver": 1.0}, "gold#1": {"silver": 2.0}},
    )
    assert [view.share, view.original] == pytest.approx([(0.3 + 3 * 0.5) / 4, 0.3])
    found = view.figures
    assert (found.queued, found.delivered, found.headroom) == (2_469_134, 12_000_000, 2 * 0.5873)
    assert (found.p50_ms, found.p99_ms, found.keep) == (187.4, 900.0, 0.615)
    assert found.within_target_pct == pytest.approx((96 + 3 * 48) / 4)
    assert found.response_ms == {"mean": 300, "p95": 391.0}
    assert (view.lent_s, view.units) == (3.0, 2)
    worth = {"mean": 0.375, "of_queries": 0.5, "lost": 0.625, "missed": 1_000_010, "missed_pct": 0.2531}
    assert found.utility == pytest.approx(worth, rel=1e-3)
    assert found.staleness == {"mean": 0.5, "max": 1.0}
    assert found.slowdown == pytest.approx({"mean": 1000, "of_queries": 400})
    assert (found.slowdown_now, found.utility_now) == pytest.approx((6173, 0.634))
    assert (found.tardiness, found.tardy_now) == (slow.tardiness, 0.25)
    both = together([slow, replace(slow, tardiness={"due": 10, "tardy": 0, "mean_ms": 0.0, "max_ms": 0.0})])
    assert both.tardiness == {"due": 40, "tardy": 3, "mean_ms": 1.5, "max_ms": 70.0}


@pytest.mark.parametrize("width", [80, 120])
def test_no_figure_is_cut_off_at_eighty_columns(width: int) -> None:
    busy = ("class1", seated("class1", BUSY, share=0.25))
    asleep = ("class2", seated("class2", Figures(), asleep=True))
    lending = {"class1": {"class2": 123.45}, "class2": {"class1": 67.89}}
    title, head, _, first, second, *states = lines(views_of(busy, asleep, lending=lending), width)
    assert title == "system 1234"
    assert " ".join(head.split()) == "class share/own head load p50 p99/target drop queue lent/got res/s"
    assert " ".join(first.split()) == "class1 0.25/0.30 0.59 1.23 187 413/400 38% 1.23M 123/67.9 123k"
    assert " ".join(second.split()) == "class2 0.30/0.30 0.00 0.00 – –/400 0% 0 67.9/123 0"
    assert states == ["class1: shedding: 38% of its input is dropped", "idle: class2"]
    assert max(map(len, (head, first, second, *states))) <= 80


def test_class_quality_table_fits_eighty_columns() -> None:
    views = views_of(
        ("class1", seated("class1", BUSY)),
        ("class2", seated("class2", Figures(), asleep=True)),
        ("class3", seated("class3", None)),
    )
    _, head, _, *rows = printed(class_quality_table("system 1234", views), 80)
    assert " ".join(head.split()) == "class worth missed in all stale mean/target slow queue bytes res/s"
    assert [" ".join(row.split()) for row in rows] == [
        "class1 0.83 26% 1M 99% 188/400 12.3k 1.23M 123M 123k",
        "class2 – – 0 – –/400 – 0 0 0",
        "class3 – – – – – – – – –",
    ]
    assert max(map(len, (head, *rows))) <= 80
    late = replace(BUSY, tardiness={"due": 99, "tardy": 9, "mean_ms": 1.0, "max_ms": 5.0}, tardy_now=0.256)
    # For a class without windows, the service reports that no window answer was due.
    plain = replace(BUSY, tardiness={"due": 0, "tardy": 0, "mean_ms": 0.0, "max_ms": 0.0})
    alone = printed(class_quality_table("system 1234", views_of(("class2", seated("class2", plain)))), 80)
    assert "tardy" not in alone[1]
    views = views_of(("class1", seated("class1", late)), ("class2", seated("class2", plain)))
    _, head, _, *rows = printed(class_quality_table("system 1234", views), 80)
    assert " ".join(head.split()) == "class worth missed in all stale tardy mean/target slow queue res/s"
    assert [row.split()[5] for row in rows] == ["26%", "–"]
    assert max(map(len, (head, *rows))) <= 80


def test_query_quality_table_fits_eighty_columns() -> None:
    query = {"query": "alerts_within_a_minute", "deadline_ms": 12_345.5, "answers": 98_765_432}
    worth = {"mean": 0.4, "missed": 7_654_321}
    fresh = {
        "query": "new",
        "deadline_ms": 300.0,
        "answers": 0,
        "mean_ms": 0.0,
        "slowdown": 0.0,
        "staleness": 0.0,
        "tardiness": None,
    }
    items = [
        query
        | {"mean_ms": 1234.5, "slowdown": 87_654.3, "utility": worth, "staleness": 0.001, "tardiness": None},
        fresh | {"utility": {"mean": 1.0, "missed": 0}},
    ]
    head, _, *rows = printed(quality_table({"tenant": "acme", "items": items}), 80)
    assert " ".join(head.split()) == "query answers ms/deadline slow worth missed stale"
    assert [" ".join(row.split()) for row in rows] == [
        "alerts_within_a_minute 98.8M 1,234/12,346 87.7k 0.40 7.65M (8%) <1%",
        "new 0 –/300 – – 0 –",
    ]
    assert max(map(len, (head, *rows))) <= 80
    items[1] |= {"tardiness": {"answers": 98_765_432, "tardy": 9_876_543, "mean_ms": 0.5}}
    head, _, *rows = printed(quality_table({"tenant": "acme", "items": items}), 90)
    assert [row.split()[-1] for row in (head, *rows)] == ["tardy", "–", "10%"]
    assert (
        "no query of acme has reported yet" in printed(quality_table({"tenant": "acme", "items": []}), 80)[-1]
    )


def test_the_class_table_shows_no_drops_of_a_lossless_class_even_if_its_load_manager_decides_to_drop() -> (
    None
):
    (view,) = views_of(("gold", seated("gold", replace(BUSY, keep=0.05))))
    assert view.drop == pytest.approx(0.95)
    lossless = replace(view, settings=declared("gold", lossless=True))
    assert lossless.drop == 0
    head, _, row = (line.split() for line in lines([lossless], 80)[1:4])
    assert dict(zip(head, row, strict=True))["drop"] == "–"


def test_a_class_that_has_not_reported_yet_has_no_figures() -> None:
    views = views_of(("gold", seated("gold", None)))
    assert (views[0].units, views[0].asleep) == (0, False)
    *_, row, state = lines(views, 80)
    assert (row.split(), state) == (["gold", "0.30/0.30", *["–"] * 8], "starting: gold")


def test_classes_with_problems_are_explained_below_the_table() -> None:
    starved = Figures(queued=130_000, queue_age_s=54.0, keep=0.1, taken_per_s=3.0)
    units = {name: seated(name, starved) for name in ("clicks", "broken", "late", "held")}
    reported = units["broken"].report
    assert reported is not None
    given_up = replace(
        reported,
        asleep=True,
        trouble="given up",
        problem="given up: there is no such stream (got 'b')",
    )
    units["broken"] = replace(units["broken"], report=given_up)
    units["late"] = seated("late", replace(BUSY, late_now={"pages": 0.88}))
    units["held"] = seated("held", replace(BUSY, held_back=1, queue_age_s=432.0))
    views = views_of(*units.items())
    _, _, _, *rows = lines(views, 80)
    assert [" ".join(row.split()) for row in rows[:4]] == [
        "clicks 0.30/0.30 0.00 0.00 – –/400 90% 130k 0.0/0.0 0",
        "broken 0.30/0.30 – – – – – – – –",
        "late 0.30/0.30 0.59 1.23 187 413/400 38% 1.23M 0.0/0.0 123k",
        "held 0.30/0.30 0.59 1.23 187 413/400 38% 1.23M 0.0/0.0 123k",
    ]
    assert " ".join(rows[4:]) == (
        "broken: given up: there is no such stream (got 'b'); it is started again when its tenant, queries or streams are"
        " changed, or the system is restarted"
        " clicks: starved: 130,000 tuples wait, the oldest for 54 s, no answer has come in the last 5 s, and it has 30% of"
        " the lanes"
        " late: late: 88% of the rows of stream pages come behind its watermark"
        " held: held back: its queue is full, so input waits in the stream's log, and producers wait when the log is full:"
        " 1,234,567 tuples wait, the oldest for 7.2 min"
    )
    names = [row[0] for row in class_view_table("", views).rows]
    assert [name.spans[0].style for name in names] == ["bold red", "bold red", "yellow", "yellow"]


def test_json_of_a_class_has_its_shares_and_figures() -> None:
    (view,) = views_of(("gold", seated("gold", BUSY)))
    found = as_json(view)
    assert (found["name"], found["share"]) == ("gold", {"original": 0.3, "now": 0.3})
    assert (found["shed"], found["p99_ms"], found["response_ms"]) == (3_765_433, 412.6, BUSY.response_ms)


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0"), (999, "999"), (999.6, "1k"), (1234, "1.23k"), (123_456, "123k"), (2.5e6, "2.5M"), (3e9, "3G")],
)
def test_counts_are_shortened_to_three_digits(count: float, shown: str) -> None:
    assert compact(count) == shown


def test_the_mean_response_between_two_views_is_computed_from_their_total_means() -> None:
    def at(results: int, mean_ms: float) -> ClassView:
        figures = Figures(results=results, response_ms={"mean": mean_ms})
        return views_of(("gold", seated("gold", figures)))[0]

    assert mean_between(at(100, 10.0), at(150, 20.0)) == pytest.approx((150 * 20 - 100 * 10) / 50)
    assert mean_between(at(100, 10.0), at(100, 10.0)) is None
    assert mean_between(None, at(10, 5.0)) == 5.0


def test_live_queries_are_reported_like_simulated_queries() -> None:
    graph = UtilityGraph.step(300.0)
    plain = QueryWorth("plain", graph, 1.0, 10, 5.0, 0.75, 3, 0.25, slowdown=99.0)
    window = QueryWorth("window", graph, 1.0, 8, 5.0, 1.0, 0, 0.5, due=8, tardy=2, tardiness_ms=20.0)
    other = replace(window, due=24, tardy=0, tardiness_ms=0.0)
    assert query_results(plain) == {
        "results": 10,
        "mean_ms": 5.0,
        "deadline_ms": 300.0,
        "slowdown": 99.0,
        "utility": 0.75,
        "missed": 3,
        "staleness": 0.25,
        "tardiness": None,
    }
    assert query_results(window)["tardiness"] == {"due": 8, "tardy": 2, "mean_ms": 20.0}
    assert tardiness_of([plain, window, other]) == {"due": 32, "tardy": 2, "mean_ms": 5.0}
    assert tardiness_of([plain]) is None


def test_objective_and_policy_of_a_class_are_shown_below_the_table() -> None:
    silver = declared("silver", objective="memory")
    gold = declared("gold", objective="slowdown", policy={"kind": "auto"})
    views = [
        replace(one, settings=settings, policy=policy)
        for one, settings, policy in zip(
            views_of(("gold", seated("gold", BUSY)), ("silver", seated("silver", BUSY))),
            (gold, silver),
            ("bsd:clusters=12", "chain"),
            strict=True,
        )
    ]
    assert " ".join(" ".join(lines(views, 120)).split()).endswith(
        "gold for slowdown by bsd:clusters=12, chosen by itself; silver for memory by chain"
    )


def test_restarting_processes_are_reported_with_their_class_or_node() -> None:
    unit = seated("ops", None)
    system = SystemStatus({"n1": 1}, (), {"ops#0": unit, "ops#1": unit}, (), {})
    status = CoordinatorStatus(1, 0.0, system, (), ("host-h1", "dispatcher-n1", "host-h2"), (), 0)
    assert restarts(status) == [
        "class ops: its host ended and is being restarted",
        "node n1: its dispatcher ended and is being restarted",
    ]
    assert restarts(replace(status, quarantined=())) == []


def test_a_class_without_recent_reports_is_listed_with_the_age_of_its_figures() -> None:
    (view,) = views_of(("ops", seated("ops", BUSY)))
    table = class_view_table("", [replace(view, age_s=8.2)])
    assert (
        "ops: busy: no report for 8 s; its figures are from its last report"
        in Text.from_markup(table.caption).plain
    )
    assert "no report" not in class_view_table("", [replace(view, age_s=1.0)]).caption
