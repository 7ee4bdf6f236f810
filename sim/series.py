"""Time series of a run, with one point per load cycle and class, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field

POINTS_MAX = 4000


@dataclass
class ClassSeries:
    """Time series of one class; all lists have the same length as `at_s`."""

    at_s: list[float] = field(default_factory=list)
    response_ms: list[float | None] = field(default_factory=list)
    headroom: list[float | None] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    drop: list[float] = field(default_factory=list)
    load: list[float | None] = field(default_factory=list)
    queued: list[int] = field(default_factory=list)


@dataclass
class Series:
    """Time series by class. When the lists are full, every second point is deleted, and from then on half as many points are recorded."""

    classes: dict[str, ClassSeries]
    stride: int = 1
    shared_s: dict[str, float] = field(init=False)
    """Share of each class, summed over time until now (share times seconds)."""
    _cycle: int = 0

    def __post_init__(self) -> None:
        self.shared_s = dict.fromkeys(self.classes, 0.0)

    def due(self) -> bool:
        """Return True if a point must be recorded for this load cycle. The method must be called once per load cycle."""
        self._cycle += 1
        return self._cycle % self.stride == 0

    def thin(self) -> None:
        for class_ in self.classes.values():
            if len(class_.at_s) < POINTS_MAX:
                return
            for column in vars(class_).values():
                del column[::2]
        self.stride *= 2
