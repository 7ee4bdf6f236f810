"""`weir rows put`: send the rows of a file to a stream, through the service."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import pyarrow as pa
import typer

from configs.documents.declarations import StreamDeclaration
from configs.errors import InvalidInput, NotAllowed, WeirError
from engine.data.schema import TypeKind
from services.cli.completion import streams
from services.cli.input.files import read_table
from services.cli.lazy_commands import CommandGroup
from services.cli.service_location import service
from services.cli.tables.catalog_views import OutputOption, show, warn
from services.cli.tables.sheet import Description
from services.common.weir_home import unusable
from services.ingest.declared_streams import read_declaration
from services.remote.models import RowsPut

if TYPE_CHECKING:
    from services.client import Client

STDIN = "-"
TEXT = (".json", ".jsonl", ".ndjson")
CSV = ".csv"
BOOLEANS = {"true": True, "false": False}
# Maximum size of one request, well below the limits of a service.
BATCH_ROWS = 10_000
BATCH_BYTES = 4 << 20
Rows = Sequence[Mapping[str, Any]]

rows = CommandGroup(help="Send rows to streams that have no source.", no_args_is_help=True)


@rows.command()
def put(
    stream: Annotated[str, typer.Argument(help="Stream that receives the rows.", autocompletion=streams)],
    file: Annotated[
        str,
        typer.Argument(
            help="File of rows: Parquet, Arrow, CSV, JSON lines or a JSON array; `-` reads JSON lines from standard input."
        ),
    ],
    batch: Annotated[
        str | None,
        typer.Option(
            help="Name of this upload. An upload that is repeated with the same file and name adds no row twice.",
            show_default="each upload adds its rows",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Send rows even to a stream that has a source or a feed.")
    ] = False,
    output: OutputOption = "table",
) -> None:
    """Send the rows of a file to a stream. Exit code 1 if some rows were rejected."""
    accepted, rejected, reasons = 0, 0, Counter[str]()
    with service() as weir:
        try:
            for number, part in enumerate(batches(file, partial(kinds_of, weir, stream))):
                name = None if batch is None else f"{batch}-{number}"
                answer = weir.put_rows(stream, part, name, force=force)
                accepted, rejected = accepted + answer.accepted, rejected + answer.rejected
                reasons.update(answer.reasons)
        except WeirError:
            if accepted:
                warn([f"{accepted:,} rows were accepted before this error"])
            raise
    fields = RowsPut(accepted=accepted, rejected=rejected, reasons=dict(reasons)).model_dump()
    show(output, fields, lambda: Description(stream, fields))
    if rejected:
        raise typer.Exit(1)


def kinds_of(weir: Client, stream: str) -> dict[str, TypeKind] | None:
    """Return the types of a stream's columns by lower-case name; None if the key may not read the stream."""
    try:
        entry = weir.get("Stream", stream)
    except NotAllowed:
        return None
    assert isinstance(entry.declaration, StreamDeclaration)
    schema = read_declaration(entry.declaration.name, entry.declaration).schema
    return {field.name.lower(): field.type.kind for field in schema.fields}


def batches(file: str, kinds: Callable[[], dict[str, TypeKind] | None]) -> Iterator[Rows | pa.Table]:
    """Yield the rows of a file in batches, each small enough for one request."""
    if file == STDIN:
        yield from cut(
            row_of(line, f"line {n}") for n, line in enumerate(sys.stdin.buffer, 1) if line.strip()
        )
    elif Path(file).suffix.lower() in TEXT:
        yield from cut(rows_of_text(Path(file)))
    elif Path(file).suffix.lower() == CSV and (kinds_known := kinds()) is not None:
        yield from cut(rows_of_csv(Path(file), kinds_known))
    else:
        table = read_table(Path(file), "FILE")
        each = max(1, min(BATCH_ROWS, BATCH_BYTES * len(table) // max(1, table.nbytes)))
        for first in range(0, len(table), each):
            yield table.slice(first, each)


def rows_of_text(path: Path) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield the rows of a file of JSON lines or of a JSON array, each with its size in bytes."""
    try:
        with path.open("rb") as lines:
            is_array = lines.read(1000).lstrip()[:1] == b"["
            lines.seek(0)
            if is_array:
                values = parsed(lines.read(), str(path))
                for number, value in enumerate(values):
                    yield checked(value, f"{path}: row {number + 1}"), len(orjson.dumps(value))
                return
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield row_of(line, f"{path}: line {number}")
    except OSError as problem:
        raise unusable(problem, "the file cannot be read", path, "FILE", hint="check the path") from None


def rows_of_csv(path: Path, kinds: Mapping[str, TypeKind]) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield the rows of a CSV file with their sizes. The first line names the columns; an empty cell is NULL."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines)
            names = next(reader, [])
            for cells in filter(None, reader):
                if len(cells) != len(names):
                    hint = "give every row a cell for each column"
                    title = f"the row has {len(cells):,} cells and the first line has {len(names):,}"
                    raise InvalidInput(title, file=f"{path}: line {reader.line_num}", hint=hint)
                row = {
                    name: value_of(cell, kinds.get(name.lower()))
                    for name, cell in zip(names, cells, strict=True)
                }
                yield row, sum(map(len, cells)) + 4 * len(cells)
    except OSError as problem:
        raise unusable(problem, "the file cannot be read", path, "FILE", hint="check the path") from None
    except (UnicodeDecodeError, csv.Error) as problem:
        raise InvalidInput(
            f"the file is not valid CSV: {problem}", "FILE", str(path), "save it as UTF-8"
        ) from None


def value_of(cell: str, kind: TypeKind | None) -> object:
    """Return a CSV field as a JSON value. Text that does not fit its column's type stays text, so that the service rejects the row."""
    if not cell:
        return None
    try:
        match kind:
            case TypeKind.INT32 | TypeKind.INT64:
                return int(cell)
            case TypeKind.FLOAT32 | TypeKind.FLOAT64:
                return float(cell)
            case TypeKind.BOOLEAN:
                return BOOLEANS.get(cell.strip().lower(), cell)
            case TypeKind.TIMESTAMP:
                at = datetime.fromisoformat(cell.strip())
                # A timestamp without a time zone is in UTC, as in `weir run`.
                return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat()
    except ValueError:
        pass
    return cell


def row_of(line: bytes, place: str) -> tuple[Mapping[str, Any], int]:
    """Return a row and its size in bytes."""
    return checked(parsed(line, place), place), len(line)


def parsed(text: bytes, place: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        raise InvalidInput(
            f"the line is not valid JSON: {problem}", file=place, hint="write one object per line"
        ) from None


def checked(row: object, place: str) -> Mapping[str, Any]:
    if not isinstance(row, dict):
        raise InvalidInput(
            "a row must be a JSON object", value=row, file=place, hint='write {"column": value}'
        )
    return row


def cut(found: Iterable[tuple[Mapping[str, Any], int]]) -> Iterator[Rows]:
    """Split rows into batches that fit into one request."""
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
