"""`weir demo`: the paper's three classes on a live system that Spark feeds with as much as they can do here, or more."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live

from configs.classes.live_class import LiveSettings
from configs.classes.managers import MANAGERS, known_manager
from configs.errors import InvalidInput
from services.cli.commands.ingest import ended_by_signal
from services.cli.commands.sim import DEFAULT_MANAGER, make_folder
from services.cli.demonstration.demo_feed import NICENESS, Feeds, inputs, streams_file, write_rows
from services.cli.demonstration.demo_plan import (
    SCENARIOS,
    DemoScenario,
    demo_scenario,
    live_classes,
    loads,
    rates,
)
from services.cli.demonstration.live_run import LiveRun, Watched, calibrated
from services.cli.tables.sheet import Sheet, screen
from services.cli.tables.tables import answers_table, class_view_table, promise_table, result_table
from services.ingest.java import find_java
from services.ingest.job import Door, Job
from services.ingest.process import IngestProcess
from sim.outcome.outcome import Outcome
from sim.outcome.promises import Promise, check_overload, check_promises
from sim.outcome.report import write_report
from sim.outcome.verdict import verdict

if TYPE_CHECKING:
    from services.cli.demonstration.demo_prometheus import Beside

SECONDS = 60.0
# Time for load managers to see what comes; nobody watches for longer.
SECONDS_LEAST, SECONDS_MOST = 5.0, 3600.0
LOAD_LEAST, LOAD_MOST = 0.01, 10.0
LANE_PART_LEAST = 0.01
EXIT_BROKEN = 1
ROWS = "rows.parquet"
# A turn takes as long as elsewhere, and a train no longer: a lane is slower here.
TRAIN_MAX = 1_000
# Of a class with a tenth of a fifth of a core, what a slice finds in the processor's caches is others': so short that most of its
# time is spent on that, it would have to drop more than any class may.
ROUND_MS = 20.0
# A lane that has always something to do is in slices for more than this, unless other processes use its core.
BUSY_PART = 0.9


def demo(
    scenario: Annotated[
        str, typer.Option(help=f"Scenario to run: one of {', '.join(SCENARIOS)}.")
    ] = "lending",
    load: Annotated[
        float | None,
        typer.Option(
            help="Load, as a multiple of what this machine can do.",
            show_default=", ".join(f"{one.load:g} for {name}" for name, one in SCENARIOS.items()),
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Length of the scenario in seconds.")] = SECONDS,
    manager: Annotated[
        str,
        typer.Option("--manager", "-m", help=f"Load manager, which sheds and lends: {', '.join(MANAGERS)}."),
    ] = DEFAULT_MANAGER,
    lanes: Annotated[int, typer.Option(min=1, max=256, help="Number of processors that run queries.")] = 1,
    lane_part: Annotated[
        float | None,
        typer.Option(
            help="Part of each of these processors that queries may use; Spark and the rest use what is left.",
            show_default=", ".join(f"{one.lane_part:g} for {name}" for name, one in SCENARIOS.items()),
        ),
    ] = None,
    report: Annotated[Path, typer.Option(help="Folder for the HTML page.")] = Path("weir-demo"),
    result_path: Annotated[
        Path | None, typer.Option("--result", help="JSON file for the result.", show_default=False)
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the events and decisions of the run, for `weir sim --replay`.",
            show_default=False,
        ),
    ] = None,
    prometheus: Annotated[
        bool,
        typer.Option("--prometheus", help="Run a Prometheus, too, and show what the dashboards show."),
    ] = False,
) -> None:
    """Run a live demonstration of classes that lend capacity and take it back; exit code 0 if every promise was kept."""
    chosen, known = demo_scenario(scenario), known_manager(manager)
    multiple = checked(load, "--load", LOAD_LEAST, LOAD_MOST) if load is not None else chosen.load
    asked = loads(chosen, multiple, checked(seconds, "--seconds", SECONDS_LEAST, SECONDS_MOST))
    make_folder("--report", report)
    if record is not None:
        make_folder("--record", record)
    if result_path is not None:
        if result_path.is_dir():
            raise InvalidInput("is a folder", "--result", str(result_path), "name a file in it")
        make_folder("--result", result_path.parent)
    part = checked(chosen.lane_part if lane_part is None else lane_part, "--lane-part", LANE_PART_LEAST, 1.0)
    settings = LiveSettings(
        manager=known,
        lanes=lanes,
        lane_part=part,
        train_max=TRAIN_MAX,
        round_ms=ROUND_MS,
    )
    if prometheus:
        from services.metrics.prometheus import find_program

        find_program()
    java = find_java(None, os.environ)
    # The other commands need not wait for Ray to be imported.
    from actors.system import start
    from services.ingest.flight import FlightSettings

    console, phases_s = screen(), dict[str, float]()
    with ended_by_signal(), ExitStack() as running:
        with phase(console, phases_s, "start") as note:
            folder = Path(running.enter_context(TemporaryDirectory(prefix="weir-demo-")))
            tables = inputs()
            write_rows(tables, folder / ROWS)
            pinned = settings.lane_part == 1
            system = start(settings, [], data_folder=record, pinned=pinned, endpoint=FlightSettings())
            watched = Watched(running.enter_context(system))
            note(
                f"a node with {lanes} of {os.cpu_count()} processors for queries, {settings.lane_part:g} of each"
            )
        with phase(console, phases_s, "calibrate") as note:
            calibrating = live_classes(chosen, "calibrate_", lossless=True)
            calibration = calibrated(watched, calibrating, tables, settings)
            note(
                f"{calibration.tuples_per_s / 1e6:.3f} million tuples/s, {calibration.tuple_us:.3f} µs a tuple"
            )
            if calibration.busy_part < BUSY_PART:
                note(f"[yellow]queries had only {calibration.busy_part:.0%} of their time[/]")
        classes, plan = live_classes(chosen), rates(asked, calibration.tuples_per_s)
        with phase(console, phases_s, "Spark") as note:
            watched.host(classes)
            endpoint = system.endpoint(watched.node)
            assert endpoint is not None
            file = streams_file(classes, plan, seconds, folder / ROWS)
            job = Job(file, Door(endpoint, system.ingest_key), folder / "ingest", java.home, NICENESS)
            feeds = Feeds(system, watched.node, running.enter_context(IngestProcess(job)), classes)
            feeds.wait_flowing()
            note(f"{len(classes)} feeds come in")
        beside: Beside | None = None
        if prometheus:
            from services.cli.demonstration.demo_prometheus import prometheus_beside

            with phase(console, phases_s, "Prometheus") as note:
                told = {class_.name: f"priority {class_.priority:g}" for class_ in classes}
                there = prometheus_beside(system, feeds.all, told, folder / "prometheus")
                beside = running.enter_context(there)
                note(beside.url)
        with phase(console, phases_s, "run") as note:
            run = LiveRun(
                watched=watched,
                name=scenario,
                description=chosen.description,
                settings=settings,
                classes=classes,
                feeds=feeds,
                plan=plan,
                seconds=seconds,
            )
            watch(run, f"{scenario} at load {multiple:g} under {known}", console)
            note(f"{run.useful_per_s() / 1e6:.3f} million tuples/s worked on, {run.offered_note()}")
            since, until = run.times()
        outcome = run.outcome(calibration, multiple, phases_s)
        # The one that is worst off has most to tell.
        lost_most = max(outcome.classes, key=lambda one: float(one["loss_pct"]))["name"]
        seen = None if beside is None else beside.seen(since, until, lost_most)
        with phase(console, phases_s, "stop"):
            running.close()
    promises = promises_of(chosen, outcome)
    console.print()
    for sentence in verdict(outcome, promises):
        console.print(sentence, highlight=False)
    console.print(result_table(outcome.result))
    console.print(answers_table(outcome.result))
    console.print(promise_table(promises))
    typer.echo(f"report: {write_report(outcome, promises, report, () if seen is None else (seen.html(),))}")
    if result_path is not None:
        result = dict(outcome.result) | {"promises": [asdict(promise) for promise in promises]}
        if seen is not None:
            result["prometheus"] = seen.told()
        result_path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        typer.echo(f"result: {result_path}")
    if not all(promise.kept for promise in promises):
        raise typer.Exit(EXIT_BROKEN)


def checked(value: float, option: str, least: float, most: float) -> float:
    if not least <= value <= most:
        raise InvalidInput(
            f"must be at least {least:g} and at most {most:g}", option, value, "leave it out for the default"
        )
    return value


@contextmanager
def phase(console: Console, phases_s: dict[str, float], name: str) -> Iterator[Callable[[str], None]]:
    """A line with the time that it took, and what it is told of."""
    notes: list[str] = []
    began = time.monotonic()
    with console.status(f"{name} …") if console.is_terminal and name != "run" else nullcontext():
        yield notes.append
    phases_s[name] = time.monotonic() - began
    console.print(f"{name:<10}{phases_s[name]:6.1f} s  {', '.join(notes)}", highlight=False, soft_wrap=True)


def watch(run: LiveRun, title: str, console: Console) -> None:
    """Run with a table that moves, if there is a terminal to move it on."""
    if not console.is_terminal:
        run.run()
        return

    def picture() -> Sheet:
        return class_view_table(
            f"{title}, {run.now:5.1f} of {run.seconds:g} s", list(run.last.classes.values())
        )

    with Live(console=console, transient=True, auto_refresh=False) as screen:
        run.on_look = lambda _: screen.update(picture(), refresh=True)
        run.run()


def promises_of(chosen: DemoScenario, outcome: Outcome) -> list[Promise]:
    promises = check_promises(outcome)
    if not chosen.overloads:
        return promises
    result = outcome.result
    first = outcome.classes[0]["name"]
    return [
        *promises,
        *check_overload(outcome, first, result["useful_per_s"], result["calibration"]["tuples_per_s"]),
    ]
