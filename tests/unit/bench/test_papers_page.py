"""Findings about the claims of the papers, as a page, as Markdown and in a terminal: which claims hold, and why others fail."""

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.papers.claim import Chart, Experiment, ExperimentOutcome, Finding
from bench.papers.collection import EXPERIMENTS, PAPERS, chosen
from bench.papers.command import answer, show, summary, unexplained
from bench.papers.markdown import markdown
from bench.papers.page import FILE, page, write_page
from configs.errors import UnknownName
from tests.support.checkout import ROOT
from tests.support.report_page import NAMESPACES, Page

HOLDS = Finding("§1", "Lending <helps> & more", "−50%", "−45%", True, rule="at least half of it")
NOTED = Finding("§4", "It is quick", "1 ms", "2 ms", True, "on another machine")
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
    source = page(((experiment("one"), ExperimentOutcome((HOLDS, NOTED, FAILS))),), False)
    assert re.findall(r'<small class="(why|note)">([^<]+)', source) == [
        ("note", NOTED.why),
        ("why", f"Why not: {FAILS.why}"),
    ]


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


def test_markdown_has_one_row_per_claim_and_reasons_below() -> None:
    text = markdown(RESULTS)
    assert "1 of 2 claims hold." in text
    assert "| ✓ | Lending <helps> & more (§1) | −50% | −45% |" in text
    assert r"| **✗** | It is free (§2) | 0 | 3 \| 4 |" in text
    assert "- ✗ It is free: the machine [of 2004] is another one" in text


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_claims_and_reasons_within_its_width(width: int) -> None:
    console = Console(width=width, record=True, file=StringIO())
    for one, found in RESULTS:
        show(console, one, found)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "✗ §2: the machine [of 2004] is another one" in text
    assert "✗ §3: no reason is known" in text


def test_a_claim_that_fails_for_no_known_reason_is_counted_separately() -> None:
    assert [unexplained(one) for one in (HOLDS, FAILS, UNEXPLAINED)] == [False, False, True]
    counted = answer(RESULTS, True)
    assert {key: counted[key] for key in ("quick", "claims", "hold", "unexplained")} == {
        "quick": True,
        "claims": 3,
        "hold": 1,
        "unexplained": 1,
    }
    assert "1 does not, for a known reason" in summary([HOLDS, FAILS, UNEXPLAINED])
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


def test_the_documentation_describes_every_experiment() -> None:
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert [one.name for one in EXPERIMENTS if f"### `{one.name}` {one.title}\n" not in text] == []
    assert re.findall(r"^### `([^`]+)`", text, re.MULTILINE) == [one.name for one in EXPERIMENTS]
