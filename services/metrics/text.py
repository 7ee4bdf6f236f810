"""Writer for Prometheus's text format (exposition format 0.0.4) that is faster than the writer of prometheus-client.

A thousand tenants have some 70,000 samples with the same labels in every scrape, so formatted labels are cached. A test
checks that the output equals the output of prometheus-client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from services.metrics.families import BY_NAME, Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Number of cached label texts, about 100 bytes each: enough for some thousands of tenants.
LABELS_KEPT = 200_000

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HistogramText:
    """Histogram value: cumulative counts per bucket, and the sum of all observations."""

    bounds: Sequence[float]
    within: Sequence[float]
    """Number of observations that are not above the upper limit of each bucket."""
    count: float
    sum_s: float

    @property
    def buckets(self) -> list[tuple[str, float]]:
        bounds = [*map(number, self.bounds), "+Inf"]
        return list(zip(bounds, (*self.within, self.count), strict=True))


Samples = Mapping[str, Sequence[tuple[Labels, float | HistogramText]]]
"""Samples by family name: each sample is a tuple of label values and a value."""


def text_of(samples: Samples) -> bytes:
    """Return the samples in Prometheus's text format."""
    lines: list[str] = []
    for name, rows in samples.items():
        family = BY_NAME[name]
        kind = "gauge" if family.type == "info" else family.type
        lines.append(f"# HELP {name} {family.help}\n# TYPE {name} {kind}\n")
        lines += lines_of(family, rows)
    return "".join(lines).encode()


def lines_of(family: Family, rows: Iterable[tuple[Labels, float | HistogramText]]) -> Iterator[str]:
    name, names = family.name, family.labels
    buckets = (*names, "le")
    for labels, row in rows:
        if isinstance(row, HistogramText):
            for bound, count in row.buckets:
                yield f"{name}_bucket{told(buckets, (*labels, bound))} {number(count)}\n"
            yield f"{name}_count{told(names, labels)} {number(row.count)}\n"
            yield f"{name}_sum{told(names, labels)} {number(row.sum_s)}\n"
        else:
            yield f"{name}{told(names, labels)} {number(row)}\n"


@lru_cache(LABELS_KEPT)
def told(names: Labels, values: Labels) -> str:
    """Return labels as text, `{name="value",...}`, in the order of their names."""
    if not names:
        return ""
    pairs = sorted(zip(names, values, strict=True))
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in pairs) + "}"


def number(value: float) -> str:
    # Most values are small whole numbers, so these are formatted in a faster way.
    if -1e6 < value < 1e6 and value == int(value):
        return f"{value:.1f}"
    digits, dot, more = repr(float(value)).partition(".")
    if len(digits) <= 6 or digits.startswith("-") or not dot:
        return digits + dot + more
    # Large numbers are written in Go's format, because Prometheus uses Go's format for the limits of buckets.
    return f"{digits[0]}.{digits[1:]}{more}".rstrip("0.") + f"e+{len(digits) - 1:02d}"


def escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
