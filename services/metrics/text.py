"""The text that Prometheus reads (exposition format 0.0.4), written faster than prometheus-client does: a thousand tenants have
some 70,000 samples, whose labels are the same from scrape to scrape. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from services.metrics.families import BY_NAME, Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# What thousands of tenants have, of a hundred bytes each.
LABELS_KEPT = 200_000

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HistogramText:
    """One histogram."""

    bounds: Sequence[float]
    within: Sequence[float]
    """How many took no longer than each of them."""
    count: float
    sum_s: float

    @property
    def buckets(self) -> list[tuple[str, float]]:
        bounds = [*map(number, self.bounds), "+Inf"]
        return list(zip(bounds, (*self.within, self.count), strict=True))


Samples = Mapping[str, Sequence[tuple[Labels, float | HistogramText]]]
"""By family, the values of its labels and its own."""


def metrics_of(samples: Samples) -> Iterator[Metric]:
    """As prometheus-client has them."""
    for name, rows in samples.items():
        family = BY_NAME[name]
        match family.type:
            case "histogram":
                histogram = HistogramMetricFamily(name, family.help, labels=family.labels)
                for labels, row in rows:
                    assert isinstance(row, HistogramText)
                    histogram.add_metric(labels, row.buckets, row.sum_s)
                yield histogram
            case "counter" | "gauge" | "info":
                make = CounterMetricFamily if family.type == "counter" else GaugeMetricFamily
                metric = make(name, family.help, labels=family.labels)
                for labels, row in rows:
                    assert not isinstance(row, HistogramText)
                    metric.add_metric(labels, row)
                yield metric


def text_of(samples: Samples) -> bytes:
    """The same as text."""
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
    """Labels in the order of their names."""
    if not names:
        return ""
    pairs = sorted(zip(names, values, strict=True))
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in pairs) + "}"


def number(value: float) -> str:
    # Most are small whole numbers.
    if -1e6 < value < 1e6 and value == int(value):
        return f"{value:.1f}"
    digits, dot, more = repr(float(value)).partition(".")
    if len(digits) <= 6 or digits.startswith("-") or not dot:
        return digits + dot + more
    # As Go writes it, which bounds of buckets are to agree with.
    return f"{digits[0]}.{digits[1:]}{more}".rstrip("0.") + f"e+{len(digits) - 1:02d}"


def escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
