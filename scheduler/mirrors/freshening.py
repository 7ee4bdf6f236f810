"""How often to look at each of many remote objects, so that those who use their copies find them fresh most often.

Object i changes at random with rate λ_i, is used with interest p_i, and costs s_i of the bandwidth each time it is
refreshed. Refreshed f_i times a second, at even intervals, its copy is fresh for the part F of the time, and those who
use the copies perceive Σ p·F / Σ p (Carney, ch. 2):

    F(f, λ) = (1 − e^(−x)) / x,  x = λ/f       maximise Σ p·F  subject to  Σ s·f = bandwidth,  f ≥ 0

What a little more bandwidth is worth is equal for all that are refreshed: p/(s·λ)·g(x) = μ with g(x) = 1 − e^(−x)·(1 + x);
where μ·s·λ/p ≥ 1 no refresh is worth its price. The thesis gives this to a package for non-linear programs, which does
not end for hundreds of thousands of objects, and therefore partitions them (`scheduler.mirrors.partitions`). But with y = μ·s·λ/p
the equation is x − ln(1 + x) = −ln(1 − y), which Newton's method solves for all objects at once, and the bandwidth used
falls as μ rises: one root of one variable is all that is to be found.

Properties (`tests/property/test_freshening.py`):
1. The bandwidth is used up, unless nothing that changes is of interest; nothing is refreshed a negative number of times.
2. What bandwidth is worth is the same to 1e-9 for all objects that are refreshed, and no more for any of the others.
3. No other allocation of the same bandwidth is perceived fresher.
4. More bandwidth refreshes no object less often.
5. An object that never changes or interests nobody is never refreshed; what never changes is always fresh.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.ratios import ratio

Floats = npt.NDArray[np.float64]

# Marginals may differ by this; a hundredth of what rates are ever known to would do.
TOLERANCE = 1e-9
# Below this √(2u) a series is exact to the last digits, and x − ln(1 + x) is not.
SERIES_BELOW = 1e-2
NEWTON_STEPS = 3
TINY = -80.0  # ln y below which u = y
# Beyond these, arguments are taken for the bounds: nothing that is computed leaves the range of numbers.
LEAST, MOST = 1e-100, 1e100


@dataclass(frozen=True, slots=True)
class Refreshes:
    """What the bandwidth is best used for."""

    frequencies: Floats
    marginal: float
    """μ: perceived freshness (times Σ p) that one more unit of bandwidth would bring."""


def refreshes(
    interests: npt.ArrayLike, changes: npt.ArrayLike, bandwidth: float, sizes: npt.ArrayLike = 1.0
) -> Refreshes:
    """The best frequencies; changes, frequencies and the bandwidth are of the same unit of time."""
    p, rate, size = (
        np.asarray(array, np.float64) for array in np.broadcast_arrays(interests, changes, sizes)
    )
    frequencies = np.zeros(p.shape)
    worthy = np.flatnonzero((p > 0) & (rate > 0))
    if not len(worthy) or bandwidth <= 0:
        return Refreshes(frequencies, 0.0)
    p, rate, size = (np.clip(column[worthy], LEAST, MOST) for column in (p, rate, size))
    best, marginal = _divided(p, rate, size, min(max(bandwidth, LEAST), MOST))
    frequencies[worthy] = best
    return Refreshes(frequencies, marginal)


def _divided(p: Floats, rate: Floats, size: Floats, bandwidth: float) -> tuple[Floats, float]:
    """Of objects all of which would be worth a refresh if it were cheap enough."""
    price = (
        np.log(size) + np.log(rate) - np.log(p)
    )  # ln(s·λ/p): as a quotient it may leave the range of numbers
    needs = size * rate

    def frequencies(log_worth: float) -> Floats:
        """At this ln μ."""
        return rate / odds(price + log_worth)

    def excess(log_worth: float) -> float:
        """By how much it is more than there is, as a logarithm."""
        used = float(np.sum(needs[chosen] / odds(price[chosen] + log_worth)))
        return float(np.log(max(used, LEAST**3)) - np.log(bandwidth))

    # 1/x ≤ 1/√(2y) bounds what is used from above, and with it the μ at which it is all the bandwidth.
    roots = float(np.sum(np.exp(np.log(needs) - 0.5 * price)))
    chosen: npt.NDArray[np.int64] | slice = slice(None)
    high = min(2 * np.log(roots / bandwidth) - np.log(2.0), float(-price.min()))
    low, step = high - 1.0, 1.0
    while excess(low) < 0:
        high, step = low, 2 * step
        low -= step
    chosen = np.flatnonzero(price + low < 0)  # the others are not worth a refresh at any μ between
    low, high = bracketed(excess, low, high, TOLERANCE / 2)
    # Between two μ as close as that all marginals are between them, and the bandwidth can be met exactly. It must be so:
    # the most worthy object's x is some 40 at the last number below its limit, but may have to be a million.
    much, little = frequencies(low), frequencies(high)
    most, least = float(np.sum(size * much)), float(np.sum(size * little))
    part = (bandwidth - least) / (most - least) if most > least else 1.0
    best = little + min(max(part, 0.0), 1.0) * (much - little)
    return best, float(np.exp(0.5 * (low + high)))


def odds(log_y: Floats) -> Floats:
    """x with 1 − e^(−x)·(1 + x) = y; ∞ where y ≥ 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        u = -np.log1p(-np.exp(np.minimum(log_y, 0.0)))
        z = np.sqrt(2 * u)
        x = z + u * (2 / 3 + z / 24) / (1 + z / 24)  # within a tenth
        for _ in range(NEWTON_STEPS):
            x -= (x - np.log1p(x) - u) * (1 + x) / x
    x[log_y >= 0] = np.inf
    small = np.flatnonzero(z < SERIES_BELOW)
    # y may be too small for a number where its root is not.
    z = np.where(log_y[small] > TINY, z[small], np.exp(0.5 * (np.log(2.0) + log_y[small])))
    x[small] = z * (1 + z * (1 / 3 + z * (1 / 36 - z * (1 / 270 - z / 4320))))
    result: Floats = x
    return result


def bracketed(
    falling: Callable[[float], float], low: float, high: float, tolerance: float
) -> tuple[float, float]:
    """Two places no further apart than that, or neighbouring numbers, between which the function's root is.

    Oliveira and Takahashi's method (ITP, 2020): regula falsi, kept near enough to the middle that it never takes
    more steps than bisection and one.
    """
    at_low, at_high = falling(low), falling(high)
    width = high - low
    tolerance = max(tolerance, 2 * float(np.spacing(max(abs(low), abs(high)))))
    most = max(0, int(np.ceil(np.log2(max(width / tolerance, 1.0))))) + 1
    step = 0
    while high - low > tolerance:
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        guess = (low * at_high - high * at_low) / (at_high - at_low)
        side = 1.0 if middle >= guess else -1.0
        shift = min(0.2 * (high - low) ** 2 / width, abs(middle - guess))
        place = guess + side * shift
        radius = max(0.0, 0.5 * tolerance * 2.0 ** (most - step) - half)
        if abs(place - middle) > radius:
            place = middle - side * radius
        place = min(max(place, float(np.nextafter(low, high))), float(np.nextafter(high, low)))
        value = falling(place)
        if value > 0:
            low, at_low = place, value
        else:
            high, at_high = place, value
        step += 1
    return low, high


def freshness(frequencies: npt.ArrayLike, changes: npt.ArrayLike) -> Floats:
    """F: the part of the time for which each copy is as its object is."""
    f, rate = np.broadcast_arrays(np.asarray(frequencies, np.float64), np.asarray(changes, np.float64))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = np.where(rate > 0, rate / f, 0.0)
        return np.where(x > 0, np.where(np.isinf(x), 0.0, -np.expm1(-x) / x), 1.0)


def perceived_freshness(
    interests: npt.ArrayLike, changes: npt.ArrayLike, frequencies: npt.ArrayLike
) -> float:
    """The part of all uses that find a fresh copy; 1 if there are none."""
    p = np.asarray(interests, np.float64)
    fresh = np.broadcast_arrays(freshness(frequencies, changes), p)
    total = float(p.sum() if p.shape == fresh[0].shape else fresh[1].sum())
    return ratio(float(np.sum(fresh[0] * fresh[1])), total, 1.0)


def marginals(
    interests: npt.ArrayLike, changes: npt.ArrayLike, frequencies: npt.ArrayLike, sizes: npt.ArrayLike = 1.0
) -> Floats:
    """What a little more bandwidth is worth to each object: p/(s·λ)·g(λ/f); 0 for what never changes."""
    p, rate, f, size = (
        np.asarray(array, np.float64) for array in np.broadcast_arrays(interests, changes, frequencies, sizes)
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = rate / f
        # 1 − e^(−x)·(1 + x) would lose all digits of a small x.
        gained = np.where(x < 1e-3, x * x * (0.5 - x * (1 / 3 - x / 8)), -np.expm1(np.log1p(x) - x))
        gained = np.where(np.isinf(x), 1.0, gained)
        return np.where((rate > 0) & (p > 0), p / (size * rate) * gained, 0.0)
