"""Response times of a class's answers, as they are handed out."""

from __future__ import annotations

from collections.abc import Mapping

from engine.data.train import Train, is_same
from engine.measure.ideal_cost import Alone
from loadshed.responses import ResponseStatistics

# The cost of an answer alone, while it is not known.
UNKNOWN = Alone(0.0)


class AnswerTimes:
    """Statistics of all answers, of recent ones, and of those since `notice`."""

    def __init__(self, target_s: float) -> None:
        self.target_s = target_s
        self.total = ResponseStatistics(target_s)
        self.recent = ResponseStatistics(target_s)
        self.noticed: ResponseStatistics | None = None
        """With slowdowns; None if nobody asks for them."""
        self._alone: Mapping[str, Alone] = {}  # of an answer, by query; as of the last `notice`
        # Response times since the last settle point, where trains had one for all.
        self._same: dict[float, int] = {}

    def set_target(self, target_s: float) -> None:
        self.target_s = self.total.target_s = self.recent.target_s = target_s

    def begin_recent(self) -> None:
        self.recent = ResponseStatistics(self.target_s)

    def notice(self, alone: Mapping[str, Alone]) -> None:
        """Restart the statistics with slowdowns, by what an answer costs alone."""
        self.noticed = ResponseStatistics(self.target_s)
        self._alone = alone

    def add(self, query: str, train: Train, now: float) -> float:
        """Measure answers of a query; return the sum of their response times."""
        results, arrival = len(train), train.arrival
        if is_same(arrival):
            response_s = now - arrival.item(0)
            total_s = response_s * results
            # The answers of a train came at one time, and mostly of one arrival.
            self._same[response_s] = self._same.get(response_s, 0) + results
        else:
            total_s = now * results - float(arrival.sum())
            self.total.add_array(now - arrival, 0.0)
            self.recent.add_array(now - arrival, 0.0)
        if self.noticed is not None:
            alone = self._alone.get(query, UNKNOWN)
            self.noticed.add_array(now - arrival, alone.ideal_s, alone.apart_s)
        return total_s

    def settle(self) -> None:
        """Measure together the trains since the last settle point that had one response time for all."""
        for response_s, results in self._same.items():
            self.total.add_same(response_s, results)
            self.recent.add_same(response_s, results)
        self._same.clear()
