"""`weir demo`: run the three classes of the DILoS paper on a live system; Spark sends as many rows as this machine can process, or more."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.live import Live

from configs.classes.live_class import LiveSettings
from configs.classes.managers import MANAGERS, known_manager
from configs.documents.spark_streams import StreamsFile
from configs.errors import InvalidInput
from services.cli.commands.ingest import ended_by_signal
from services.cli.commands.sim import DEFAULT_MANAGER, make_folder
from services.cli.demonstration.demo_feed import (
    NICENESS,
    Feeds,
    inputs,
    logs_kept,
    streams_file,
    write_rows,
)
from services.cli.demonstration.demo_plan import (
    SCENARIOS,
    DemoScenario,
    demo_scenario,
    live_classes,
    loads,
    rates,
)
from services.cli.demonstration.live_run import Calibration, LiveRun, Watched, calibrated
from services.cli.shared_options import RecordOption
from services.cli.tables.class_tables import class_view_table
from services.cli.tables.outcome_tables import outcome_tables
from services.cli.tables.sheet import Sheet, screen
from services.ingest.java import Java, find_java
from services.ingest.job import GatewayAddress, IngestJob
from services.ingest.process import IngestProcess
from sim.outcome.outcome import Outcome
from sim.outcome.promises import Promise, check_overload, check_promises
from sim.outcome.report import write_report
from sim.outcome.verdict import verdict

if TYPE_CHECKING:
    from services.cli.demonstration.demo_prometheus import PrometheusRecord

Phase = Callable[[str], AbstractContextManager[Callable[[str], None]]]
SECONDS = 60.0
# Least and greatest duration in seconds: load managers need some seconds to react, and an hour is long enough for a demonstration.
SECONDS_LEAST, SECONDS_MOST = 5.0, 3600.0
LOAD_LEAST, LOAD_MOST = 0.01, 10.0
LANE_PART_LEAST = 0.01
EXIT_BROKEN = 1
ROWS, INGEST = "rows.parquet", "ingest"
# Maximum number of tuples per train, below the default: a lane of the demonstration is slow, because it has only a part of a processor.
TRAIN_MAX = 1_000
# Length of a round in ms, above the default: in shorter rounds, a class with a tenth of a slow lane would get very short slices.
# A class with very short slices would lose most of its time to cache misses, and would have to drop too much of its input.
ROUND_MS = 20.0
# Fraction of a busy lane's time that slices use on an idle machine. A smaller fraction shows that other processes use the processor.
BUSY_PART = 0.9


ScenarioOption = Annotated[str, typer.Option(help=f"Scenario to run: one of {', '.join(SCENARIOS)}.")]
LoadOption = Annotated[
    float | None,
    typer.Option(
        help="Offered load, as a multiple of the capacity of this machine.",
        show_default=", ".join(f"{preset.load:g} for {name}" for name, preset in SCENARIOS.items()),
    ),
]
SecondsOption = Annotated[float, typer.Option(help="Length of the scenario in seconds.")]
ManagerOption = Annotated[
    str,
    typer.Option(
        "--manager", "-m", help=f"Load manager, which decides on shedding and lending: {', '.join(MANAGERS)}."
    ),
]
LanesOption = Annotated[int, typer.Option(min=1, max=256, help="Number of processors that run queries.")]
LanePartOption = Annotated[
    float | None,
    typer.Option(
        help="Fraction of each processor of --lanes that queries may use; Spark and other processes use the rest.",
        show_default=", ".join(f"{preset.lane_part:g} for {name}" for name, preset in SCENARIOS.items()),
    ),
]
ReportOption = Annotated[Path, typer.Option(help="Folder for the HTML report.")]
ResultOption = Annotated[Path | None, typer.Option("--result", help="JSON file for the result.")]

PrometheusOption = Annotated[
    bool,
    typer.Option(
        "--prometheus", help="Run a Prometheus, too, and add the panels of the dashboards to the report."
    ),
]


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """Options of a demonstration, after they have been checked."""

    name: str
    scenario: DemoScenario
    load: float
    seconds: float
    settings: LiveSettings
    report: Path
    """Folder of the HTML report, and of Spark's logs if Spark fails."""
    record: Path | None
    prometheus: bool


def demo(
    *,
    scenario: ScenarioOption = "lending",
    load: LoadOption = None,
    seconds: SecondsOption = SECONDS,
    manager: ManagerOption = DEFAULT_MANAGER,
    lanes: LanesOption = 1,
    lane_part: LanePartOption = None,
    report: ReportOption = Path("weir-demo"),
    result_path: ResultOption = None,
    record: RecordOption = None,
    prometheus: PrometheusOption = False,
) -> None:
    """Run a live demonstration of classes that lend capacity and take it back. Exit code 1 if a promise was broken."""
    preset, known_name = demo_scenario(scenario), known_manager(manager)
    load = checked(load, "--load", LOAD_LEAST, LOAD_MOST) if load is not None else preset.load
    parts = loads(preset, load, checked(seconds, "--seconds", SECONDS_LEAST, SECONDS_MOST))
    make_folder("--report", report)
    if record is not None:
        make_folder("--record", record)
    if result_path is not None:
        check_result(result_path)
    lane_part = checked(
        preset.lane_part if lane_part is None else lane_part, "--lane-part", LANE_PART_LEAST, 1.0
    )
    settings = LiveSettings(
        manager=known_name, lanes=lanes, lane_part=lane_part, train_max=TRAIN_MAX, round_ms=ROUND_MS
    )
    if prometheus:
        from services.metrics.prometheus import find_program

        find_program()
    options = DemoOptions(
        name=scenario,
        scenario=preset,
        load=load,
        seconds=seconds,
        settings=settings,
        report=report,
        record=record,
        prometheus=prometheus,
    )
    console = screen()
    outcome, panels = demonstrate(options, parts, console)
    promises = promises_of(preset, outcome)
    console.print()
    for sentence in verdict(outcome, promises):
        console.print(sentence, highlight=False)
    console.print(outcome_tables(outcome, promises))
    typer.echo(
        f"report: {write_report(outcome, promises, report, [] if panels is None else [panels.html()])}"
    )
    if result_path is not None:
        write_result(result_path, outcome, promises, panels)
        typer.echo(f"result: {result_path}")
    if not all(promise.kept for promise in promises):
        raise typer.Exit(EXIT_BROKEN)


def demonstrate(
    options: DemoOptions, parts: Mapping[str, Sequence[tuple[float, float]]], console: Console
) -> tuple[Outcome, PrometheusRecord | None]:
    """Run a scenario on a new system. `parts` has the load offered to each class, as fractions of the machine's capacity over time.

    Return the outcome and, with `--prometheus`, the panels of the dashboards.
    """
    # Prometheus and its dashboards are imported when they are needed, so that `weir demo --help` does not wait for the import.
    from services.cli.demonstration.demo_prometheus import prometheus_beside, record_of

    java = find_java(None, os.environ)
    preset, settings, seconds = options.scenario, options.settings, dict[str, float]()
    phase = partial(timed_phase, console, seconds)
    with ended_by_signal(), ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory(prefix="weir-demo-")))
        tables, watched = begun(options, folder, phase, running)
        calibration = calibrate(watched, tables, options, phase)
        classes, plan = live_classes(preset), rates(parts, calibration.tuples_per_s)
        with phase("Spark") as note:
            watched.host(classes)
            file = streams_file(classes, plan, options.seconds, folder / ROWS)
            with logs_kept(folder / INGEST, options.report):
                process = running.enter_context(ingest_process(watched, file, folder / INGEST, java))
                feeds = Feeds(watched.system, watched.node, process, classes)
                feeds.wait_flowing()
            note(f"{len(classes)} feeds are running")
        scrape = None
        if options.prometheus:
            with phase("Prometheus") as note:
                priorities = {class_.name: f"priority {class_.priority:g}" for class_ in classes}
                beside = prometheus_beside(watched.system, feeds.all, priorities, folder / "prometheus")
                scrape = running.enter_context(beside)
                note(scrape.url)
        with phase("run") as note:
            run = LiveRun(
                watched=watched,
                name=options.name,
                description=preset.description,
                settings=settings,
                classes=classes,
                feeds=feeds,
                plan=plan,
                seconds=options.seconds,
            )
            watch(run, f"{options.name} at load {options.load:g} under {settings.manager}", console)
            note(f"{run.useful_per_s() / 1e6:.3f} million tuples/s processed, {run.offered_note()}")
            since, until = run.times()
        outcome = run.outcome(calibration, options.load, seconds)
        # The dashboard for a single tenant shows the class that lost most rows, so that few panels are empty.
        lost_most = max(outcome.classes, key=lambda result: float(result["loss_pct"]))["name"]
        panels = None if scrape is None else record_of(scrape, since, until, lost_most)
        with phase("stop"):
            running.close()
    return outcome, panels


def ingest_process(watched: Watched, file: StreamsFile, folder: Path, java: Java) -> IngestProcess:
    """Return the process that runs the feeds of `file` in Spark, with its logs in the folder; it is not started yet."""
    endpoint = watched.system.endpoint(watched.node)
    assert endpoint is not None
    door = GatewayAddress(endpoint, watched.system.ingest_key)
    return IngestProcess(IngestJob(file, door, folder, java.home, NICENESS))


def begun(
    options: DemoOptions, folder: Path, phase: Phase, running: ExitStack
) -> tuple[Mapping[str, pa.Table], Watched]:
    """Write the file of rows for Spark, and start a system. The system ends when the exit stack `running` is closed."""
    # Ray is imported when it is needed, so that `weir demo --help` does not wait for this import.
    from actors.system import start
    from services.ingest.flight import FlightSettings

    settings = options.settings
    with phase("start") as note:
        tables = inputs()
        write_rows(tables, folder / ROWS)
        pinned = settings.lane_part == 1
        system = start(settings, [], data_folder=options.record, pinned=pinned, endpoint=FlightSettings())
        watched = Watched(running.enter_context(system))
        processors = f"{settings.lanes} of {os.cpu_count()} processors"
        note(f"a node with {processors} for queries, {settings.lane_part:g} of each")
    return tables, watched


def calibrate(
    watched: Watched, tables: Mapping[str, pa.Table], options: DemoOptions, phase: Phase
) -> Calibration:
    """Measure the capacity of the machine in tuples per second."""
    with phase("calibrate") as note:
        classes = live_classes(options.scenario, "calibrate_", lossless=True)
        calibration = calibrated(watched, classes, tables, options.settings)
        note(
            f"{calibration.tuples_per_s / 1e6:.3f} million tuples/s, {calibration.tuple_us:.3f} µs per tuple"
        )
        if calibration.busy_part < BUSY_PART:
            note(f"[yellow]queries got only {calibration.busy_part:.0%} of their processor time[/]")
    return calibration


def write_result(
    path: Path, outcome: Outcome, promises: Sequence[Promise], panels: PrometheusRecord | None
) -> None:
    result = dict(outcome.result) | {"promises": [asdict(promise) for promise in promises]}
    if panels is not None:
        result["prometheus"] = panels.told()
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def check_result(path: Path) -> None:
    """Make the folder of the result's file; raise InvalidInput if the path is itself a folder."""
    if path.is_dir():
        title = "the path of the report is a folder, not a file"
        raise InvalidInput(title, "--result", str(path), "name a file in this folder")
    make_folder("--result", path.parent)


def checked(value: float, option: str, least: float, most: float) -> float:
    if not least <= value <= most:
        raise InvalidInput(
            f"the value must be at least {least:g} and at most {most:g}",
            option,
            value,
            f"leave {option} out for the default",
        )
    return value


def promises_of(chosen: DemoScenario, outcome: Outcome) -> list[Promise]:
    promises = check_promises(outcome)
    if chosen.overloads:
        result, first = outcome.result, outcome.classes[0]["name"]
        capacity_per_s = result["calibration"]["tuples_per_s"]
        promises += check_overload(outcome, first, result["useful_per_s"], capacity_per_s)
    return promises


@contextmanager
def timed_phase(console: Console, seconds: dict[str, float], name: str) -> Iterator[Callable[[str], None]]:
    """Run a `with` block as a phase of the demonstration. Print the block's notes and its duration, and store the duration in `seconds`."""
    notes: list[str] = []
    began = time.monotonic()
    with console.status(f"{name} …") if console.is_terminal and name != "run" else nullcontext():
        yield notes.append
    took_s = seconds[name] = time.monotonic() - began
    console.print(f"{name:<10}{took_s:6.1f} s  {', '.join(notes)}", highlight=False, soft_wrap=True)


def watch(run: LiveRun, title: str, console: Console) -> None:
    """Run the scenario; on a terminal, show a table that is updated in place."""
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
