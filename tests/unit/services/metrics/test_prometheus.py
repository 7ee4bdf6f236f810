"""A real Prometheus that scrapes the exporter: it evaluates Weir's rules, answers queries, and stops completely."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from configs.errors import InvalidInput
from services.metrics.exporter import Exporter
from services.metrics.prometheus import PROGRAM, Prometheus, Rule, find_program
from tests.support.metered import Metered, metering
from tests.support.promtool import needs_promtool
from tests.support.waiting import eventually
from tests.support.watched import declared

pytestmark = pytest.mark.slow


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Prometheus]:
    """Start a Prometheus that scrapes a system of one class."""
    system = Metered()
    system.declare(declared("gold"))
    with (
        metering(system) as metered,
        Exporter(metered.collector.text) as exporter,
        Prometheus(tmp_path / "prometheus", exporter.address, exporter.token) as found,
    ):
        yield found


@needs_promtool
def test_prometheus_scrapes_the_exporter_and_answers_queries(prometheus: Prometheus, tmp_path: Path) -> None:
    (up,) = eventually(lambda: [one for one in prometheus.ask("up") if one.points[0][1] == 1], "a scrape")
    assert up.labels["job"] == "weir"
    (lanes,) = prometheus.ask("weir_node_lanes")
    assert [value for _, value in lanes.points] == [1]
    now = time.time()
    (over,) = prometheus.over("weir_node_lanes", now - 2, now, 1.0)
    assert {value for _, value in over.points} == {1}
    assert prometheus.ask("1 + 1")[0].points[0][1] == 2
    token = tmp_path / "prometheus" / "token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


@needs_promtool
def test_prometheus_evaluates_every_rule_of_weir(prometheus: Prometheus) -> None:
    def known() -> list[Rule]:
        found = prometheus.rules()
        return found if all(one.health != "unknown" for one in found) else []

    rules = eventually(known, "an evaluation of all rules")
    assert [(one.name, one.error) for one in rules if one.health != "ok"] == []
    kinds = [one.kind for one in rules]
    assert min(kinds.count("alerting"), kinds.count("recording")) > 5


@needs_promtool
def test_invalid_promql_is_refused_with_the_message_of_prometheus(prometheus: Prometheus) -> None:
    with pytest.raises(InvalidInput, match="unclosed left parenthesis"):
        prometheus.ask("rate(up[5m]")


@needs_promtool
def test_the_port_is_closed_after_prometheus_has_stopped(prometheus: Prometheus) -> None:
    url = prometheus.url
    prometheus.stop()
    prometheus.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/-/ready")


def test_a_missing_prometheus_is_an_error_that_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidInput, match="apt-get install prometheus") as problem:
        find_program()
    assert problem.value.field == "--prometheus"
    assert PROGRAM == "prometheus"
