"""Limits on the state of a class: queries and tuples beyond a limit are refused and counted, and expired state frees room again."""

import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from configs.classes.limits import ClassLimits
from configs.errors import InvalidInput
from engine.class_.runner import ClassRunner
from engine.data.held_state import StateAccount
from engine.data.schema import INT64, STRING, Field, Schema, TableSchema
from engine.data.train import Train, train_from_arrow
from engine.network.row_losses import failed_rows
from engine.sql import SqlCatalog, parse_create_stream, plan_query
from services.cli.main import app
from tests.support.query_runs import train_rows

SECOND = 1_000_000
Seconds = Sequence[float] | npt.NDArray[Any]
Keys = Sequence[int] | npt.NDArray[Any]
STREAMS = {
    name: parse_create_stream(
        f"CREATE STREAM {name} (ts timestamp, k int64, g string, x float64, WATERMARK FOR ts AS ts)"
    )
    for name in ("s", "t")
}
CATALOG = SqlCatalog.of(streams=STREAMS.values())
COUNT = "SELECT window_end, k, count(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY k"
COUNT_TEXTS = COUNT.replace("k,", "g,").replace("BY k", "BY g")
MEDIAN = "SELECT median(x) AS m FROM s [RANGE 10 SECONDS]"
SKETCHES = "SELECT k, approx_quantile(x, 0.5) AS a, approx_top_k(k, 3) AS b, approx_count_distinct(x) AS c FROM s [RANGE 10 SECONDS] GROUP BY k"
ROWS = "SELECT sum(x) AS a FROM s [ROWS 1000000]"
JOIN = "SELECT s.x, t.x AS y FROM s JOIN t ON s.k = t.k AND t.ts BETWEEN s.ts AND s.ts + INTERVAL 1 HOUR"


@dataclass
class Class:
    """Class that has limits, with the answers of its queries."""

    queries: Sequence[str]
    limits: ClassLimits = field(default_factory=ClassLimits)
    trains: list[Train] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runner = ClassRunner(lambda query, out: self.trains.append(out), limits=self.limits)
        self.runner.add(*(plan_query(f"q{n}", sql, CATALOG) for n, sql in enumerate(self.queries)))

    @property
    def account(self) -> StateAccount:
        return self.runner.network.account

    @property
    def answers(self) -> list[tuple[Any, ...]]:
        return [row for train in self.trains for row in train_rows(train)]

    def offer(self, seconds: Seconds, keys: Keys, stream: str = "s") -> None:
        times = (np.asarray(seconds, float) * SECOND).astype(np.int64)
        columns = {
            "ts": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
            "k": pa.array(keys, pa.int64()),
            "g": pa.array([f"group {key}" for key in keys]),
            "x": pa.array(np.ones(len(times))),
        }
        batch = pa.table(columns).cast(STREAMS[stream].schema.arrow).combine_chunks()
        self.runner.offer(stream, train_from_arrow(batch, STREAMS[stream].schema, 0.0))
        self.run()

    def run(self) -> None:
        self.runner.run(1.0, lambda: 0.0, lambda: 0.0)

    def finish(self) -> None:
        self.runner.finish(0.0)
        self.run()


def counts(limited: Class) -> dict[int, int]:
    """Return the sum of the counts of all windows for each key."""
    found: dict[int, int] = {}
    for _, _, key, count in limited.answers:
        found[key] = found.get(key, 0) + count
    return found


# -- limit of the number of queries -------------------------------------------------------------------------


def test_a_query_beyond_the_limit_is_refused_and_leaves_no_trace() -> None:
    limited = Class([COUNT], ClassLimits(queries=2))
    more = [plan_query(name, "SELECT x FROM s", CATALOG) for name in ("b", "c")]
    with pytest.raises(InvalidInput, match="the class can have at most 2 queries"):
        limited.runner.add(*more)
    assert list(limited.runner.network.queries) == ["q0"]
    limited.runner.add(more[0])
    limited.runner.remove("q0")
    limited.runner.add(more[1])
    assert list(limited.runner.network.queries) == ["b", "c"]


# -- limit of the number of groups --------------------------------------------------------------------------


def test_if_the_limit_of_groups_is_reached_new_groups_are_refused_and_known_groups_continue() -> None:
    limited = Class([COUNT], ClassLimits(groups=2))
    limited.offer([1, 2, 3, 4], [7, 9, 5, 7])
    limited.offer([5, 6, 7], [9, 8, 5])
    limited.finish()
    assert counts(limited) == {7: 2, 9: 2}
    assert failed_rows(limited.runner.network.nodes) == {"too many groups (limit 2)": 3}
    assert [train.kept for train in limited.trains] == [pytest.approx(4 / 7)]


def test_expired_windows_free_room_for_groups() -> None:
    limited = Class([COUNT], ClassLimits(groups=2))
    limited.offer([1, 2], [1, 2])
    limited.offer(
        [11, 12, 13], [3, 4, 5]
    )  # Keys 1 and 2 still count towards the limit, because the class still stores their pane.
    limited.offer([21, 22, 23], [5, 6, 7])
    limited.finish()
    assert counts(limited) == {1: 1, 2: 1, 5: 1, 6: 1}


def test_the_limit_of_groups_counts_keys_however_far_apart_their_values_are() -> None:
    limited = Class([COUNT], ClassLimits(groups=3))
    for key in (0, 60_000, 30_000, 0, 1):
        limited.offer([1], [key])
    limited.finish()
    assert counts(limited) == {0: 2, 30_000: 1, 60_000: 1}
    assert failed_rows(limited.runner.network.nodes) == {"too many groups (limit 3)": 1}


def test_groups_are_limited_over_all_operators_together() -> None:
    limited = Class([COUNT, COUNT_TEXTS, JOIN], ClassLimits(groups=9))
    limited.offer([1] * 6, range(6))
    assert limited.account.groups == 9
    assert failed_rows(limited.runner.network.nodes) == {"too many groups (limit 9)": 9}


def test_an_operator_with_expired_groups_makes_room_for_another_operator() -> None:
    hot, cold = (COUNT.replace("GROUP", f"WHERE {which} GROUP") for which in ("k < 10", "k >= 10"))
    limited = Class([hot, cold], ClassLimits(groups=4))
    limited.offer([1] * 4, [1, 2, 3, 4])
    limited.offer([15], [4])
    limited.offer([16] * 3, [11, 12, 13])
    limited.finish()
    assert counts(limited) == {1: 1, 2: 1, 3: 1, 4: 2, 11: 1, 12: 1, 13: 1}


def test_a_join_refuses_keys_beyond_the_limit() -> None:
    limited = Class([JOIN], ClassLimits(groups=2))
    limited.offer([1, 1, 1], [1, 2, 3])
    limited.offer([2, 2, 2, 2], [3, 2, 1, 2], "t")
    assert len(limited.answers) == 3
    assert failed_rows(limited.runner.network.nodes) == {"too many groups (limit 2)": 2}


# -- limit of the bytes of state ----------------------------------------------------------------------------


@pytest.mark.parametrize("query", [MEDIAN, ROWS, JOIN, COUNT])
def test_full_state_stays_within_its_limit_and_every_refused_tuple_is_counted(query: str) -> None:
    limit = 1 << 20
    limited = Class([query], ClassLimits(state_bytes=limit))
    tuples = 100_000
    for start in range(0, tuples, 5000):
        limited.offer([1 + start / tuples] * 5000, np.arange(start, start + 5000) * 1000)
    assert 0.4 * limit < limited.account.state <= limit
    (reason, refused), *others = failed_rows(limited.runner.network.nodes).items()
    assert (reason, others) == ("state is full (limit 1,048,576 bytes)", [])
    assert 0 < refused < tuples
    held = {MEDIAN: 24, ROWS: 8, JOIN: 32, COUNT: 200}[query] * (tuples - refused)
    assert held < limit


def test_full_state_still_counts_rows_of_known_groups() -> None:
    limited = Class([COUNT], ClassLimits(state_bytes=1 << 16))
    limited.offer([1] * 50_000, np.arange(50_000) * 1000)
    have = limited.account.groups
    limited.offer([2] * 50_000, np.arange(50_000) * 1000)
    limited.finish()
    assert (len(counts(limited)), set(counts(limited).values())) == (have, {2})
    assert [train.kept for train in limited.trains] == [pytest.approx(have / 50_000)]


def test_consecutive_windows_find_room_for_their_groups_within_the_state_limit() -> None:
    limited = Class([COUNT], ClassLimits(state_bytes=40_000))
    limited.offer([1] * 100, np.arange(100) * 1000)
    limited.offer([11] * 100, np.arange(100) * 1000)
    limited.offer([21] * 100, np.arange(100) * 1000)
    limited.offer([31] * 100, np.arange(100) * 1000)
    limited.finish()
    ends = [row[1] // SECOND for row in limited.answers]
    assert {end: ends.count(end) for end in ends} == {10: 100, 20: 100, 30: 100, 40: 100}


def test_tuples_of_a_train_that_do_not_fit_into_the_state_are_refused_and_counted() -> None:
    limited = Class(["SELECT x + 1 AS a FROM s WHERE x > 0"], ClassLimits(state_bytes=4000))
    limited.offer([1] * 100, range(100))
    assert 0 < len(limited.answers) < 100
    assert failed_rows(limited.runner.network.nodes) == {
        "state is full (limit 4,000 bytes)": 100 - len(limited.answers)
    }
    assert [train.kept for train in limited.trains] == [pytest.approx(len(limited.answers) / 100)]
    assert limited.account.queued == 0


def test_the_bytes_of_a_train_in_many_queues_are_counted_once() -> None:
    limited = Class(
        [f"SELECT x FROM s WHERE x > {number}" for number in range(50)], ClassLimits(state_bytes=20_000)
    )
    limited.offer([1] * 100, range(100))
    assert failed_rows(limited.runner.network.nodes) == {}
    assert limited.account.queued == 0


def test_full_state_of_a_query_does_not_block_other_queries() -> None:
    limited = Class([MEDIAN, "SELECT x FROM s WHERE x > 0"], ClassLimits(state_bytes=1 << 18))
    for second in range(20):
        limited.offer([1 + second / 100] * 1000, range(1000))
    assert failed_rows(limited.runner.network.nodes).keys() == {"state is full (limit 262,144 bytes)"}
    assert len(limited.answers) == 20 * 1000


def test_removing_a_query_frees_its_state() -> None:
    limited = Class([COUNT, MEDIAN, ROWS, JOIN])
    limited.offer([1] * 1000, np.arange(1000) * 1000)
    held = limited.account.state
    assert held > 0
    for query in ("q0", "q1", "q2", "q3"):
        limited.runner.remove(query)
        assert limited.account.state < held
        held = limited.account.state
    assert (limited.account.groups, limited.account.state, limited.account.queued) == (0, 0, 0)
    assert limited.account.holdings == {}


def test_a_restored_class_accounts_for_the_same_state() -> None:
    queries = [COUNT, MEDIAN, ROWS, JOIN]
    limited, other = Class(queries), Class(queries)
    limited.offer([1] * 1000, np.arange(1000) * 1000)
    other.runner.restore(limited.runner.snapshot())
    assert (other.account.groups, other.account.state) == (limited.account.groups, limited.account.state)


# -- estimated bytes compared with the memory really used ---------------------------------------------------


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


def real_bytes() -> int:
    """Return the bytes that Python, numpy and Arrow hold now. Memory that was allocated before tracing began does not count."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0] + int(pa.total_allocated_bytes())


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("query", [COUNT, COUNT_TEXTS, MEDIAN, JOIN])
def test_the_estimated_state_is_near_the_allocated_memory(query: str) -> None:
    limited, before = Class([query]), real_bytes()
    for start in range(0, 50_000, 5000):
        limited.offer([1] * 5000, np.arange(start, start + 5000) * 1000)
    assert 0.5 < limited.account.state / (real_bytes() - before) < 2


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    "query",
    [
        COUNT,
        COUNT.replace("10 SECONDS", "10 SECONDS SLIDE 5 SECONDS"),
        COUNT_TEXTS,
        "SELECT k, count(*) AS n FROM s [ROWS 1000 SLIDE 500] GROUP BY k",
        JOIN.replace("1 HOUR", "10 SECONDS"),
    ],
)
def test_memory_does_not_grow_with_ever_new_keys(query: str) -> None:
    limited, size = Class([query]), 200
    estimates, real = [], []
    for lap in range(8):
        for second in range(lap * 40, lap * 40 + 40):
            keys = (np.arange(size) + size * second) * 1000
            limited.offer(second + np.arange(size) / size, keys)
            limited.offer(second + np.arange(size) / size, keys, "t")
            limited.trains.clear()
        estimates.append(limited.account.state)
        real.append(real_bytes())
    assert max(estimates[4:]) <= 1.1 * max(estimates[:4])
    assert max(real[4:]) <= 1.1 * max(real[:4])


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_a_join_with_a_table_does_not_remember_unknown_keys() -> None:
    schema = TableSchema("rooms", Schema((Field("k", INT64), Field("room", STRING))))
    rooms = train_from_arrow(pa.table({"k": [1, 10**9], "room": ["a", "b"]}), schema.schema, 0.0)
    found: list[int] = []
    runner = ClassRunner(lambda query, out: found.append(len(out)), tables={"rooms": rooms})
    text = "SELECT s.k, rooms.room FROM s JOIN rooms ON s.k = rooms.k"
    runner.add(plan_query("q", text, CATALOG.with_entry(schema)))
    limited = Class([])
    limited.runner = runner
    sizes = []
    for start in range(0, 40_000, 1000):
        limited.offer([1] * 1001, [1, *range(start + 10, start + 1010)])
        sizes.append(real_bytes())
    assert found == [1] * 40
    assert sizes[-1] < sizes[2] + 50_000


# -- the command `weir run` ---------------------------------------------------------------------------------


def test_weir_run_prints_refused_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": [0, 1, 2, 3], "k": [1, 2, 3, 1]}), tmp_path / "s.parquet")
    text = (
        "CREATE STREAM s (ts int64, k int64, WATERMARK FOR ts AS ts);"
        "CREATE QUERY n AS SELECT k, count(*) AS n FROM s [RANGE 1 SECOND] GROUP BY k"
    )
    (tmp_path / "q.sql").write_text(text, encoding="utf-8")
    arguments = ["run", str(tmp_path / "q.sql"), "-i", f"s={tmp_path / 's.parquet'}", "--limit-groups", "2"]
    output = CliRunner().invoke(app, arguments, catch_exceptions=False).stdout
    assert "n: 2 rows" in output
    assert "panes of n: 1 tuples failed: too many groups (limit 2)" in output
