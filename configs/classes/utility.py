"""Utility of an answer by its response time: a query's QoS graph (Carney ch. 4), piecewise linear.

Example:

    utility:
      - {latency_ms: 200, utility: 1.0}
      - {latency_ms: 400, utility: 0.2}
      - {latency_ms: 900, utility: 0.0}

Before the first point, utility is that of the first point; after the last point, it is that of the last point. Utility
never rises with latency: if utility rose, a policy that maximises utility would hold answers back.

The *deadline* of a graph is the latency at which utility begins to fall.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field

from configs.base import Fraction, NonNegative, Settings
from configs.errors import Contradiction, InvalidInput

POINTS_MAX = 32


class UtilityPoint(Settings):
    """Corner of a utility graph: the utility of an answer after this latency in ms."""

    latency_ms: NonNegative
    utility: Fraction


def points_in(text: str, field: str) -> list[dict[str, float]]:
    """Return the points of a utility graph from a text such as `200:1,400:0.5,900:0`, without checking that they form a valid graph."""
    points = []
    for point in text.split(","):
        latency, colon, utility = point.partition(":")
        try:
            if not colon:
                raise ValueError
            points.append({"latency_ms": float(latency), "utility": float(utility)})
        except ValueError:
            hint = "write points with commas between them, for example 200:1,400:0.5,900:0"
            raise InvalidInput(
                "a point of the utility graph is not of the form LATENCY_MS:UTILITY", field, point, hint
            ) from None
    return points


def told(points: Utility | None) -> str:
    """Return the points of a utility graph as a text for the command line, such as `200:1,400:0.5,900:0`."""
    return ",".join(f"{point.latency_ms:g}:{point.utility:g}" for point in points or ())


def falling(points: tuple[UtilityPoint, ...]) -> tuple[UtilityPoint, ...]:
    """Return the points of a utility graph; raise Contradiction unless latencies ascend and utility never rises."""
    for place, (before, after) in enumerate(pairwise(points), start=1):
        if after.latency_ms <= before.latency_ms:
            title = f"latencies must ascend, but the point before has {before.latency_ms:g} ms"
            hint = "sort the points by latency, each latency once"
            raise Contradiction(title, f"[{place}].latency_ms", after.latency_ms, hint)
        if after.utility > before.utility:
            title = f"utility must not rise with latency, but it is {before.utility:g} at {before.latency_ms:g} ms"
            hint = f"lower the utility to {before.utility:g} or less"
            raise Contradiction(title, f"[{place}].utility", after.utility, hint)
    return points


Utility = Annotated[
    tuple[UtilityPoint, ...], Field(min_length=1, max_length=POINTS_MAX), AfterValidator(falling)
]
"""Utility graph as users declare it: a list of points."""


class UtilityGraph(Settings):
    """Utility graph: the utility of an answer, from 0 to 1, by its latency."""

    points: Utility

    @classmethod
    def step(cls, deadline_ms: float) -> UtilityGraph:
        """Return the default graph: utility is 1 up to the deadline, and falls to 0 at twice the deadline."""
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
        """Utility lost per second: before the first point, between points, and after the last point."""
        between = [
            (before.utility - after.utility) * 1e3 / (after.latency_ms - before.latency_ms)
            for before, after in pairwise(self.points)
        ]
        return (0.0, *between, 0.0)

    @cached_property
    def deadline_s(self) -> float:
        """Latency in seconds at which utility begins to fall; the last point's latency if utility never falls."""
        falling = (at for at, lost in zip(self.latencies_s, self.gradients[1:], strict=True) if lost > 0)
        return next(falling, self.latencies_s[-1])

    def utility_at(self, latency_s: float) -> float:
        place = bisect_right(self.latencies_s, latency_s)
        if place == 0:
            return self.utilities[0]
        return self.utilities[place - 1] - self.gradients[place] * (latency_s - self.latencies_s[place - 1])
