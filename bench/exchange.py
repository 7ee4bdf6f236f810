"""Cost of changing to an equivalent plan: a class with the eleven queries of workload W11, compared with a class that keeps its plan.

The two classes process each train one after the other, so that other programs on the machine slow both classes. The old and
the new operators run until the last query has been exchanged. For the longest window, this takes 50 s of event time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.measure import Figure
from configs.classes.live_class import LiveClass
from configs.classes.plans import PlanSettings
from configs.classes.policy_and_plan import PLANS, plan_words
from engine.class_.door import Piece
from engine.class_.hosted_class import HostedClass
from engine.data.train import train_from_arrow
from services.race import w11_workload

WARM_S, SECONDS, TRAIN = 25, 90, 1_000
QUOTA_S = 1e9
TRIES = 3


def figures() -> list[Figure]:
    return [one for plan in PLANS[1:] for one in figures_of(plan)]


@dataclass
class Hosted:
    """Class with the queries of workload W11, and the processor time that the class has used."""

    hosted: HostedClass
    used_s: float = 0.0
    taken: dict[str, int] = field(default_factory=dict)

    def run(self, piece: Piece) -> float:
        """Process one train of a stream, and return the processor time of the work."""
        self.taken[piece.stream] = self.taken.get(piece.stream, 0) + piece.offered
        began = time.thread_time()
        self.hosted.take(piece, self.taken[piece.stream])
        self.hosted.run(QUOTA_S, zero, time.thread_time)
        self.hosted.committed()
        took_s = time.thread_time() - began
        self.used_s += took_s
        return took_s


@dataclass(frozen=True, slots=True)
class Exchange:
    set_s: float
    """Processor-seconds for planning the queries with the new plan."""
    both: float
    """Processor time while old and new operators ran, divided by that of the class that keeps its plan."""
    dearest_s: float
    """Greatest extra processor time of a turn in which queries were exchanged, in seconds."""
    after: float


def figures_of(plan: PlanSettings) -> list[Figure]:
    tries = [exchanged(plan) for _ in range(TRIES)]
    about = f"W11 changes to {', '.join(plan_words(plan))}"
    return [
        Figure(
            f"{about}: while both plans run ÷ unchanged class", min(one.both for one in tries), "×", limit=2.5
        ),
        Figure(f"{about}: after the exchange ÷ unchanged class", min(one.after for one in tries), "×"),
        Figure(
            f"{about}: planning the queries again", 1e3 * min(one.set_s for one in tries), "ms", limit=10.0
        ),
        Figure(
            f"{about}: extra time of the slowest turn with an exchange",
            1e3 * min(one.dearest_s for one in tries),
            "ms",
            limit=10.0,
        ),
    ]


def exchanged(plan: PlanSettings) -> Exchange:
    classes = [Hosted(made()) for _ in range(2)]
    alone, changed = classes
    pieces, dearest_s = list(input_of(changed.hosted)), 0.0
    warm = sum(one.offered for one in pieces) * WARM_S // SECONDS
    turns = iter(pieces)
    while warm > 0:
        piece = next(turns)
        warm -= piece.offered
        for one in classes:
            one.run(piece)
    began = time.thread_time()
    changed.hosted.set_plan(plan)
    set_s = time.thread_time() - began
    alone.used_s = changed.used_s = 0.0
    while changed.hosted.is_exchanging:
        before, piece = planned(changed.hosted), next(turns)
        least, took_s = (one.run(piece) for one in classes)
        if planned(changed.hosted) != before:
            dearest_s = max(dearest_s, took_s - least)
    both = changed.used_s / alone.used_s
    alone.used_s = changed.used_s = 0.0
    for piece in turns:
        for one in classes:
            one.run(piece)
    return Exchange(set_s, both, dearest_s, changed.used_s / alone.used_s)


def made() -> HostedClass:
    declared = {"name": "gold", "priority": 1, "delay_target_ms": 1000}
    hosted = HostedClass(
        LiveClass.model_validate(
            declared | {"streams": w11_workload.STREAMS, "queries": w11_workload.QUERIES}
        ),
        10_000,
    )
    for stream in hosted.queries.schemas:
        hosted.begin(stream, 0, 0)
    return hosted


def input_of(hosted: HostedClass) -> Iterator[Piece]:
    batches = dict.fromkeys(hosted.queries.schemas, 0)
    for stream, rows in w11_workload.turns(w11_workload.generated(SECONDS), TRAIN):
        train = train_from_arrow(rows.combine_chunks(), hosted.queries.schemas[stream].schema, 0.0)
        yield Piece(stream, batches[stream], len(train), 0, 0, train, None)
        batches[stream] += 1


def planned(hosted: HostedClass) -> list[PlanSettings]:
    network = hosted.runner.network
    return [network.planned_as(name) for name in network.queries]


def zero() -> float:
    return 0.0
