"""Classes that tune themselves, as the coordinator has them."""

from __future__ import annotations

from actors.coordinator.policy_tuners import Tunings
from configs.classes.live_class import LiveClass
from configs.classes.policies import Automatic
from scheduler.tuning import Compared


def test_why_a_class_came_to_its_policy_is_told_however_long_ago_that_was() -> None:
    tunings = Tunings(None)
    declared = LiveClass(name="one", priority=1, delay_target_ms=100, policy=Automatic(steady=2))
    tunings.set_classes([declared])
    for place in range(50):
        tunings.compared("one", "response", Compared(1.0, {"hr": 2.0, "fcfs": 1.0}), float(place))
    told = tunings.explanations("one", 10)
    assert [(one.branch, one.policy, one.after) for one in told if one.after != one.policy] == [
        ("switch", "hr", "fcfs")
    ]
    assert [one.at for one in told] == [1.0, *range(40, 50)]
    assert tunings.explanations("one", 0) == ()
    assert tunings.in_force() == {"one": "fcfs"}
