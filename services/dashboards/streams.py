"""The dashboard of input: streams at the gateways, feeds that Spark reads, and mirrors of remote objects."""

from services.dashboards.boards import (
    GREEN,
    OF_STREAMS,
    ORANGE,
    PER_S,
    RED,
    ROWS_PER_S,
    STREAM,
    YELLOW,
    Board,
    Panel,
    PanelQuery,
    Row,
    lost_by,
    per_second,
    rate_by,
    worst,
)

WITH_SPARK = "Spark reads a feed"
WITH_MIRRORS = "a mirror is declared"
BY_STREAM = "{{stream}}"
STALLED = (
    "count(sum by (stream) (increase(weir_stream_rows_total{"
    + OF_STREAMS
    + "}[$__rate_interval])) == 0) or vector(0)"
)
KEPT = (
    f"max by (stream) (weir_stream_retained_bytes{{{OF_STREAMS}}}"
    f" / (weir_stream_retained_limit_bytes{{{OF_STREAMS}}} > 0))"
)

AT_A_GLANCE = Row(
    "At a glance",
    (
        Panel(
            "Incoming rows",
            "Rows per second that the gateways accept, of all chosen streams.",
            ROWS_PER_S,
            (PanelQuery(f"sum({per_second('weir_stream_rows_total', OF_STREAMS)})"),),
            kind="stat", width=4, height=5, thresholds=((None, "blue"),),
        ),
        Panel(
            "Streams without rows",
            "Number of streams without rows in the last minutes. Some streams have natural pauses; a stream that should never pause is stalled.",
            "short",
            (PanelQuery(STALLED),),
            kind="stat", width=5, height=5, thresholds=((None, GREEN), (1, YELLOW)),
        ),
        Panel(
            "Rejected rows",
            "Number of rows in the time range that have no event time, or a value that does not fit its column. Such rows are kept in the stream's folder `dead`, with the reason.",
            "short",
            (PanelQuery(f"sum(increase(weir_stream_dead_letters_total{{{OF_STREAMS}}}[$__range]))"),),
            kind="stat", width=5, height=5, thresholds=((None, GREEN), (1, ORANGE)), decimals=0,
        ),
        Panel(
            "Feeds that do not run",
            "Number of feeds with a Spark query that is starting, waits after a failure, or is run by no process. `weir get feeds` shows the last error.",
            "short",
            (PanelQuery(f"count(weir_feed_running{{{OF_STREAMS}}} == 0) or vector(0)"),),
            kind="stat", width=5, height=5, thresholds=((None, GREEN), (1, RED)), texts={"0": "none"},
        ),
        Panel(
            "Longest micro-batch",
            "Duration of the last micro-batch of the slowest feed. This duration is most of the time between a row's arrival at its source and at Weir.",
            "s",
            (PanelQuery(f"max(weir_feed_batch_seconds{{{OF_STREAMS}}})"),),
            kind="stat", width=5, height=5, thresholds=((None, GREEN), (1, YELLOW), (10, RED)), empty_unless=WITH_SPARK,
        ),
    ),
)  # fmt: skip

GATEWAYS = Row(
    "At the gateways",
    (
        Panel(
            "Rows accepted",
            "Accepted rows per second, by stream.",
            ROWS_PER_S,
            (PanelQuery(rate_by("stream", "weir_stream_rows_total", OF_STREAMS), BY_STREAM),),
            width=8, stacked=True,
        ),
        Panel(
            "Rows per batch",
            "Mean number of rows per batch. In small batches, each row costs more processor time.",
            "short",
            (
                PanelQuery(
                    f"{rate_by('stream', 'weir_stream_rows_total', OF_STREAMS)}"
                    f" / ({rate_by('stream', 'weir_stream_batches_total', OF_STREAMS)} > 0)",
                    BY_STREAM,
                ),
            ),
            width=8,
        ),
        Panel(
            "Batches refused",
            "Batches per second that a gateway refused because the stream's log was full. Producers send such batches again later.",
            PER_S,
            (PanelQuery(rate_by("stream", "weir_stream_refused_batches_total", OF_STREAMS), BY_STREAM),),
            width=8,
        ),
        Panel(
            "Rejected rows, by stream",
            "Rows per second without an event time, or with a value that does not fit its column.",
            ROWS_PER_S,
            (PanelQuery(rate_by("stream", "weir_stream_dead_letters_total", OF_STREAMS), BY_STREAM),),
            width=8,
        ),
        Panel(
            "Log used for recovery",
            "Used part of a stream's log, which keeps input for classes that restart. At 100%, producers must wait for lossless classes, "
            "and other classes lose their oldest input.",
            "percentunit",
            (PanelQuery(KEPT, BY_STREAM),),
            width=8, max=1, thresholds=((None, GREEN), (0.8, YELLOW), (1.0, RED)),
        ),
        Panel(
            "Producers",
            "Number of producers that number their batches, so that a repeated batch counts once. The last 10,000 producers are remembered.",
            "short",
            (PanelQuery(f"sum by (stream) (weir_stream_producers{{{OF_STREAMS}}})", BY_STREAM),),
            width=8, thresholds=((None, GREEN), (10_000, RED)),
        ),
    ),
)  # fmt: skip

SPARK = Row(
    "Spark",
    (
        Panel(
            "Lag behind the source",
            "Number of offsets at a feed's source that Spark has not processed yet. If this lag grows, Spark is slower than the source.",
            "short",
            (PanelQuery(f"max by (stream) (weir_feed_lag_rows{{{OF_STREAMS}}})", BY_STREAM),),
            width=8, empty_unless="a feed's source reports its newest offset",
        ),
        Panel(
            "Micro-batches",
            "Duration of the last micro-batch of each feed.",
            "s",
            (PanelQuery(f"max by (stream) (weir_feed_batch_seconds{{{OF_STREAMS}}})", BY_STREAM),),
            width=8, empty_unless=WITH_SPARK,
        ),
        Panel(
            "Rows read by Spark",
            "Rows per second that Spark reads. After a failure some rows are read again; Weir accepts each row once.",
            ROWS_PER_S,
            (PanelQuery(rate_by("stream", "weir_feed_rows_total", OF_STREAMS), BY_STREAM),),
            width=8, stacked=True, empty_unless=WITH_SPARK,
        ),
        Panel(
            "Restarts of feeds",
            "Number of times that a feed's query was restarted after a failure. The query resumes where it had stopped; rows that are read twice count once.",
            "short",
            (PanelQuery(f"sum by (stream) (increase(weir_feed_restarts_total{{{OF_STREAMS}}}[$__rate_interval]))", BY_STREAM),),
            width=12, empty_unless=WITH_SPARK,
        ),
        Panel(
            "Running feeds",
            "1 while a feed's query runs; 0 while the query starts or waits after a failure, or while no process runs the query.",
            "short",
            (PanelQuery(f"min by (stream) (weir_feed_running{{{OF_STREAMS}}})", BY_STREAM),),
            width=12, max=1, empty_unless=WITH_SPARK,
        ),
    ),
)  # fmt: skip

MIRRORS = Row(
    "Mirrors",
    (
        Panel(
            "Perceived freshness",
            "Part of the uses of a mirror's objects that found a fresh copy. If the measured part is below the expected part, change rates or interests have just changed, "
            "or polls fail.",
            "percentunit",
            (
                PanelQuery(f"max by (stream) (weir_mirror_perceived_freshness_ratio{{{OF_STREAMS}}})", BY_STREAM),
                PanelQuery(f"max by (stream) (weir_mirror_expected_freshness_ratio{{{OF_STREAMS}}})", "{{stream}}, expected"),
            ),
            width=8, max=1, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Polls",
            "Polls of remote objects per second, by result.",
            PER_S,
            (PanelQuery(rate_by("stream, result", "weir_mirror_polls_total", OF_STREAMS), "{{stream}} {{result}}"),),
            width=8, stacked=True, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Failing objects",
            "Part of a mirror's objects of which the last poll failed, and part that was never fetched. The mirror's status shows the reason. "
            "Objects that can be fetched get the bandwidth.",
            "percentunit",
            (
                PanelQuery(
                    f"max by (stream) (weir_mirror_failing_objects{{{OF_STREAMS}}} / (weir_mirror_objects{{{OF_STREAMS}}} > 0))",
                    BY_STREAM,
                ),
                PanelQuery(
                    f"max by (stream) (1 - weir_mirror_held_objects{{{OF_STREAMS}}} / (weir_mirror_objects{{{OF_STREAMS}}} > 0))",
                    "{{stream}}, not fetched",
                ),
            ),
            width=8, max=1, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Bandwidth used",
            "Part of a mirror's bandwidth that polls use. Below 100%, polls fail, or changes cannot be published to the stream.",
            "percentunit",
            (PanelQuery(f"max by (stream) (weir_mirror_bandwidth_used_ratio{{{OF_STREAMS}}})", BY_STREAM),),
            width=8, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Uses of objects",
            "Uses of a mirror's objects per second, counted from the answers of its lookup query. From these uses the mirror estimates the interest in each object.",
            PER_S,
            (PanelQuery(rate_by("stream", "weir_mirror_uses_total", OF_STREAMS), BY_STREAM),),
            width=8, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Polling mirrors",
            "1 while a mirror polls; 0 while the mirror starts, or waits because the store of its objects does not answer or lacks the declared keys.",
            "short",
            (PanelQuery(f"min by (stream) (weir_mirror_running{{{OF_STREAMS}}})", BY_STREAM),),
            width=8, max=1, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Rows of mirrors",
            "Rows per second that mirrors publish to their streams.",
            ROWS_PER_S,
            (PanelQuery(rate_by("stream", "weir_mirror_rows_total", OF_STREAMS), BY_STREAM),),
            width=8, stacked=True, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Bytes fetched",
            "Bytes per second that polls fetch: HTTP and object answers with headers, database rows as text.",
            "bytes",
            (PanelQuery(rate_by("stream", "weir_mirror_bytes_total", OF_STREAMS), BY_STREAM),),
            width=8, stacked=True, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Recomputed frequencies",
            "Number of times per second that a mirror recomputes its refresh frequencies. Below 0.5 per second, the process is overloaded.",
            PER_S,
            (PanelQuery(rate_by("stream", "weir_mirror_solves_total", OF_STREAMS), BY_STREAM),),
            width=8, empty_unless=WITH_MIRRORS,
        ),
    ),
)  # fmt: skip

READERS = Row(
    "Input of tenants",
    (
        Panel(
            "Offered to tenants",
            "Tuples per second offered to all tenants that read a stream. A row counts once for each tenant.",
            ROWS_PER_S,
            (PanelQuery(rate_by("stream", "weir_class_offered_tuples_total", OF_STREAMS), BY_STREAM),),
            width=8, stacked=True,
        ),
        Panel(
            "Lost by stream",
            "Part of a stream's offered tuples that was not processed, for the ten highest.",
            "percentunit",
            (PanelQuery(worst(lost_by("stream", OF_STREAMS)), BY_STREAM),),
            width=8, max=1,
        ),
        Panel(
            "Queued for tenants",
            "Tuples of a stream that wait for a tenant's first operator, for the ten longest queues.",
            "short",
            (
                PanelQuery(
                    worst(f"sum by (stream, tenant) (weir_class_queued_tuples{{{OF_STREAMS}}})"),
                    "{{tenant}} {{stream}}",
                ),
            ),
            width=8, of_tenants=True,
        ),
    ),
)  # fmt: skip

STREAMS = Board(
    "weir-streams",
    "Weir / Streams and Spark",
    "Does input arrive, which rows were rejected, and do Spark and mirrors keep up?",
    (STREAM,),
    (AT_A_GLANCE, GATEWAYS, SPARK, MIRRORS, READERS),
)
