"""MavStream's thesis, chapter 6: latency and memory of path capacity, segment and simplified segment scheduling.

A query of six operators on two paths that meet in a join, with bursts (§6.5): operators near the inputs drop most tuples, so
that running them first frees memory, and running a path to its end answers sooner. The thesis does not tell its costs and
selectivities; here they are drawn, and what is compared is the means over many such queries.
"""

from __future__ import annotations

import random
from itertools import pairwise

from configs.policies import policy_of
from scheduler.network import Estimate, Network, NetworkEstimates, Operator
from sim.papers.boxes import BoxHost
from sim.papers.finding import Chart, Experiment, Finding, Found

POLICIES = ("path", "simplified-segment", "segment", "rr")
QUERY = Network(
    (
        Operator("select left", (1,), source=True),
        Operator("project left", (4,), size_out=0.8),
        Operator("select right", (3,), source=True),
        Operator("project right", (4,), size_out=0.8),
        Operator("join", (5,), size_out=1.6),
        Operator("select"),
    )
)
# Load between bursts and in them: every fourth 200 tuples come twice as fast, as 80 tuples a second after 40 in the thesis.
CALM, BURST, PART = 0.6, 1.2, 200


def estimates_of(seed: int) -> list[Estimate]:
    """Of a query of which a tuple takes a second on the mean."""
    chance = random.Random(seed)
    sides = (chance.uniform(0.2, 0.8), 1.0, chance.uniform(0.2, 0.8), 1.0)
    kept = (*sides, chance.uniform(0.5, 1.5), chance.uniform(0.3, 0.9))
    drawn = tuple(Estimate(chance.uniform(0.5, 1.5), one) for one in kept)
    segments = NetworkEstimates(QUERY, drawn).segments
    mean_s = sum(segments[one].cost_s for one in QUERY.sources) / len(QUERY.sources)
    return [Estimate(one.cost_s / mean_s, one.selectivity) for one in drawn]


def arrivals(seed: int, tuples: int) -> list[tuple[float, int]]:
    chance, now, found = random.Random(seed), 0.0, list[tuple[float, int]]()
    for number in range(tuples):
        now += chance.expovariate(BURST if number // PART % 4 == 3 else CALM)
        found.append((now, chance.choice(QUERY.sources)))
    return found


def compared(quick: bool) -> Found:
    queries, tuples = (10, 1600) if quick else (40, 8000)
    latency, memory, most = (dict.fromkeys(POLICIES, 0.0) for _ in range(3))
    over_time = {}
    for seed in range(queries):
        estimates, came = estimates_of(seed), arrivals(seed, tuples)
        for policy in POLICIES:
            host = BoxHost(QUERY, policy_of(policy), estimates, train_max=1).run(came)
            latency[policy] += host.mean_latency_s / queries
            held = sum(size * (after - at) for (at, size), (after, _) in pairwise(host.memory))
            memory[policy] += held / host.now / queries
            most[policy] += max(size for _, size in host.memory) / queries
            if seed == 0:
                over_time[policy] = host.memory[:: max(1, len(host.memory) // 500)]
    saved = 100 * (1 - latency["path"] / latency["segment"])
    between = latency["path"] < latency["simplified-segment"] < latency["segment"]
    little = memory["segment"] <= memory["simplified-segment"] <= memory["path"]
    return Found(
        (
            Finding(
                "§6.2",
                "path capacity answers sooner than segment scheduling",
                "13% on average",
                f"{saved:.0f}%",
                saved > 0,
                ""
                if saved < 20
                else "here a segment waits for the whole of a burst; the thesis's operators take turns of a fixed time",
            ),
            Finding("§6.2", "simplified segment in between", "in between", told(latency), between),
            Finding(
                "§6.3, §6.5",
                "segment scheduling holds least memory",
                "least of all",
                told(memory),
                memory["segment"] == min(memory.values()),
            ),
            Finding(
                "§6.5",
                "simplified segment holds slightly more than segment, and path capacity most",
                "segment, simplified, path",
                told(memory),
                little,
                ""
                if little
                else "cut in two, a path keeps its tuples in the middle, and nothing but the least second half frees them; the thesis "
                "sees path capacity hold more, with unprocessed tuples counted at the inputs of operators that all take turns",
            ),
        ),
        (
            Chart("Mean latency", "", "service times of a tuple", bars=latency),
            Chart("Memory, mean", "", "size of queued tuples", bars=memory),
            Chart("Memory, most", "", "size of queued tuples", bars=most),
            Chart("Memory in bursts", "time", "size of queued tuples", over_time),
        ),
    )


def told(values: dict[str, float]) -> str:
    return ", ".join(f"{policy} {value:.2f}" for policy, value in values.items())


EXPERIMENTS = (
    Experiment("mavstream", "mavstream-paths", "Latency and memory by paths and segments", compared),
)
