"""Input of a class: the queued and dropped tuples of each stream, and accounts of every tuple that was offered."""

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

# Maximum number of accounts kept for streams that the class does not read any more.
ENDED_MAX = 100


class ClassInput:
    """Queue and account of each stream that the class reads, and accounts of streams that the class no longer reads."""

    def __init__(self, runner: ClassRunner, buffer: CommitBuffer) -> None:
        self.entrances: dict[str, Entrance] = {}
        self.ended: dict[str, TupleLedger] = {}
        """Accounts of streams that the class no longer reads, by stream, the oldest first."""
        self.samples = Samples()
        self._runner, self._buffer = runner, buffer
        # Queued trains of streams that lost their last query, kept for a query that may be added in the same change.
        self._unread: dict[str, Sequence[Train]] = {}

    def open(self, stream: str) -> Entrance:
        """Return the stream's queue and account in the class; a stream that is read again continues its old account."""
        if stream not in self.entrances:
            ledger = self.ended.pop(stream, TupleLedger())
            self.entrances[stream] = Entrance(ledger=ledger, cycle_delivered=ledger.delivered)
        return self.entrances[stream]

    def end(self, stream: str) -> None:
        """Stop reading a stream, and keep its account.

        Accounts are kept for only the last ENDED_MAX streams that the class has stopped reading.
        """
        entrance = self.entrances.pop(stream, None)
        if entrance is not None:
            self.ended[stream] = entrance.ledger
        while len(self.ended) > ENDED_MAX:
            del self.ended[next(iter(self.ended))]

    def set_next(self, stream: str, following: StreamPosition) -> None:
        """Set the position at which the class begins to read a stream; do nothing if the class has read the stream before."""
        entrance = self.entrances.get(stream)
        if entrance is not None and entrance.next_batch == FROM_NOW:
            entrance.next_batch, entrance.rows = following

    def leave(self, stream: str) -> None:
        """Shed the queued tuples of a stream that no query reads any more; a query added later reads only new rows."""
        entrance = self.entrances.get(stream)
        if entrance is None or entrance.following == StreamPosition():
            return
        self.evict(stream, entrance.tuples)
        self._consume(entrance, 0)
        self._buffer.settle(StreamLeft(stream))
        self.forget_position(stream)

    def leave_unread(self) -> None:
        """Drop the queues and positions of streams that no query reads any more."""
        for stream in self.entrances:
            if self._runner.network.source(stream) is None:
                self.leave(stream)

    def forget_position(self, stream: str) -> None:
        entrance = self.entrances.get(stream)
        if entrance is not None:
            entrance.next_batch, entrance.rows = StreamPosition()
        self._unread.pop(stream, None)

    def reader_goes(self, query: str) -> None:
        """Prepare to remove a query: for each stream that no other query reads, keep the queued trains and count the late tuples."""
        for stream, entrance in self.entrances.items():
            node = self._runner.network.source(stream)
            if node is not None and node.users <= {query}:
                assert isinstance(node.operator, SourceOperator)
                entrance.count_late(node.operator.late)
                if node.queue:
                    self._unread[stream] = tuple(node.queue)

    def reader_comes(self, stream: str) -> None:
        """Queue the trains that `reader_goes` has kept for a stream, because a new query reads this stream."""
        self.open(stream)
        for train in self._unread.pop(stream, ()):
            self._runner.offer(stream, train)

    def forget_unread(self) -> None:
        self._unread.clear()

    def count(self, piece: Piece, is_sampled: bool) -> None:
        """Count a batch's tuples as offered in this load cycle, if a query reads the stream."""
        if self._runner.network.source(piece.stream) is None:
            return
        entrance = self.entrances[piece.stream]
        entrance.cycle_offered += piece.offered
        entrance.cycle_batches += piece.offered > 0
        if is_sampled:
            self.samples.add(piece.stream, piece.train)

    def queue(self, piece: Piece, upto: int) -> None:
        """Queue the tuples that a door let in; `upto` is the number of rows in the stream up to the end of the batch."""
        if self._runner.network.source(piece.stream) is None:
            return
        self.entrances[piece.stream].let_in(piece, upto)
        self._runner.offer(piece.stream, piece.train)
        if piece.evict:
            self.evict(piece.stream, piece.evict)

    def took(self, stream: str, tuples: int) -> None:
        """Account for tuples that a source operator has taken.

        A batch is recorded as begun when the operator takes the first tuple of the batch.
        """
        entrance = self.entrances[stream]
        entrance.ledger.delivered += tuples
        self._consume(entrance, tuples)
        self._buffer.write(Took(stream, tuples))

    def evict(self, stream: str, tuples: int) -> int:
        """Drop up to this number of the oldest tuples of a stream's queue; return how many were dropped."""
        entrance = self.entrances[stream]
        is_read = self._runner.network.source(stream) is not None
        dropped = self._runner.evict(stream, tuples) if is_read else min(tuples, entrance.tuples)
        if dropped:
            entrance.ledger.shed += dropped
            self._consume(entrance, dropped)
            self._buffer.write(Evicted(stream, dropped))
        return dropped

    def trim(self, part: float) -> None:
        """Drop this fraction of each stream's queued tuples, the oldest first; do nothing while steps are repeated."""
        if self._buffer.is_repeating:
            return
        for stream, entrance in self.entrances.items():
            self.evict(stream, int(part * entrance.tuples))

    def drop_older(self, age_s: float, now: float) -> int:
        """Drop tuples that have waited in a stream's queue for longer than `age_s` seconds; return how many were dropped."""
        dropped = 0
        if self._buffer.is_repeating:
            return dropped
        for stream in self.entrances:
            node = self._runner.network.source(stream)
            dropped += self.evict(stream, 0 if node is None else node.older(now - age_s))
        return dropped

    def settle(self) -> None:
        """Record the empty batches at the front of the queues: batches from which the door let no tuple in."""
        for entrance in self.entrances.values():
            if entrance.queued and not entrance.queued[0][1]:
                self._consume(entrance, 0)

    def _consume(self, entrance: Entrance, tuples: int) -> None:
        for opened in entrance.consume(tuples):
            self._buffer.write(opened)

    def queued(self, stream: str) -> int:
        """Return the number of the stream's tuples that no operator has taken."""
        return self.entrances[stream].tuples if stream in self.entrances else 0

    def ledger(self, stream: str) -> TupleLedger:
        """Return the account of one stream; the counts of fates and the number of queued tuples add up to the number offered."""
        account, node = self.entrances[stream].ledger, self._runner.network.source(stream)
        if node is None:
            return replace(account)
        assert isinstance(node.operator, SourceOperator)
        late = node.operator.late
        return replace(account, delivered=account.delivered - late, late=account.late + late)

    def accounts(self) -> dict[str, tuple[TupleLedger, int]]:
        """Return each stream's account and number of queued tuples, including streams that the class does not read any more."""
        ended = {stream: (replace(ledger), 0) for stream, ledger in self.ended.items()}
        return {stream: (self.ledger(stream), self.queued(stream)) for stream in self.entrances} | ended

    def positions(self) -> Mapping[str, int]:
        """Return, by stream, the first batch that a recovery from the present state would read."""
        return {stream: entrance.position.batch for stream, entrance in self.entrances.items()}

    def state(self) -> dict[str, tuple[TupleLedger, Position]]:
        """Return each stream's account and position.

        The account leaves out batches of which no tuple was taken or dropped yet.
        """
        state = {}
        for stream, entrance in self.entrances.items():
            node = self._runner.network.source(stream)
            missing = None if node is None else node.missing
            state[stream] = entrance.begun_ledger, replace(entrance.position, missing=missing)
        return state

    def restore(self, stream: str, ledger: TupleLedger, position: Position) -> Entrance:
        """Continue a stream at the position of a saved state.

        If a part of a batch was taken before the state was saved, the caller queues the rest of that batch.
        """
        self.entrances[stream] = Entrance(ledger=ledger, next_batch=position.batch, rows=position.rows)
        node = self._runner.network.source(stream)
        if node is not None:
            node.missing = position.missing
        return self.entrances[stream]
