"""Reading the answers of queries, for many readers at once.

    results = Results(places, is_declared)
    page = await results.page(Asked("gold", "hot"), cursor, limit=1000, wait_s=30)

Streams of events are in `services.results.events`.
Answers are read from the logs in which classes write them (`actors.host.answer_reader`), never from the classes.

Numbered properties:
1. A reader gets each row that is kept once, in order within a unit; of those that are no longer kept it is told which.
2. No reader holds anybody up. There is no queue of a reader's: it reads from the log where it has come to, at its own pace.
3. Logs of answers are read when they grow (`services.results.topics`); without a reader they are not read at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from configs.errors import Away, WeirError
from services.ingest.answers import schema_with
from services.results.cursors import Cursor, Spot, text_of
from services.results.encoding import as_arrow_stream, as_json_rows
from services.results.fanout import PIECE_ROWS, PieceAddress, Pieces, RowsPiece
from services.results.log_reader import Desk, QueryAddress, View
from services.results.places import AnswersPlace, Places
from services.results.topics import Topic, Topics, clock
from services.results.units import FoundRows, KnownAnswers

# Of one page, beyond its first piece.
PAGE_BYTES = 16 << 20
STEP_ROWS = 10_000
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ForgottenRows:
    """Rows of a unit that are no longer kept, from `first` up to `next`."""

    unit: str
    first: int
    next: int

    def as_json(self) -> dict[str, object]:
        return {"unit": self.unit, "first": self.first, "next": self.next, "missing": self.next - self.first}


@dataclass(eq=False)
class Forgotten(WeirError):
    """What the cursor asks for is not kept any more."""

    next: str = ""
    """The cursor to go on from."""
    missing: tuple[ForgottenRows, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, and the cursor after them."""

    columns: Sequence[tuple[str, str]]
    rows: int
    body: bytes
    """JSON objects with commas between them, or an Arrow stream."""
    next: str | None
    restarted: bool = False
    """True if the cursor is of an earlier life of the query, whose rows are numbered from 0 again."""


class Results:
    """For one event loop; `close` may be called by any thread."""

    def __init__(
        self,
        places: Places,
        is_declared: Callable[[str, str], bool] = lambda class_name, query: True,
        key: Callable[[], str] = lambda: "",
        piece_rows: int = PIECE_ROWS,
    ) -> None:
        """The key opens the doors of other nodes."""
        self._desk = Desk(places, key)
        self._thread = ThreadPoolExecutor(1, "results")
        self.pieces = Pieces(self._made, piece_rows)
        self.topics = Topics(self._look, is_declared)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_closed = False

    def close(self) -> None:
        """Who waits is sent away."""
        self.is_closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.topics.send_away)
        self._thread.shutdown(wait=False)

    # -- pages -----------------------------------------------------------------------------------------

    async def page(
        self,
        asked: QueryAddress,
        cursor: Cursor | None,
        limit: int,
        wait_s: float = 0.0,
        as_arrow: bool = False,
        tail: int | None = None,
    ) -> Page:
        """Rows after the cursor, at least one if there is one in time; None: those from now on.

        With `tail`, begin with the last that many rows that are kept, instead of at a cursor. Forgotten if those that follow are
        no longer kept.
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
        """By unit, the first row that is kept and the one that is to come."""
        with self.topics.following(asked) as topic:
            await self.topics.look(topic)
            view = topic.view
            oldest = await self._oldest(topic, view)
            return [(place, oldest[shard], seen.given) for shard, (place, seen) in view.items()]

    async def _oldest(self, topic: Topic, view: View) -> dict[int, int]:
        """Return the number of the first row that is kept, by shard."""
        found = {}
        for shard, (place, seen) in view.items():
            oldest = await self._run(self._desk.some, place, topic.asked.query, 0, 1)
            found[shard] = seen.given if oldest is None else oldest.first
        return found

    async def _before_last(self, topic: Topic, count: int) -> dict[int, Spot]:
        """Return where to begin so that `count` of the rows that are kept remain, or all if there are fewer."""
        view = topic.view
        oldest = await self._oldest(topic, view)
        kept = {shard: seen.given - oldest[shard] for shard, (_, seen) in view.items()}
        return {
            shard: Spot(view[shard][1].given - rows, view[shard][1].mark)
            for shard, rows in shared(count, kept)
        }

    # -- what is read ----------------------------------------------------------------------------------

    async def piece(self, place: AnswersPlace, query: str, spot: Spot, most: int) -> RowsPiece | None:
        """As all readers have it."""
        return await self.pieces.get(PieceAddress(place, query, spot.mark, spot.row, most))

    async def _made(self, wanted: PieceAddress) -> RowsPiece | None:
        return await self._run(self._make, wanted)

    def _make(self, wanted: PieceAddress) -> RowsPiece | None:
        rows = self._desk.some(wanted.place, wanted.query, wanted.row, wanted.most)
        if rows is None:
            return None
        return RowsPiece(rows.mark, rows.first, rows.following, as_json_rows(rows.batches))

    async def _found(self, place: AnswersPlace, query: str, spot: Spot, most: int) -> FoundRows | None:
        return await self._run(self._desk.some, place, query, spot.row, min(most, STEP_ROWS))

    async def _run(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        if self.is_closed:
            raise Away("the service ends", hint="ask again")
        self._loop = asyncio.get_running_loop()
        return await self._loop.run_in_executor(self._thread, work, *arguments)

    async def _look(self, wanted: Sequence[QueryAddress]) -> tuple[list[View], bool]:
        return await self._run(self._desk.look, wanted)


def from_now(view: View) -> dict[int, Spot]:
    return {shard: Spot(answers.given, answers.mark) for shard, (_, answers) in view.items()}


def begun_at(spot: Spot | None, seen: KnownAnswers) -> Spot:
    """Where to read on; at the beginning where the query has begun anew since.

    A reader may have got further than was seen. A number without a mark that is beyond what there is was another's.
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
    """Some rows of each unit; the spots go on by them. Nobody misses rows that he has not begun to read."""
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
        "rows after that cursor are no longer kept",
        "?after",
        text_of(spots),
        "go on from `next`; read sooner, or have more kept (limits.result_bytes)",
        next=text_of(following) or "",
        missing=tuple(missing for _, missing in lost),
    )


def shared(limit: int, there: Mapping[int, int]) -> list[tuple[int, int]]:
    """How many rows of each shard, so that none waits for another; those with the fewest come first."""
    pieces, left = [], limit
    for place, shard in enumerate(sorted(there, key=lambda one: there[one])):
        most = min(max(0, there[shard]), -(-left // (len(there) - place)))
        pieces.append((shard, most))
        left -= most
    return pieces


def rows_in(taken: Sequence[RowsPiece] | Sequence[FoundRows]) -> int:
    return sum(piece.following - piece.first for piece in taken)
