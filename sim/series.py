"""What a run looked like over time, one point a load cycle and class, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field

POINTS_MAX = 4000


@dataclass
class ClassSeries:
    """Columns of one class; all of the same length as `ClassSeries.at_s`."""

    at_s: list[float] = field(default_factory=list)
    response_ms: list[float | None] = field(default_factory=list)
    headroom: list[float | None] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    drop: list[float] = field(default_factory=list)
    load: list[float | None] = field(default_factory=list)
    queued: list[int] = field(default_factory=list)


@dataclass
class Series:
    """Columns per class. When they are full every other point goes and the stride doubles."""

    classes: dict[str, ClassSeries]
    stride: int = 1
    shared_s: dict[str, float] = field(init=False)
    """Share times seconds so far, by class."""
    _cycle: int = 0

    def __post_init__(self) -> None:
        self.shared_s = dict.fromkeys(self.classes, 0.0)

    def due(self) -> bool:
        """Whether this cycle is to be recorded; call once a cycle."""
        self._cycle += 1
        return self._cycle % self.stride == 0

    def thin(self) -> None:
        for class_ in self.classes.values():
            if len(class_.at_s) < POINTS_MAX:
                return
            for column in vars(class_).values():
                del column[::2]
        self.stride *= 2
