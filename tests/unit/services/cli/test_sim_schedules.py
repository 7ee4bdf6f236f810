"""`weir sim` with scenarios of periodic queries: tables, JSON, report pages and refused options."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkout import ROOT
from tests.support.report_page import Page
from tests.support.terminal import Terminal, refusal

# The example of Golab's paper: seven MAX queries over intervals of one minute. Each comparison costs a millisecond.
EXAMPLE = """
kind: periodic
name: example
description: Golab's <seven> queries
seconds: 1801
schedule: {kind: hybrid, late: off}
synopses:
  minutes: {interval_s: 60}
groups:
  max:
    synopsis: minutes
    costs: {kind: scan, interval_us: 1000}
    queries:
      - {name: Q1, range_s: 600, slide_s: 120}
      - {name: Q2, range_s: 300, slide_s: 120}
      - {name: Q3, range_s: 360, slide_s: 120}
      - {name: Q4, range_s: 900, slide_s: 180}
      - {name: Q5, range_s: 720, slide_s: 180}
      - {name: Q6, range_s: 1200, slide_s: 300}
      - {name: Q7, range_s: 1800, slide_s: 300, at_most: false}
claims:
  - {metric: throughput, schedule: hybrid, more_than: conservative, times: 2, source: nobody}
  - {metric: busy_s, schedule: "hybrid:late=off", less_than: conservative, times: 1.05, source: Golab §4.3}
  - {metric: tardiness.mean_ms, schedule: "none:order=hr", less_than: none}
"""


@pytest.fixture
def weir(terminal: Terminal) -> Terminal:
    """A terminal in a folder with `example.yaml` and `few.yaml`."""
    Path("example.yaml").write_text(EXAMPLE, encoding="utf-8")
    few = "name: few\nextends: golab-low\nseconds: 20\ndrawn: {per_group: 2}\n"
    Path("few.yaml").write_text(few, encoding="utf-8")
    return terminal


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


# -- runs of one schedule ----------------------------------------------------------------------------------------


def test_a_schedule_is_shown_by_group_and_sub_group(weir: Terminal) -> None:
    done = weir("sim", "example.yaml")
    assert (done.code, done.err) == (0, "")
    assert [line.split("  ") for line in lines(done.out)][:1] == [
        ["example, schedule hybrid:late=off, order edf, 1801 s, seed 1"]
    ]
    assert [line.split() for line in lines(done.out)[1:] if "─" not in line] == [
        ["group", "queries", "ans/s", "latency", "tardy", "ms", "max", "runs", "shared"],
        ["max", "7", "0.048", "0.00", "0.00", "0.00", "18", "100%"],
        ["≤120", "s", "3", "0.025", "0.00", "0.00", "0.00"],
        ["≤180", "s,", "every", "120", "s", "2", "0.017", "0.00", "0.00", "0.00"],
        ["300", "s", "1", "0.0033", "0.00", "0.00", "0.00"],
        ["≤300", "s", "1", "0.0033", "0.00", "0.00", "0.00"],
        ["all", "7", "0.048", "0.00", "0.00", "0.00", "18", "100%"],
        [
            "<1%",
            "of",
            "the",
            "processor;",
            "29%",
            "of",
            "the",
            "queries",
            "run",
            "sooner",
            "than",
            "they",
            "must",
        ],
    ]


def test_only_the_most_tardy_sub_groups_of_each_group_are_listed(weir: Terminal) -> None:
    shown = lines(weir("sim", "golab-high", "--seconds", "60", "--schedule", "conservative").out)
    answer = weir("sim", "golab-high", "--seconds", "60", "--schedule", "conservative", "-o", "json").json
    subs = [one for group in answer["groups"] for one in group["sub_groups"]]
    assert sum(" s " in line and "≤" in line for line in shown) == 3 * 8
    assert " ".join(shown[-2:]).endswith(f"; {len(subs) - 24} more sub-groups: -o json")
    latest = max(subs, key=lambda one: one["tardiness"]["mean_ms"] if one["tardiness"] else 0)
    assert any(line.startswith(f"  ≤{latest['slide_s']:g} s") for line in shown)


def test_the_example_of_the_paper_has_the_costs_in_the_paper(weir: Terminal) -> None:
    busy = {
        schedule: weir("sim", "example.yaml", "-o", "json", "--schedule", schedule).json["busy_s"]
        for schedule in ("conservative", "aggressive", "hybrid:late=off")
    }
    # In 30 minutes, the schedule `conservative` makes 358 comparisons of 1 ms, and `hybrid` makes 342, as in Golab's paper.
    # The schedule `aggressive` makes 402 comparisons: 12 runs with 19 comparisons, and 6 runs with the 29 comparisons of Q7.
    assert busy == {"conservative": 0.358, "hybrid:late=off": 0.342, "aggressive": 0.402}
    assert 12 * 19 + 3 * 29 + 3 * 29 == 402


def test_json_output_is_one_object_with_groups_and_sub_groups(weir: Terminal) -> None:
    done = weir("sim", "example.yaml", "-o", "json")
    assert (done.code, done.err) == (0, "")
    punctual = {"latency_updates": 0.0, "tardiness": {"mean_ms": 0.0, "max_ms": 0.0}}
    whole = {"queries": 7, "answers": 87, "throughput": 0.048306, **punctual}
    scans = {"runs": 18, "shared": 18, "answers_per_run": 4.833333, "busy_s": 0.342}
    subs = [
        (120.0, True, 120.0, 600.0, 3, 45, 0.024986),
        (180.0, True, 120.0, 900.0, 2, 30, 0.016657),
        (300.0, False, 300.0, 1800.0, 1, 6, 0.003331),
        (300.0, True, 300.0, 1200.0, 1, 6, 0.003331),
    ]
    keys = ("slide_s", "at_most", "period_s", "range_max_s", "queries", "answers", "throughput")
    sub_groups = [dict(zip(keys, one, strict=True)) | punctual for one in subs]
    assert done.json == {
        "scenario": "example",
        "kind": "periodic",
        "schedule": "hybrid:late=off",
        "settings": {"order": "edf", "eager": False, "late": "off", "kind": "hybrid", "meetings": True},
        "seed": 1,
        "seconds": 1801.0,
        **whole,
        **scans,
        "shortened_pct": 28.571429,
        "utilisation": 0.00019,
        "groups": [{"name": "max", "synopsis": "minutes", **whole, **scans, "sub_groups": sub_groups}],
    }


def test_a_run_without_answers_shows_no_latency_or_tardiness(weir: Terminal) -> None:
    answer = weir("sim", "example.yaml", "-o", "json", "--seconds", "60").json
    assert (answer["seconds"], answer["answers"], answer["runs"]) == (60, 0, 0)
    assert (answer["latency_updates"], answer["tardiness"], answer["answers_per_run"]) == (None, None, None)
    shown = lines(weir("sim", "example.yaml", "--seconds", "60").out)
    assert shown[3].split() == ["max", "7", "0", "–", "–", "–", "0", "–"]
    compared = weir("sim", "example.yaml", "--seconds", "60", "--schedules")
    assert (compared.code, compared.err) == (0, "")
    assert lines(compared.out)[3].split() == ["none:tasks=query", "0", "–", "–", "–", "–", "0"]


# -- comparison of every schedule --------------------------------------------------------------------------------


def test_schedules_are_compared_together_with_the_findings_of_the_paper(weir: Terminal) -> None:
    done = weir("sim", "example.yaml", "--schedules")
    assert (done.code, done.err) == (0, "")
    late, often = ["0.00", "0.00", "0.00"], "0.048"
    assert [line.split() for line in lines(done.out) if "─" not in line] == [
        ["example,", "1801", "s,", "seed", "1"],
        ["schedule", "ans/s", "latency", "tardy", "ms", "max", "shared", "busy", "s"],
        ["none:tasks=query", "0.043", *late, "0%", "0.808"],
        ["none", "0.043", *late, "0%", "0.563"],
        ["aggressive", "0.053", *late, "83%", "0.402"],
        ["conservative", "0.043", *late, "45%", "0.358"],
        ["conservative:late=late-pending", "0.043", *late, "45%", "0.358"],
        ["hybrid:late=off", often, *late, "100%", "0.342"],
        ["hybrid:late=late", often, *late, "100%", "0.342"],
        ["hybrid", often, *late, "100%", "0.342"],
        ["hybrid:late=off,meetings=false", often, *late, "100%", "0.342"],
        ["hybrid:order=hr,late=off", often, *late, "100%", "0.342"],
        ["hybrid:order=edf-hr,late=off", often, *late, "100%", "0.342"],
        ["none:order=hr", "0.043", *late, "0%", "0.563"],
        ["the", "paper's", "findings"],
        ["finding", "claimed", "here", "holds", "source"],
        ["throughput:", "hybrid", ">", "conservative", "×2", "×1.13", "yes", "nobody"],
        ["processor", "time:", "hybrid:late=off", "<", "÷1.05", "÷1.05", "yes", "Golab", "§4.3"],
        ["conservative"],
        ["tardiness:", "none:order=hr", "<", "none", "less", "–", "no"],
    ]


def test_the_comparison_of_a_preset_fits_into_eighty_columns(weir: Terminal) -> None:
    for preset, findings in (("golab-low", 7), ("golab-high", 5)):
        done = weir("sim", preset, "--schedules", "--seconds", "30")
        assert (done.code, done.err) == (0, "")
        assert (max(map(len, lines(done.out))) <= 80, "…" in done.out) == (True, False)
        assert sum("Golab §" in line for line in lines(done.out)) == findings


def test_for_queries_that_share_no_work_only_the_orders_of_running_queries_are_compared(
    weir: Terminal,
) -> None:
    done = weir("sim", "sharaf-tardiness", "--schedules")
    shown = lines(done.out)
    assert [line.split()[0] for line in shown[3:6]] == ["none", "none:order=hr", "none:order=edf-hr"]
    assert sum(" yes " in line for line in shown) == 3
    alone = lines(weir("sim", "sharaf-tardiness", "--seconds", "100").out)
    assert sum(line.startswith("aggregate/") and "≤" in line for line in alone) == 20


def test_each_schedule_of_a_comparison_has_the_result_of_its_own_run(weir: Terminal) -> None:
    done = weir("sim", "few.yaml", "--schedules", "-o", "json", "--seed", "3").json
    assert [one["schedule"] for one in done["schedules"]][-3:] == ["hybrid:late=off,meetings=false", "hybrid:order=hr", "hybrid:order=edf-hr"]  # fmt: skip
    for one in done["schedules"]:
        assert one == weir("sim", "few.yaml", "-o", "json", "--seed", "3", "--schedule", one["schedule"]).json
    own = weir("sim", "few.yaml", "-o", "json", "--seed", "3").json
    assert own == next(one for one in done["schedules"] if one["schedule"] == "hybrid")
    assert {one["settings"]["eager"] for one in done["schedules"]} == {True}


def test_json_output_of_a_comparison_shows_whether_each_claim_holds(weir: Terminal) -> None:
    done = weir("sim", "example.yaml", "--schedules", "-o", "json").json
    assert list(done) == ["scenario", "kind", "seed", "seconds", "schedules", "claims"]
    assert done["claims"] == [
        {
            "metric": "throughput",
            "schedule": "hybrid",
            "more_than": "conservative",
            "claimed_times": 2.0,
            "times": 1.129859,
            "holds": True,
            "source": "nobody",
        },
        {
            "metric": "busy_s",
            "schedule": "hybrid:late=off",
            "less_than": "conservative",
            "claimed_times": 1.05,
            "times": 1.046784,
            "holds": True,
            "source": "Golab §4.3",
        },
        {
            "metric": "tardiness.mean_ms",
            "schedule": "none:order=hr",
            "less_than": "none",
            "claimed_times": None,
            "times": None,
            "holds": False,
            "source": "",
        },
    ]


def test_the_same_seed_gives_the_same_bytes_in_every_process(weir: Terminal, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from services.cli.main import main; main()"]
    arguments = ["sim", str(tmp_path / "few.yaml"), "--schedules", "-o", "json", "--seed", "7"]
    printed = [
        subprocess.run(
            [*command, *arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    here = weir("sim", "few.yaml", "--schedules", "-o", "json", "--seed", "7").out.encode()
    assert printed == [here, here]
    other: Any = weir("sim", "few.yaml", "--schedules", "-o", "json", "--seed", "8").json
    assert json.loads(here)["schedules"] != other["schedules"]


# -- report pages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (("--schedules",), "example-schedules.html"),
        ((), "example-hybrid-late-off.html"),
    ],
)
def test_a_report_page_loads_no_other_file_and_has_the_same_bytes_each_time(
    weir: Terminal, tmp_path: Path, arguments: tuple[str, ...], file: str
) -> None:
    alone = weir("sim", "example.yaml", "-o", "json", *arguments)
    done = weir("sim", "example.yaml", "-o", "json", "--report", "out", *arguments)
    assert (done.out, done.err) == (alone.out, f"report: out/{file}\n")
    source = (tmp_path / "out" / file).read_text("utf-8")
    made = Page(source)
    assert [one for one in made.refers_to if not one.startswith("#")] == []
    assert not {"script", "link", "iframe", "img"} & set(made.elements)
    assert made.elements.count("svg") == 3
    assert "Golab's <seven> queries" in made.text
    weir("sim", "example.yaml", "--report", "out", *arguments)
    assert (tmp_path / "out" / file).read_text("utf-8") == source


# -- options that are refused -----------------------------------------------------------------------------------

USE_SCHEDULES = "  hint: compare the schedules of periodic queries with --schedules"
NEEDS_CLASSES = "this option needs a scenario of classes, and example has periodic queries"
NEEDS_PERIODIC = "this option needs a scenario of periodic queries, and dilos-sc has classes"
CHOOSE_PERIODIC = "  hint: choose a scenario of `kind: periodic`, such as golab-low (see docs/scenarios.md)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("example.yaml", "--compare"), (f"--compare: {NEEDS_CLASSES}", USE_SCHEDULES)),
        (("example.yaml", "--policies"), (f"--policies: {NEEDS_CLASSES}", USE_SCHEDULES)),
        (
            ("example.yaml", "--policy", "hr"),
            (f"--policy: {NEEDS_CLASSES} (got 'hr')", "  hint: choose a schedule of periodic queries with --schedule"),
        ),
        (
            ("example.yaml", "--manager", "dilos"),
            (f"--manager: {NEEDS_CLASSES} (got 'dilos')", "  hint: leave --manager out"),
        ),
        (
            ("example.yaml", "--explain", "max"),
            (f"--explain: {NEEDS_CLASSES} (got 'max')", "  hint: leave --explain out"),
        ),
        (
            ("example.yaml", "--record", "log"),
            (f"--record: {NEEDS_CLASSES} (got 'log')", "  hint: leave --record out"),
        ),
        (
            ("example.yaml", "--schedules", "--schedule", "none"),
            ("--schedule: this option cannot be combined with --schedules, which runs every schedule (got 'none')", "  hint: leave out one of these options"),
        ),
        (
            ("example.yaml", "--schedule", "hybird", "--report", "log"),
            ("--schedule: there is no schedule of this name (got 'hybird')", "  hint: did you mean hybrid?"),
        ),
        (
            ("example.yaml", "--seconds=0"),
            (
                "--seconds: the simulated time must be above 0 and at most 86400 seconds (got 0)",
                "  hint: write seconds of virtual time",
            ),
        ),
        (("example.yaml", "--seed=-1"), ("--seed: the value must be at least 0 (got -1)", "  hint: write 0 or more")),
        (("dilos-sc", "--schedules"), (f"--schedules: {NEEDS_PERIODIC}", CHOOSE_PERIODIC)),
        (("dilos-sc", "--schedule", "none"), (f"--schedule: {NEEDS_PERIODIC} (got 'none')", CHOOSE_PERIODIC)),
        (
            ("--replay", "log", "--schedules"),
            ("--replay: this option cannot be combined with options of a run", "  hint: write --replay LOG alone, or with -o json"),
        ),
    ],
)  # fmt: skip
def test_options_that_do_not_fit_the_scenario_are_refused_with_a_hint(
    weir: Terminal, tmp_path: Path, arguments: tuple[str, ...], message: tuple[str, ...]
) -> None:
    assert weir("sim", *arguments) == refusal(*message)
    assert not (tmp_path / "log").exists()
