"""Metrics per operator, polled only if the setting `metrics_operators` is on.

Each class needs a call to its host, so every poll reads only the classes with the oldest figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from configs.errors import UnknownName
from engine.class_.explain import PlanLine
from services.watch.source import SourceAway

# Number of classes per poll. In a system with more classes, the figures of some classes are several polls old.
CLASSES_ASKED = 20


class OperatorLooks:
    """Operators of the first unit of each class, in `seen`. One thread calls `look`; other threads may read `seen`."""

    def __init__(self, plan_of: Callable[[str], Sequence[PlanLine]]) -> None:
        """`plan_of` returns the operators of a class. It may raise SourceAway, or UnknownName for a class that no longer exists."""
        self._plan_of = plan_of
        self.seen: Mapping[str, Sequence[PlanLine]] = {}

    def look(self, classes: Iterable[str]) -> None:
        """Poll the operators of the CLASSES_ASKED classes that were polled longest ago."""
        names = list(classes)
        # `lines_by_class` is ordered by the time of the last poll, oldest first.
        lines_by_class = {name: lines for name, lines in self.seen.items() if name in set(names)}
        due = [*(name for name in names if name not in lines_by_class), *lines_by_class][:CLASSES_ASKED]
        for name in due:
            lines = lines_by_class.pop(name, ())
            try:
                lines_by_class[name] = self._plan_of(name)
            except SourceAway:
                lines_by_class[name] = lines
            except UnknownName:
                continue
        self.seen = lines_by_class
