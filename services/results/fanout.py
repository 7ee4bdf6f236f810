"""Pieces of answers that several readers want are read and encoded once.

Readers at the same place want the same piece: pieces end where row numbers are multiples of one number, or where the answers
end, so that readers who began at different places come to the same ones. Who is first has it made; the others wait for it.
What was made is kept for those a little behind, CACHE_BYTES of it in all. Nothing is kept for a reader.
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
# What a piece takes beside its rows: a reader may ask for one row at a time.
PIECE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class RowsPiece:
    """Rows in a row of one unit, as JSON objects with commas between them."""

    mark: str
    first: int
    following: int
    body: bytes

    @property
    def size(self) -> int:
        return len(self.body)


@dataclass(frozen=True, slots=True)
class PieceAddress:
    """Which piece."""

    place: AnswersPlace
    query: str
    mark: str
    row: int
    most: int


Make = Callable[[PieceAddress], Awaitable[RowsPiece | None]]


class Pieces:
    """Those that were made last; for one event loop."""

    def __init__(self, make: Make, rows: int = PIECE_ROWS, bytes_max: int = CACHE_BYTES) -> None:
        self._make, self._rows, self._bytes_max = make, rows, bytes_max
        self._known: OrderedDict[PieceAddress, asyncio.Future[RowsPiece | None]] = OrderedDict()
        self._sizes: dict[PieceAddress, int] = {}
        self._bytes = 0
        self.made = 0

    async def get(self, wanted: PieceAddress) -> RowsPiece | None:
        """Its beginning, up to where pieces end; None if the unit has gone."""
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
        # A reader that goes away does not take it from the others.
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
