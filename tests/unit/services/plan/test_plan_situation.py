"""Situations from which plans start: rates and costs are set by the caller, measured, declared or assumed. Assumptions are listed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from configs.classes.live_class import LiveSettings
from configs.documents.declarations import documents_of
from engine.class_.explain import PlanLine
from services.catalog.checks import applied
from services.catalog.state import CatalogState
from services.plan.measurement import ClassMeasured, Rate, StreamsSample, SystemMeasurement, rates_over
from services.plan.situation import ROWS_PER_S, operators, situation_of
from services.watch.source import StreamCounts
from sim.admission.situation import ClassLoad, Situation
from sim.forecast.operator_costs import COSTS

STREAMS = """
{kind: PriorityClass, name: gold, priority: 6, delay_target_ms: 300}
---
{kind: Stream, name: Ticks, columns: {ts: timestamp, value: int64}, time: ts,
 source: {format: rate, options: {rowsPerSecond: 500}, trigger_ms: 200, sql: "SELECT timestamp AS ts, value FROM source"}}
---
{kind: Stream, name: hot, columns: {ts: timestamp, value: int64}, time: ts}
---
{kind: Feed, name: f, source: {format: rate-micro-batch, options: {rowsPerBatch: 50}, trigger_ms: 500}, streams: {hot: {}}}
---
{kind: Stream, name: bare, columns: {ts: timestamp, value: int64}, time: ts}
---
{kind: Tenant, name: old, priority_class: gold}
---
{kind: Query, tenant: old, name: odd, sql: SELECT * FROM Ticks WHERE value % 2 = 1}
"""
NEW = "{kind: Tenant, name: new, priority_class: gold}\n---\n{kind: Query, tenant: new, name: q, sql: SELECT * FROM %s}"


def state(text: str, before: CatalogState | None = None) -> CatalogState:
    return applied(before or CatalogState(), documents_of(text))


def planned(
    text: str, found: SystemMeasurement | None = None, rates: Mapping[str, float] | None = None
) -> Situation:
    before = state(STREAMS)
    after = state(text, before)
    touched = [one.ref.tenant or one.ref.name for one in documents_of(text)]
    return situation_of(before, after, touched, found, LiveSettings(), rates or {}, "no system runs here")


def rate_of(one: ClassLoad) -> tuple[float, float]:
    (given,) = one.inputs
    return given.rate, given.batch_s


@pytest.mark.parametrize(
    ("stream", "rate", "assumption"),
    [
        ("Ticks", (500.0, 0.2), "stream ticks: 500 rows per second, from the options of its source"),
        ("hot", (100.0, 0.5), "stream hot: 100 rows per second, from the options of its source"),
        (
            "bare",
            (ROWS_PER_S, 0.1),
            "stream bare: 1,000 rows per second, because its rate is not known",
        ),
    ],
)
def test_without_a_running_system_rates_come_from_source_options(
    stream: str, rate: tuple[float, float], assumption: str
) -> None:
    found = planned(NEW % stream)
    assert rate_of(found.planned[0]) == rate
    assert assumption in found.assumed
    assert found.assumed[0].startswith("no system runs here: ")
    assert [one.name for one in found.running] == ["old"]


def test_given_rates_override_measured_rates_and_measured_override_declared_rates() -> None:
    seen = SystemMeasurement(2, 1, LiveSettings(lanes=2), {"ticks": Rate(800.0, 0.05), "hot": Rate(0.0)})
    assert rate_of(planned(NEW % "Ticks", seen).planned[0]) == (800.0, 0.05)
    found = planned(NEW % "Ticks", seen, {"TICKS": 9.0})
    assert rate_of(found.planned[0]) == (9.0, 0.05)
    assert "stream ticks: 9 rows per second, as given" in found.assumed
    assert rate_of(found.running[0]) == (800.0, 0.05)
    silent = planned(NEW % "hot", seen)
    assert rate_of(silent.planned[0]) == (100.0, 0.5)
    assumed = "stream hot: 100 rows per second, from the options of its source, although it has no input now"
    assert assumed in silent.assumed
    assert (silent.lanes, silent.settings.lanes) == (2, 2)


def test_new_operators_have_the_costs_of_similar_running_operators() -> None:
    old = state(STREAMS).class_of("old")
    lines = [measured(one, us=2.0) for one in operators(old)]
    per_row = sum(one.cost_us for one in lines) * 1e-6
    seen = SystemMeasurement(
        1, 1, LiveSettings(), {"ticks": Rate(1e5, 0.1)}, {"old": ClassMeasured(1e5 * per_row, lines)}
    )
    found = planned(NEW.replace("SELECT *", "SELECT value") % "Ticks WHERE value > 5", seen)
    (running,), (new,) = found.running[0].inputs, found.planned[0].inputs
    train = lines[0].tuples / lines[0].calls
    assert running.tuple_s + running.call_s / train == pytest.approx(per_row)
    assert running.calls == len(lines)
    assert new.tuple_s + new.call_s / train == pytest.approx(
        2e-6 + COSTS["select"].tuple_s + COSTS["select"].call_s / train
    )
    assert set(found.assumed) == {
        "class new: 1 of 2 operators have the costs of similar running operators",
        "class new: 1 of 2 operators have calibrated costs",
        "class new: half of the rows pass each new condition",
    }


def test_operator_costs_are_scaled_to_the_measured_load_of_the_class() -> None:
    lines = [measured(one, us=1.0) for one in operators(state(STREAMS).class_of("old"))]
    believed = 1e5 * sum(one.cost_us for one in lines) * 1e-6
    seen = SystemMeasurement(
        1, 1, LiveSettings(), {"ticks": Rate(1e5, 0.1)}, {"old": ClassMeasured(1.5 * believed, lines)}
    )
    found = planned(NEW % "Ticks", seen)
    (given,) = found.running[0].inputs
    train = lines[0].tuples / lines[0].calls
    assert given.rate * (given.tuple_s + given.call_s / train) == pytest.approx(1.5 * believed)


def test_a_class_with_unknown_operators_enters_the_admission_plan_with_its_measured_load() -> None:
    seen = SystemMeasurement(1, 1, LiveSettings(), {"ticks": Rate(1e5, 0.1)}, {"old": ClassMeasured(0.25)})
    (given,) = planned(NEW % "Ticks", seen).running[0].inputs
    assert given.rate * given.tuple_s == pytest.approx(0.25)
    asleep = SystemMeasurement(1, 1, LiveSettings(), {"ticks": Rate(0.0)}, {"old": ClassMeasured(0.0)})
    assert planned(NEW % "Ticks", asleep).running[0].rate == 0


def test_tenants_of_a_changed_priority_class_are_part_of_the_admission_plan() -> None:
    found = planned("{kind: PriorityClass, name: gold, priority: 6, delay_target_ms: 100}")
    assert [(one.name, one.declared.delay_target_ms) for one in found.planned] == [("old", 100)]


def test_a_tenant_without_queries_enters_the_admission_plan_without_input() -> None:
    found = planned("{kind: Tenant, name: new, priority_class: gold}")
    assert [(one.name, one.inputs) for one in found.planned] == [("new", ())]
    assert [one.name for one in found.after()] == ["old", "new"]


def test_the_admission_plan_adds_the_rates_of_streams_that_a_query_joins() -> None:
    sql = "Ticks AS a JOIN hot AS b ON a.value = b.value AND b.ts BETWEEN a.ts - INTERVAL 1 SECOND AND a.ts"
    (given,) = planned(NEW.replace("SELECT *", "SELECT a.value") % sql).planned[0].inputs
    assert given.rate == 600.0


def test_stream_rates_cover_the_time_from_the_first_to_the_last_sample() -> None:
    def sample(at: float, **rows: int) -> StreamsSample:
        return StreamsSample(at, {name: StreamCounts(count, count // 10) for name, count in rows.items()})

    samples = [
        sample(10.0, steady=100, restarted=900, gone=5, silent=70),
        sample(12.0, steady=300, restarted=0, silent=70),
        sample(15.0, steady=600, restarted=60, begun=50, silent=70),
    ]
    assert rates_over(samples) == {
        "steady": Rate(100.0, 0.1),
        "restarted": Rate(20.0, 0.5),
        "silent": Rate(0.0),
    }
    assert rates_over(samples[:1]) == rates_over([]) == {}


def measured(line: PlanLine, us: float) -> PlanLine:
    """Return the measurements of an operator after a million rows in trains of 10,000."""
    return PlanLine(line.number, line.name, line.feeds, line.queries, 1_000_000, us, 1.0, 0.0, 0, calls=100)
