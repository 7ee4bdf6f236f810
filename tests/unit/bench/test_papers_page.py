"""Findings about the claims of the papers, as an HTML page and in a terminal: which claims hold or agree, and why others do not."""

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.papers.claim import Chart, Experiment, ExperimentOutcome, Finding, PaperFigure
from bench.papers.collection import EXPERIMENTS, PAPERS, chosen
from bench.papers.command import answer, show, summary, unexplained
from bench.papers.page import FILE, page, write_page
from configs.errors import UnknownName
from tests.support.report_page import NAMESPACES, Page

HOLDS = Finding("§1", "Lending <helps> & more", "−50%", "−45%", True, rule="at least half of it")
NOTED = Finding("§4", "It is quick", "1 ms", "2 ms", True, note="on another machine")
DIFFERS = Finding("§5", "It is big", "4", "6", True, "it was fed", figures=(PaperFigure(4.0, 6.0),))
AGREES = Finding("§6", "It is warm", "4", "5", True, "unused", figures=(PaperFigure(4.0, 5.0),))
FAILS = Finding("§2", "It is free", "0", "3 | 4", False, "the machine [of 2004] is another one", "exactly 0")
UNEXPLAINED = Finding("§3", "It never sleeps", "never", "once", False)
LINES = Chart("A line", "time, s", "ms", lines={"a": [(0, 1), (1, 2)], "b": [(0, 2), (1, 1)]}, log_y=True)
BARS = Chart("Bars", "", "lost, %", bars={"without any manager": 3.0, "with one": 0.0})


def experiment(name: str, paper: str = "dilos") -> Experiment:
    return Experiment(
        paper, name, f"The set-up {name}", lambda quick: ExperimentOutcome(()), "One processor."
    )


RESULTS = (
    (experiment("one"), ExperimentOutcome((HOLDS, FAILS), (LINES, BARS))),
    (experiment("two", "golab"), ExperimentOutcome((UNEXPLAINED,), (LINES,))),
)


def test_a_page_is_one_file_that_needs_nothing_else(tmp_path: Path) -> None:
    path = write_page(RESULTS, False, tmp_path / "new")
    source = path.read_text(encoding="utf-8")
    made = Page(source)
    assert list((tmp_path / "new").iterdir()) == [path] == [tmp_path / "new" / FILE]
    assert source == page(RESULTS, False)
    assert [one for one in made.refers_to if not one.startswith("#")] == []
    assert {made.ids.count(one.removeprefix("#")) for one in made.refers_to} == {1}
    assert not {"script", "link", "iframe", "img"} & set(made.elements)
    assert set(re.findall(r"https?://[^\"'<>\s]+", source)) <= NAMESPACES


def test_a_page_has_every_claim_with_its_rule_and_every_figure() -> None:
    made = Page(page(RESULTS, False))
    assert (made.words.count("✓"), made.words.count("✗")) == (1, 2)
    assert (made.elements.count("svg"), made.elements.count("figcaption")) == (3, 3)
    for words in (
        "1 of 3 claims hold , 2 do not",
        "Lending <helps> & more",
        "Rule: at least half of it",
        "Why not: the machine [of 2004] is another one",
        "One processor.",
        PAPERS["golab"].title,
    ):
        assert words in made.text
    assert PAPERS["sharaf"].title not in made.text


def test_only_claims_that_fail_have_a_reason_in_red() -> None:
    source = page(((experiment("one"), ExperimentOutcome((HOLDS, NOTED, DIFFERS, AGREES, FAILS))),), False)
    assert re.findall(r'<small class="(why|note)">([^<]+)', source) == [
        ("note", NOTED.note),
        ("note", f"Why the figures differ: {DIFFERS.why}"),
        ("why", f"Why not: {FAILS.why}"),
    ]
    assert re.findall(r'<td data-is="figures">([^<]+)', source) == ["–", "–", "differs", "agrees", "–"]


@pytest.mark.parametrize(
    ("claimed", "measured", "agrees"),
    [
        (100, 75, True),
        (100, 74, False),
        (100, 125, True),
        (100, 126, False),
        (-4, -5, True),
        (0, 0, True),
        (0, 0.1, False),
    ],
)
def test_a_figure_agrees_within_a_quarter_of_the_papers_figure_on_both_sides(
    claimed: float, measured: float, agrees: bool
) -> None:
    finding = Finding("§1", "It grows", "", "", True, figures=(PaperFigure(claimed, measured),))
    assert (finding.agrees, finding.deviates) == (agrees, not agrees)


def test_a_claim_agrees_only_if_all_of_its_figures_do_and_cannot_agree_without_figures() -> None:
    near, far = PaperFigure(10, 11), PaperFigure(10, 20)
    assert Finding("§1", "It grows", "", "", True, figures=(near, far)).agrees is False
    assert Finding("§1", "It grows", "", "", True, figures=(near, near)).agrees is True
    assert (HOLDS.agrees, FAILS.agrees, HOLDS.deviates, FAILS.deviates) == (None, None, False, True)


def test_two_claims_with_the_same_words_are_refused_because_one_would_replace_the_other() -> None:
    with pytest.raises(ValueError, match=r"each claim needs its own words \(got 'It is quick' 2 times\)"):
        ExperimentOutcome((NOTED, HOLDS, NOTED))


def test_claims_that_fail_are_listed_first_with_their_reasons() -> None:
    words = Page(page(RESULTS, False)).text
    listed = words[words.index("What does not hold") : words.index("Contents")]
    assert "It is free one Claimed 0, got 3 | 4. Why: the machine [of 2004] is another one" in listed
    assert "It never sleeps two Claimed never, got once. No reason is known." in listed


def test_the_table_of_contents_links_to_each_experiment_under_its_paper() -> None:
    source = page(RESULTS, False)
    contents = source[source.index("<nav") : source.index("</nav>")]
    assert re.findall(r'<summary>([^<]+)|href="#([^"]+)"', contents) == [
        (PAPERS["dilos"].title, ""),
        ("", "one"),
        (PAPERS["golab"].title, ""),
        ("", "two"),
    ]


def test_the_page_marks_claims_and_sections_that_hold_so_that_a_filter_can_hide_them() -> None:
    held = (
        (experiment("one"), ExperimentOutcome((HOLDS, FAILS))),
        (experiment("two", "golab"), ExperimentOutcome((NOTED,))),
    )
    source = page(held, False)
    assert re.findall(r'<tr class="holds"><td>.*?</td><td>([^<]+)', source) == [
        "Lending &lt;helps&gt; &amp; more",
        "It is quick",
    ]
    assert re.findall(r'<section( class="all-hold")?><h[23] id="(\w+)"', source) == [
        ("", "dilos"),
        ("", "one"),
        (' class="all-hold"', "golab"),
        (' class="all-hold"', "two"),
    ]


def test_a_command_in_a_setup_is_shown_as_code() -> None:
    described = Experiment(
        "dilos", "one", "One", lambda quick: ExperimentOutcome(()), "`bench <all>` measures it."
    )
    assert '<p class="dim"><code>bench &lt;all&gt;</code> measures it.</p>' in page(
        ((described, ExperimentOutcome(())),), True
    )


def test_the_page_says_that_it_is_from_a_quick_run() -> None:
    assert "Quick form" in page(RESULTS, True)
    assert "Quick form" not in page(RESULTS, False)


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_claims_and_reasons_within_its_width(width: int) -> None:
    console = Console(width=width, record=True, file=StringIO())
    for one, found in (*RESULTS, (experiment("three"), ExperimentOutcome((DIFFERS, NOTED)))):
        show(console, one, found)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "✗ §2: the machine [of 2004] is another one" in text
    assert "✗ §3: the reason is not known" in text
    assert "≠ §5: it was fed" in text
    assert "note §4: on another machine" in text


def test_a_claim_that_fails_for_no_known_reason_is_counted_separately() -> None:
    assert [unexplained(one) for one in (HOLDS, FAILS, UNEXPLAINED)] == [False, False, True]
    counted = answer(RESULTS, True)
    assert {key: counted[key] for key in ("quick", "claims", "hold", "unexplained")} == {
        "quick": True,
        "claims": 3,
        "hold": 1,
        "unexplained": 1,
    }
    assert "1 does not hold, for a known reason" in summary([HOLDS, FAILS, UNEXPLAINED])
    assert "2 of 2 claims hold[/], 1 of 2 with figures agree" in summary([DIFFERS, AGREES])
    assert "no reason is known" not in summary([HOLDS, FAILS])


def test_experiments_are_chosen_by_name_or_by_paper() -> None:
    assert chosen(()) == EXPERIMENTS
    assert [one.name for one in chosen(["dilos-steps", "dilos-sc"])] == ["dilos-sc", "dilos-steps"]
    assert {one.paper for one in chosen(["dilos"])} == {"dilos"}
    with pytest.raises(UnknownName, match="did you mean dilos-steps"):
        chosen(["dilos-step"])


def test_experiments_have_unique_names_and_known_papers() -> None:
    names = [one.name for one in EXPERIMENTS]
    assert len({*names, *PAPERS}) == len(names) + len(PAPERS)
    assert {one.paper for one in EXPERIMENTS} <= set(PAPERS)
    assert [one.name for one in EXPERIMENTS if not one.setup] == []
