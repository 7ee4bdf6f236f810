"""The columns of the replay: as Spark declares them, and the one that holds event time."""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from pyspark_weir_feeder.conditions import STREAM_COLUMN, parse_split
from pyspark_weir_feeder.files import find_files, schema_of
from pyspark_weir_feeder.options import Options
from pyspark_weir_feeder.problems import InvalidOption, nearest

# What Spark lacks, as the least type that holds it.
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
    """What Spark takes the replay for, if the user does not say."""
    schema = schema_of(find_files(options.paths, options.file_format))
    split = parse_split(options.split) if options.split else ()
    columns_asked = {
        "columns": options.columns,
        "split": [name for branch in split for name in branch.columns],
    }
    for option, names in columns_asked.items():
        for name in names:
            if name not in schema.names:
                raise InvalidOption.named(option, f"there is no column {name}; {nearest(name, schema.names)}")
    fields = [declared_field(schema.field(name)) for name in options.columns or schema.names]
    if split:
        fields.append(declared_field(pa.field(STREAM_COLUMN, pa.string())))
    return StructType(fields)


def declared_field(field: pa.Field) -> StructField:
    try:
        return StructField(field.name, from_arrow_type(REPLACED.get(field.type, field.type)), nullable=True)
    except PySparkTypeError as problem:
        what = f"Spark has no type for column {field.name}, which is {field.type}; name the others"
        raise InvalidOption.named("columns", what) from problem


def time_column_of(options: Options, schema: pa.Schema) -> str | None:
    """The declared one, or the only timestamp there is; None if event time plays no part."""
    is_generated = options.event_time == "clock" or options.event_rate is not None
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    if options.time_column is not None:
        return checked(options.time_column, schema, times, is_generated)
    if not is_generated and not options.loop:
        return None
    if len(times) > 1:
        raise InvalidOption.named("timeColumn", f"is missing; there are several: {', '.join(times)}")
    if is_generated and not times:
        raise InvalidOption.named("timeColumn", "is missing, and no column is a timestamp")
    return times[0] if times else None


def checked(name: str, schema: pa.Schema, times: list[str], made: bool) -> str:
    if name not in schema.names:
        raise InvalidOption.named("timeColumn", f"there is no column {name}; {nearest(name, schema.names)}")
    if name not in times and made:
        raise InvalidOption.named("timeColumn", "eventTime=clock and eventRate need a timestamp", name)
    if name not in times and not pa.types.is_int64(schema.field(name).type):
        raise InvalidOption.named("timeColumn", "must be a timestamp or of 64-bit whole numbers", name)
    return name
