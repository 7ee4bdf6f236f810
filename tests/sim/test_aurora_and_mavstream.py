"""What Carney's and MavStream's theses claim, in the quick forms: which claims hold here, and that the rest say why not."""

import pytest

from sim.papers import carney, mavstream
from sim.papers.finding import Experiment

EVERY = (*carney.EXPERIMENTS, *mavstream.EXPERIMENTS)
DO_NOT_HOLD = {
    ("carney-traversals", "min-memory traversal of the example"),
    ("carney-fluctuating", "the same, deciding superbox by superbox"),
    ("carney-overhead", "scheduling overhead: fixed priority over bucketing"),
    ("mavstream-paths", "simplified segment holds slightly more than segment, and path capacity most"),
}


@pytest.mark.parametrize("experiment", EVERY, ids=[one.name for one in EVERY])
def test_claims_hold_or_say_why_not(experiment: Experiment) -> None:
    found = experiment.run(True)
    failed = {(experiment.name, one.claim) for one in found.findings if not one.holds}
    assert failed == {one for one in DO_NOT_HOLD if one[0] == experiment.name}
    assert all(one.why for one in found.findings if not one.holds)
    assert all(one.lines or one.bars for one in found.charts)


def test_an_experiment_comes_out_the_same_again() -> None:
    assert mavstream.compared(True) == mavstream.compared(True)
