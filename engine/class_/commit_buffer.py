"""Steps and answers of a class that wait for the next commit."""

from __future__ import annotations

from collections.abc import Mapping

from engine.class_.steps import Answer, Commit, Interrupted, Step
from engine.data.held_state import train_bytes, tuple_bytes


class CommitBuffer:
    """Steps and answers of a class that no commit contains yet; steps become final at the next settle point.

    Repeated steps are not recorded again. `repeated` has the answers of repeated steps; most of these answers are in a commit already.
    """

    def __init__(self, bytes_max: float) -> None:
        """Create an empty buffer.

        A slice ends early once the buffer has more than `bytes_max` bytes of answers, so that these answers are committed.
        """
        self.is_repeating = False
        """True while committed steps are repeated."""
        self.repeated: list[Answer] = []
        """Answers of repeated steps that have not been found in a commit."""
        self._bytes_max = bytes_max
        self._steps: list[Step] = []
        self._settled: list[Step] = []
        self._answers: list[Answer] = []
        self._bytes = 0
        self._widths: dict[str, int] = {}  # Bytes of one answer, by query; 0 for a query with text columns

    @property
    def is_empty(self) -> bool:
        return not (self._steps or self._settled or self._answers)

    @property
    def has_room(self) -> bool:
        return self._bytes <= self._bytes_max

    def write(self, step: Step) -> None:
        """Record a step, which becomes final at the next settle point."""
        if not self.is_repeating:
            self._steps.append(step)

    def settle(self, *steps: Step) -> None:
        """Make all recorded steps final, so that the next commit contains these steps.

        `steps` are further steps, which happen at the settle point itself.
        """
        self._settled += self._steps
        self._settled += steps
        self._steps = []

    def add(self, answer: Answer) -> None:
        self._answers.append(answer)
        query, train = answer.query, answer.train
        width = self._widths.get(query)
        if width is None:
            width = self._widths[query] = tuple_bytes(train)
        self._bytes += len(train) * width or train_bytes(train)

    def check(self, commit: Commit) -> None:
        """Remove from `repeated` all answers that the commit contains.

        After an interruption, the commit lacks some answers of its steps; these answers stay in `repeated`.
        """
        interrupted = commit.steps[-1:] == (Interrupted(),)
        self.repeated = [
            answer
            for answer in self.repeated
            if interrupted and answer.first >= commit.answered.get(answer.query, 0)
        ]

    def forget_query(self, name: str) -> None:
        self.repeated = [answer for answer in self.repeated if answer.query != name]
        self._widths.pop(name, None)

    def take(self, answered: Mapping[str, int]) -> Commit | None:
        """Return a commit of the final steps and answers since the last call; None without new steps and answers.

        `answered` has the number of answers by query.
        """
        if not self._settled and not self._answers:
            return None
        commit = Commit(tuple(self._settled), tuple(self._answers), dict(answered))
        self._settled, self._answers, self._bytes = [], [], 0
        return commit
