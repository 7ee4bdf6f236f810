"""What the demonstration offers, and what it runs."""

import pytest

from configs.problems import InvalidInput, UnknownName
from engine.sql import Catalog, parse_create_stream, plan_query
from services.cli.demo_plan import SCENARIOS, demo_scenario, live_classes, loads, rates
from services.cli.live_run import planned


def constant(asked: dict[str, list[tuple[float, float]]]) -> list[float]:
    """The loads of classes of which none changes."""
    ((first,), *_) = parts = list(asked.values())
    assert {at_s for ((at_s, _),) in parts} == {first[0]} == {0.0}
    return [part for ((_, part),) in parts]


def test_three_equal_classes_are_together_what_the_machine_can_do() -> None:
    assert constant(loads(SCENARIOS["sc"], 1.0, 60)) == pytest.approx([1 / 3] * 3)
    assert constant(loads(SCENARIOS["sc"], 0.9, 60)) == pytest.approx([0.3] * 3)


def test_the_steps_of_the_paper_fill_the_time_there_is() -> None:
    asked = loads(SCENARIOS["steps"], 1.0, 60)
    assert [at_s for at_s, _ in asked["class1"]] == [0, 10, 20, 30, 40, 50]
    assert [part for _, part in asked["class1"]] == pytest.approx(
        [500 / 3900, 1400 / 3900, 2100 / 3900, 900 / 3900, 1500 / 3900, 2000 / 3900]
    )
    # The highest step is what the class's own share can just do; the others ask for more than theirs.
    assert 0.5 < max(part for _, part in asked["class1"]) < 0.6
    assert asked["class2"][0][1] > 0.3
    assert asked["class3"][0][1] > 0.1


def test_under_overload_the_first_class_asks_for_less_than_its_share_and_the_others_split_the_rest() -> None:
    assert constant(loads(SCENARIOS["overload"], 2.0, 60)) == pytest.approx([0.48, 0.76, 0.76])


def test_an_overload_that_leaves_nothing_for_the_others_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"class 1 asks for 0\.48 alone"):
        loads(SCENARIOS["overload"], 0.4, 60)


def test_a_scenario_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean steps"):
        demo_scenario("step")


def test_rates_are_parts_of_what_the_machine_can_do() -> None:
    found = rates({"class1": [(0.0, 0.5), (10.0, 0.25)]}, 2e6)["class1"]
    assert [(step.at_s, step.rate) for step in found.steps] == [(0, 1e6), (10, 5e5)]
    assert planned(found, 30) == 10 * 1e6 + 20 * 5e5
    assert planned(found, 5) == 5 * 1e6


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_class_has_the_eleven_queries_on_streams_of_its_own(name: str) -> None:
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
        catalog = Catalog.of(streams=schemas)
        assert len([plan_query(name, sql, catalog) for name, sql in one.queries.items()]) == 11
    assert len(streams) == 6


def test_classes_for_calibration_share_nothing_with_those_of_the_scenario() -> None:
    scenario = SCENARIOS["sc"]
    some, others = live_classes(scenario), live_classes(scenario, "calibrate_", lossless=True)
    assert not {one.name for one in some} & {one.name for one in others}
    assert not {sql for one in some for sql in one.streams} & {sql for one in others for sql in one.streams}
    assert all(one.lossless for one in others)
