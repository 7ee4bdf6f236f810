"""Input and output of the admission planner: a system's classes with their loads, and the forecast for each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from configs.classes.live_class import LiveSettings
from configs.classes.priority_class import PriorityClass


@dataclass(frozen=True, slots=True)
class InputLoad:
    """Load of one stream on a class that reads the stream."""

    rate: float
    """Number of tuples of the stream per second that are offered to the class."""
    tuple_s: float
    """Processor-seconds per tuple, in all operators of the class together."""
    call_s: float = 0.0
    """Fixed processor-seconds per train, in all operators of the class together."""
    answers: float = 1.0
    """Number of answers of the class per tuple of the stream."""
    batch_s: float = 0.0
    """Seconds from one batch of the stream to the next batch; 0 if tuples arrive one by one."""
    calls: int = 1
    """Number of operators that a train passes."""

    def load(self, train_max: int) -> float:
        """Return the load in processors if all trains have the maximum length."""
        return self.rate * (self.tuple_s + self.call_s / train_max)


@dataclass(frozen=True, slots=True)
class ClassLoad:
    """Class with its declared terms and its load."""

    declared: PriorityClass
    inputs: tuple[InputLoad, ...]
    """Loads of the class's streams. If the list is empty, or all rates are 0, the class is asleep."""
    lossless: bool = False
    shards: int = 1

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def rate(self) -> float:
        return sum(input_.rate for input_ in self.inputs)

    @property
    def max_drop(self) -> float:
        return 0.0 if self.lossless else self.declared.max_drop


@dataclass(frozen=True)
class Situation:
    """System with its running classes, and the classes that would be added or changed."""

    lanes: int
    settings: LiveSettings
    running: tuple[ClassLoad, ...] = ()
    planned: tuple[ClassLoad, ...] = ()
    """Added or changed classes. A planned class replaces the running class of the same name."""
    assumed: tuple[str, ...] = ()
    """Inputs that were not measured, each with the assumed value."""
    seed: int = 1

    def after(self) -> tuple[ClassLoad, ...]:
        """Return all classes as they would be after the change: the planned classes, and the unchanged running classes."""
        names = {load.name for load in self.planned}
        return (*(load for load in self.running if load.name not in names), *self.planned)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Figures of a class in one simulated run; response times are None if the class has given no answers."""

    share: float
    load: float
    """Load that is offered to the class, in processors."""
    drop: float
    """Fraction of the class's input that is lost."""
    mean_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    within_target: float | None = None
    """Fraction of the class's answers within the delay target."""
    falls_behind: bool = False
    """True if the class's queue keeps growing."""


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """Forecast for one class: its figures in each simulated run, and whether its delay target holds."""

    name: str
    target_ms: float
    max_drop: float
    planned: bool
    before: Forecast | None
    """Figures without the change; None if the class does not run at present."""
    after: Forecast
    at_worst: Forecast | None
    """Figures while every other class asks for twice what it is entitled to; None if the class is not planned."""
    holds: bool
    """True if the delay target holds after the change; for a planned class, also in the worst case."""
    why: str


@dataclass(frozen=True)
class AdmissionPlan:
    """Answer of the planner: forecasts of all classes, and warnings."""

    classes: tuple[ClassPlan, ...]
    holds: bool
    """True if all targets hold, also in the worst case. Targets that running classes already miss are ignored."""
    holds_now: bool
    """True if all targets hold at the present load; the worst case is ignored."""
    busy: float
    """Fraction of the lanes' time that is used after the change, at the present load."""
    warnings: tuple[str, ...]
    """Sentences on classes that would miss a target, or lose more than at present."""
    assumed: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        return {
            "holds": self.holds,
            "holds_now": self.holds_now,
            "busy": self.busy,
            "classes": [asdict(class_) for class_ in self.classes],
            "warnings": list(self.warnings),
            "assumed": list(self.assumed),
        }
