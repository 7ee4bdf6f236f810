"""Reader of query results for many concurrent readers.

Example:

    results = Results(places, is_declared)
    page = await results.page(QueryAddress("gold", "hot"), cursor, limit=1000, wait_s=30)

Server-sent events are in `services.results.events`. Answers are read from the logs that classes write
(`actors.host.answer_reader`), never from the classes themselves.

Numbered properties:
1. A reader gets each kept row once, in order within a unit. A reader is informed about rows that are no longer kept.
2. No reader delays another. Readers have no queues: each reads the log from its own position, at its own pace.
3. Logs of answers are read when they have new answers (`services.results.topics`); without readers they are not read at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from configs.errors import Away, WeirError
from services.common.gateway_trust import DEFAULT_TRUST, GatewayTrust
from services.ingest.answers import schema_with
from services.results.cursors import Cursor, Spot, text_of
from services.results.encoding import as_arrow_stream, as_json_rows
from services.results.fanout import PIECE_ROWS, PieceAddress, Pieces, RowsPiece
from services.results.log_reader import Desk, QueryAddress, View
from services.results.places import AnswersPlace, Places
from services.results.topics import Topic, Topics, clock
from services.results.units import FoundRows, KnownAnswers

# Size in bytes above which no further rows are added to a page.
PAGE_BYTES = 16 << 20
STEP_ROWS = 10_000
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ForgottenRows:
    """Range of a unit's rows that are no longer kept, from `first` up to but not including `next`."""

    unit: str
    first: int
    next: int

    def as_json(self) -> dict[str, object]:
        return {"unit": self.unit, "first": self.first, "next": self.next, "missing": self.next - self.first}


@dataclass(eq=False)
class Forgotten(WeirError):
    """Error raised when a cursor points to rows that are no longer kept."""

    next: str = ""
    """Cursor to continue with, after the missing rows."""
    missing: tuple[ForgottenRows, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """Page of rows, and the cursor with which reading continues after the page."""

    columns: Sequence[tuple[str, str]]
    rows: int
    body: bytes
    """Rows as JSON objects separated by commas, or as an Arrow stream."""
    next: str | None
    restarted: bool = False
    """True if the query has restarted since the cursor was issued, so that its rows are numbered from 0 again."""


class Results:
    """Results of all queries, for readers in one event loop; `close` may be called from any thread."""

    def __init__(
        self,
        places: Places,
        is_declared: Callable[[str, str], bool] = lambda class_name, query: True,
        key: Callable[[], str] = lambda: "",
        piece_rows: int = PIECE_ROWS,
        trust: GatewayTrust = DEFAULT_TRUST,
    ) -> None:
        """Create a reader of results; `key` returns the key for the gateways of other nodes."""
        self._desk = Desk(places, key, trust=trust)
        self._thread = ThreadPoolExecutor(1, "results")
        self.pieces = Pieces(lambda wanted: self._run(self._make, wanted), piece_rows)
        self.topics = Topics(lambda wanted: self._run(self._desk.look, wanted), is_declared)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_closed = False

    def close(self) -> None:
        """Stop reading, and wake all waiting readers."""
        self.is_closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.topics.send_away)
        self._thread.shutdown(wait=False)

    async def page(
        self,
        asked: QueryAddress,
        cursor: Cursor | None,
        limit: int,
        wait_s: float = 0.0,
        as_arrow: bool = False,
        tail: int | None = None,
    ) -> Page:
        """Return rows after the cursor, or only new rows without a cursor. Wait up to `wait_s` if there are no rows yet.

        With `tail`, begin with the last `tail` kept rows instead of at a cursor. Raise Forgotten if the rows after the
        cursor are no longer kept.
        """
        with self.topics.following(asked) as topic:
            until = clock() + wait_s
            await self.topics.look(topic)
            if tail is not None:
                spots = await self._before_last(topic, tail)
            else:
                spots = from_now(topic.view) if cursor is None else dict(cursor)
            while True:
                view = topic.view
                page = await self._page(topic, spots, limit, as_arrow)
                left_s = until - clock()
                if page.rows or left_s <= 0 or self.is_closed or topic.is_over:
                    return page
                await topic.changed(view, left_s)

    async def _page(self, topic: Topic, spots: dict[int, Spot], limit: int, as_arrow: bool) -> Page:
        columns: list[tuple[str, str]] = []
        restarted = any(
            begun_at(spots[shard], seen).row < spots[shard].row
            for shard, (_, seen) in topic.view.items()
            if shard in spots
        )
        for place, _ in topic.view.values():
            columns = await self._run(self._desk.columns, place, topic.asked.query)
            break
        if not as_arrow:
            pieces = await gathered(topic, spots, limit, self.piece)
            body = b",".join(piece.body for piece in pieces)
            return Page(columns, rows_in(pieces), body, text_of(spots), restarted)
        found = await gathered(topic, spots, limit, self._found)
        schema = schema_with(columns) if columns else pa.schema([])
        batches = [batch for one in found for batch in one.batches]
        body = await self._run(as_arrow_stream, schema, batches)
        return Page(columns, rows_in(found), body, text_of(spots), restarted)

    async def kept(self, asked: QueryAddress) -> list[tuple[AnswersPlace, int, int]]:
        """Return the location of each unit's answers, the number of the first stored row, and the number that the next new row will get."""
        with self.topics.following(asked) as topic:
            await self.topics.look(topic)
            view = topic.view
            oldest = await self._oldest(topic, view)
            return [(place, oldest[shard], seen.given) for shard, (place, seen) in view.items()]

    async def _oldest(self, topic: Topic, view: View) -> dict[int, int]:
        """Return the number of the first kept row of each shard."""
        found = {}
        for shard, (place, seen) in view.items():
            oldest = await self._run(self._desk.some, place, topic.asked.query, 0, 1)
            found[shard] = seen.given if oldest is None else oldest.first
        return found

    async def _before_last(self, topic: Topic, count: int) -> dict[int, Spot]:
        """Return a position in each shard, so that `count` rows follow the positions in total. If fewer rows are kept, all rows follow."""
        view = topic.view
        oldest = await self._oldest(topic, view)
        kept = {shard: seen.given - oldest[shard] for shard, (_, seen) in view.items()}
        return {
            shard: Spot(view[shard][1].given - rows, view[shard][1].mark)
            for shard, rows in shared(count, kept)
        }

    async def piece(self, place: AnswersPlace, query: str, spot: Spot, most: int) -> RowsPiece | None:
        """Return consecutive rows of a unit in encoded form; the encoded rows are shared by all readers of these rows."""
        return await self.pieces.get(PieceAddress(place, query, spot.mark, spot.row, most))

    def _make(self, wanted: PieceAddress) -> RowsPiece | None:
        rows = self._desk.some(wanted.place, wanted.query, wanted.row, wanted.most)
        if rows is None:
            return None
        return RowsPiece(rows.mark, rows.first, rows.following, as_json_rows(rows.batches))

    async def _found(self, place: AnswersPlace, query: str, spot: Spot, most: int) -> FoundRows | None:
        return await self._run(self._desk.some, place, query, spot.row, min(most, STEP_ROWS))

    async def _run(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        if self.is_closed:
            raise Away("the service is stopping", hint="try again later")
        self._loop = asyncio.get_running_loop()
        return await self._loop.run_in_executor(self._thread, work, *arguments)


def from_now(view: View) -> dict[int, Spot]:
    return {shard: Spot(answers.given, answers.mark) for shard, (_, answers) in view.items()}


def begun_at(spot: Spot | None, seen: KnownAnswers) -> Spot:
    """Return the position to continue from: `spot`, or row 0 if the query has restarted since the position was issued.

    A position with the mark of the present answers is valid even beyond the last row in `seen`, which may be out of date. A position
    without a mark is valid only up to that row.
    """
    if spot is None or spot.mark not in ("", seen.mark) or (not spot.mark and spot.row > seen.given):
        return Spot(0, seen.mark)
    return Spot(spot.row, seen.mark)


Taken = TypeVar("Taken", RowsPiece, FoundRows)


async def gathered(
    topic: Topic,
    spots: dict[int, Spot],
    limit: int,
    take: Callable[[AnswersPlace, str, Spot, int], Awaitable[Taken | None]],
) -> list[Taken]:
    """Return the next rows of each unit, and advance the positions `spots` of the reader. Raise Forgotten if the next rows were discarded."""
    view, found, size = topic.view, list[Taken](), 0
    misses = {shard for shard in view if shard in spots}
    began = {shard: begun_at(spots.get(shard), seen) for shard, (_, seen) in view.items()}
    reached, lost = dict(began), list[tuple[int, ForgottenRows]]()
    for shard, most in shared(limit, {n: view[n][1].given - spot.row for n, spot in began.items()}):
        left = most
        while left > 0 and size < PAGE_BYTES:
            spot, place = reached[shard], view[shard][0]
            taken = await take(place, topic.asked.query, spot, left)
            if taken is None or taken.mark != spot.mark:
                break
            if taken.first > spot.row and shard in misses:
                if spot == began[shard]:
                    lost.append((shard, ForgottenRows(place.unit, spot.row, taken.first)))
                break
            misses.add(shard)
            reached[shard] = Spot(taken.following, spot.mark)
            if taken.following == taken.first:
                break
            found.append(taken)
            left, size = left - (taken.following - taken.first), size + taken.size
    if lost:
        raise forgotten({**spots, **began}, lost)
    spots.update(reached)
    return found


def forgotten(spots: Mapping[int, Spot], lost: Sequence[tuple[int, ForgottenRows]]) -> Forgotten:
    following = {**spots, **{shard: replace(spots[shard], row=missing.next) for shard, missing in lost}}
    return Forgotten(
        "rows after the given cursor are no longer kept",
        "?after",
        text_of(spots),
        "continue from `next`; to miss no rows, read more often or raise limits.result_bytes",
        next=text_of(following) or "",
        missing=tuple(missing for _, missing in lost),
    )


def shared(limit: int, there: Mapping[int, int]) -> list[tuple[int, int]]:
    """Divide `limit` evenly among the shards. If a shard has fewer rows than its part, the other shards share the rest of this part."""
    pieces, left = [], limit
    for place, shard in enumerate(sorted(there, key=lambda one: there[one])):
        most = min(max(0, there[shard]), -(-left // (len(there) - place)))
        pieces.append((shard, most))
        left -= most
    return pieces


def rows_in(taken: Sequence[RowsPiece] | Sequence[FoundRows]) -> int:
    return sum(piece.following - piece.first for piece in taken)
