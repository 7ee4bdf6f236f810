"""Refresh frequencies of a million objects: exact, and by the thesis's partitions with and without k-means.

The thesis's large case (Table 2.3), twice as large: change rates gamma with a mean of 2 and a deviation of 2, interest Zipf
with θ = 1, shuffled; bandwidth for half an object a period.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from scheduler.mirrors.change_rates import Interests
from scheduler.mirrors.freshening import Floats, marginals, perceived_freshness, refreshes
from scheduler.mirrors.partitions import Mirrored, clustered, frequencies_by_partition, partitioned
from scheduler.mirrors.poller import MirrorCore, PollOutcome
from services.race.measure import Figure, seconds_each

OBJECTS = 1_000_000
PARTITIONS, ROUNDS = 50, 10  # what the thesis finds best: "a good solution is found earliest"
TRIES = 2
POLLED = 100_000  # objects of one mirror, as many as it may have


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
        Figure("marginals of refreshed objects differ by", spread(objects, best), "", limit=1e-6),
        Figure("perceived freshness, exact", top, ""),
        Figure(f"{PARTITIONS} PF partitions: time over exact", partition_s / exact_s, "×"),
        Figure(
            f"{PARTITIONS} PF partitions: perceived over exact",
            perceived(objects, coarse) / top,
            "×",
            limit=1.0,
        ),
        Figure(f"… and {ROUNDS} rounds of k-means: time over exact", cluster_s / exact_s, "×", least=1.0),
        Figure("… and k-means: perceived over exact", perceived(objects, finer) / top, "×", limit=1.0),
        Figure(f"a poll of a mirror of {POLLED:,} objects: decided and learned from", 1e6 * poll_s(), "µs"),
    ]


def large_case(count: int) -> Mirrored:
    rng = np.random.default_rng(1)
    changes = rng.gamma(1.0, 2.0, count)  # mean 2, deviation 2
    interests = 1.0 / np.arange(1, count + 1)
    return Mirrored(interests / interests.sum(), changes, np.ones(count))


def perceived(objects: Mirrored, frequencies: Floats) -> float:
    return perceived_freshness(objects.interests, objects.changes, frequencies)


def spread(objects: Mirrored, frequencies: Floats) -> float:
    """Between the least and the greatest, relatively."""
    worth = marginals(objects.interests, objects.changes, frequencies)[frequencies > 0]
    return float(worth.max() / worth.min() - 1)


def timed(work: Callable[[], Floats]) -> tuple[float, Floats]:
    """Processor-seconds, the best of some tries, of all threads: a library may use more than one."""
    best, found = float("inf"), np.empty(0)
    for _ in range(TRIES):
        began = time.process_time()
        found = work()
        best = min(best, time.process_time() - began)
    return best, found


def poll_s() -> float:
    """Of a mirror's core all of whose objects change, with what solving every two seconds and telling twice a second add."""
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

    for _ in range(POLLED):  # of an object that was looked at once nothing can be estimated
        poll()
    return seconds_each(poll, 4000)
