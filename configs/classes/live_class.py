"""Settings of a running system: its classes with their streams and queries, and settings that hold for all classes."""

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
# Names of the fields of a class that contain an entry for each query.
SAID_OF_QUERIES = ("queries", "utilities", "weights")


class LiveClass(PriorityClass):
    """Class of a running system: its entitlement, its streams and its queries."""

    streams: tuple[Sql, ...] = Field(default=(), max_length=100)
    """CREATE STREAM statements of the streams that the class may read. Streams of the same name are one stream for all classes."""

    fed: tuple[Name, ...] = Field(default=(), max_length=100)
    """Streams that feeds supply. The clock advances the event time of a fed stream only while its feed has no rows left."""

    queries: Mapping[Name, Sql] = Field(default={}, max_length=10_000)
    """SQL of each query by name; a query may read the output of an earlier query."""

    utilities: Mapping[Name, Utility] = Field(default={}, max_length=10_000)
    """Utility of a query's answers by response time, by name of the query; other queries have the utility of the class."""

    weights: Mapping[Name, Weight] = Field(default={}, max_length=10_000)
    """Weight of the freshness of a query's output, by name of the query; all other queries have weight 1."""

    lossless: bool = False
    """Never drop input: while the queue is full, producers have to wait."""

    key: Name | None = None
    """Column by which the class is split into shards. `victim: fair` spreads drops evenly over its values."""

    shards: Shards = 1
    """Number of shards into which the class is split by `key`; each shard has its own host and turns."""

    limits: ClassLimits = ClassLimits()

    windows: WindowSettings = WindowSettings()
    """Schedule of windows with SLIDE AT MOST."""

    plan: PlanSettings = PlanSettings()
    """Choice among equivalent plans of the queries; a class that tunes itself may change it later."""

    @model_validator(mode="after")
    def what_is_said_of_queries_is_of_its_own(self) -> Self:
        for field, named in (("utilities", self.utilities), ("weights", self.weights)):
            for name in named:
                if name not in self.queries:
                    hint = "write the query's name exactly, with upper and lower case, or remove the entry"
                    raise Contradiction("the class has no query of this name", field, name, hint)
        return self

    @property
    def holds_back(self) -> bool:
        """True if input must not be dropped: while the queue of the class is full, input waits outside the class."""
        return self.lossless or super().holds_back

    @property
    def first_choice(self) -> Choice:
        return Choice(self.first_policy, self.plan)

    def graph_of(self, query: str) -> UtilityGraph:
        """Return the utility graph of a query's answers."""
        points = self.utilities.get(query)
        return self.graph if points is None else UtilityGraph(points=points)

    def weight_of(self, query: str) -> float:
        """Return the weight of a query: how much the staleness of its output counts."""
        return self.weights.get(query, 1.0)

    @model_validator(mode="after")
    def can_be_split(self) -> Self:
        if self.shards > 1 and self.key is None:
            title = "the class has several shards, but no key column to split its tuples by"
            hint = "add `key:` with a column, or set shards to 1"
            raise Contradiction(title, "shards", self.shards, hint)
        if self.victim == "fair" and self.key is None:
            title = "`victim: fair` needs a key column, but the class has none"
            hint = "add `key:` with a column, or choose another victim"
            raise Contradiction(title, "victim", self.victim, hint)
        return self


class LiveSettings(Settings):
    """Settings of a running system that hold for all of its classes."""

    manager: Manager = "dilos"
    lanes: Annotated[int, Field(ge=1, le=256)] = 1
    """Number of processors per node that run queries."""

    lane_part: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Maximum fraction of each lane's time that queries use; other processes of the machine use the rest. The lane counts
    as a slower processor by this factor: quotas, loads and processor times are in seconds of the slower processor."""

    round_ms: Positive = 10.0
    """Length of one round of the weighted round robin, in ms of processor time. With `lane_part` below 1, rounds last
    proportionally longer, so that the fixed cost of a slice remains the same fraction of the slice."""

    load: LoadSettings = LoadSettings(queue_fraction=0.55)
    """Settings of load management. Less work may queue than in the simulator, because loads are measured and not known exactly."""

    train_max: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Maximum number of tuples per call of an operator. The limit keeps calls short, and a slice can overrun by at most one call."""

    queue_max: Annotated[int, Field(ge=1, le=100_000_000)] = 5_000_000
    """Maximum number of tuples of a stream that queue in a class. Further input is rejected, or waits at the producers if
    the class may not drop input."""

    retained_bytes: Annotated[int, Field(ge=1 << 20)] = 1 << 30
    """Input that is kept for recovery, in bytes per stream."""

    results_bytes: ResultBytes = RESULT_BYTES
    """Answers that are kept for readers, in bytes per shard, for classes without a `result_bytes` limit."""

    snapshot_s: Positive = 2.0
    """Seconds between two snapshots of a class; the pause is longer if snapshots would take more than a hundredth of the time."""

    idle_after_s: Positive | None = 5.0
    """Seconds without input after which the clock advances the event time of a stream. null: event time waits for input."""

    lookup_wait_s: Positive = 1.0
    """Seconds that a tuple of a LAST BY lookup waits at most for the other stream to reach its event time. After this time
    the tuple is answered with the rows that have arrived."""

    classes_per_host: Annotated[int, Field(ge=1, le=1000)] = 1
    """Number of classes that share a process. A larger number saves memory; a smaller number limits the effect of a crash."""

    @property
    def round_s(self) -> float:
        """Time that one round of the round robin takes on a lane, in seconds."""
        return self.round_ms / 1e3 / self.lane_part
