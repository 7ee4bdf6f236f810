"""What ingest thread and class thread of a host hand each other, for one unit.

Each field has one writer. A queue's length is let in minus gone, each counted by the thread that knows; so it may be
behind for a moment, never wrong for good.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.door import Piece


class Arrived(NamedTuple):
    """A piece of input; so many rows has its stream had with it."""

    piece: Piece
    upto: int


@dataclass(slots=True)
class Inbox:
    """Between the two threads."""

    # By the ingest thread.
    arrived: deque[Arrived] = field(default_factory=deque)
    # Streams, the batch they begin with, and how many rows came before, if that is known.
    begun: deque[tuple[str, int, int | None]] = field(default_factory=deque)
    let_in: Counter[str] = field(default_factory=Counter)  # tuples by stream
    pieces_in: int = 0
    bytes_in: int = 0
    used_s: float = 0.0  # processor time
    held_back: bool = False  # input waits for room; the class thread tells when there is some
    problems: dict[str, str] = field(default_factory=dict)  # by stream, why it cannot be read

    # By the class thread.
    gone: Counter[str] = field(default_factory=Counter)  # tuples by stream that do not wait any more
    pieces_gone: int = 0
    keep: tuple[int, float] = (0, 1.0)  # the load cycle, and what to keep from then on
    asleep: bool = False

    def queued(self, stream: str) -> int:
        return self.let_in[stream] - self.gone[stream]

    @property
    def pieces(self) -> int:
        return self.pieces_in - self.pieces_gone
