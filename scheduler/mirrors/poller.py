"""The core of a mirror's poller: chooses the remote object to poll next, from how often each object changes and is used.

Each object is polled at even intervals. The intervals of the objects make the perceived freshness as high as the bandwidth allows.

    decide  `due` returns an object while bandwidth is left
    observe `polled` reports the result of a poll, `used` reports uses of an object
    solve   every `SOLVE_S` seconds, rates and interests are estimated and the frequencies are optimised again
            (`scheduler.mirrors.freshening`)

An object may have a declared least freshness: it is then polled so often that its copy is expected to be fresh for this part of the
time, however rarely the object is used. If the bandwidth does not suffice, all objects get the same part of their least freshnesses.

A part of the bandwidth is used for exploration: it is divided equally between all objects. Otherwise an object that once seemed
not worth a refresh would never be polled again. An object that cannot be fetched is retried at growing intervals, and the other
objects get its bandwidth. Retries take at most the part `RETRYING` of the bandwidth while other objects do not fail, so that a
thousand missing objects do not starve an existing one.

The perceived freshness is measured from the same polls. In an interval that ends without a change, the copy was fresh throughout.
In an interval τ that ends with a change, it was fresh until the first change, on average for the part 1/x − 1/(e^x − 1) with
x = λ·τ. Each interval is weighted by the object's uses in it, or by interest times length while no uses are known.

1. In any time t from the first poll, at most bandwidth·(t + `BURST_S`) and one object more is requested. All bandwidth is used
   while there is an object that does not fail.
2. Every object that does not fail is polled: first each object once, then repeatedly.
3. An object is not returned again while it is being polled. After n failures in a row it is not returned for `RETRY_S`·2^(n−1),
   at most `RETRY_MAX_S`; the pause is longer if retries of all failing objects would need more than their bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

from scheduler.mirrors.change_rates import ChangeRates, Interests, fresh_part
from scheduler.mirrors.freshening import Floats, Refreshes, freshness, perceived_freshness, refreshes
from scheduler.ratios import ratio

SOLVE_S = 2.0
EXPLORING = 0.05
BURST_S = 0.25
RETRY_S, RETRY_MAX_S = 1.0, 300.0
RETRYING = 0.25
SIZE_ALPHA = 0.175
# Half-life of measured freshness, in seconds: an interval counts half after this time.
MEASURED_HALF_LIFE_S = 300.0


class PollOutcome(Enum):
    """Result of a poll."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class MirrorStatistics:
    """Statistics of a mirror."""

    objects: int
    held: int
    """Number of objects that have been fetched."""
    polls: int
    changes: int
    failures: int
    failing: int
    """Number of objects for which the last poll failed."""
    spent: float
    """Total bandwidth used, in polls or bytes."""
    solved: int
    """Number of times that the frequencies were optimised."""
    uses: float
    """Total number of uses of all objects."""
    perceived_expected: float
    """Perceived freshness expected from the frequencies and the estimated rates and interests."""
    perceived_measured: float | None
    """Perceived freshness measured in the last minutes; None before an object has been polled twice."""
    floored: int = 0
    """Number of objects with a declared least freshness."""
    below_floor: int = 0
    """Number of objects with an expected freshness below their least freshness."""
    needed: float = 0.0
    """Bandwidth that the least freshnesses of all objects need, in polls or bytes per second."""
    floor_part: float = 1.0
    """Part of its least freshness that each object gets; below 1 if the bandwidth does not suffice."""


class Bandwidth:
    """Bandwidth of a mirror. Unused bandwidth can be saved for at most BURST_S seconds."""

    def __init__(self, per_s: float, by_bytes: bool = False) -> None:
        self.per_s, self.by_bytes = per_s, by_bytes
        self.spent = 0.0
        self._room, self._room_at = 0.0, -math.inf

    def refill(self, now: float) -> None:
        most = self.per_s * BURST_S
        if self._room_at > -math.inf:
            self._room = min(most, self._room + self.per_s * max(0.0, now - self._room_at))
        else:
            self._room = most
        self._room_at = now

    def charge(self, size: float) -> None:
        self._room -= size
        self.spent += size

    @property
    def has_room(self) -> bool:
        return self._room > 0

    @property
    def is_full(self) -> bool:
        """True if the saved bandwidth has reached its limit, so that bandwidth unused from now on is lost."""
        return self._room >= self.per_s * BURST_S

    def wait_s(self) -> tuple[float, float]:
        """Return the seconds until there is bandwidth for a poll, and the seconds until unused bandwidth is lost."""
        for_room = 0.0 if self.has_room else max(0.0, -self._room / self.per_s + 1e-6)
        return for_room, BURST_S - self._room / self.per_s


class FailedPolls:
    """Objects that failed at their last poll, with the time at which each is retried."""

    def __init__(self, count: int) -> None:
        self.failing = 0
        self.again = np.full(count, math.inf)
        """Time at which a failed object is retried; ∞ for other objects."""
        self.pause_s = np.full(count, math.inf)
        """Seconds from the failure of an object to its retry; ∞ for other objects."""
        self._times = np.zeros(count, np.int64)

    @property
    def are_failing(self) -> npt.NDArray[np.bool_]:
        return self._times > 0

    @property
    def are_all(self) -> bool:
        return self.failing == len(self._times)

    def failed(self, number: int, all_retried_s: Callable[[], float], now: float) -> None:
        self.failing += self._times[number] == 0
        self._times[number] += 1
        alone_s = min(RETRY_MAX_S, RETRY_S * 2.0 ** (min(self._times[number], 60) - 1))
        self.pause_s[number] = max(alone_s, all_retried_s())
        self.again[number] = now + self.pause_s[number]

    def succeeded(self, number: int) -> None:
        self.failing -= self._times[number] > 0
        self._times[number], self.pause_s[number] = 0, math.inf


class FreshnessMeter:
    """Measured perceived freshness, in which a measurement counts half after MEASURED_HALF_LIFE_S."""

    def __init__(self) -> None:
        self._fresh = self._seen = 0.0
        self._at = -math.inf

    def add(self, weight: float, fresh: float, now: float) -> None:
        if self._at > -math.inf:
            kept = 0.5 ** (max(0.0, now - self._at) / MEASURED_HALF_LIFE_S)
            self._fresh, self._seen = self._fresh * kept, self._seen * kept
        self._at = now
        self._fresh, self._seen = self._fresh + weight * fresh, self._seen + weight

    def perceived(self) -> float | None:
        """Return the measured freshness; None before an object has been polled twice."""
        return ratio(self._fresh, self._seen) if self._seen > 0 else None


class MirrorCore:
    """Polling decisions for the objects of a mirror, which are identified by number. `now` must never decrease."""

    def __init__(
        self,
        interests: Interests,
        count: int,
        bandwidth: float,
        by_bytes: bool = False,
        floors: npt.ArrayLike = 0.0,
    ) -> None:
        """Create the core; `floors` are the least freshnesses of the objects, which must be below 1."""
        assert bandwidth > 0
        assert count > 0
        self._interests = interests
        self.floors: Floats = np.broadcast_to(np.asarray(floors, np.float64), (count,))
        self._bandwidth = Bandwidth(bandwidth, by_bytes)
        self._failed = FailedPolls(count)
        self._freshness = FreshnessMeter()
        self._rates = ChangeRates(count)
        self._sizes = np.ones(count)
        self._solved = Refreshes(np.zeros(count), 0.0)
        """Polls per second of each object from the last optimisation, with the bandwidth for the least freshnesses."""
        self._last = np.full(count, -math.inf)
        self._due = np.full(count, -math.inf)
        """Time at which an object is polled next; ∞ while it is being polled, or after a failure."""
        self._in_flight = np.zeros(count, bool)
        self._uses = np.zeros(count)
        """Number of uses of an object since its last poll."""
        # Before the first polls, only the interests are known, so objects are polled in the order of interest.
        self._weights = interests.weights(0.0)
        self._due[np.argsort(-self._weights, kind="stable")] = np.arange(count) - 1e15
        self._solved_at = -math.inf
        self._size_known = False
        self.polls = self.changes = self.failures = self.solved = 0
        self.uses = 0.0

    def due(self, now: float) -> int | None:
        """Return the object to poll now and charge its bandwidth; None if no object is due or there is no bandwidth."""
        self._bandwidth.refill(now)
        if now - self._solved_at >= SOLVE_S:
            self._solve(now)
        if not self._bandwidth.has_room:
            return None
        failed = self._failed
        number = int(np.argmin(failed.again if failed.failing else self._due))
        if not failed.failing or failed.again[number] > now:
            number = int(np.argmin(self._due))
            # If bandwidth would be lost otherwise, the next object is polled before it is due.
            is_due = self._due[number] <= now or self._bandwidth.is_full
            if self._due[number] == math.inf or not is_due:
                return None
        self._bandwidth.charge(float(self._sizes[number]))
        self._in_flight[number], self._due[number], failed.again[number] = True, math.inf, math.inf
        return number

    def wait_s(self, now: float) -> float:
        """Return the seconds until the next call of `due` may return an object."""
        self._bandwidth.refill(now)
        for_room, for_full = self._bandwidth.wait_s()
        due = float(self._due.min())
        again = float(self._failed.again.min()) if self._failed.failing else math.inf
        for_due = min(due - now, for_full) if due < math.inf else math.inf
        return min(max(for_room, min(for_due, again - now), 0.0), SOLVE_S)

    def polled(self, one: int, asked_at: float, outcome: PollOutcome, size: float, now: float) -> None:
        """Report the result of a poll: the object's state at `asked_at`, and the bandwidth `size` that the poll took."""
        assert self._in_flight[one]
        self._in_flight[one] = False
        self.polls += 1
        if self._bandwidth.by_bytes:
            self._bandwidth.charge(size - float(self._sizes[one]))
        if outcome is PollOutcome.FAILED:
            self.failures += 1
            self._failed.failed(one, self._all_retried_s, now)
            return
        self._failed.succeeded(one)
        self.changes += outcome is PollOutcome.CHANGED
        if self._bandwidth.by_bytes:
            self._learn_size(one, size)
        before = float(self._last[one])
        if before > -math.inf and asked_at > before:
            self._rates.observe(one, asked_at - before, outcome is PollOutcome.CHANGED)
            self._measure(one, asked_at - before, outcome, now)
        self._last[one], self._uses[one] = asked_at, 0.0
        self._due[one] = self._next(one)

    def used(self, one: int, times: float, now: float) -> None:
        """Report uses of an object."""
        self._uses[one] += times
        self.uses += times
        self._interests.used(one, times, now)

    def statistics(self, now: float) -> MirrorStatistics:
        held = self._last > -math.inf
        expected = perceived_freshness(
            self._interests.weights(now), self._rates.rates(), self._solved.frequencies
        )
        return MirrorStatistics(
            objects=len(held),
            held=int(held.sum()),
            polls=self.polls,
            changes=self.changes,
            failures=self.failures,
            failing=int(self._failed.are_failing.sum()),
            spent=max(
                0.0, self._bandwidth.spent
            ),  # The used bandwidth may be slightly negative because of rounding.
            solved=self.solved,
            uses=self.uses,
            perceived_expected=expected,
            perceived_measured=self._freshness.perceived(),
            floored=int((self.floors > 0).sum()),
            below_floor=int((self.freshnesses() < self.floors).sum()),
            needed=self._solved.needed / (1 - EXPLORING),
            floor_part=self._solved.part,
        )

    def freshnesses(self) -> Floats:
        """Return the expected freshness of each object, from its frequency and its estimated change rate; 0 for a failing object."""
        return freshness(self._solved.frequencies, self._rates.rates())

    def _learn_size(self, one: int, size: float) -> None:
        """Update the estimated size of an object; the size is at least 1, since a size of 0 would permit any frequency."""
        size = max(size, 1.0)
        if not self._size_known:  # The first object's size is the first estimate for all objects.
            self._sizes[:] = size
            self._size_known = True
        elif self._last[one] == -math.inf:
            self._sizes[one] = size
        else:
            self._sizes[one] += SIZE_ALPHA * (size - self._sizes[one])

    def _solve(self, now: float) -> None:
        self._weights = self._interests.weights(now)
        failing, most = self._failed.are_failing, self._bandwidth.per_s
        retried = min(float(np.sum(self._sizes / self._failed.pause_s)), RETRYING * most)
        bandwidth, there = most - retried, np.where(failing, 0.0, self._sizes)
        weights = np.where(failing, 0.0, self._weights)
        floors = np.where(failing, 0.0, self.floors)
        best = refreshes(weights, self._rates.rates(), (1 - EXPLORING) * bandwidth, self._sizes, floors)
        explored = EXPLORING * bandwidth / max(float(there.sum()), 1.0)
        self._solved = replace(best, frequencies=np.where(failing, 0.0, best.frequencies + explored))
        waiting = np.flatnonzero((self._last > -math.inf) & ~self._in_flight & ~failing)
        self._due[waiting] = self._last[waiting] + 1 / self._solved.frequencies[waiting]
        self._solved_at, self.solved = now, self.solved + 1

    def _all_retried_s(self) -> float:
        """Return the seconds in which retries have enough bandwidth to poll each failing object once."""
        part = 1.0 if self._failed.are_all else RETRYING
        size = float(self._sizes.mean()) if self._bandwidth.by_bytes else 1.0
        return self._failed.failing * size / (part * self._bandwidth.per_s)

    def _next(self, one: int) -> float:
        often = float(self._solved.frequencies[one])
        return float(self._last[one]) + (1 / often if often > 0 else SOLVE_S)

    def _measure(self, one: int, interval_s: float, outcome: PollOutcome, now: float) -> None:
        uses = float(self._uses[one])
        weight = uses if self.uses > 0 else float(self._weights[one]) * interval_s
        fresh = 1.0 if outcome is PollOutcome.UNCHANGED else fresh_part(self._rates.rate(one) * interval_s)
        self._freshness.add(weight, fresh, now)
