"""A scheduler with decision plans runs every operator that has input, and runs sources last, whatever arrives during a plan."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.classes.policies import policy_of
from scheduler.operators.network import NetworkEstimates
from scheduler.operators.policies import NONE
from scheduler.operators.scheduler import OperatorScheduler
from tests.property.test_policies import estimates, networks

PLANS = [
    *(f"{kind}:push_through=true" for kind in ("fixed", "slope-slack", "bucket")),
    *(f"superbox:traversal={kind}" for kind in ("min-cost", "min-latency", "min-memory")),
    "superbox:order=hr",
]


@pytest.mark.parametrize("sources_last", [False, True])
@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=25)
@given(st.data())
def test_every_operator_with_input_runs_and_sources_run_last(
    name: str, sources_last: bool, data: st.DataObject
) -> None:
    believed: NetworkEstimates = data.draw(estimates(data.draw(networks())))
    operators = believed.network.operators
    scheduler = OperatorScheduler(believed.network, policy_of(name), believed.estimates, True, sources_last)
    queued = [0] * len(operators)

    def enter(number: int, tuples: int) -> None:
        queued[number] += tuples
        if scheduler.counts:
            scheduler.pending(number, queued[number])
        scheduler.ready(number, 0.0)

    steps, second = data.draw(st.lists(st.integers(0, 6), max_size=25)), 0.0
    while steps or any(queued):
        second += 1.0
        step = steps.pop() if steps else 6
        if step < 4:
            # Some tuples enter the network behind the sources, for example when the clock closes a window.
            enter(data.draw(st.integers(0, len(operators) - 1)), step + 1)
            continue
        if step == 4:
            scheduler.refresh()
            continue
        picked = scheduler.pick(second)
        assert (picked == NONE) == (not any(queued))
        if picked == NONE:
            continue
        assert queued[picked]
        inside = [
            number for number, operator in enumerate(operators) if queued[number] and not operator.source
        ]
        assert not (sources_last and operators[picked].source and inside)
        if step == 5:  # The slice ends before the picked operator has run.
            continue
        taken = min(queued[picked], 2)
        queued[picked] -= taken
        scheduler.statistics.observe(picked, 100 * taken, 50 * taken, 1.0)
        for below in operators[picked].downstream:
            enter(below, taken)
        if queued[picked]:
            enter(picked, 0)
        else:
            scheduler.idle(picked)
