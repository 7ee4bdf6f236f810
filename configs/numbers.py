"""Formatting of numbers for people: no exponents, only significant digits, and a unit that keeps the number short.

Examples:
duration(54_400)      54 s
duration(0.27)        0.27 ms
of_target(0.31)       31% of target
of_target(108.93)     109 x target
figure(54_400)        54,400
exact(1_000_000.0)    1,000,000
compact(1_234_567)    1.23M
percent(0.004)        <1%
ago(180)              3m ago
"""

from __future__ import annotations

from decimal import Decimal

UNKNOWN = "–"
SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1e3, 60e3, 3600e3, 86_400e3
# From this ratio of response time to target on, the response time is shown as a multiple of the target instead of a percentage.
MULTIPLE_FROM = 10.0
# Smallest number that is shown; for smaller numbers, `<0.0001` is shown instead of a long series of zeros.
SMALLEST = 0.0001
THOUSANDS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
LARGEST = 999.5e18
# Smallest and largest value of a row of data that is shown without an exponent.
EXPONENT_BELOW, EXPONENT_FROM = 1e-9, 1e15
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


def duration(ms: float) -> str:
    """Return a length of time with the unit that gives the shortest text: `0.27 ms`, `54 s`, `7.2 min`."""
    if ms < 0:
        return f"-{duration(-ms)}"
    if 0 < ms < 0.005:
        return "<0.01 ms"
    if ms < 0.995:
        return f"{short(ms, 2)} ms"
    if ms < 999.5:
        return f"{short(ms, 1 if ms < 9.95 else 0)} ms"
    for unit_ms, unit, until_ms in (
        (SECOND_MS, "s", 2 * MINUTE_MS),
        (MINUTE_MS, "min", 2 * HOUR_MS),
        (HOUR_MS, "h", 2 * DAY_MS),
    ):
        if ms < until_ms:
            count = ms / unit_ms
            return f"{short(count, 1 if count < 9.95 else 0)} {unit}"
    return f"{figure(ms / DAY_MS)} days"


def short(value: float, decimals: int) -> str:
    """Return the number with at most this many decimals, without trailing zeros."""
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").removesuffix(".") if "." in text else text


def percent(ratio: float) -> str:
    """Return a ratio in percent; a small ratio above 0 is shown as `<1%`, never as `0%`."""
    if 0 < ratio < 0.005:
        return "<1%"
    return f"{ratio:.0%}" if ratio < MULTIPLE_FROM - 0.005 else f"{figure(ratio, 0)} x"


def of_target(ratio: float) -> str:
    """Return a response time relative to its target: in percent, or as a multiple if that is shorter."""
    text = percent(ratio)
    return f"{text} of target" if text.endswith("%") else f"{text} target"


def figure(value: float, decimals: int | None = None) -> str:
    """Return a measured number with three significant digits, or with all digits before the decimal point."""
    if value == 0:
        return "0"
    if value < 0:
        return f"-{figure(-value, decimals)}"
    if value < SMALLEST:
        return f"<{SMALLEST}"
    if value >= 999.5e6:
        return compact(value)
    if decimals is not None:
        return f"{value:,.{decimals}f}"
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.3g}"


def exact(value: float) -> str:
    """Return a declared number with all its digits."""
    return format(Decimal(repr(value)).normalize(), ",f")


def digits(value: float, count: int) -> str:
    """Return a value of a row of data with at most `count` digits; only very large and very small values have an exponent."""
    text = f"{value:,.{count}g}"
    is_long = "e" in text and EXPONENT_BELOW <= abs(value) < EXPONENT_FROM
    return format(Decimal(f"{value:.{count}g}"), ",f") if is_long else text


def compact(count: float) -> str:
    """Return a count with three significant digits and a letter for thousands, millions and so on."""
    if count >= LARGEST:
        return ">999E"
    for above, letter in THOUSANDS:
        if count >= 0.9995 * above:
            return f"{count / above:.3g}{letter}"
    return f"{count:.0f}"


def ago(seconds: float) -> str:
    """Return the time since a past moment, or the time until a future moment, as text: `3m ago`, `in 89d`."""
    text = span(abs(seconds))
    return f"in {text}" if seconds <= -1 else f"{text} ago"


def span(seconds: float) -> str:
    """Return a length of time in one unit: `42s`, `3m`, `5h`, `12d`."""
    for unit_s, letter in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "m")):
        if seconds >= unit_s:
            return f"{int(seconds // unit_s):,}{letter}"
    return f"{int(seconds)}s"
