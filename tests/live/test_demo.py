"""`weir demo`, fed by Spark, and `weir top`: exit codes, results, the ledger, and cleanup after Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from actors.runtime.run_dirs import prefix, shared_memory
from actors.system import System
from configs.classes.live_class import LiveClass
from services.dashboards.all import BOARDS
from services.dashboards.overview import ALERTING
from services.dashboards.streams import WITH_MIRRORS
from services.dashboards.tenant import WITH_FAILURES
from tests.support.promtool import needs_promtool
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
WEIR = [sys.executable, "-c", "from services.cli.main import main; main()"]
MARK = "STARTED_IN"
READINGS = "CREATE STREAM measured (ts timestamp, sensor int32, WATERMARK FOR ts AS ts)"
# Fields of a class in the result, equal to those of a simulated class, because tools read both.
CLASS_FIELDS = {
    *("name", "priority", "delay_target_ms", "offered", "delivered", "shed", "late", "rejected", "failed"),
    *("queued", "loss_pct", "results", "response_ms", "slowdown", "share", "headroom_last", "target_met_pct"),
    *("memory", "utility", "staleness", "unevenness", "tardiness", "queries"),
}


def weir(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    # The command gets its own process group, as in a shell, because Ctrl-C goes to the whole group.
    return subprocess.Popen(
        [*WEIR, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), MARK: str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def descendants(folder: Path) -> list[str]:
    """Return the processes that a command in the folder has started, directly or indirectly."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if f"{MARK}={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text())
    return found


def systems() -> set[str]:
    return {folder.name.removeprefix(prefix()) for folder in shared_memory().glob(f"{prefix()}*")}


def system_of(folder: Path) -> str:
    """Return the name of the system that a command in the folder has started; other systems may be running."""
    (name,) = {name for name in systems() for line in descendants(folder) if f"weir-{name}-" in line}
    return name


@pytest.mark.spark
def test_demo_accounts_for_every_tuple_and_its_exit_code_reports_its_promises(tmp_path: Path) -> None:
    arguments = ("--scenario", "sc", "--load", "0.1", "--seconds", "6", "--result", "result.json")
    done = weir("demo", *arguments, folder=tmp_path)
    printed, problems = done.communicate()
    assert (done.returncode in (0, 1), problems) == (True, ""), printed
    result: dict[str, Any] = json.loads((tmp_path / "result.json").read_text("utf-8"))
    # Response times are not checked, because other tests use the processors at the same time.
    promises = {promise["text"]: promise["kept"] for promise in result["promises"]}
    assert promises["the ledger closes"]
    assert done.returncode == (0 if all(promises.values()) else 1)
    assert (result["scenario"], result["manager"], result["seconds"]) == ("sc", "dilos", 6)
    assert result["ledger_closed"] is True
    assert result["calibration"]["tuples_per_s"] > 0
    for class_ in result["classes"]:
        assert class_.keys() == CLASS_FIELDS
        fates = sum(class_[fate] for fate in ("delivered", "shed", "late", "rejected", "failed", "queued"))
        assert class_["offered"] == result["offered"][class_["name"]]["accepted"] == fates > 0
        assert class_["results"] > 0
        # Slowdown and tardiness are measured live as in the simulator.
        assert class_["slowdown"]["mean"] > 0
        assert class_["tardiness"]["due"] > 0
        assert len(class_["queries"]) == 11
        assert all(query["deadline_ms"] == class_["delay_target_ms"] for query in class_["queries"].values())
    page = (tmp_path / "weir-demo" / "sc-dilos.html").read_text("utf-8")
    assert page.count("<svg") == 5


@pytest.mark.spark
@needs_promtool
def test_every_panel_and_rule_has_data_in_a_real_prometheus_under_overload(tmp_path: Path) -> None:
    arguments = (
        "--scenario",
        "overload",
        "--load",
        "2",
        "--seconds",
        "25",
        "--prometheus",
        "--result",
        "r.json",
    )
    done = weir("demo", *arguments, folder=tmp_path)
    printed, problems = done.communicate()
    assert (done.returncode in (0, 1), problems) == (True, ""), printed
    seen = json.loads((tmp_path / "r.json").read_text("utf-8"))["prometheus"]
    asked = [(panel["dashboard"], panel["panel"]) for panel in seen["panels"]]
    assert asked == [(board.uid, panel.title) for board in BOARDS for panel in board.panels]
    # The scenario has operators and causes lending and shedding, so panels about these have data.
    # The scenario has no mirror and no failed row. `tests/unit/services/dashboards/test_dashboard_queries.py` tests panels about both.
    # An alert may be pending or not, depending on the machine.
    empty = [
        panel
        for panel in seen["panels"]
        if not panel["series"] and panel["panel"] != ALERTING.panels[0].title
    ]
    assert [panel for panel in empty if panel["empty_unless"] not in {WITH_MIRRORS, WITH_FAILURES}] == []
    assert [rule for rule in seen["rules"] if (rule["health"], rule["error"]) != ("ok", "")] == []
    assert [
        rule["name"] for rule in seen["rules"] if rule["kind"] == "recording" and not rule["series"]
    ] == []
    # Alerts that must not fire, because the demonstration sheds on purpose, which is not a fault.
    quiet = {"WeirLedgerNotClosed", "WeirFeedNotRunning", "WeirHostRestarting", "WeirNotSeen"}
    assert {rule["state"] for rule in seen["rules"] if rule["name"] in quiet} == {"inactive"}
    page = (tmp_path / "weir-demo" / "overload-dilos.html").read_text("utf-8")
    assert page.count("<img") == len(asked)
    assert descendants(tmp_path) == []


@pytest.mark.spark
@pytest.mark.parametrize(
    ("phase", "how", "code"),
    [("start", signal.SIGINT, 130), ("Spark", signal.SIGINT, 130), ("Spark", signal.SIGTERM, 143)],
)
def test_signal_ends_a_demo_and_all_its_processes(
    phase: str, how: signal.Signals, code: int, tmp_path: Path
) -> None:
    demo = weir("demo", folder=tmp_path)
    assert demo.stdout is not None
    assert any(line.startswith(f"{phase} ") for line in demo.stdout)
    mine = system_of(tmp_path)
    # Send the signal to the whole process group, as a shell does at Ctrl-C.
    (os.killpg if how == signal.SIGINT else os.kill)(demo.pid, how)
    printed, problems = demo.communicate()
    assert (demo.returncode, "Traceback" in problems) == (code, False), printed + problems
    assert mine not in systems()
    assert descendants(tmp_path) == []


def test_top_shows_the_classes_of_a_system(system: System, tmp_path: Path) -> None:
    queries = {"q": "SELECT sensor FROM measured"}
    settings = {"priority": 2, "delay_target_ms": 100, "streams": [READINGS], "queries": queries}
    system.apply([LiveClass.model_validate({"name": "watched"} | settings)])
    try:
        eventually(lambda: system.status().system.units["watched"].report, "the first report")
        shown = weir("top", "-o", "json", "--address", system.address, folder=tmp_path)
        printed, problems = shown.communicate()
        assert shown.returncode == 0, problems
        (watched,) = [view for view in json.loads(printed)["classes"] if view["name"] == "watched"]
        assert (watched["priority"], watched["delay_target_ms"], watched["offered"]) == (2, 100, 0)
        once = weir("top", "--once", "--address", system.address, folder=tmp_path).communicate()[0]
        assert f"system {system.name}: " in once
        assert any(line.split()[:1] == ["watched"] for line in once.splitlines())
    finally:
        system.remove_class("watched")


def test_top_reports_that_no_cluster_answers(tmp_path: Path) -> None:
    shown = weir("top", "--address", "127.0.0.1:1", folder=tmp_path)
    _, problems = shown.communicate()
    assert shown.returncode == 2
    assert "no Ray cluster answers at this address" in problems
