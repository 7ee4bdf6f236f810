"""Committed results of the papers' experiments, and docs/papers.md, which is written from them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench.papers.claim import Finding, PaperFigure
from bench.papers.collection import EXPERIMENTS, PAPERS
from bench.papers.freshening import table
from bench.papers.golab import run_example
from bench.papers.markdown import PAGE, markdown
from bench.papers.omissions import OMISSIONS
from bench.papers.record import ExperimentRecord, PaperRecord, load_record, rounded, save_record
from configs.scenario.scenario import load_scenario

HOLDS = Finding("§1", "Lending helps", "−50%", "3 | 4", True, "unused", figures=(PaperFigure(50.0, 45.0),))
DIFFERS = Finding(
    "§2", "It is quick", "1 ms", "2 ms", True, "it is new", figures=(PaperFigure(1.0, 2.0),), seeds=1
)
FAILS = Finding("§3", "It never sleeps", "never", "once", False)
NOTED = Finding("§4", "It is free", "0", "0", True, note="at night", seeds=0)

LAST = Finding("§5", "It is warm", "4", "5", True)


def run_of(name: str, *findings: Finding) -> ExperimentRecord:
    return ExperimentRecord(name=name, commit="abc", minutes=1.5, findings=findings)


RECORD = PaperRecord(experiments=(run_of("dilos-sc", HOLDS, DIFFERS, FAILS), run_of("golab-low", NOTED)))


def test_the_page_says_exactly_what_the_committed_results_say() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == markdown(load_record()), "run `python -m bench.papers --page`"
    assert re.findall(r"^### `([^`]+)`", text, re.MULTILINE) == [one.name for one in EXPERIMENTS]


def test_every_claim_of_a_preset_has_a_row_of_its_own_with_its_own_figure() -> None:
    rows = PAGE.read_text(encoding="utf-8").splitlines()
    for preset, experiment in (
        ("sharaf-qos", "sharaf-qos"),
        ("sharaf-joins", "sharaf-joins"),
        ("sharaf-shared", "sharaf-sharing"),
    ):
        for claim in load_scenario(preset).claims:
            cells = (f"| {claim.source} | `{experiment}` |", f"| −{claim.by_pct:g}% |")
            assert not load_record().findings(experiment) or [
                row for row in rows if all(cell in row for cell in cells)
            ], claim


def test_results_of_fast_experiments_are_those_of_the_code() -> None:
    """A full run of these experiments takes less than a second."""
    for name, run in (("golab-example", run_example), ("freshening-table", table)):
        assert load_record().findings(name) == rounded(run(False))


def test_a_record_is_the_same_after_it_is_saved_and_loaded(tmp_path: Path) -> None:
    save_record(RECORD, tmp_path / "results.json")
    assert load_record(tmp_path / "results.json") == RECORD
    assert load_record(tmp_path / "missing.json") == PaperRecord()


def test_a_new_run_replaces_only_the_results_of_its_experiment() -> None:
    renewed = RECORD.renewed([run_of("golab-low", LAST), run_of("mavstream-paths", NOTED)]).experiments
    assert {run.name: run.findings for run in renewed} == {
        "dilos-sc": (HOLDS, DIFFERS, FAILS),
        "golab-low": (LAST,),
        "mavstream-paths": (NOTED,),
    }


@pytest.mark.parametrize(
    ("runs", "error"),
    [
        ((run_of("dilos-sc", HOLDS), run_of("dilos-sc", NOTED)), "each experiment needs its own words"),
        ((run_of("dilos-sc", HOLDS), run_of("golab-low", HOLDS)), "each claim needs its own words"),
    ],
)
def test_results_that_would_replace_each_other_are_refused(
    runs: tuple[ExperimentRecord, ...], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        PaperRecord(experiments=runs)


def test_a_row_names_the_claim_its_source_experiment_seeds_figures_and_both_verdicts() -> None:
    text = markdown(RECORD)
    for row in (
        r"| ✓ | ✓ | Lending helps | DILoS §1 | `dilos-sc` | 5 | −50% | 3 \| 4 |",
        "| ✓ | **✗** | It is quick | DILoS §2 | `dilos-sc` | 1 | 1 ms | 2 ms |",
        "| **✗** | – | It never sleeps | DILoS §3 | `dilos-sc` | 5 | never | once |",
        "| ✓ | – | It is free | Golab §4 | `golab-low` | – | 0 | 0 |",
    ):
        assert row in text.splitlines()


def test_reasons_are_given_for_claims_that_do_not_hold_or_do_not_agree() -> None:
    lines = markdown(RECORD).splitlines()
    assert "- ✗ It is quick: it is new." in lines
    assert "- ✗ It never sleeps: the reason is not known." in lines
    assert "- It is free: at night." in lines
    assert [line for line in lines if line.startswith("- ✗ Lending")] == []


def test_totals_count_claims_that_hold_and_figures_that_agree() -> None:
    lines = markdown(RECORD).splitlines()
    assert "| DILoS | 3 | 2 | 2 | 1 | 1 |" in lines
    assert "| Golab | 1 | 1 | 0 | 0 | 0 |" in lines
    assert "| **all** | 4 | 3 | 2 | 1 | 1 |" in lines


def test_an_experiment_without_a_full_run_is_shown_as_such() -> None:
    text = markdown(replace(RECORD, experiments=()))
    assert text.count("This experiment has no full run yet.") == len(EXPERIMENTS)


def test_what_is_left_out_of_each_paper_is_listed_with_its_reason() -> None:
    text = markdown(RECORD)
    assert {omission.paper for omission in OMISSIONS} == set(PAPERS)
    for omission in OMISSIONS:
        assert all((omission.where, omission.text, omission.why))
        assert f"| {omission.where} | {omission.text} |" in text
