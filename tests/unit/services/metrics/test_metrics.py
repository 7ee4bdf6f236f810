"""Metrics of a running system: their values, their text format, and the keys that may read them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from actors.messages.unit_messages import BOUNDS, Qualities, ResponseCounts, UnitCounts
from configs.documents.declarations import documents_of
from engine.class_.explain import PlanLine
from loadshed.aloma import AlomaBranch
from loadshed.ledger import TupleLedger
from services.metrics.collector import SystemCollector
from services.metrics.families import BY_NAME, FAMILIES, FATES, LABELS
from services.metrics.operators import CLASSES_ASKED, OperatorLooks
from services.metrics.page import PAGE, page
from services.metrics.text import HistogramText
from tests.support.metered import Metered, Metering, metering, stream
from tests.support.promtool import needs_promtool, promtool
from tests.support.served import served
from tests.support.watched import declared

GOLD = {"tenant": "gold", "priority_class": "first"}
COUNTED = UnitCounts(
    pid=7,
    born=1.0,
    recovered=False,
    slices=100,
    overruns=3,
    overrun_s=0.5,
    branches=tuple(range(len(AlomaBranch))),
    at_max_drop=2,
    reclaims=1,
    reclaims_overdue=1,
    reclaim_s=0.3,
    answered=ResponseCounts(0.1, 20, 11, 4.0, (0, 1, 2, 4, 8, 11, 12, 13, 14, 15, 16, 17)),
    results={"q": 20},
    queue_bytes=4096,
    queue_age_s=0.25,
    queue_work_s=0.125,
    quality=Qualities(("q",), (20,), (17.5,), (4,), (4.0,), (1.5,), (0.5,), (20,), (6,), (0.9,), (60.0,)),
)
DOCUMENTS = """
{kind: PriorityClass, name: c, priority: 1, delay_target_ms: 1}
---
{kind: Tenant, name: a, priority_class: c}
"""
LEDGER = TupleLedger(100, 70, 12, 6, 3, 1)


def series(name: str, **labels: str) -> str:
    """Return the name of a series with its labels, as Prometheus writes it."""
    pairs = (f'{label}="{value}"' for label, value in sorted(labels.items()))
    return f"{name}{{{','.join(pairs)}}}"


@pytest.fixture
def metered() -> Iterator[Metering]:
    gold = declared("gold", 3.0, lendable=0.5, max_drop=0.75)
    system = Metered(inflows=[stream(late=3, null=1)]).declare(gold, declared("bronze", 1.0))
    assert isinstance(system, Metered)
    with metering(system, gold="first", bronze='l\\ast "one"') as found:
        yield found


def cycle(metered: Metering, counted: UnitCounts = COUNTED, name: str = "gold", **more: Any) -> None:
    given: dict[str, Any] = {"load": 0.6, "account": (LEDGER, 8)} | more
    metered.system.cycle(name, given.pop("load"), given.pop("account"), counted=counted, **given)


# -- values of the metrics -------------------------------------------------------------------------------------


def test_a_class_has_metrics_of_its_shares_and_counters(metered: Metering) -> None:
    cycle(metered, used_s=1.5, state_bytes=5000, unsaved_bytes=600)
    values = metered.told()
    shares = {
        "weir_class_nominal_share_ratio": 0.75,
        "weir_class_current_share_ratio": 0.75,
        "weir_class_lower_share_ratio": 0.375,
        "weir_class_upper_share_ratio": 1.0,
        "weir_class_demand_share_ratio": pytest.approx(0.6),
        "weir_class_target_share_ratio": pytest.approx(0.6),
    }
    assert {name: values[series(name, **GOLD)] for name in shares} == shares
    expected = {
        "weir_class_slices_total": 100,
        "weir_class_overruns_total": 3,
        "weir_class_overrun_seconds_total": 0.5,
        "weir_class_processor_seconds_total": 1.5,
        "weir_class_decisions_at_max_drop_total": 2,
        "weir_class_reclaims_total": 1,
        "weir_class_reclaims_overdue_total": 1,
        "weir_class_reclaim_seconds_total": 0.3,
        "weir_class_queue_bytes": 4096,
        "weir_class_queue_age_seconds": 0.25,
        "weir_class_queue_work_seconds": 0.125,
        "weir_class_state_bytes": 5000,
        "weir_class_unsaved_bytes": 600,
        "weir_class_response_target_seconds": 0.1,
        "weir_class_results_in_time_total": 11,
        "weir_class_response_seconds_count": 20,
        "weir_class_response_seconds_sum": 4.0,
        "weir_class_max_drop_ratio": 0.75,
        "weir_class_load_processors": pytest.approx(0.6),
        "weir_class_units": 1,
        "weir_class_queries": 1,
        "weir_class_restarts_total": 0,
    }
    assert {name: values[series(name, **GOLD)] for name in expected} == expected
    name = "weir_class_decisions_total"
    branches = {one: values[series(name, branch=one.name.lower(), **GOLD)] for one in AlomaBranch}
    assert branches == {one: place for place, one in enumerate(AlomaBranch)}


def test_tuples_are_counted_by_stream_and_fate_and_missing_tuples_are_shown(metered: Metering) -> None:
    cycle(metered, account=(LEDGER, 10))
    values = metered.told()
    fates = {
        fate: values[series("weir_class_tuples_total", stream="Readings", fate=fate, **GOLD)]
        for fate in FATES
    }
    assert fates == {"delivered": 70, "shed": 12, "late": 6, "rejected": 3, "failed": 1}
    names = ("weir_class_offered_tuples_total", "weir_class_queued_tuples", "weir_class_unaccounted_tuples")
    assert [values[series(name, stream="Readings", **GOLD)] for name in names] == [100, 10, -2]


def test_quality_counters_of_a_declared_query_continue_after_a_restart(
    metered: Metering,
) -> None:
    worth = Qualities(("q", "r"), (20, 1), (17.5, 1.0), (4, 0), (2.0, 0.1), (1.5, 0.1), (0.5, 0.1))
    worth = replace(worth, due=(20, 0), tardy=(6, 0), tardiness_s=(0.9, 0.0), slowdown=(60.0, 3.0))
    cycle(metered, replace(COUNTED, results={"q": 20, "r": 1}, quality=worth))
    assert metered.told()[series("weir_query_lost_utility_total", query="q", **GOLD)] == 2.5
    again = Qualities(("q",), (2,), (1.5,), (1,), (0.1,), (0.25,), (0.1,), (2,), (1,), (0.125,), (5.5,))
    cycle(metered, replace(COUNTED, born=2.0, recovered=True, results={"q": 22}, quality=again))
    values = metered.told()
    names = ["lost_utility_total", "missed_deadlines_total", "stale_seconds_total", "tardy_answers_total"]
    names += ["tardiness_seconds_total", "slowdown_total"]
    found = [values[series(f"weir_query_{name}", query="q", **GOLD)] for name in names]
    assert found == pytest.approx([2.5 + 0.5, 4 + 1, 1.5 + 0.25, 6 + 1, 0.9 + 0.125, 60 + 5.5])
    assert not [name for name in values if 'query="r"' in name]


def test_response_times_are_in_buckets_around_the_target(metered: Metering) -> None:
    cycle(metered)
    values = metered.told()
    shape = series("weir_class_response_seconds_bucket", le="BOUND", **GOLD)
    bucket = re.compile(re.escape(shape).replace("BOUND", "(.+)"))
    found = {float(one[1]): value for name, value in values.items() if (one := bucket.fullmatch(name))}
    bounds = [pytest.approx(0.1 * part) for part in BOUNDS]
    assert list(found) == [*bounds, float("inf")]
    assert list(found.values()) == [*COUNTED.answered.within, 20]


def test_nodes_streams_and_feeds_have_metrics(metered: Metering) -> None:
    values = metered.told()
    expected = {
        'weir_node_lanes{node="n1"}': 1,
        'weir_node_units{node="n1"}': 2,
        'weir_node_slices_total{node="n1"}': 20,
        'weir_node_scheduling_seconds_total{node="n1"}': 0.25,
        'weir_stream_rows_total{node="n1",stream="Readings"}': 100,
        'weir_stream_dead_letters_total{node="n1",stream="Readings"}': 4,
        'weir_stream_retained_limit_bytes{node="n1",stream="Readings"}': 4000,
        'weir_feed_lag_rows{stream="sensors"}': 20,
        'weir_feed_batch_seconds{stream="sensors"}': 0.15,
        'weir_feed_running{stream="sensors"}': 1,
        'weir_restarts_total{actor="coordinator",node=""}': 0,
    }
    assert {name: values[name] for name in expected} == expected


def test_counters_of_a_mirror_continue_after_a_restart(metered: Metering) -> None:
    first = metered.told()
    (one,) = metered.system.mirrors
    restarted = replace(one.statistics, polls=10, changes=10, failures=0, uses=1.0, perceived_measured=None)
    metered.system.mirrors[0] = replace(one, state="waiting", statistics=restarted, bytes=100)
    again = metered.told()
    polls = 'weir_mirror_polls_total{result="RESULT",stream="prices"}'
    expected = {
        'weir_mirror_perceived_freshness_ratio{stream="prices"}': (0.625, None),
        'weir_mirror_expected_freshness_ratio{stream="prices"}': (0.75, 0.75),
        'weir_mirror_objects{stream="prices"}': (40, 40),
        'weir_mirror_held_objects{stream="prices"}': (38, 38),
        'weir_mirror_failing_objects{stream="prices"}': (2, 2),
        'weir_mirror_bandwidth_used_ratio{stream="prices"}': (0.8, 0.8),
        'weir_mirror_bytes_total{stream="prices"}': (9000, 9100),
        'weir_mirror_rows_total{stream="prices"}': (119, 119),
        'weir_mirror_uses_total{stream="prices"}': (11, 12),
        'weir_mirror_solves_total{stream="prices"}': (7, 7),
        'weir_mirror_running{stream="prices"}': (1, 0),
        polls.replace("RESULT", "changed"): (120, 130),
        polls.replace("RESULT", "unchanged"): (350, 350),
        polls.replace("RESULT", "failed"): (30, 30),
    }
    assert {name: (first.get(name), again.get(name)) for name in expected} == expected
    assert {one for one in first if one.startswith("weir_mirror")} == set(expected)


def test_a_feed_with_an_unknown_lag_has_no_lag_metric(metered: Metering) -> None:
    metered.system.feeds[0] = replace(metered.system.feeds[0], lag=None, batch_ms=None, state="waiting")
    feeds = [name for name in metered.told() if name.startswith("weir_feed")]
    assert [name.partition("{")[0] for name in feeds] == [
        "weir_feed_rows_total",
        "weir_feed_restarts_total",
        "weir_feed_running",
    ]


def test_loans_are_shown_and_share_moves_are_counted(metered: Metering) -> None:
    metered.told()
    for _ in range(2):
        cycle(metered, name="bronze", load=0.9)
        cycle(metered, load=0.1)
        metered.system.redistribute()
    values = metered.told()
    assert values['weir_loan_processors{borrower="bronze",tenant="gold"}'] > 0.1
    lent = values[series("weir_class_lent_seconds_total", **GOLD)]
    assert values['weir_loan_seconds_total{borrower="bronze",tenant="gold"}'] == lent > 0
    assert values['weir_share_moves_total{kind="redistribution"}'] >= 1


def test_a_class_that_sleeps_has_no_load_and_no_queue(metered: Metering) -> None:
    cycle(metered, asleep=True)
    values = metered.told()
    names = ("weir_class_load_processors", "weir_class_demand_share_ratio", "weir_class_queue_age_seconds")
    assert [values[series(name, **GOLD)] for name in names] == [0, 0, 0]
    assert values[series("weir_class_asleep", **GOLD)] == 1


def test_operator_metrics_are_written_only_if_requested(metered: Metering) -> None:
    assert not [name for name in metered.told() if "operator" in name]
    metered.system.cycle("gold", 0.1)
    with metering(metered.system, with_operators=True, gold="first") as asked:
        values = asked.told()
    source = series("weir_operator_cost_seconds", operator="0 source:Readings", query="q", **GOLD)
    assert values[source] == pytest.approx(1e-7)


def test_each_update_reads_operators_of_a_few_classes_in_turn() -> None:
    asked: list[str] = []

    def plan_of(class_name: str) -> list[PlanLine]:
        asked.append(class_name)
        return []

    names, operators = [f"t{number}" for number in range(50)], OperatorLooks(plan_of)
    for _ in range(5):
        operators.look(names)
    assert asked == [names[place % 50] for place in range(5 * CLASSES_ASKED)]
    operators.look(names[:2])
    assert set(operators.seen) == {"t0", "t1"}


# -- text format of the metrics ----------------------------------------------------------------------------------


class ClientCollector(Collector):
    """Collector of prometheus-client for the samples of a running system."""

    def __init__(self, collector: SystemCollector) -> None:
        self.collector = collector

    def collect(self) -> Iterator[Metric]:
        for name, rows in self.collector.samples().items():
            family = BY_NAME[name]
            if family.type == "histogram":
                histogram = HistogramMetricFamily(name, family.help, labels=family.labels)
                for labels, row in rows:
                    assert isinstance(row, HistogramText)
                    histogram.add_metric(labels, row.buckets, row.sum_s)
                yield histogram
            else:
                make = CounterMetricFamily if family.type == "counter" else GaugeMetricFamily
                metric = make(name, family.help, labels=family.labels)
                for labels, row in rows:
                    assert not isinstance(row, HistogramText)
                    metric.add_metric(labels, row)
                yield metric


def test_the_metrics_text_equals_the_text_of_the_library_prometheus_client(metered: Metering) -> None:
    big = replace(COUNTED, slices=123_456_789, overrun_s=1e-7, reclaim_s=1e22, queue_work_s=float("inf"))
    cycle(metered, big)
    cycle(metered, big, name="bronze")
    metered.nodes.look()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ClientCollector(metered.collector))

    def timeless(text: bytes) -> list[str]:
        lines = text.decode().splitlines()
        return [line for line in lines if not line.startswith(("weir_view_age", "weir_service_uptime"))]

    found = timeless(metered.collector.text())
    assert found == timeless(generate_latest(registry))
    assert any('priority_class="l\\\\ast \\"one\\""' in line for line in found)


def test_exactly_the_declared_metric_families_are_written(metered: Metering) -> None:
    with metering(metered.system, with_operators=True) as asked:
        cycle(asked)
        asked.told()
        lines = asked.collector.text().decode().splitlines()
    kinds = dict(line.split()[2:4] for line in lines if line.startswith("# TYPE"))
    assert kinds == {one.name: one.type.replace("info", "gauge") for one in FAMILIES}
    written = {line.partition("{")[0].partition(" ")[0] for line in lines if not line.startswith("#")}
    # The series of loans and of failed rows are missing, because no tenant lends and no query loses rows.
    assert {name for one in FAMILIES for name in one.series} - written == {
        "weir_loan_processors",
        "weir_loan_seconds_total",
        "weir_query_failed_ratio",
    }


def test_metric_families_use_only_described_labels() -> None:
    assert {label for one in FAMILIES for label in one.labels} <= set(LABELS)
    assert len(BY_NAME) == len(FAMILIES)
    assert [one.name for one in FAMILIES if one.help.rstrip(".").count(". ")] == []


@needs_promtool
def test_promtool_finds_no_problem_in_the_metrics(metered: Metering) -> None:
    cycle(metered)
    with metering(metered.system, with_operators=True, gold="first") as asked:
        asked.told()
        done = subprocess.run(
            [promtool(), "check", "metrics"], input=asked.collector.text(), capture_output=True, check=False
        )
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_the_metrics_page_matches_the_metric_families_in_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make metrics`"


# -- keys that may read the metrics --------------------------------------------------------------------------------


def test_only_metrics_and_admin_keys_can_read_metrics(tmp_path: Path, metered: Metering) -> None:
    with served(tmp_path) as api:
        api.catalog.apply(documents_of(DOCUMENTS), "test")

        def got(key: str | None, path: str = "/metrics") -> httpx.Response:
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            return httpx.get(f"{api.url}{path}", headers=headers)

        metrics, admin, tenant = api.key("metrics"), api.key("admin"), api.key("tenant:a")
        assert got(metrics).status_code == 503
        api.service.metrics = metered.collector
        assert [got(key).status_code for key in (None, "weir_wrong", tenant)] == [401, 401, 403]
        for key in (metrics, admin):
            answer = got(key)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert "# TYPE weir_class_tuples_total counter" in answer.text
        for path in ("/v1/tenants", "/v1/tenants/a", "/v1/queries", "/v1/classes", "/v1/keys", "/v1/system"):
            assert got(metrics, path).status_code == 403, path
        assert got(metrics, "/v1/streams").json()["items"] == []


def test_metrics_return_503_if_the_system_does_not_answer(tmp_path: Path) -> None:
    system = Metered(is_away=True)
    with served(tmp_path) as api, metering(system) as found:
        api.service.metrics = found.collector
        answer = httpx.get(f"{api.url}/metrics", headers={"Authorization": f"Bearer {api.key('metrics')}"})
        assert answer.status_code == 503


def test_the_last_metrics_are_served_with_their_age_while_the_coordinator_is_away(metered: Metering) -> None:
    cycle(metered)
    before = metered.told()
    metered.system.is_away = True
    after = metered.told()
    assert after["weir_view_age_seconds"] > 0
    assert after["weir_problems"] == 1
    same = {
        name for name in before if not name.startswith(("weir_view_age", "weir_service", "weir_problems"))
    }
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
