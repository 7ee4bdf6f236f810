"""The report page of a run: complete, readable offline, and identical for the same run."""

import html
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from configs.scenario.scenario import Scenario
from scheduler.capacity.core import ShareMove
from sim.outcome.promises import check_promises
from sim.outcome.report import CLASSES_PLOTTED, MOVES_SHOWN, page, write_report
from sim.outcome.results import outcome_of
from sim.outcome.svg_plots import logarithmic
from sim.outcome.verdict import verdict
from sim.simulation import Simulation
from tests.support.report_page import NAMESPACES, Page
from tests.support.scenarios import constant, poisson, project, queries, ran, scenario, tenant

ONE_MS = {"n": queries(only=[project(1)])}
PLOTS = [
    "response time, ms (log)",
    "headroom and load, processors",
    "share of the lanes",
    "drop rate",
    "queued tuples",
]


def lending(seconds: float = 4, **settings: Any) -> Scenario:
    """Return a scenario in which gold lends to silver, and bronze asks for three times the capacity."""
    classes = [
        tenant("gold", {"s": poisson(100)}, priority=6, delay_target_ms=100),
        tenant("silver", {"s": poisson(400)}, priority=3, delay_target_ms=200),
        tenant("bronze", {"s": poisson(3000)}, priority=1, delay_target_ms=300),
    ]
    return scenario(*classes, networks=ONE_MS, seconds=seconds, train_max=5, name="lending", **settings)


def source_of(run: Simulation) -> str:
    outcome = outcome_of(run, "hr")
    return page(outcome, check_promises(outcome))


@cache
def run_of(manager: str) -> Simulation:
    return ran(lending(), manager)


@cache
def source(manager: str) -> str:
    return source_of(run_of(manager))


@cache
def page_of(manager: str) -> Page:
    return Page(source(manager))


def test_a_report_is_one_file_named_after_the_run_in_a_new_folder(tmp_path: Path) -> None:
    outcome = outcome_of(run_of("dilos"), "hr")
    folder = tmp_path / "reports" / "today"
    path = write_report(outcome, check_promises(outcome), folder)
    assert [path] == list(folder.iterdir()) == [folder / "lending-dilos.html"]
    assert path.read_text(encoding="utf-8") == source("dilos")


@pytest.mark.parametrize("manager", ["none", "dilos"])
def test_a_report_page_loads_nothing_from_other_hosts(manager: str) -> None:
    made = page_of(manager)
    assert made.refers_to
    assert [one for one in made.refers_to if not one.startswith("#")] == []
    assert not {"script", "link", "iframe", "object", "embed", "img"} & set(made.elements)
    assert set(re.findall(r"https?://[^\"'<>\s]+", source(manager))) <= NAMESPACES


def test_every_reference_of_a_page_has_exactly_one_target() -> None:
    made = page_of("dilos")
    assert {made.ids.count(one.removeprefix("#")) for one in made.refers_to} == {1}


@pytest.mark.parametrize("manager", ["none", "common", "dilos"])
def test_a_page_has_five_plots_every_class_and_every_promise(manager: str) -> None:
    made = page_of(manager)
    assert made.elements.count("svg") == made.elements.count("figcaption") == 5
    assert [label for label in PLOTS if label not in made.text] == []
    # Each name is in the table, and in the legend of each plot that shows its class.
    drawn = 4 if manager == "none" else 5
    for name in ("gold", "silver", "bronze"):
        assert made.words.count(name) >= drawn + 1
    for promise in check_promises(outcome_of(run_of(manager), "hr")):
        assert promise.text in made.text
        assert f"({promise.detail})" in made.text


def test_a_page_shows_the_figures_of_the_run() -> None:
    answer = outcome_of(run_of("dilos"), "hr").result
    shown = page_of("dilos").words
    for one in answer["classes"]:
        assert f"{one['response_ms']['mean']:.2f}" in shown
        assert f"{one['response_ms']['p95']:.1f}" in shown
        assert f"{one['loss_pct']:.2f}%" in shown
        assert f"{one['offered']:,}" in shown
    lent = answer["lending"]["gold"]
    assert [f"{seconds:.2f}" for seconds in lent.values() if f"{seconds:.2f}" not in shown] == []


def test_a_page_shows_utility_and_missed_deadlines_per_query() -> None:
    network = queries(slow=[project(100)])
    network["queries"][0]["utility"] = [{"latency_ms": 50, "utility": 1}, {"latency_ms": 150, "utility": 0}]
    run = ran(scenario(tenant("a", {"s": constant(1)}), networks={"n": network}, seconds=3), "none")
    words = Page(page(outcome_of(run, "hr"), [])).words
    found = words[words.index("slow") :][:11]
    assert found == [
        "slow",
        "a projection",
        "3",
        "100.00",
        "1",
        "0.500",
        "3 (100.0%)",
        "10.0%",
        "0",
        "–",
        "–",
    ]


def test_only_broken_promises_are_marked_as_broken() -> None:
    words = page_of("none").words
    verdicts = {promise.text: promise.kept for promise in check_promises(outcome_of(run_of("none"), "hr"))}
    assert words.count("✗ broken") == list(verdicts.values()).count(False) == 1
    assert words.count("✓ kept") == list(verdicts.values()).count(True) == 3
    assert not verdicts["bronze meets its delay target"]


def test_only_pages_of_a_lending_manager_have_lending_sections() -> None:
    assert "Lending between classes" in page_of("dilos").text
    assert "Moves of capacity" in page_of("dilos").text
    assert "lent" not in page_of("common").text
    assert "Moves" not in page_of("common").text


def test_the_same_run_gives_an_identical_page() -> None:
    assert source_of(ran(lending(), "dilos")) == source("dilos")


def test_runs_with_two_different_seeds_give_different_report_pages() -> None:
    assert source_of(ran(lending(), "dilos", seed=2)) != source("dilos")


def test_the_description_of_a_scenario_is_escaped_in_html() -> None:
    wild = '<script src="x">alert(1)</script> & "more"'
    made = source_of(ran(lending(seconds=0.1, description=wild)))
    assert "script" not in Page(made).elements
    assert html.escape(wild) in made


def test_a_report_lists_only_the_first_of_many_moves_of_shares_and_counts_the_rest() -> None:
    run = ran(lending(seconds=20, load={"cycle_ms": 50, "redistribute_every": 1}), "dilos")
    assert run.ring.capacity is not None
    moved = sum(move.is_visible for move in run.ring.capacity.moves)
    made = Page(source_of(run))
    assert moved > MOVES_SHOWN
    assert made.elements.count("li") == MOVES_SHOWN + len(check_promises(outcome_of(run, "hr")))
    assert f"and {moved - MOVES_SHOWN} more" in made.text


def test_a_move_of_shares_too_small_to_see_is_not_listed() -> None:
    outcome = outcome_of(run_of("dilos"), "hr")
    before = {"gold": 0.453, "silver": 0.3, "bronze": 0.247}
    slight = ShareMove(1.0, "redistribution", before, before | {"gold": 0.4530001}, {})
    clear = ShareMove(2.0, "redistribution", before, before | {"gold": 0.46, "silver": 0.3000001}, {})
    made = Page(page(replace(outcome, moves=[slight, clear]), []))
    assert "2.00 s, redistribution: gold 0.453 → 0.460" in made.words
    assert "0.453 → 0.453" not in made.text
    assert "silver 0.300" not in made.text


def test_a_page_begins_with_the_verdict_and_shows_plots_before_tables() -> None:
    text = source("dilos")
    body = text[text.index("<body>") :]
    order = [
        body.index(part) for part in ('<div class="verdict', "<svg", "<h2>Promises", "<table", "<details>")
    ]
    assert order == sorted(order)
    sentences = re.findall(r"<p>([^<]+)</p>", body[body.index('<div class="verdict') :])
    assert [html.unescape(sentence) for sentence in sentences[:3]] == list(
        verdict(outcome_of(run_of("dilos"), "hr"), check_promises(outcome_of(run_of("dilos"), "hr")))
    )[:3]


def test_a_logarithmic_axis_has_decimal_labels() -> None:
    drawing = Figure()
    axes = drawing.subplots()
    axes.plot([1, 2], [3, 2_000_000])
    logarithmic(axes, "y")
    drawing.draw_without_rendering()
    labels = [text for text in (one.get_text() for one in axes.get_yticklabels(which="both")) if text]
    assert [label for label in labels if not re.fullmatch(r"[0-9.,]+", label)] == []
    assert "1,000,000" in labels


@pytest.mark.parametrize("manager", ["none", "dilos"])
def test_plots_take_the_colours_of_the_page_and_mark_each_line(manager: str) -> None:
    drawn = re.findall(r"<svg.*?</svg>", source(manager), re.DOTALL)
    assert re.findall(r"#[0-9a-fA-F]{6}", "".join(re.findall(r'style="[^"]*"', "".join(drawn)))) == []
    for place in (1, 2, 3):
        assert f"var(--series-{place})" in drawn[0]
    # Each line in a plot refers to the shape of its markers.
    shapes = set(re.findall(r'<use xlink:href="#(m[0-9a-f]+)"[^>]*fill: var', drawn[0]))
    assert len(shapes) == 3


def test_with_many_classes_the_table_has_all_and_the_plots_the_first() -> None:
    names = [f"class{number}" for number in range(CLASSES_PLOTTED + 2)]
    classes = [tenant(name, {"s": constant(20)}) for name in names]
    made = Page(source_of(ran(scenario(*classes, networks=ONE_MS, seconds=1))))
    assert [made.words.count(name) for name in names] == [6] * CLASSES_PLOTTED + [2] * 2


@pytest.mark.filterwarnings("error")
def test_a_run_without_a_load_cycle_still_has_a_page() -> None:
    made = Page(source_of(ran(lending(seconds=0.1), "dilos")))
    assert made.elements.count("svg") == 5
