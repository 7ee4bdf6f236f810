"""What runs live: the classes with their streams and queries, and how the system around them is set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, model_validator

from configs.base import Name, Positive, Settings
from configs.classes.limits import RESULT_BYTES, ClassLimits, ResultBytes
from configs.classes.load_manager import LoadSettings
from configs.classes.managers import Manager
from configs.classes.plans import PlanSettings
from configs.classes.policy_and_plan import Choice
from configs.classes.priority_class import PriorityClass, Weight
from configs.classes.utility import Utility, UtilityGraph
from configs.classes.window_settings import WindowSettings
from configs.errors import Contradiction

Sql = Annotated[str, Field(min_length=1, max_length=100_000)]
Shards = Annotated[int, Field(ge=1, le=256)]
# Of a class, what is said query by query.
SAID_OF_QUERIES = ("queries", "utilities", "weights")


class LiveClass(PriorityClass):
    """A class as it is hosted: its entitlement, its streams, its queries."""

    streams: tuple[Sql, ...] = Field(default=(), max_length=100)
    """CREATE STREAM statements of what it may read; a stream of one name is one stream for all classes."""

    fed: tuple[Name, ...] = Field(default=(), max_length=100)
    """Streams that a feed brings: event time of these goes on with the clock only while the feed has nothing left to publish."""

    queries: Mapping[Name, Sql] = Field(default={}, max_length=10_000)
    """Query by name; a query may read the output of an earlier one."""

    utilities: Mapping[Name, Utility] = Field(default={}, max_length=10_000)
    """By query, what its answers are worth by their latency, where that is not as the class says."""

    weights: Mapping[Name, Weight] = Field(default={}, max_length=10_000)
    """By query, how much the freshness of its output counts beside others', where that is not 1."""

    lossless: bool = False
    """Never shed: when its queue is full its producers are held back."""

    key: Name | None = None
    """Column by which the class is split into shards, and by which victim `fair` is fair."""

    shards: Shards = 1
    """Parts by key, each with a host and turns of its own."""

    limits: ClassLimits = ClassLimits()

    windows: WindowSettings = WindowSettings()
    """When windows with SLIDE AT MOST are answered."""

    plan: PlanSettings = PlanSettings()
    """Which of several equivalent plans its queries run by; if the class tunes itself, until it knows better."""

    @model_validator(mode="after")
    def what_is_said_of_queries_is_of_its_own(self) -> Self:
        for field, named in (("utilities", self.utilities), ("weights", self.weights)):
            for name in named:
                if name not in self.queries:
                    hint = "write it in small and capital letters as the query's, or leave it out"
                    raise Contradiction("the class has no query of this name", field, name, hint)
        return self

    @property
    def holds_back(self) -> bool:
        """Return True if input that may not be dropped waits outside the class while its queue is full."""
        return self.lossless or super().holds_back

    @property
    def first_choice(self) -> Choice:
        return Choice(self.first_policy, self.plan)

    def graph_of(self, query: str) -> UtilityGraph:
        """What its answers are worth."""
        points = self.utilities.get(query)
        return self.graph if points is None else UtilityGraph(points=points)

    def weight_of(self, query: str) -> float:
        """How much the freshness of its output counts."""
        return self.weights.get(query, 1.0)

    @model_validator(mode="after")
    def can_be_split(self) -> Self:
        if self.shards > 1 and self.key is None:
            raise Contradiction(
                "a class is split by the values of a column", "shards", self.shards, "name the column as key"
            )
        if self.victim == "fair" and self.key is None:
            raise Contradiction(
                "fairness is between the values of a column", "victim", self.victim, "name the column as key"
            )
        return self


class LiveSettings(Settings):
    """How a running system is set; the same for all of its classes."""

    manager: Manager = "dilos"
    lanes: Annotated[int, Field(ge=1, le=256)] = 1
    """Processors of a node that are given to queries."""

    lane_part: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Of each lane's time, what queries have at most; the rest is for other processes of the machine. The lane is then like a
    slower processor, in whose seconds quotas, loads and processor times are counted."""

    round_ms: Positive = 10.0
    """Processor time of one round of the weighted round robin. What a slice costs beside its operators does not depend on
    `lane_part`; so that slices do not either, rounds last longer where lanes have a part of their cores."""

    load: LoadSettings = LoadSettings(queue_fraction=0.55)
    """Loads are measured, not known: work may queue for less of the target than in virtual time."""

    train_max: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Most tuples one operator call takes; keeps a step, and so an overrun, small."""

    queue_max: Annotated[int, Field(ge=1, le=100_000_000)] = 5_000_000
    """Most tuples of a stream that queue in a class. Further input is rejected, or held back if the class may not drop it."""

    retained_bytes: Annotated[int, Field(ge=1 << 20)] = 1 << 30
    """Input kept for recovery, a stream."""

    results_bytes: ResultBytes = RESULT_BYTES
    """Answers kept for readers, a shard of a class whose limits say nothing else."""

    snapshot_s: Positive = 2.0
    """Time between two snapshots of a class; longer if they would cost more than a hundredth of it."""

    idle_after_s: Positive | None = 5.0
    """Event time of a stream without input goes on with the clock after so long; None: it waits for input."""

    lookup_wait_s: Positive = 1.0
    """How long a tuple that looks up with LAST BY waits for the other stream to come as far in event time; then it is answered with
    the rows there are."""

    classes_per_host: Annotated[int, Field(ge=1, le=1000)] = 1
    """Classes that share a process; more save memory, fewer keep a crash from spreading."""

    @property
    def round_s(self) -> float:
        """How long a round is, in seconds of a lane."""
        return self.round_ms / 1e3 / self.lane_part
