"""Weights of queries: their effect on the scheduler and on measured staleness, and changes of a weight at run time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.host.unit_quality import UnitWorth
from actors.messages.unit_messages import Unit
from actors.runtime.run_dirs import RunDirs
from configs.classes.live_class import LiveClass
from configs.classes.policies import Automatic, FreshnessAware
from configs.documents.declarations import declared_in
from configs.errors import InvalidInput
from configs.yaml_loading import parse_model
from engine.measure.answer_quality import AnswerQuality
from services.tuning.tuner import class_now
from sim.forecast.policy_forecast import forecasts
from sim.simulation import alone
from tests.support.tuned_units import unit_now
from tests.unit.actors.host.test_hosted_unit import DECLARED, arrive, cycle, made
from tests.unit.engine.class_.test_query_quality import World, declared

WARM, KNOWN = (f"SELECT sensor, temp FROM readings WHERE {one}" for one in ("temp > 0", "sensor >= 0"))
TEXTS = {
    "warm": WARM,
    "again": WARM,
    "known": KNOWN,
    "counted": "SELECT COUNT(*) AS n FROM readings [ROWS 5]",
}


def weights_of_outputs(world: World) -> list[float]:
    operators = world.hosted.runner.scheduled.believed().network.operators
    return sorted(one.weight for one in operators if one.answers or not one.downstream)


def answered(world: World, arrived: float) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Return the queries in the order in which they have answered, with their answers."""
    world.bring(arrived, rows=3)
    world.answer(arrived + 0.01)
    commit = world.hosted.committed()
    assert commit is not None
    return [
        (one.query, list(zip(*(values.data.tolist() for values in one.train.columns), strict=True)))
        for one in commit.answers
    ]


def test_the_query_with_more_weight_answers_first() -> None:
    queries = {"warm": WARM, "known": KNOWN}
    answers = {}
    for heavy in queries:
        settings_of_class = declared(queries, weights={heavy: 5}, policy={"kind": "fas"})
        answers[heavy] = answered(World(settings_of_class), arrived=1.0)
    assert [[query for query, _ in one] for one in answers.values()] == [["warm", "known"], ["known", "warm"]]
    assert sorted(answers["warm"]) == sorted(answers["known"])


def test_a_changed_weight_applies_to_later_input() -> None:
    queries = {"warm": WARM, "known": KNOWN}
    world = World(declared(queries, policy={"kind": "fas"}, weights={"warm": 2}))
    first = answered(world, arrived=1.0)
    world.hosted.queries.weigh(declared(queries, weights={"known": 0.5, "warm": 0.1}))
    second = answered(world, arrived=2.0)
    world.hosted.queries.weigh(declared(queries, weights={"warm": 2}))
    third = answered(world, arrived=3.0)
    orders = [[query for query, _ in one] for one in (first, second, third)]
    assert orders == [["warm", "known"], ["known", "warm"], ["warm", "known"]]
    assert world.hosted.runner.answers.counts == {"warm": 9, "known": 9}


SUBSETS = st.lists(st.sampled_from(sorted(TEXTS)), unique=True, max_size=4)
WEIGHTS = st.dictionaries(st.sampled_from(sorted(TEXTS)), st.sampled_from([0.001, 0.1, 0.3, 3.0, 1000.0]))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(SUBSETS, WEIGHTS, st.booleans()), min_size=1, max_size=5))
def test_the_weight_of_an_output_is_the_sum_over_its_queries(
    changes: list[tuple[list[str], dict[str, float], bool]],
) -> None:
    world, number = World(declared({})), 0
    for names, drawn, brings in changes:
        weights = {name: drawn[name] for name in names if name in drawn}
        changed = declared({name: TEXTS[name] for name in names}, weights=weights)
        world.hosted.queries.weigh(changed)
        world.hosted.set_queries(changed.queries)
        if brings:
            number += 1
            world.bring(arrived=float(number), rows=2)
            world.answer(at=number + 0.5)
        together: dict[str, list[float]] = {}
        for name in names:
            together.setdefault(TEXTS[name], []).append(weights.get(name, 1.0))
        assert weights_of_outputs(world) == pytest.approx(sorted(map(sum, together.values())))
        assert {name: one.weight for name, one in world.hosted.runner.answers.quality.items()} == {
            name: weights.get(name, 1.0) for name in names
        }


def test_queries_over_queries_keep_their_declared_weights() -> None:
    both = {"warm": WARM, "of_warm": "SELECT sensor FROM warm"}
    world = World(declared(both, weights={"warm": 7, "of_warm": 3}))
    assert weights_of_outputs(world) == [3, 7]
    world.hosted.set_queries({"warm": WARM})
    assert weights_of_outputs(world) == [7]
    world.hosted.set_queries(both)
    assert weights_of_outputs(world) == [3, 7]


def test_a_heavy_query_answers_first_although_another_query_reads_its_output() -> None:
    queries = {"known": KNOWN, "warm": WARM, "of_warm": "SELECT sensor FROM warm WHERE sensor > 0"}
    is_first = []
    for heavy in ("warm", "known"):
        world = World(declared(queries, weights={heavy: 9.0}, policy={"kind": "fas"}))
        order = [query for query, _ in answered(world, arrived=1.0)]
        is_first.append(order.index("warm") < order.index("known"))
    assert is_first == [True, False]


def test_staleness_of_a_class_is_the_weighted_mean_of_its_queries() -> None:
    worth, queries = UnitWorth(), {"q": AnswerQuality(), "r": AnswerQuality(weight=3)}
    worth.begin(0.0, queries)
    queries["q"].answered(np.array([0.0]), 0.8)
    queries["r"].answered(np.array([0.0]), 0.4)
    worth.end_cycle(1.0, queries)
    assert worth.figures.staleness == pytest.approx({"mean": (0.8 + 3 * 0.4) / 4, "max": 0.8})
    assert worth.figures.staleness_now == pytest.approx((0.8 + 3 * 0.4) / 4)


def test_a_forecast_of_staleness_uses_the_weights() -> None:
    found = []
    for dear, cheap in ((1.0, 100.0), (1.0, 1.0), (100.0, 1.0)):
        now = class_now("staleness", replace(unit_now(), weights=(1.0, dear, cheap)))
        found.append(forecasts(replace(now, settles=False), [FreshnessAware()], alone)["fas"])
    # The expensive query's output is stale for longer. The more weight that query has, the more stale the class is.
    assert 0 < found[0] < 0.9 * found[1] < 0.9 * 0.9 * found[2] < 1


# -- weights in a running unit -----------------------------------------------------------------------------------------


@pytest.fixture
def dirs(tmp_path: Path) -> RunDirs:
    return RunDirs(tmp_path, "s", "n")


def test_changed_weights_of_a_running_unit_hold_after_a_restart(dirs: RunDirs) -> None:
    def weighted(**weights: float) -> LiveClass:
        return DECLARED.model_copy(update={"weights": weights})

    def weights(unit: Any) -> list[float]:
        network = unit.hosted.runner.scheduled.believed().network
        return [network.operators[root].weight for root in network.roots]

    with made(dirs, declared=weighted(mean=4.0)) as unit:
        assert weights(unit) == [4]
        arrive(unit, 0, 2000)
        unit.run(1e-6)
        changed = replace(unit.unit, declared=weighted(mean=0.25))
        assert unit.can_become(changed)
        unit.become(changed)
        assert weights(unit) == [0.25]
        while unit.run(1.0)[1]:
            pass
        assert unit.hosted.input.accounts()["readings"][0].delivered == 2000
        before = dict(unit.hosted.runner.answers.counts)
    with made(dirs, declared=weighted(mean=0.25)) as unit:
        while unit.hosted.repeating:
            unit.run(1.0)
        assert (weights(unit), dict(unit.hosted.runner.answers.counts)) == ([0.25], before)
        assert not unit.hosted.replay.mismatches


def test_staleness_measured_with_old_weights_is_discarded(dirs: RunDirs) -> None:
    auto = {"objective": "staleness", "policy": Automatic(), "delay_target_ms": 1e6}
    with made(dirs, declared=DECLARED.model_copy(update=auto)) as unit:
        cycle(unit)
        arrive(unit, 0, 2000)
        while unit.run(1.0)[1]:
            pass
        cycle(unit)
        unit.become(Unit(unit.unit.declared.model_copy(update={"weights": {"mean": 9.0}}), 0, 1.0, 1.0))
        noticed = unit.noticed()
    assert noticed is not None
    assert noticed.stale is None
    assert max(noticed.weights) == 9


# -- declared weights ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (0, "weight: the value must be at least 0.001 (got 0)"),
        (-1, "weight: the value must be at least 0.001 (got -1)"),
        (1001, "weight: the value must be at most 1000 (got 1001)"),
        (float("nan"), "weight: the value must be a finite number (got nan)"),
        (float("inf"), "weight: the value must be a finite number (got inf)"),
        ("much", "weight: the value must be a number (got 'much')"),
    ],
)
def test_an_invalid_weight_is_refused_with_the_valid_range(weight: object, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        declared_in({"kind": "Query", "tenant": "acme", "name": "q", "sql": WARM, "weight": weight})
    hint = "  hint: give a number from 0.001 to 1000; 1 if left out"
    assert str(refused.value).splitlines() == [f"Query q: {message}", hint]


def test_a_weight_for_an_unknown_query_is_refused() -> None:
    with pytest.raises(InvalidInput, match="weights: the class has no query of this name"):
        parse_model(LiveClass, {"name": "g", "priority": 1, "delay_target_ms": 1, "weights": {"q": 2}})
