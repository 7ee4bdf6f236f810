"""`weir demo --prometheus`: a real Prometheus beside the demonstration, and what the dashboards would show of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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

# A demonstration lasts a minute or two; Grafana's own choice for a scrape a minute would show nothing of it.
RATE_INTERVAL_S = 10.0
LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class PrometheusRecord:
    """What Prometheus knows of a run when it is over."""

    span: TimeSpan
    panels: Sequence[AnsweredPanel]
    rules: Sequence[Rule]
    recorded: Mapping[str, int]
    """By recording rule, how many series it has made."""

    def told(self) -> dict[str, Any]:
        """For machines."""
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
            "rules": [
                {
                    "name": rule.name,
                    "kind": rule.kind,
                    "health": rule.health,
                    "error": rule.error,
                    "state": rule.state,
                    "series": self.recorded.get(rule.name),
                }
                for rule in self.rules
            ],
        }

    def html(self) -> str:
        """A part of the report."""
        about = (
            "<p>The dashboards that come with Weir, as a Prometheus that has scraped this run once a second answers their "
            "questions. Time is in seconds since the scenario began; a title tells what its panel shows.</p>"
        )
        return f"<h2>What operators see</h2>{about}{boards_html(self.panels, self.span)}"


class Beside:
    """A Prometheus that is scraping."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self.url = prometheus.url

    def seen(self, begin: float, end: float, tenant: str) -> PrometheusRecord:
        """Of a run between these moments, by the clock on the wall; one tenant has a dashboard of its own."""
        self._wait_evaluated()
        span = TimeSpan(begin, end, RATE_INTERVAL_S)
        panels: list[AnsweredPanel] = []
        for board in BOARDS:
            variables = {"tenant": tenant} if any(each.is_one for each in board.variables) else {}
            panels += answers(self._prometheus, [board], span, variables)
        rules = self._prometheus.rules()
        recorded = {
            rule.name: len(self._prometheus.ask(rule.name)) for rule in rules if rule.kind == "recording"
        }
        return PrometheusRecord(span, panels, rules, recorded)

    def _wait_evaluated(self) -> None:
        """Each rule has been evaluated once, or will not be."""
        until = time.monotonic() + 3 * EVALUATE_S
        while time.monotonic() < until and any(rule.health == "unknown" for rule in self._prometheus.rules()):
            time.sleep(LOOK_S)


@contextmanager
def prometheus_beside(
    system: System,
    feeds: Callable[[], Sequence[FeedProgress]],
    priorities: Mapping[str, str],
    folder: Path,
) -> Iterator[Beside]:
    """Scrapes the system until the block ends."""
    source = RunningSystem(system)
    with Watch(source) as watch, Nodes(source, watch, SCRAPE_S, with_operators=True) as nodes:
        collector = SystemCollector(watch, nodes, feeds, lambda: priorities)
        with (
            Exporter(collector.text) as exporter,
            Prometheus(folder, exporter.address, exporter.token) as prometheus,
        ):
            yield Beside(prometheus)
