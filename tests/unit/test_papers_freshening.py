"""The thesis's claims of data freshening, in their quick form: which hold here, and which do not."""

from __future__ import annotations

from sim.papers.freshening import EXPERIMENTS

# Where a claim does not hold, its finding says why.
DO_NOT_HOLD = {
    "PF partitions are the clear winner",
    "hundreds of thousands of objects cannot be solved exactly",
}


def test_claims_hold_but_for_those_that_say_why() -> None:
    findings = [one for experiment in EXPERIMENTS for one in experiment.run(True).findings]
    assert {one.claim for one in findings if not one.holds} == DO_NOT_HOLD
    assert all(one.why for one in findings if not one.holds)


def test_an_experiment_comes_to_the_same_each_time() -> None:
    (polling,) = [one for one in EXPERIMENTS if one.name == "freshening-polling"]
    assert polling.run(True) == polling.run(True)
