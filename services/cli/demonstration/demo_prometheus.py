"""`weir demo --prometheus`: scrape the demonstration with a real Prometheus, and show the panels of the dashboards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.dashboards.all import BOARDS
from services.dashboards.answers import AnsweredPanel, TimeSpan, answers
from services.dashboards.pictures import boards_html
from services.ingest.progress import FeedProgress
from services.metrics.collector import SystemCollector
from services.metrics.exporter import Exporter
from services.metrics.nodes import Nodes
from services.metrics.prometheus import EVALUATE_S, SCRAPE_S, Prometheus, Rule
from services.watch.source import RunningSystem
from services.watch.watch import Watch

if TYPE_CHECKING:
    from actors.system import System

# Length of time over which the panels compute rates: Grafana's default is too long for a run of a minute or two.
RATE_INTERVAL_S = 10.0
LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class PrometheusRecord:
    """Responses of Prometheus after a run: the data of all panels, and the state of all rules."""

    span: TimeSpan
    panels: Sequence[AnsweredPanel]
    rules: Sequence[Rule]
    recorded: Mapping[str, int]
    """Number of time series that each recording rule has produced, by rule."""

    def told(self) -> dict[str, Any]:
        """Return the data of the panels and the state of the rules as a dictionary for the JSON report."""
        return {
            "panels": [
                {
                    "dashboard": panel.board.uid,
                    "panel": panel.panel.title,
                    "series": sum(map(len, panel.series.values())),
                    "empty_unless": panel.panel.empty_unless,
                }
                for panel in self.panels
            ],
            "rules": [asdict(rule) | {"series": self.recorded.get(rule.name)} for rule in self.rules],
        }

    def html(self) -> str:
        """Return the part of the HTML report that shows the panels."""
        about = (
            "<p>The dashboards that come with Weir, with data from a Prometheus that scraped this run once per second. "
            "Time is in seconds since the scenario began; the title of a panel describes it.</p>"
        )
        return f"<h2>Dashboards</h2>{about}{boards_html(self.panels, self.span)}"


def record_of(prometheus: Prometheus, begin: float, end: float, tenant: str) -> PrometheusRecord:
    """Return Prometheus's data of a run from `begin` to `end`, in Unix time. Dashboards for a single tenant show `tenant`."""
    # A rule may not have been evaluated yet, if the run was short.
    until = time.monotonic() + 3 * EVALUATE_S
    while time.monotonic() < until and any(rule.health == "unknown" for rule in prometheus.rules()):
        time.sleep(LOOK_S)
    span = TimeSpan(begin, end, RATE_INTERVAL_S)
    panels: list[AnsweredPanel] = []
    for board in BOARDS:
        variables = {"tenant": tenant} if any(each.is_one for each in board.variables) else {}
        panels += answers(prometheus, [board], span, variables)
    rules = prometheus.rules()
    recorded = {rule.name: len(prometheus.ask(rule.name)) for rule in rules if rule.kind == "recording"}
    return PrometheusRecord(span, panels, rules, recorded)


@contextmanager
def prometheus_beside(
    system: System,
    feeds: Callable[[], Sequence[FeedProgress]],
    priorities: Mapping[str, str],
    folder: Path,
) -> Iterator[Prometheus]:
    """Run a Prometheus server until the `with` block ends. The server scrapes the system."""
    source = RunningSystem(system)
    with Watch(source) as watch, Nodes(source, watch, SCRAPE_S, with_operators=True) as nodes:
        collector = SystemCollector(watch, nodes, feeds, lambda: priorities)
        with (
            Exporter(collector.text) as exporter,
            Prometheus(folder, exporter.address, exporter.token) as prometheus,
        ):
            yield prometheus
