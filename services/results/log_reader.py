"""What the thread does that reads answers: look how many there are, and fetch some.

Whatever is read here is encoded or copied before it is handed out. Segments that may be forgotten are let go of when
nobody has read them for HOLD_S: no reader, however slow, keeps memory from being free.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from configs.errors import UnknownName
from services.results.places import AnswersPlace, Places
from services.results.units import FoundRows, KnownAnswers, UnitAnswers, answers_at

# Where units are is asked for no more often.
PLACES_S = 0.5
HOLD_S = 1.0


@dataclass(frozen=True, slots=True)
class QueryAddress:
    """A query that is read."""

    class_name: str
    query: str


View = Mapping[int, tuple[AnswersPlace, KnownAnswers]]
"""By shard: where its answers are, and how many there have been."""


@dataclass
class OpenUnit:
    """A unit that is being read."""

    answers: UnitAnswers
    looked_at: float
    read_at: float
    holds: bool = False
    """Whether it may map what is forgotten."""


@dataclass
class Desk:
    """For one thread."""

    places: Places
    key: Callable[[], str]
    """Opens the doors of other nodes."""
    hold_s: float = HOLD_S
    _units: dict[AnswersPlace, OpenUnit] = field(init=False, default_factory=dict)
    _placed: dict[str, tuple[float, Sequence[AnswersPlace]]] = field(init=False, default_factory=dict)

    def look(self, wanted: Sequence[QueryAddress]) -> tuple[list[View], bool]:
        """What is there of each, and whether anything is held on to."""
        now = time.monotonic()
        views = [self.view(query) for query in wanted]
        self._sweep(now)
        return views, bool(self._units)

    def view(self, asked: QueryAddress) -> View:
        now, units = time.monotonic(), {}
        for place in self._places_of(asked.class_name, now):
            unit = self._opened(place, now)
            figures = None if unit is None else unit.answers.seen(asked.query)
            if figures is not None:
                units[place.shard] = (place, figures)
        return units

    def columns(self, place: AnswersPlace, query: str) -> list[tuple[str, str]]:
        unit = self._opened(place, time.monotonic())
        return [] if unit is None else unit.answers.columns(query)

    def some(self, place: AnswersPlace, query: str, row: int, most: int) -> FoundRows | None:
        """None if the unit has gone meanwhile."""
        now = time.monotonic()
        unit = self._opened(place, now)
        if unit is None:
            return None
        unit.read_at, unit.holds = now, True
        return unit.answers.some(query, row, most)

    def _places_of(self, class_name: str, now: float) -> Sequence[AnswersPlace]:
        at, places = self._placed.get(class_name, (-PLACES_S, ()))
        if now - at >= PLACES_S:
            try:
                places = self.places.places(class_name)
            except UnknownName:
                places = ()
            self._placed[class_name] = (now, places)
        return places

    def _opened(self, place: AnswersPlace, now: float) -> OpenUnit | None:
        unit = self._units.get(place)
        if unit is None:
            answers = answers_at(place, self.key)
            if answers is None:
                return None
            unit = self._units[place] = OpenUnit(answers, now, now)
        unit.looked_at = now
        return unit

    def _sweep(self, now: float) -> None:
        for place, unit in list(self._units.items()):
            if now - unit.looked_at >= self.hold_s:
                del self._units[place]
            elif unit.holds and now - unit.read_at >= self.hold_s:
                unit.answers.let_go()
                unit.holds = False
        self._placed = {
            name: placed for name, placed in self._placed.items() if now - placed[0] < self.hold_s
        }
