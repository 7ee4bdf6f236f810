"""`weir plan`, as a user meets it: here with everything assumed, and at a service; what it prints, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from configs.classes.live_class import LiveSettings
from configs.documents.declarations import documents_of
from services.catalog.catalog import opened
from services.common.weir_home import Home
from services.plan.planner import Planner
from tests.support.served import served
from tests.support.terminal import Terminal

HERE = """
{kind: Stream, name: ticks, columns: {ts: timestamp, value: int64}, time: ts,
 source: {format: rate, options: {rowsPerSecond: 1000}, sql: "SELECT timestamp AS ts, value FROM source"}}
---
{kind: Tenant, name: acme, priority_class: gold}
---
{kind: Query, tenant: acme, name: odd, sql: SELECT * FROM ticks WHERE value % 2 = 1}
"""
NEW = """
{kind: PriorityClass, name: strict, priority: 1, delay_target_ms: 500, max_drop: 0}
---
{kind: Tenant, name: late, priority_class: strict}
---
{kind: Query, tenant: late, name: large, sql: SELECT * FROM ticks WHERE value > 3}
"""
FLOOD = ("--rate", "ticks=1e9")


@pytest.fixture
def planning(terminal: Terminal) -> Terminal:
    """Terminal that plans the documents in new.yaml."""
    terminal.set_columns(150)
    Path("new.yaml").write_text(NEW, encoding="utf-8")
    return replace(terminal, begins=("plan", "-f", "new.yaml"))


@pytest.fixture(params=["here", "service"])
def weir(
    request: pytest.FixtureRequest, planning: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Terminal]:
    if request.param == "here":
        with opened(Home(tmp_path / "home")) as catalog:
            catalog.apply(documents_of(HERE), "test")
        yield planning
        return
    with served(tmp_path / "served") as found:
        found.catalog.apply(documents_of(HERE), "test")
        found.service.planner = Planner(found.catalog, LiveSettings())
        monkeypatch.setenv("WEIR_ENDPOINT", found.url)
        monkeypatch.setenv("WEIR_API_KEY", found.key("admin"))
        yield planning


def test_what_holds_ends_with_0_and_what_does_not_with_1(weir: Terminal) -> None:
    code, out, err = weir()
    assert (code, err) == (0, "")
    assert "plan: all targets hold" in out
    assert "assumed: stream ticks: 1,000 rows a second, as its source says" in out
    code, out, err = weir(*FLOOD)
    assert (code, err) == (1, "")
    assert "plan: targets would be missed" in out
    assert "class late would miss its delay target of 500 ms" in out


def test_the_plan_is_the_same_however_it_is_shown(weir: Terminal) -> None:
    told = json.loads(weir("-o", "json", *FLOOD)[1])
    assert told == yaml.safe_load(weir("-o", "yaml", *FLOOD)[1])
    assert [(one["name"], one["planned"], one["holds"]) for one in told["classes"]] == [
        ("acme", False, True),
        ("late", True, False),
    ]


@pytest.mark.parametrize("wrong", ["ticks", "ticks=many", "tick=5", "ticks=-1"])
def test_a_rate_that_cannot_be_is_wrong_input(weir: Terminal, wrong: str) -> None:
    code, out, err = weir("--rate", wrong)
    assert (code, out) == (2, "")
    assert "error:" in err
    assert "hint:" in err


def test_documents_that_cannot_be_are_wrong_input(weir: Terminal) -> None:
    Path("new.yaml").write_text("{kind: Tenant, name: late, priority_class: goldd}", encoding="utf-8")
    code, out, err = weir()
    assert (code, out) == (2, "")
    assert "new.yaml, document 1 (Tenant late)" in err
    assert "did you mean gold?" in err


def test_lanes_are_those_that_are_said_where_nothing_runs(planning: Terminal, tmp_path: Path) -> None:
    with opened(Home(tmp_path / "home")) as catalog:
        catalog.apply(documents_of(HERE), "test")
    busy = [json.loads(planning("-o", "json", *FLOOD, "--lanes", lanes)[1])["busy"] for lanes in ("1", "4")]
    assert busy[1] < busy[0]


def test_a_service_has_lanes_of_its_own(weir: Terminal, request: pytest.FixtureRequest) -> None:
    expected = 2 if request.node.name.endswith("[service]") else 0
    assert weir("--lanes", "2")[0] == expected
