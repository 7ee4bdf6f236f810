"""Routes of the running system: what each key sees, and what the routes return while the system is away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from actors.messages.unit_messages import Figures, Qualities, UnitCounts, UnitReport
from configs.documents.declarations import documents_of
from engine.class_.explain import PlanLine
from loadshed.cycle import CycleEnded, InputCycle, OutputCycle
from loadshed.ledger import TupleLedger
from services.api.app import make_app
from services.api.routes.live import operator
from services.api.service import Service, service_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home
from services.watch.history import FIGURES
from services.watch.watch import Watch
from tests.support.control import report_of
from tests.support.watched import CYCLE_S, EPOCH_S, InProcess, declared

DOCUMENTS = """
{kind: Stream, name: Readings, columns: {ts: timestamp, sensor: int32, temp: float64}, time: ts}
---
{kind: Tenant, name: gold, priority_class: gold}
---
{kind: Query, tenant: gold, name: q, sql: SELECT sensor FROM Readings WHERE temp > 0}
---
{kind: Tenant, name: silver, priority_class: silver}
---
{kind: Query, tenant: silver, name: q, sql: SELECT sensor FROM Readings WHERE temp > 0}
---
{kind: Tenant, name: bronze, priority_class: bronze}
---
{kind: Query, tenant: bronze, name: q, sql: SELECT sensor FROM Readings WHERE temp > 0}
---
{kind: Tenant, name: idle, priority_class: bronze}
---
{kind: Tenant, name: soon, priority_class: bronze}
---
{kind: Query, tenant: soon, name: q, sql: SELECT sensor FROM Readings WHERE temp > 0}
"""
NOW_S = 2_000_000_000.0
ALL = [
    "/v1/system",
    "/v1/classes",
    "/v1/tenants/gold/status",
    "/v1/tenants/gold/explain",
    "/v1/tenants/gold/operators",
    "/v1/tenants/gold/quality",
    "/v1/tenants/gold/ledger",
    "/v1/tenants/gold/lending",
    "/v1/ledger",
    "/v1/lending",
    "/v1/history",
]
FOR_ADMINISTRATORS = ("/v1/system", "/v1/lending")


class Running:
    """Service over a system in this process, with keys for it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        catalog = Catalog(Home(folder / "home"))
        stack.callback(catalog.close)
        catalog.apply(documents_of(DOCUMENTS), "test")
        scopes = {
            "admin": "admin",
            "gold": "tenant:gold",
            "silver": "tenant:silver",
            "feeder": "ingest:Readings",
        }
        self.keys = {
            caller: catalog.keys.create(caller, [scope], "test")[0] for caller, scope in scopes.items()
        }
        self.system = InProcess().declare(
            declared("gold", 6.0), declared("silver", 3.0), declared("bronze", 1.0)
        )
        self.now = 0.0
        self.service: Service = service_of(catalog)
        self.watch = Watch(
            self.system, lambda: ["a source is away"], clock=lambda: self.now, wall=lambda: NOW_S + self.now
        )
        self.service.watch = self.watch
        self._transport = httpx.ASGITransport(make_app(self.service))

    def see(self) -> None:
        """Poll the system, as the watch does every second."""
        self.now += 1
        self.watch.look()
        if not self.watch.problem:
            self.watch.history.note(self.watch.view())

    def ask(self, path: str, caller: str = "admin") -> httpx.Response:
        return self.ask_with({"Authorization": f"Bearer {self.keys[caller]}"}, path)

    def ask_with(self, headers: Mapping[str, str], path: str) -> httpx.Response:
        async def asked() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://weir") as client:
                return await client.get(path, headers=headers)

        return asyncio.run(asked())

    def get(self, path: str, caller: str = "admin") -> Any:
        answer = self.ask(path, caller)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def report(self, name: str, figures: Figures) -> None:
        """Report figures of a class to the control plane, without a decision of its load manager."""
        plane = self.system.world.plane
        report = UnitReport(name, 0.1, 0.1, False, False, figures)
        plane.report(plane.units_of(name)[name], [report], self.system.now)

    def decide(self, name: str, load: float) -> None:
        """End a load cycle of a class, so that its load manager decides. The decision is not reported yet."""
        self.system.now += CYCLE_S
        inputs = (InputCycle("readings", 1000, load * CYCLE_S / 1000),)
        ended = CycleEnded(CYCLE_S, inputs, (OutputCycle("q", 0.1, 10, 0.3),), 0.0)
        self.system.managers[name].handle(ended, self.system.now)

    def lend(self) -> None:
        """Give the classes gold and silver little load, and bronze much load, so that bronze borrows capacity."""
        for _ in range(3):
            self.system.cycle("gold", 0.02)
            self.system.cycle("silver", 0.28)
            self.system.cycle("bronze", 0.9)
        self.system.redistribute()
        self.system.now += 1


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with ExitStack() as stack:
        yield Running(tmp_path, stack)


# -- views of classes ------------------------------------------------------------------------------------------


def test_status_of_a_class_has_the_figures_of_weir_top(running: Running) -> None:
    ledger = TupleLedger(offered=100, delivered=60, shed=10, late=2, rejected=3, failed=1)
    running.system.cycle("gold", 0.2, (ledger, 24), p99_ms=12.5, mean_ms=4.5, response_ms={"mean": 4.0})
    running.see()
    found = running.get("/v1/tenants/gold/status")
    assert found["running"] is True
    assert found["share"] == {"original": 0.6, "now": 0.6}
    assert {name: found[name] for name in ("offered", "delivered", "shed", "late", "rejected", "failed")} == {
        "offered": 100,
        "delivered": 60,
        "shed": 10,
        "late": 2,
        "rejected": 3,
        "failed": 1,
    }
    assert (found["queued"], found["p99_ms"], found["mean_ms"], found["queries"]) == (24, 12.5, 4.5, 1)
    assert found["response_ms"] == {"mean": 4.0, "p50": 0, "p95": 0, "p99": 0, "max": 0, "l2": 0}
    assert (found["age_s"], found["at"]) == (0.0, "2033-05-18T03:33:21Z")
    everything = running.get("/v1/classes")
    assert [item["name"] for item in everything["items"]] == ["gold", "silver", "bronze"]
    assert everything["items"][0] == found


def test_tenant_sees_only_its_own_class(running: Running) -> None:
    running.see()
    assert [item["name"] for item in running.get("/v1/classes", "silver")["items"]] == ["silver"]
    assert [item["name"] for item in running.get("/v1/history", "silver")["classes"]] == ["silver"]
    running.system.cycle("gold", 0.1, (TupleLedger(5, 5), 0))
    running.system.cycle("silver", 0.1, (TupleLedger(7, 7), 0))
    running.see()
    assert [item["offered"] for item in running.get("/v1/ledger", "silver")["items"]] == [7]


@pytest.mark.parametrize(
    ("name", "state", "reason"),
    [("idle", "no queries", "it has no queries"), ("soon", "starting", "its queries are being started")],
)
def test_tenant_without_a_running_class_gets_the_reason(
    running: Running, name: str, state: str, reason: str
) -> None:
    running.see()
    assert running.get(f"/v1/tenants/{name}/status") == {
        "name": name,
        "running": False,
        "state": state,
        "reason": reason,
    }
    explained = running.get(f"/v1/tenants/{name}/explain")
    assert explained == {"tenant": name, "running": False, "given_up": False, "words": reason, "items": []}
    assert running.get(f"/v1/tenants/{name}/operators")["items"] == []
    ledger = running.get(f"/v1/tenants/{name}/ledger")
    assert (ledger["running"], ledger["items"], ledger["closes"]) == (False, [], True)
    assert running.get(f"/v1/tenants/{name}/lending")["items"] == []
    quality = running.get(f"/v1/tenants/{name}/quality")
    assert (quality["running"], quality["items"]) == (False, [])


def test_quality_of_answers_is_shown_by_query_and_by_class(running: Running) -> None:
    quality_counts = Qualities(
        ("q",), (4,), (3.5,), (1,), (0.4,), (0.25,), (0.125,), (4,), (1,), (0.1,), (50.0,)
    )
    counted = UnitCounts(1, 1.0, False, quality=quality_counts)
    utility = {"mean": 0.875, "lost": 0.125, "of_queries": 0.875, "missed": 1, "missed_pct": 25.0}
    staleness, slowdown = {"mean": 0.125, "max": 0.125}, {"mean": 12.5, "of_queries": 12.5}
    tardiness = {"due": 4, "tardy": 1, "mean_ms": 25.0, "max_ms": 100.0}
    figures: dict[str, Any] = {"utility": utility, "staleness": staleness, "slowdown": slowdown}
    figures |= {"tardiness": tardiness, "tardy_now": 0.25}
    running.system.cycle(
        "gold", 0.2, counted=counted, **figures, utility_now=0.5, slowdown_now=8.0, queue_bytes=99
    )
    running.see()
    found = running.get("/v1/tenants/gold/quality", "gold")
    assert (found["tenant"], found["running"], found["age_s"]) == ("gold", True, 0.0)
    assert found["items"] == [
        {
            "query": "q",
            "deadline_ms": 100.0,
            "graph": [{"latency_ms": 100.0, "utility": 1.0}, {"latency_ms": 200.0, "utility": 0.0}],
            "weight": 1.0,
            "answers": 4,
            "mean_ms": pytest.approx(100.0),
            "slowdown": 12.5,
            "utility": {"mean": 0.875, "missed": 1},
            "staleness": 0.125,
            "tardiness": {"answers": 4, "tardy": 1, "mean_ms": pytest.approx(25.0)},
            "failed": 0,
            "failed_now": 0.0,
            "failed_reason": None,
        }
    ]
    status = running.get("/v1/tenants/gold/status")
    wholes = ("utility", "staleness", "slowdown", "tardiness")
    assert [status[name] for name in wholes] == [utility, staleness, slowdown, tardiness]
    names = ("utility_now", "missed_now", "staleness_now", "slowdown_now", "tardy_now", "queue_bytes")
    assert [status[name] for name in names] == [0.5, 0, 0, 8, 0.25, 99]
    assert running.get("/v1/tenants/silver/quality")["items"] == []


# -- permissions, and responses without a running system -------------------------------------------------------


@pytest.mark.parametrize("path", ALL)
def test_live_routes_show_nothing_to_keys_without_permission(running: Running, path: str) -> None:
    running.see()
    assert running.ask_with({}, path).status_code == 401
    assert running.ask(path, "feeder").status_code == 403
    assert running.ask(path, "gold").status_code == (403 if path in FOR_ADMINISTRATORS else 200)
    if "/tenants/" in path:
        other = running.ask(path, "silver")
        nobody = running.ask(path.replace("gold", "nobody"), "silver")
        assert (other.status_code, nobody.status_code) == (404, 404)
        assert other.json() == {**nobody.json(), "detail": nobody.json()["detail"].replace("nobody", "gold")}
        assert running.ask(path.replace("gold", "nobody")).status_code == 404


@pytest.mark.parametrize("path", ALL)
def test_live_routes_answer_503_if_no_system_runs(running: Running, path: str) -> None:
    running.service.watch = None
    answer = running.ask(path)
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:weir:problem:not-running")


def test_last_view_is_shown_with_its_age_while_the_coordinator_is_away(running: Running) -> None:
    running.see()
    before = running.get("/v1/classes")
    running.system.is_away = True
    running.see()
    after = running.get("/v1/classes")
    assert after == before | {"age_s": 1.0, "items": [item | {"age_s": 1.0} for item in before["items"]]}
    assert running.get("/v1/system")["problems"][-1].startswith("the running system does not answer")
    for path in ("/v1/tenants/gold/explain", "/v1/lending", "/v1/tenants/gold/operators"):
        answer = running.ask(path)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


def test_live_routes_answer_503_before_the_first_poll_of_the_system(running: Running) -> None:
    running.system.is_away = True
    running.watch.start()
    assert running.ask("/v1/classes").status_code == 503
    running.watch.stop()


# -- routes of the ledger --------------------------------------------------------------------------------------


def test_ledger_shows_each_fate_by_class_and_stream_and_whether_it_closes(running: Running) -> None:
    ledger = TupleLedger(offered=100, delivered=60, shed=10, late=2, rejected=3, failed=1)
    running.system.cycle("gold", 0.2, (ledger, 24))
    running.see()
    line = {
        "tenant": "gold",
        "stream": "Readings",
        "offered": 100,
        "delivered": 60,
        "shed": 10,
        "late": 2,
        "rejected": 3,
        "failed": 1,
        "queued": 24,
        "closes": True,
        "ended": False,
    }
    found = running.get("/v1/tenants/gold/ledger", "gold")
    assert (found["items"], found["closes"], found["running"]) == ([line], True, True)
    running.system.cycle("silver", 0.2, (ledger, 25))
    running.see()
    found = running.get("/v1/ledger")
    assert found["items"] == [line, line | {"tenant": "silver", "queued": 25, "closes": False}]
    assert found["closes"] is False


# -- explanations of decisions ---------------------------------------------------------------------------------


def test_explanation_of_a_class_agrees_with_the_decisions_it_lists(running: Running) -> None:
    for _ in range(20):
        running.system.cycle("bronze", 0.9, response=3.0, results=9, results_per_s=3.0, p95_ms=90.0)
    running.see()
    found = running.get("/v1/tenants/bronze/explain?last=3")
    dropped = max(item["figures"].get("drop", 0.0) for item in found["items"])
    assert dropped > 0.1
    running.report("bronze", Figures(keep=1.0, results=9, results_per_s=3.0, p95_ms=90.0))
    running.see()
    found = running.get("/v1/tenants/bronze/explain?last=3")
    words = f"nothing is shed now, but in the last minute up to {dropped:.0%} of its input was shed."
    assert found["words"].endswith(words)
    running.now += 100
    running.see()
    assert running.get("/v1/tenants/bronze/explain?last=3")["words"].endswith("; nothing is shed.")


def test_explanation_of_the_last_minute_includes_decisions_newer_than_the_view(running: Running) -> None:
    running.report("bronze", Figures(keep=1.0, results=9, results_per_s=3.0, p95_ms=90.0))
    running.now = EPOCH_S - NOW_S
    running.see()
    for _ in range(20):
        running.decide("bronze", 0.9)
    found = running.get("/v1/tenants/bronze/explain?last=3")
    dropped = max(item["figures"].get("drop", 0.0) for item in found["items"])
    assert (
        f"nothing is shed now, but in the last minute up to {dropped:.0%} of its input was shed"
        in found["words"]
    )


def test_decision_is_explained_with_words_branch_and_figures(running: Running) -> None:
    running.system.cycle("bronze", 0.15, response=3.0)
    running.system.cycle("bronze", 0.2, response=3.0)
    running.see()
    found = running.get("/v1/tenants/bronze/explain?last=1")
    *moves, last = found["items"]
    explanation = running.system.managers["bronze"].explanations[-1]
    assert [move["branch"] for move in moves] == ["classes set"]
    assert (last["about"], last["unit"], last["branch"]) == ("load", "bronze", "drop more")
    assert last["words"] == explanation.words()
    figures = last["figures"]
    assert figures["offered_load"] == pytest.approx(explanation.offered_load)
    assert figures["load"] == pytest.approx(explanation.load)
    assert figures["drop"] == pytest.approx(1 - explanation.after.keep)
    assert figures["drop"] >= figures["drop_before"] > 0
    assert (figures["verdict"], figures["response_of_target"]) == ("critical", pytest.approx(3.0))
    assert len(running.get("/v1/tenants/bronze/explain?last=5")["items"]) == 1 + 2
    assert running.ask("/v1/tenants/bronze/explain?last=0").status_code == 422


def test_only_administrators_see_the_names_of_lenders_and_borrowers(running: Running) -> None:
    running.lend()
    running.see()
    *_, move = [
        item for item in running.get("/v1/tenants/gold/explain")["items"] if item["about"] == "shares"
    ]
    loan = next(loan for loan in move["figures"]["loans"] if loan["lender"] == "gold")
    assert (move["branch"], loan["borrower"]) == ("redistribution", "bronze")
    assert f"gold lends {loan['share']:.3f} to bronze" in move["words"]
    assert set(move["figures"]["after"]) == {"gold", "silver", "bronze"}
    *_, own = [
        item for item in running.get("/v1/tenants/gold/explain", "gold")["items"] if item["about"] == "shares"
    ]
    assert own["figures"]["after"] == {
        "gold": move["figures"]["after"]["gold"],
        "another class": pytest.approx(1 - move["figures"]["after"]["gold"]),
    }
    assert own["figures"]["loans"] == [
        {"lender": "gold", "borrower": "another class", "share": pytest.approx(loan["share"])}
    ]
    assert list(own["figures"]["usage"]) == ["gold"]
    assert own["at"] == move["at"]


@pytest.mark.parametrize("path", ["explain?last=1000", "lending", "ledger", "status", "operators", "quality"])
def test_no_name_of_another_class_reaches_a_tenant(running: Running, path: str) -> None:
    running.lend()
    plane = running.system.world.plane
    host = plane.units_of("silver")["silver"]
    plane.report(host, [report_of("silver", 2.0, 0.9, reclaim=True)], running.system.now)
    running.see()
    text = running.ask(f"/v1/tenants/gold/{path}", "gold").text
    assert "silver" not in text
    assert "bronze" not in text


def test_operators_are_shown_with_their_measurements(running: Running) -> None:
    running.see()
    found = running.get("/v1/tenants/gold/operators", "gold")
    assert found["items"] == [
        {
            "number": 0,
            "name": "source:Readings",
            "feeds": [1],
            "queries": ["q"],
            "tuples": 10,
            "calls": 0,
            "measured": False,
            "cost_us": 0.1,
            "selectivity": 1.0,
            "rate": None,
            "queued": 0,
        }
    ]


@pytest.mark.parametrize(
    ("tuples", "calls", "is_measured"), [(0, 0, False), (999, 9, False), (1000, 10, True), (0, 1, True)]
)
def test_operator_figures_are_marked_as_unmeasured_until_enough_tuples_or_calls(
    tuples: int, calls: int, is_measured: bool
) -> None:
    line = PlanLine(0, "panes", (), ("q",), tuples, 0.1, 1.0, 1.0, 0, calls)
    assert operator(line).measured is is_measured


# -- lending, history, and the system --------------------------------------------------------------------------


def test_lending_is_shown_by_pair_and_to_a_tenant_without_names(running: Running) -> None:
    running.lend()
    running.see()
    found = running.get("/v1/lending")
    pairs = {(loan["lender"], loan["borrower"]): loan for loan in found["items"]}
    assert ("gold", "bronze") in pairs
    assert [move["branch"] for move in found["moves"]][-1] == "redistribution"
    own = running.get("/v1/tenants/gold/lending", "gold")
    (line,) = own["items"]
    assert (line["lender"], line["borrower"]) == ("gold", "another class")
    lent = [loan["lent_s"] for (lender, _), loan in pairs.items() if lender == "gold"]
    assert line["lent_s"] == pytest.approx(sum(lent))
    assert min(line["lent_s"], line["now"]) > 0
    assert running.get("/v1/tenants/gold/lending")["items"] == [
        loan for loan in found["items"] if "gold" in (loan["lender"], loan["borrower"])
    ]


def test_history_has_the_same_times_for_all_requested_classes(running: Running) -> None:
    for _ in range(3):
        running.system.cycle("gold", 0.2, p50_ms=3.0, p95_ms=5.0)
        running.see()
    found = running.get("/v1/history?seconds=2&tenant=gold&tenant=bronze&tenant=nobody")
    assert found["at"] == [NOW_S + 2, NOW_S + 3]
    assert [class_["name"] for class_ in found["classes"]] == ["gold", "bronze"]
    gold = found["classes"][0]
    assert set(gold["series"]) == set(FIGURES)
    assert {len(values) for values in gold["series"].values()} == {2}
    assert (gold["series"]["p95_ms"], gold["delay_target_ms"]) == ([5.0, 5.0], 100.0)
    assert (found["left_out"], found["interval_s"]) == (0, 1.0)
    assert running.ask("/v1/history?seconds=601").status_code == 422


def test_system_is_shown_with_its_nodes_units_and_problems(running: Running) -> None:
    running.see()
    found = running.get("/v1/system")
    assert found["nodes"] == [{"name": "n1", "lanes": 1, "endpoint": "grpc://127.0.0.1:2"}]
    assert (found["gateway"], found["classes"], found["name"]) == ("grpc://127.0.0.1:2", 3, "test")
    assert [unit["tenant"] for unit in found["units"]] == ["gold", "silver", "bronze"]
    assert (found["problems"], found["unplaced"], found["failures"]) == (["a source is away"], [], [])
    assert found["uptime_s"] == 1.0


def test_unit_that_was_given_up_is_shown_with_its_reason(running: Running) -> None:
    plane = running.system.world.plane
    report = replace(report_of("gold", 0, 0, asleep=True), problem="given up: RuntimeError('broken')")
    plane.report(plane.units_of("gold")["gold"], [report], 0.1)
    running.see()
    problem = "gold: given up: RuntimeError('broken')"
    assert running.get("/v1/tenants/gold/status")["problems"] == [problem]
    assert running.get("/v1/system")["problems"] == ["a source is away", problem]


def test_readiness_counts_classes_in_trouble_without_their_names(running: Running) -> None:
    running.see()
    assert running.ask_with({}, "/readyz").json() == {"status": "ready"}
    plane = running.system.world.plane
    broken = replace(report_of("gold", 0, 0, asleep=True), problem="given up: broken", trouble="given up")
    plane.report(plane.units_of("gold")["gold"], [broken], 0.1)
    running.system.cycle("silver", 0.9, (TupleLedger(offered=9), 9), queue_age_s=54.0)
    running.see()
    assert running.ask_with({}, "/readyz").json() == {
        "status": "ready",
        "classes": {"given up": 1, "starved": 1},
    }
    states = {item["name"]: item["state"] for item in running.get("/v1/classes")["items"]}
    assert states == {"gold": "given up", "silver": "starved", "bronze": "starting"}
    assert [problem.partition(":")[0] for problem in running.get("/v1/system")["problems"]] == [
        "a source is away",
        "gold",
        "silver",
    ]


def test_class_that_was_given_up_still_has_an_explanation(running: Running) -> None:
    running.system.managers.pop("gold")  # The host has removed the unit of the class.
    plane = running.system.world.plane
    broken = replace(report_of("gold", 0, 0, asleep=True), problem="given up: broken", trouble="given up")
    plane.report(plane.units_of("gold")["gold"], [broken], 0.1)
    running.see()
    words = running.get("/v1/tenants/gold/explain")["words"]
    assert words.startswith("It is given up: broken; ")
    for path in ("explain", "operators", "lending"):
        assert running.ask(f"/v1/tenants/gold/{path}").status_code == 200
    assert running.get("/v1/ledger")["given_up"] == ["gold"]


def test_explanation_of_a_class_removed_during_the_request_answers_503(running: Running) -> None:
    running.see()
    running.system.remove("gold")
    assert running.ask("/v1/tenants/gold/explain").status_code == 503


def test_times_of_decisions_are_wall_clock_times(running: Running) -> None:
    running.system.cycle("gold", 0.2)
    running.see()
    *_, last = running.get("/v1/tenants/gold/explain")["items"]
    assert running.system.now == pytest.approx(0.15)
    assert last["at"] == "1970-01-12T13:46:40.150000Z"
    assert EPOCH_S == 1_000_000
