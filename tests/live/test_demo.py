"""`weir demo`, fed by Spark, and `weir top` for real: exit code, result, account, and what Ctrl-C leaves behind."""

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
# Of a simulated class, whose results tools read as well.
CLASS_FIELDS = {
    *("name", "priority", "delay_target_ms", "offered", "delivered", "shed", "late", "rejected", "failed"),
    *("queued", "loss_pct", "results", "response_ms", "slowdown", "share", "headroom_last", "target_met_pct"),
    *("memory", "utility", "staleness", "tardiness", "queries"),
}


def weir(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    # A process group of its own, as a shell gives a command: Ctrl-C is for all of it.
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
    """Processes that were started, however indirectly, by a command in the folder."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if f"{MARK}={folder}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text())
    return found


def systems() -> set[str]:
    return {folder.name.removeprefix(prefix()) for folder in shared_memory().glob(f"{prefix()}*")}


def system_of(folder: Path) -> str:
    """Return the name of the system that a command in the folder has started; others may be running."""
    (name,) = {name for name in systems() for line in descendants(folder) if f"weir-{name}-" in line}
    return name


@pytest.mark.spark
def test_a_demo_accounts_for_every_tuple_and_its_exit_code_tells_of_its_promises(tmp_path: Path) -> None:
    arguments = ("--scenario", "sc", "--load", "0.1", "--seconds", "6", "--result", "result.json")
    done = weir("demo", *arguments, folder=tmp_path)
    printed, problems = done.communicate()
    assert (done.returncode in (0, 1), problems) == (True, ""), printed
    result: dict[str, Any] = json.loads((tmp_path / "result.json").read_text("utf-8"))
    # Of response times nothing is asserted: other tests use the processors, too.
    promises = {one["text"]: one["kept"] for one in result["promises"]}
    assert promises["the ledger closes"]
    assert done.returncode == (0 if all(promises.values()) else 1)
    assert (result["scenario"], result["manager"], result["seconds"]) == ("sc", "dilos", 6)
    assert result["ledger_closed"] is True
    assert result["calibration"]["tuples_per_s"] > 0
    for one in result["classes"]:
        assert one.keys() == CLASS_FIELDS
        fates = sum(one[fate] for fate in ("delivered", "shed", "late", "rejected", "failed", "queued"))
        assert one["offered"] == result["offered"][one["name"]]["accepted"] == fates > 0
        assert one["results"] > 0
        # Of windows, and by what answers cost: measured as in the simulator, and told as well.
        assert one["slowdown"]["mean"] > 0
        assert one["tardiness"]["due"] > 0
        assert len(one["queries"]) == 11
        assert all(told["deadline_ms"] == one["delay_target_ms"] for told in one["queries"].values())
    page = (tmp_path / "weir-demo" / "sc-dilos.html").read_text("utf-8")
    assert page.count("<svg") == 5


@pytest.mark.spark
@needs_promtool
def test_every_panel_and_rule_has_an_answer_of_a_real_prometheus_under_overload(tmp_path: Path) -> None:
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
    asked = [(one["dashboard"], one["panel"]) for one in seen["panels"]]
    assert asked == [(board.uid, panel.title) for board in BOARDS for panel in board.panels]
    # Where it takes something for there to be data, this scenario has it: it lends, sheds, and tells of operators.
    # No mirror is declared and no row fails: those panels are asked for in `tests/unit/services/dashboards/test_dashboard_queries.py`.
    # Whether an alert is pending by then is up to the machine.
    empty = [one for one in seen["panels"] if not one["series"] and one["panel"] != ALERTING.panels[0].title]
    assert [one for one in empty if one["empty_unless"] not in {WITH_MIRRORS, WITH_FAILURES}] == []
    assert [one for one in seen["rules"] if (one["health"], one["error"]) != ("ok", "")] == []
    assert [one["name"] for one in seen["rules"] if one["kind"] == "recording" and not one["series"]] == []
    # Whoever sheds on purpose wakes nobody, and neither does what is not wrong.
    quiet = {"WeirLedgerNotClosed", "WeirFeedNotRunning", "WeirHostRestarting", "WeirNotSeen"}
    assert {one["state"] for one in seen["rules"] if one["name"] in quiet} == {"inactive"}
    page = (tmp_path / "weir-demo" / "overload-dilos.html").read_text("utf-8")
    assert page.count("<img") == len(asked)
    assert descendants(tmp_path) == []


@pytest.mark.spark
@pytest.mark.parametrize(
    ("phase", "how", "code"),
    [("start", signal.SIGINT, 130), ("Spark", signal.SIGINT, 130), ("Spark", signal.SIGTERM, 143)],
)
def test_a_signal_ends_a_demo_and_everything_that_it_has_started(
    phase: str, how: signal.Signals, code: int, tmp_path: Path
) -> None:
    demo = weir("demo", folder=tmp_path)
    assert demo.stdout is not None
    assert any(line.startswith(f"{phase} ") for line in demo.stdout)
    mine = system_of(tmp_path)
    # Ctrl-C is for the whole group.
    (os.killpg if how == signal.SIGINT else os.kill)(demo.pid, how)
    printed, problems = demo.communicate()
    assert (demo.returncode, "Traceback" in problems) == (code, False), printed + problems
    assert mine not in systems()
    assert descendants(tmp_path) == []


def test_top_shows_the_classes_of_a_system_as_they_are(system: System, tmp_path: Path) -> None:
    queries = {"q": "SELECT sensor FROM measured"}
    settings = {"priority": 2, "delay_target_ms": 100, "streams": [READINGS], "queries": queries}
    system.apply([LiveClass.model_validate({"name": "watched"} | settings)])
    try:
        eventually(lambda: system.status().system.units["watched"].report, "the first report")
        shown = weir("top", "-o", "json", "--address", system.address, folder=tmp_path)
        printed, problems = shown.communicate()
        assert shown.returncode == 0, problems
        (one,) = [one for one in json.loads(printed)["classes"] if one["name"] == "watched"]
        assert (one["priority"], one["delay_target_ms"], one["offered"]) == (2, 100, 0)
        once = weir("top", "--once", "--address", system.address, folder=tmp_path).communicate()[0]
        assert f"system {system.name}: " in once
        assert any(line.split()[:1] == ["watched"] for line in once.splitlines())
    finally:
        system.remove_class("watched")


def test_top_says_where_nothing_runs(tmp_path: Path) -> None:
    shown = weir("top", "--address", "127.0.0.1:1", folder=tmp_path)
    _, problems = shown.communicate()
    assert shown.returncode == 2
    assert "no Ray cluster answers there" in problems
