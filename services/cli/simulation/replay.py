"""`weir sim --record` and `--replay`: record the decisions of a run, and check that replaying makes the same decisions."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import typer

from actors.runtime.event_log import EventLog
from loadshed.records import Core, CoreName, header_of
from services.cli.tables.outcome_tables import replay_table
from services.cli.tables.progress import progress
from services.cli.tables.sheet import Format, screen
from sim.control_ring import Record
from sim.replay import CoreReport, Delivery, ReplayReport, log_files, replay

EXIT_DISAGREES = 1
LOG_BYTES_MAX = 1 << 30
VIRTUAL_TIME = "virtual"
# Maximum number of characters of an event in the table, since an event may name many queries; -o json shows the whole event.
WIDTH = 500


class Recording:
    """Event logs of a run in virtual time, which reach the disk on `flush` and `close`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: list[EventLog] = []

    def open(self, core: CoreName, name: str, made: Core) -> Record:
        header = header_of(core, name, VIRTUAL_TIME, made)
        self._logs.append(EventLog(self._folder, header, LOG_BYTES_MAX))
        return self._logs[-1].record

    def flush(self) -> None:
        for log in self._logs:
            log.flush()

    def close(self) -> None:
        self.flush()
        for log in self._logs:
            if log.stopped:
                typer.echo(f"{log.path}: incomplete: {log.stopped}", err=True)
            log.close()


def replay_logs(path: Path, output: Format) -> None:
    """Replay event logs and print the result; exit with code 1 if a decision differs."""
    total = sum(file.stat().st_size for file in log_files(path))
    began = time.perf_counter()
    with progress("replaying", total) as advance:
        report = replay(path, advance)
    elapsed_s = time.perf_counter() - began
    if output == "json":
        typer.echo(json.dumps(as_object(report, elapsed_s), indent=2))
    else:
        screen(output).print(replay_table(f"{path}, {report.events / elapsed_s:,.0f} events/s", report))
        for line in remarks(report):
            typer.echo(line)
    if not report.agrees:
        raise typer.Exit(EXIT_DISAGREES)


def as_object(report: ReplayReport, elapsed_s: float) -> dict[str, object]:
    return {
        "agrees": report.agrees,
        "events": report.events,
        "elapsed_s": elapsed_s,
        "cores": [{"agrees": core.agrees} | asdict(core) for core in report.cores],
        "deliveries": [asdict(delivery) for delivery in report.deliveries],
        "empty": report.empty,
    }


def remarks(report: ReplayReport) -> list[str]:
    """Return the lines below the table of a replay: differences, lost messages and incomplete logs."""
    return [
        *(line for core in report.cores for line in core_remarks(core)),
        *(line for delivery in report.deliveries for line in delivery_remarks(delivery)),
        *(f"{file}: incomplete: it has no header" for file in report.empty),
    ]


def core_remarks(core: CoreReport) -> list[str]:
    lines = []
    for life in core.lives:
        if life.first is not None:
            first = life.first
            lines += [
                f"{first.file}:{first.line}: {life.disagreements:,} of {life.events:,} decisions differ; the first, "
                f"at {first.at:g} s:",
                f"  event     {first.event:.{WIDTH}}",
                f"  recorded  {first.expected:.{WIDTH}}",
                f"  replayed  {first.got:.{WIDTH}}",
            ]
        if life.ended:
            lines.append(f"{life.file}: incomplete: {life.ended}")
    return lines


def delivery_remarks(one: Delivery) -> list[str]:
    """Return a line about lost messages. Messages near the start or the end of a process do not count as lost."""
    if one.first_lost is None:
        return []
    lost, first = one.sent - one.heard - one.excused, one.first_lost
    return [f"{first.file}:{first.line}: {lost:,} of {one.sent:,} messages never reached {one.receiver}"]
