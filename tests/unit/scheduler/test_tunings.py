"""The coordinator's record of classes that tune themselves: their policies, forecasts and switches."""

from __future__ import annotations

from actors.coordinator.policy_tuners import Tunings
from configs.classes.live_class import LiveClass
from configs.classes.policies import Automatic
from scheduler.tuning import Compared


def test_a_switch_of_policy_is_explained_however_long_ago_it_was() -> None:
    tunings = Tunings()
    declared = LiveClass(name="one", priority=1, delay_target_ms=100, policy=Automatic(steady=2))
    tunings.set_classes([declared])
    for place in range(50):
        tunings.compared("one", "response", Compared(1.0, {"hr": 2.0, "fcfs": 1.0}), float(place))
    explained = tunings.explanations("one", 10)
    assert [(one.branch, one.policy, one.after) for one in explained if one.after != one.policy] == [
        ("switch", "hr", "fcfs")
    ]
    assert [one.at for one in explained] == [1.0, *range(40, 50)]
    assert tunings.explanations("one", 0) == ()
    assert tunings.in_force() == {"one": "fcfs"}
