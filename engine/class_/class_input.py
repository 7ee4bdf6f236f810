"""The input of a class: what waits of each stream, what was dropped of it, and the accounts that close with both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.class_.commit_buffer import CommitBuffer
from engine.class_.door import Piece
from engine.class_.input_account import FROM_NOW, Entrance, Position, StreamPosition
from engine.class_.runner import ClassRunner
from engine.class_.steps import Evicted, StreamLeft, Took
from engine.data.samples import Samples
from engine.data.train import Train
from engine.operators.source import SourceOperator
from loadshed.ledger import TupleLedger

# Number of accounts of streams that are not read any more.
ENDED_MAX = 100


class ClassInput:
    """An entrance for each stream that was read since it was declared, and the accounts of streams that the class has left."""

    def __init__(self, runner: ClassRunner, buffer: CommitBuffer) -> None:
        self.entrances: dict[str, Entrance] = {}
        self.ended: dict[str, TupleLedger] = {}
        """By stream, the oldest first."""
        self.samples = Samples()
        self._runner, self._buffer = runner, buffer
        # Queued trains of streams that queries have just stopped reading, for the queries that are about to read them.
        self._unread: dict[str, Sequence[Train]] = {}

    # --- streams ---------------------------------------------------------------------------------------

    def open(self, stream: str) -> Entrance:
        """Return the entrance of a stream; a stream that is read again continues its account."""
        if stream not in self.entrances:
            ledger = self.ended.pop(stream, TupleLedger())
            self.entrances[stream] = Entrance(ledger=ledger, cycle_delivered=ledger.delivered)
        return self.entrances[stream]

    def end(self, stream: str) -> None:
        """Keep the account of a stream that the class leaves; only the last ENDED_MAX are kept."""
        entrance = self.entrances.pop(stream, None)
        if entrance is not None:
            self.ended[stream] = entrance.ledger
        while len(self.ended) > ENDED_MAX:
            del self.ended[next(iter(self.ended))]

    def set_next(self, stream: str, following: StreamPosition) -> None:
        """Begin a stream that has not been read yet here."""
        entrance = self.entrances.get(stream)
        if entrance is not None and entrance.next_batch == FROM_NOW:
            entrance.next_batch, entrance.rows = following

    def leave(self, stream: str) -> None:
        """Drop by decision what is queued of a stream that no query reads; a later query begins with what comes then."""
        entrance = self.entrances.get(stream)
        if entrance is None or entrance.following == StreamPosition():
            return
        self.evict(stream, entrance.tuples)
        self._consume(entrance, 0)
        self._buffer.settle(StreamLeft(stream))
        self.forget_position(stream)

    def leave_unread(self) -> None:
        """Leave the streams that no query reads any more."""
        for stream in self.entrances:
            if self._runner.network.source(stream) is None:
                self.leave(stream)

    def forget_position(self, stream: str) -> None:
        entrance = self.entrances.get(stream)
        if entrance is not None:
            entrance.next_batch, entrance.rows = StreamPosition()
        self._unread.pop(stream, None)

    def reader_goes(self, query: str) -> None:
        """Keep what is queued of streams that this query alone reads, and count what came late there."""
        for stream, entrance in self.entrances.items():
            node = self._runner.network.source(stream)
            if node is not None and node.users <= {query}:
                assert isinstance(node.operator, SourceOperator)
                entrance.count_late(node.operator.late)
                if node.queue:
                    self._unread[stream] = tuple(node.queue)

    def reader_comes(self, stream: str) -> None:
        """Queue again what was kept of a stream that is read now."""
        self.open(stream)
        for train in self._unread.pop(stream, ()):
            self._runner.offer(stream, train)

    def forget_unread(self) -> None:
        self._unread.clear()

    # --- queues ----------------------------------------------------------------------------------------

    def count(self, piece: Piece, is_sampled: bool) -> None:
        """Count what came to a door in this load cycle, if a query reads the stream."""
        if self._runner.network.source(piece.stream) is None:
            return
        entrance = self.entrances[piece.stream]
        entrance.cycle_offered += piece.offered
        entrance.cycle_batches += piece.offered > 0
        if is_sampled:
            self.samples.add(piece.stream, piece.train)

    def queue(self, piece: Piece, upto: int) -> None:
        """Queue what a door let in; `upto` is how many rows the stream has had with it."""
        if self._runner.network.source(piece.stream) is None:
            return
        self.entrances[piece.stream].let_in(piece, upto)
        self._runner.offer(piece.stream, piece.train)
        if piece.evict:
            self.evict(piece.stream, piece.evict)

    def took(self, stream: str, tuples: int) -> None:
        """A source operator has taken tuples: write down which batches were begun."""
        entrance = self.entrances[stream]
        entrance.ledger.delivered += tuples
        self._consume(entrance, tuples)
        self._buffer.write(Took(stream, tuples))

    def evict(self, stream: str, tuples: int) -> int:
        """Drop the oldest tuples of a stream's queue; return how many there were."""
        entrance = self.entrances[stream]
        is_read = self._runner.network.source(stream) is not None
        dropped = self._runner.evict(stream, tuples) if is_read else min(tuples, entrance.tuples)
        if dropped:
            entrance.ledger.shed += dropped
            self._consume(entrance, dropped)
            self._buffer.write(Evicted(stream, dropped))
        return dropped

    def trim(self, part: float) -> None:
        """Drop this part of what no operator has taken, the oldest first; nothing while steps are repeated."""
        if self._buffer.is_repeating:
            return
        for stream, entrance in self.entrances.items():
            self.evict(stream, int(part * entrance.tuples))

    def drop_older(self, age_s: float, now: float) -> int:
        """Drop what has waited for longer than this without being taken by an operator; return how many tuples."""
        dropped = 0
        if self._buffer.is_repeating:
            return dropped
        for stream in self.entrances:
            node = self._runner.network.source(stream)
            dropped += self.evict(stream, 0 if node is None else node.older(now - age_s))
        return dropped

    def settle(self) -> None:
        """Write down batches of which nothing was let in."""
        for entrance in self.entrances.values():
            if entrance.queued and not entrance.queued[0][1]:
                self._consume(entrance, 0)

    def _consume(self, entrance: Entrance, tuples: int) -> None:
        for opened in entrance.consume(tuples):
            self._buffer.write(opened)

    # --- accounts --------------------------------------------------------------------------------------

    def queued(self, stream: str) -> int:
        """Return the tuples of the stream that no operator has taken."""
        return self.entrances[stream].tuples if stream in self.entrances else 0

    def ledger(self, stream: str) -> TupleLedger:
        """Return the account of one stream; it closes with `queued`."""
        account, node = self.entrances[stream].ledger, self._runner.network.source(stream)
        if node is None:
            return replace(account)
        assert isinstance(node.operator, SourceOperator)
        late = node.operator.late
        return replace(account, delivered=account.delivered - late, late=account.late + late)

    def accounts(self) -> dict[str, tuple[TupleLedger, int]]:
        """Return by stream the account and the tuples that are queued, also of streams that the class has left."""
        ended = {stream: (replace(ledger), 0) for stream, ledger in self.ended.items()}
        return {stream: (self.ledger(stream), self.queued(stream)) for stream in self.entrances} | ended

    def positions(self) -> Mapping[str, int]:
        """Return by stream the first batch that a state made now would not do without."""
        return {stream: entrance.position.batch for stream, entrance in self.entrances.items()}

    # --- recovery --------------------------------------------------------------------------------------

    def state(self) -> dict[str, tuple[TupleLedger, Position]]:
        """Return by stream its account and where it continues, without batches that are not begun."""
        state = {}
        for stream, entrance in self.entrances.items():
            node = self._runner.network.source(stream)
            missing = None if node is None else node.missing
            state[stream] = entrance.begun_ledger, replace(entrance.position, missing=missing)
        return state

    def restore(self, stream: str, ledger: TupleLedger, position: Position) -> Entrance:
        """Continue a stream where a state leaves it; a batch that was begun is still to be queued."""
        self.entrances[stream] = Entrance(ledger=ledger, next_batch=position.batch, rows=position.rows)
        node = self._runner.network.source(stream)
        if node is not None:
            node.missing = position.missing
        return self.entrances[stream]
