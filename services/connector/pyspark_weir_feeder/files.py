"""Files with the rows of a replay. The functions find the files, detect the format by the ending, and read whole files into Arrow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.fs
import pyarrow.json

from pyspark_weir_feeder.options import FileFormat
from pyspark_weir_feeder.problems import ChangedReplay, InvalidOption

ENDINGS: dict[str, FileFormat] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")


@dataclass(frozen=True)
class File:
    uri: str
    size: int
    changed_ns: int | None
    file_format: FileFormat


def find_files(paths: tuple[str, ...], file_format: FileFormat | None) -> tuple[File, ...]:
    """Return the files at `paths`. Files in a directory are sorted by path, without names that begin with . or _."""
    return tuple(file for path in paths for file in files_at(path, file_format))


def files_at(path: str, file_format: FileFormat | None) -> list[File]:
    system, inner = located(path)
    info = system.get_file_info(inner)
    if info.type == pa.fs.FileType.NotFound:
        raise InvalidOption("path", "there is no such file or directory", path)
    if info.is_file:
        return [file_of(path, info, file_format)]
    below = system.get_file_info(pa.fs.FileSelector(inner, recursive=True))
    files = {entry.path[len(inner) :].lstrip("/"): entry for entry in below if entry.is_file}
    shown = sorted(name for name in files if not any(part[0] in "._" for part in name.split("/")))
    if not shown:
        raise InvalidOption("path", "the directory holds no files", path)
    return [file_of(f"{path.rstrip('/')}/{name}", files[name], file_format) for name in shown]


def located(path: str) -> tuple[pa.fs.FileSystem, str]:
    system, inner = pa.fs.FileSystem.from_uri(path if "://" in path else os.path.abspath(path))
    return system, inner.rstrip("/")


def file_of(uri: str, info: pa.fs.FileInfo, file_format: FileFormat | None) -> File:
    return File(uri, info.size, info.mtime_ns, file_format or format_of(uri))


def format_of(uri: str) -> FileFormat:
    stem, ending = os.path.splitext(uri.lower())
    if ending in COMPRESSED:
        ending = os.path.splitext(stem)[1]
    if ending not in ENDINGS:
        raise InvalidOption(
            "path",
            f"the ending of the file name is not one of {' '.join(ENDINGS)}; set the option fileFormat",
            uri,
        )
    return ENDINGS[ending]


def schema_of(files: tuple[File, ...]) -> pa.Schema:
    """Return a schema with the columns of all files. The types of the schema can represent the values of every file."""
    try:
        return pa.unify_schemas([schema_of_file(file) for file in files], promote_options="permissive")
    except pa.ArrowException as problem:
        raise InvalidOption(
            "path", f"a column has incompatible types in different files: {problem}"
        ) from problem


def schema_of_file(file: File) -> pa.Schema:
    if READERS[file.file_format] is read_dataset:
        return dataset(file).schema.remove_metadata()
    return read_file(file, None, pa.schema([])).schema


def read_files(files: tuple[File, ...], names: list[str], types: pa.Schema) -> pa.Table:
    """Return the columns `names` of all files. CSV and JSON are parsed as `types`. Files of other formats contain the types."""
    tables = [read_file(file, names, types) for file in files]
    return pa.concat_tables(tables, promote_options="permissive")


def read_file(file: File, names: list[str] | None, types: pa.Schema) -> pa.Table:
    system, inner = located(file.uri)
    info = system.get_file_info(inner)
    if (info.size, info.mtime_ns) != (file.size, file.changed_ns):
        raise ChangedReplay(
            f"{file.uri} has changed since the query began; restore the file, or start with a new checkpoint"
        )
    try:
        table = READERS[file.file_format](file, names, types)
    except pa.ArrowException as problem:
        raise InvalidOption(
            "path", f"{file.uri} is not a valid {file.file_format} file: {problem}"
        ) from problem
    table = table.replace_schema_metadata(None)
    return table if names is None else table.select([name for name in names if name in table.column_names])


def read_dataset(file: File, names: list[str] | None, _: pa.Schema) -> pa.Table:
    rows = dataset(file)
    return rows.to_table(names and [name for name in names if name in rows.schema.names])


def read_csv(file: File, _: list[str] | None, types: pa.Schema) -> pa.Table:
    with unpacked(file) as source:
        return pa.csv.read_csv(source, convert_options=pa.csv.ConvertOptions(column_types=declared(types)))


def read_json(file: File, _: list[str] | None, types: pa.Schema) -> pa.Table:
    with unpacked(file) as source:
        return pa.json.read_json(source, parse_options=pa.json.ParseOptions(explicit_schema=declared(types)))


READERS = {"parquet": read_dataset, "arrow": read_dataset, "csv": read_csv, "json": read_json}


def declared(types: pa.Schema) -> pa.Schema:
    """Return the declared types without timestamps. If a timestamp type was declared, Arrow would accept only texts with a time zone."""
    return pa.schema([field for field in types if not pa.types.is_timestamp(field.type)])


def dataset(file: File) -> pa.dataset.Dataset:
    system, inner = located(file.uri)
    return pa.dataset.dataset(inner, filesystem=system, format=file.file_format)


def unpacked(file: File) -> Any:
    system, inner = located(file.uri)
    return system.open_input_stream(inner, compression="detect")
