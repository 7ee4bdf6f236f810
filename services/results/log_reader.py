"""Work of the thread that reads answers: counting the answers of queries, and fetching rows.

Everything read is encoded or copied before it is handed out. Mapped segments of logs are released when no reader has used
them for HOLD_S, so that slow readers do not hold memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from configs.errors import UnknownName
from services.common.gateway_trust import DEFAULT_TRUST, GatewayTrust
from services.results.places import AnswersPlace, Places
from services.results.units import FoundRows, KnownAnswers, UnitAnswers, answers_at

# Minimum seconds between two lookups of the locations of a class's logs.
PLACES_S = 0.5
HOLD_S = 1.0


@dataclass(frozen=True, slots=True)
class QueryAddress:
    """Address of a query: its class and its name."""

    class_name: str
    query: str


View = Mapping[int, tuple[AnswersPlace, KnownAnswers]]
"""Where the log of a query's answers is, and the number of answers, by shard number."""


@dataclass
class OpenUnit:
    """Unit (a class or a shard of a class) that is being read."""

    answers: UnitAnswers
    looked_at: float
    read_at: float
    holds: bool = False
    """True if log segments may be mapped into memory for this unit that have been deleted from the log since."""


@dataclass
class Desk:
    """Reader of all answers, for use by one thread."""

    places: Places
    key: Callable[[], str]
    """Function that returns the key for the gateways of other nodes."""
    hold_s: float = HOLD_S
    trust: GatewayTrust = DEFAULT_TRUST
    _units: dict[AnswersPlace, OpenUnit] = field(init=False, default_factory=dict)
    _placed: dict[str, tuple[float, Sequence[AnswersPlace]]] = field(init=False, default_factory=dict)

    def look(self, wanted: Sequence[QueryAddress]) -> tuple[list[View], bool]:
        """Return the locations and numbers of the answers of queries. The second value is True if the log of any unit is still open."""
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
        """Return up to `most` rows, beginning with number `row`; None if the unit no longer exists."""
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
            answers = answers_at(place, self.key, self.trust)
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
