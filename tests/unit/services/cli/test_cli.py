"""Commands `weir sim` and `weir demo`, and usage errors of every command: stdout, stderr and exit codes."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import version
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from configs.classes.managers import MANAGERS
from configs.classes.policies import POLICY_KINDS
from configs.errors import UnknownName
from services.cli.commands.sim import comparison, sim
from services.cli.tables.cells import milliseconds
from services.cli.tables.sheet import Sheet
from tests.support.checkout import ROOT
from tests.support.recordings import lending, lines_of, recorded_run, write_lines
from tests.support.scenarios import preset
from tests.support.terminal import Outcome, Terminal, refusal

SMALL = """
name: small
seconds: 3
train_max: 5
networks:
  n: {kind: queries, queries: [{name: Q, reads: [s], operators: [{kind: project, tuple_us: 1000}]}]}
classes:
  - {name: gold, priority: 3, delay_target_ms: 200, network: n, streams: {s: {arrivals: {kind: poisson, rate: 50}}}}
  - {name: bronze, priority: 1, delay_target_ms: 200, network: n, streams: {s: {arrivals: {kind: poisson, rate: 2000}}}}
"""


@pytest.fixture
def weir(terminal: Terminal) -> Terminal:
    """A terminal in a folder with `small.yaml`."""
    Path("small.yaml").write_text(SMALL, encoding="utf-8")
    return terminal


# -- the command weir sim ----------------------------------------------------------------------------------------


def test_a_run_prints_its_classes_and_promises(weir: Terminal) -> None:
    done = weir("sim", "small.yaml")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("small, manager dilos, policy hr, 3 s, seed 1")
    for words in ("gold", "bronze", "meets its delay target", "the ledger closes"):
        assert words in done.out


def test_the_old_option_json_prints_the_same_as_output_json(weir: Terminal) -> None:
    assert weir("sim", "--replay", "none", "--json") == weir("sim", "--replay", "none", "-o", "json")


def test_a_simulation_with_a_broken_promise_exits_with_0(weir: Terminal) -> None:
    done = weir("sim", "small.yaml", "--manager", "none")
    assert (done.code, "✗ broken" in done.out) == (0, True)


def test_json_output_is_one_object_and_nothing_else(weir: Terminal) -> None:
    done = weir("sim", "small.yaml", "-o", "json")
    assert (done.code, done.err) == (0, "")
    assert (done.json["scenario"], done.json["ledger_closed"]) == ("small", True)
    assert [one["name"] for one in done.json["classes"]] == ["gold", "bronze"]


def test_report_and_explanations_go_to_stderr_if_the_output_is_json(weir: Terminal, tmp_path: Path) -> None:
    alone = weir("sim", "small.yaml", "-o", "json")
    done = weir("sim", "small.yaml", "-o", "json", "--report", "out", "--explain", "bronze")
    assert (done.code, done.out) == (0, alone.out)
    *sentences, last = done.err.splitlines()
    assert last == "report: out/small-dilos.html"
    assert (tmp_path / "out" / "small-dilos.html").is_file()
    assert 1 < len(sentences) <= 20
    assert all(" s bronze: load " in sentence and " → " in sentence for sentence in sentences)


def test_explanations_are_printed_after_the_tables(weir: Terminal) -> None:
    done = weir("sim", "small.yaml", "--explain", "bronze")
    assert done.out.startswith(weir("sim", "small.yaml").out)
    assert done.out.splitlines()[-1].startswith("3.00 s bronze: load ")
    assert weir("sim", "small.yaml", "-m", "none", "--explain", "bronze").out.endswith(
        "this manager makes no decisions\n"
    )


def test_an_unknown_class_to_explain_is_refused_before_the_run(weir: Terminal) -> None:
    assert weir("sim", "small.yaml", "-o", "json", "--explain", "bronce") == refusal(
        "--explain: the scenario has no class of this name (got 'bronce')",
        "  hint: did you mean bronze?",
    )


def test_a_report_that_cannot_be_written_is_refused_before_the_run(weir: Terminal, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    assert weir("sim", "small.yaml", "--report", "taken") == refusal(
        "--report: the folder cannot be created: file exists (got 'taken')",
        "  hint: choose another folder",
    )


def test_the_same_seed_gives_the_same_bytes_in_every_process(weir: Terminal, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from services.cli.main import main; main()"]
    arguments = ["sim", str(tmp_path / "small.yaml"), "-o", "json", "--seed", "7"]
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
    here = weir("sim", "small.yaml", "-o", "json", "--seed", "7").out.encode()
    assert printed == [here, here]


def test_two_seeds_give_different_figures(weir: Terminal) -> None:
    one, other = (weir("sim", "small.yaml", "-o", "json", "--seed", seed).json for seed in ("7", "8"))
    assert (one["seed"], other["seed"]) == (7, 8)
    assert one["classes"] != other["classes"]
    assert weir("sim", "small.yaml", "-o", "json").json["seed"] == 1


def test_seconds_set_the_length_of_the_run(weir: Terminal) -> None:
    answer = weir("sim", "small.yaml", "-o", "json", "--seconds", "1.5").json
    assert answer["seconds"] == 1.5
    assert answer["classes"][0]["offered"] == pytest.approx(75, abs=30)


def test_a_shorter_run_leaves_out_the_faults_after_its_end(weir: Terminal, tmp_path: Path) -> None:
    # With `drain`, a run continues after its last arrival. So the shorter run would still reach the fault at 2 s.
    for name, fault in (("faulty", "{kind: clock_jumps, at_s: 2, by_s: 1}"), ("sound", "")):
        (tmp_path / f"{name}.yaml").write_text(SMALL + f"drain: true\nfaults: [{fault}]\n", encoding="utf-8")
    short, without = (
        weir("sim", f"{name}.yaml", "-o", "json", "-m", "none", "--seconds", "1.5")
        for name in ("faulty", "sound")
    )
    assert short == without
    assert weir("sim", "faulty.yaml", "-o", "json").out != weir("sim", "sound.yaml", "-o", "json").out


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("nan", "nan"),
        ("inf", "inf"),
        ("-inf", "-inf"),
        ("0", "0"),
        ("-3", "-3"),
        ("86400.5", "86400.5"),
        ("1e300", "1e+300"),
    ],
)
def test_an_invalid_length_of_a_run_is_refused(weir: Terminal, value: str, shown: str) -> None:
    assert weir("sim", "small.yaml", f"--seconds={value}") == refusal(
        f"--seconds: the simulated time must be above 0 and at most 86400 seconds (got {shown})",
        "  hint: write seconds of virtual time",
    )


def test_a_negative_seed_is_refused(weir: Terminal) -> None:
    assert weir("sim", "small.yaml", "--seed=-1") == refusal(
        "--seed: the value must be at least 0 (got -1)",
        "  hint: write 0 or more",
    )


def test_the_option_policy_replaces_the_policy_of_every_class(weir: Terminal) -> None:
    answer = weir("sim", "small.yaml", "-o", "json", "--policy", "fcfs").json
    assert answer["policy"] == "fcfs"
    # The scenario has a single query, so all policies make the same choices.
    assert answer["classes"] == weir("sim", "small.yaml", "-o", "json").json["classes"]


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ("small.yaml", "--policy", "bsdd"),
            ("--policy: there is no policy of this name (got 'bsdd')", "  hint: did you mean bsd?"),
        ),
        (
            ("small.yaml", "--manager", "perclass"),
            (
                "--manager: there is no manager of this name (got 'perclass')",
                "  hint: did you mean per-class?",
            ),
        ),
        (
            ("dilos-steps2",),
            (
                "SCENARIO: there is no preset and no file of this name (got 'dilos-steps2')",
                "  hint: give a preset's name or the path of a .yaml file; did you mean dilos-steps?",
            ),
        ),
        (
            ("[bold]x",),
            (
                "SCENARIO: there is no preset and no file of this name (got '[bold]x')",
                "  hint: give a preset's name or the path of a .yaml file; known: cost-drift, dilos-sc, "
                "dilos-steps, golab-high, golab-low, overload-2x, sharaf-joins, sharaf-qod, sharaf-qos, sharaf-shared, "
                "sharaf-tardiness, stalls",
            ),
        ),
        (
            ("missing.yaml",),
            (
                "missing.yaml: the file cannot be read: no such file or directory",
                "  hint: check the path and its permissions",
            ),
        ),
        (
            ("small.yaml", "--compare", "--policies"),
            ("--compare and --policies cannot be combined", "  hint: run the command once with each option"),
        ),
        (
            ("small.yaml", "--compare", "--manager", "none"),
            (
                "--manager: this option cannot be combined with --compare, which runs every manager (got 'none')",
                "  hint: leave out one of these options",
            ),
        ),
        (
            ("small.yaml", "--policies", "--policy", "hr"),
            (
                "--policy: this option cannot be combined with --policies, which runs every policy (got 'hr')",
                "  hint: leave out one of these options",
            ),
        ),
        (
            ("small.yaml", "--compare", "--report", "out"),
            ("--report works only for a single run", "  hint: leave out --compare and --policies"),
        ),
        (
            ("small.yaml", "--policies", "--explain", "gold"),
            ("--explain works only for a single run", "  hint: leave out --compare and --policies"),
        ),
    ],
)
def test_a_wrong_argument_is_refused_with_a_hint(
    weir: Terminal, arguments: tuple[str, ...], lines: tuple[str, ...]
) -> None:
    assert weir("sim", *arguments) == refusal(*lines)


def test_a_mistake_in_a_file_is_reported_with_the_path_of_its_key(weir: Terminal, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(SMALL.replace("priority: 3", "priorty: 3"), encoding="utf-8")
    assert weir("sim", "wrong.yaml") == refusal(
        "wrong.yaml: classes[0].priorty: unknown key (got 'priorty')",
        "  hint: did you mean priority?",
    )


WRONG_USAGE = [
    (("results", "acme/q", "--limit", "0"), "--limit: the value must be at least 1 (got 0)", "write 1 or more"),
    (("results", "acme/q", "--tail", "-3"), "--tail: the value must be at least 1 (got -3)", "write 1 or more"),
    (("explain", "--last", "0"), "--last: the value must be at least 1 (got 0)", "write a number from 1 to 1,000"),
    (("explain", "--last", "1001"), "--last: the value must be at most 1,000 (got 1001)", "write a number from 1 to 1,000"),
    (("top", "--interval", "0"), "--interval: the value must be at least 0.1 (got 0)", "write a number from 0.1 to 3,600"),
    (("up", "--lanes", "0"), "--lanes: the value must be at least 1 (got 0)", "write a number from 1 to 256"),
    (("up", "--api-port", "70000"), "--api-port: the value must be at most 65,535 (got 70000)", "write a number from 0 to 65,535"),
    (("plan", "--lanes", "257"), "--lanes: the value must be at most 256 (got 257)", "write a number from 1 to 256"),
    (("run", "q.sql", "--train", "0"), "--train: the value must be at least 1 (got 0)", "write a number from 1 to 10,000,000"),
    (("sim", "small.yaml", "--seed", "1.5"), "--seed: the value must be a whole number (got '1.5')", "write digits only"),
    (("top", "--interval", "often"), "--interval: the value must be a number (got 'often')", "write digits, as in 0.5"),
    (("results", "acme/q", "-o", "jsno"), "--output: the value is not one of the choices (got 'jsno')", "did you mean json?"),
    (("results",), "TENANT/QUERY: a required value is missing", "write weir results [OPTIONS] TENANT/QUERY"),
    (("results", "a/q", "b"), "weir results: the command has too many arguments (got 'b')", "write weir results [OPTIONS] TENANT/QUERY"),
    (("results", "a/q", "--limti", "3"), "weir results: the command has no option of this name (got '--limti')", "did you mean --limit?"),
    (("results", "a/q", "--limit"), "--limit: the option has no value", "write --limit and its value"),
    (("simulate",), "weir: there is no command of this name (got 'simulate')", "did you mean sim or results?"),
    (("query", "list"), "weir query: there is no command of this name (got 'list')", "did you mean ls or quality?"),
    (("sim",), "SCENARIO: a required value is missing", "write the name of a scenario, or --replay LOG"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "title", "hint"), WRONG_USAGE)
def test_wrong_usage_is_reported_with_a_hint(
    weir: Terminal, arguments: tuple[str, ...], title: str, hint: str
) -> None:
    assert weir(*arguments) == refusal(title, f"  hint: {hint}")


@pytest.mark.parametrize("arguments", [(), ("query",)])
def test_a_group_without_a_command_prints_its_help(weir: Terminal, arguments: tuple[str, ...]) -> None:
    done = weir(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(" ".join(("Usage: weir", *arguments)))
    assert "results" in done.err or "quality" in done.err


def test_the_option_version_prints_only_the_version(weir: Terminal) -> None:
    assert weir("--version") == Outcome(0, f"weir {version('weir')}\n", "")


def test_an_interrupted_run_exits_with_130_and_prints_no_traceback(weir: Terminal) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    # Hypothesis runs a callback during each garbage collection. A KeyboardInterrupt in the callback would be lost.
    gc.disable()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        done = weir("sim", "small.yaml", "--seconds", "86400")
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert (done.code, done.out) == (130, "")
    assert "Traceback" not in done.err


# -- comparisons of several runs ----------------------------------------------------------------------------------


def test_the_option_compare_gives_each_manager_the_same_result_as_a_single_run(weir: Terminal) -> None:
    done = weir("sim", "small.yaml", "--compare", "-o", "json", "--seconds", "1", "--seed", "3")
    assert (done.code, done.err) == (0, "")
    assert [one["manager"] for one in done.json] == list(MANAGERS)
    alone = [
        weir("sim", "small.yaml", "-m", manager, "-o", "json", "--seconds", "1", "--seed", "3").json
        for manager in MANAGERS
    ]
    assert done.json == alone


@pytest.mark.slow
def test_the_option_policies_shows_every_policy_and_the_findings_of_the_paper(
    weir: Terminal, tmp_path: Path
) -> None:
    few = "name: few\nextends: sharaf-qos\nseconds: 5\nnetworks: {testbed: {queries: 5}}\n"
    (tmp_path / "few.yaml").write_text(few, encoding="utf-8")
    done = weir("sim", "few.yaml", "--policies")
    assert (done.code, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines()]
    named = [row for row in rows if row and row[0] in POLICY_KINDS]
    # There are two tables with a row for each policy.
    assert [row[0] for row in named if len(row) == 7] == 2 * list(POLICY_KINDS)
    assert sum("Sharaf" in row for row in rows) == 10
    assert "…" not in done.out


WINDOWS = """
name: windows
seconds: 3
train_max: 5
networks:
  plain: {kind: queries, queries: [{name: only, reads: [s], operators: [{kind: project, tuple_us: 1000}]}]}
  windows:
    kind: queries
    queries:
      - {name: only, reads: [s], operators: [{kind: aggregate, range_s: 1, slide_s: 0.1, tuple_us: 2500}]}
classes:
  - {name: gold, priority: 3, delay_target_ms: 200, network: windows, streams: {s: {arrivals: {kind: poisson, rate: 500}}}}
  - {name: bronze, priority: 1, delay_target_ms: 200, network: plain, streams: {s: {arrivals: {kind: poisson, rate: 10}}}}
"""


@pytest.mark.slow
def test_policies_are_compared_per_class_and_by_tardiness_if_there_are_windows(
    weir: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "windows.yaml").write_text(WINDOWS, encoding="utf-8")
    done = weir("sim", "windows.yaml", "--policies")
    titles = [line.strip() for line in done.out.splitlines() if "class " in line]
    assert titles == [
        f"windows, manager none, 3 s, seed 1; class {name}" for name in ("gold", "gold", "bronze", "bronze")
    ]
    assert [line.split()[-2:] for line in done.out.splitlines() if "staleness" in line] == [
        ["tardy", "ms"],
        ["memory", "max"],
    ]
    assert "…" not in done.out


@pytest.mark.slow
def test_policies_are_compared_without_shedding_unless_a_manager_is_named(weir: Terminal) -> None:
    for given, manager in (((), "none"), (("--manager", "dilos"), "dilos")):
        done = weir("sim", "small.yaml", "--policies", "--seconds", "0.2", "-o", "json", *given)
        assert {one["manager"] for one in json.loads(done.out)} == {manager}
    jobs = comparison(preset("sharaf-qos"), True, None, "per-class", 1)
    assert {job.manager for job in jobs} == {"per-class"}
    assert [job.scenario.classes[0].policy_name for job in jobs] == list(POLICY_KINDS)


# -- the options --record and --replay of weir sim -------------------------------------------------------------------


def test_a_recorded_run_is_replayed_core_by_core(weir: Terminal) -> None:
    recorded = weir("sim", "small.yaml", "--record", "events")
    assert recorded == weir("sim", "small.yaml")
    done = weir("sim", "--replay", "events")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("events, ")
    rows = [line.split() for line in done.out.splitlines()]
    assert [(*row[:3], row[-1]) for row in rows[3:] if row] == [
        ("turns", "node", "1", "yes"),
        ("load", "bronze", "1", "yes"),
        ("load", "gold", "1", "yes"),
        ("capacity", "node", "1", "yes"),
    ]


def test_a_replay_that_disagrees_with_the_recording_prints_the_line_and_fails(
    weir: Terminal, tmp_path: Path
) -> None:
    weir("sim", "small.yaml", "--record", "events")
    log = tmp_path / "events/turns-node-1.jsonl"
    first, grant, rest = log.read_text("utf-8").split("\n", 2)
    line = json.loads(grant)
    line[2][0][3] += 1
    log.write_text("\n".join((first, json.dumps(line), rest)), "utf-8")
    done = weir("sim", "--replay", "events")
    assert (done.code, done.err) == (1, "")
    assert "events/turns-node-1.jsonl:2: 1 of " in done.out
    assert '  recorded  [["Grant"' in done.out
    answer = weir("sim", "--replay", "events", "-o", "json")
    assert (answer.code, answer.json["agrees"]) == (1, False)
    assert [core["agrees"] for core in answer.json["cores"]] == [False, True, True, True]


def test_a_replay_fails_if_a_message_was_lost(weir: Terminal, tmp_path: Path) -> None:
    recorded_run(tmp_path / "events", lending())
    log = tmp_path / "events/load-gold-1.jsonl"
    write_lines(
        log, [line for line in lines_of(log) if not ("HeadroomScaled" in str(line) and 4 < line[0] < 5)]
    )
    done = weir("sim", "--replay", "events")
    assert done.code == 1
    assert "1 of 4 messages never reached load gold" in done.out


def test_an_incomplete_last_line_of_a_log_is_reported_but_does_not_fail_the_replay(
    weir: Terminal, tmp_path: Path
) -> None:
    weir("sim", "small.yaml", "--record", "events")
    log = tmp_path / "events/load-gold-1.jsonl"
    log.write_bytes(log.read_bytes()[:-9])
    (tmp_path / "events/load-bronze-2.jsonl").write_bytes(b'{"weir_ev')
    done = weir("sim", "--replay", "events")
    assert (done.code, done.out.splitlines()[-2:]) == (
        0,
        [
            "events/load-gold-1.jsonl: incomplete: the last line was not fully written",
            "events/load-bronze-2.jsonl: incomplete: it has no header",
        ],
    )


def test_replaying_a_log_without_a_header_is_refused(weir: Terminal, tmp_path: Path) -> None:
    (tmp_path / "wrong.jsonl").write_text("{}\n", "utf-8")
    assert weir("sim", "--replay", "wrong.jsonl") == refusal(
        "wrong.jsonl: line 1: the line is not an event-log header of version 1",
        "  hint: give an event log that Weir recorded",
    )


@pytest.mark.parametrize(
    "options",
    [("small.yaml",), ("--seed", "0"), ("--compare",), ("--manager", "dilos"), ("--record", "other")],
)
def test_replay_cannot_be_combined_with_options_of_a_run(weir: Terminal, options: tuple[str, ...]) -> None:
    assert weir("sim", "--replay", "events", *options) == refusal(
        "--replay: this option cannot be combined with options of a run",
        "  hint: write --replay LOG alone, or with -o json",
    )


def test_a_comparison_of_managers_cannot_be_recorded(weir: Terminal) -> None:
    assert weir("sim", "small.yaml", "--compare", "--record", "events") == refusal(
        "--record works only for a single run",
        "  hint: leave out --compare and --policies",
    )


def test_the_commands_in_the_replay_page_work(weir: Terminal) -> None:
    (commands,) = re.findall(r"```console\n(.*?)```", (ROOT / "docs/replay.md").read_text("utf-8"), re.DOTALL)
    outcomes = [weir(*line.removeprefix("$ weir ").split()) for line in commands.splitlines()]
    assert [done.code for done in outcomes] == [0, 0, 0]


# -- the command weir demo -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ("--scenario", "step"),
            ("--scenario: there is no scenario of this name (got 'step')", "  hint: did you mean steps?"),
        ),
        (
            ("-m", "dilo"),
            ("--manager: there is no manager of this name (got 'dilo')", "  hint: did you mean dilos?"),
        ),
        (
            ("--seconds=nan",),
            (
                "--seconds: the value must be at least 5 and at most 3600 (got nan)",
                "  hint: leave --seconds out for the default",
            ),
        ),
        (
            ("--load=0",),
            (
                "--load: the value must be at least 0.01 and at most 10 (got 0)",
                "  hint: leave --load out for the default",
            ),
        ),
        (
            ("--scenario", "overload", "--load", "0.4"),
            (
                "--load: the load must be above 0.48, the load of class 1 alone (got 0.4)",
                "  hint: write a larger load, or choose another scenario",
            ),
        ),
    ],
)
def test_invalid_options_of_the_demo_are_refused_before_anything_starts(
    weir: Terminal, arguments: tuple[str, ...], lines: tuple[str, ...]
) -> None:
    assert weir("demo", *arguments) == refusal(*lines)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("--report", "small.yaml"),
            "--report: the folder cannot be created: file exists (got 'small.yaml')",
        ),
        (
            ("--result", "small.yaml/x.json"),
            "--result: the folder cannot be created: file exists (got 'small.yaml')",
        ),
        (("--result", "."), "--result: the path of the report is a folder, not a file (got '.')"),
    ],
)
def test_an_output_path_that_the_demo_cannot_write_is_refused_before_the_run(
    weir: Terminal, arguments: tuple[str, ...], line: str
) -> None:
    done = weir("demo", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {line}\n  hint: ")


# -- tables of results ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dilos-sc", "dilos-steps", "overload-2x"])
def test_no_figure_of_a_preset_is_cut_off_at_eighty_columns(weir: Terminal, name: str) -> None:
    done = weir("sim", name, "--manager", "none", "--seconds", "1")
    assert (done.code, "…" in done.out) == (0, False)
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0.00"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (123.4, "123"),
        (9999, "9,999"),
        (12_345, "12s"),
        (2e6, "2,000s"),
    ],
)
def test_milliseconds_are_shortened_for_tables(value: float, shown: str) -> None:
    assert milliseconds(value) == shown


def test_only_the_first_columns_of_a_table_are_left_aligned() -> None:
    table = Sheet("", ("first", "second", "third"), left=2)
    table.add_row("a", "b", "1")
    console = Console(width=80, file=StringIO(), record=True)
    console.print(table)
    assert console.export_text().splitlines() == [
        "first  second  third",
        "─" * 20,
        "a      b           1",
    ]


def test_an_unknown_manager_is_refused_even_with_compare() -> None:
    with pytest.raises(UnknownName, match="did you mean dilos"):
        sim(scenario="dilos-sc", manager="dilo", compare=True)
