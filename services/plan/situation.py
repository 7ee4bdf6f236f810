"""Input of a prediction (`weir plan`), computed from declarations and measurements, with a list of all assumptions.

| figure | where its value comes from, in order of preference |
|---|---|
| rate of a stream | given by the user; measured; options of the stream's source; `ROWS_PER_S` |
| cost of an operator | measured; costs of running operators of the same kind; calibrated (`sim.forecast.operator_costs`) |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from configs.classes.live_class import LiveClass, LiveSettings
from configs.documents.declarations import FeedDeclaration, StreamDeclaration
from configs.documents.spark_streams import SourceSettings
from engine.class_.admission import checked
from engine.class_.explain import PlanLine, explain
from engine.class_.runner import ClassRunner
from engine.sql import parse_create_stream
from services.catalog.state import CatalogState
from services.plan.measurement import ClassMeasured, Rate, SystemMeasurement
from sim.admission.planned_scenario import one_queue
from sim.admission.situation import ClassLoad, InputLoad, Situation
from sim.forecast.operator_costs import Cost, is_measured, kind_of, like, likes, measured, meet, stream_costs

# Rows per second assumed for a stream with an unknown rate.
ROWS_PER_S = 1000.0
# Seconds between batches assumed for a stream without known batches; also the default interval of a source's micro-batches.
BATCH_S = 0.1
# Least and largest ratio of the measured load to the load computed from rates and costs.
# If the measured load differs more from the computed load, the load and the rates were measured at different times.
CORRECTION_MIN, CORRECTION_MAX = 0.2, 5.0
# Minimum measured load, in processors, for which computed loads are corrected; smaller loads are measured too inaccurately.
LOAD_MIN = 0.001
NETWORKS_KEPT = 5000
# Maximum number of lanes in a prediction; a larger system is treated as if it had LANES_MAX lanes.
LANES_MAX = 256


def situation_of(
    before: CatalogState,
    after: CatalogState,
    touched: Iterable[str],
    found: SystemMeasurement | None,
    settings: LiveSettings,
    said: Mapping[str, float],
    why: str = "",
) -> Situation:
    """Return the input of a prediction for the classes of the tenants in `touched` and for classes with changed terms or queries.

    `said` has the rates that the user has given, by stream; `why` is the reason if there are no measurements.
    """
    running = {name: before.class_of(name) for name in before.tenants_with_queries()}
    classes = {name: after.class_of(name) for name in after.tenants_with_queries()}
    touched = [name for name in dict.fromkeys(touched) if name in after.names("Tenant")]
    planned = {name: after.class_of(name) for name in touched} | {
        name: class_ for name, class_ in classes.items() if running.get(name) != class_
    }
    making = Making(after, found, said, why)
    loads = tuple(making.load(class_) for name, class_ in running.items() if name in classes)
    then = tuple(making.load(class_, is_planned=True) for class_ in planned.values())
    return Situation(
        min(found.lanes if found else settings.lanes, LANES_MAX),
        found.settings if found else settings,
        loads,
        then,
        tuple(making.told()),
    )


@dataclass
class Making:
    """Builder of the input of one prediction."""

    state: CatalogState
    found: SystemMeasurement | None
    said: Mapping[str, float]
    """Rows per second by stream, as given by the user."""
    why: str = ""
    _costs: Mapping[str, Cost] = field(init=False)
    _correction: float = field(init=False, default=1.0)
    _assumed: dict[str, None] = field(init=False, default_factory=dict)
    _rates: dict[str, tuple[Rate, str]] = field(init=False, default_factory=dict)
    """Rate of each stream, with the text of the assumption behind it."""

    def __post_init__(self) -> None:
        classes = self.found.classes if self.found else {}
        self._costs = likes(line for class_ in classes.values() for line in class_.lines)
        corrections = [
            (class_.load, self._corrected(class_.lines, class_))
            for class_ in classes.values()
            if class_.load >= LOAD_MIN and class_.lines
        ]
        total = sum(load for load, _ in corrections)
        if total:
            self._correction = sum(load * factor for load, factor in corrections) / total

    def told(self) -> Iterable[str]:
        """Yield all assumptions, as texts for the user."""
        if self.found is None:
            yield f"{self.why}: rates come from the options of sources, costs from calibration"
        elif self.found.nodes > 1:
            yield f"the {self.found.lanes} lanes of {self.found.nodes} nodes are treated as lanes of a single node"
            if self.found.lanes > LANES_MAX:
                yield f"only {LANES_MAX} lanes, the maximum of a prediction"
        yield from self._assumed

    def load(self, one: LiveClass, is_planned: bool = False) -> ClassLoad:
        """Return the load of a class: the rate of each input stream, and the costs of the operators that process the stream."""
        class_measured = self.found.classes.get(one.name) if self.found else None
        if class_measured is not None and not class_measured.lines and not is_planned:
            return self._whole(one, class_measured)
        lines = operators(one)
        costs = [self._cost(line, class_measured) for line in lines]
        correction = self._correction
        if class_measured is not None and class_measured.load >= LOAD_MIN and class_measured.lines:
            correction = self._corrected(class_measured.lines, class_measured)
        inputs = [
            InputLoad(
                rate.rows_per_s,
                tuple_s=correction * each.tuple_s,
                call_s=correction * each.call_s,
                answers=each.answers,
                batch_s=rate.batch_s,
                calls=each.operators,
            )
            for each in stream_costs(self._counted(lines, class_measured), costs)
            for rate in [self._rate(each.stream, is_planned)]
        ]
        if is_planned:
            self._tell_costs(one.name, lines, class_measured)
        if len(inputs) > 1 and meet(lines):
            inputs = [one_queue(inputs)]
        return class_load(one, inputs)

    def _whole(self, one: LiveClass, known: ClassMeasured) -> ClassLoad:
        """Return the load of a class without measured operators. Each input row is assumed to cost an equal part of the measured load."""
        rates = [self._rate(stream, False) for stream in streams_of(one)]
        rows = sum(rate.rows_per_s for rate in rates)
        if not rows or known.load <= 0:
            return class_load(one, [])
        batch_s = max(rate.batch_s for rate in rates)
        return class_load(one, [InputLoad(rows, tuple_s=known.load / rows, batch_s=batch_s)])

    def _cost(self, line: PlanLine, known: ClassMeasured | None) -> Cost:
        same = self._same(line, known)
        return measured(same) if same is not None else like(line, self._costs)

    def _same(self, line: PlanLine, known: ClassMeasured | None) -> PlanLine | None:
        """Return the running operator that equals the planned operator, or None if no such operator has been measured."""
        for other in known.lines if known else ():
            if other.name == line.name and set(other.queries) <= set(line.queries) and is_measured(other):
                return other
        return None

    def _counted(self, lines: Sequence[PlanLine], known: ClassMeasured | None) -> list[PlanLine]:
        """Return the planned operators. A planned operator gets the numbers of tuples and calls of an equal running operator, if there is one."""
        pairs = ((line, self._same(line, known)) for line in lines)
        return [
            line if same is None else replace(line, tuples=same.tuples, calls=same.calls)
            for line, same in pairs
        ]

    def _corrected(self, lines: Sequence[PlanLine], known: ClassMeasured) -> float:
        """Return the ratio of the measured load to the load computed from rates and costs, limited to CORRECTION_MIN … CORRECTION_MAX."""
        costs = [self._cost(line, known) for line in lines]
        load = 0.0
        for each in stream_costs(lines, costs):
            rate = self._rate(each.stream, False)
            source = next(line for line in lines if line.name.lower() == f"source:{each.stream}")
            train = source.tuples / source.calls if source.calls else 1.0
            load += rate.rows_per_s * (each.tuple_s + each.call_s / max(train, 1.0))
        if load < LOAD_MIN:
            return 1.0
        return min(max(known.load / load, CORRECTION_MIN), CORRECTION_MAX)

    def _tell_costs(self, name: str, lines: Sequence[PlanLine], known: ClassMeasured | None) -> None:
        new = [line for line in lines if self._same(line, known) is None]
        alike = sum(kind_of(line) in self._costs for line in new)
        if alike:
            self._assume(
                f"class {name}: {alike} of {len(lines)} operators have the costs of similar running operators"
            )
        if len(new) > alike:
            self._assume(f"class {name}: {len(new) - alike} of {len(lines)} operators have calibrated costs")
        if any(kind_of(line) in ("filter", "select") for line in new):
            self._assume(f"class {name}: half of the rows pass each new condition")

    def _rate(self, stream: str, is_planned: bool) -> Rate:
        if stream not in self._rates:
            self._rates[stream] = self._found_rate(stream)
        rate, assumption = self._rates[stream]
        if assumption and (is_planned or self.found is None):
            self._assume(assumption)
        # Running classes get the measured rate. Planned classes get the rate that the user has given, because their targets must hold at this rate.
        if self.found is not None and not is_planned and stream in self.found.rates:
            return self.found.rates[stream]
        return rate

    def _found_rate(self, stream: str) -> tuple[Rate, str]:
        measured = self.found.rates.get(stream) if self.found else None
        source = source_of(self.state, stream)
        declared_s = source.trigger_ms / 1e3 if source else BATCH_S
        batch_s = measured.batch_s or declared_s if measured else declared_s
        said = {name.lower(): rows for name, rows in self.said.items()}
        if stream in said:
            text = f"stream {stream}: {said[stream]:,.0f} rows per second, as given"
            return Rate(said[stream], batch_s), text
        if measured is not None and measured.rows_per_s > 0:
            return measured, ""
        declared = declared_rate(source) if source else None
        silent = ", although it has no input now" if measured is not None else ""
        if declared is not None:
            return Rate(declared, batch_s), (
                f"stream {stream}: {declared:,.0f} rows per second, from the options of its source{silent}"
            )
        return Rate(ROWS_PER_S, batch_s), (
            f"stream {stream}: {ROWS_PER_S:,.0f} rows per second, because its rate is not known{silent}"
        )

    def _assume(self, text: str) -> None:
        self._assumed[text] = None


def class_load(one: LiveClass, inputs: Sequence[InputLoad]) -> ClassLoad:
    return ClassLoad(one, tuple(inputs), one.lossless, one.shards)


def operators(one: LiveClass) -> list[PlanLine]:
    """Return the operators of a class that has not run yet."""
    return list(fresh_operators(one.streams, tuple(one.queries.items())))


@lru_cache(NETWORKS_KEPT)
def fresh_operators(streams: tuple[str, ...], queries: tuple[tuple[str, str], ...]) -> tuple[PlanLine, ...]:
    class_ = checked(
        LiveClass(name="planned", priority=1, delay_target_ms=1, streams=streams, queries=dict(queries))
    )
    runner = ClassRunner(lambda query, train: None)
    if class_.queries:
        runner.add(*class_.queries.values())
    return tuple(explain(runner))


def streams_of(one: LiveClass) -> list[str]:
    return [parse_create_stream(sql).name.lower() for sql in one.streams]


def source_of(state: CatalogState, stream: str) -> SourceSettings | None:
    """Return the source that a stream or its feed declares, or None. `stream` is the stream's name in lower case."""
    for declaration in state.of_kind(StreamDeclaration):
        if declaration.name.lower() == stream and declaration.source is not None:
            return declaration.source
    for feed in state.of_kind(FeedDeclaration):
        if stream in (name.lower() for name in feed.streams):
            return feed.source
    return None


def declared_rate(source: SourceSettings) -> float | None:
    """Return the rows per second that the options of a source define, or None."""
    options = {name.lower(): value for name, value in source.options.items()}
    each = {
        "rate": ("rowspersecond", 1.0),
        "rate-micro-batch": ("rowsperbatch", source.trigger_ms / 1e3),
        "weir_feeder": ("rate", 1.0),
        "kafka": ("maxoffsetspertrigger", source.trigger_ms / 1e3),
    }.get(source.format)
    if each is None:
        return None
    option, per_s = each
    value = options.get(option, "1" if source.format == "rate" else "")
    try:
        rows = float(value) / per_s
    except ValueError:
        return None
    return rows if 0 < rows < 1e9 else None
