"""Steps and answers of a class on their way into a commit."""

from __future__ import annotations

from collections.abc import Mapping

from engine.class_.repetition import Repetition
from engine.class_.steps import Answer, Commit, Interrupted, Step
from engine.data.held_state import train_bytes, tuple_bytes


class CommitBuffer:
    """Steps since the last settle point, and settled steps and answers since the last commit.

    Steps that are repeated are not written again, and their answers are kept apart: most of them were committed before.
    """

    def __init__(self, repetition: Repetition, bytes_max: float) -> None:
        """A slice ends early with more bytes of answers than `bytes_max`, for them to be committed."""
        self.repeated: list[Answer] = []
        """Answers of repeated steps that no commit is known to have."""
        self._repetition, self._bytes_max = repetition, bytes_max
        self._steps: list[Step] = []
        self._settled: list[Step] = []
        self._answers: list[Answer] = []
        self._bytes = 0
        self._widths: dict[str, int] = {}  # of a query's answers; 0 where texts make them differ

    @property
    def is_repeating(self) -> bool:
        return bool(self._repetition)

    @property
    def is_empty(self) -> bool:
        return not (self._steps or self._settled or self._answers)

    @property
    def has_room(self) -> bool:
        return self._bytes <= self._bytes_max

    def write(self, step: Step) -> None:
        """Write down a step, which settles with the next settle point."""
        if not self.is_repeating:
            self._steps.append(step)

    def settle(self, *steps: Step) -> None:
        """Settle the steps up to now, and then these, which belong to the settle point itself."""
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
        """Forget repeated answers that the commit has: after an interruption it may lack some."""
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
        """Return what has settled since the last call; `answered` are the numbers of answers there are now."""
        if not self._settled and not self._answers:
            return None
        commit = Commit(tuple(self._settled), tuple(self._answers), dict(answered))
        self._settled, self._answers, self._bytes = [], [], 0
        return commit
