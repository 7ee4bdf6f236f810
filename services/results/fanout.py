"""Cache of encoded answers. A range of consecutive rows is read and encoded once for all readers.

A range ends where the row number is a multiple of `rows`, or where the answers end. So readers that begin at different rows
soon need the same ranges. The first reader that needs a range has it encoded; other readers wait for the result. The latest
ranges, up to CACHE_BYTES, are kept for readers that are slightly behind; nothing is kept for an individual reader.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from services.results.places import AnswersPlace

PIECE_ROWS = 2000
CACHE_BYTES = 16 << 20
# Bytes that a cached range of rows needs in addition to its text; this matters because a reader may request single rows.
PIECE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class RowsPiece:
    """Consecutive rows of one unit, as JSON objects separated by commas."""

    mark: str
    first: int
    following: int
    body: bytes

    @property
    def size(self) -> int:
        return len(self.body)


@dataclass(frozen=True, slots=True)
class PieceAddress:
    """Key of a range of rows in the cache: place, query and identifier of the answers, first row number, and maximum number of rows."""

    place: AnswersPlace
    query: str
    mark: str
    row: int
    most: int


Make = Callable[[PieceAddress], Awaitable[RowsPiece | None]]


class Pieces:
    """Cache of the most recently used ranges of encoded rows, for one event loop."""

    def __init__(self, make: Make, rows: int = PIECE_ROWS, bytes_max: int = CACHE_BYTES) -> None:
        self._make, self._rows, self._bytes_max = make, rows, bytes_max
        self._known: OrderedDict[PieceAddress, asyncio.Future[RowsPiece | None]] = OrderedDict()
        self._sizes: dict[PieceAddress, int] = {}
        self._bytes = 0
        self.made = 0

    async def get(self, wanted: PieceAddress) -> RowsPiece | None:
        """Return the rows in `wanted`, but only up to the next row number that is a multiple of `rows`. Return None if the unit no longer exists."""
        most = self._rows - wanted.row % self._rows
        if most < wanted.most:
            wanted = replace(wanted, most=most)
        piece = self._known.get(wanted)
        if piece is None:
            self.made += 1
            piece = self._known[wanted] = asyncio.ensure_future(self._make(wanted))
            piece.add_done_callback(partial(self._keep, wanted))
        else:
            self._known.move_to_end(wanted)
        # `shield` keeps the read running if one reader is cancelled, because other readers may wait for the same rows.
        return await asyncio.shield(piece)

    def _keep(self, wanted: PieceAddress, made: asyncio.Future[RowsPiece | None]) -> None:
        piece = None if made.cancelled() or made.exception() else made.result()
        if piece is None or not piece.body:
            self._known.pop(wanted, None)
            return
        self._sizes[wanted] = len(piece.body) + PIECE_BYTES
        self._bytes += self._sizes[wanted]
        while self._bytes > self._bytes_max:
            oldest = next(piece for piece in self._known if piece in self._sizes)
            del self._known[oldest]
            self._bytes -= self._sizes.pop(oldest)
