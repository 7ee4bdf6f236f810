"""Scenarios of `weir demo`: loads and rates of the classes, and the feeds that deliver them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark_weir_feeder.arrivals import schedule_of
from pyspark_weir_feeder.options import read_options

from configs.errors import InvalidInput, UnknownName
from configs.scenario import w11
from engine.sql import SqlCatalog, parse_create_stream, plan_query
from services.cli.demonstration.demo_feed import LEAD_PART, LEAD_S, fed, planned, streams_file, write_rows
from services.cli.demonstration.demo_plan import SCENARIOS, demo_scenario, live_classes, loads, rates
from services.ingest.declared_streams import declared


def constant(asked: dict[str, list[tuple[float, float]]]) -> list[float]:
    """Return the load of each class, after checking that no load changes over time."""
    ((first,), *_) = parts = list(asked.values())
    assert {at_s for ((at_s, _),) in parts} == {first[0]} == {0.0}
    return [part for ((_, part),) in parts]


def test_three_equal_classes_split_the_load_evenly() -> None:
    assert constant(loads(SCENARIOS["sc"], 1.0, 60)) == pytest.approx([1 / 3] * 3)
    assert constant(loads(SCENARIOS["sc"], 0.9, 60)) == pytest.approx([0.3] * 3)


def test_the_load_steps_of_the_paper_are_spread_over_the_whole_run() -> None:
    asked = loads(SCENARIOS["steps"], 1.0, 60)
    assert [at_s for at_s, _ in asked["class1"]] == [0, 10, 20, 30, 40, 50]
    assert [part for _, part in asked["class1"]] == pytest.approx(
        [500 / 3900, 1400 / 3900, 2100 / 3900, 900 / 3900, 1500 / 3900, 2000 / 3900]
    )
    # The greatest load of class 1 is just below its share of 0.6. Each of the other classes has a load above its share.
    assert 0.5 < max(part for _, part in asked["class1"]) < 0.6
    assert asked["class2"][0][1] > 0.3
    assert asked["class3"][0][1] > 0.1


def test_in_the_lending_scenario_a_class_idles_while_another_exceeds_its_share() -> None:
    asked = loads(SCENARIOS["lending"], 1.0, 100)
    shares = {"class1": 0.6, "class2": 0.3, "class3": 0.1}

    def at(moment: float) -> dict[str, float]:
        return {
            name: [part for begins, part in parts if begins <= moment][-1] for name, parts in asked.items()
        }

    def beyond(moment: float) -> list[str]:
        return [name for name, part in at(moment).items() if part > shares[name]]

    assert [beyond(moment) for moment in (0, 30, 55, 70, 90)] == [[], ["class2"], ["class2"], [], ["class3"]]
    # All loads together are below the machine's capacity, except at 55 s, when class 1 is busy again.
    assert [sum(at(moment).values()) < 1 for moment in (0, 30, 55, 70, 90)] == [True, True, False, True, True]
    assert at(30)["class1"] < 0.1 < 0.4 < at(55)["class1"] < shares["class1"]
    assert loads(SCENARIOS["lending"], 0.5, 100)["class2"][1] == (20, 0.425)


def test_under_overload_class_1_stays_below_its_share_and_the_other_classes_split_the_rest() -> None:
    assert constant(loads(SCENARIOS["overload"], 2.0, 60)) == pytest.approx([0.48, 0.76, 0.76])


def test_a_total_load_that_is_less_than_the_load_of_class_1_alone_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"the load must be above 0\.48"):
        loads(SCENARIOS["overload"], 0.4, 60)


def test_a_scenario_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean steps"):
        demo_scenario("step")


def test_rates_are_loads_times_the_capacity_of_the_machine() -> None:
    found = rates({"class1": [(0.0, 0.5), (10.0, 0.25)]}, 2e6)["class1"]
    assert [(step.at_s, step.rate) for step in found.steps] == [(0, 1e6), (10, 5e5)]
    assert planned(found, 30) == 10 * 1e6 + 20 * 5e5
    assert planned(found, 5) == 5 * 1e6


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_class_has_the_eleven_queries_on_its_own_streams(name: str) -> None:
    classes = live_classes(SCENARIOS[name])
    assert [(one.name, one.priority, one.delay_target_ms) for one in classes] == [
        ("class1", 6, 300),
        ("class2", 3, 400),
        ("class3", 1, 500),
    ]
    streams = set()
    for one in classes:
        schemas = [parse_create_stream(sql) for sql in one.streams]
        streams |= {schema.name for schema in schemas}
        catalog = SqlCatalog.of(streams=schemas)
        assert len([plan_query(name, sql, catalog) for name, sql in one.queries.items()]) == 11
    assert len(streams) == 6


def test_classes_that_calibrate_the_demo_share_no_names_or_streams_with_its_scenario() -> None:
    scenario = SCENARIOS["sc"]
    some, others = live_classes(scenario), live_classes(scenario, "calibrate_", lossless=True)
    assert not {one.name for one in some} & {one.name for one in others}
    assert not {sql for one in some for sql in one.streams} & {sql for one in others for sql in one.streams}
    assert all(one.lossless for one in others)


def test_a_feed_starts_slowly_delivers_the_planned_rows_and_stops() -> None:
    classes = live_classes(SCENARIOS["steps"])
    plan = rates(loads(SCENARIOS["steps"], 1.0, 12), 30_000.0)
    feeds = streams_file(classes, plan, 12, Path("rows.parquet")).all_feeds()
    for one in classes:
        schedule = schedule_of(read_options(feeds[one.name].source.options).arrivals)
        first = plan[one.name].steps[0].rate
        assert schedule.due(LEAD_S) == pytest.approx(LEAD_PART * first * LEAD_S, abs=1)
        for second in (1, 5, 12):
            expected = schedule.due(LEAD_S) + planned(plan[one.name], second)
            assert schedule.due(LEAD_S + second) == pytest.approx(expected, abs=1)
        assert schedule.due(1e6) == pytest.approx(fed(plan[one.name], 12), abs=1)


def test_a_feed_has_the_streams_that_its_class_reads() -> None:
    classes = live_classes(SCENARIOS["sc"])
    file = streams_file(classes, rates(loads(SCENARIOS["sc"], 1.0, 10), 1e5), 10, Path("rows.parquet"))
    schemas = declared(file)
    for one in classes:
        feed = file.feeds[one.name]
        assert list(feed.streams) == list(w11.names(f"{one.name}_").values())
        for name, columns in feed.columns.items():
            assert schemas[name].schema.names == columns
            assert file.streams[name].declaration(name) in one.streams


def test_one_file_holds_the_rows_of_all_streams_in_time_order(tmp_path: Path) -> None:
    readings = pa.table({"ts": [1, 3, 5], "sensor": [7, 8, 9], "temp": [0.5, 1.5, 2.5]})
    alerts = pa.table({"ts": [2, 6], "sensor": [7, 9], "level": [4, 5]})
    write_rows({"readings": readings, "alerts": alerts}, tmp_path / "rows.parquet")
    rows = pq.read_table(tmp_path / "rows.parquet")
    assert rows["ts"].to_pylist() == [1, 2, 3, 5, 6]
    is_alert = pc.is_valid(rows["level"])
    assert rows.filter(is_alert).select(alerts.column_names) == alerts
    assert rows.filter(pc.invert(is_alert)).select(readings.column_names) == readings
