"""Answers of a class's queries: answers that wait for a settle point, and the number and quality of delivered answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from engine.data.train import Train
from engine.measure.answer_quality import AnswerQuality
from engine.network.node import QueuedOperator

Sink = Callable[[str, Train], None]


class ClassAnswers:
    """Delivers answers by calls of `sink(query, train)`.

    During a call, `counts[query]` is the sequence number of the first row of the train.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.quality: dict[str, AnswerQuality] = {}
        self.counts: dict[str, int] = {}
        """Number of rows delivered, by query."""
        self.measures = True
        """False while steps are repeated, since their answers were measured the first time."""
        self.handed_out_at = 0.0
        self.unsettled: list[tuple[str, Train]] = []

    def add_query(self, name: str, quality: AnswerQuality) -> None:
        self.quality[name] = quality
        self.counts[name] = 0

    def remove_query(self, name: str) -> None:
        del self.quality[name], self.counts[name]
        self.unsettled = [answer for answer in self.unsettled if answer[0] != name]

    def hand_out(self, now: float) -> None:
        """Deliver all answers that wait for a settle point; call this only at a settle point."""
        self.handed_out_at = now
        if self.unsettled:
            answers, self.unsettled = self.unsettled, []
            self._hand_out(answers, now)

    def hand_out_finished(self, inside: Iterable[QueuedOperator], now: float) -> bool:
        """Deliver the answers of queries that have no tuples queued at the operators `inside`; return False if there is no such query."""
        finished = {query for query, _ in self.unsettled}
        for node in inside:
            if node.queue and not node.source:
                finished = finished - node.users
                if not finished:
                    return False
        answers = [answer for answer in self.unsettled if answer[0] in finished]
        self.unsettled = [answer for answer in self.unsettled if answer[0] not in finished]
        self.handed_out_at = now
        self._hand_out(answers, now)
        return True

    def _hand_out(self, answers: Sequence[tuple[str, Train]], now: float) -> None:
        for query, train in answers:
            if self.measures:
                self.quality[query].answered(train.arrival, now)
            self._sink(query, train)
            self.counts[query] += len(train)
