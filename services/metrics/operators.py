"""Detail by operator, for who has asked for it: a call to a class's host each, so some classes at a time, in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from configs.errors import UnknownName
from engine.class_.explain import PlanLine
from services.watch.source import SourceAway

# Asked at one look. With more classes than this, what is told of some is some looks old.
CLASSES_ASKED = 20


class OperatorSource(Protocol):
    """Raises Away, or UnknownName of a class that is no more."""

    def plan(self, class_name: str) -> list[PlanLine]: ...


class OperatorLooks:
    """By class; of its first unit. One thread looks, others read `seen`."""

    def __init__(self, source: OperatorSource) -> None:
        self._source = source
        self.seen: Mapping[str, Sequence[PlanLine]] = {}

    def look(self, classes: Iterable[str]) -> None:
        """At those that were looked at longest ago."""
        names = list(classes)
        # Those that are known stand in the order in which they were asked.
        lines_by_class = {name: lines for name, lines in self.seen.items() if name in set(names)}
        due = [*(name for name in names if name not in lines_by_class), *lines_by_class][:CLASSES_ASKED]
        for name in due:
            lines = lines_by_class.pop(name, ())
            try:
                lines_by_class[name] = self._source.plan(name)
            except SourceAway:
                lines_by_class[name] = lines
            except UnknownName:
                continue
        self.seen = lines_by_class
