"""Columns of a replay: the types of the columns in Spark, and the event-time column."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from pyspark_weir_feeder.conditions import STREAM_COLUMN, parse_split
from pyspark_weir_feeder.files import find_files, schema_of
from pyspark_weir_feeder.options import Options
from pyspark_weir_feeder.problems import InvalidOption, nearest

# Arrow types that Spark lacks, each with the smallest type of Spark that can represent all its values.
REPLACED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time64("ns"),
    pa.time32("ms"): pa.time64("ns"),
    pa.null(): pa.string(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}


def declared_schema(options: Options) -> StructType:
    """Return the schema of the replay in Spark, for a user who gives no schema."""
    schema = schema_of(find_files(options.paths, options.file_format))
    split = parse_split(options.split) if options.split else ()
    split_columns = [name for branch in split for name in branch.columns]
    for option, names in (("columns", options.columns), ("split", split_columns)):
        for name in names:
            if name not in schema.names:
                raise InvalidOption(option, f"there is no column {name}; {nearest(name, schema.names)}")
    fields = [declared_field(schema.field(name)) for name in options.columns or schema.names]
    if split:
        fields.append(declared_field(pa.field(STREAM_COLUMN, pa.string())))
    return StructType(fields)


def declared_field(field: pa.Field) -> StructField:
    try:
        return StructField(field.name, from_arrow_type(REPLACED.get(field.type, field.type)), nullable=True)
    except PySparkTypeError as problem:
        what = f"Spark has no type for column {field.name} ({field.type}); list all columns except this one"
        raise InvalidOption("columns", what) from problem


def time_column_of(options: Options, schema: pa.Schema) -> str | None:
    """Return the event-time column: the declared column, or else the only timestamp column; None if no column is found or needed."""
    is_generated = options.event_time == "clock" or options.event_rate is not None
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    if (name := options.time_column) is not None:
        if name not in schema.names:
            raise InvalidOption("timeColumn", f"there is no column {name}; {nearest(name, schema.names)}")
        if name not in times and is_generated:
            what = "the column must be a timestamp if eventTime=clock or eventRate is set"
            raise InvalidOption("timeColumn", what, name)
        if name not in times and not pa.types.is_int64(schema.field(name).type):
            raise InvalidOption("timeColumn", "the column must be a timestamp or a 64-bit integer", name)
        return name
    if not is_generated and not options.loop:
        return None
    if len(times) > 1:
        raise InvalidOption(
            "timeColumn", f"the option is missing; set it to one of the timestamp columns: {', '.join(times)}"
        )
    if is_generated and not times:
        raise InvalidOption(
            "timeColumn",
            "the option is missing, and no column is a timestamp; leave out eventTime and eventRate",
        )
    return times[0] if times else None
