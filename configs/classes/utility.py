"""What an answer is worth by how long it took: a query's QoS graph (Carney ch. 4), piecewise linear in the latency.

    utility:
      - {latency_ms: 200, utility: 1.0}
      - {latency_ms: 400, utility: 0.2}
      - {latency_ms: 900, utility: 0.0}

Before the first point the utility is the first point's, after the last one the last one's. It never rises with the
latency: an answer that is worth more when it is late would be held back by whoever schedules for utility.

The *deadline* of a graph is its first critical point, where utility begins to fall.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import Annotated

from pydantic import AfterValidator, Field

from configs.base import Fraction, NonNegative, Settings
from configs.errors import Contradiction, InvalidInput

POINTS_MAX = 32


class UtilityPoint(Settings):
    """A corner of the graph."""

    latency_ms: NonNegative
    utility: Fraction


def points_in(text: str, field: str) -> list[dict[str, float]]:
    """The points of `200:1,400:0.5,900:0`, as a document has them; whether they make a graph is not looked at."""
    points = []
    for point in text.split(","):
        latency, colon, utility = point.partition(":")
        try:
            if not colon:
                raise ValueError
            points.append({"latency_ms": float(latency), "utility": float(utility)})
        except ValueError:
            hint = "give points as LATENCY_MS:UTILITY, with commas between them: 200:1,400:0.5,900:0"
            raise InvalidInput("not a point of a utility graph", field, point, hint) from None
    return points


def told(points: Utility | None) -> str:
    """As people write it on a command line."""
    return ",".join(f"{point.latency_ms:g}:{point.utility:g}" for point in points or ())


def falling(points: tuple[UtilityPoint, ...]) -> tuple[UtilityPoint, ...]:
    """The points, if utility falls or stays from each to the next."""
    for place, (before, after) in enumerate(pairwise(points), start=1):
        if after.latency_ms <= before.latency_ms:
            raise Contradiction(
                f"latencies must ascend, and the point before has {before.latency_ms:g} ms",
                f"[{place}].latency_ms",
                after.latency_ms,
                "sort the points by latency, each latency once",
            )
        if after.utility > before.utility:
            raise Contradiction(
                f"utility must not rise with latency, and it is {before.utility:g} at {before.latency_ms:g} ms",
                f"[{place}].utility",
                after.utility,
                f"lower it to {before.utility:g} or less",
            )
    return points


Utility = Annotated[
    tuple[UtilityPoint, ...], Field(min_length=1, max_length=POINTS_MAX), AfterValidator(falling)
]
"""A graph as it is declared: a list of its points."""


class UtilityGraph(Settings):
    """Utility between 0 and 1 of an answer, by its latency."""

    points: Utility

    @classmethod
    def step(cls, deadline_ms: float) -> UtilityGraph:
        """Worth everything up to the deadline, and nothing from twice of it on: what a class has without a graph."""
        return cls(
            points=(
                UtilityPoint(latency_ms=deadline_ms, utility=1.0),
                UtilityPoint(latency_ms=2 * deadline_ms, utility=0.0),
            )
        )

    @cached_property
    def latencies_s(self) -> tuple[float, ...]:
        return tuple(point.latency_ms / 1e3 for point in self.points)

    @cached_property
    def utilities(self) -> tuple[float, ...]:
        return tuple(point.utility for point in self.points)

    @cached_property
    def gradients(self) -> tuple[float, ...]:
        """Utility lost a second: before the first point, between points, after the last."""
        between = [
            (before.utility - after.utility) * 1e3 / (after.latency_ms - before.latency_ms)
            for before, after in pairwise(self.points)
        ]
        return (0.0, *between, 0.0)

    @cached_property
    def deadline_s(self) -> float:
        """Where utility begins to fall; the last point of a graph that never does."""
        falling = (at for at, lost in zip(self.latencies_s, self.gradients[1:], strict=True) if lost > 0)
        return next(falling, self.latencies_s[-1])

    def utility_at(self, latency_s: float) -> float:
        place = bisect_right(self.latencies_s, latency_s)
        if place == 0:
            return self.utilities[0]
        return self.utilities[place - 1] - self.gradients[place] * (latency_s - self.latencies_s[place - 1])

    def gradient_at(self, latency_s: float) -> float:
        """Utility lost a second from this latency on."""
        return self.gradients[bisect_right(self.latencies_s, latency_s)]

    def slack_at(self, latency_s: float) -> float:
        """How long until the next critical point; `inf` after the last."""
        place = bisect_right(self.latencies_s, latency_s)
        return self.latencies_s[place] - latency_s if place < len(self.latencies_s) else inf
