"""Estimates of the change rates of many objects from polls, and of the interest in each object from its uses.

A poll shows only if an object has changed since the poll before, not how often. With polls at irregular intervals, the
likelihood of a rate λ is Π e^(−λu) over intervals u without a change, times Π (1 − e^(−λτ)) over intervals τ with a change. It is
greatest where Σ τ/(e^(λτ) − 1) = Σ u. So for each object the last changes are stored, each with its interval τ and the quiet time
before it. In addition the quiet time since the last change is stored, which is one number even if it is long.

Half an interval is added to the quiet time. For regular polls this gives Cho and Garcia-Molina's estimate
−ln((n − X + ½)/(n + ½)), and the estimate stays finite for an object that has changed at every poll. (Carney leaves estimation
to future work, §6.2.3.)

1. Memory is bounded by the number of objects.
2. For regular polls the estimate is Cho and Garcia-Molina's; for irregular polls it is the maximum-likelihood estimate, except
   for the added half. It is recomputed only for objects that were polled since the last computation.
3. For an object that was never seen to change, half a change is assumed. An object that was polled less than twice is assumed
   to change at the mean rate of all other objects.
4. Interests sum to 1; a use counts half as much after each half-life.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scheduler.mirrors.freshening import Floats

REMEMBERED = 32  # Number of changes stored per object; the standard error of a change rate is then 18%
NEWTON_STEPS = 12
CONVERGED = 1e-6  # Relative correction at which Newton's method stops; the remaining error is about the square of this number
FIRST_RATE = 1 / 60  # Assumed changes per second while no object has been polled twice
PACE_ALPHA = 0.175  # Smoothing factor of poll intervals, as for costs and selectivities
# Weight of the declared interests compared with counted uses: all declared interests together count as 20 uses.
PROFILE_USES = 20.0
HALF_LIVES_MAX = 64.0


class ChangeRates:
    """Change rates of `count` objects, which are identified by number."""

    def __init__(self, count: int) -> None:
        self._quiet = np.zeros((count, REMEMBERED), np.float32)
        self._changed = np.zeros((count, REMEMBERED), np.float32)
        self._changes = np.zeros(count, np.int64)
        self._since = np.zeros(count)
        """Sum of the intervals without a change since the last change."""
        self._pace = np.zeros(count)
        """Mean interval between polls."""
        self._polled = np.zeros(count, bool)
        self._rates = np.zeros(count)
        self._is_old = np.zeros(count, bool)
        """True for an object that was polled after its rate was estimated."""

    def observe(self, one: int, interval_s: float, changed: bool) -> None:
        """Add the result of a poll that was made `interval_s` seconds after the object's previous poll."""
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
        """Return the changes per second of each object."""
        self._estimate(np.flatnonzero(self._is_old))
        rates = self._rates.copy()
        rates[~self._polled] = rates[self._polled].mean() if self._polled.any() else FIRST_RATE
        return rates

    def rate(self, one: int) -> float:
        """Return the changes per second of an object that has been polled at least twice."""
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
    """Return the most likely change rate of each object. A row of `changed` has the intervals of one object after which a poll found a change.

    `quiet` is the sum of the intervals without a change. The change rate λ solves Σ τ/(e^(λτ) − 1) = `quiet`, summed over the first
    `known` intervals τ of the row.
    """
    counts = np.arange(changed.shape[1]) < known[:, None]
    # Newton's method starts below the solution. The function is convex, so all further values also stay below the solution.
    rates: Floats = known / (quiet + 0.5 * np.sum(changed * counts, axis=1))
    for _ in range(NEWTON_STEPS):
        x = np.clip(rates[:, None] * changed, 1e-12, 500.0)
        grown = np.expm1(x)
        # Each term is computed as x/(e^x − 1), divided by the rate at the end, because the quotient stays finite for small x.
        excess = np.sum(counts * x / grown, axis=1) / rates - quiet
        slope = -np.sum(counts * (x / grown) ** 2 * (grown + 1), axis=1) / rates**2
        step = excess / slope
        rates -= step
        if np.all(np.abs(step) <= CONVERGED * rates):
            break
    return rates


def fresh_part(x: float) -> float:
    """Return the expected part of an interval before the first change of an object, for an interval with a change.

    The argument x is the change rate multiplied by the length of the interval.
    """
    if x < 1e-3:
        return 0.5 - x / 12
    return 1 / x - 1 / float(np.expm1(min(x, 500.0)))


class Interests:
    """Interest in each object, from the declared profile and recent uses."""

    def __init__(self, profile: npt.ArrayLike, half_life_s: float) -> None:
        weights = np.asarray(profile, np.float64)
        self._profile = weights / weights.sum()
        self._half_life_s = half_life_s
        # A later use counts more than an earlier one; reducing the counts of all objects instead would take time.
        self._uses = np.zeros(len(weights))
        self._since = 0.0
        """Time at which a use counted 1."""

    def used(self, one: int, times: float, now: float) -> None:
        self._uses[one] += times * self._grown(now)

    def weights(self, now: float) -> Floats:
        """Return the interests of all objects, which sum to 1."""
        uses = PROFILE_USES * self._profile + self._uses / self._grown(now)
        weights: Floats = uses / uses.sum()
        return weights

    def _grown(self, now: float) -> float:
        """Return how much a use of an object now adds to the object's count of uses; the amount doubles with each half-life."""
        lives = (now - self._since) / self._half_life_s
        if lives > HALF_LIVES_MAX:
            self._uses *= 0.5 ** min(lives, 1000.0)
            self._since, lives = now, 0.0
        return float(2.0**lives)
