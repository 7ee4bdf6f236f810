"""Writing on the driver: a micro-batch is collected on the driver as Arrow and published in one call.

Up to a few hundred thousand rows per batch, writing on the driver costs less than half as much as writing on the executors. One
query may write to several streams: one Spark job evaluates the conditions of all streams, and each stream gets the batch once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pyspark_weir.client import Batch, GatewayClient
from pyspark_weir.errors import OptionError
from pyspark_weir.options import nearest, write_options
from pyspark_weir.sink import QUERY_PROPERTY

Conditions = Mapping[str, str]
Columns = Mapping[str, Sequence[str]]
# Name of the column that is true for rows that meet the condition of a stream.
# The name contains the number of the stream, because the name of a stream may not be valid in a column name.
TAKES = "__weir_takes_{}"


def to_weir(
    *,
    endpoint: str,
    stream: str | None = None,
    split: Conditions | None = None,
    columns: Columns | None = None,
    api_key: str | None = None,
    timestamp_column: str | None = None,
    schema_policy: str | None = None,
    timeout_seconds: float | None = None,
    batch_rows: int | None = None,
    producer: str | None = None,
    ca_file: str | None = None,
    server_name: str | None = None,
    on_published: Callable[[str, pa.Table], None] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for `df.writeStream.foreachBatch` that publishes every micro-batch exactly once.

    If all rows go to one stream, give `stream`. For several streams, give `split`: a condition in Spark's SQL for each stream,
    where a row may go to several streams or to none. `columns` lists the columns of a stream that does not take all columns.
    `producer` names the producer outside a streaming query; in a streaming query, the query's id names the producer.
    Each time the gateway has acknowledged rows, `on_published` is called with the stream's name and these rows. The other
    parameters are options of `format("weir")`.
    """
    if stream is not None and split is not None:
        raise OptionError(
            "to_weir: exactly one of stream and split is needed; give stream for one stream, or split={stream: condition, …} for several"
        )
    if split is not None and not split:
        raise OptionError("split: no stream is given (got {}); write split={stream: condition, …}")
    options = {
        "endpoint": endpoint,
        "stream": stream if split is None else next(iter(split)),
        "apiKey": api_key,
        "timestampColumn": timestamp_column,
        "schemaPolicy": schema_policy,
        "timeoutSeconds": timeout_seconds,
        "batchRows": batch_rows,
        "producer": producer,
        "caFile": ca_file,
        "serverName": server_name,
    }
    written = write_options(
        {name: str(value) for name, value in options.items() if value is not None}, "write"
    )
    streams = [written.stream] if split is None else list(split)
    for name in columns or ():
        if name not in streams:
            raise OptionError(
                f"columns: {name!r} is not one of the streams that are written; {nearest(name, streams)}"
            )
    gateway = GatewayClient(written.connection)

    def publish(df: DataFrame, batch_id: int) -> None:
        batch = Batch(written.producer or query_of(df), batch_id)
        tables = tables_of(df, streams, split, columns or {})
        for name, rows in tables.items():
            gateway.publish(replace(written, stream=name), batch, rows)
            if on_published is not None:
                on_published(name, rows)

    return publish


def query_of(df: DataFrame) -> str:
    query = df.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
    if not query:
        raise OptionError(
            "producer is missing: outside a streaming query there is no query id; write to_weir(producer=…)"
        )
    return query


def tables_of(
    df: DataFrame, streams: Sequence[str], split: Conditions | None, columns: Columns
) -> dict[str, pa.Table]:
    """Return the rows of the micro-batch for each stream. One Spark job computes the rows of all streams."""
    if split is None and not columns:
        return {name: df.toArrow() for name in streams}
    chosen = {name: list(columns.get(name, df.columns)) for name in streams}
    for name, columns_wanted in chosen.items():
        for column in columns_wanted:
            if column not in df.columns:
                raise OptionError(f"columns[{name!r}]: no column {column!r}; {nearest(column, df.columns)}")
    conditions = split or dict.fromkeys(streams, "true")
    takes = {name: TAKES.format(place) for place, name in enumerate(streams)}
    needed = [quoted(column) for column in df.columns if any(column in names for names in chosen.values())]
    whole = df.select(*needed, *(sql.expr(conditions[name]).alias(takes[name]) for name in streams)).toArrow()
    return {name: whole.filter(whole.column(takes[name])).select(chosen[name]) for name in streams}


def quoted(column: str) -> str:
    """Return the name of a column in backquotes, between which Spark accepts any characters."""
    return f"`{column.replace('`', '``')}`"
