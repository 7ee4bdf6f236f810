"""Answers of a class in this process, read through a real service by the client and by the command line."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from actors.runtime.run_dirs import RunDirs
from bench.local_places import LocalPlaces
from configs.classes.live_class import LiveSettings
from configs.documents.declarations import documents_of
from configs.errors import InvalidInput, UnknownName
from configs.service.service_settings import ServiceSettings
from services.cli.commands.results import DELETED, RESTARTED, Csv, Table, write
from services.cli.main import main
from services.client import Client
from services.remote.results import has_reached
from services.remote.wire import RowsForgotten
from services.results.results import Results
from tests.support.breaking import cutting
from tests.support.checkout import ROOT
from tests.support.served import Served, served
from tests.unit.actors.host.test_hosting import SETTINGS, Hosted, Node, declared, delivered, readings, running

DOCUMENTS = """
{kind: Stream, name: readings, columns: {ts: int64, sensor: int32, temp: float64}, time: ts}
---
{kind: Tenant, name: gold, priority_class: gold}
---
{kind: Query, tenant: gold, name: hot, sql: "SELECT ts, sensor, temp FROM readings WHERE temp > 0"}
"""
WEIR = [sys.executable, "-c", "from services.cli.main import main; main()"]


class Answering:
    """Running class, with services that return its answers."""

    def __init__(
        self, stack: ExitStack, dirs: RunDirs, folder: Path, settings: LiveSettings = SETTINGS
    ) -> None:
        self.dirs, self.folder, self._sent = dirs, folder, 0
        self.node: Node = stack.enter_context(running(dirs))
        self.hosted: Hosted = self.node.host(declared(), settings=settings)
        self.hosted.subscribed()

    def publish(self, rows: int) -> None:
        """Publish rows and wait for their answers. Half of the rows become answers."""
        self.node.publish(readings(self._sent, rows))
        self._sent += rows
        self.hosted.wait(delivered(self._sent))

    def served(self, stack: ExitStack, port: int = 0) -> Served:
        found = stack.enter_context(served(self.folder, ServiceSettings(port=port)))
        found.catalog.apply(documents_of(DOCUMENTS), "test")
        seen = found.service.snapshot

        def is_declared(tenant: str, query: str) -> bool:
            return any(item.ref.name == query for item in seen.now.queries.get(tenant, ()))

        found.service.results = Results(LocalPlaces(self.dirs), is_declared)
        seen.refresh()
        stack.callback(found.service.results.close)
        return found


@pytest.fixture
def stack(dirs: RunDirs) -> Iterator[ExitStack]:
    """Provide an exit stack that closes before the folders of the test are removed."""
    with ExitStack() as found:
        yield found


@pytest.fixture
def answering(stack: ExitStack, dirs: RunDirs, tmp_path: Path) -> Answering:
    return Answering(stack, dirs, tmp_path / "served")


@pytest.fixture
def weir(stack: ExitStack, answering: Answering) -> Served:
    return answering.served(stack)


def hot(begin: int, end: int) -> list[dict[str, Any]]:
    """Return the expected answers with these sequence numbers."""
    return [
        {"_seq": seq, "_kept": 1.0, "ts": 200 * seq, "sensor": 2 * seq, "temp": 1.0}
        for seq in range(begin, end)
    ]


def test_kept_answers_are_read_once_and_in_order(answering: Answering, weir: Served) -> None:
    answering.publish(100)
    with weir.client("tenant:gold") as client:
        found = client.results("hot")
        assert list(found) == hot(0, 50)
        assert (list(found), found.columns) == ([], ["ts", "sensor", "temp"])
        assert list(client.results("gold/hot", after="46")) == hot(47, 50)
        assert list(client.results("hot", "gold", after="latest")) == []
        answering.publish(10)
        assert list(client.results("hot", after=found.cursor)) == hot(50, 55)


def test_limit_and_tail_bound_the_number_of_rows(answering: Answering, weir: Served) -> None:
    answering.publish(50_000)
    with weir.client("tenant:gold") as client:
        assert list(client.results("hot", limit=3)) == hot(0, 3)
        assert list(client.results("hot", limit=12_000)) == hot(0, 12_000)
        assert list(client.results("hot", tail=3)) == hot(24_997, 25_000)
        assert list(client.results("hot", tail=5, limit=2)) == hot(24_995, 24_997)
        assert list(client.results("hot", after="24990", limit=2)) == hot(24_991, 24_993)
        # With `follow`, rows that arrive after the call are also read, until the limit is reached.
        following = client.results("hot", tail=2, limit=4, follow=True)
        assert [next(following), next(following)] == hot(24_998, 25_000)
        answering.publish(10)
        assert list(following) == hot(25_000, 25_002)
        for wrong in ({"limit": 0}, {"tail": 0}, {"tail": 1, "after": "3"}):
            with pytest.raises(InvalidInput):
                client.results("hot", **wrong)


def test_answers_can_be_read_as_an_arrow_table(answering: Answering, weir: Served) -> None:
    answering.publish(50_000)
    with weir.client("tenant:gold") as client:
        table = client.results_table("hot")
        assert table.column("sensor").to_pylist() == list(range(0, 50_000, 2))
        assert str(table.schema.field("sensor").type) == "int32"
        assert client.results_table("hot", after="24990", most=3).column("_seq").to_pylist() == [
            24_991,
            24_992,
            24_993,
        ]


def test_answers_of_another_tenant_are_hidden(answering: Answering, weir: Served) -> None:
    answering.publish(10)
    more = documents_of("{kind: Tenant, name: other, priority_class: gold}")
    weir.catalog.apply(more, "test")
    with weir.client("tenant:other") as client, pytest.raises(UnknownName):
        list(client.results("gold/hot"))


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [[0, 0, 0], [150, 5000, 1, 90_000], [700] * 12])
def test_reader_resumes_after_a_broken_connection(
    answering: Answering, weir: Served, cuts: list[int]
) -> None:
    key = weir.key("tenant:gold")
    with (
        cutting(int(weir.url.rpartition(":")[2]), cuts) as port,
        Client(f"http://127.0.0.1:{port}", key) as client,
    ):
        rows = client.results("hot", follow=True)
        found: list[dict[str, Any]] = []
        for _ in range(5):
            answering.publish(1000)
            found += islice(rows, 500)
        assert found == hot(0, 2500)


def test_reader_resumes_after_a_restart_of_the_service(answering: Answering, stack: ExitStack) -> None:
    answering.publish(100)
    with ExitStack() as first:
        weir = answering.served(first)
        client = stack.enter_context(weir.client("tenant:gold"))
        rows = client.results("hot", follow=True)
        found = list(islice(rows, 50))
    answering.publish(100)
    reader = threading.Thread(target=lambda: found.extend(islice(rows, 50)))
    reader.start()
    answering.served(stack, int(weir.url.rpartition(":")[2]))
    reader.join()
    assert found == hot(0, 100)


def test_reader_ends_when_its_query_is_deleted(answering: Answering, weir: Served) -> None:
    answering.publish(100)
    with weir.client("admin") as client:
        rows = client.results("gold/hot", follow=True)
        assert len(list(islice(rows, 50))) == 50
        client.delete("query", "gold/hot")
        assert list(rows) == []
        assert rows.is_deleted
        with pytest.raises(UnknownName):
            list(client.results("gold/hot", follow=True))


def test_cursor_beyond_the_last_row_gives_one_warning(
    answering: Answering, weir: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    answering.publish(100)
    with weir.client("admin") as client:
        write(client.results("gold/hot", after="100000000", limit=1), Csv())
        shown = capsys.readouterr()
        assert (len(shown.out.splitlines()), shown.err) == (2, f"warning: {RESTARTED}\n")
        write(client.results("gold/hot", after="5", limit=1), Csv())
        assert capsys.readouterr().err == ""


def test_following_a_deleted_query_ends_with_a_warning_and_exit_code_1(
    answering: Answering, weir: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    answering.publish(100)
    with weir.client("admin") as client:
        rows = client.results("gold/hot", follow=True)
        assert len(rows.page()) == 50
        client.delete("query", "gold/hot")
        with pytest.raises(typer.Exit) as ended:
            write(rows, Csv())
        assert (ended.value.exit_code, capsys.readouterr().err) == (1, f"warning: {DELETED}\n")


def test_forgotten_rows_are_reported_with_the_next_kept_row(
    stack: ExitStack, dirs: RunDirs, tmp_path: Path
) -> None:
    settings = SETTINGS.model_copy(update={"results_bytes": 1 << 20})
    answering = Answering(stack, dirs, tmp_path / "served", settings)
    weir = answering.served(stack)
    for _ in range(20):
        answering.publish(10_000)
    client = stack.enter_context(weir.client("tenant:gold"))
    with pytest.raises(RowsForgotten) as caught:
        list(client.results("hot", after="10"))
    first = int(caught.value.next.partition(".")[0]) + 1
    assert 11 < first < 100_000
    reports: list[RowsForgotten] = []
    rows = list(client.results("hot", after="10", forgotten=reports.append))
    assert [report.next for report in reports] == [caught.value.next]
    assert [row["_seq"] for row in rows] == list(range(first, 100_000))


@pytest.mark.parametrize(
    ("cursor", "end", "reached"),
    [
        ("41.ab", "41.ab", True),
        ("42.ab", "41.cd", True),
        ("40", "41.ab", False),
        ("-1", "-1", True),
        ("5.a,7.b", "5.a,7.b", True),
        ("9.a,6.b", "5.a,7.b", False),
        ("5.a,", "5.a,7.b", False),
        ("5.a", "5.a,7.b", False),
        (None, "", False),
        ("41", "", False),
        ("what-comes-later", "what-comes-later", False),
    ],
)
def test_cursor_reaches_the_end_only_when_every_unit_has_reached_its_end(
    cursor: str | None, end: str, reached: bool
) -> None:
    assert has_reached(cursor, end) is reached


# -- answers on the command line -----------------------------------------------------------------------------------


@pytest.fixture
def weir_command(
    weir: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int | str | None, str, str]]:
    monkeypatch.setenv("WEIR_ENDPOINT", weir.url)
    monkeypatch.setenv("WEIR_API_KEY", weir.key("tenant:gold"))

    def call(*arguments: str) -> tuple[int | str | None, str, str]:
        monkeypatch.setattr(sys, "argv", ["weir", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return call


WeirCommand = Callable[..., tuple[int | str | None, str, str]]


def test_answers_are_printed_in_every_format(answering: Answering, weir_command: WeirCommand) -> None:
    answering.publish(10)
    code, out, err = weir_command("results", "gold/hot", "-o", "json")
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows == hot(0, 5)
    assert yaml.safe_load(weir_command("results", "hot", "-o", "yaml")[1]) == rows
    read = list(csv.DictReader(io.StringIO(weir_command("results", "hot", "-o", "csv")[1])))
    assert [(row["_seq"], row["ts"]) for row in read] == [(str(seq), str(200 * seq)) for seq in range(5)]
    lines = [line.split() for line in weir_command("results", "hot", "--after", "2")[1].splitlines()]
    assert lines == [
        ["_seq", "_kept", "ts", "sensor", "temp"],
        ["3", "100%", "600", "6", "1"],
        ["4", "100%", "800", "8", "1"],
    ]


def test_options_limit_tail_and_after_choose_which_answers_are_shown(
    answering: Answering, weir_command: WeirCommand
) -> None:
    answering.publish(100)

    def shown(*arguments: str) -> list[int]:
        code, out, err = weir_command("results", "gold/hot", "-o", "json", *arguments)
        assert (code, err) == (0, "")
        return [json.loads(line)["_seq"] for line in out.splitlines()]

    assert shown("--limit", "3") == [0, 1, 2]
    assert shown("--tail", "2") == [48, 49]
    assert shown("--tail", "5", "--limit", "1") == [45]
    assert shown("--after", "30", "--limit", "2") == [31, 32]
    assert shown("--follow", "--tail", "3", "--limit", "3") == [47, 48, 49]
    code, _, err = weir_command("results", "gold/hot", "--tail", "2", "--after", "3")
    assert (code, err.splitlines()[0]) == (
        2,
        "error: --tail: this option cannot be combined with --after (got 2)",
    )


def test_csv_output_has_all_digits_of_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    Csv().write(["d"], [{"d": 123456789012.5}, {"d": 0.1 + 0.2}, {"d": None}])
    assert capsys.readouterr().out.splitlines() == ["d", "123456789012.5", "0.30000000000000004", '""']


def test_table_shows_100_percent_kept_only_if_all_rows_were_kept(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fractions = [1.0, 0.99999, 0.57, 0.0421]
    Table().write(["n"], [{"_seq": seq, "_kept": kept, "n": 7} for seq, kept in enumerate(fractions)])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["_seq", "_kept", "n"],
        ["0", "100%", "7"],
        ["1", "99.9%", "7"],
        ["2", "57.0%", "7"],
        ["3", "4.2%", "7"],
    ]


WIDE = {
    "_seq": 12,
    "_kept": 1.0,
    "started_at": "2026-11-19T12:00:00.000000Z",
    "ended_at": "2026-11-19T12:00:10.000000Z",
    "city": "Oosterhesselen",
    "mean": 123456.789012,
}


def printed_at(
    width: int | None, capsys: pytest.CaptureFixture[str], *pages: list[dict[str, Any]]
) -> list[str]:
    table = Table(width)
    for page in pages:
        table.write(list(page[0]), page)
    table.end()
    return capsys.readouterr().out.splitlines()


def test_a_row_of_results_is_never_wider_than_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    later = WIDE | {"_seq": 13, "city": "Wijk bij Duurstede", "mean": 7.5}
    for width in range(20, 140):
        lines = printed_at(width, capsys, [WIDE], [later])
        assert max(map(len, lines)) <= width, width
        heads = [line for line in lines if line.startswith("_seq")]
        assert ("hidden" in " ".join(lines)) == ("mean" not in heads[-1])


def test_hidden_columns_of_results_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed_at(80, capsys, [WIDE]) == [
        "_seq  _kept                   started_at                     ended_at",
        "  12   100%  2026-11-19T12:00:00.000000Z  2026-11-19T12:00:10.000000Z",
        "2 columns hidden: city, mean (widen the terminal, or use -o wide)",
    ]
    assert printed_at(None, capsys, [WIDE])[1].endswith("Oosterhesselen  123,456.789")


def test_a_page_of_results_with_longer_values_gets_wider_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed_at(30, capsys, [{"_seq": 9, "n": 1}], [{"_seq": 10, "n": 1234567}]) == [
        "_seq  n",
        "   9  1",
        "  10  1234567",
    ]


def test_long_text_in_results_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed_at(40, capsys, [{"_seq": 1, "text": "a rather long text that fits nowhere at all"}])
    assert lines == [f"_seq  {'text':>34}", f"   1  {'a rather long text that fits…':>34}"]


def test_wide_results_show_every_column(
    answering: Answering, weir_command: WeirCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering.publish(10)
    monkeypatch.setenv("COLUMNS", "20")
    code, out, _ = weir_command("results", "gold/hot", "--limit", "1")
    assert (code, "hidden" in out, max(map(len, out.splitlines())) <= 20) == (0, True, True)
    code, out, _ = weir_command("results", "gold/hot", "--limit", "1", "-o", "wide")
    assert (code, "hidden" in out) == (0, False)


def test_unknown_query_is_an_error_with_exit_code_2(weir_command: WeirCommand) -> None:
    code, out, err = weir_command("results", "gold/cold", "--follow")
    assert (code, out) == (2, "")
    assert err.startswith("error: there is no Query of this name (got 'cold')")


# Program that sends itself SIGINT (Ctrl-C) at the worst moment: just after a call has acquired the lock of the connection pool.
CTRL_C_WITH_LOCKED_POOL = """
import os, signal
from httpcore import _synchronization
from services.cli.main import main
def interrupted(lock):
    lock._lock.acquire()
    os.kill(os.getpid(), signal.SIGINT)
    return lock
_synchronization.ThreadLock.__enter__ = interrupted
main()
"""


def test_ctrl_c_ends_weir_results_while_the_connection_pool_is_locked(weir: Served) -> None:
    environ = os.environ | {"WEIR_ENDPOINT": weir.url, "WEIR_API_KEY": weir.key("tenant:gold")}
    command = [sys.executable, "-c", CTRL_C_WITH_LOCKED_POOL, "results", "hot", "--follow"]
    # If Ctrl-C caused a deadlock, the command would be killed only after the timeout.
    found = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "")


def test_following_ends_by_ctrl_c_or_when_its_output_is_closed(
    answering: Answering, weir: Served, tmp_path: Path
) -> None:
    answering.publish(10)
    environ = os.environ | {"WEIR_ENDPOINT": weir.url, "WEIR_API_KEY": weir.key("tenant:gold")}
    command = [*WEIR, "results", "hot", "--follow", "-o", "json"]

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    with started() as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["_seq"] == 0
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        assert (process.returncode, err) == (130, "")
    with started() as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        answering.publish(10)
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait()) == ("", 0)
