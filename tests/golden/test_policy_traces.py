"""Recorded traces, one per level-2 policy: which operator runs when, for a fixed script of arrivals.

Six operators form two queries over two streams; a train holds two tuples; times are in milliseconds. Each
line of a trace says when an operator ran and when its oldest tuple arrived. To record the traces again after
an intended change of a policy, run `WEIR_REGENERATE=1 pytest tests/golden` and review the difference.

If sources run last, tuples rarely wait inside the network. So policies made for waiting tuples (MavStream's
and Aurora's) are recorded on a tree of six operators and a chain of three, in which sources do not run last.
"""

import os
from collections import deque
from pathlib import Path

import pytest

from configs.classes.policies import CLUSTERED_KINDS, POLICY_KINDS, PolicySettings, policy_of
from configs.classes.utility import UtilityGraph
from scheduler.operators.network import Estimate, Network, ScheduledOperator
from scheduler.operators.policies import NONE
from scheduler.operators.scheduler import OperatorScheduler

TRACES = Path(__file__).parent / "traces"
REGENERATE = os.environ.get("WEIR_REGENERATE") == "1"
PUSHED = {
    f"{kind}-push-through": policy_of(f"{kind}:push_through=true")
    for kind in ("fixed", "slope-slack", "bucket")
}
SUPERBOXES = {
    f"superbox-{traversal}": policy_of(f"superbox:traversal={traversal}")
    for traversal in ("min-latency", "min-memory")
}
RANKED = (
    *("path", "segment", "simplified-segment", "fixed", "slope-slack", "bucket", "superbox", "edf", "edf-hr"),
    *PUSHED,
    *SUPERBOXES,
)
POLICIES = {kind: policy_of(kind) for kind in POLICY_KINDS} | {
    f"{kind}-clustered": policy_of(kind, 3) for kind in CLUSTERED_KINDS
}
POLICIES |= PUSHED | SUPERBOXES

NETWORK = Network(
    (
        ScheduledOperator("readings", (2, 3), source=True),
        ScheduledOperator("alarms", (4,), source=True),
        ScheduledOperator("hot"),
        ScheduledOperator("near: reading", (5,), partner=4, size_out=2.0),
        ScheduledOperator("near: alarm", (5,), partner=3, size_out=2.0),
        ScheduledOperator("report"),
    )
)
# The estimates are chosen so that no two policies run these arrivals in the same order.
ESTIMATES = tuple(
    Estimate(cost, selectivity)
    for cost, selectivity in ((0.5, 0.5), (1.5, 0.75), (4, 0.5), (2, 0.5), (0.5, 1.5), (2.5, 1))
)
ARRIVALS = {
    0: (0, 1, 2, 3, 4, 5, 20, 21, 22, 40, 41, 60, 61, 62, 63, 64),
    1: (0, 4, 5, 6, 7, 24, 25, 26, 42, 43, 65),
}
DUE_SOON, DUE_LATER = (
    UtilityGraph.model_validate({"points": [{"latency_ms": at, "utility": worth} for at, worth in points]})
    for points in (((8e3, 1.0), (14e3, 0.0)), ((12e3, 1.0), (16e3, 0.5), (30e3, 0.0)))
)  # in this test, one second stands for one millisecond
TREE = Network(
    (
        ScheduledOperator("b5", (2,), source=True, size_out=1.5),
        ScheduledOperator("b4", (3,), source=True),
        ScheduledOperator("b3", (3,), size_out=0.5),
        ScheduledOperator("b2", (5,)),
        ScheduledOperator("b6", (5,), source=True, size_out=0.5),
        ScheduledOperator("b1", utility=DUE_SOON),
        ScheduledOperator("c3", (7,), source=True),
        ScheduledOperator("c2", (8,), size_out=2.0),
        ScheduledOperator("c1", utility=DUE_LATER),
    )
)
TREE_ESTIMATES = tuple(
    Estimate(cost, selectivity)
    for cost, selectivity in (
        *((1.5, 1), (0.5, 0.5), (1, 0.5), (0.55, 0.5), (0.8, 0.5), (1.25, 0.5)),
        *((0.25, 1), (1, 0.5), (0.5, 1)),
    )
)
TREE_ARRIVALS = {
    0: (0, 1, 2, 3, 20, 21, 22, 23, 24, 40, 41),
    1: (0, 2, 4, 20, 22, 24, 26, 42),
    4: (1, 3, 5, 25, 40),
    6: (0, 1, 2, 6, 7, 20, 27, 28, 29, 41, 42),
}
TRAIN = 2


class Host:
    """Shell that runs the operators its scheduler picks, on queues of arrival times."""

    def __init__(self, settings: PolicySettings, ranked: bool) -> None:
        network, self.estimates, arrivals = (
            (TREE, TREE_ESTIMATES, TREE_ARRIVALS) if ranked else (NETWORK, ESTIMATES, ARRIVALS)
        )
        self.operators = network.operators
        self.scheduler = OperatorScheduler(network, settings, self.estimates, False, not ranked)
        self.queues: list[deque[int]] = [deque() for _ in self.operators]
        self.pending = sorted((at, source) for source, times in arrivals.items() for at in times)
        self.kept = [0.0] * len(self.operators)
        self.now = 0.0

    def trace(self) -> str:
        lines = ["at ms  operator       head came"]
        while self.pending or any(self.queues):
            self.arrive()
            operator = self.scheduler.pick(self.now)
            if operator == NONE:
                self.now = self.pending[0][0]
                continue
            name, head = self.operators[operator].name, self.queues[operator][0]
            lines.append(f"{self.now:5.1f}  {name:<13}  {head:9d}")
            self.run(operator)
        return "\n".join([*lines, f"{self.now:5.1f}  done", ""])

    def arrive(self) -> None:
        while self.pending and self.pending[0][0] <= self.now:
            at, source = self.pending.pop(0)
            self.enter(source, at)

    def enter(self, operator: int, came: int) -> None:
        self.queues[operator].append(came)
        self.notify(operator)

    def run(self, operator: int) -> None:
        """Run one train; the operator's selectivity decides which tuples of the train are passed on."""
        queue, own = self.queues[operator], self.estimates[operator]
        for _ in range(min(TRAIN, len(queue))):
            came = queue.popleft()
            self.now += own.cost_s
            self.kept[operator] += own.selectivity
            while self.kept[operator] >= 1:
                self.kept[operator] -= 1
                for below in self.operators[operator].downstream:
                    self.enter(below, came)
        self.notify(operator)

    def notify(self, operator: int) -> None:
        """Report to the scheduler the number and the oldest arrival of the tuples queued at the operator, or
        that no tuple is queued.
        """
        queue = self.queues[operator]
        if not queue:
            self.scheduler.idle(operator)
            return
        if self.scheduler.counts:
            self.scheduler.pending(operator, len(queue))
        self.scheduler.ready(operator, queue[0])


def trace_of(name: str) -> str:
    return Host(POLICIES[name], name in RANKED).trace()


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_runs_operators_in_the_recorded_order(name: str) -> None:
    trace, file = trace_of(name), TRACES / f"{name}.txt"
    if REGENERATE:
        file.write_text(trace, "utf-8")
    assert trace == file.read_text("utf-8")


def test_no_two_policies_have_the_same_trace() -> None:
    assert len({trace_of(name) for name in POLICIES}) == len(POLICIES)


@pytest.mark.parametrize("name", RANKED)
def test_policies_that_rank_by_waiting_time_run_operators_in_another_order_than_policy_chain(
    name: str,
) -> None:
    assert trace_of(name) != Host(policy_of("chain"), ranked=True).trace()


def test_every_recorded_trace_belongs_to_a_policy() -> None:
    assert {file.stem for file in TRACES.iterdir()} == set(POLICIES)
