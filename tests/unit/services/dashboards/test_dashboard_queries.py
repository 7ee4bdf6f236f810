"""Queries of the dashboards: Prometheus can parse them, and their results are what the panels promise to show."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import pytest
import yaml

from services.metrics.families import ACTORS, BRANCHES, FAMILIES, FATES, MOVES, RESULTS
from tests.support.dashboard_documents import DOCUMENTS, Json, exprs, panels
from tests.support.promtool import needs_promtool, promtool

# Values in place of Grafana's variables.
VALUES = {"$__rate_interval": "5m", "$__range": "1h", "$namespace": ".*", "$release": ".*", "$tenant": ".*", "$class": ".*", "$query": ".*", "$stream": ".*", "$node": ".*"}  # fmt: skip


@needs_promtool
def test_promtool_parses_every_dashboard_query(tmp_path: Path) -> None:
    """Write each query as a recording rule, because promtool parses the expressions of rules."""
    program = promtool()
    asked = [(document["uid"], title, expr) for document in DOCUMENTS for title, expr in exprs(document)]
    rules = [
        {"record": f"weir:panel:{number}", "expr": substituted(expr), "labels": {"panel": f"{uid} {title}"}}
        for number, (uid, title, expr) in enumerate(asked)
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")
    done = subprocess.run([program, "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{len(rules)} rules found" in done.stdout
    file.write_text(file.read_text(encoding="utf-8").replace("rate(", "rat(", 1), encoding="utf-8")
    assert (
        subprocess.run([program, "check", "rules", str(file)], capture_output=True, check=False).returncode
        != 0
    )


# Figures of two tenants. Tenant au borrows, with all answers in time. Tenant cu lends, with half its answers in time and input lost.
WORLD = {
    'weir_class_response_target_seconds{tenant="au", priority_class="gold"}': "0.3x20",
    'weir_class_response_target_seconds{tenant="cu", priority_class="bronze"}': "1x20",
    'weir_class_results_in_time_total{tenant="au", priority_class="gold"}': "0+600x20",
    'weir_class_results_in_time_total{tenant="cu", priority_class="bronze"}': "0+300x20",
    'weir_class_response_seconds_count{tenant="au", priority_class="gold"}': "0+600x20",
    'weir_class_response_seconds_count{tenant="cu", priority_class="bronze"}': "0+600x20",
    'weir_class_offered_tuples_total{tenant="cu", priority_class="bronze", stream="s"}': "0+1000x20",
    'weir_class_tuples_total{tenant="cu", priority_class="bronze", stream="s", fate="delivered"}': "0+800x20",
    'weir_class_tuples_total{tenant="cu", priority_class="bronze", stream="s", fate="shed"}': "0+150x20",
    'weir_class_tuples_total{tenant="cu", priority_class="bronze", stream="s", fate="late"}': "0+50x20",
    'weir_class_current_share_ratio{tenant="au", priority_class="gold"}': "0.75x20",
    'weir_class_current_share_ratio{tenant="cu", priority_class="bronze"}': "0.25x20",
    'weir_class_nominal_share_ratio{tenant="au", priority_class="gold"}': "0.5x20",
    'weir_class_nominal_share_ratio{tenant="cu", priority_class="bronze"}': "0.5x20",
    'weir_loan_processors{tenant="cu", borrower="au"}': "0.5x20",
    'weir_mirror_objects{stream="m"}': "40x20",
    'weir_mirror_failing_objects{stream="m"}': "10x20",
    'weir_class_response_seconds_bucket{tenant="cu", priority_class="bronze", le="1"}': "0+300x20",
    'weir_class_response_seconds_bucket{tenant="cu", priority_class="bronze", le="2"}': "0+600x20",
    'weir_class_response_seconds_bucket{tenant="cu", priority_class="bronze", le="+Inf"}': "0+600x20",
}
EXPECTED: dict[tuple[str, str, int], dict[str, float]] = {
    ("weir-overview", "Answers within target", 0): {"{}": 0.75},
    ("weir-overview", "Tenants too slow", 0): {"{}": 1},
    ("weir-overview", "Tenants at max_drop", 0): {"{}": 0},
    ("weir-overview", "Answers within target by priority class", 0): {
        '{priority_class="gold"}': 1,
        '{priority_class="bronze"}': 0.5,
    },
    ("weir-overview", "Input lost by priority class", 0): {'{priority_class="bronze"}': 0.2},
    ("weir-overview", "Slowest tenants, relative to their targets", 0): {'{tenant="cu"}': 1.9},
    ("weir-control", "Above and below the original share", 0): {'{tenant="au"}': 0.25},
    ("weir-control", "Above and below the original share", 1): {'{tenant="cu"}': -0.25},
    ("weir-control", "Loans now", 0): {'{tenant="cu", borrower="au"}': 0.5},
    ("weir-streams", "Failing objects", 0): {'{stream="m"}': 0.25},
    ("weir-streams", "Lost by stream", 0): {'{stream="s"}': 0.2},
}


@needs_promtool
def test_panels_show_the_right_values_for_a_known_system(tmp_path: Path) -> None:
    boards = {one["uid"]: {panel["title"]: panel for panel in panels(one)} for one in DOCUMENTS}
    asked = {key: boards[key[0]][key[1]]["targets"][key[2]]["expr"] for key in EXPECTED}
    # Rates are rounded, because they are not exact to the last digit.
    checks = [(f"round({substituted(asked[key])}, 0.001)", expected) for key, expected in EXPECTED.items()]
    assert differences(tmp_path, WORLD.items(), checks) == ""
    wrong = [
        (expr, {labels: value + 1 for labels, value in expected.items()}) for expr, expected in checks[:1]
    ]
    assert "got:" in differences(tmp_path, WORLD.items(), wrong)


# Values of each label. Of the two tenants, au lends to cu.
LABELS = {
    "priority_class": ("gold",),
    "query": ("q",),
    "stream": ("s",),
    "node": ("n",),
    "borrower": ("cu",),
    "fate": FATES,
    "branch": BRANCHES,
    "result": RESULTS,
    "kind": MOVES,
    "actor": ACTORS,
    "operator": ("filter",),
    "version": ("0.1.0",),
    "python": ("3.11",),
    "le": ("0.1", "1", "+Inf"),
}
SHARES = {
    "weir_class_current_share_ratio": {"au": 0.25, "cu": 0.75},
    "weir_class_nominal_share_ratio": {"au": 0.5, "cu": 0.5},
}


def everything() -> Iterator[tuple[str, str]]:
    """Yield a series for every family and every combination of its labels' values, and an alert."""
    yield 'ALERTS{alertname="WeirClassStuck", alertstate="firing", severity="page", tenant="au"}', "1x20"
    for family in FAMILIES:
        for name in family.series:
            labels = [*family.labels, *(["le"] if name.endswith("_bucket") else [])]
            for values in product(*(LABELS.get(label, ("au", "cu")) for label in labels)):
                chosen = dict(zip(labels, values, strict=True))
                selector = ", ".join(f'{label}="{value}"' for label, value in chosen.items())
                level = SHARES.get(name, {}).get(chosen.get("tenant", ""), 1)
                rises = family.type in ("counter", "histogram")
                yield f"{name}{{{selector}}}", "0+60x20" if rises else f"{level}x20"


@needs_promtool
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: str(one["uid"]))
def test_every_query_has_a_result_if_every_family_has_series(document: Json, tmp_path: Path) -> None:
    asked = [f"count({substituted(expr)}) > bool 0 or vector(0)" for _, expr in exprs(document)]
    assert differences(tmp_path, everything(), [(expr, {"{}": 1}) for expr in asked]) == ""
    # The comparison can also fail: without any series, only queries that contain `vector(0)` have a result.
    expected = [(expr, {"{}": int(expr.count("vector(0)") > 1)}) for expr in asked]
    assert differences(tmp_path, (), expected) == ""


def differences(
    folder: Path, series: Iterable[tuple[str, str]], asked: Sequence[tuple[str, Mapping[str, float]]]
) -> str:
    """Return a text with the differences between results and expected values after 15 minutes of one scrape per minute."""
    tests = [
        {
            "expr": expr,
            "eval_time": "15m",
            "exp_samples": [{"labels": labels, "value": value} for labels, value in expected.items()],
        }
        for expr, expected in asked
    ]
    inputs = [{"series": name, "values": values} for name, values in series]
    file = folder / "tests.yml"
    one = {"interval": "1m", "input_series": inputs, "promql_expr_test": tests}
    file.write_text(yaml.safe_dump({"tests": [one]}), encoding="utf-8")
    done = subprocess.run(
        [promtool(), "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def substituted(expr: str) -> str:
    for name, value in VALUES.items():
        expr = expr.replace(name, value)
    assert "$" not in expr
    return expr
