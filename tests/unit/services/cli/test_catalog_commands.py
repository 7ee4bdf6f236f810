"""Commands that change and show declarations, with and without a service: stdout, stderr and exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.classes.live_class import LiveSettings
from configs.documents.declarations import documents_of
from configs.service.service_settings import ServiceSettings
from services.common.weir_home import Home, held
from services.plan.planner import Planner
from tests.support.served import served
from tests.support.terminal import Terminal

TENANT = {"kind": "Tenant", "name": "acme", "priority_class": "gold"}
STREAM = {
    "kind": "Stream",
    "name": "ticks",
    "columns": {"x": "int64", "token": "string"},
    "source": {"format": "weir_feeder", "options": {"path": "in", "password": "HUSH-HUSH"}},
}
QUERY = {"kind": "Query", "tenant": "acme", "name": "q", "sql": "SELECT x FROM ticks"}

STRICT = {"kind": "PriorityClass", "name": "strict", "priority": 1, "delay_target_ms": 200}
HELD = (
    "warning: priority class strict may drop at most 5% of its input and has no max_age_ms: under more load its producers"
    " have to wait; declare max_age_ms to drop old tuples instead\n"
)


@pytest.fixture
def here(terminal: Terminal) -> Terminal:
    """Terminal without a service."""
    Path("in").mkdir()
    terminal.set_columns(120)
    return terminal


@pytest.fixture(params=["here", "service"])
def weir(
    request: pytest.FixtureRequest, here: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Terminal]:
    """Return a terminal that uses the catalog of its home, or a service with the administrator's key. With a service, no home is created."""
    if request.param == "here":
        yield here
        return
    with served(tmp_path / "served") as found:
        monkeypatch.setenv("WEIR_ENDPOINT", found.url)
        monkeypatch.setenv("WEIR_API_KEY", found.key("admin"))
        yield here
    assert not (tmp_path / "home").exists()


def write(*documents: dict[str, Any], file: str = "d.yaml") -> str:
    Path(file).write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return file


def test_weir_diff_shows_no_differences_for_a_file_that_was_applied(weir: Terminal) -> None:
    file = write(STREAM, TENANT, QUERY)
    code, out, _ = weir("diff", "-f", file)
    assert (code, out.splitlines()[-1].strip()) == (1, "3 to add, 0 to change, 0 to delete")
    assert "created" not in out
    code, out, _ = weir("apply", "-f", file)
    assert code == 0
    assert "3 created" in out
    code, out, _ = weir("diff", "-f", file)
    assert (code, out.splitlines()[-1].strip()) == (0, "0 to add, 0 to change, 0 to delete")
    assert "3 unchanged" in weir("apply", "-f", file)[1]
    changed = write(STREAM, TENANT, QUERY | {"sql": "SELECT token FROM ticks"})
    code, out, _ = weir("diff", "-f", changed)
    assert (code, out.splitlines()[-1].strip()) == (1, "0 to add, 1 to change, 0 to delete")
    code, out, _ = weir("get", "tenants")
    assert (code, out.split()[-5:-1]) == (0, ["acme", "gold", "–", "1"])
    assert "acme/q" in weir("get", "queries")[1]


IMPOSSIBLE: list[dict[str, Any]] = [
    {"kind": "PriorityClass", "name": "at-once", "priority": 1, "delay_target_ms": 1, "min_share": 0.0001},
    {"kind": "Tenant", "name": "hasty", "priority_class": "at-once"},
    {"kind": "Query", "tenant": "hasty", "name": "q", "sql": "SELECT x FROM ticks"},
]


def test_commands_go_through_the_service_of_the_home_which_refuses_impossible_delay_targets(
    here: Terminal, tmp_path: Path
) -> None:
    home = Home(tmp_path / "home")
    with held(home), served(home.folder, ServiceSettings(port=0, admission="refuse")) as running:
        running.service.planner = Planner(running.catalog, LiveSettings())
        home.endpoint.write_text(running.url, encoding="utf-8")
        home.admin_key.write_text(running.key("admin"), encoding="utf-8")
        assert here("apply", "-f", write(STREAM, TENANT, QUERY))[0] == 0
        code, out, err = here("apply", "-f", write(*IMPOSSIBLE))
        assert (code, out) == (1, "")
        assert err.startswith("error: class hasty would miss its delay target of 1 ms")
        assert here("query", "add", "acme/r", "SELECT token FROM ticks")[0] == 0
        assert here("keys", "create", "acme", "--scope", "tenant:acme")[0] == 0
        assert here("delete", "query", "acme/q")[0] == 0
        assert here("query", "rm", "acme/r")[0] == 0
        assert [ref for ref in map(str, running.catalog.state()) if "hasty" in ref or "Query" in ref] == []
        # The audit log has entries by `admin`, because changes by the service are logged under the principal of the API key.
        assert {entry.who for entry in running.catalog.audit()} == {"weir", "admin", "test"}


def test_without_a_service_a_change_warns_that_delay_targets_were_not_checked(here: Terminal) -> None:
    message = "warning: no service runs here: delay targets were not checked; `weir plan` checks them\n"
    assert here("apply", "-f", write(STREAM))[::2] == (0, "")
    assert here("apply", "-f", write(*IMPOSSIBLE))[::2] == (0, message)
    assert here("apply", "-f", write(*IMPOSSIBLE))[::2] == (0, "")
    assert here("query", "add", "hasty/r", "SELECT x FROM ticks")[::2] == (0, message)


def test_commands_do_not_call_a_service_that_was_killed(here: Terminal, tmp_path: Path) -> None:
    home = Home(tmp_path / "home").made()
    home.endpoint.write_text("http://127.0.0.1:1", encoding="utf-8")
    assert here("apply", "-f", write(STREAM))[0] == 0
    for command in (("ledger",), ("explain",), ("results", "acme/q"), ("top", "--once")):
        code, out, err = here(*command)
        assert (code, out) == (3, "")
        assert err.splitlines() == [
            "error: WEIR_HOME: the system of this home is not running: its `weir up` was killed"
            f" (got {str(home.folder)!r})",
            "  hint: start it with `weir up`",
        ]
    feeds = " ".join(here("get", "feeds")[1].split())
    assert "states are not known: WEIR_HOME: the system of this home is not running" in feeds


def test_a_change_of_a_nested_field_is_shown_with_its_path(weir: Terminal) -> None:
    weir("apply", "-f", write(STREAM, TENANT))
    limited = {**TENANT, "limits": {"groups": 30}}
    out = weir("apply", "-f", write(STREAM, limited))[1]
    assert "limits.groups: – → 30" in [line.strip() for line in out.splitlines()]
    out = weir("diff", "-f", write(STREAM, {**TENANT, "limits": {"groups": 40, "queries": 5}}))[1]
    lines = [line.strip() for line in out.splitlines()]
    assert {"limits.groups: 30 → 40", "limits.queries: – → 5"} <= set(lines)


def test_a_utility_graph_is_added_to_a_query_changed_and_removed(weir: Terminal) -> None:
    weir("apply", "-f", write(STREAM, TENANT))
    sql = "SELECT x FROM ticks"
    assert weir("query", "add", "acme/q", sql, "--utility", "200:1,400:0.5,900:0")[0] == 0
    code, out, _ = weir("query", "ls", "acme")
    assert (code, out.split()[-3]) == (0, "200:1,400:0.5,900:0")
    points = [(200, 1), (400, 0.5), (900, 0)]
    utility = [{"latency_ms": latency, "utility": worth} for latency, worth in points]
    assert yaml.safe_load(weir("get", "query", "acme/q", "-o", "yaml")[1])["utility"] == utility
    file = write({**QUERY, "utility": utility[:2]})
    assert weir("diff", "-f", file)[0] == 1
    changes = json.loads(weir("apply", "-f", file, "-o", "json")[1])[0]["changes"]
    assert changes == {"utility": [utility, utility[:2]]}
    assert weir("query", "add", "acme/q", sql)[0] == 0
    assert "utility" not in yaml.safe_load(weir("get", "query", "acme/q", "-o", "yaml")[1])


def test_queries_are_listed_with_their_starts_and_ends(weir: Terminal) -> None:
    weir("apply", "-f", write(STREAM, TENANT))
    sql = "SELECT x FROM ticks"
    assert "runs" not in weir("query", "ls")[1]
    assert weir("query", "add", "acme/q", sql, "--start", "2999-11-21T08:00:00Z", "--lifetime", "2h")[0] == 0
    assert weir("query", "add", "acme/r", sql, "--stop", "2020-01-01T00:00:00Z")[0] == 0
    assert weir("query", "add", "acme/s", sql, "--stop", "2999-01-01T00:00:00Z")[0] == 0
    assert weir("query", "add", "acme/t", sql)[0] == 0
    lines = weir("query", "ls", "acme", "-o", "wide")[1].splitlines()
    told = {line.split()[0]: line for line in lines if "acme/" in line}
    assert "waiting until 2999-11-21T08:00:00Z" in told["acme/q"]
    assert "ended at 2020-01-01T00:00:00Z" in told["acme/r"]
    assert " until 2999-01-01T00:00:00Z" in told["acme/s"]
    assert "until" not in told["acme/t"]
    document = yaml.safe_load(weir("get", "query", "acme/q", "-o", "yaml")[1])
    assert (document["lifetime"], "stop" in document) == ("2h", False)


def test_impossible_end_of_a_query_is_refused(weir: Terminal) -> None:
    weir("apply", "-f", write(STREAM, TENANT))
    code, out, err = weir("query", "add", "acme/q", "SELECT x FROM ticks", "--lifetime", "soon")
    assert (code, out) == (2, "")
    assert "lifetime: this is not a length of time (got 'soon')\n  hint: write 90d, 12h or 30m" in err


@pytest.mark.parametrize(
    ("utility", "message"),
    [
        (
            "soon",
            "--utility: a point of the utility graph is not of the form LATENCY_MS:UTILITY (got 'soon')",
        ),
        (
            "200:0.5,400:1",
            "utility[1].utility: utility must not rise with latency, but it is 0.5 at 200 ms (got 1)",
        ),
        (
            "200:1,100:0",
            "utility[1].latency_ms: latencies must ascend, but the point before has 200 ms (got 100)",
        ),
        ("200:2", "utility[0].utility: the value must be at most 1 (got 2)"),
    ],
)
def test_an_invalid_utility_graph_changes_nothing(weir: Terminal, utility: str, message: str) -> None:
    weir("apply", "-f", write(STREAM, TENANT))
    code, _, err = weir("query", "add", "acme/q", "SELECT x FROM ticks", "--utility", utility)
    assert (code, message in err, "hint:" in err) == (2, True, True)
    assert weir("get", "queries", "-o", "json")[1].strip() == "[]"


def test_a_query_weight_is_added_changed_and_removed(
    weir: Terminal,
) -> None:
    weir("apply", "-f", write(STREAM, TENANT))
    sql = "SELECT x FROM ticks"
    assert weir("query", "add", "acme/q", sql, "--weight", "2.5")[0] == 0
    code, out, _ = weir("query", "ls", "acme")
    assert (code, out.split()[-2]) == (0, "2.5")
    assert yaml.safe_load(weir("get", "query", "acme/q", "-o", "yaml")[1])["weight"] == 2.5
    file = write({**QUERY, "weight": 4})
    assert weir("diff", "-f", file)[0] == 1
    assert json.loads(weir("apply", "-f", file, "-o", "json")[1])[0]["changes"] == {"weight": [2.5, 4.0]}
    for wrong, why in (
        ("0", "the value must be at least 0.001 (got 0)"),
        ("nan", "the value must be a finite number (got nan)"),
    ):
        code, _, err = weir("query", "add", "acme/q", sql, "--weight", wrong)
        assert (code, f"weight: {why}" in err, "give a number from 0.001 to 1000" in err) == (2, True, True)
    assert yaml.safe_load(weir("get", "query", "acme/q", "-o", "yaml")[1])["weight"] == 4
    assert weir("query", "add", "acme/q", sql)[0] == 0
    assert "weight" not in yaml.safe_load(weir("get", "query", "acme/q", "-o", "yaml")[1])


def test_yaml_output_can_be_applied_again(weir: Terminal) -> None:
    weir("apply", "-f", write(STREAM, TENANT, QUERY))
    for kind in ("priorityclasses", "tenants", "queries"):
        Path("again.yaml").write_text(weir("get", kind, "-o", "yaml")[1], encoding="utf-8")
        assert weir("diff", "-f", "again.yaml")[0] == 0
    assert documents_of(weir("get", "query", "acme/q", "-o", "yaml")[1])
    assert json.loads(weir("get", "query", "acme/q", "-o", "json")[1]) == QUERY


def test_secrets_are_shown_nowhere(weir: Terminal) -> None:
    file = write(STREAM)
    weir("apply", "-f", file)
    other = write(
        {**STREAM, "source": {"format": "weir_feeder", "options": {"password": "LOUD"}}}, file="o.yaml"
    )
    shown = [
        weir(*arguments, "-o", output)
        for output in ("table", "json", "yaml")
        for arguments in (
            ("get", "streams"),
            ("get", "stream", "ticks"),
            ("describe", "stream", "ticks"),
            ("diff", "-f", other),
        )
    ]
    printed = "".join(out + err for _, out, err in shown)
    assert "(hidden)" in printed
    assert json.loads(shown[4][1])[0]["columns"] == STREAM["columns"]
    assert not re.search("HUSH|LOUD", printed)


def test_applying_output_with_hidden_secrets_keeps_the_secrets(weir: Terminal) -> None:
    weir("apply", "-f", write(STREAM))
    Path("again.yaml").write_text(weir("get", "streams", "-o", "yaml")[1], encoding="utf-8")
    assert weir("diff", "-f", "again.yaml")[0] == 0
    assert "1 unchanged" in weir("apply", "-f", "again.yaml")[1]
    hidden = {**STREAM, "name": "new", "source": {"format": "f", "options": {"password": "(hidden)"}}}
    code, out, err = weir("apply", "-f", write(hidden, file="n.yaml"))
    assert (code, out) == (2, "")
    assert err.startswith(
        "error: n.yaml, document 1 (Stream new): source.options.password: the field has the placeholder for a hidden secret"
    )


def test_describe_shows_the_queries_and_the_changes_of_a_stream(weir: Terminal) -> None:
    weir("apply", "-f", write(STREAM, TENANT, QUERY))
    weir("apply", "-f", write({**STREAM, "source": None}))
    described = json.loads(weir("describe", "stream", "ticks", "-o", "json")[1])
    assert described["used_by"] == ["Query acme/q"]
    assert [(change["action"], change["fields"]) for change in described["changes"]] == [
        ("changed", ["source"]),
        ("created", []),
    ]
    assert described["version"] == described["changes"][0]["id"]


def test_a_tenant_can_be_deleted_only_after_its_queries(weir: Terminal) -> None:
    weir("apply", "-f", write(STREAM, TENANT, QUERY))
    code, out, err = weir("delete", "tenant", "acme")
    assert (code, out) == (2, "")
    assert err.startswith(
        "error: the declaration is in use by Query acme/q (got 'Tenant acme')\n  hint: delete or change the named declarations and keys first"
    )
    assert weir("delete", "query", "acme/q") == (0, "deleted Query acme/q\n", "")
    assert weir("delete", "tenant", "acme")[0] == 0
    assert weir("delete", "tenant", "acme")[0] == 2


def test_a_file_with_a_mistake_changes_nothing(weir: Terminal) -> None:
    code, out, err = weir("apply", "-f", write(TENANT, {**QUERY, "sql": "SELECT"}))
    assert (code, out) == (2, "")
    assert err.startswith("error: d.yaml, document 2 (Query q): ")
    assert weir("get", "tenants", "-o", "json")[1] == "[]\n"


def test_a_key_is_created_listed_and_revoked(weir: Terminal) -> None:
    weir("apply", "-f", write(STREAM, TENANT))
    code, out, _ = weir("keys", "create", "feeder", "-s", "ingest:ticks", "--expires", "2d", "-o", "json")
    made = json.loads(out)
    assert (code, made["scopes"], len(made["key"])) == (0, ["ingest:ticks"], 48)
    code, out, _ = weir("keys", "ls")
    assert code == 0
    assert made["id"] in out
    assert "live" in out
    assert made["key"] not in out
    assert weir("keys", "revoke", made["id"]) == (0, f"revoked {made['id']}\n", "")
    assert "revoked" in weir("keys", "ls")[1]
    assert weir("keys", "revoke", "nobody")[0] == 2
    assert "this is not a duration" in weir("keys", "create", "x", "-s", "admin", "--expires", "soon")[2]


def test_a_catalog_that_does_not_answer_has_its_own_exit_code(
    here: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_CATALOG", "postgresql://nobody@127.0.0.1:1/none")
    code, out, err = here("get", "tenants")
    assert (code, out) == (3, "")
    assert err.startswith("error: the catalog does not answer: ")


@pytest.mark.parametrize("command", ["apply", "diff"])
@pytest.mark.parametrize(
    ("terms", "warned"),
    [
        ({"max_drop": 0.05}, HELD),
        ({"max_drop": 0.05, "max_age_ms": 2000}, ""),
        ({"max_drop": 0.05, "lossless": True}, ""),
        ({}, ""),
    ],
)
def test_a_class_that_would_hold_back_its_producers_gives_a_warning(
    weir: Terminal, tmp_path: Path, command: str, terms: dict[str, Any], warned: str
) -> None:
    (tmp_path / "strict.yaml").write_text(yaml.safe_dump(STRICT | terms))
    _, _, printed = weir(command, "-f", str(tmp_path / "strict.yaml"))
    assert printed == warned
