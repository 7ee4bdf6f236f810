"""States of classes and their reasons. A state follows from the figures of a class. Of several states, the most serious is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from actors.host import recent_latency
from actors.messages.unit_messages import Failure, Figures, Trouble
from configs.classes.live_class import LiveClass
from services.watch.states import RECENT_S, TROUBLED, WARNED, ClassState, Condition, condition_of
from tests.support.watched import declared

WELL = Figures(results=10, results_per_s=5.0, p95_ms=40.0, taken_per_s=100.0, offered=100)
CLICKS = replace(
    WELL, results_per_s=0.0, p95_ms=0.0, queued=130_000, queue_age_s=54.0, taken_per_s=12.0, keep=0.1
)


def of(figures: Figures, settings: LiveClass | None = None, **more: Any) -> tuple[str, str]:
    found = condition_of(
        settings or declared("t"), figures, **{"units": 1, "asleep": False, "share": 0.07} | more
    )
    return found.state.value, found.reason


@pytest.mark.parametrize(
    ("figures", "more", "expected"),
    [
        (WELL, {}, ("within target", "95% of its answers come within 40 ms")),
        (WELL, {"asleep": True}, ("idle", "it has no input")),
        (WELL, {"units": 0}, ("starting", "it is being started and has not reported yet")),
        (
            replace(WELL, p95_ms=1500.0),
            {},
            ("over target", "95% of its answers come within 1.5 s, its target is 100 ms"),
        ),
        (
            replace(WELL, queued=9, queue_age_s=0.3),
            {},
            ("over target", "9 tuples wait, the oldest for 300 ms, its target is 100 ms"),
        ),
        (replace(WELL, keep=0.6), {}, ("shedding", "40% of its input is dropped")),
        (replace(WELL, results_per_s=0.0), {}, ("running", "no answer has come in the last 5 s")),
        (
            CLICKS,
            {},
            (
                "starved",
                "130,000 tuples wait, the oldest for 54 s, no answer has come in the last 5 s, and it has 7% of the lanes",
            ),
        ),
        (
            replace(WELL, late_now={"clicks": 0.1, "pages": 0.88}),
            {},
            ("late", "88% of the rows of stream pages come behind its watermark"),
        ),
        (
            replace(WELL, held_back=1),
            {"failures": [Failure("select", ("q",), "text is not a int64", 93, 0.93)]},
            ("losing rows", "93% of the rows of query q fail: text is not a int64"),
        ),
        (
            WELL,
            {"failures": [Failure("select", ("q",), "text is not a int64", 93, 0.3)]},
            ("within target", "95% of its answers come within 40 ms"),
        ),
        (
            replace(WELL, held_back=1, queued=5_000_000, queue_age_s=432.0),
            {},
            (
                "held back",
                "its queue is full, so input waits in the stream's log, and producers wait when the log is full: 5,000,000"
                " tuples wait, the oldest for 7.2 min",
            ),
        ),
        (
            WELL,
            {"asleep": True, "troubles": [("given up", "t: there is no such stream (got 'b')")]},
            (
                "given up",
                "t: there is no such stream (got 'b'); it is started again when its tenant, queries or streams"
                " are changed, or the system is restarted",
            ),
        ),
        (
            WELL,
            {"troubles": [("failing", "t: readings: the stream was dropped")]},
            ("failing", "t: readings: the stream was dropped; it resumes by itself once the cause is gone"),
        ),
    ],
)
def test_each_state_of_a_class_has_its_reason(
    figures: Figures, more: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert of(figures, **more) == expected


def test_a_class_without_queries_has_its_own_state() -> None:
    assert of(Figures(), declared("t", queries={}), units=0) == (
        "no queries",
        "it has no queries that run now",
    )


def test_a_class_that_works_off_its_queue_is_not_starved() -> None:
    behind = replace(CLICKS, taken_per_s=5000.0)
    assert (of(CLICKS)[0], of(behind)[0]) == ("starved", "over target")


@pytest.mark.parametrize(
    ("settings", "has_advice"),
    [
        ({"max_drop": 0.05}, True),
        ({"max_drop": 0.05, "max_age_ms": 2000.0}, False),
        ({"max_drop": 0.5}, False),
        ({"max_drop": 0.05, "lossless": True}, False),
    ],
)
def test_a_class_that_drops_its_maximum_is_advised_to_set_max_age_ms(
    settings: dict[str, Any], has_advice: bool
) -> None:
    old = replace(WELL, keep=0.95, queued=5_000_000, queue_age_s=432.0)
    state, reason = of(old, declared("t", **settings))
    advice = "; it may drop no more than 5%: raise max_drop, or bound the age with max_age_ms"
    assert (state, reason.endswith(advice)) == ("over target", has_advice)


def test_a_held_back_class_is_advised_to_set_max_drop_or_max_age_ms_unless_lossless() -> None:
    full = replace(WELL, keep=0.95, held_back=1, queued=60_000, queue_age_s=3.0)
    found = {name: of(full, declared("t", **terms)) for name, terms in HOLDING.items()}
    reason = (
        "its queue is full, so input waits in the stream's log, and producers wait when the log is full: 60,000 tuples wait,"
        " the oldest for 3 s"
    )
    advice = "; it may drop no more than 5%: raise max_drop, or bound the age with max_age_ms"
    assert found == {"small": ("held back", reason + advice), "lossless": ("held back", reason)}


HOLDING: dict[str, dict[str, Any]] = {"small": {"max_drop": 0.05}, "lossless": {"lossless": True}}


def test_a_lossless_class_is_never_shown_as_shedding() -> None:
    assert of(replace(WELL, keep=0.5), declared("t", lossless=True))[0] == "within target"


def test_the_state_of_a_class_shows_one_shard_in_trouble_and_counts_the_others() -> None:
    troubles = [
        ("given up", "t#0: no"),
        ("failing", "t#1: log: full"),
        ("given up", "t#2: no"),
    ]
    state, reason = of(WELL, troubles=troubles)
    assert (state, reason.startswith("t#0: no (and 1 more shards); ")) == ("given up", True)


def test_watch_and_host_have_the_same_length_of_recent_seconds_and_names_of_troubles() -> None:
    assert (RECENT_S, *get_args(Trouble)) == (
        recent_latency.RECENT_S,
        "",
        ClassState.FAILING,
        ClassState.GIVEN_UP,
    )


def test_no_state_of_a_class_is_listed_as_trouble_and_as_warning() -> None:
    assert not TROUBLED & WARNED
    assert Condition(ClassState.IDLE, "") == Condition(ClassState("idle"), "")
