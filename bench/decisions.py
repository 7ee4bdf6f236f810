"""What a level-2 decision costs among many ready operators: static, exact and clustered policies, and the naive way.

A decision is a pick with the news that follow from it: the chosen operator has run its queue empty, and an operator
that was idle has got a tuple. Naive BSD evaluates the formula for every ready operator at every decision (Sharaf §3.8.3).
"""

from __future__ import annotations

import random
from collections import deque

from configs.classes.policies import CLUSTERED_KINDS, POLICY_KINDS, PolicySettings, policy_of
from scheduler.operators.network import Estimate, Network, NetworkEstimates, ScheduledOperator
from scheduler.operators.policies import build_policy
from scheduler.operators.scheduler import OperatorScheduler
from services.race.measure import Figure, seconds_each

OPERATORS = 11_000
SWITCHED = 1_000  # operators of a class whose policy changes, all with input
IDLE = 1_000  # of them; 10,000 are ready at every decision
GAP_S = 1e-4  # between two arrivals
STATIC = ("hr", "hnr", "srpt", "chain")


def figures() -> list[Figure]:
    believed = many_queries(OPERATORS)
    cost = {kind: decision_s(believed, kind) for kind in (*STATIC, "fas", "fcfs", "rr")}
    exact, clustered = decision_s(believed, "bsd"), decision_s(believed, "bsd", clusters=12)
    pruned = decision_s(believed, "bsd:search=fagin")
    naive = naive_decision_s(believed)
    static = max(cost[kind] for kind in STATIC)
    return [
        *(Figure(f"decision among 10,000, {kind}", 1e6 * one, "µs", limit=3.0) for kind, one in cost.items()),
        Figure("decision among 10,000, bsd in 12 clusters", 1e6 * clustered, "µs"),
        Figure("decision among 10,000, bsd exact", 1e6 * exact, "µs"),
        Figure("decision among 10,000, bsd pruned", 1e6 * pruned, "µs"),
        Figure("decision among 10,000, bsd naive", 1e6 * naive, "µs"),
        Figure("clustered bsd over the dearest static policy", clustered / static, "×", limit=4.0),
        Figure("naive bsd over clustered bsd", naive / clustered, "×", least=50.0),
        Figure("dearest switch of policy among 1,000 operators", 1e3 * dearest_switch_s(), "ms", limit=10.0),
    ]


def many_queries(operators: int) -> NetworkEstimates:
    """Single-operator queries with costs over a range of 16 and any selectivity, as in Sharaf's testbed."""
    rng = random.Random(1)
    network = Network(tuple(ScheduledOperator(f"q{number}", source=True) for number in range(operators)))
    estimates = tuple(Estimate(1e-5 * 2 ** rng.randrange(5), rng.uniform(0.1, 1.0)) for _ in range(operators))
    return NetworkEstimates(network, estimates)


def decision_s(believed: NetworkEstimates, kind: str, clusters: int = 0) -> float:
    """One round trip: the chosen operator runs its queue empty, and one that was idle gets a tuple."""
    count = len(believed.estimates)
    policy = build_policy(policy_of(kind, clusters), believed)
    order = list(range(count))
    random.Random(2).shuffle(order)
    idle, ready = deque(order[:IDLE]), order[IDLE:]
    for place, operator in enumerate(ready):
        policy.ready(operator, place * GAP_S)
    now = count * GAP_S

    def decide() -> None:
        nonlocal now
        now += GAP_S
        chosen = policy.pick(now)
        policy.idle(chosen)
        idle.append(chosen)
        policy.ready(idle.popleft(), now)

    return seconds_each(decide, 3000)


def naive_decision_s(believed: NetworkEstimates) -> float:
    segments = believed.segments
    head = [number * GAP_S for number in range(len(segments))]
    now = len(segments) * GAP_S

    def priority(one: int) -> float:
        return segments[one].answers_per_ideal_sq / segments[one].cost_s * (now - head[one])

    def decide() -> None:
        nonlocal now
        now += GAP_S
        head[max(range(len(head)), key=priority)] = now

    return seconds_each(decide, 10)


def dearest_switch_s() -> float:
    """From and to any policy, with all operators ready and the next one picked."""
    believed = many_queries(SWITCHED)
    scheduler = OperatorScheduler(believed.network, policy_of("hr"), believed.estimates)
    heads = [(operator, operator * GAP_S, 1) for operator in range(SWITCHED)]

    def switched_s(settings: PolicySettings) -> float:
        def switch() -> None:
            # What is believed has changed since the last time, too: segments are worked out anew.
            scheduler.statistics.changed = True
            scheduler.switch(settings, heads)
            scheduler.pick(SWITCHED * GAP_S)

        return seconds_each(switch, 20)

    kinds = [(kind, 0) for kind in POLICY_KINDS] + [(kind, 12) for kind in CLUSTERED_KINDS]
    return max(switched_s(policy_of(kind, clusters)) for kind, clusters in kinds)
