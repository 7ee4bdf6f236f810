"""Does input arrive? Streams at the gateways, and in front of them Spark, and mirrors of remote objects."""

from __future__ import annotations

from services.dashboards.boards import (
    GREEN,
    OF_STREAMS,
    ORANGE,
    RED,
    STREAM,
    YELLOW,
    Board,
    Panel,
    PanelQuery,
    Row,
    per_second,
    rate_by,
    worst,
)

WITH_SPARK = "a stream is brought by Spark"
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
            "Rows coming in",
            "Rows a second that the gateways accept, of all chosen streams.",
            "rowsps",
            (PanelQuery(f"sum({per_second('weir_stream_rows_total', OF_STREAMS)})"),),
            kind="stat", width=4, height=5, thresholds=((None, "blue"),),
        ),
        Panel(
            "Streams without rows",
            "Streams of which nothing came just now. Some have pauses by nature; a stream that should never pause is stalled.",
            "short",
            (PanelQuery(STALLED),),
            kind="stat", width=5, height=5, thresholds=((None, GREEN), (1, YELLOW)),
        ),
        Panel(
            "Rows that could not be",
            "Rows of the time shown that have no event time, or a value that does not fit its column. They are kept in the stream's folder `dead`, with the reason.",
            "short",
            (PanelQuery(f"sum(increase(weir_stream_dead_letters_total{{{OF_STREAMS}}}[$__range]))"),),
            kind="stat", width=5, height=5, thresholds=((None, GREEN), (1, ORANGE)), decimals=0,
        ),
        Panel(
            "Feeds that do not run",
            "Feeds whose Spark query begins, waits after a failure, or is run by no process. `weir get feeds` shows the last error.",
            "short",
            (PanelQuery(f"count(weir_feed_running{{{OF_STREAMS}}} == 0) or vector(0)"),),
            kind="stat", width=5, height=5, thresholds=((None, GREEN), (1, RED)), texts={"0": "none"},
        ),
        Panel(
            "Longest micro-batch",
            "What Spark's last micro-batch took, of the slowest feed. It is most of the time between a row's arrival at its source and at Weir.",
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
            "Rows a second, by stream.",
            "rowsps",
            (PanelQuery(rate_by("stream", "weir_stream_rows_total", OF_STREAMS), BY_STREAM),),
            width=8, stacked=True,
        ),
        Panel(
            "Rows by batch",
            "How many rows come at a time. Few rows a batch cost more processor time each.",
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
            "Batches a second that producers were told to bring again, because there was no room, or that could not be taken. They bring them again by themselves.",
            "eps",
            (PanelQuery(rate_by("stream", "weir_stream_refused_batches_total", OF_STREAMS), BY_STREAM),),
            width=8,
        ),
        Panel(
            "Rows that could not be, by stream",
            "Rows a second without an event time, or with a value that does not fit its column.",
            "rowsps",
            (PanelQuery(rate_by("stream", "weir_stream_dead_letters_total", OF_STREAMS), BY_STREAM),),
            width=8,
        ),
        Panel(
            "Room for recovery",
            "Part of a stream's room that holds input which a restarted class would need. At 100% a lossless reader holds its producers back, and others lose the oldest.",
            "percentunit",
            (PanelQuery(KEPT, BY_STREAM),),
            width=8, max=1, thresholds=((None, GREEN), (0.8, YELLOW), (1.0, RED)),
        ),
        Panel(
            "Producers",
            "Producers that number their batches, so that a batch which comes twice counts once. The last 10,000 are remembered.",
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
            "Behind its source",
            "Offsets that a feed's source has and that Spark has not done. If it grows, Spark is slower than what comes.",
            "short",
            (PanelQuery(f"max by (stream) (weir_feed_lag_rows{{{OF_STREAMS}}})", BY_STREAM),),
            width=8, empty_unless="a feed's source tells how far it is",
        ),
        Panel(
            "Micro-batches",
            "What the last micro-batch of each feed took.",
            "s",
            (PanelQuery(f"max by (stream) (weir_feed_batch_seconds{{{OF_STREAMS}}})", BY_STREAM),),
            width=8, empty_unless=WITH_SPARK,
        ),
        Panel(
            "Rows read by Spark",
            "Rows a second. After a failure some are read again; Weir takes them once.",
            "rowsps",
            (PanelQuery(rate_by("stream", "weir_feed_rows_total", OF_STREAMS), BY_STREAM),),
            width=8, stacked=True, empty_unless=WITH_SPARK,
        ),
        Panel(
            "Feeds started again",
            "Times that a feed's query was started again after a failure. It resumes where it had stopped; rows that are read twice count once.",
            "short",
            (PanelQuery(f"sum by (stream) (increase(weir_feed_restarts_total{{{OF_STREAMS}}}[$__rate_interval]))", BY_STREAM),),
            width=12, empty_unless=WITH_SPARK,
        ),
        Panel(
            "Feeds that run",
            "1 while a feed's query runs, 0 while it begins, waits after a failure, or no process runs it.",
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
            "Part of the uses of a mirror's objects that found a fresh copy. Less than what is expected of the frequencies: rates of change or interests have just changed, or objects fail.",
            "percentunit",
            (
                PanelQuery(f"max by (stream) (weir_mirror_perceived_freshness_ratio{{{OF_STREAMS}}})", BY_STREAM),
                PanelQuery(f"max by (stream) (weir_mirror_expected_freshness_ratio{{{OF_STREAMS}}})", "{{stream}}, expected"),
            ),
            width=8, max=1, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Polls",
            "Looks at remote objects a second, by what came of them.",
            "eps",
            (PanelQuery(rate_by("stream, result", "weir_mirror_polls_total", OF_STREAMS), "{{stream}} {{result}}"),),
            width=8, stacked=True, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Objects that fail",
            "Part of a mirror's objects whose last poll failed; the others have the bandwidth. The mirror's status tells why. Some may not have been fetched yet.",
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
            "Part of a mirror's bandwidth that polls use. Less than all: objects fail, or nobody takes the changes.",
            "percentunit",
            (PanelQuery(f"max by (stream) (weir_mirror_bandwidth_used_ratio{{{OF_STREAMS}}})", BY_STREAM),),
            width=8, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Uses of objects",
            "Lookups a second that answers of a mirror's query have told; by these it learns how much each object is wanted.",
            "eps",
            (PanelQuery(rate_by("stream", "weir_mirror_uses_total", OF_STREAMS), BY_STREAM),),
            width=8, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Mirrors that poll",
            "1 while a mirror polls, 0 while it begins, or waits since its store does not answer or has no such keys.",
            "short",
            (PanelQuery(f"min by (stream) (weir_mirror_running{{{OF_STREAMS}}})", BY_STREAM),),
            width=8, max=1, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Rows of mirrors",
            "Changes a second that streams have taken of their mirrors.",
            "rowsps",
            (PanelQuery(rate_by("stream", "weir_mirror_rows_total", OF_STREAMS), BY_STREAM),),
            width=8, stacked=True, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Bytes fetched",
            "What stores answer a second, with headers; of rows of a database as text.",
            "bytes",
            (PanelQuery(rate_by("stream", "weir_mirror_bytes_total", OF_STREAMS), BY_STREAM),),
            width=8, stacked=True, empty_unless=WITH_MIRRORS,
        ),
        Panel(
            "Frequencies solved for",
            "Times a second that a mirror divides its bandwidth anew by what it has learned. Less than every two seconds: the process has no time.",
            "eps",
            (PanelQuery(rate_by("stream", "weir_mirror_solves_total", OF_STREAMS), BY_STREAM),),
            width=8, empty_unless=WITH_MIRRORS,
        ),
    ),
)  # fmt: skip

READERS = Row(
    "In front of tenants",
    (
        Panel(
            "Offered to tenants",
            "Tuples a second that come to the doors of all tenants that read a stream: a row comes once for each.",
            "rowsps",
            (PanelQuery(rate_by("stream", "weir_class_offered_tuples_total", OF_STREAMS), BY_STREAM),),
            width=8, stacked=True,
        ),
        Panel(
            "Lost by stream",
            "Part of what tenants were offered of a stream that was not worked on, the ten highest.",
            "percentunit",
            (
                PanelQuery(
                    worst(
                        rate_by("stream", "weir_class_tuples_total", f'{OF_STREAMS}, fate!="delivered"')
                        + f" / ({rate_by('stream', 'weir_class_offered_tuples_total', OF_STREAMS)} > 0)"
                    ),
                    BY_STREAM,
                ),
            ),
            width=8, max=1,
        ),
        Panel(
            "Queued in front of tenants",
            "Tuples of a stream that wait for a tenant's first operator, the ten longest queues.",
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
    "Does input arrive, what of it could not be taken, and do Spark and mirrors keep up?",
    (STREAM,),
    (AT_A_GLANCE, GATEWAYS, SPARK, MIRRORS, READERS),
)
