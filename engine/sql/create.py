"""CREATE STREAM: declares the columns of a stream, its event time, and how late its tuples may be.

    CREATE STREAM readings (ts timestamp, sensor int32, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')

The watermark's column must be a timestamp, or an int64 of milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from engine.data.schema import Field, Schema, StreamSchema, TypeKind
from engine.sql.dialect import TypeName, WeirParser, read
from engine.sql.errors import Text
from engine.sql.terms.literals import interval_us
from engine.sql.terms.type_names import type_named

EXAMPLE = "CREATE STREAM name (ts timestamp, x float64, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')"
COLUMNS_MAX = 1_000
LATENESS_MAX_US = 366 * 86_400_000_000
MILLISECOND_US = 1_000


class ColumnOf(exp.Expression):
    """Column of the declaration: its name and type."""


class WatermarkOf(exp.Expression):
    """Watermark of the declaration: its column, and its delay."""


class StreamOf(exp.Expression):
    """Declared stream: its name, columns and watermark."""


class StreamParser(WeirParser):
    """Parser for one CREATE STREAM."""

    def read_stream(self) -> StreamOf:
        if not self._match_text_seq("CREATE", "STREAM"):
            self._refuse("the declaration of a stream does not begin with CREATE STREAM", hint=EXAMPLE)
        name = self._name("the name of the stream")
        if not self._match(TokenType.L_PAREN):
            self._refuse("the columns are missing here", hint=EXAMPLE)
        parts = self._parse_csv(self._part)
        if not self._match(TokenType.R_PAREN):
            self._refuse("a comma or the closing parenthesis is missing here", self._seen)
        if self._curr:
            self._refuse("unexpected text", self._seen)
        return StreamOf(this=name, expressions=parts)

    def _part(self) -> exp.Expr:
        if self._curr.text.upper() == "WATERMARK" and self._next.text.upper() == "FOR":
            return self._watermark()
        return self._column()

    def _column(self) -> ColumnOf:
        name = self._name("the name of a column")
        return ColumnOf(this=name, kind=self._type_name())

    def _watermark(self) -> WatermarkOf:
        self._advance(2)
        column = self._name("the column of the watermark")
        if not self._match(TokenType.ALIAS):
            self._refuse("AS is missing here", hint=EXAMPLE)
        start = self._curr
        behind = self._operand()
        base, length = (behind.this, behind.expression) if isinstance(behind, exp.Sub) else (behind, None)
        if not isinstance(base, exp.Column) or base.name.lower() != column.name.lower():
            raise Text(self.sql).error(
                start.start, "a watermark must be its column, or its column minus an interval", hint=EXAMPLE
            )
        return WatermarkOf(this=column, behind=length)

    def _name(self, what: str) -> exp.Expr:
        name = self._parse_id_var(any_token=False)
        if name is None:
            self._refuse(f"{what} is missing here", self._seen, EXAMPLE)
        return name


# The result is cached, because every change of the declarations parses all statements again.
@lru_cache(maxsize=2000)
def parse_create_stream(sql: str) -> StreamSchema:
    """Return the stream that a CREATE STREAM declares; raise a PlanningError for a faulty statement."""
    text = Text(sql)
    tree = read(sql, StreamParser, StreamParser.read_stream)
    assert isinstance(tree, StreamOf)
    columns = [expression for expression in tree.expressions if isinstance(expression, ColumnOf)]
    watermarks = [expression for expression in tree.expressions if isinstance(expression, WatermarkOf)]
    if not columns:
        raise text.error(tree, "the stream has no columns", hint=EXAMPLE)
    if len(columns) > COLUMNS_MAX:
        raise text.error(columns[COLUMNS_MAX], f"a stream can have at most {COLUMNS_MAX:,} columns")
    schema = schema_of(text, columns)
    if not watermarks:
        return StreamSchema(tree.name, schema)
    if len(watermarks) > 1:
        raise text.error(watermarks[1], "a stream can have only one watermark", len(watermarks))
    return _timed(text, tree.name, schema, watermarks[0])


def schema_of(text: Text, columns: Sequence[ColumnOf]) -> Schema:
    """Return the schema of the columns; raise a PlanningError if two names differ only in case."""
    fields: dict[str, Field] = {}
    for column in columns:
        kind = column.args["kind"]
        assert isinstance(kind, TypeName)
        if column.name.lower() in fields:
            raise text.error(column, "two columns have the same name", column.name)
        fields[column.name.lower()] = Field(column.name, type_named(text, kind))
    return Schema(tuple(fields.values()))


def _timed(text: Text, name: str, schema: Schema, watermark: WatermarkOf) -> StreamSchema:
    place = schema.index(watermark.name)
    if place is None:
        raise text.error(watermark, "there is no such column", watermark.name, ", ".join(schema.names))
    kind = schema.fields[place].type.kind
    if kind not in (TypeKind.TIMESTAMP, TypeKind.INT64):
        what = "event time must be a timestamp, or an int64 of milliseconds since the epoch"
        raise text.error(watermark, what, f"{watermark.name} {schema.fields[place].type}")
    behind = watermark.args.get("behind")
    lateness_us = 0 if behind is None else _lateness_us(text, behind)
    return StreamSchema(name, schema, place, lateness_us, 1 if kind is TypeKind.TIMESTAMP else MILLISECOND_US)


def _lateness_us(text: Text, behind: exp.Expr) -> int:
    length = interval_us(text, behind)
    if length is None:
        raise text.error(behind, "the delay of a watermark must be an interval", text.of(behind), EXAMPLE)
    if not 0 <= length <= LATENESS_MAX_US:
        raise text.error(behind, "the delay of a watermark must be 0 to 366 days", text.of(behind))
    return length
