"""Cost of computing refresh frequencies of a million objects: exactly, and by the thesis's partitions with and without k-means.

The input is the large case of Carney's thesis (Table 2.3), with twice as many objects. Change rates are gamma-distributed
with mean 2 and standard deviation 2. Interest follows Zipf's law with θ = 1, independent of change rates. In each period,
half as many polls as objects are possible.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from bench.measure import Figure, seconds_each
from bench.papers.partitions import Mirrored, clustered, frequencies_by_partition, marginals, partitioned
from scheduler.mirrors.change_rates import Interests
from scheduler.mirrors.freshening import Floats, perceived_freshness, refreshes
from scheduler.mirrors.poller import MirrorCore, PollOutcome

OBJECTS = 1_000_000
# Numbers of partitions and of rounds that the thesis found best: "a good solution is found earliest".
PARTITIONS, ROUNDS = 50, 10
TRIES = 2
POLLED = 100_000  # Maximum number of objects of a mirror


def figures() -> list[Figure]:
    objects, bandwidth = large_case(OBJECTS), OBJECTS / 2

    def exact() -> Floats:
        return refreshes(objects.interests, objects.changes, bandwidth).frequencies

    def partitions() -> Floats:
        return frequencies_by_partition(objects, partitioned(objects, "PF", PARTITIONS), bandwidth)

    def clusters() -> Floats:
        labels = clustered(objects, partitioned(objects, "PF", PARTITIONS), ROUNDS)
        return frequencies_by_partition(objects, labels, bandwidth)

    exact_s, best = timed(exact)
    partition_s, coarse = timed(partitions)
    cluster_s, finer = timed(clusters)
    top = perceived(objects, best)
    return [
        Figure(f"exact freshening of {OBJECTS:,} objects", exact_s, "s", limit=3.0),
        Figure("relative spread of refreshed objects' marginals", spread(objects, best), "", limit=1e-6),
        Figure("perceived freshness, exact", top, ""),
        Figure(f"{PARTITIONS} PF partitions: time ÷ exact time", partition_s / exact_s, "×"),
        Figure(
            f"{PARTITIONS} PF partitions: perceived freshness ÷ exact",
            perceived(objects, coarse) / top,
            "×",
            limit=1.0,
        ),
        Figure(f"… and {ROUNDS} rounds of k-means: time ÷ exact time", cluster_s / exact_s, "×", least=1.0),
        Figure("… and k-means: perceived freshness ÷ exact", perceived(objects, finer) / top, "×", limit=1.0),
        Figure(f"decision and learning per poll, mirror of {POLLED:,} objects", 1e6 * poll_s(), "µs"),
    ]


def large_case(count: int) -> Mirrored:
    rng = np.random.default_rng(1)
    # Change rates have a gamma distribution with mean 2 and standard deviation 2.
    changes = rng.gamma(1.0, 2.0, count)
    interests = 1.0 / np.arange(1, count + 1)
    return Mirrored(interests / interests.sum(), changes, np.ones(count))


def perceived(objects: Mirrored, frequencies: Floats) -> float:
    return perceived_freshness(objects.interests, objects.changes, frequencies)


def spread(objects: Mirrored, frequencies: Floats) -> float:
    """Return the relative difference between the least and the greatest marginal gain of refreshed objects."""
    worth = marginals(objects.interests, objects.changes, frequencies)[frequencies > 0]
    return float(worth.max() / worth.min() - 1)


def timed(work: Callable[[], Floats]) -> tuple[float, Floats]:
    """Return the processor-seconds of the fastest of several tries, and the result.

    Time is summed over all threads, because numerical libraries use several threads.
    """
    best, found = float("inf"), np.empty(0)
    for _ in range(TRIES):
        began = time.process_time()
        found = work()
        best = min(best, time.process_time() - began)
    return best, found


def poll_s() -> float:
    """Return the seconds per poll that a mirror's decisions take. All objects change, frequencies are computed every two
    seconds, and status is reported twice per second."""
    core = MirrorCore(Interests(np.ones(POLLED), 3600.0), POLLED, 1000.0)
    now, told_at = 0.0, 0.0

    def poll() -> None:
        nonlocal now, told_at
        now += 1e-3
        one = core.due(now)
        if one is not None:
            core.used(one, 1.0, now)
            core.polled(one, now, PollOutcome.CHANGED, 1.0, now)
        if now > told_at + 0.5:
            core.statistics(now)
            told_at = now

    # The change rate of an object cannot be estimated before the second poll of the object.
    for _ in range(POLLED):
        poll()
    return seconds_each(poll, 4000)
