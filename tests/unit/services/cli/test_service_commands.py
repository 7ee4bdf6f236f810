"""Commands that ask a running service, such as `explain`, `ledger`, `top` and `rows put`. The service is real, its system is a stand-in."""

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
from engine.network.one_time import answered_once
from engine.sql import plan_query
from loadshed.ledger import TupleLedger
from services.cli.commands.account import FATES, explanation, folded, ledger_table
from services.cli.commands.ask import coverage_lines
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
from tests.support.class_networks import class_of, feed, row
from tests.support.query_runs import CATALOG
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
    """Service over a stand-in system of two classes. Class gold has received input."""

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
        # The clock is advanced, because the watch would otherwise return its earlier view.
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


# -- commands about queries ----------------------------------------------------------------------------------------


def test_queries_are_added_listed_and_removed(terminal: Terminal, running: Running) -> None:
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
def test_a_query_needs_sql_either_as_text_or_as_a_file(
    terminal: Terminal, arguments: tuple[str, ...]
) -> None:
    code, _, err = terminal("query", "add", "gold/p", *arguments)
    assert (code, err.splitlines()[0]) == (
        2,
        "error: SQL: the command needs the statement either as SQL or in a file",
    )


def test_with_a_tenant_key_queries_need_no_tenant_name(terminal: Terminal, running: Running) -> None:
    terminal.at(running.served.url, running.served.key("tenant:gold"))
    assert terminal.json("query", "add", "small", "SELECT sensor FROM Readings")["tenant"] == "gold"
    assert terminal.json("describe", "query", "small")["name"] == "small"
    assert terminal.json("get", "query", "small")["name"] == "small"
    assert terminal("query", "rm", "small") == (0, "deleted Query gold/small\n", "")
    terminal.at(running.served.url, running.served.key("admin"))
    code, _, err = terminal("query", "add", "small", "SELECT sensor FROM Readings")
    assert (code, "name the tenant" in err) == (2, True)


def test_a_key_without_the_needed_scope_exits_with_4(terminal: Terminal, running: Running) -> None:
    terminal.at(running.served.url, running.served.key("tenant:gold"))
    assert terminal("keys", "ls") == (
        4,
        "",
        "error: the key is not an administrator's\n  hint: use a key with the scope admin\n",
    )
    answer = terminal.json("describe", "query", "gold/q")
    assert (answer["name"], answer["used_by"], "changes" in answer) == ("q", [], False)
    terminal.monkeypatch.delenv("WEIR_API_KEY")
    assert terminal("get", "tenants")[0] == 4


def test_commands_exit_with_3_if_the_service_does_not_answer(terminal: Terminal) -> None:
    with replying([]) as heard:
        pass
    terminal.at(heard.endpoint, new_key())
    for command in (("get", "tenants"), ("results", "gold/q"), ("explain", "gold"), ("top", "--once")):
        code, out, err = terminal(*command)
        assert (code, out) == (3, "")
        assert err.startswith(f"error: {heard.endpoint} does not answer: ")
    terminal.monkeypatch.delenv("WEIR_ENDPOINT")
    code, _, err = terminal("ledger")
    assert (code, err.splitlines()[0]) == (3, "error: the address of the Weir service is not known")


def test_a_change_that_would_miss_a_delay_target_exits_with_1(terminal: Terminal) -> None:
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


# -- one-time queries ----------------------------------------------------------------------------------------------


@pytest.fixture
def asked(terminal: Terminal, running: Running) -> str:
    """Return a one-time query that class gold of the stand-in system can answer, and use the key of the tenant gold."""
    run = class_of("SELECT k, MAX(n) AS top FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k")
    feed(run, row(0), row(5, n=7), row(6, k=2, n=9))
    network = run.runner.network
    running.system.answers_once["gold"] = lambda sql: {
        "gold": answered_once(plan_query("", sql, CATALOG), network)
    }
    terminal.at(running.served.url, running.served.key("tenant:gold"))
    return "SELECT k, MAX(n) AS top FROM t [RANGE 4 SECONDS] GROUP BY k"


def test_ask_prints_the_answer_and_the_time_that_it_covers(terminal: Terminal, asked: str) -> None:
    code, out, err = terminal("ask", asked)
    start, end, reached = (f"1970-01-01T00:00:0{second}.000000Z" for second in (4, 8, 6))
    assert (code, [line.split() for line in out.splitlines()]) == (
        0,
        [["window_start", "window_end", "k", "top"], [start, end, "1", "7"], [start, end, "2", "9"]],
    )
    assert err == f"2 rows of t from {start} to {end}; event time has reached {reached}\n"
    assert (
        terminal("ask", "-", "--class", "gold", "-o", "csv", stdin=asked).out.splitlines()[0]
        == "window_start,window_end,k,top"
    )
    answer = terminal.json("ask", asked, "--tenant", "gold")
    assert terminal("ask", asked, "--json").json == answer
    assert [row["top"] for row in answer["rows"]] == [7, 9]
    assert yaml.safe_load(terminal("ask", asked, "-o", "yaml").out) == answer


def test_ask_says_what_is_kept_if_it_cannot_be_answered(terminal: Terminal, asked: str) -> None:
    code, out, err = terminal("ask", asked.replace("4 SECONDS", "1 HOUR"))
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "error: sql: the running queries keep only 4 SECONDS of stream t for such a query (got '1 HOUR')",
        "  hint: ask for [RANGE 4 SECONDS], or add a continuous query with this SELECT and a window of at least 1 HOUR",
    ]


def test_lines_below_an_answer_name_units_missing_rows_and_missing_time() -> None:
    part = {"start": "A", "end": "B", "complete_to": "C", "short": False, "rows": 1000, "kept": 1.0}
    covers = [
        {"unit": "gold#0", **part, "short": True, "kept": 0.5},
        {"unit": "gold#1", **part, "start": None},
    ]
    assert list(coverage_lines({"stream": "t", "covers": covers})) == [
        "gold#0: 1,000 rows of t (50.0% of the input; the other rows were shed or late) from A to B; earlier rows are not kept;"
        " event time has reached C",
        "gold#1: no row of t has arrived yet",
    ]


# -- commands about classes, and the ledger ------------------------------------------------------------------------


def test_explain_shows_the_state_and_the_decisions_of_a_class(terminal: Terminal, running: Running) -> None:
    assert "silver joins with" in terminal("explain", "gold", "--last", "3")[1]
    terminal.at(running.served.url, running.served.key("tenant:gold"))
    answer = terminal.json("explain", "gold")
    assert (answer["tenant"], answer["running"], "silver" in str(answer)) == ("gold", True, False)
    code, out, err = terminal("explain")
    assert (code, err) == (0, "")
    lines = " ".join(out.split())
    assert lines.startswith(f"gold: {' '.join(answer['words'].split())}")
    for one in answer["items"]:
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


def test_repeated_decisions_are_folded_into_one_line() -> None:
    items = [
        decision(1, "drop more", "overloaded; drop 0% → 10%"),
        decision(2, "drop more", "overloaded; drop 10% → 20%"),
        moved(3, 0.7),
        *(moved(second, 0.5) for second in range(4, 30)),
        decision(30, "wait", "nothing to change", repeated=3, since="2026-11-19T16:00:05+00:00"),
        decision(31, "wait", "nothing to change"),
    ]
    assert [(at[17:19], words) for at, words in folded(items)] == [
        ("02", "overloaded; drop 10% → 20% (and 1 more like it since 16:00:01)"),
        ("03", "redistribution: gold 0.500 → 0.700"),
        ("31", "nothing to change (and 4 more like it since 16:00:05)"),
    ]
    answer = {"tenant": "gold", "words": "It is well.", "items": items}
    console = Console(width=60, record=True, file=StringIO())
    console.print(explanation(answer, 2, datetime(2026, 11, 19, 16, 4, 3, tzinfo=UTC)))
    assert console.export_text().splitlines() == [
        "gold: It is well.",
        "16:00:03.00  4m ago  redistribution: gold 0.500 → 0.700",
        "16:00:31.00  3m ago  nothing to change (and 4 more like it",
        "                     since 16:00:05)",
    ]


def test_a_quiet_class_is_described_by_its_earlier_answers(running: Running) -> None:
    look = running.system.look(None)
    assert look is not None
    view = class_views(look.status.system, look.lending)[0]
    quiet = replace(view, asleep=False, figures=replace(view.figures, p95_ms=0.0, results=1500))
    assert in_words(quiet).startswith("It has given 1,500 answers, none of them in the last 5 s; ")
    never = replace(quiet, figures=replace(quiet.figures, results=0))
    assert in_words(never).startswith("It has not answered anything yet; ")
    slow = replace(quiet, figures=replace(quiet.figures, p95_ms=54_400.0))
    assert in_words(slow).startswith("95% of its answers come within 54 s, above its target of ")


def test_ledger_shows_every_account_and_fails_if_an_account_does_not_close(
    terminal: Terminal, running: Running
) -> None:
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


def test_the_ledger_table_marks_streams_that_a_class_no_longer_reads() -> None:
    fates = dict.fromkeys(FATES, 0)
    line = {"tenant": "gold", "stream": "alerts", "closes": True, "ended": True, **fates}
    shown = ledger_table({"items": [line], "closes": True, "given_up": [], "rejected_at_gateways": []})
    assert [cell.plain for cell in shown.rows[0]][:2] == ["gold", "alerts (ended)"]


def test_a_class_that_is_given_up_is_explained_with_a_remedy(terminal: Terminal, running: Running) -> None:
    shown = [line.split() for line in terminal("get", "tenants")[1].splitlines()]
    assert ["gold", "gold", "–", "1", "running"] in [line[:-1] for line in shown]
    running.give_up("gold", "there is no such stream (got 'b')")
    reason = (
        "there is no such stream (got 'b'); it is started again when its tenant, queries or streams are changed, or"
        " the system is restarted"
    )
    code, out, err = terminal("explain", "gold")
    assert (code, " ".join(out.split()), err) == (1, f"gold: It is given up: {reason}.", "")
    code, out, _ = terminal("ledger")
    assert code == 1
    assert " ".join(out.split()).endswith(
        "gold is given up: its counts are from its last report; see weir explain gold"
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
    answer = json.loads(terminal("top", "-o", "json")[1])
    assert (answer["endpoint"], [one["name"] for one in answer["classes"]]) == (
        running.served.url,
        ["silver"],
    )


def test_class_views_from_the_service_equal_local_class_views(running: Running) -> None:
    look = running.system.look(None)
    assert look is not None
    with running.served.client("tenant:gold", "tenant:silver") as client:
        answer = [view_told(one) for one in client.live.classes()]
    here = class_views(look.status.system, look.lending)
    assert [(one.name, one.share, one.original, one.units, one.asleep, one.drop) for one in answer] == [
        (one.name, one.share, one.original, one.units, one.asleep, one.drop) for one in here
    ]
    assert [one.figures.p99_ms for one in answer] == [one.figures.p99_ms for one in here]


def test_the_service_of_the_home_is_called_if_no_endpoint_is_set(
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


# -- commands about rows -------------------------------------------------------------------------------------------


@pytest.fixture
def streams(dirs: RunDirs, stack: ExitStack, running: Running) -> Streams:
    """Return the streams of a node, with a Flight endpoint to which the service delivers rows."""
    found, key = Streams(dirs, lambda: 1.0), new_key()
    stack.callback(found.close)
    found.declare("CREATE STREAM plain (x int64)")
    door = FlightSettings().with_key(key).open(found, dirs)
    stack.callback(door.close)
    found.keep_for("reader", ["plain"], lossless=True)
    running.served.service.rows = RowDelivery(lambda _: door.address, lambda: key)
    return found


def delivered(dirs: RunDirs) -> list[int]:
    log = Reader(dirs.stream("plain"))
    return [x for _, payload in log.frames(log.first) for x in batch_of(payload).columns[0].data.tolist()]


def test_rows_can_be_put_from_every_file_format(terminal: Terminal, streams: Streams, dirs: RunDirs) -> None:
    table = pa.table({"x": [1, 2]})
    pyarrow.parquet.write_table(table, "a.parquet")
    Path("b.csv").write_text("x\n3\n4\n", encoding="utf-8")
    Path("c.jsonl").write_text('{"x": 5}\n\n{"x": 6}\n', encoding="utf-8")
    Path("d.json").write_text('[{"x": 7}, {"x": 8}]', encoding="utf-8")
    for file in ("a.parquet", "b.csv", "c.jsonl", "d.json"):
        assert terminal.json("rows", "put", "plain", file)["accepted"] == 2
    assert delivered(dirs) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_rows_of_a_stream_with_a_feed_are_put_only_with_force(
    terminal: Terminal, running: Running, streams: Streams, dirs: RunDirs
) -> None:
    fed = "{kind: Feed, name: sensors, source: {format: rate, sql: SELECT value AS x FROM source}, streams: {plain: {}}}"
    running.served.catalog.apply(documents_of(fed), "test")
    running.served.service.snapshot.refresh()
    Path("c.jsonl").write_text('{"x": 5}', encoding="utf-8")
    code, _, err = terminal("rows", "put", "plain", "c.jsonl")
    assert (code, "stream plain is fed by feed sensors" in err, "--force" in err) == (2, True, True)
    assert terminal.json("rows", "put", "plain", "c.jsonl", "--force")["accepted"] == 1
    assert delivered(dirs) == [5]


def test_rows_of_a_named_batch_are_accepted_once(terminal: Terminal, streams: Streams, dirs: RunDirs) -> None:
    Path("c.jsonl").write_text("".join(f'{{"x": {n}}}\n' for n in range(25_000)), encoding="utf-8")
    for _ in range(2):
        assert terminal.json("rows", "put", "plain", "c.jsonl", "--batch", "monday")["accepted"] == 25_000
    assert delivered(dirs) == list(range(25_000))


def test_hints_about_wrong_columns_mention_no_options(terminal: Terminal, streams: Streams) -> None:
    for table in (pa.table({"x": [1], "y": [2]}), pa.table({"y": [2]})):
        pyarrow.parquet.write_table(table, "a.parquet")
        code, out, err = terminal("rows", "put", "plain", "a.parquet")
        assert (code, out, "hint:" in err, "option" in err) == (2, "", True, False)


def test_a_csv_cell_that_does_not_fit_its_column_rejects_only_its_row(
    terminal: Terminal, streams: Streams, dirs: RunDirs
) -> None:
    Path("c.csv").write_text('X\n5\nfive\n"7"\n', encoding="utf-8")
    code, out, err = terminal("rows", "put", "plain", "c.csv", "-o", "json")
    answer = json.loads(out)
    assert (code, err, answer["accepted"], answer["reasons"]) == (1, "", 2, {"does not fit: x": 1})
    assert delivered(dirs) == [5, 7]


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
def test_a_csv_cell_is_converted_to_the_type_of_its_column(
    cell: str, kind: TypeKind | None, value: object
) -> None:
    assert value_of(cell, kind) == value


def test_rejected_rows_are_reported_with_their_reasons(
    terminal: Terminal, streams: Streams, dirs: RunDirs
) -> None:
    Path("c.jsonl").write_text('{"x": 5}\n{"x": "no number"}\n', encoding="utf-8")
    code, out, _ = terminal("rows", "put", "plain", "c.jsonl", "-o", "json")
    answer = json.loads(out)
    assert (code, answer["accepted"], answer["rejected"], sum(answer["reasons"].values())) == (1, 1, 1, 1)
    assert delivered(dirs) == [5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"x": 1}\n{"x"\n', "c.jsonl: line 2: the line is not valid JSON: "),
        ("1\n", "c.jsonl: line 1: a row must be a JSON object (got 1)"),
        ('[{"x": 1}, 2]', "c.jsonl: row 2: a row must be a JSON object (got 2)"),
    ],
)
def test_unreadable_rows_are_reported_with_their_line(
    terminal: Terminal, running: Running, text: str, message: str
) -> None:
    Path("c.jsonl").write_text(text, encoding="utf-8")
    code, out, err = terminal("rows", "put", "plain", "c.jsonl")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")


def test_a_missing_file_of_rows_exits_with_2(terminal: Terminal, running: Running) -> None:
    for file in ("none.jsonl", "none.csv", "none.doc"):
        code, _, err = terminal("rows", "put", "plain", file)
        assert code == 2
        assert err.startswith("error: FILE: ")


# -- settings of the client, and completion of words ---------------------------------------------------------------


def test_config_shows_the_source_of_each_setting_and_no_secrets(terminal: Terminal) -> None:
    def settings() -> dict[str, tuple[str | None, str]]:
        return {one["name"]: (one["value"], one["source"]) for one in terminal.json("config")}

    home = str(terminal.home)
    assert settings() == {
        "WEIR_HOME": (home, "environment"),
        "WEIR_CATALOG": (f"{home}/catalog.db", "default"),
        "WEIR_PEPPER": (None, "created with the first key"),
        "WEIR_ENDPOINT": (None, "nowhere"),
        "WEIR_API_KEY": (None, "nowhere"),
        "WEIR_CA_FILE": (None, "nowhere"),
    }
    assert not terminal.home.exists()
    with held(Home(terminal.home)):
        for name, text in (("endpoint", "http://127.0.0.1:1"), ("admin.key", "HUSH"), ("pepper", "HUSH")):
            (terminal.home / name).write_text(text, encoding="utf-8")
        assert {name: settings()[f"WEIR_{name}"] for name in ("PEPPER", "ENDPOINT", "API_KEY")} == {
            "PEPPER": ("(hidden)", f"{home}/pepper"),
            "ENDPOINT": ("http://127.0.0.1:1", f"{home}/endpoint"),
            "API_KEY": ("(hidden)", f"{home}/admin.key"),
        }
    terminal.at("https://w.example", "weir_HUSH")
    terminal.monkeypatch.setenv("WEIR_CATALOG", "postgresql://me:HUSH@db/weir?password=HUSH")
    assert settings()["WEIR_CATALOG"] == ("postgresql://me:***@db/weir", "environment")
    assert settings()["WEIR_ENDPOINT"] == ("https://w.example", "environment")
    assert settings()["WEIR_API_KEY"] == ("(hidden)", "environment")
    for output in ("table", "json", "yaml"):
        assert "HUSH" not in terminal("config", "-o", output)[1]


def completed(*words: str, **environ: str) -> list[str]:
    """Return what bash offers as completions of the last word."""
    asked = {
        "_WEIR_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            # A user waits at most one second for completions. A test waits longer, because the machine may be busy.
            "from services.cli import completion; completion.ANSWER_S = 60.0; from services.cli.main import main; main()",
        ],
        cwd=ROOT,
        env=os.environ | asked | environ,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_names_are_completed_from_the_home_and_from_a_service(terminal: Terminal, running: Running) -> None:
    assert completed("weir", "get", "tenants", "g") == ["gold"]
    assert completed("weir", "results", "si") == ["silver/q"]
    terminal.monkeypatch.delenv("WEIR_ENDPOINT")
    assert completed("weir", "explain", "") == []
    assert not terminal.home.exists()
    assert terminal("get", "tenants")[0] == 0
    assert completed("weir", "get", "priorityclass", "s") == ["silver"]
