"""A class that an admission plan refuses is also refused if the class asks for more, or may lose less."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from configs.classes.live_class import LiveSettings
from configs.classes.priority_class import PriorityClass
from sim.admission.planner import is_kept, plan
from sim.admission.situation import ClassLoad, InputLoad, Situation

pytestmark = pytest.mark.slow

# Tolerances: a plan comes from simulated runs with random arrivals, so differences below these values may be random.
MORE, LESS = 1.3, 0.1
# Factor by which a target may be missed at random. A class that sheds input has response times just below its target.
NEAR = 1.05
# Failing examples are not shrunk, because that would take thousands of plans.
FEW = settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])


@st.composite
def loads(draw: st.DrawFn, name: str, least: float) -> ClassLoad:
    """Draw a class with a load of up to one and a half lanes."""
    tuple_s = draw(st.sampled_from([1e-7, 1e-6, 2e-5]))
    processors = draw(st.floats(least, 1.5))
    declared = PriorityClass(
        name=name,
        priority=draw(st.sampled_from([1, 3, 6])),
        delay_target_ms=draw(st.sampled_from([200, 300, 500, 1000])),
        max_drop=draw(st.sampled_from([0.1, 0.3, 0.6, 0.95])),
    )
    given = InputLoad(
        processors / tuple_s,
        tuple_s,
        call_s=draw(st.sampled_from([0.0, 1e-4, 4e-4])),
        batch_s=draw(st.sampled_from([0.05, 0.1])),
        calls=8,
    )
    return ClassLoad(declared, (given,))


situations = st.builds(
    lambda others, new: Situation(1, LiveSettings(), tuple(others), (new,)),
    st.tuples(loads("a", 0.0), loads("b", 0.0)),
    loads("new", 0.02),
)


@FEW
@given(situations, st.floats(MORE, 6.0))
def test_a_class_that_the_admission_plan_refuses_is_still_refused_at_a_higher_rate(
    situation: Situation, factor: float
) -> None:
    (new,) = situation.planned
    more = replace(new, inputs=tuple(replace(one, rate=factor * one.rate) for one in new.inputs))
    assert is_no_better(situation, replace(situation, planned=(more,)))


@FEW
@given(situations, st.floats(LESS, 0.95))
def test_a_class_that_the_admission_plan_refuses_is_still_refused_with_a_smaller_max_drop(
    situation: Situation, less: float
) -> None:
    (new,) = situation.planned
    max_drop = max(0.0, new.declared.max_drop - less)
    strict = replace(new, declared=new.declared.model_copy(update={"max_drop": max_drop}))
    assert is_no_better(situation, replace(situation, planned=(strict,)))


def is_no_better(before: Situation, after: Situation) -> bool:
    was, now = (next(one for one in plan(each).classes if one.planned) for each in (before, after))
    nearly = replace(was, target_ms=NEAR * was.target_ms)
    held = all(is_kept(nearly, run) for run in (was.after, was.at_worst) if run is not None)
    return held or not now.holds
