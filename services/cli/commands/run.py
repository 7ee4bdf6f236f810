"""`weir run`: run queries over files with the engine of a class, at full speed or at a given rate."""

from __future__ import annotations

import csv
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import typer

from configs.classes.limits import ClassLimits
from configs.classes.policies import policy_of
from configs.classes.window_settings import WindowSettings
from configs.errors import InvalidInput, UnknownName, nearest
from configs.numbers import digits
from configs.yaml_loading import parse_model
from engine.class_.explain import explain as explained
from engine.class_.runner import ClassRunner
from engine.data.schema import Schema, StreamSchema
from engine.data.train import Train, train_from_arrow, train_to_arrow
from engine.network.row_losses import late_rows
from engine.plan.plan import Query
from services.cli.commands.results import until_nobody_reads, whole
from services.cli.input.run_input import (
    GIVE_SQL,
    RunInput,
    assigned,
    given,
    sql_of,
    static_tables,
    table_schema,
)
from services.cli.input.schema_inference import create_stream
from services.cli.tables.catalog_views import warn
from services.cli.tables.cells import response
from services.cli.tables.progress import progress
from services.cli.tables.sheet import Sheet, screen

Output = Literal["table", "wide", "json", "csv"]
# Endings of a path in --out that name a file; a path with another ending is a folder.
FILES = (".parquet", ".csv", ".jsonl")
ROWS_SHOWN = 10
SLICE_S = 1.0
LIMITS = ClassLimits()
WINDOWS = WindowSettings()


@dataclass
class CollectedAnswers:
    """Collector of all answers of a run. Each answer gets a number and the fraction of its input that was neither shed nor late."""

    schemas: Mapping[str, Schema]
    trains: dict[str, list[Train]] = field(default_factory=lambda: defaultdict(list))

    def __call__(self, query: str, out: Train) -> None:
        self.trains[query].append(out)

    def table(self, query: str) -> pa.Table:
        schema, trains = self.schemas[query], self.trains[query]
        table = pa.Table.from_batches([train_to_arrow(train, schema) for train in trains], schema.arrow)
        kept = np.repeat(
            np.array([train.kept for train in trains], float), np.array([*map(len, trains)], int)
        )
        return table.append_column("_seq", [np.arange(len(table))]).append_column("_kept", [kept])


SqlArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="SQL",
        help="SQL queries: a file, SQL in quotes, or `-` for stdin. CREATE STREAM is needed only for types that differ from the files.",
    ),
]
InputsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        help="Rows of a stream, as STREAM=FILE. FILE is Parquet, Arrow, CSV or JSON (also .gz), a folder, a pattern in quotes, or `-` for stdin.",
    ),
]
TablesOption = Annotated[
    list[str] | None,
    typer.Option("--table", help="Rows of a static table, as NAME=FILE, in the formats of --input."),
]
TimesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--time",
        metavar="COLUMN",
        help="Column with the event time of an input without CREATE STREAM, as COLUMN or STREAM.COLUMN. The column holds timestamps, or milliseconds since 1970.",
        show_default="the only timestamp column",
    ),
]
SchemaOption = Annotated[
    bool, typer.Option("--schema", help="Print the CREATE STREAM statement of each input, then exit.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder for the answers, with one Parquet file per query; for a single query also "
        "a .parquet, .csv or .jsonl file."
    ),
]
RateOption = Annotated[
    float | None, typer.Option(help="Number of rows to feed per second.", show_default="full speed")
]
TrainOption = Annotated[
    int,
    typer.Option(min=1, max=10_000_000, help="Rows per train, the batch that one operator call processes."),
]
PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy",
        "-p",
        help="Policy that chooses the next operator: hr, fcfs, …; `weir sim -h` lists all policies.",
    ),
]
GroupsOption = Annotated[int, typer.Option(min=1, help="Maximum number of keys that groups and joins hold.")]
StateOption = Annotated[
    int, typer.Option(min=1, help="Maximum number of bytes that windows, joins and queues hold.")
]
ScheduleOption = Annotated[
    str,
    typer.Option(
        "--windows",
        help="When windows with SLIDE AT MOST are answered; the schedules are none, aggressive, conservative and hybrid.",
    ),
]
LateOption = Annotated[
    str,
    typer.Option(
        "--late",
        help="Windows that are answered together when several windows are late: off (none), late (all late windows), or late-pending (all late and all due windows).",
    ),
]
OutputOption = Annotated[
    Output,
    typer.Option(
        "--output",
        "-o",
        help="Format of the answers: table, wide (a table with all columns), json (one object per line), or csv (a single "
        "query). With json and csv, notes are on stderr.",
    ),
]
ExplainOption = Annotated[
    bool,
    typer.Option("--explain", help="Print the measurements of each operator and the inferred streams, too."),
]


def run(
    *,
    sql: SqlArgument = None,
    inputs: InputsOption = None,
    tables: TablesOption = None,
    times: TimesOption = None,
    schema: SchemaOption = False,
    out: OutOption = None,
    rate: RateOption = None,
    train: TrainOption = 10_000,
    policy: PolicyOption = "hr",
    limit_groups: GroupsOption = LIMITS.groups,
    limit_state: StateOption = LIMITS.state_bytes,
    schedule: ScheduleOption = WINDOWS.schedule,
    late: LateOption = WINDOWS.late,
    output: OutputOption = "table",
    explain: ExplainOption = False,
) -> None:
    """Run continuous queries over files, without a service, to try a query before it is added.

    A query can also name a file in place of a stream:

    weir run "SELECT page, COUNT(*) AS n FROM 'clicks.csv' [RANGE 1 MINUTE] GROUP BY page"
    """
    if sql is None and not schema:
        raise InvalidInput("the command has no SQL to run", "SQL", hint=GIVE_SQL)
    static, notes = static_tables(tables or [])
    content = given(
        None if sql is None else sql_of(sql), assigned(inputs or [], "--input"), static, times or []
    )
    if schema:
        typer.echo("\n".join(map(create_stream, content.streams)))
        warn([*notes, *content.notes])
        return
    showing = Showing(output, out, explain or content.wants_explain)
    showing.check(content.queries)
    data = timed_inputs(content)
    answers = CollectedAnswers({query.name: query.plan.schema for query in content.queries})
    runner = ClassRunner(
        sink=answers,
        policy=policy_of(policy),
        train_max=train,
        tables={
            name: train_from_arrow(table, table_schema(name, table).schema, 0.0)
            for name, table in static.items()
        },
        limits=ClassLimits(queries=len(content.queries), groups=limit_groups, state_bytes=limit_state),
        windows=parse_model(WindowSettings, {"schedule": schedule, "late": late}, "--windows, --late"),
    )
    runner.add(*content.queries)
    measured = timed_run(runner, data, train, rate)
    with until_nobody_reads():
        showing.show(answers, content, runner, measured, [*notes, *content.notes])


def timed_inputs(content: RunInput) -> dict[StreamSchema, pa.Table]:
    """Return the rows of each stream without the rows that lack an event time; a note states the number of rows left out."""
    data = {}
    for stream in content.streams:
        if stream.name in content.rows:
            data[stream], timeless = conformed(content.rows[stream.name], stream)
            if timeless:
                content.notes.append(f"{stream.name}: {timeless:,} rows without an event time were left out")
    return data


def timed_run(
    runner: ClassRunner, data: Mapping[StreamSchema, pa.Table], train: int, rate: float | None
) -> str:
    """Feed all rows with a progress bar, and return a text with their number and the duration."""
    total = sum(len(table) for table in data.values())
    began = time.perf_counter()
    with progress("running", total) as advance:
        feed(runner, data, train, rate, advance)
    elapsed_s = time.perf_counter() - began
    return f"{total:,} tuples in {elapsed_s:.2f} s: {total / max(elapsed_s, 1e-9):,.0f} tuples/s"


def conformed(table: pa.Table, stream: StreamSchema) -> tuple[pa.Table, int]:
    """Return the rows with the stream's columns and types, and the number of rows left out for lack of an event time."""
    columns = {name.lower(): name for name in table.column_names}
    arrays = []
    for schema_field in stream.schema.fields:
        name = columns.get(schema_field.name.lower())
        if name is None:
            raise UnknownName(
                "the input has no column of this name",
                stream.name,
                schema_field.name,
                nearest(schema_field.name, table.column_names),
            )
        try:
            arrays.append(table.column(name).cast(schema_field.type.arrow))
        except pa.ArrowException as error:
            hint = f"declare the column with its type in the file ({table.column(name).type})"
            raise InvalidInput(
                f"column {name} cannot be read as {schema_field.type}: {error}", stream.name, None, hint
            ) from None
    rows = pa.Table.from_arrays(arrays, schema=stream.schema.arrow)
    timed = rows if stream.time is None else rows.filter(rows.column(stream.time).is_valid())
    return timed.combine_chunks(), len(rows) - len(timed)


def feed(
    runner: ClassRunner, data: Mapping[StreamSchema, pa.Table], train: int, rate: float | None, advance: Any
) -> None:
    """Feed all inputs in trains, in the order of event time; `rate` limits the rows per second."""
    began, sent = time.perf_counter(), 0
    for stream, part in turns(data, train):
        if rate is not None:
            time.sleep(max(0.0, began + sent / rate - time.perf_counter()))
        runner.offer(stream.name, train_from_arrow(part, stream.schema, time.perf_counter()))
        drain(runner)
        sent += len(part)
        advance(sent)
    runner.finish(time.perf_counter())
    drain(runner)


def drain(runner: ClassRunner) -> None:
    while runner.has_input():
        runner.run(SLICE_S, time.perf_counter, time.thread_time)
        runner.scheduled.believed()


def turns(data: Mapping[StreamSchema, pa.Table], train: int) -> Iterator[tuple[StreamSchema, pa.Table]]:
    """Yield one train of the longest stream, then the rows of the other streams up to the event time of this train, and so on."""
    leader = max(data, key=lambda stream: len(data[stream]), default=None)
    if leader is None:
        return
    times = {stream: event_times(stream, table) for stream, table in data.items()}
    sent = dict.fromkeys(data, 0)
    for start in range(0, len(data[leader]), train):
        yield leader, data[leader].slice(start, train)
        last = start + train >= len(data[leader])
        reached = (
            times[leader][min(start + train, len(data[leader])) - 1] if times[leader] is not None else None
        )
        for stream, table in data.items():
            if stream is leader:
                continue
            event_us = times[stream]
            upto = (
                len(table)
                if last or reached is None or event_us is None
                else int(np.searchsorted(event_us, reached, "right"))
            )
            for begin in range(sent[stream], upto, train):
                yield stream, table.slice(begin, min(train, upto - begin))
            sent[stream] = max(upto, sent[stream])


def event_times(stream: StreamSchema, table: pa.Table) -> Any:
    """Return event times in µs that never fall: a smaller time is raised to the largest time before it. Without event time, return None."""
    if stream.time is None:
        return None
    column = table.column(stream.time).cast(pa.int64()).to_numpy()
    return np.maximum.accumulate(column * stream.time_unit_us)


@dataclass(frozen=True)
class Showing:
    """Format and destination of answers."""

    output: Output
    out: Path | None
    explain: bool

    @property
    def out_is_file(self) -> bool:
        return self.out is not None and self.out.suffix in FILES

    def check(self, queries: Sequence[Query]) -> None:
        """Raise InvalidInput if the answers of several queries would go into one table."""
        names = ", ".join(query.name for query in queries)
        if len(queries) > 1 and self.output == "csv" and self.out is None:
            hint = "run one query, or use --output json: each line names its query"
            raise InvalidInput("CSV cannot hold the answers of several queries", "--output", names, hint)
        if len(queries) > 1 and self.out_is_file:
            hint = "name a folder, for one Parquet file per query"
            raise InvalidInput("one file cannot hold the answers of several queries", "--out", names, hint)

    def show(
        self,
        answers: CollectedAnswers,
        content: RunInput,
        runner: ClassRunner,
        measured: str,
        notes: Sequence[str],
    ) -> None:
        """Write the answers, the measurements, and notes on rows that were left out."""
        console = screen(self.output)
        for query in content.queries:
            table = answers.table(query.name)
            if self.out is not None:
                write_file(
                    table, query.name, self.out if self.out_is_file else self.out / f"{query.name}.parquet"
                )
            if self.output == "json":
                write_json(table, query.name, sys.stdout)
            elif self.output == "csv":
                write_csv(table, query.name, sys.stdout)
            elif self.out is None:
                console.print(rows_table(query.name, table))
        notes = [*notes, *losses(runner)]
        if self.output in ("json", "csv"):
            warn(notes)
            return
        if self.explain:
            for stream in content.inferred:
                console.print(create_stream(stream), markup=False, highlight=False, soft_wrap=True)
            console.print(explain_table(runner))
        console.print(closing_table(content.queries, answers, runner))
        for line in [measured, *notes]:
            console.print(line, markup=False, highlight=False)


def write_file(table: pa.Table, query: str, path: Path) -> None:
    """Write the answers of a query in the format that the ending of the path names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        (write_csv if path.suffix == ".csv" else write_json)(table, query, file)


def write_json(table: pa.Table, query: str, file: TextIO) -> None:
    """Write JSON, one object per line."""
    for batch in table.to_batches():
        for row in batch.to_pylist():
            file.write(json.dumps({"query": query, **row}, default=str) + "\n")


def write_csv(table: pa.Table, _: str, file: TextIO) -> None:
    """Write CSV with a header line."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.column_names)
    for batch in table.to_batches():
        writer.writerows([whole(value) for value in row.values()] for row in batch.to_pylist())


def rows_table(name: str, table: pa.Table) -> Sheet:
    note = ", the last rows shown" if len(table) > ROWS_SHOWN else ""
    title = f"{name}: {len(table):,} rows{note}"
    shown = Sheet(title, table.column_names, left=0, least=("_seq", "_kept"))
    for row in table.slice(max(0, len(table) - ROWS_SHOWN)).to_pylist():
        shown.add_row(*(cell(value) for value in row.values()))
    return shown


def cell(value: object) -> str:
    if value is None:
        return "NULL"
    return digits(value, 6) if isinstance(value, float) else str(value)


def explain_table(runner: ClassRunner) -> Sheet:
    """Return a table of the operators with their measurements in the whole run."""
    heads = ("#", "operator", "feeds", "queries", "tuples", "out", "selectivity", "ns/tuple")
    table = Sheet("operator network", heads, left=4)
    for line, node in zip(explained(runner), runner.network.nodes, strict=True):
        # A pane operator emits no tuples, only the progress of event time. So its output and selectivity stay empty.
        passes = not node.tells
        cost_s = node.mean_cost_s
        cells = (
            str(line.number),
            line.name,
            ",".join(map(str, line.feeds)) or "–",
            ",".join(line.queries[:4]) + ("…" if len(line.queries) > 4 else ""),
            f"{line.tuples:,}",
            f"{node.given:,}" if passes else "–",
            f"{node.given / line.tuples:.4g}" if passes and line.tuples else "–",
            f"{1e9 * cost_s:,.1f}" if cost_s is not None and line.tuples else "–",
        )
        table.add_row(*cells)
    return table


def closing_table(queries: Sequence[Query], answers: CollectedAnswers, runner: ClassRunner) -> Sheet:
    table = Sheet("response times", ("query", "rows", "mean ms", "p95 ms", "max ms"))
    for query in queries:
        measured = runner.answers.quality[query.name].responses.response_ms()
        table.add_row(
            query.name,
            f"{sum(map(len, answers.trains[query.name])):,}",
            response(measured["mean"]),
            response(measured["p95"]),
            response(measured["max"]),
        )
    return table


def losses(runner: ClassRunner) -> Iterator[str]:
    """Yield a line for each reason why tuples are missing from the answers."""
    for source, late in late_rows(runner.network.nodes).items():
        if late:
            yield f"{source}: {late:,} tuples came too late for their windows and were left out"
    for node in runner.network.nodes:
        for reason, count in node.failed.items():
            yield f"{node.name} of {', '.join(sorted(node.users))}: {count:,} tuples failed: {reason}"
