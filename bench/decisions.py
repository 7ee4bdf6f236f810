"""Cost of picking the next operator among many ready operators, by fixed priorities, by waiting times, by clusters, and by naive BSD.

A decision is the choice of an operator and the changes that follow: the chosen operator becomes idle, and an idle operator
gets a tuple. Naive BSD evaluates its formula for every ready operator at every decision (Sharaf §3.8.3).
"""

from __future__ import annotations

import random
from collections import deque

from bench.measure import Figure, seconds_each
from configs.classes.policies import CLUSTERED_KINDS, POLICY_KINDS, PolicySettings, policy_of
from scheduler.operators.network import Estimate, Network, NetworkEstimates, ScheduledOperator
from scheduler.operators.policies import build_policy
from scheduler.operators.scheduler import OperatorScheduler

OPERATORS = 11_000
SWITCHED = 1_000  # Number of operators of the class that switches its policy; all operators have input
IDLE = 1_000  # Number of idle operators; 10,000 other operators are ready at every decision
GAP_S = 1e-4  # Seconds between the arrivals of two tuples
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
        Figure("clustered bsd ÷ slowest static policy", clustered / static, "×", limit=4.0),
        Figure("naive bsd ÷ clustered bsd", naive / clustered, "×", least=50.0),
        Figure("slowest switch of policy, 1,000 operators", 1e3 * dearest_switch_s(), "ms", limit=10.0),
    ]


def many_queries(operators: int) -> NetworkEstimates:
    """Return queries of one operator each, with random costs (1 to 16 units) and selectivities, as in Sharaf's testbed."""
    rng = random.Random(1)
    network = Network(tuple(ScheduledOperator(f"q{number}", source=True) for number in range(operators)))
    estimates = tuple(Estimate(1e-5 * 2 ** rng.randrange(5), rng.uniform(0.1, 1.0)) for _ in range(operators))
    return NetworkEstimates(network, estimates)


def decision_s(believed: NetworkEstimates, kind: str, clusters: int = 0) -> float:
    """Return the seconds of one decision: the chosen operator becomes idle, and an idle operator gets a tuple."""
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
    """Return the seconds of a switch to the policy with the slowest switch, including the next decision; all operators are ready."""
    believed = many_queries(SWITCHED)
    scheduler = OperatorScheduler(believed.network, policy_of("hr"), believed.estimates)
    heads = [(operator, operator * GAP_S, 1) for operator in range(SWITCHED)]

    def switched_s(settings: PolicySettings) -> float:
        def switch() -> None:
            # The estimates of operators count as changed, so that the switch has to compute all segments again.
            scheduler.statistics.changed = True
            scheduler.switch(settings, heads)
            scheduler.pick(SWITCHED * GAP_S)

        return seconds_each(switch, 20)

    kinds = [(kind, 0) for kind in POLICY_KINDS] + [(kind, 12) for kind in CLUSTERED_KINDS]
    return max(switched_s(policy_of(kind, clusters)) for kind, clusters in kinds)
