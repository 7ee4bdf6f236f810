"""What ingest thread and class thread of a host hand each other, for one unit.

Each field has one writer. A queue's length is let in minus gone, each counted by the thread that knows; so it may be
behind for a moment, never wrong for good.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from engine.class_.door import Piece

if TYPE_CHECKING:
    from actors.host.ingest_thread import Feed


class Arrived(NamedTuple):
    """A piece of input; so many rows has its stream had with it."""

    piece: Piece
    upto: int
    feed: Feed | None = None
    """What brought it; None if nothing can have taken the feed's place."""


@dataclass(slots=True)
class Inbox:
    """Between the two threads."""

    # By the ingest thread.
    arrived: deque[Arrived] = field(default_factory=deque)
    # Streams, the batch they begin with, how many rows came before, if that is known, and the feed.
    begun: deque[tuple[str, int, int | None, Feed | None]] = field(default_factory=deque)
    let_in: Counter[str] = field(default_factory=Counter)  # tuples by stream
    pieces_in: int = 0
    bytes_in: int = 0
    used_s: float = 0.0  # processor time
    held_back: bool = (
        False  # input waits for room, or its producers are refused; the class thread tells when there is some
    )
    problems: dict[str, str] = field(default_factory=dict)  # by stream, why it cannot be read
    # By stream, the last moment at which its feed had nothing left to publish.
    caught_up: dict[str, float] = field(default_factory=dict)

    # By the class thread.
    gone: Counter[str] = field(default_factory=Counter)  # tuples by stream that do not wait any more
    pieces_gone: int = 0
    keep: tuple[int, float] = (0, 1.0)  # the load cycle, and what to keep from then on
    # Tuples by stream that may queue in a class that holds back; replaced, never changed.
    rooms: Mapping[str, int] = field(default_factory=dict)
    asleep: bool = False

    def queued(self, stream: str) -> int:
        return self.let_in[stream] - self.gone[stream]

    @property
    def pieces(self) -> int:
        return self.pieces_in - self.pieces_gone
