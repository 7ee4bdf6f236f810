"""How often each of many objects changes, and how much each is wanted: learned from polls and from uses.

A poll tells whether an object has changed since the poll before, never how often. With polls at irregular intervals the
likelihood of a rate λ is Π e^(−λu) over intervals u without a change, times Π (1 − e^(−λτ)) over those with one; it is
greatest where Σ τ/(e^(λτ) − 1) = Σ u. Kept are the last changes of an object, each with its interval and how long all had been
quiet before it, and how long it is quiet now: what a quiet object has to tell is one number, however long it lasts.

Half a quiet interval is added, which for regular polls is Cho and Garcia-Molina's estimate −ln((n − X + ½)/(n + ½)) and keeps
an object that has changed at every poll from changing infinitely often (Carney names estimating as future work, §6.2.3).

1. State is bounded by the number of objects.
2. For regular polls the estimate is Cho and Garcia-Molina's; for any it makes what was seen most likely, but for the half.
   It is computed anew only of objects that have been polled since.
3. An object that has never changed is taken to do so at half a change in all that time; one never polled twice as often as
   the others do on average.
4. Interests sum to 1; a use counts half as much after each half-life.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scheduler.mirrors.freshening import Floats

REMEMBERED = 32  # changes: a standard error of 18%
NEWTON_STEPS = 12
CONVERGED = 1e-6  # the error of what follows is its square
FIRST_RATE = 1 / 60  # a second, of objects of which nothing is known at all
PACE_ALPHA = 0.175  # as for costs and selectivities
# What is known beforehand of interests weighs like so many uses.
PROFILE_USES = 20.0
HALF_LIVES_MAX = 64.0


class ChangeRates:
    """Of so many objects, by number."""

    def __init__(self, count: int) -> None:
        self._quiet = np.zeros((count, REMEMBERED), np.float32)
        self._changed = np.zeros((count, REMEMBERED), np.float32)
        self._changes = np.zeros(count, np.int64)
        self._since = np.zeros(count)
        """Quiet intervals since the last change, in all."""
        self._pace = np.zeros(count)
        """The mean interval between polls."""
        self._polled = np.zeros(count, bool)
        self._rates = np.zeros(count)
        self._is_old = np.zeros(count, bool)
        """An estimate from before the last poll."""

    def observe(self, one: int, interval_s: float, changed: bool) -> None:
        """A poll so long after the last one."""
        self._polled[one] = self._is_old[one] = True
        pace = self._pace[one]
        self._pace[one] = pace + PACE_ALPHA * (interval_s - pace) if pace else interval_s
        if changed:
            place = self._changes[one] % REMEMBERED
            self._quiet[one, place], self._changed[one, place] = self._since[one], interval_s
            self._changes[one] += 1
            self._since[one] = 0.0
        else:
            self._since[one] += interval_s

    def rates(self) -> Floats:
        """Changes a second of each object."""
        self._estimate(np.flatnonzero(self._is_old))
        rates = self._rates.copy()
        rates[~self._polled] = rates[self._polled].mean() if self._polled.any() else FIRST_RATE
        return rates

    def rate(self, one: int) -> float:
        """Of one that has been polled twice."""
        if self._is_old[one]:
            self._estimate(np.array([one]))
        return float(self._rates[one])

    def _estimate(self, which: npt.NDArray[np.int64]) -> None:
        changes = np.minimum(self._changes[which], REMEMBERED)
        quiet = (
            self._quiet[which].sum(axis=1, dtype=np.float64) + self._since[which] + 0.5 * self._pace[which]
        )
        rates = np.divide(0.5, quiet)
        some = np.flatnonzero(changes)
        rates[some] = likeliest(self._changed[which[some]].astype(np.float64), changes[some], quiet[some])
        self._rates[which], self._is_old[which] = rates, False


def likeliest(changed: Floats, known: npt.NDArray[np.int64], quiet: Floats) -> Floats:
    """λ with Σ τ/(e^(λτ) − 1) = quiet; the first so many τ of each row count, or all of them."""
    counts = np.arange(changed.shape[1]) < known[:, None]
    # Below the root, since τ/(e^(λτ) − 1) > 1/λ − τ/2; from there Newton's method on a convex function stays below it.
    rates: Floats = known / (quiet + 0.5 * np.sum(changed * counts, axis=1))
    for _ in range(NEWTON_STEPS):
        x = np.clip(rates[:, None] * changed, 1e-12, 500.0)
        grown = np.expm1(x)
        # In units of 1/λ, in which an interval of no length counts 1.
        excess = np.sum(counts * x / grown, axis=1) / rates - quiet
        slope = -np.sum(counts * (x / grown) ** 2 * (grown + 1), axis=1) / rates**2
        step = excess / slope
        rates -= step
        if np.all(np.abs(step) <= CONVERGED * rates):
            break
    return rates


def fresh_part(x: float) -> float:
    """Of an interval in which the object has changed, at λ·τ = x: the part before the first change."""
    if x < 1e-3:
        return 0.5 - x / 12
    return 1 / x - 1 / float(np.expm1(min(x, 500.0)))


class Interests:
    """How much each object is wanted: what is declared of it, and how often it has been used of late."""

    def __init__(self, profile: npt.ArrayLike, half_life_s: float) -> None:
        weights = np.asarray(profile, np.float64)
        self._profile = weights / weights.sum()
        self._half_life_s = half_life_s
        # In units that grow with time, so that aging all of them costs nothing.
        self._uses = np.zeros(len(weights))
        self._since = 0.0
        """When the unit was a use."""

    def used(self, one: int, times: float, now: float) -> None:
        self._uses[one] += times * self._grown(now)

    def weights(self, now: float) -> Floats:
        """Of all objects."""
        uses = PROFILE_USES * self._profile + self._uses / self._grown(now)
        weights: Floats = uses / uses.sum()
        return weights

    def _grown(self, now: float) -> float:
        """What a use of now counts in the unit."""
        lives = (now - self._since) / self._half_life_s
        if lives > HALF_LIVES_MAX:
            self._uses *= 0.5 ** min(lives, 1000.0)
            self._since, lives = now, 0.0
        return float(2.0**lives)
