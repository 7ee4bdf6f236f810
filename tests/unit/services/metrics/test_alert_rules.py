"""Prometheus rules of the chart: alerts fire only when they should, use existing metrics, and link to the runbook."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from services.metrics.families import FAMILIES
from tests.support.checkout import ROOT
from tests.support.promtool import needs_promtool, promtool

FILES = sorted(ROOT.glob("helm/weir/rules/*.yaml"))
RUNBOOK = "docs/runbook.md"
NAME = re.compile(r"(?<![:\w])weir_\w+")


def rules() -> list[dict[str, Any]]:
    groups = [group for path in FILES for group in yaml.safe_load(path.read_text("utf-8"))["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def run(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([promtool(), *arguments], capture_output=True, text=True, check=False, cwd=ROOT)
    return done.returncode, done.stdout + done.stderr


@needs_promtool
def test_promtool_can_read_the_rules() -> None:
    code, output = run("check", "rules", "--lint=all", "--lint-fatal", *map(str, FILES))
    assert code == 0, output


@pytest.mark.slow
@needs_promtool
def test_alert_rules_pass_their_promtool_tests() -> None:
    code, output = run("test", "rules", "tests/metrics/rules.yaml")
    assert code == 0, output


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() -> None:
    tests = yaml.safe_load((ROOT / "tests/metrics/rules.yaml").read_text("utf-8"))["tests"]
    cases = [case for test in tests for case in test.get("alert_rule_test", ())]
    fires = {case["alertname"] for case in cases if case["exp_alerts"]}
    names = {one["alert"] for one in alerts()}
    assert fires == names
    # Every alert needs a test in which the alert must not fire: a separate test, or the test that expects no alert at all.
    silent = {case["alertname"] for case in cases if not case["exp_alerts"]}
    assert {"WeirTargetMissedFast", "WeirLedgerNotClosed", "WeirOwnerNotRepaid", "WeirNotSeen"} <= silent
    assert any("ALERTS" in check["expr"] for test in tests for check in test.get("promql_expr_test", ()))


def test_rules_use_only_existing_series() -> None:
    known = {series for one in FAMILIES for series in one.series}
    recorded = {one["record"] for one in rules() if "record" in one}
    asked = {name for one in rules() for name in NAME.findall(one["expr"])}
    assert asked <= known
    of_rules = {name for one in rules() for name in re.findall(r"\w+:weir_\w+:\w+", one["expr"])}
    assert of_rules <= recorded


@pytest.mark.parametrize("alert", alerts(), ids=lambda one: one["alert"])
def test_an_alert_links_to_its_section_of_the_runbook(alert: dict[str, Any]) -> None:
    sections = re.findall(r"^## (\w+)$", (ROOT / RUNBOOK).read_text("utf-8"), re.MULTILINE)
    name = alert["alert"]
    assert alert["annotations"]["runbook_url"] == f"{RUNBOOK}#{name.lower()}"
    assert name in sections
    assert alert["labels"]["severity"] in ("page", "ticket")


def test_the_runbook_covers_all_alerts_and_names_existing_series() -> None:
    text = (ROOT / RUNBOOK).read_text("utf-8")
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == [one["alert"] for one in alerts()]
    known = {series for one in FAMILIES for series in one.series}
    assert set(NAME.findall(text)) <= known
