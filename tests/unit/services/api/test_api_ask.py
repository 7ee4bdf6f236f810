"""One-time queries over REST: the answer with the time that it covers, and what callers and queries are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.network.one_time import OneTimeAnswer, answered_once
from engine.sql import plan_query
from services.common.weir_home import Home
from services.watch.watch import Watch
from tests.support.api import Api, api_over
from tests.support.class_networks import class_of, feed, row
from tests.support.query_runs import CATALOG, Run
from tests.support.watched import InProcess, declared

ASKED = "SELECT k, AVG(x) AS mean FROM t [RANGE 4 SECONDS] GROUP BY k"


@pytest.fixture
def system() -> InProcess:
    """Return a system in which class acme, in two shards, has taken rows of stream t."""
    shards = {"acme#0": fed(0), "acme#1": fed(1)}

    def answer(sql: str) -> dict[str, OneTimeAnswer]:
        query = plan_query("", sql, CATALOG)
        return {unit: answered_once(query, shard.runner.network) for unit, shard in shards.items()}

    found = InProcess().declare(declared("acme"))
    found.answers_once["acme"] = answer
    return found


def fed(k: int) -> Run:
    run = class_of("SELECT k, AVG(x) AS mean FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS] GROUP BY k")
    return feed(run, row(0, k=k, x=1.0), row(1, k=k, x=4.0 + k), row(7, k=k, x=9.0 + k))


@pytest.fixture
def api(tmp_path: Path, system: InProcess) -> Iterator[Api]:
    with api_over(Home(tmp_path)) as found:
        found.service.watch = Watch(system)
        found.service.watch.look()
        yield found


def ask(api: Api, sql: object = ASKED, tenant: str = "acme", who: str | None = "acme") -> Any:
    return api("POST", f"/v1/tenants/{tenant}/ask", {"sql": sql}, who=who)


def test_answers_of_all_shards_are_returned_with_the_time_that_they_cover(api: Api) -> None:
    answer = ask(api)
    assert answer.status_code == 200, answer.text
    times = {"start": at(4), "end": at(8), "complete_to": at(7), "short": False, "rows": 1, "kept": 1.0}
    assert answer.json() == {
        "tenant": "acme",
        "stream": "t",
        "range_s": 4.0,
        "columns": [
            {"name": "window_start", "type": "timestamp"},
            {"name": "window_end", "type": "timestamp"},
            {"name": "k", "type": "int32"},
            {"name": "mean", "type": "float64"},
        ],
        "rows": [
            {"window_start": at(4), "window_end": at(8), "k": 0, "mean": 9.0},
            {"window_start": at(4), "window_end": at(8), "k": 1, "mean": 10.0},
        ],
        "covers": [{"unit": "acme#0", **times}, {"unit": "acme#1", **times}],
    }
    assert ask(api, who="admin").json() == answer.json()


def at(second: int) -> str:
    return f"1970-01-01T00:00:{second:02}.000000Z"


@pytest.mark.parametrize(
    ("sql", "detail"),
    [
        ("SELECT AVG(x) FROM t [RANGE 1 HOUR]", "sql: the running queries keep only 4 SECONDS of stream t"),
        (
            "SELECT AVG(y) FROM t [RANGE 4 SECONDS]",
            "sql: line 1, column 12: there is no such column (got 'y')",
        ),
        ("SELECT AVG(x) FROM nothing [RANGE 4 SECONDS]", "sql: line 1, column 20: there is no such stream"),
        (
            "SELECT AVG(temp) FROM HOT [RANGE 4 SECONDS]",
            "sql: no running query of acme reads stream hot, so nothing",
        ),
        ("", "sql: "),
        (7, "sql: "),
    ],
)
def test_query_that_cannot_be_answered_is_invalid(api: Api, sql: object, detail: str) -> None:
    answer = ask(api, sql)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:weir:problem:invalid")
    assert answer.json()["detail"].startswith(detail)


def test_only_keys_of_the_tenant_may_ask(api: Api) -> None:
    assert ask(api, who=None).status_code == 401
    assert ask(api, who="feeder").status_code == 403
    assert ask(api, tenant="other").status_code == ask(api, tenant="nobody").status_code == 404


def test_class_that_does_not_run_cannot_be_asked(api: Api, system: InProcess) -> None:
    answer = ask(api, tenant="other", who="admin")
    assert (answer.status_code, answer.json()["detail"]) == (
        503,
        "no class of other runs: its queries are being started",
    )
    system.is_away = True
    assert ask(api).json()["type"] == "urn:weir:problem:not-running"
    api.service.watch = None
    assert ask(api).status_code == 503
