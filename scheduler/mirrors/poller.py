"""Which of a mirror's objects is to be looked at next: the core of a poller.

    decide  `due` names objects while bandwidth lasts: each is polled at even intervals of 1/f_i
    observe `polled` tells what came of it, `used` that somebody has looked an object up
    solve   every `SOLVE_S` rates and interests are estimated and the frequencies solved for anew (`scheduler.mirrors.freshening`)

A part of the bandwidth explores: it goes round all objects alike. Without it an object that once seemed not worth a refresh
would never be seen to be worth one. An object that cannot be fetched is tried again later and later; frequencies are solved for
without it, so that the others have what would be its. However many fail, trying them again takes `RETRYING` of the bandwidth at
most while others do not: a thousand objects that are gone must not starve one that is there.

What users perceive is measured from the same polls. An interval that ends unchanged was fresh throughout; of one that ends with
a change, the part before the first change was, which is 1/x − 1/(e^x − 1) of it on average, with x = λ·τ. An interval counts as
often as the object was used in it; as long as nothing is known of uses, as its interest and its length.

1. Over any time t from the first poll no more than bandwidth·(t + `BURST_S`) is asked for, and one object more; and all of it
   is used while an object is left that does not fail.
2. Every object that does not fail is polled, first all of them once, and then again and again.
3. While it is looked at an object is not named again; after n failures in a row not for `RETRY_S`·2^(n−1), `RETRY_MAX_S` at most,
   or for longer where more fail than that part of the bandwidth is enough for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from scheduler.mirrors.change_rates import ChangeRates, Interests, fresh_part
from scheduler.mirrors.freshening import perceived_freshness, refreshes
from scheduler.ratios import ratio

SOLVE_S = 2.0
EXPLORING = 0.05
BURST_S = 0.25
RETRY_S, RETRY_MAX_S = 1.0, 300.0
RETRYING = 0.25
SIZE_ALPHA = 0.175
# Measured freshness forgets: what an interval told counts half after so many seconds.
MEASURED_HALF_LIFE_S = 300.0


class PollOutcome(Enum):
    """What came of a poll."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class MirrorStatistics:
    """How a mirror fares."""

    objects: int
    held: int
    """Objects that have been fetched."""
    polls: int
    changes: int
    failures: int
    failing: int
    """Objects whose last poll failed."""
    spent: float
    """Of the bandwidth's unit, in all."""
    solved: int
    """How often frequencies have been solved for."""
    uses: float
    """Of objects, in all."""
    perceived_expected: float
    """Perceived freshness that the frequencies would give, if rates and interests are as estimated."""
    perceived_measured: float | None
    """As measured of late; None before the first object has been polled twice."""


class Bandwidth:
    """Bandwidth of a mirror, which is saved up for BURST_S at most."""

    def __init__(self, per_s: float) -> None:
        self.per_s = per_s
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
        """Return True if more would be lost."""
        return self._room >= self.per_s * BURST_S

    def wait_s(self) -> tuple[float, float]:
        """Return the seconds until there is room, and until it is full."""
        for_room = 0.0 if self.has_room else max(0.0, -self._room / self.per_s + 1e-6)
        return for_room, BURST_S - self._room / self.per_s


class FailedPolls:
    """Keeps which objects failed at their last poll, and when each is tried again."""

    def __init__(self, count: int) -> None:
        self.failing = 0
        self.again = np.full(count, math.inf)
        """When an object that failed is tried again."""
        self.pause_s = np.full(count, math.inf)
        """How long an object that failed is left alone."""
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
    """Perceived freshness as measured; what was measured counts half after MEASURED_HALF_LIFE_S."""

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
        """None before the first object has been polled twice."""
        return ratio(self._fresh, self._seen) if self._seen > 0 else None


class MirrorCore:
    """Objects by number; `now` never runs back."""

    def __init__(self, interests: Interests, count: int, bandwidth: float, by_bytes: bool = False) -> None:
        assert bandwidth > 0
        assert count > 0
        self._interests, self._by_bytes = interests, by_bytes
        self._bandwidth = Bandwidth(bandwidth)
        self._failed = FailedPolls(count)
        self._freshness = FreshnessMeter()
        self._rates = ChangeRates(count)
        self._sizes = np.ones(count)
        self._frequencies = np.zeros(count)
        self._last = np.full(count, -math.inf)
        self._due = np.full(count, -math.inf)
        """∞ of those that are looked at, or have failed."""
        self._in_flight = np.zeros(count, bool)
        self._uses = np.zeros(count)
        """Since the last poll."""
        # The most wanted first, while nothing else is known.
        self._weights = interests.weights(0.0)
        self._due[np.argsort(-self._weights, kind="stable")] = np.arange(count) - 1e15
        self._solved_at = -math.inf
        self._size_known = False
        self.polls = self.changes = self.failures = self.solved = 0
        self.uses = 0.0

    # -- decide ------------------------------------------------------------------------------------------

    def due(self, now: float) -> int | None:
        """The object to be looked at now, which is charged for; None if there is none, or no bandwidth."""
        self._bandwidth.refill(now)
        if now - self._solved_at >= SOLVE_S:
            self._solve(now)
        if not self._bandwidth.has_room:
            return None
        failed = self._failed
        number = int(np.argmin(failed.again if failed.failing else self._due))
        if not failed.failing or failed.again[number] > now:
            number = int(np.argmin(self._due))
            # Bandwidth that would be lost is spent on the next object early.
            is_due = self._due[number] <= now or self._bandwidth.is_full
            if self._due[number] == math.inf or not is_due:
                return None
        self._bandwidth.charge(float(self._sizes[number]))
        self._in_flight[number], self._due[number], failed.again[number] = True, math.inf, math.inf
        return number

    def wait_s(self, now: float) -> float:
        """Until `due` may name one."""
        self._bandwidth.refill(now)
        for_room, for_full = self._bandwidth.wait_s()
        due = float(self._due.min())
        again = float(self._failed.again.min()) if self._failed.failing else math.inf
        for_due = min(due - now, for_full) if due < math.inf else math.inf
        return min(max(for_room, min(for_due, again - now), 0.0), SOLVE_S)

    # -- observe -----------------------------------------------------------------------------------------

    def polled(self, one: int, asked_at: float, outcome: PollOutcome, size: float, now: float) -> None:
        """What came of it: as the object was at `asked_at`, for so much of the bandwidth."""
        assert self._in_flight[one]
        self._in_flight[one] = False
        self.polls += 1
        if self._by_bytes:
            self._bandwidth.charge(size - float(self._sizes[one]))
        if outcome is PollOutcome.FAILED:
            self.failures += 1
            self._failed.failed(one, self._all_retried_s, now)
            return
        self._failed.succeeded(one)
        self.changes += outcome is PollOutcome.CHANGED
        if self._by_bytes:
            self._learn_size(one, size)
        before = float(self._last[one])
        if before > -math.inf and asked_at > before:
            self._rates.observe(one, asked_at - before, outcome is PollOutcome.CHANGED)
            self._measure(one, asked_at - before, outcome, now)
        self._last[one], self._uses[one] = asked_at, 0.0
        self._due[one] = self._next(one)

    def used(self, one: int, times: float, now: float) -> None:
        """Somebody has looked the object up."""
        self._uses[one] += times
        self.uses += times
        self._interests.used(one, times, now)

    # -- what is known -----------------------------------------------------------------------------------

    def statistics(self, now: float) -> MirrorStatistics:
        held = self._last > -math.inf
        expected = perceived_freshness(self._interests.weights(now), self._rates.rates(), self._frequencies)
        return MirrorStatistics(
            objects=len(held),
            held=int(held.sum()),
            polls=self.polls,
            changes=self.changes,
            failures=self.failures,
            failing=int(self._failed.are_failing.sum()),
            spent=max(0.0, self._bandwidth.spent),  # corrections of charges may round below nothing
            solved=self.solved,
            uses=self.uses,
            perceived_expected=expected,
            perceived_measured=self._freshness.perceived(),
        )

    @property
    def frequencies(self) -> npt.NDArray[np.float64]:
        """Polls a second of each object, as last solved for."""
        return self._frequencies

    # -- inside ------------------------------------------------------------------------------------------

    def _learn_size(self, one: int, size: float) -> None:
        """Nothing is free: a size of 0 would be worth any frequency."""
        size = max(size, 1.0)
        if not self._size_known:  # the first tells what the others may be like
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
        best = refreshes(weights, self._rates.rates(), (1 - EXPLORING) * bandwidth, self._sizes)
        explored = EXPLORING * bandwidth / max(float(there.sum()), 1.0)
        self._frequencies = np.where(failing, 0.0, best.frequencies + explored)
        waiting = np.flatnonzero((self._last > -math.inf) & ~self._in_flight & ~failing)
        self._due[waiting] = self._last[waiting] + 1 / self._frequencies[waiting]
        self._solved_at, self.solved = now, self.solved + 1

    def _all_retried_s(self) -> float:
        """How long it takes to try all again that fail."""
        part = 1.0 if self._failed.are_all else RETRYING
        size = float(self._sizes.mean()) if self._by_bytes else 1.0
        return self._failed.failing * size / (part * self._bandwidth.per_s)

    def _next(self, one: int) -> float:
        often = float(self._frequencies[one])
        return float(self._last[one]) + (1 / often if often > 0 else SOLVE_S)

    def _measure(self, one: int, interval_s: float, outcome: PollOutcome, now: float) -> None:
        uses = float(self._uses[one])
        weight = uses if self.uses > 0 else float(self._weights[one]) * interval_s
        fresh = 1.0 if outcome is PollOutcome.UNCHANGED else fresh_part(self._rates.rate(one) * interval_s)
        self._freshness.add(weight, fresh, now)
