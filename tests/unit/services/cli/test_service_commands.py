"""Commands about what runs, as a user meets them: at a real service, over a system in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
import yaml
from rich.console import Console

from actors.gateway.streams import Streams
from actors.log.segment_log import Reader
from actors.log.train_format import batch_of
from actors.messages.unit_messages import Figures, UnitReport
from actors.runtime.run_dirs import RunDirs
from configs.documents.declarations import documents_of
from engine.data.schema import TypeKind
from loadshed.ledger import TupleLedger
from services.cli import completion
from services.cli.commands.account import FATES, explanation, folded, ledger_table
from services.cli.commands.rows import value_of
from services.common.weir_home import Home, held
from services.ingest.flight import FlightSettings
from services.ingest.keys import new_key
from services.results.rows import RowDelivery
from services.watch.class_views import class_views, view_told
from services.watch.sentences import in_words
from services.watch.watch import Watch
from tests.support.breaking import Reply, replying
from tests.support.checkout import ROOT
from tests.support.served import Served, served
from tests.support.terminal import Terminal
from tests.support.watched import InProcess, declared

DOCUMENTS = """
{kind: Stream, name: Readings, columns: {ts: timestamp, sensor: int32, temp: float64}, time: ts}
---
{kind: Stream, name: plain, columns: {x: int64}}
---
{kind: Tenant, name: gold, priority_class: gold}
---
{kind: Query, tenant: gold, name: q, sql: SELECT sensor FROM Readings WHERE temp > 0}
---
{kind: Tenant, name: silver, priority_class: silver}
---
{kind: Query, tenant: silver, name: q, sql: SELECT sensor FROM Readings WHERE temp > 0}
"""


class Running:
    """A service over a system of two classes, of which one has been given input."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.served: Served = stack.enter_context(served(folder))
        self.served.catalog.apply(documents_of(DOCUMENTS), "test")
        self.served.service.snapshot.refresh()
        self.system = InProcess().declare(declared("gold", 6.0), declared("silver", 3.0))
        self.now = 0.0
        self.account(24)
        self.served.service.watch = stack.enter_context(Watch(self.system, clock=lambda: self.now))

    def account(self, queued: int) -> None:
        ledger = TupleLedger(offered=100, delivered=60, shed=10, late=2, rejected=3, failed=1)
        self.system.cycle("gold", 0.2, (ledger, queued), p99_ms=12.5)
        # What was seen before is not as it is now.
        self.now += 1

    def give_up(self, name: str, why: str) -> None:
        plane = self.system.world.plane
        report = UnitReport(
            name, 0.0, 0.0, False, True, Figures(), problem=f"given up: {why}", trouble="given up"
        )
        plane.report(plane.units_of(name)[name], [report], self.system.now)
        self.now += 1


@pytest.fixture
def stack(dirs: RunDirs) -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


@pytest.fixture
def running(stack: ExitStack, terminal: Terminal, tmp_path: Path) -> Running:
    found = Running(stack, tmp_path / "served")
    terminal.at(found.served.url, found.served.key("admin"))
    return found


# -- queries -------------------------------------------------------------------------------------------------------


def test_queries_are_registered_listed_and_ended(terminal: Terminal, running: Running) -> None:
    terminal.at(running.served.url, running.served.key("tenant:gold"))
    made = terminal.json("query", "add", "gold/p", "SELECT sensor FROM Readings")
    assert made == {"kind": "Query", "tenant": "gold", "name": "p", "action": "created", "changes": {}}
    Path("p.sql").write_text("SELECT temp FROM Readings\n", encoding="utf-8")
    assert terminal.json("query", "add", "gold/p", "-f", "p.sql")["action"] == "changed"
    assert [one["name"] for one in terminal.json("query", "ls")] == ["q", "p"]
    assert terminal.json("query", "ls", "gold") == terminal.json("query", "ls")
    assert terminal("query", "rm", "gold/p") == (0, "deleted Query gold/p\n", "")
    assert terminal("query", "rm", "gold/p")[0] == 2
    assert terminal("query", "ls", "silver")[0] == 2
    assert "gold/q" in terminal("query", "ls", "gold")[1]


@pytest.mark.parametrize("arguments", [(), ("SELECT 1", "-f", "p.sql")])
def test_a_query_is_given_once(terminal: Terminal, arguments: tuple[str, ...]) -> None:
    code, _, err = terminal("query", "add", "gold/p", *arguments)
    assert (code, err.splitlines()[0]) == (2, "error: SQL: give the query once")


def test_with_a_tenant_s_own_key_its_queries_need_no_tenant(terminal: Terminal, running: Running) -> None:
    terminal.at(running.served.url, running.served.key("tenant:gold"))
    assert terminal.json("query", "add", "small", "SELECT sensor FROM Readings")["tenant"] == "gold"
    assert terminal.json("describe", "query", "small")["name"] == "small"
    assert terminal.json("get", "query", "small")["name"] == "small"
    assert terminal("query", "rm", "small") == (0, "deleted Query gold/small\n", "")
    terminal.at(running.served.url, running.served.key("admin"))
    code, _, err = terminal("query", "add", "small", "SELECT sensor FROM Readings")
    assert (code, "write" in err or "name it" in err) == (2, True)


def test_a_key_that_may_not_has_an_exit_code_of_its_own(terminal: Terminal, running: Running) -> None:
    terminal.at(running.served.url, running.served.key("tenant:gold"))
    assert terminal("keys", "ls") == (
        4,
        "",
        "error: the key is not an administrator's\n  hint: it needs the scope admin\n",
    )
    told = terminal.json("describe", "query", "gold/q")
    assert (told["name"], told["used_by"], "changes" in told) == ("q", [], False)
    terminal.monkeypatch.delenv("WEIR_API_KEY")
    assert terminal("get", "tenants")[0] == 4


def test_a_service_that_is_away_has_an_exit_code_of_its_own(terminal: Terminal) -> None:
    with replying([]) as heard:
        pass
    terminal.at(heard.endpoint, new_key())
    for command in (("get", "tenants"), ("results", "gold/q"), ("explain", "gold"), ("top", "--once")):
        code, out, err = terminal(*command)
        assert (code, out) == (3, "")
        assert err.startswith(f"error: {heard.endpoint} does not answer: ")
    terminal.monkeypatch.delenv("WEIR_ENDPOINT")
    code, _, err = terminal("ledger")
    assert (code, err.splitlines()[0]) == (3, "error: no service is known")


def test_a_service_that_refuses_for_a_targets_sake_says_so_by_its_code(terminal: Terminal) -> None:
    detail = "gold would miss its target"
    refusal = Reply.problem(409, "would-miss-target", detail=detail, hint="ask for less")
    with replying([refusal]) as heard:
        terminal.at(heard.endpoint, new_key())
        code, out, err = terminal("query", "add", "gold/p", "SELECT x FROM plain")
    assert (code, out, err) == (1, "", f"error: {detail}\n  hint: ask for less\n")


def test_warnings_of_a_change_go_to_stderr(terminal: Terminal) -> None:
    change = {"kind": "Query", "tenant": "gold", "name": "p", "action": "created", "changes": {}}
    body = json.dumps({"changes": [change], "warnings": ["silver would miss its target"]}).encode()
    with replying([Reply(body=body)]) as heard:
        terminal.at(heard.endpoint, new_key())
        code, out, err = terminal("query", "add", "gold/p", "SELECT x FROM plain", "-o", "json")
    assert (code, json.loads(out), err) == (0, change, "warning: silver would miss its target\n")


# -- what runs -----------------------------------------------------------------------------------------------------


def test_a_class_is_explained(terminal: Terminal, running: Running) -> None:
    assert "silver comes with" in terminal("explain", "gold", "--last", "3")[1]
    terminal.at(running.served.url, running.served.key("tenant:gold"))
    told = terminal.json("explain", "gold")
    assert (told["tenant"], told["running"], "silver" in str(told)) == ("gold", True, False)
    code, out, err = terminal("explain")
    assert (code, err) == (0, "")
    lines = " ".join(out.split())
    assert lines.startswith(f"gold: {' '.join(told['words'].split())}")
    for one in told["items"]:
        assert " ".join(one["words"].split()) in lines
    assert yaml.safe_load(terminal("explain", "-o", "yaml")[1])["tenant"] == "gold"


def decision(at_s: int, branch: str, words: str, **figures: object) -> dict[str, Any]:
    at = f"2026-11-19T16:00:{at_s:02}+00:00"
    return {
        "about": "load",
        "at": at,
        "unit": "gold",
        "branch": branch,
        "words": words,
        "figures": {"repeated": 0, "since": None} | figures,
    }


def moved(at_s: int, after: float) -> dict[str, Any]:
    figures = {"before": {"gold": 0.5}, "after": {"gold": after}}
    return {
        "about": "shares",
        "at": f"2026-11-19T16:00:{at_s:02}+00:00",
        "branch": "redistribution",
        "words": f"redistribution: gold 0.500 → {after:.3f}",
        "figures": figures,
    }


def test_decisions_of_one_kind_are_one_line_and_the_moves_of_an_overload_stay_visible() -> None:
    items = [
        decision(1, "drop more", "overloaded; drop 0% → 10%"),
        decision(2, "drop more", "overloaded; drop 10% → 20%"),
        moved(3, 0.7),
        *(moved(second, 0.5) for second in range(4, 30)),
        decision(30, "wait", "nothing to change", repeated=3, since="2026-11-19T16:00:05+00:00"),
        decision(31, "wait", "nothing to change"),
    ]
    assert [(line.at[17:19], line.words) for line in folded(items)] == [
        ("02", "overloaded; drop 10% → 20% (and 1 more like it since 16:00:01)"),
        ("03", "redistribution: gold 0.500 → 0.700"),
        ("31", "nothing to change (and 4 more like it since 16:00:05)"),
    ]
    told = {"tenant": "gold", "words": "It is well.", "items": items}
    console = Console(width=60, record=True, file=StringIO())
    console.print(explanation(told, 2, datetime(2026, 11, 19, 16, 4, 3, tzinfo=UTC)))
    assert console.export_text().splitlines() == [
        "gold: It is well.",
        "16:00:03.00  4m ago  redistribution: gold 0.500 → 0.700",
        "16:00:31.00  3m ago  nothing to change (and 4 more like it",
        "                     since 16:00:05)",
    ]


def test_a_class_that_has_answered_before_is_not_said_never_to_have_answered(running: Running) -> None:
    look = running.system.look(None)
    assert look is not None
    view = class_views(look.status.system, look.lending)[0]
    quiet = replace(view, asleep=False, figures=replace(view.figures, p95_ms=0.0, results=1500))
    assert in_words(quiet).startswith("It has given 1,500 answers, none of them in the last 5 s; ")
    never = replace(quiet, figures=replace(quiet.figures, results=0))
    assert in_words(never).startswith("It has not answered anything yet; ")
    slow = replace(quiet, figures=replace(quiet.figures, p95_ms=54_400.0))
    assert in_words(slow).startswith("95% of its answers come within 54 s, above its target of ")


def test_the_ledger_is_told_and_has_to_close(terminal: Terminal, running: Running) -> None:
    (line,) = terminal.json("ledger", "gold")["items"]
    assert (line["offered"], line["queued"], line["closes"]) == (100, 24, True)
    code, out, _ = terminal("ledger")
    shown = [line.split() for line in out.splitlines()]
    assert code == 0
    assert ["gold", "Readings", "100", "60", "10", "2", "3", "1", "24"] in shown
    assert shown[-1] == ["every", "account", "closes"]
    running.account(23)
    assert terminal.json("ledger", "silver")["closes"] is True
    code, out, _ = terminal("ledger", "gold")
    assert (code, out.splitlines()[-1]) == (1, "the accounts in red do not close")


def test_the_account_of_a_stream_that_a_class_has_left_is_marked_in_the_table() -> None:
    fates = dict.fromkeys(FATES, 0)
    line = {"tenant": "gold", "stream": "alerts", "closes": True, "ended": True, **fates}
    shown = ledger_table({"items": [line], "closes": True, "given_up": [], "rejected_at_gateways": []})
    assert [cell.plain for cell in shown.rows[0]][:2] == ["gold", "alerts (ended)"]


def test_class_that_is_given_up_is_explained_with_what_to_do(terminal: Terminal, running: Running) -> None:
    shown = [line.split() for line in terminal("get", "tenants")[1].splitlines()]
    assert ["gold", "gold", "–", "1", "running"] in [line[:-1] for line in shown]
    running.give_up("gold", "there is no such stream (got 'b')")
    reason = (
        "there is no such stream (got 'b'); it is started again when its tenant, queries or streams are changed, or"
        " with the system"
    )
    code, out, err = terminal("explain", "gold")
    assert (code, " ".join(out.split()), err) == (1, f"gold: It is given up: {reason}.", "")
    code, out, _ = terminal("ledger")
    assert code == 1
    assert " ".join(out.split()).endswith(
        "gold is given up: its accounts are those of its last report; see weir explain gold"
    )
    assert "gold: given up: there is no such stream" in terminal("top", "--once")[1]
    assert terminal.json("describe", "tenant", "gold")["status"] == {"state": "given up", "reason": reason}
    shown = [line.split() for line in terminal("get", "tenants")[1].splitlines()]
    assert ["gold", "gold", "–", "1", "given", "up"] in [line[:-1] for line in shown]


def test_top_shows_the_classes_of_the_service(terminal: Terminal, running: Running) -> None:
    code, out, err = terminal("top", "--once")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[3:5]] == ["gold", "silver"]
    assert max(map(len, out.splitlines())) <= 80
    terminal.at(running.served.url, running.served.key("tenant:silver"))
    told = json.loads(terminal("top", "-o", "json")[1])
    assert (told["endpoint"], [one["name"] for one in told["classes"]]) == (running.served.url, ["silver"])


def test_a_class_as_the_service_tells_it_is_shown_as_it_is_here(running: Running) -> None:
    look = running.system.look(None)
    assert look is not None
    with running.served.client("tenant:gold", "tenant:silver") as client:
        told = [view_told(one) for one in client.live.classes()]
    here = class_views(look.status.system, look.lending)
    assert [(one.name, one.share, one.original, one.units, one.asleep, one.drop) for one in told] == [
        (one.name, one.share, one.original, one.units, one.asleep, one.drop) for one in here
    ]
    assert [one.figures.p99_ms for one in told] == [one.figures.p99_ms for one in here]


def test_the_service_of_this_home_is_called_where_no_other_is_named(
    terminal: Terminal, running: Running
) -> None:
    terminal.monkeypatch.delenv("WEIR_ENDPOINT")
    terminal.monkeypatch.delenv("WEIR_API_KEY")
    with held(Home(terminal.home)):
        (terminal.home / "endpoint").write_text(running.served.url, encoding="utf-8")
        (terminal.home / "admin.key").write_text(running.served.key("admin", "tenant:gold"), encoding="utf-8")
        assert terminal.json("explain", "gold")["tenant"] == "gold"
        assert [tenant["name"] for tenant in terminal.json("get", "tenants")] == ["gold", "silver"]
        assert json.loads(terminal("top", "--json")[1])["endpoint"] == running.served.url
    assert terminal("explain", "gold")[2].startswith(
        "error: WEIR_HOME: the system of this home is not running"
    )
    assert terminal.json("get", "tenants") == []


# -- rows ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def streams(dirs: RunDirs, stack: ExitStack, running: Running) -> Streams:
    """The door of a node, at which the service brings rows."""
    found, key = Streams(dirs, lambda: 1.0), new_key()
    stack.callback(found.close)
    found.declare("CREATE STREAM plain (x int64)")
    door = FlightSettings().with_key(key).open(found, dirs)
    stack.callback(door.close)
    found.keep_for("reader", ["plain"], lossless=True)
    running.served.service.rows = RowDelivery(lambda _: door.address, lambda: key)
    return found


def brought(dirs: RunDirs) -> list[int]:
    log = Reader(dirs.stream("plain"))
    return [x for _, payload in log.frames(log.first) for x in batch_of(payload).columns[0].data.tolist()]


def test_rows_of_every_form_are_brought(terminal: Terminal, streams: Streams, dirs: RunDirs) -> None:
    table = pa.table({"x": [1, 2]})
    pyarrow.parquet.write_table(table, "a.parquet")
    Path("b.csv").write_text("x\n3\n4\n", encoding="utf-8")
    Path("c.jsonl").write_text('{"x": 5}\n\n{"x": 6}\n', encoding="utf-8")
    Path("d.json").write_text('[{"x": 7}, {"x": 8}]', encoding="utf-8")
    for file in ("a.parquet", "b.csv", "c.jsonl", "d.json"):
        assert terminal.json("rows", "put", "plain", file)["accepted"] == 2
    assert brought(dirs) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_rows_of_a_fed_stream_are_put_only_with_force(
    terminal: Terminal, running: Running, streams: Streams, dirs: RunDirs
) -> None:
    fed = "{kind: Feed, name: sensors, source: {format: rate, sql: SELECT value AS x FROM source}, streams: {plain: {}}}"
    running.served.catalog.apply(documents_of(fed), "test")
    running.served.service.snapshot.refresh()
    Path("c.jsonl").write_text('{"x": 5}', encoding="utf-8")
    code, _, err = terminal("rows", "put", "plain", "c.jsonl")
    assert (code, "stream plain is fed by feed sensors" in err, "--force" in err) == (2, True, True)
    assert terminal.json("rows", "put", "plain", "c.jsonl", "--force")["accepted"] == 1
    assert brought(dirs) == [5]


def test_rows_of_a_named_batch_are_taken_once(terminal: Terminal, streams: Streams, dirs: RunDirs) -> None:
    Path("c.jsonl").write_text("".join(f'{{"x": {n}}}\n' for n in range(25_000)), encoding="utf-8")
    for _ in range(2):
        assert terminal.json("rows", "put", "plain", "c.jsonl", "--batch", "monday")["accepted"] == 25_000
    assert brought(dirs) == list(range(25_000))


def test_hints_about_columns_name_nothing_that_the_command_does_not_have(
    terminal: Terminal, streams: Streams
) -> None:
    for table in (pa.table({"x": [1], "y": [2]}), pa.table({"y": [2]})):
        pyarrow.parquet.write_table(table, "a.parquet")
        code, out, err = terminal("rows", "put", "plain", "a.parquet")
        assert (code, out, "hint:" in err, "option" in err) == (2, "", True, False)


def test_a_bad_cell_of_a_csv_file_rejects_its_row_alone(
    terminal: Terminal, streams: Streams, dirs: RunDirs
) -> None:
    Path("c.csv").write_text('X\n5\nfive\n"7"\n', encoding="utf-8")
    code, out, err = terminal("rows", "put", "plain", "c.csv", "-o", "json")
    told = json.loads(out)
    assert (code, err, told["accepted"], told["reasons"]) == (1, "", 2, {"does not fit: x": 1})
    assert brought(dirs) == [5, 7]


@pytest.mark.parametrize(
    ("cell", "kind", "value"),
    [
        ("2026-11-19 16:10:00", TypeKind.TIMESTAMP, "2026-11-19T16:10:00+00:00"),
        ("2026-11-19T16:10:00+02:00", TypeKind.TIMESTAMP, "2026-11-19T16:10:00+02:00"),
        ("soon", TypeKind.TIMESTAMP, "soon"),
        ("", TypeKind.STRING, None),
        ("12", TypeKind.STRING, "12"),
        ("12", TypeKind.INT64, 12),
        ("1.5", TypeKind.FLOAT32, 1.5),
        ("1.50", TypeKind.DECIMAL, "1.50"),
        ("TRUE", TypeKind.BOOLEAN, True),
        ("12", None, "12"),
    ],
)
def test_a_cell_of_a_csv_file_becomes_a_value_of_its_column(
    cell: str, kind: TypeKind | None, value: object
) -> None:
    assert value_of(cell, kind) == value


def test_rows_that_were_not_taken_are_told(terminal: Terminal, streams: Streams, dirs: RunDirs) -> None:
    Path("c.jsonl").write_text('{"x": 5}\n{"x": "no number"}\n', encoding="utf-8")
    code, out, _ = terminal("rows", "put", "plain", "c.jsonl", "-o", "json")
    told = json.loads(out)
    assert (code, told["accepted"], told["rejected"], sum(told["reasons"].values())) == (1, 1, 1, 1)
    assert brought(dirs) == [5]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"x": 1}\n{"x"\n', "c.jsonl: line 2: not valid JSON: "),
        ("1\n", "c.jsonl: line 1: a row must be an object (got 1)"),
        ('[{"x": 1}, 2]', "c.jsonl: row 2: a row must be an object (got 2)"),
    ],
)
def test_rows_that_cannot_be_read_are_named(
    terminal: Terminal, running: Running, text: str, told: str
) -> None:
    Path("c.jsonl").write_text(text, encoding="utf-8")
    code, out, err = terminal("rows", "put", "plain", "c.jsonl")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {told}")


def test_a_file_that_is_not_there_is_wrong_input(terminal: Terminal, running: Running) -> None:
    for file in ("none.jsonl", "none.csv", "none.doc"):
        code, _, err = terminal("rows", "put", "plain", file)
        assert code == 2
        assert err.startswith("error: FILE: ")


# -- settings and completion ---------------------------------------------------------------------------------------


def test_settings_say_where_they_come_from_and_no_secrets(terminal: Terminal) -> None:
    def told() -> dict[str, tuple[str | None, str]]:
        return {one["name"]: (one["value"], one["source"]) for one in terminal.json("config")}

    home = str(terminal.home)
    assert told() == {
        "WEIR_HOME": (home, "environment"),
        "WEIR_CATALOG": (f"{home}/catalog.db", "default"),
        "WEIR_PEPPER": (None, "made with the first key"),
        "WEIR_ENDPOINT": (None, "nowhere"),
        "WEIR_API_KEY": (None, "nowhere"),
        "WEIR_CA_FILE": (None, "nowhere"),
    }
    assert not terminal.home.exists()
    with held(Home(terminal.home)):
        for name, text in (("endpoint", "http://127.0.0.1:1"), ("admin.key", "HUSH"), ("pepper", "HUSH")):
            (terminal.home / name).write_text(text, encoding="utf-8")
        assert {name: told()[f"WEIR_{name}"] for name in ("PEPPER", "ENDPOINT", "API_KEY")} == {
            "PEPPER": ("(hidden)", f"{home}/pepper"),
            "ENDPOINT": ("http://127.0.0.1:1", f"{home}/endpoint"),
            "API_KEY": ("(hidden)", f"{home}/admin.key"),
        }
    terminal.at("https://w.example", "weir_HUSH")
    terminal.monkeypatch.setenv("WEIR_CATALOG", "postgresql://me:HUSH@db/weir?password=HUSH")
    assert told()["WEIR_CATALOG"] == ("postgresql://me:***@db/weir", "environment")
    assert told()["WEIR_ENDPOINT"] == ("https://w.example", "environment")
    assert told()["WEIR_API_KEY"] == ("(hidden)", "environment")
    for output in ("table", "json", "yaml"):
        assert "HUSH" not in terminal("config", "-o", output)[1]


def completed(*words: str, **environ: str) -> list[str]:
    """What bash is told when the key is pressed after the last word."""
    asked = {
        "_WEIR_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from services.cli.main import main; main()",
        ],
        cwd=ROOT,
        env=os.environ | asked | environ,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_names_are_completed_here_and_at_a_service(terminal: Terminal, running: Running) -> None:
    # Who presses the key waits for a second at most; who tests, as long as a busy machine takes.
    terminal.monkeypatch.setattr(completion, "ANSWER_S", 60.0)
    assert completed("weir", "get", "tenants", "g") == ["gold"]
    assert completed("weir", "results", "si") == ["silver/q"]
    terminal.monkeypatch.delenv("WEIR_ENDPOINT")
    assert completed("weir", "explain", "") == []
    assert not terminal.home.exists()
    assert terminal("get", "tenants")[0] == 0
    assert completed("weir", "get", "priorityclass", "s") == ["silver"]
