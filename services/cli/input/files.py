"""Files of rows that commands read, with their formats, compression, folders and patterns.

A path names one file, a folder or a pattern such as `parts/*.csv`. Files of folders and patterns are read in the order
of their names. CSV and JSON may be compressed; JSON is an object per line, or an array of objects.
"""

from __future__ import annotations

import glob
import gzip
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from configs.errors import InvalidInput, similar

PARQUET, CSV = (".parquet",), (".csv",)
ARROW = (".arrow", ".feather", ".ipc")
JSON = (".json", ".jsonl", ".ndjson")
FORMATS = (*PARQUET, *ARROW, *CSV, *JSON)
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
USE_FORMATS = "use .parquet, .arrow, .csv or .jsonl; .csv and .jsonl may be compressed (.gz)"
PATTERN = "*?["
# Number of bytes at the beginning of a JSON file that are read to find out whether the file holds an array.
BEGINNING_BYTES = 1_000
GZIP, PARQUET_BYTES = b"\x1f\x8b", b"PAR1"


STDIN = Path("-")


def has_format(path: Path) -> bool:
    """Return True if the path is `-`, a folder, or has the ending of a supported format."""
    return path == STDIN or format_of(path) in FORMATS or path.is_dir()


def format_of(path: Path) -> str:
    """Return the ending that names the format, without the ending of a compression."""
    name = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return name.suffix.lower()


def read_table(path: Path, option: str, texts: Collection[str] = ()) -> pa.Table:
    """Return the rows of a file, a folder, a pattern or stdin (`-`). In CSV and JSON, columns named in `texts` are read as text."""
    if path == STDIN:
        return read_stdin(option, texts)
    tables = [read_file(file, option, texts) for file in files_of(path, option)]
    if len(tables) == 1:
        return tables[0]
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidInput(
            f"the files have columns of incompatible types: {error}",
            option,
            str(path),
            "read files with other columns as another stream",
        ) from None


def files_of(path: Path, option: str) -> Sequence[Path]:
    """Return the files that a path names; raise InvalidInput if there are none."""
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and format_of(file) in FORMATS)
        if not files:
            raise InvalidInput(
                "this folder has no file of a supported format", option, str(path), USE_FORMATS
            )
        return files
    if path.exists():
        return [path]
    if any(sign in str(path) for sign in PATTERN):
        files = sorted(map(Path, glob.glob(str(path), recursive=True)))
        if not files:
            raise InvalidInput("no file matches this pattern", option, str(path), "check the path")
        return files
    if format_of(path) not in FORMATS:
        raise unknown_format(path, option)
    raise no_such_file(path, option)


def no_such_file(path: Path, option: str) -> InvalidInput:
    """Return the error for a path that does not exist, with the most similar name as a hint."""
    try:
        there = [file.name for file in path.parent.iterdir()]
    except OSError:
        return InvalidInput("there is no such folder", option, str(path.parent), "check the path")
    close = similar(path.name, there)
    hint = f"did you mean {path.parent / close[0]}?" if close else "check the path"
    return InvalidInput("there is no such file", option, str(path), hint)


def unknown_format(path: Path, option: str) -> InvalidInput:
    return InvalidInput("the file does not have a supported format", option, str(path), USE_FORMATS)


def read_file(path: Path, option: str, texts: Collection[str]) -> pa.Table:
    """Return the rows of one file, in the format that its ending names."""
    try:
        match format_of(path):
            case ending if ending in PARQUET:
                return pyarrow.parquet.read_table(path, partitioning=None)
            case ending if ending in ARROW:
                with pa.memory_map(str(path)) as source:
                    return pa.ipc.open_file(source).read_all()
            case ending if ending in CSV:
                return read_csv(path, texts)
            case ending if ending in JSON:
                return read_json(path, texts)
    except (OSError, pa.ArrowException, orjson.JSONDecodeError) as error:
        raise InvalidInput(
            f"the file cannot be read: {error}", option, str(path), "check the file and its format"
        ) from None
    raise unknown_format(path, option)


def read_stdin(option: str, texts: Collection[str]) -> pa.Table:
    """Return the rows on stdin: Parquet, JSON (lines or an array) or CSV, decided by the first bytes."""
    content = sys.stdin.buffer.read()
    try:
        if content.startswith(GZIP):
            content = gzip.decompress(content)
        if not content.strip():
            raise InvalidInput(
                "stdin has no rows", option, str(STDIN), "pipe CSV, JSON lines or Parquet to stdin"
            )
        if content.startswith(PARQUET_BYTES):
            return pyarrow.parquet.read_table(pa.BufferReader(content))
        return (read_json if content.lstrip()[:1] in (b"{", b"[") else read_csv)(content, texts)
    except (OSError, pa.ArrowException, orjson.JSONDecodeError) as error:
        raise InvalidInput(
            f"stdin cannot be read: {error}", option, str(STDIN), "pipe CSV, JSON lines or Parquet to stdin"
        ) from None


def opened(source: Path | bytes) -> Any:
    """Open bytes or a file for reading. A file is decompressed if its ending names a compression."""
    if isinstance(source, bytes):
        return pa.input_stream(pa.py_buffer(source))
    return pa.input_stream(str(source), compression="detect")


def read_csv(path: Path | bytes, texts: Collection[str]) -> pa.Table:
    """Return the rows of a CSV file. Types are guessed from the first rows or, if later rows do not fit, from all rows."""
    types: Mapping[str, pa.DataType] = {}
    if texts:
        with opened(path) as stream, pyarrow.csv.open_csv(stream) as head:
            types = as_texts(head.schema.names, texts)
    convert = pyarrow.csv.ConvertOptions(column_types=types)
    try:
        with opened(path) as stream:
            return pyarrow.csv.read_csv(stream, convert_options=convert)
    except pa.ArrowInvalid:
        with opened(path) as stream:
            content = stream.read()
        whole = pyarrow.csv.ReadOptions(block_size=len(content) + 1)
        return pyarrow.csv.read_csv(pa.BufferReader(content), whole, convert_options=convert)


def read_json(path: Path | bytes, texts: Collection[str]) -> pa.Table:
    """Return the rows of JSON lines or of an array; a text column that holds only times becomes a timestamp column."""
    with opened(path) as stream:
        is_array = stream.read(BEGINNING_BYTES).lstrip()[:1] == b"["
    parse = None
    if texts:
        parse = pyarrow.json.ParseOptions(explicit_schema=pa.schema([(name, pa.string()) for name in texts]))
    if is_array:
        with opened(path) as stream:
            table = parsed_json(b"\n".join(map(orjson.dumps, orjson.loads(stream.read()))), parse)
    else:
        try:
            with opened(path) as stream:
                table = pyarrow.json.read_json(stream, parse_options=parse)
        except pa.ArrowInvalid:
            with opened(path) as stream:
                table = parsed_json(stream.read(), parse)
    kept = as_texts(table.column_names, texts)
    for place, field in enumerate(table.schema):
        if field.type == pa.string() and field.name not in kept:
            table = table.set_column(place, field.name, timestamps(table.column(place)))
    return table


def parsed_json(content: bytes, parse: pyarrow.json.ParseOptions | None) -> pa.Table:
    """Return the rows of JSON lines, with types guessed from all rows."""
    whole = pyarrow.json.ReadOptions(block_size=len(content) + 1)
    return pyarrow.json.read_json(pa.BufferReader(content), whole, parse)


def timestamps(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts as timestamps if all of them are times; times without an offset are UTC."""
    if column.null_count == len(column):
        return column
    for type_ in (pa.timestamp("us", tz="UTC"), pa.timestamp("us")):
        try:
            return column.cast(type_)
        except pa.ArrowInvalid:
            continue
    return column


def as_texts(names: Sequence[str], texts: Collection[str]) -> Mapping[str, pa.DataType]:
    """Return the text type for each column that `texts` names, ignoring case."""
    names_as_text = {name.lower() for name in texts}
    return {name: pa.string() for name in names if name.lower() in names_as_text}
