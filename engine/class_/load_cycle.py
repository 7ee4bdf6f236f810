"""Measurements of a load cycle, which the class's load manager receives when the cycle ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.class_.input_account import Entrance
from engine.class_.runner import ClassRunner
from engine.class_.scheduled_nodes import waiting_s
from engine.class_.work_calibration import SteadyWork, WorkCheck
from loadshed.cycle import CycleEnded, InputCycle, OutputCycle


@dataclass(slots=True)
class QueryResponses:
    """Number of answers of one query in the current load cycle, and the sum of their response times."""

    results: int = 0
    total_s: float = 0.0


@dataclass
class LoadCycle:
    _responses: dict[str, QueryResponses] = field(init=False, default_factory=dict)
    _began: float | None = field(init=False, default=None)
    _work: WorkCheck = field(init=False, default_factory=WorkCheck)
    _steady: SteadyWork = field(init=False, default_factory=SteadyWork)

    def add_query(self, name: str) -> None:
        self._responses[name] = QueryResponses()
        self._steady.forget()

    def remove_query(self, name: str) -> None:
        del self._responses[name]
        self._steady.forget()

    def answered(self, query: str, results: int, total_s: float) -> None:
        """Count `results` answers of a query, with `total_s` as the sum of their response times in seconds."""
        seen = self._responses[query]
        seen.results += results
        seen.total_s += total_s

    def begin(self, now: float) -> None:
        """Begin the first load cycle, or the first load cycle after the class was asleep."""
        self._began = now

    def end(
        self,
        now: float,
        used_s: float,
        target_s: float,
        runner: ClassRunner,
        entrances: Mapping[str, Entrance],
        observed: bool,
    ) -> CycleEnded:
        """Return the cycle's measurements and begin a new cycle.

        `observed` is False if the class spent the processor time `used_s` on repeating steps.
        """
        believed = runner.scheduled.believed()
        places = {id(node): place for place, node in enumerate(runner.network.nodes)}
        waiting = {stream: waiting_s(runner.network.source(stream), now) for stream in entrances}
        longest = max(waiting.values(), default=0.0)
        works: dict[str, float] = {}
        believed_s = 0.0
        for stream, entrance in entrances.items():
            node = runner.network.source(stream)
            work_s = 0.0 if node is None else believed.segments[places[id(node)]].cost_s
            works[stream] = self._steady.observe(stream, work_s)
            believed_s += (entrance.ledger.delivered - entrance.cycle_delivered) * works[stream]
            entrance.cycle_delivered = entrance.ledger.delivered
        if observed:
            self._work.observe(used_s, believed_s)
        factor, inputs = self._work.factor, []
        for stream, entrance in entrances.items():
            offered, batches = entrance.cycle_offered, entrance.cycle_batches
            inputs.append(InputCycle(stream, offered, factor * works[stream], waiting[stream], batches))
            entrance.cycle_offered = entrance.cycle_batches = 0
        outputs = []
        for query, seen in self._responses.items():
            mean_s = max(0.0, seen.total_s / seen.results) if seen.results else 0.0
            outputs.append(OutputCycle(query, target_s, seen.results, mean_s, longest))
            self._responses[query] = QueryResponses()
        queued_work_s = factor * sum(
            node.tuples * (works[node.stream] if node.source else believed.segments[place].cost_s)
            for place, node in enumerate(runner.network.nodes)
            if node.tuples
        )
        cycle_s = 0.0 if self._began is None else max(0.0, now - self._began)
        self._began = now
        return CycleEnded(cycle_s, tuple(inputs), tuple(outputs), queued_work_s, used_s)
