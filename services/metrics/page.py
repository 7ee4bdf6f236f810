"""docs/metrics.md, from the families: `make metrics` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from actors.messages.unit_messages import BOUNDS
from services.metrics.families import FAMILIES, LABELS, Family

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
BEGINNING = f"""# Metrics
`GET /metrics` of the service ([api.md](api.md)) tells Prometheus of the whole system: one target, whatever runs where. It needs
a key of the scope `metrics`, or an administrator's:

```yaml
scrape_configs:
  - job_name: weir
    scrape_interval: 15s
    authorization: {{credentials_file: weir-metrics.key}}
    static_configs: [{{targets: ["127.0.0.1:8642"]}}]
```

`weir keys create prometheus --scope metrics` makes the key. While nothing runs, or nobody has answered yet, the answer is 503.
Rules and alerts are in `helm/weir/rules/`; what to do when one fires is in the [runbook](runbook.md).

Figures of classes are as of the end of their last load cycle; those of nodes and streams are up to five seconds old. Counters
never fall while the service runs: what a process has counted is kept when another takes its place. They begin anew with
the service. Buckets of response times are at {", ".join(f"{part:g}" for part in BOUNDS)} times the target of each class, within 1%;
with a new target they begin anew.

Not known, and so not told: bytes of what waits at a class's door (its tuples are), response times of a single query,
the age of what is queued between operators, and Spark's lag where a source does not tell how far it could be read.

## Labels
| label | |
|---|---|
"""
OPERATORS = (
    "Only with `weir up --metrics-operators`; at most 20 classes are looked at anew every five seconds.\n"
)


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
        yield "| name | type | unit | labels | |\n|---|---|---|---|---|\n"
        yield from map(row, families)


def row(one: Family) -> str:
    labels = ", ".join(f"`{name}`" for name in one.labels)
    kind = "gauge" if one.type == "info" else one.type
    return f"| `{one.name}` | {kind} | {one.unit} | {labels} | {one.help} |\n"
