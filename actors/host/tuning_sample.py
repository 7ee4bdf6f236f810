"""Measurements of a unit whose class has policy `auto`: input for `sim.forecast.policy_forecast`, and results to compare with.

Everything is of the time since it was asked for last, so that what is measured and what is forecast are of the same input.
A unit of a class that says its policy notices nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_

from actors.host.unit_quality import Totals, totals
from configs.classes.policies import Automatic
from configs.classes.utility import UtilityGraph
from engine.class_.explain import PlanLine, explain
from engine.class_.hosted_class import HostedClass
from engine.measure.answer_quality import AnswerQuality
from engine.network.node import QueuedOperator, slack_of
from engine.network.plan_alignment import RunningPlan
from loadshed.cycle import CycleEnded
from loadshed.responses import ResponseStatistics
from scheduler.ratios import ratio

# Load cycles whose arrivals are remembered.
CYCLES_KEPT = 64


@dataclass(frozen=True, slots=True)
class UnitNow:
    """A unit as it is."""

    lines: tuple[PlanLine, ...]
    arrivals: Mapping[str, tuple[tuple[int, int], ...]]
    """By stream: tuples that were let in and batches in which they came, of the last load cycles, oldest first."""
    cycle_s: float
    capacity: float
    """Processors that it can spend."""
    train_max: int
    seen: ResponseStatistics
    """Of its answers."""
    queued: float
    """Tuples, on the mean."""
    stale: float | None = None
    """Part of the time for which answers were behind what had arrived; None where queries have come or gone."""
    lost: float | None = None
    """Utility that an answer lost to its latency, on the mean."""
    tardy_ms: float | None = None
    """Time by which an answer missed its deadline, on the mean of those that have one."""
    graphs: tuple[UtilityGraph | None, ...] = ()
    """Of the lines, in their order: what their answers are worth."""
    weights: tuple[float, ...] = ()
    """Of the same: how much it counts that their answers are fresh."""
    slacks: tuple[float | None, ...] = ()
    """Of the lines: how many seconds their answers may take before they are tardy."""
    running: RunningPlan | None = None
    """What other plans are made from."""
    is_exchanging: bool = False
    """Whether queries have run by two plans at a time."""
    has_given_up: bool = False
    """Whether queries go on by another plan because there was no room for an exchange."""


@dataclass
class Noticed:
    cycle_s: float
    train_max: int
    _arrivals: dict[str, deque[tuple[int, int]]] = field(init=False, default_factory=dict)
    _queued: int = field(init=False, default=0)
    _cycles: int = field(init=False, default=0)
    _at: float = field(init=False, default=0.0)
    """When the last load cycle ended."""
    _queries: Sequence[AnswerQuality] = field(init=False, default=())
    _before: Totals | None = field(init=False, default=None)
    _exchanging: bool = field(init=False, default=False)
    """Whether queries have run by two plans at a time since the last load cycle that counts."""

    def follow(self, policy: object, hosted: HostedClass) -> None:
        """Answers are looked at from now on, or not any more."""
        if not isinstance(policy, Automatic):
            hosted.times.noticed = None
        elif hosted.times.noticed is None:
            hosted.notice()

    def cycle_ended(self, cycle: CycleEnded, keep: float, hosted: HostedClass, now: float) -> None:
        if hosted.times.noticed is None:
            return
        self._at = now
        if hosted.is_exchanging:
            self._exchanging = True
            return
        if self._exchanging:
            self._exchanging = False
            self._anew(hosted)
        if self._before is None:
            self._begin(hosted)
        for input_ in cycle.inputs:
            slots = self._arrivals.setdefault(input_.stream, deque(maxlen=CYCLES_KEPT))
            slots.append((round(keep * input_.offered), input_.batches))
        self._queued += sum(node.tuples for node in hosted.runner.network.nodes)
        self._cycles += 1

    def now(self, hosted: HostedClass, capacity: float) -> UnitNow | None:
        """None of a class that says its policy."""
        if hosted.times.noticed is None:
            return None
        stale, lost, tardy_ms = self._worth(hosted)
        operators = hosted.runner.scheduled.believed().network.operators
        found = UnitNow(
            lines=tuple(explain(hosted.runner)),
            arrivals={stream: tuple(slots) for stream, slots in self._arrivals.items()},
            cycle_s=self.cycle_s,
            capacity=capacity,
            train_max=self.train_max,
            seen=hosted.times.noticed,
            queued=self._queued / self._cycles if self._cycles else 0.0,
            stale=stale,
            lost=lost,
            tardy_ms=tardy_ms,
            graphs=tuple([operator.utility for operator in operators]),
            weights=tuple([operator.weight for operator in operators]),
            slacks=tuple([slack_s_of(node) for node in hosted.runner.network.nodes]),
            running=hosted.queries.running(),
            is_exchanging=hosted.is_exchanging or self._exchanging,
            has_given_up=hosted.exchanges.has_given_up,
        )
        self._anew(hosted)
        return found

    def _anew(self, hosted: HostedClass) -> None:
        self._arrivals.clear()
        self._queued = self._cycles = 0
        hosted.notice()
        self._begin(hosted)

    def weighed(self) -> None:
        """Queries count otherwise than before: what was before is not to be told with what comes."""
        self._before = None

    def _begin(self, hosted: HostedClass) -> None:
        self._queries = tuple(hosted.runner.answers.quality.values())
        self._before = totals(self._at, self._queries)

    def _worth(self, hosted: HostedClass) -> tuple[float | None, float | None, float | None]:
        """Staleness, lost utility, and tardiness."""
        queries, before = tuple(hosted.runner.answers.quality.values()), self._before
        same = len(queries) == len(self._queries) and all(map(is_, queries, self._queries))
        if before is None or not same or self._at <= before.at:
            return None, None, None
        after = totals(self._at, queries)
        answers, due = after.answers - before.answers, after.due - before.due
        return (
            ratio(after.stale_s - before.stale_s, self._at - before.at),
            1 - ratio(after.utility - before.utility, answers) if answers else None,
            1e3 * (after.tardy_s - before.tardy_s) / due if due else None,
        )


def slack_s_of(node: QueuedOperator) -> float | None:
    """None of one that gives no answers, or none with a deadline."""
    slack = slack_of(node) if node.outputs else None
    return None if slack is None else slack()
