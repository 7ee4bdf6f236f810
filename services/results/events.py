"""Query results as server-sent events.

The id of each event is a cursor to resume from, also with `Last-Event-ID`. There are three events:

- `rows` has rows: `{"rows":[{"_seq":40,"_kept":1.0,…},…]}`
- `gap` reports rows that are no longer kept, with `unit`, `first`, `next` and `missing`, or a query that has restarted at row 0
- `end` reports that the query was deleted

An SSE comment without content is sent with the headers, and whenever nothing else was sent for HEARTBEAT_S.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import orjson

from services.results.cursors import Cursor, Spot, text_of
from services.results.fanout import PIECE_ROWS
from services.results.log_reader import QueryAddress
from services.results.results import ForgottenRows, Results, begun_at, from_now
from services.results.topics import Topic

HEARTBEAT_S = 10.0
HEARTBEAT = b":\n\n"
END = b"event: end\ndata: {}\n\n"


async def events(results: Results, asked: QueryAddress, cursor: Cursor | None) -> AsyncGenerator[bytes, None]:
    """Yield the events after the cursor (None: new rows only) until the query is deleted or the service stops."""
    with results.topics.following(asked) as topic:
        await results.topics.look(topic)
        spots = from_now(topic.view) if cursor is None else dict(cursor)
        yield HEARTBEAT
        while not results.is_closed:
            view, has_sent = topic.view, False
            async with aclosing(round_of(results, topic, spots)) as told:
                async for one in told:
                    has_sent = True
                    yield one
            if topic.is_over:
                yield END
                return
            if not has_sent:
                await topic.changed(view, HEARTBEAT_S)
                if topic.view is view and not topic.is_over:
                    yield HEARTBEAT


async def round_of(results: Results, topic: Topic, spots: dict[int, Spot]) -> AsyncGenerator[bytes, None]:
    """Yield an event with rows for each unit that has new rows, and advance `spots`, the reader's position in each shard."""
    for shard, (place, seen) in topic.view.items():
        before = spots.get(shard)
        spot = spots[shard] = begun_at(before, seen)
        if before is not None and spot.row < before.row:
            yield event(spots, b"gap", orjson.dumps({"unit": place.unit, "anew": True}))
        if spot.row >= seen.given:
            continue
        piece = await results.piece(place, topic.asked.query, spot, PIECE_ROWS)
        if piece is None or piece.mark != spot.mark:
            continue  # The query has restarted. The next poll finds the answers of the restarted query.
        if piece.first > spot.row:
            spots[shard] = Spot(piece.first, spot.mark)
            if before is not None:
                missing = ForgottenRows(place.unit, spot.row, piece.first)
                yield event(spots, b"gap", orjson.dumps(missing.as_json()))
        if piece.body:
            spots[shard] = Spot(piece.following, spot.mark)
            yield event(spots, b"rows", b'{"rows":[%b]}' % piece.body)


def event(spots: Cursor, kind: bytes, data: bytes) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % ((text_of(spots) or "").encode(), kind, data)
