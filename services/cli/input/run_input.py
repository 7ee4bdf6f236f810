"""The input of `weir run`: SQL from its argument, a file or stdin, and rows of streams and tables from files.

A stream that the SQL does not declare gets the columns and types of its file. Only `weir run` reads files; the SQL of
a service reads declared streams and tables.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from sqlglot.tokenizer_core import Token, TokenType

from configs.errors import InvalidInput, UnknownName, nearest
from engine.data.schema import STRING, Field, Schema, StreamSchema, TableSchema
from engine.plan.plan import Query, Scan
from engine.plan.plan_references import sources
from engine.sql import (
    PlanningError,
    SqlCatalog,
    Statement,
    parse_create_mirror,
    parse_create_stream,
    plan_query,
    split_statements,
)
from engine.sql.dialect import WINDOW_FUNCTIONS, tokenized
from engine.sql.select import NO_SUCH_STREAM
from engine.sql.statements import FILE_BYTES_MAX
from services.cli.input.files import has_format, read_table
from services.cli.input.schema_inference import fitting, infer, times_of, type_of

STDIN = "-"
GIVE_SQL = 'write a file, SQL in quotes such as "SELECT * FROM s", or - for stdin'


@dataclass(frozen=True)
class Sql:
    """Text of SQL statements, with the name of its file for error messages."""

    text: str
    file: str = ""

    def error(self, problem: PlanningError, statement: Statement | None = None) -> PlanningError:
        """Return the error with its line and column counted in the whole text instead of in one statement."""
        if statement is not None:
            problem = problem.moved(statement.line_offset, statement.column_offset)
        problem.file = self.file
        return problem.shown_in(self.text)


@dataclass
class RunInput:
    """Streams and queries of a run, and the rows of the streams."""

    streams: list[StreamSchema] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)
    rows: dict[str, pa.Table] = field(default_factory=dict)
    inferred: list[StreamSchema] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    wants_explain: bool = False


def sql_of(argument: str) -> Sql:
    """Return the SQL of an argument: the argument itself, the contents of a file, or stdin for `-`."""
    if argument == STDIN:
        return Sql(sys.stdin.read(), "stdin")
    path = Path(argument).expanduser()
    try:
        is_file = path.exists()
    except (OSError, ValueError):  # A text that is too long or invalid as a path is SQL.
        is_file = False
    if not is_file and len(argument.split()) > 1 and path.suffix != ".sql":
        return Sql(argument)
    if not is_file:
        raise InvalidInput("there is no such file", "SQL", argument, GIVE_SQL)
    try:
        return Sql(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the SQL file cannot be read: {error}", "SQL", argument, GIVE_SQL) from None


def given(
    sql: Sql | None, files: Mapping[str, Path], tables: Mapping[str, pa.Table], times: Sequence[str]
) -> RunInput:
    """Return the input of a run: declared and inferred streams and, if there is SQL, queries."""
    content = RunInput()
    if sql is None:
        read_streams(content, files, times_of(times))
        return content
    try:
        text, named = with_files_named(sql.text)
    except PlanningError as problem:
        raise sql.error(problem) from None
    files = {**named, **files}
    check_stdin(sql, files)
    statements = statements_of(sql, text)
    declare(content, sql, statements)
    words = {token.text.lower() for token in tokenized(text, FILE_BYTES_MAX)}
    check_names(files, words, content.streams)
    read_streams(content, files, times_of(times))
    catalog = SqlCatalog.of(tables=[table_schema(name, table) for name, table in tables.items()])
    plan(content, sql, statements, catalog)
    check_inputs(content)
    return content


def check_stdin(sql: Sql, files: Mapping[str, Path]) -> None:
    """Raise InvalidInput if more than one input would be read from stdin."""
    streams = [name for name, path in files.items() if str(path) == STDIN]
    readers = [*(["the SQL"] if sql.file == "stdin" else []), *(f"--input {name}" for name in streams)]
    if len(readers) > 1:
        hint = "write the SQL in quotes, or name files of rows"
        raise InvalidInput(
            "several inputs are to be read from stdin, which can be read only once",
            "--input",
            ", ".join(readers),
            hint,
        )


def with_files_named(text: str) -> tuple[str, dict[str, Path]]:
    """Replace each `FROM 'file'` in the SQL by `FROM "file"`, which names a stream. Return the new SQL, and the files by stream name."""
    tokens = tokenized(text, FILE_BYTES_MAX)
    files: dict[str, Path] = {}
    for place, token in enumerate(tokens):
        written = text[token.start : token.end + 1]
        if token.token_type is not TokenType.STRING or not is_after_from(tokens, place):
            continue
        path = Path(token.text).expanduser()
        # A string with escapes is not replaced, because its replacement would shift the positions of all later tokens.
        if has_format(path) and written == f"'{token.text}'" and '"' not in token.text:
            files[token.text] = path
            text = f'{text[: token.start]}"{token.text}"{text[token.end + 1 :]}'
    return text, files


def is_after_from(tokens: Sequence[Token], place: int) -> bool:
    """Return True for a token at which FROM, JOIN, TUMBLE or HOP expects a stream."""
    before = tokens[max(0, place - 2) : place]
    if len(before) < 2:
        return False
    if before[-1].token_type is TokenType.L_PAREN:
        return before[0].text.upper() in WINDOW_FUNCTIONS
    # The FROM of `x IS DISTINCT FROM 'text'` names no stream.
    return (
        before[-1].token_type in (TokenType.FROM, TokenType.JOIN)
        and before[0].token_type is not TokenType.DISTINCT
    )


def statements_of(sql: Sql, text: str) -> list[Statement]:
    """Return the statements of the SQL; raise InvalidInput if none of them is a query."""
    try:
        statements = split_statements(text)
    except PlanningError as problem:
        raise sql.error(problem) from None
    if all(statement.kind in ("stream", "mirror") for statement in statements):
        raise InvalidInput(
            "there is no query in the SQL", "SQL", sql.file or None, "add SELECT … FROM stream …"
        )
    return statements


def declare(content: RunInput, sql: Sql, statements: Iterable[Statement]) -> None:
    """Add the streams and mirrors that the statements declare."""
    for statement in statements:
        try:
            if statement.kind == "stream":
                content.streams.append(parse_create_stream(statement.text))
            elif statement.kind == "mirror":
                content.streams.append(parse_create_mirror(statement.text).stream)
        except PlanningError as problem:
            raise sql.error(problem, statement) from None


def check_names(files: Iterable[str], words: set[str], streams: Sequence[StreamSchema]) -> None:
    """Raise UnknownName if --input names a stream that no statement declares and no query reads."""
    declared = [stream.name for stream in streams]
    for name in files:
        if name.lower() not in words and name.lower() not in map(str.lower, declared):
            hints = [nearest(name, declared)] if declared else []
            hint = "; ".join([*hints, f"write FROM {name} in a query"])
            raise UnknownName(
                "no query reads this stream, and no CREATE STREAM declares it", "--input", name, hint
            )


def read_streams(content: RunInput, files: Mapping[str, Path], times: Mapping[str, str]) -> None:
    """Read the file of each stream; infer the streams that no statement declares."""
    declared = {stream.name.lower(): stream for stream in content.streams}
    timed = set(times)
    for name, path in files.items():
        stream = declared.get(name.lower())
        if stream is not None:
            texts = [column.name for column in stream.schema.fields if column.type == STRING]
            content.rows[stream.name] = read_table(path, f"--input {name}", texts)
            continue
        table = read_table(path, f"--input {name}")
        time = times.get(name.lower())
        if time is None and times.get("", "").lower() in map(str.lower, table.column_names):
            time = times[""]
            timed.discard("")
        timed.discard(name.lower())
        inferred = infer(name, table, time)
        content.streams.append(inferred.stream)
        content.inferred.append(inferred.stream)
        content.rows[name] = inferred.rows
        for column, type_ in inferred.left_out.items():
            content.notes.append(f"{name}: column {column} is left out: streams have no type for {type_}")
    for name in timed:
        check_time(name, times[name], declared)


def check_time(name: str, column: str, declared: Mapping[str, StreamSchema]) -> None:
    """Raise InvalidInput for a `--time` option that applies to no inferred stream."""
    if name in declared:
        hint = f"leave out --time {name}.{column}: the WATERMARK of the stream names its event time"
        raise InvalidInput(
            "this option cannot be used for a stream that CREATE STREAM declares", "--time", name, hint
        )
    if name:
        raise UnknownName(
            "no --input reads a stream of this name", "--time", name, "name a stream of --input"
        )
    raise UnknownName(
        "no stream that --input reads has a column of this name",
        "--time",
        column,
        "name a column of an --input file",
    )


def plan(content: RunInput, sql: Sql, statements: Iterable[Statement], catalog: SqlCatalog) -> None:
    """Plan the queries over the tables, the inferred streams, and the streams declared before each query."""
    inferred = {stream.name for stream in content.inferred}
    declared = iter([stream for stream in content.streams if stream.name not in inferred])
    for stream in content.inferred:
        catalog = catalog.with_entry(stream)
    for statement in statements:
        if statement.kind in ("stream", "mirror"):
            catalog = catalog.with_entry(next(declared))
            continue
        try:
            query = plan_query(statement.name, statement.text, catalog)
        except PlanningError as problem:
            if problem.title == NO_SUCH_STREAM:
                name, names = str(problem.value), catalog.names()
                hints = [nearest(name, names)] if names else []
                problem.hint = "; ".join([*hints, f"--input {name}=FILE reads it from a file of rows"])
            raise sql.error(problem, statement) from None
        content.queries.append(query)
        content.wants_explain |= statement.kind == "explain"
        catalog = catalog.with_query(query)


def check_inputs(content: RunInput) -> None:
    """Raise InvalidInput if a query reads a stream that has no rows."""
    for query in content.queries:
        for name in (source.stream.name for source in sources(query.plan) if isinstance(source, Scan)):
            if name not in content.rows:
                raise InvalidInput(
                    f"query {query.name} reads this stream, but no --input reads rows of the stream",
                    "--input",
                    name,
                    f"add --input {name}=FILE",
                )


def assigned(pairs: Sequence[str], option: str) -> dict[str, Path]:
    """Return a mapping from NAME to FILE for options of the form NAME=FILE."""
    files = {}
    for pair in pairs:
        name, _, path = pair.partition("=")
        if not name or not path:
            raise InvalidInput(
                "the value must be NAME=FILE", option, pair, f"for example {option} readings=readings.parquet"
            )
        files[name] = Path(path).expanduser()
    return files


def static_tables(pairs: Sequence[str]) -> tuple[dict[str, pa.Table], list[str]]:
    """Return the rows of static tables in supported types, and a note for each column that is left out."""
    tables: dict[str, pa.Table] = {}
    notes: list[str] = []
    for name, path in assigned(pairs, "--table").items():
        tables[name], left_out = fitting(read_table(path, f"--table {name}"))
        for column, type_ in left_out.items():
            notes.append(f"{name}: column {column} is left out: tables have no type for {type_}")
    return tables, notes


def table_schema(name: str, table: pa.Table) -> TableSchema:
    """Return the schema of a static table."""
    fields = tuple(Field(column.name, type_of(column.type, column.name)) for column in table.schema)
    return TableSchema(name, Schema(fields))
