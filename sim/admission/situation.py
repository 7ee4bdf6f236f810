"""What a plan is made from, and what it says: the classes of a system with what comes in for each, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from configs.classes.live_class import LiveSettings
from configs.classes.priority_class import PriorityClass

# -- what is there ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InputLoad:
    """One stream as a class reads it."""

    rate: float
    """Tuples a second that are offered."""
    tuple_s: float
    """Processor-seconds of a tuple, with all that follows from it in the class's network."""
    call_s: float = 0.0
    """The same of a train, however long it is."""
    answers: float = 1.0
    """Of one tuple."""
    batch_s: float = 0.0
    """Time from one batch to the next; 0: tuples come one by one."""
    calls: int = 1
    """Operators that a train goes through."""

    def load(self, train_max: int) -> float:
        """Processors that it asks for at trains as long as they can be."""
        return self.rate * (self.tuple_s + self.call_s / train_max)


@dataclass(frozen=True, slots=True)
class ClassLoad:
    """A class: what it is entitled to, and what is asked of it."""

    declared: PriorityClass
    inputs: tuple[InputLoad, ...]
    """None, or all at rate 0: it is asleep."""
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
    """A system, and the classes that are to be new in it or other than they were."""

    lanes: int
    settings: LiveSettings
    running: tuple[ClassLoad, ...] = ()
    planned: tuple[ClassLoad, ...] = ()
    """Those of names that run take the place of these."""
    assumed: tuple[str, ...] = ()
    """What was not measured, and what was taken instead."""
    seed: int = 1

    def after(self) -> tuple[ClassLoad, ...]:
        """All classes, with those that are planned."""
        names = {load.name for load in self.planned}
        return (*(load for load in self.running if load.name not in names), *self.planned)


# -- what becomes of it ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Forecast:
    """A class in one of the runs; without response times if nothing comes in for it."""

    share: float
    load: float
    """Processors that are asked for."""
    drop: float
    """Part of the input that is shed or finds no room."""
    mean_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    within_target: float | None = None
    """Part of the answers that come within the target."""
    falls_behind: bool = False
    """Its queue grows as long as this goes on."""


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """What is in store for one class."""

    name: str
    target_ms: float
    max_drop: float
    planned: bool
    before: Forecast | None
    """None: it does not run."""
    after: Forecast
    at_worst: Forecast | None
    """When everybody else takes all that he is entitled to; of classes that are planned."""
    holds: bool
    """Whether the target holds afterwards, for a planned class also at worst."""
    why: str


@dataclass(frozen=True)
class AdmissionPlan:
    """The answer."""

    classes: tuple[ClassPlan, ...]
    holds: bool
    """No target is missed that is to be kept: those of planned classes, and of those that keep theirs now."""
    holds_now: bool
    """The same with the load there is."""
    busy: float
    """Part of the lanes' time that is used, afterwards with the load there is."""
    warnings: tuple[str, ...]
    """Who would miss a target, and who would lose what."""
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
