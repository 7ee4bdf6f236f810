"""One recorded trace per level-2 policy: which operator runs when, on a fixed script of arrivals.

Six operators in two queries over two streams; a train holds two tuples; times in milliseconds. A trace is read like
prose: at that time that operator ran, its oldest tuple having come then. When a change of a policy is meant, record
anew with `WEIR_REGENERATE=1 pytest tests/golden` and review the difference.
"""

import os
from collections import deque
from pathlib import Path

import pytest

from configs.policies import POLICY_KINDS, policy_of
from scheduler.network import Estimate, Network, Operator
from scheduler.operators import OperatorScheduler
from scheduler.policies import NONE

TRACES = Path(__file__).parent / "traces"
REGENERATE = os.environ.get("WEIR_REGENERATE") == "1"
POLICIES = {kind: (kind, 0) for kind in POLICY_KINDS} | {
    f"{kind}-clustered": (kind, 3) for kind in ("lsf", "brt", "bsd")
}

NETWORK = Network(
    (
        Operator("readings", (2, 3), source=True),
        Operator("alarms", (4,), source=True),
        Operator("hot"),
        Operator("near: reading", (5,), partner=4, size_out=2.0),
        Operator("near: alarm", (5,), partner=3, size_out=2.0),
        Operator("report"),
    )
)
# Chosen so that no two policies run these arrivals alike.
ESTIMATES = tuple(
    Estimate(cost, selectivity)
    for cost, selectivity in ((0.5, 0.5), (1.5, 0.75), (4, 0.5), (2, 0.5), (0.5, 1.5), (2.5, 1))
)
ARRIVALS = {
    0: (0, 1, 2, 3, 4, 5, 20, 21, 22, 40, 41, 60, 61, 62, 63, 64),
    1: (0, 4, 5, 6, 7, 24, 25, 26, 42, 43, 65),
}
TRAIN = 2


class Host:
    """Runs the network's operators as their scheduler picks them, on queues of arrival times."""

    def __init__(self, kind: str, clusters: int) -> None:
        self.scheduler = OperatorScheduler(NETWORK, policy_of(kind, clusters), ESTIMATES, adaptive=False)
        self.queues: list[deque[int]] = [deque() for _ in NETWORK.operators]
        self.pending = sorted((at, source) for source, times in ARRIVALS.items() for at in times)
        self.kept = [0.0] * len(NETWORK.operators)
        self.now = 0.0

    def trace(self) -> str:
        lines = ["at ms  operator       head came"]
        while self.pending or any(self.queues):
            self.arrive()
            operator = self.scheduler.pick(self.now)
            if operator == NONE:
                self.now = self.pending[0][0]
                continue
            name, head = NETWORK.operators[operator].name, self.queues[operator][0]
            lines.append(f"{self.now:5.1f}  {name:<13}  {head:9d}")
            self.run(operator)
        return "\n".join([*lines, f"{self.now:5.1f}  done", ""])

    def arrive(self) -> None:
        while self.pending and self.pending[0][0] <= self.now:
            at, source = self.pending.pop(0)
            self.enter(source, at)

    def enter(self, operator: int, came: int) -> None:
        self.queues[operator].append(came)
        self.tell(operator)

    def run(self, operator: int) -> None:
        """One train; of its tuples every so many survive, as the selectivity says."""
        queue, own = self.queues[operator], ESTIMATES[operator]
        for _ in range(min(TRAIN, len(queue))):
            came = queue.popleft()
            self.now += own.cost_s
            self.kept[operator] += own.selectivity
            while self.kept[operator] >= 1:
                self.kept[operator] -= 1
                for below in NETWORK.operators[operator].downstream:
                    self.enter(below, came)
        self.tell(operator)

    def tell(self, operator: int) -> None:
        """The scheduler, of what is queued there."""
        queue = self.queues[operator]
        if not queue:
            self.scheduler.idle(operator)
            return
        if self.scheduler.counts:
            self.scheduler.pending(operator, len(queue))
        self.scheduler.ready(operator, queue[0])


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_runs_operators_as_recorded(name: str) -> None:
    trace, file = Host(*POLICIES[name]).trace(), TRACES / f"{name}.txt"
    if REGENERATE:
        file.write_text(trace, "utf-8")
    assert trace == file.read_text("utf-8")


def test_no_two_policies_have_the_same_trace() -> None:
    assert len({Host(*policy).trace() for policy in POLICIES.values()}) == len(POLICIES)


def test_every_recorded_trace_belongs_to_a_policy() -> None:
    assert {file.stem for file in TRACES.iterdir()} == set(POLICIES)
