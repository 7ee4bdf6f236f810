"""The connector's client publishes each row once, or raises an error, if the gateway is busy, is away, or loses responses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark_weir.client import MESSAGE_BYTES, Batch, GatewayClient, messages
from pyspark_weir.errors import DataLoss, GatewayAway, Refused
from pyspark_weir.options import WriteOptions, write_options
from pyspark_weir.reader import limited

from tests.spark.door import Answers, Node, opened

UNREACHABLE = "127.0.0.1:1"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with opened(tmp_path, "s") as found:
        yield found


def options(node: Node, **given: Any) -> WriteOptions:
    texts = {"endpoint": node.endpoint, "stream": "s", "apiKey": node.key, "timeoutSeconds": "20"}
    return write_options(texts | {name: str(value) for name, value in given.items()}, "writeStream")


def gateway(node: Node) -> GatewayClient:
    return GatewayClient(options(node).connection)


def table(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "x": pa.array([0.5] * len(ids))})


def staged(node: Node, batch: Batch, *parts: tuple[int, ...]) -> list[tuple[int, str]]:
    return [
        (place, gateway(node).stage(options(node), batch, place, table(*ids).to_batches()))
        for place, ids in enumerate(parts)
    ]


# -- rows that are published exactly once --------------------------------------------------------------------------


def test_commit_publishes_staged_parts_in_their_order(node: Node) -> None:
    batch = Batch("q", 0)
    parts = staged(node, batch, (1, 2), (3,), (4, 5))
    assert node.ids("s") == []
    gateway(node).commit("s", batch, parts[::-1])
    assert node.ids("s") == [1, 2, 3, 4, 5]


def test_rows_of_a_task_attempt_that_the_commit_does_not_name_are_not_published(node: Node) -> None:
    batch = Batch("q", 0)
    staged(node, batch, (1, 2))
    gateway(node).commit("s", batch, staged(node, batch, (1, 2)))
    assert node.ids("s") == [1, 2]


def test_aborted_parts_cannot_be_committed(node: Node) -> None:
    batch = Batch("q", 0)
    parts = staged(node, batch, (1, 2))
    gateway(node).abort("s", batch)
    with pytest.raises(Refused, match="no longer holds"):
        gateway(node).commit("s", batch, parts)


@pytest.mark.parametrize("call", ["put", "commit"])
def test_no_row_is_published_twice_if_responses_of_the_gateway_are_lost(node: Node, call: str) -> None:
    node.lost[call] = 2
    for number in range(3):
        batch = Batch("executors", number)
        gateway(node).commit("s", batch, staged(node, batch, (number,)))
        gateway(node).publish(options(node), Batch("driver", number), table(10 + number))
    assert sorted(node.ids("s")) == [0, 1, 2, 10, 11, 12]


def test_batch_repeated_by_the_driver_or_by_executors_is_published_once(node: Node) -> None:
    batch = Batch("q", 3)
    gateway(node).publish(options(node), batch, table(1))
    gateway(node).publish(options(node), batch, table(1))
    gateway(node).commit("s", batch, staged(node, batch, (1,)))
    assert node.ids("s") == [1]


def test_connector_repeats_a_call_while_the_gateway_is_busy(node: Node) -> None:
    node.busy = 3
    gateway(node).publish(options(node), Batch("q", 0), table(1))
    assert (node.ids("s"), node.calls) == ([1], ["put"] * 4)


def test_client_reconnects_after_the_gateway_was_away(node: Node) -> None:
    to = options(node)
    GatewayClient(to.connection).publish(to, Batch("q", 0), table(1))
    node.stop()
    impatient = replace(to, connection=replace(to.connection, timeout_s=0.0))
    with pytest.raises(GatewayAway):
        GatewayClient(impatient.connection).publish(impatient, Batch("q", 1), table(2))
    node.start()
    GatewayClient(to.connection).publish(to, Batch("q", 1), table(2))
    assert node.ids("s") == [1, 2]


def test_first_endpoint_that_answers_is_used(node: Node) -> None:
    to = options(node, endpoint=f"{UNREACHABLE},{node.endpoint}", timeoutSeconds=0)
    GatewayClient(to.connection).publish(to, Batch("q", 0), table(1))
    assert node.ids("s") == [1]


def test_messages_are_limited_in_rows_and_bytes() -> None:
    def lengths(batch: pa.RecordBatch, rows_max: int) -> list[int]:
        return [message.num_rows for message in messages([batch], rows_max)]

    (narrow,) = table(*range(10)).to_batches()
    assert lengths(narrow, 3) == [3, 3, 3, 1]
    assert lengths(narrow, 100) == [10]
    wide = pa.record_batch({"text": ["x" * (MESSAGE_BYTES // 4)] * 10})
    assert lengths(wide, 100) == [3, 3, 3, 1]
    endless = pa.record_batch({"text": ["x" * (MESSAGE_BYTES + 1)] * 2})
    assert lengths(endless, 100) == [1, 1]


# -- errors that the client raises ---------------------------------------------------------------------------------


def test_timeout_error_says_the_reason_and_the_remedy(node: Node) -> None:
    node.busy = 1000
    to = options(node, timeoutSeconds=0)
    with pytest.raises(GatewayAway) as raised:
        GatewayClient(to.connection).publish(to, Batch("q", 0), table(1))
    assert str(raised.value) == (
        "the gateway did not accept the call within 0 s: the stream's log is full; "
        "check that the gateway runs and has room, or set a larger timeoutSeconds"
    )


def test_refusal_is_shown_in_the_gateways_words_and_not_retried(node: Node) -> None:
    for wrong, words in (
        ({"stream": "t"}, "stream: the gateway has no stream of this name (got 't')\n  hint: known: s"),
        ({"apiKey": "weir_" + "x" * 43}, "this key is not valid for this gateway: check the option apiKey"),
    ):
        to = options(node, **wrong)
        with pytest.raises(Refused) as raised:
            GatewayClient(to.connection).publish(to, Batch("q", 0), table(1))
        assert str(raised.value) == words
    assert node.calls == ["put"]


def test_column_unknown_to_the_stream_is_named(node: Node) -> None:
    drifted = table(1).append_column("y", pa.array([1]))
    with pytest.raises(Refused, match="y"):
        gateway(node).publish(options(node), Batch("q", 0), drifted)
    gateway(node).publish(options(node, schemaPolicy="ignore"), Batch("q", 0), drifted)
    assert node.ids("s") == [1]


def test_parts_lost_by_a_gateway_restart_must_be_written_again(node: Node) -> None:
    batch = Batch("q", 0)
    parts = staged(node, batch, (1,))
    node.stop()
    node.start()
    with pytest.raises(Refused, match=r"no longer holds.*start the query again"):
        gateway(node).commit("s", batch, parts)
    gateway(node).commit("s", batch, staged(node, batch, (1,)))
    assert node.ids("s") == [1]


def test_abort_raises_nothing_while_the_gateway_is_away(node: Node) -> None:
    GatewayClient(options(node, endpoint=UNREACHABLE, timeoutSeconds=0).connection).abort("s", Batch("q", 0))


# -- reading answers -----------------------------------------------------------------------------------------------


def read(node: Node, begin: int, end: int) -> list[int]:
    batches = gateway(node).rows("gold", "hot", begin, end)
    return [seq for batch in batches for seq in batch.column("_seq").to_pylist()]


def test_read_resumes_after_a_broken_connection(node: Node) -> None:
    Answers(node, "gold").add(range(100, 150))
    node.lost["get"] = 3
    assert read(node, 5, 45) == list(range(5, 45))
    assert node.calls == ["get"] * 4


def test_reading_forgotten_rows_reports_the_first_kept_row(node: Node) -> None:
    answers = Answers(node, "gold", forgets=True)
    for place in range(50):
        answers.add(range(200 * place, 200 * place + 200))
    (unit,) = gateway(node).units("gold", "hot")
    assert 0 < unit.first < unit.next == 10_000
    with pytest.raises(DataLoss, match="row 5 of hot is no longer kept") as raised:
        read(node, 5, 10_000)
    assert raised.value.kept == unit.first


@given(
    st.dictionaries(
        st.text("abc", min_size=1), st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1
    ),
    st.integers(1, 100),
)
def test_limit_of_rows_is_used_fully_and_shared_evenly_by_units(
    units: dict[str, tuple[int, int]], rows_max: int
) -> None:
    begin = {name: first for name, (first, _) in units.items()}
    end = {name: first + rows for name, (first, rows) in units.items()}
    found = limited(begin, end, rows_max)
    taken = {name: found[name] - begin[name] for name in units}
    assert all(0 <= taken[name] <= rows for name, (_, rows) in units.items())
    assert sum(taken.values()) == min(rows_max, sum(rows for _, rows in units.values()))
    most = max(taken.values())
    assert all(taken[name] == rows or taken[name] >= most - 1 for name, (_, rows) in units.items())
