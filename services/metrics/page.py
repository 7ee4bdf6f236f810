"""Text of docs/metrics.md, generated from the table of metric families; `make metrics` writes the file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from actors.messages.unit_messages import BOUNDS
from services.metrics.families import FAMILIES, LABELS, Family

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
BEGINNING = f"""# Metrics
`GET /metrics` of the service ([api.md](api.md)) exports metrics of the whole system, so Prometheus needs one target for all nodes.
A scrape needs a key with the scope `metrics` or `admin`:

```yaml
scrape_configs:
  - job_name: weir
    scrape_interval: 15s
    authorization: {{credentials_file: weir-metrics.key}}
    static_configs: [{{targets: ["127.0.0.1:8642"]}}]
```

`weir keys create prometheus --scope metrics` makes the key. While no system runs, and until a system has reported for the first time,
a scrape is answered with status 503. Recording rules and alerts are in `helm/weir/rules/`; the [runbook](runbook.md) says what to do
when an alert fires.

Metrics of classes have the state at the end of the class's last load cycle. Metrics of nodes and streams are up to five seconds old.
Counters never fall while the service runs: when a process is restarted, its earlier counts are kept. Only a restart of the service
may lower counters. The buckets of response times end at {", ".join(f"{part:g}" for part in BOUNDS)} times the delay target
of each class, with an accuracy of 1%. When the delay target of a class changes, its buckets restart at 0.

These figures are not available:
- bytes of the tuples that no operator of a class has taken yet (the number of these tuples is available),
- response times of a single query,
- ages of tuples queued between operators,
- Spark's lag for sources that do not report their newest offset.

## Labels
| label | meaning |
|---|---|
"""
OPERATORS = "Exported only with `weir up --metrics-operators`. Every five seconds, at most 20 classes are measured again.\n"


def page() -> str:
    return "".join(lines())


def lines() -> Iterator[str]:
    yield BEGINNING
    for name, text in LABELS.items():
        yield f"| `{name}` | {text} |\n"
    for group, group_families in groupby(FAMILIES, key=attrgetter("group")):
        yield f"\n## {group}\n"
        families = list(group_families)
        if all(family.per_operator for family in families):
            yield OPERATORS + "\n"
        yield "| name | type | unit | labels | meaning |\n|---|---|---|---|---|\n"
        yield from map(row, families)


def row(one: Family) -> str:
    labels = ", ".join(f"`{name}`" for name in one.labels)
    kind = "gauge" if one.type == "info" else one.type
    return f"| `{one.name}` | {kind} | {one.unit} | {labels} | {one.help} |\n"
