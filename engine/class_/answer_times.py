"""Response times of a class's answers, measured when the answers are delivered."""

from __future__ import annotations

from collections.abc import Mapping

from engine.data.train import Train, is_same
from engine.measure.ideal_cost import Alone
from loadshed.responses import ResponseStatistics

# Value that stands for the ideal cost of an answer while that cost is not known.
UNKNOWN = Alone(0.0)


class AnswerTimes:
    """Response times of all answers, of the answers since the last `begin_recent`, and of the answers since the last `notice`."""

    def __init__(self, target_s: float) -> None:
        self.target_s = target_s
        self.total = ResponseStatistics(target_s)
        self.recent = ResponseStatistics(target_s)
        self.noticed: ResponseStatistics | None = None
        """Statistics since `notice`, with slowdowns; None before the first `notice`."""
        self._alone: Mapping[
            str, Alone
        ] = {}  # Ideal cost of an answer, by query, at the last call of `notice`
        # Number of answers since the last settle point, by response time, from trains in which all answers have one arrival time.
        self._same: dict[float, int] = {}

    def set_target(self, target_s: float) -> None:
        self.target_s = self.total.target_s = self.recent.target_s = target_s

    def begin_recent(self) -> None:
        self.recent = ResponseStatistics(self.target_s)

    def notice(self, alone: Mapping[str, Alone]) -> None:
        """Begin new statistics that include slowdowns, which are computed from `alone`, the ideal cost of each query's answers."""
        self.noticed = ResponseStatistics(self.target_s)
        self._alone = alone

    def add(self, query: str, train: Train, now: float) -> float:
        """Add a train of a query's answers to the statistics; return the sum of the response times of these answers."""
        results, arrival = len(train), train.arrival
        if is_same(arrival):
            response_s = now - arrival.item(0)
            total_s = response_s * results
            # The answers of a train have one delivery time and mostly one arrival time, so the answers are counted together.
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
        """Add to the statistics all answers that were counted by response time; call this at each settle point."""
        for response_s, results in self._same.items():
            self.total.add_same(response_s, results)
            self.recent.add_same(response_s, results)
        self._same.clear()
