"""`weir plan` without a service, where it assumes all rates and costs, and with a service: output and exit codes."""

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


def test_weir_plan_exits_with_0_if_all_targets_hold_and_otherwise_with_1(weir: Terminal) -> None:
    code, out, err = weir()
    assert (code, err) == (0, "")
    assert "plan: all targets hold" in out
    assert "assumed: stream ticks: 1,000 rows per second, from the options of its source" in out
    code, out, err = weir(*FLOOD)
    assert (code, err) == (1, "")
    assert "plan: targets would be missed" in out
    assert "class late would miss its delay target of 500 ms" in out


def test_json_and_yaml_output_show_the_same_admission_plan(weir: Terminal) -> None:
    printed_plan = json.loads(weir("-o", "json", *FLOOD)[1])
    assert printed_plan == yaml.safe_load(weir("-o", "yaml", *FLOOD)[1])
    assert [(one["name"], one["planned"], one["holds"]) for one in printed_plan["classes"]] == [
        ("acme", False, True),
        ("late", True, False),
    ]


@pytest.mark.parametrize("wrong", ["ticks", "ticks=many", "tick=5", "ticks=-1"])
def test_weir_plan_refuses_an_invalid_rate(weir: Terminal, wrong: str) -> None:
    code, out, err = weir("--rate", wrong)
    assert (code, out) == (2, "")
    assert "error:" in err
    assert "hint:" in err


def test_weir_plan_refuses_invalid_documents(weir: Terminal) -> None:
    Path("new.yaml").write_text("{kind: Tenant, name: late, priority_class: goldd}", encoding="utf-8")
    code, out, err = weir()
    assert (code, out) == (2, "")
    assert "new.yaml, document 1 (Tenant late)" in err
    assert "did you mean gold?" in err


def test_without_a_service_the_option_lanes_sets_the_lanes(planning: Terminal, tmp_path: Path) -> None:
    with opened(Home(tmp_path / "home")) as catalog:
        catalog.apply(documents_of(HERE), "test")
    busy = [json.loads(planning("-o", "json", *FLOOD, "--lanes", lanes)[1])["busy"] for lanes in ("1", "4")]
    assert busy[1] < busy[0]


def test_the_option_lanes_is_refused_with_a_service(weir: Terminal, request: pytest.FixtureRequest) -> None:
    expected = 2 if request.node.name.endswith("[service]") else 0
    assert weir("--lanes", "2")[0] == expected
