"""`weir run`: queries over files, at full speed or paced, as a class would run them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
import typer
from rich.console import Console
from rich.table import Table

from configs.limits import ClassLimits
from configs.policies import policy_of
from configs.problems import InvalidInput, UnknownName, nearest
from configs.reading import parse_model
from configs.windows import WindowSettings
from engine.explain import explain as explained
from engine.plan import Query
from engine.runner import ClassRunner
from engine.schema import DataType, Field, Kind, Schema, StreamSchema, TableSchema
from engine.sql import (
    Catalog,
    PlanningError,
    parse_create_mirror,
    parse_create_stream,
    plan_query,
    split_statements,
)
from engine.train import Train, train_from_arrow, train_to_arrow
from services.cli.progress import progress
from services.cli.tables import milliseconds, plain_table

ROWS_SHOWN = 10
SLICE_S = 1.0
LIMITS = ClassLimits()
WINDOWS = WindowSettings()


@dataclass
class Answers:
    """What the queries have answered, with sequence numbers and kept fractions, until the end."""

    plain: dict[str, Schema] = field(default_factory=dict)
    schemas: dict[str, pa.Schema] = field(default_factory=dict)
    batches: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def expect(self, query: Query) -> None:
        extra = [pa.field("_seq", pa.int64()), pa.field("_kept", pa.float64())]
        self.schemas[query.name] = pa.schema([*query.plan.schema.arrow, *extra])
        self.plain[query.name] = query.plan.schema
        self.batches[query.name], self.rows[query.name] = [], 0

    def __call__(self, query: str, out: Train) -> None:
        first = self.rows[query]
        self.rows[query] = first + len(out)
        arrays = train_to_arrow(out, self.plain[query]).columns
        arrays += [pa.array(np.arange(first, first + len(out))), pa.array(np.full(len(out), out.kept))]
        self.batches[query].append(pa.RecordBatch.from_arrays(arrays, schema=self.schemas[query]))

    def table(self, query: str) -> pa.Table:
        return pa.Table.from_batches(self.batches[query], self.schemas[query])


def run(
    file: Annotated[Path, typer.Argument(help="CREATE STREAM statements and queries.", show_default=False)],
    inputs: Annotated[
        list[str],
        typer.Option(
            "--input", "-i", help="STREAM=FILE (Parquet, Arrow, CSV, JSON lines).", show_default=False
        ),
    ],
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", help="NAME=FILE of a static table (Parquet, CSV).", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write each query's answers into this folder as Parquet.", show_default=False),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Tuples a second; full speed without it.", show_default=False)
    ] = None,
    train: Annotated[int, typer.Option(min=1, max=10_000_000, help="Tuples a train.")] = 10_000,
    policy: Annotated[str, typer.Option("--policy", "-p", help="Level-2 policy.")] = "hr",
    limit_groups: Annotated[
        int, typer.Option(min=1, help="Keys of groups and joins that are held at one time, at most.")
    ] = LIMITS.groups,
    limit_state: Annotated[
        int,
        typer.Option(min=1, help="Bytes of windows, joins and queues that are held at one time, at most."),
    ] = LIMITS.state_bytes,
    schedule: Annotated[
        str,
        typer.Option(
            "--windows", help="How SLIDE AT MOST is scheduled: none aggressive conservative hybrid."
        ),
    ] = WINDOWS.schedule,
    late: Annotated[
        str, typer.Option("--late", help="What of it is answered together when late: off late late-pending.")
    ] = WINDOWS.late,
    as_json: Annotated[
        bool, typer.Option("--json", help="Answers as JSON lines on stdout, nothing else.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the operator network as measured.")
    ] = False,
) -> None:
    """Run continuous queries over files: how a query is tried before it is registered."""
    static = {
        name: read_table(path, f"--table {name}") for name, path in assigned(tables or [], "--table").items()
    }
    streams, queries, wants_explain = planned(
        file, {name: table_schema(name, table) for name, table in static.items()}
    )
    data = {
        find_stream(name, streams): read_table(path, f"--input {name}")
        for name, path in assigned(inputs, "--input").items()
    }
    answers = Answers()
    for query in queries:
        answers.expect(query)
    loaded = {
        name: train_from_arrow(table, table_schema(name, table).schema, 0.0) for name, table in static.items()
    }
    limits = ClassLimits(queries=len(queries), groups=limit_groups, state_bytes=limit_state)
    windows = parse_model(WindowSettings, {"schedule": schedule, "late": late}, "--windows, --late")
    runner = ClassRunner(answers, policy_of(policy), train, loaded, limits, windows)
    runner.add(*queries)
    total = sum(len(table) for table in data.values())
    began = time.perf_counter()
    with progress("running", total) as advance:
        feed(
            runner,
            {stream: conformed(data[stream.name], stream) for stream in streams if stream.name in data},
            train,
            rate,
            advance,
        )
    elapsed_s = time.perf_counter() - began
    show(answers, queries, runner, out, as_json, explain or wants_explain, total, elapsed_s)


def planned(file: Path, tables: Mapping[str, TableSchema]) -> tuple[list[StreamSchema], list[Query], bool]:
    """The file's streams and queries, and whether it asks to EXPLAIN one."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"cannot be read: {error}", "FILE", str(file), "give the path of an SQL file"
        ) from None
    streams: list[StreamSchema] = []
    queries: list[Query] = []
    catalog = Catalog.of(tables=tables.values())
    statements = split_statements(text)
    for statement in statements:
        try:
            if statement.kind in ("stream", "mirror"):
                is_mirror = statement.kind == "mirror"
                streams.append(
                    parse_create_mirror(statement.text).stream
                    if is_mirror
                    else parse_create_stream(statement.text)
                )
                catalog = catalog.with_entry(streams[-1])
            else:
                queries.append(plan_query(statement.name, statement.text, catalog))
                catalog = catalog.with_query(queries[-1])
        except PlanningError as problem:
            problem = problem.moved(statement.line_offset, statement.column_offset)
            problem.file = str(file)
            raise problem from None
    if not queries:
        raise InvalidInput("there is no query in it", "FILE", str(file), "add SELECT … FROM stream …")
    return streams, queries, any(statement.kind == "explain" for statement in statements)


def assigned(pairs: Sequence[str], option: str) -> dict[str, Path]:
    """NAME=FILE options."""
    found = {}
    for pair in pairs:
        name, _, path = pair.partition("=")
        if not name or not path:
            raise InvalidInput(
                "must be NAME=FILE", option, pair, f"for example {option} readings=readings.parquet"
            )
        found[name] = Path(path)
    return found


def find_stream(name: str, streams: Sequence[StreamSchema]) -> str:
    for stream in streams:
        if stream.name.lower() == name.lower():
            return stream.name
    raise UnknownName("no such stream", "--input", name, nearest(name, [one.name for one in streams]))


def read_table(path: Path, option: str) -> pa.Table:
    """A file by its ending."""
    try:
        match path.suffix.lower():
            case ".parquet":
                return pyarrow.parquet.read_table(path)
            case ".arrow" | ".feather" | ".ipc":
                with pa.memory_map(str(path)) as source:
                    return pa.ipc.open_file(source).read_all()
            case ".csv":
                return pyarrow.csv.read_csv(path)
            case ".json" | ".jsonl" | ".ndjson":
                return pyarrow.json.read_json(path)
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(
            f"cannot be read: {error}", option, str(path), "check the path and the format"
        ) from None
    raise InvalidInput("not a format that is read", option, str(path), "use .parquet, .arrow, .csv or .jsonl")


def table_schema(name: str, table: pa.Table) -> TableSchema:
    return TableSchema(
        name, Schema(tuple(Field(one.name, type_of(one.type, one.name)) for one in table.schema))
    )


def type_of(arrow: pa.DataType, column: str) -> DataType:
    """Our type of an Arrow column."""
    if pa.types.is_decimal(arrow):
        return DataType(Kind.DECIMAL, arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow):
        return DataType(Kind.TIMESTAMP)
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return DataType(Kind.STRING)
    names = {"bool": "boolean", "float": "float32", "double": "float64", "int16": "int32", "int8": "int32"}
    kind = names.get(str(arrow), str(arrow))
    if kind in set(Kind):
        return DataType(Kind(kind))
    raise InvalidInput(
        "a type that tables cannot have", column, str(arrow), "cast the column to another type"
    )


def conformed(table: pa.Table, stream: StreamSchema) -> pa.Table:
    """The table in the stream's columns and types, in the order of event time; without rows that have none."""
    columns = {name.lower(): name for name in table.column_names}
    arrays = []
    for one in stream.schema.fields:
        name = columns.get(one.name.lower())
        if name is None:
            raise UnknownName(
                "the input has no such column", stream.name, one.name, nearest(one.name, table.column_names)
            )
        try:
            arrays.append(table.column(name).cast(one.type.arrow))
        except pa.ArrowException as error:
            hint = f"declare the column as the file has it ({table.column(name).type})"
            raise InvalidInput(f"column {name} is not {one.type}: {error}", stream.name, None, hint) from None
    conformed_table = pa.Table.from_arrays(arrays, schema=stream.schema.arrow)
    if stream.time is not None:
        conformed_table = conformed_table.filter(conformed_table.column(stream.time).is_valid())
    return conformed_table.combine_chunks()


def feed(
    runner: ClassRunner, data: Mapping[StreamSchema, pa.Table], train: int, rate: float | None, advance: Any
) -> None:
    """All inputs in the order of event time, in trains; paced if a rate is given."""
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
        runner.refresh()


def turns(data: Mapping[StreamSchema, pa.Table], train: int) -> Iterator[tuple[StreamSchema, pa.Table]]:
    """Parts of the streams so that none runs ahead of the others by more than a train's event time."""
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
            known = times[stream]
            upto = (
                len(table)
                if last or reached is None or known is None
                else int(np.searchsorted(known, reached, "right"))
            )
            for begin in range(sent[stream], upto, train):
                yield stream, table.slice(begin, min(train, upto - begin))
            sent[stream] = max(upto, sent[stream])


def event_times(stream: StreamSchema, table: pa.Table) -> Any:
    """Event times that never fall, in microseconds; None without event time."""
    if stream.time is None:
        return None
    column = table.column(stream.time).cast(pa.int64()).to_numpy()
    return np.maximum.accumulate(column * stream.time_unit_us)


def show(
    answers: Answers, queries: Sequence[Query], runner: ClassRunner, out: Path | None, as_json: bool, explain: bool,
    tuples: int, elapsed_s: float,
) -> None:  # fmt: skip
    console = Console()
    for query in queries:
        table = answers.table(query.name)
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            pyarrow.parquet.write_table(table, out / f"{query.name}.parquet")
        if as_json:
            for row in table.to_pylist():
                typer.echo(json.dumps({"query": query.name, **row}, default=str))
        elif out is None:
            console.print(rows_table(query.name, table))
    if as_json:
        return
    if explain:
        console.print(explain_table(runner))
    console.print(closing_table(queries, answers, runner))
    console.print(
        f"{tuples:,} tuples in {elapsed_s:.2f} s: {tuples / max(elapsed_s, 1e-9):,.0f} tuples/s",
        highlight=False,
    )
    for line in losses(runner):
        console.print(line, highlight=False)


def rows_table(name: str, table: pa.Table) -> Table:
    shown = plain_table(
        f"{name}: {len(table):,} rows" + (", the last ones" if len(table) > ROWS_SHOWN else ""),
        table.column_names,
        left=0,
    )
    for row in table.slice(max(0, len(table) - ROWS_SHOWN)).to_pylist():
        shown.add_row(*(cell(value) for value in row.values()))
    return shown


def cell(value: object) -> str:
    if value is None:
        return "NULL"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def explain_table(runner: ClassRunner) -> Table:
    table = plain_table(
        "operator network",
        ("#", "operator", "feeds", "queries", "tuples", "ns/tuple", "selectivity", "rate 1/s"),
        left=4,
    )
    for line in explained(runner):
        table.add_row(
            str(line.number),
            line.name,
            ",".join(map(str, line.feeds)) or "–",
            ",".join(line.queries[:4]) + ("…" if len(line.queries) > 4 else ""),
            f"{line.tuples:,}",
            f"{1e3 * line.cost_us:,.1f}",
            f"{line.selectivity:.4g}",
            f"{line.rate:,.0f}",
        )
    return table


def closing_table(queries: Sequence[Query], answers: Answers, runner: ClassRunner) -> Table:
    table = plain_table("response times", ("query", "rows", "mean ms", "p95 ms", "max ms"))
    for query in queries:
        response = runner.quality[query.name].responses.response_ms()
        table.add_row(
            query.name,
            f"{len(answers.table(query.name)):,}",
            milliseconds(response["mean"]),
            milliseconds(response["p95"]),
            milliseconds(response["max"]),
        )
    return table


def losses(runner: ClassRunner) -> Iterator[str]:
    """What did not get into the answers, and why."""
    for source, late in runner.late().items():
        if late:
            yield f"{source}: {late:,} tuples came too late for their windows and were left out"
    for node in runner.network.nodes:
        for reason, count in node.failed.items():
            yield f"{node.name} of {', '.join(sorted(node.users))}: {count:,} tuples failed: {reason}"
