"""Optimal refresh frequencies for copies of many remote objects, so that users find the copies fresh as often as possible.

Object i changes at random with rate λ_i, is used with interest p_i, and takes s_i of the bandwidth for each refresh. If its copy
is refreshed f_i times per second at even intervals, the copy is fresh for the part F of the time. The perceived freshness is
Σ p·F / Σ p (Carney, ch. 2):

    F(f, λ) = (1 − e^(−x)) / x,  x = λ/f       maximise Σ p·F  subject to  Σ s·f = bandwidth,  f ≥ 0

At the optimum, the marginal value of bandwidth μ is equal for all refreshed objects: p/(s·λ)·g(x) = μ with
g(x) = 1 − e^(−x)·(1 + x). An object with μ·s·λ/p ≥ 1 is not refreshed. The thesis uses a package for non-linear programs, which
does not finish for hundreds of thousands of objects, and therefore partitions the objects (`bench.papers.partitions`). But
with y = μ·s·λ/p the equation becomes x − ln(1 + x) = −ln(1 − y), which Newton's method solves for all objects at once. The used
bandwidth falls as μ rises, so only one equation in the variable μ has to be solved.

An object may have a least freshness φ, so that it is refreshed even if it is hardly used. Its frequency is then at least the m with
F(m, λ) = φ. At the optimum, the frequency of each object is the larger of m and its frequency at the common μ. If the bandwidth does
not suffice for Σ s·m, every φ is multiplied by the same factor, so that the whole bandwidth is used for these frequencies.

Properties (`tests/property/test_freshening.py`):
1. The bandwidth is used up, unless no object both changes and is of interest; no frequency is negative.
2. The marginal value of bandwidth is equal to 1e-9 for all objects above their least frequencies, and not higher for any other object.
3. No other allocation of the same bandwidth with these least freshnesses has a higher perceived freshness.
4. More bandwidth reduces the frequency of no object.
5. An object without changes is never refreshed, because it is always fresh. An object without interest has its least frequency.
6. Each object has its least freshness if the bandwidth suffices; otherwise each object has the same part of its least freshness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.ratios import ratio

Floats = npt.NDArray[np.float64]

# Maximum relative error of μ, the marginal value of bandwidth. Change rates are never known this precisely.
TOLERANCE = 1e-9
# Value below which `odds` uses a series, because the difference x − ln(1 + x) loses digits for small x.
SERIES_BELOW = 1e-2
NEWTON_STEPS = 3
# Maximum number of steps of Newton's method for a least frequency. A least freshness near 1 needs most steps.
NEWTON_STEPS_MAX = 60
TINY = -80.0  # Value of ln y below which −ln(1 − y) equals y within rounding
# Limits to which interests, change rates, sizes and the bandwidth are set if they lie outside, so that no intermediate result overflows.
LEAST, MOST = 1e-100, 1e100


@dataclass(frozen=True, slots=True)
class Refreshes:
    """Optimal refresh frequencies of all objects."""

    frequencies: Floats
    marginal: float
    """Marginal value μ: increase of perceived freshness (times Σ p) for one more unit of bandwidth; 0 if the bandwidth does not suffice for the least freshnesses."""
    needed: float = 0.0
    """Bandwidth that all least freshnesses together need."""
    part: float = 1.0
    """Part of its least freshness that each object gets; 1 if the bandwidth suffices."""


def refreshes(
    interests: npt.ArrayLike,
    changes: npt.ArrayLike,
    bandwidth: float,
    sizes: npt.ArrayLike = 1.0,
    floors: npt.ArrayLike = 0.0,
) -> Refreshes:
    """Return the optimal frequencies; change rates, frequencies and bandwidth are all per the same unit of time.

    `floors` are the least freshnesses of the objects, which must be below 1.
    """
    p, rate, size, floor = (
        np.asarray(array, np.float64) for array in np.broadcast_arrays(interests, changes, sizes, floors)
    )
    frequencies = np.zeros(p.shape)
    moving = np.flatnonzero((rate > 0) & ((p > 0) | (floor > 0)))
    if not len(moving) or bandwidth <= 0:
        return Refreshes(frequencies, 0.0)
    rate, size = (np.clip(column[moving], LEAST, MOST) for column in (rate, size))
    p, floor = np.minimum(p[moving], MOST), floor[moving]
    bandwidth = min(max(bandwidth, LEAST), MOST)
    least = least_frequencies(floor, rate)
    needed = float(np.sum(size * least))
    if needed > bandwidth:
        frequencies[moving], part = _scaled(floor, rate, size, bandwidth)
        return Refreshes(frequencies, 0.0, needed, part)
    best, worthy, marginal = least.copy(), np.flatnonzero(p > 0), 0.0
    if len(worthy):
        left = bandwidth - float(np.sum(np.delete(size * least, worthy)))
        wanted = np.clip(p[worthy], LEAST, MOST)
        best[worthy], marginal = _divided(wanted, rate[worthy], size[worthy], least[worthy], left)
    frequencies[moving] = best
    return Refreshes(frequencies, marginal, needed)


def least_frequencies(floors: Floats, changes: Floats) -> Floats:
    """Return the frequency at which the copy of each object has its least freshness, which must be below 1."""
    # The ratio x of change rate to frequency solves φ·x = 1 − e^(−x).
    # The difference of both sides is concave in x and negative at the start value 1/φ, so Newton's method approaches x from above.
    wanted = floors > 0
    floor = floors[wanted]
    x = 1 / floor
    for _ in range(NEWTON_STEPS_MAX):
        step = (-np.expm1(-x) - floor * x) / (np.exp(-x) - floor)
        x -= step
        if np.all(np.abs(step) <= TOLERANCE * x):
            break
    least = np.zeros(floors.shape)
    least[wanted] = changes[wanted] / x
    return least


def _scaled(floor: Floats, rate: Floats, size: Floats, bandwidth: float) -> tuple[Floats, float]:
    """Return frequencies that use the bandwidth and give each object the same part of its least freshness, and this part."""

    def unused(part: float) -> float:
        """Return the bandwidth that is left if each object gets this part of its least freshness."""
        return bandwidth - float(np.sum(size * least_frequencies(part * floor, rate)))

    _, part = bracketed(unused, 0.0, 1.0, TOLERANCE)
    least = least_frequencies(part * floor, rate)
    return least * (bandwidth / float(np.sum(size * least))), part


def _divided(p: Floats, rate: Floats, size: Floats, least: Floats, bandwidth: float) -> tuple[Floats, float]:
    """Return the optimal frequencies and the marginal value of bandwidth, for objects that all have interest and changes.

    No frequency is below the least frequency of its object. The bandwidth must suffice for the least frequencies.
    """
    # `price` is the logarithm of size · change rate / interest of each object. It is computed as a sum, because the quotient may overflow.
    price = np.log(size) + np.log(rate) - np.log(p)
    needs = size * rate

    def frequencies(log_worth: float) -> Floats:
        """Return the optimal frequencies if `log_worth` is the logarithm of the marginal value of bandwidth."""
        return np.maximum(rate / odds(price + log_worth), least)

    def excess(log_worth: float) -> float:
        """Return the logarithm of used / available bandwidth if `log_worth` is the logarithm of the marginal value of bandwidth."""
        wanted = needs[chosen] / odds(price[chosen] + log_worth)
        used = float(np.sum(np.maximum(wanted, size[chosen] * least[chosen])))
        return float(np.log(max(used, LEAST**3)) - np.log(bandwidth))

    # `high` is the largest possible logarithm of the marginal value of bandwidth: at larger values, bandwidth would remain unused.
    has_least = least > 0
    chosen: npt.NDArray[np.int64] | slice = slice(None)
    high = float(-price.min())
    if not has_least.any():
        roots = float(np.sum(np.exp(np.log(needs) - 0.5 * price)))
        high = min(2 * np.log(roots / bandwidth) - np.log(2.0), high)
    elif float(np.sum(size * least)) >= bandwidth * (1 - TOLERANCE):
        return least * (bandwidth / float(np.sum(size * least))), float(np.exp(high))
    low, step = high - 1.0, 1.0
    while excess(low) < 0:
        high, step = low, 2 * step
        low -= step
    # The search leaves out objects that are not refreshed at any marginal value between `low` and `high`.
    chosen = np.flatnonzero((price + low < 0) | has_least)
    low, high = bracketed(excess, low, high, TOLERANCE / 2)
    # Frequencies are interpolated between two close marginal values of bandwidth, so that exactly the available bandwidth is used.
    # Between a marginal value and the next float, the frequency of an object may jump from 0 to one refresh per 40 changes of the object.
    much, little = frequencies(low), frequencies(high)
    most, least_used = float(np.sum(size * much)), float(np.sum(size * little))
    part = (bandwidth - least_used) / (most - least_used) if most > least_used else 1.0
    best = little + min(max(part, 0.0), 1.0) * (much - little)
    return best, float(np.exp(0.5 * (low + high)))


def odds(log_y: Floats) -> Floats:
    """Return the x with 1 − e^(−x)·(1 + x) = y; ∞ if y ≥ 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        u = -np.log1p(-np.exp(np.minimum(log_y, 0.0)))
        z = np.sqrt(2 * u)
        x = z + u * (2 / 3 + z / 24) / (1 + z / 24)  # Start value, which is within 10% of the solution
        for _ in range(NEWTON_STEPS):
            x -= (x - np.log1p(x) - u) * (1 + x) / x
    x[log_y >= 0] = np.inf
    small = np.flatnonzero(z < SERIES_BELOW)
    # The argument y of `odds` may underflow although its square root does not.
    z = np.where(log_y[small] > TINY, z[small], np.exp(0.5 * (np.log(2.0) + log_y[small])))
    x[small] = z * (1 + z * (1 / 3 + z * (1 / 36 - z * (1 / 270 - z / 4320))))
    result: Floats = x
    return result


def bracketed(
    falling: Callable[[float], float], low: float, high: float, tolerance: float
) -> tuple[float, float]:
    """Return an interval around the zero of a falling function, at most `tolerance` wide or between neighbouring numbers.

    The method is ITP (Oliveira and Takahashi, 2020): regula falsi, kept so close to the middle that it needs at most one step
    more than bisection.
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
    """Return F for each object: the part of the time for which its copy is fresh."""
    f, rate = np.broadcast_arrays(np.asarray(frequencies, np.float64), np.asarray(changes, np.float64))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = np.where(rate > 0, rate / f, 0.0)
        return np.where(x > 0, np.where(np.isinf(x), 0.0, -np.expm1(-x) / x), 1.0)


def perceived_freshness(
    interests: npt.ArrayLike, changes: npt.ArrayLike, frequencies: npt.ArrayLike
) -> float:
    """Return the part of all uses that find a fresh copy; 1 if there are no uses."""
    fresh, p = np.broadcast_arrays(freshness(frequencies, changes), np.asarray(interests, np.float64))
    return ratio(float(np.sum(fresh * p)), float(p.sum()), 1.0)
