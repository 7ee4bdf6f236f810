"""Feeds as `weir get feeds` and `weir describe feed` show them: state, rate, lag and the last error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from services.cli.tables.sheet import Sheet
from services.ingest.progress import State
from services.remote.models import Declared
from services.watch.losses import MOSTLY

if TYPE_CHECKING:
    from services.cli.service_location import Declarations

Status = Mapping[str, Any]
HEADS = ("feed", "source", "state", "rows/s", "lag", "behind", "late", "rejected", "restarts")
WIDE_HEADS = ("rows", "batch ms", "last batch", "streams", "last error")
TEXTS = ("last batch", "streams", "last error")
NOT_KNOWN = "states are not known"
STATES: Mapping[State, str] = {
    "starting": "starting",
    "running": "[green]running[/]",
    "failed": "[red]failed[/]",
    "waiting": "[yellow]waiting[/]",
    "stopped": "[red]stopped[/]",
}


def feeds_view(name: str | None = None, is_wide: bool = False) -> RenderableType:
    """Return a table of one feed, or of all feeds and streams with a source. Below the table, unless it is wide, are the errors."""
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
            raise UnknownName("no such Feed", value=name) from None
        why = problem.title if isinstance(problem, NotAllowed) else f"{NOT_KNOWN}: {sentence(problem)}"
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
    heads = HEADS + WIDE_HEADS if is_wide else HEADS
    table = Sheet("", heads, left=3, texts=[heads.index(head) for head in TEXTS if head in heads])
    for status in statuses:
        table.add_row(
            escape(status["name"]),
            escape(status.get("format") or UNKNOWN),
            STATES[status["state"]] if "state" in status else UNKNOWN,
            UNKNOWN if "state" not in status else compact(status["rows_per_s"]),
            UNKNOWN if status.get("lag") is None else compact(status["lag"]),
            UNKNOWN if status.get("behind_s") is None else duration(1e3 * status["behind_s"]),
            late_part(status.get("streams", ())),
            rejected_rows(status.get("streams", ())),
            str(status.get("restarts", UNKNOWN)),
            *(wide_cells(status) if is_wide else ()),
        )
    return table


def wide_cells(one: Status) -> tuple[str, ...]:
    """Return the cells that only the wide table has."""
    batch_ms, at, error = one.get("batch_ms"), one.get("last_error_at"), one.get("last_error")
    return (
        UNKNOWN if "rows" not in one else f"{one['rows']:,}",
        UNKNOWN if batch_ms is None else figure(batch_ms),
        UNKNOWN if one.get("batch_at") is None else clock(one["batch_at"]),
        escape(", ".join(stream["name"] for stream in one.get("streams", ()))) or UNKNOWN,
        UNKNOWN if not error else escape(f"{'' if at is None else f'{clock(at)}: '}{error}{next_try(one)}"),
    )


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
        tries = next_try(status)
        running = status["state"] == "running"
        style = "dim" if running else "red"
        word = "running again after an error" if running else "error"
        lines.append(Text(f"{status['name']}: {word}{when}: {status['last_error']}{tries}", style=style))
    return lines


def late_part(streams: Sequence[Status]) -> str:
    """Return the part of the rows offered to classes that came too late for their windows."""
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
    """Return the document of a feed, or of the stream with a source for which the feed was made; None if the caller may not see it."""
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
