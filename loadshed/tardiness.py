"""Tardiness of windows' results: the time by which they missed their deadlines (Golab §4.1; Sharaf §3.5).

A result is due when event time reaches the end of its window. Its deadline is one pane later, when the next result could be due.
Event time is assumed to advance like the clock, so the response time shows how late a result is.

1. Memory does not grow with the number of answers.
2. An answer before its deadline has a tardiness of 0, so early answers do not compensate for late answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class AnswerTardiness:
    """Tardiness of the answers of one query."""

    answers: int = 0
    tardy: int = 0
    """Number of answers after their deadlines."""
    sum_s: float = 0.0
    """Sum of the times by which answers missed their deadlines."""
    max_s: float = 0.0

    @property
    def mean_s(self) -> float:
        """Mean tardiness of all answers, including those in time."""
        return self.sum_s / self.answers if self.answers else 0.0

    def add_same(self, response_s: float, slack_s: float, count: int) -> None:
        """Add `count` answers with the same response time and time until the deadline."""
        past_s = response_s - slack_s
        self.answers += count
        if past_s > 0:
            self.tardy += count
            self.sum_s += past_s * count
            self.max_s = max(self.max_s, past_s)

    def add_array(self, response_s: npt.NDArray[np.float64], slack_s: float) -> None:
        """Add one answer for each response time."""
        past_s = response_s - slack_s
        past_s = past_s[past_s > 0]
        self.answers += len(response_s)
        if len(past_s):
            self.tardy += len(past_s)
            self.sum_s += float(past_s.sum())
            self.max_s = max(self.max_s, float(past_s.max()))
