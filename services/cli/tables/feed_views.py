"""Feeds as `weir get feeds` and `weir describe feed` show them: state, rate, lag and the last error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from configs.documents.declarations import FeedDeclaration, StreamDeclaration
from configs.errors import NotAllowed, UnknownName, WeirError, sentence
from configs.numbers import UNKNOWN, compact, duration, figure
from services.cli.service_location import declarations, service
from services.cli.tables.sheet import table_of
from services.ingest.progress import State
from services.remote.models import Declared
from services.watch.losses import MOSTLY

if TYPE_CHECKING:
    from services.cli.service_location import Declarations

Status = Mapping[str, Any]

STATES: Mapping[State, str] = {
    "starting": "starting",
    "running": "[green]running[/]",
    "failed": "[red]failed[/]",
    "waiting": "[yellow]waiting[/]",
    "stopped": "[red]stopped[/]",
}
FEED_COLUMNS: Mapping[str, Callable[[Status], str]] = {
    "feed": lambda feed: escape(feed["name"]),
    "source": lambda feed: escape(feed.get("format") or UNKNOWN),
    "state": lambda feed: STATES[feed["state"]] if "state" in feed else UNKNOWN,
    "rows/s": lambda feed: compact(feed["rows_per_s"]) if "state" in feed else UNKNOWN,
    "lag": lambda feed: UNKNOWN if feed.get("lag") is None else compact(feed["lag"]),
    "behind": lambda feed: UNKNOWN if feed.get("behind_s") is None else duration(1e3 * feed["behind_s"]),
    "late": lambda feed: late_part(feed.get("streams", ())),
    "rejected": lambda feed: rejected_rows(feed.get("streams", ())),
    "restarts": lambda feed: str(feed.get("restarts", UNKNOWN)),
}
WIDE_NUMBERS: Mapping[str, Callable[[Status], str]] = {
    "rows": lambda feed: f"{feed['rows']:,}" if "rows" in feed else UNKNOWN,
    "batch ms": lambda feed: UNKNOWN if feed.get("batch_ms") is None else figure(feed["batch_ms"]),
}
WIDE_TEXTS: Mapping[str, Callable[[Status], str]] = {
    "last batch": lambda feed: UNKNOWN if feed.get("batch_at") is None else clock(feed["batch_at"]),
    "streams": lambda feed: (
        escape(", ".join(stream["name"] for stream in feed.get("streams", ()))) or UNKNOWN
    ),
    "last error": lambda feed: last_error(feed),
}


def feeds_view(name: str | None = None, is_wide: bool = False) -> RenderableType:
    """Return a table of one feed, or of all feeds and streams with a source. Errors are listed below the table, but a wide table has a column for errors."""
    try:
        with service() as weir:
            statuses = weir.live.feed_statuses() if name is None else [weir.live.feed_status(name)]
    except UnknownName:
        raise
    except WeirError as problem:
        with declarations() as weir:
            formats = formats_of(weir)
        if name is not None:
            formats = {name: formats[name]} if name in formats else {}
        if name is not None and not formats:
            raise UnknownName(
                "there is no Feed of this name", value=name, hint="list the feeds with `weir get feeds`"
            ) from None
        unknown = f"states are not known: {sentence(problem)}"
        why = problem.title if isinstance(problem, NotAllowed) else unknown
        statuses = [{"name": feed, "format": source} for feed, source in formats.items()]
        return Group(feeds_table(statuses, is_wide), Text(why, style="yellow"))
    return Group(
        feeds_table(statuses, is_wide), *(() if is_wide else errors(statuses)), *rejections(statuses)
    )


def formats_of(weir: Declarations) -> dict[str, str]:
    """Return the Spark format of each declared feed."""
    formats = {}
    for entry in (*weir.all("Stream"), *weir.all("Feed")):
        match entry.declaration:
            case StreamDeclaration(name=name, source=source) if source is not None:
                formats[name] = source.format
            case FeedDeclaration(name=name, source=source):
                formats[name] = source.format
    return formats


def feeds_table(statuses: Sequence[Status], is_wide: bool = False) -> RenderableType:
    if not statuses:
        return Text("no feed is declared: declare a stream with a source, or a document of kind Feed")
    numbers = {**FEED_COLUMNS, **WIDE_NUMBERS} if is_wide else FEED_COLUMNS
    table = table_of("", {**numbers, **WIDE_TEXTS} if is_wide else numbers, statuses, left=3)
    table.texts = range(len(numbers), len(table.heads))
    return table


def last_error(feed: Status) -> str:
    if not feed.get("last_error"):
        return UNKNOWN
    when = "" if feed["last_error_at"] is None else f"{clock(feed['last_error_at'])}: "
    return escape(f"{when}{feed['last_error']}{next_try(feed)}")


def next_try(one: Status) -> str:
    """Return a text with the time until a feed is restarted; an empty text if no restart is planned."""
    return "" if one["next_try_s"] is None else f"; next try in {one['next_try_s']:.0f} s"


def errors(statuses: Sequence[Status]) -> list[Text]:
    """Return a line for each feed with an error, even if the feed has been restarted since and runs again."""
    lines = []
    for status in statuses:
        if not status.get("last_error"):
            continue
        when = "" if status["last_error_at"] is None else f" at {clock(status['last_error_at'])}"
        is_running = status["state"] == "running"
        word = "running again after an error" if is_running else "error"
        text = f"{status['name']}: {word}{when}: {status['last_error']}{next_try(status)}"
        lines.append(Text(text, style="dim" if is_running else "red"))
    return lines


def late_part(streams: Sequence[Status]) -> str:
    """Return the part of late rows: rows that came too late for their windows, divided by all rows that were offered to classes."""
    offered = sum(stream["offered"] for stream in streams)
    return f"{100 * sum(stream['late'] for stream in streams) / offered:.1f}%" if offered else UNKNOWN


def rejected_rows(streams: Sequence[Status]) -> str:
    """Return the number of rows that gateways have rejected, in red if most rows of the last minute were rejected."""
    if all(stream.get("rows") is None for stream in streams):
        return UNKNOWN
    text = compact(sum(stream["rejected"] for stream in streams))
    return f"[red]{text}[/]" if any(stream["rejected_now"] > MOSTLY for stream in streams) else text


def rejections(statuses: Sequence[Status]) -> list[Text]:
    """Return a line for each stream with rejected rows."""
    streams = {
        stream["name"]: stream
        for status in statuses
        for stream in status.get("streams", ())
        if stream.get("rejected")
    }
    return [
        Text(
            f"{name}: {stream['rejected']:,} rows rejected, {stream['rejected_now']:.0%} of the last minute of input:"
            f" {stream['last_reason']}",
            style="red" if stream["rejected_now"] > MOSTLY else "yellow",
        )
        for name, stream in streams.items()
    ]


def clock(moment: str) -> str:
    """Return the time of day, in UTC, of a timestamp from the service."""
    return datetime.fromisoformat(moment).astimezone(UTC).strftime("%H:%M:%SZ")


def feed_declared(weir: Declarations, name: str) -> Declared | None:
    """Return the document of a feed, or of a stream with a source. Return None if the caller may not see the document."""
    try:
        return weir.get("Feed", name)
    except NotAllowed:
        return None
    except UnknownName as problem:
        with suppress(UnknownName):
            entry = weir.get("Stream", name)
            if isinstance(entry.declaration, StreamDeclaration) and entry.declaration.source is not None:
                return entry
        raise problem from None
