"""`weir rows put`: rows of a file go to a stream, through the service."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
import pyarrow as pa
import typer

from configs.problems import InvalidInput, WeirError
from services.cli.catalog_views import OutputOption, pairs_table, show, warn
from services.cli.completion import streams
from services.cli.here import service
from services.cli.run import read_table
from services.remote.models import RowsPut

STDIN = "-"
TEXT = (".json", ".jsonl", ".ndjson")
# Of one request; well below what a service takes.
BATCH_ROWS = 10_000
BATCH_BYTES = 4 << 20
Rows = Sequence[Mapping[str, Any]]

rows = typer.Typer(help="Rows of streams that nobody else brings.", no_args_is_help=True)


@rows.command()
def put(
    stream: Annotated[str, typer.Argument(help="Which.", autocompletion=streams)],
    file: Annotated[
        str, typer.Argument(help="Parquet, Arrow, CSV, JSON lines or a JSON array; `-`: JSON lines of stdin.")
    ],
    batch: Annotated[
        str | None,
        typer.Option(
            help="Name of these rows: the same file under the same name is taken once.",
            show_default="taken again each time",
        ),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Bring rows to a stream. Exit code 1 if some of them were not taken."""
    total = RowsPut(accepted=0, rejected=0)
    with service() as weir:
        try:
            for number, part in enumerate(batches(file)):
                name = None if batch is None else f"{batch}-{number}"
                total = together(total, weir.put_rows(stream, part, name))
        except WeirError:
            if total.accepted:
                warn([f"{total.accepted:,} rows were taken before this went wrong"])
            raise
    told = total.model_dump()
    show(output, told, lambda: pairs_table(stream, told))
    if total.rejected:
        raise typer.Exit(1)


def together(one: RowsPut, other: RowsPut) -> RowsPut:
    reasons = dict(one.reasons)
    for reason, count in other.reasons.items():
        reasons[reason] = reasons.get(reason, 0) + count
    return RowsPut(
        accepted=one.accepted + other.accepted, rejected=one.rejected + other.rejected, reasons=reasons
    )


def batches(file: str) -> Iterator[Rows | pa.Table]:
    """The rows of a file, some at a time."""
    if file == STDIN:
        yield from cut(
            row_of(line, f"line {n}") for n, line in enumerate(sys.stdin.buffer, 1) if line.strip()
        )
    elif Path(file).suffix.lower() in TEXT:
        yield from cut(rows_of_text(Path(file)))
    else:
        table = read_table(Path(file), "FILE")
        each = max(1, min(BATCH_ROWS, BATCH_BYTES * len(table) // max(1, table.nbytes)))
        for first in range(0, len(table), each):
            yield table.slice(first, each)


def rows_of_text(path: Path) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Of JSON lines, or of an array."""
    try:
        with path.open("rb") as lines:
            is_array = lines.read(1000).lstrip()[:1] == b"["
            lines.seek(0)
            if is_array:
                found = parsed(lines.read(), str(path))
                for number, one in enumerate(found):
                    yield checked(one, f"{path}: row {number + 1}"), len(orjson.dumps(one))
                return
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield row_of(line, f"{path}: line {number}")
    except OSError as problem:
        why = (problem.strerror or str(problem)).lower()
        raise InvalidInput(f"cannot be read: {why}", "FILE", str(path), "check the path") from None


def row_of(line: bytes, place: str) -> tuple[Mapping[str, Any], int]:
    """A row, and its bytes."""
    return checked(parsed(line, place), place), len(line)


def parsed(text: bytes, place: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        raise InvalidInput(f"not valid JSON: {problem}", file=place, hint="write one object a line") from None


def checked(row: object, place: str) -> Mapping[str, Any]:
    if not isinstance(row, dict):
        raise InvalidInput("a row must be an object", value=row, file=place, hint='write {"column": value}')
    return row


def cut(found: Iterable[tuple[Mapping[str, Any], int]]) -> Iterator[Rows]:
    """Into batches that a request has room for."""
    batch: list[Mapping[str, Any]] = []
    size = 0
    for row, row_bytes in found:
        if batch and (len(batch) == BATCH_ROWS or size + row_bytes > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += row_bytes
    if batch:
        yield batch
