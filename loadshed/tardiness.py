"""How long after their deadlines the results of windows came (Golab §4.1; Sharaf §3.5).

A result falls due when event time reaches the end of its window, and its deadline is one pane later, when the next
could fall due. Event time is taken to go on as the clock does, so the response time says how late an answer is.

1. Nothing that is kept grows with the number of answers.
2. An answer before its deadline counts as one without tardiness: none makes up for another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class AnswerTardiness:
    """Of the answers of one query."""

    answers: int = 0
    tardy: int = 0
    """Answers after their deadlines."""
    sum_s: float = 0.0
    """Time past the deadlines, of all answers together."""
    max_s: float = 0.0

    @property
    def mean_s(self) -> float:
        """Of all answers, those in time among them."""
        return self.sum_s / self.answers if self.answers else 0.0

    def add_same(self, response_s: float, slack_s: float, count: int) -> None:
        """Answers with one response time, due for so long."""
        past_s = response_s - slack_s
        self.answers += count
        if past_s > 0:
            self.tardy += count
            self.sum_s += past_s * count
            self.max_s = max(self.max_s, past_s)

    def add_array(self, response_s: npt.NDArray[np.float64], slack_s: float) -> None:
        """One answer each."""
        past_s = response_s - slack_s
        past_s = past_s[past_s > 0]
        self.answers += len(response_s)
        if len(past_s):
            self.tardy += len(past_s)
            self.sum_s += float(past_s.sum())
            self.max_s = max(self.max_s, float(past_s.max()))
