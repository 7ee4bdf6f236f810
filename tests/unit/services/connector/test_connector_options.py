"""Options of the Spark connector: mistakes are reported before any row is sent, and no message shows a key."""

from __future__ import annotations

import pickle
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType
from pyspark_weir import DefaultSource, OptionError, to_weir
from pyspark_weir.options import KEY_VARIABLE, OPTIONS, Connection, ReadOptions, WriteOptions
from pyspark_weir.options import read_options as read
from pyspark_weir.options import write_options as write

from tests.support.checkout import ROOT

KEY = "weir_" + "aB3-_" * 8 + "xyz"
LEAST = {"endpoint": "localhost:5005", "apiKey": KEY}
WRITE = {**LEAST, "stream": "readings"}
READ = {**LEAST, "query": "gold/hot"}
CONNECTION = Connection(("grpc://localhost:5005",), KEY, 120.0)


@pytest.fixture(autouse=True)
def without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)


def error_text(given: dict[str, str], use: Literal["write", "writeStream", "read", "readStream"]) -> str:
    with pytest.raises(OptionError) as raised:
        write(given, use) if use == "write" or use == "writeStream" else read(given, use)
    return str(raised.value)


# -- valid options -------------------------------------------------------------------------------------------------


def test_options_that_are_left_out_have_their_defaults() -> None:
    assert write(WRITE, "writeStream") == WriteOptions(CONNECTION, "readings", None, "reject", 65_536, None)
    assert read(READ, "readStream") == ReadOptions(CONNECTION, "gold", "hot", "latest", None, True)
    assert read(READ, "read") == ReadOptions(CONNECTION, "gold", "hot", "earliest", None, True)


def test_every_option_is_parsed() -> None:
    given = {
        "endpoint": "grpc://one:1, two:2,grpc://[::1]:3",
        "stream": "readings",
        "apiKey": f"{KEY}\n",
        "timestampColumn": "ts",
        "schemaPolicy": "addnullable",
        "timeoutSeconds": "0.5",
        "batchRows": "1000",
    }
    connection = Connection(("grpc://one:1", "grpc://two:2", "grpc://[::1]:3"), KEY, 0.5)
    expected = WriteOptions(connection, "readings", "ts", "addNullable", 1000, None)
    assert write(given, "writeStream") == expected
    given = {**READ, "startingOffsets": "17", "maxRowsPerTrigger": "1000", "failOnDataLoss": "False"}
    assert read(given, "readStream") == ReadOptions(CONNECTION, "gold", "hot", 17, 1000, False)


@given(st.data())
def test_names_of_options_are_case_insensitive(data: st.DataObject) -> None:
    cased = {
        "".join(data.draw(st.sampled_from((letter.lower(), letter.upper()))) for letter in name): text
        for name, text in WRITE.items()
    }
    assert write(cased, "writeStream") == write(WRITE, "writeStream")


def test_options_added_by_spark_are_ignored() -> None:
    assert write({**WRITE, "checkpointlocation": "c", "queryName": "q"}, "writeStream") == write(
        WRITE, "writeStream"
    )


def test_option_api_key_overrides_the_environment_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = "weir_" + "o" * 43
    monkeypatch.setenv(KEY_VARIABLE, other)
    assert write(WRITE, "writeStream").connection.api_key == KEY
    del (without := dict(WRITE))["apiKey"]
    assert write(without, "writeStream").connection.api_key == other


# -- invalid options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["endpoint", "stream", "apiKey"])
def test_missing_required_option_is_named(name: str) -> None:
    text = error_text({option: text for option, text in WRITE.items() if option != name}, "writeStream")
    assert text.startswith(f"option {name} is missing: give ")
    assert (KEY_VARIABLE in text) == (name == "apiKey")


def test_reading_requires_the_option_query() -> None:
    assert error_text(LEAST, "readStream") == "option query is missing: give class/query, as in gold/hot"


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("endpoint", "localhost", "grpc://host:port"),
        ("endpoint", "http://localhost:80", "grpc://host:port"),
        ("endpoint", "one:1,,two:2", "grpc://host:port"),
        ("endpoint", "one:99999", "grpc://host:port"),
        ("endpoint", "one:1/path", "grpc://host:port"),
        ("stream", " ", "the name of a stream"),
        ("schemaPolicy", "addNullables", "reject, addNullable, ignore"),
        ("timeoutSeconds", "soon", "a number of seconds"),
        ("timeoutSeconds", "-1", "a number of seconds"),
        ("timeoutSeconds", "inf", "a number of seconds"),
        ("timeoutSeconds", "nan", "a number of seconds"),
        ("batchRows", "0", "a number of rows"),
        ("batchRows", "1e3", "a number of rows"),
    ],
)
def test_wrong_value_is_reported_with_the_expected_form(name: str, text: str, wanted: str) -> None:
    message = error_text({**WRITE, name: text}, "writeStream")
    assert message.startswith(f"option {name}: ")
    assert repr(text) in message
    assert wanted in message


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("query", "hot", "class/query"),
        ("query", "gold/hot/1", "class/query"),
        ("query", "/hot", "class/query"),
        ("startingOffsets", "first", "earliest, latest or the _seq of the first row"),
        ("startingOffsets", "-1", "earliest, latest or the _seq of the first row"),
        ("maxRowsPerTrigger", "0", "a number of rows"),
        ("failOnDataLoss", "no", "true or false"),
    ],
)
def test_wrong_value_for_reading_is_reported_with_the_expected_form(
    name: str, text: str, wanted: str
) -> None:
    message = error_text({**READ, name: text}, "readStream")
    assert message.startswith(f"option {name}: ")
    assert repr(text) in message
    assert wanted in message


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("straem", "stream"),
        ("timestamp_column", "timestampColumn"),
        ("endpoints", "endpoint"),
        ("schemapolicies", "schemaPolicy"),
        ("api_key", "apiKey"),
    ],
)
def test_unknown_option_is_reported_with_the_nearest_name(name: str, expected: str) -> None:
    message = error_text({**WRITE, name: "x"}, "writeStream")
    assert message.startswith(f"no option {name} (got ")
    assert f"did you mean {expected}?" in message


def test_option_without_a_similar_name_is_reported_with_all_names() -> None:
    message = error_text({**WRITE, "subscribe": "topic"}, "writeStream")
    assert message.startswith("no option subscribe (got 'topic'); leave it out (known: apiKey, batchRows, ")


def test_option_for_reading_is_refused_for_writing_and_the_reverse() -> None:
    assert error_text({**WRITE, "query": "gold/hot"}, "writeStream") == (
        "option query is for reading, not for writing (got 'gold/hot'); leave it out"
    )
    assert "stream is for writing, not for reading" in error_text({**READ, "stream": "s"}, "read")
    assert "producer is not for writeStream, only for write" in error_text(
        {**WRITE, "producer": "p"}, "writeStream"
    )
    assert "maxRowsPerTrigger is not for read, only for readStream" in error_text(
        {**READ, "maxRowsPerTrigger": "5"}, "read"
    )


def test_batch_read_cannot_start_at_the_latest_row() -> None:
    assert "write earliest or a number, or use readStream" in error_text(
        {**READ, "startingOffsets": "latest"}, "read"
    )


# -- keys, which no message shows ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {**WRITE, "apiKey": KEY + "x"},
        {**WRITE, "apiKey": KEY[:-1]},
        {**WRITE, "api_key": KEY},
        {**WRITE, "stream": "s", KEY: "x"},
        {**WRITE, "nothing": KEY},
        {**WRITE, "token": "abc" + KEY[5:]},
        {**WRITE, "endpoint": f"grpc://{KEY[5:]}@one:1"},
        {**WRITE, "batchRows": KEY.upper()},
    ],
)
def test_an_error_message_of_the_connector_never_shows_a_key(given: dict[str, str]) -> None:
    message = error_text(given, "writeStream").lower()
    assert KEY[5:45].lower() not in message


def test_no_repr_shows_a_key() -> None:
    for options in (write(WRITE, "writeStream"), read(READ, "readStream")):
        assert KEY not in repr(options)
        assert pickle.loads(pickle.dumps(options)) == options


# -- the data source of Spark, and the function to_weir ------------------------------------------------------------


def test_source_checks_options_before_it_makes_a_writer() -> None:
    source = DefaultSource({**WRITE, "straem": "x"})
    with pytest.raises(OptionError, match="did you mean stream"):
        source.streamWriter(StructType(), False)


def test_connector_refuses_to_overwrite_rows() -> None:
    for make in (DefaultSource(WRITE).streamWriter, DefaultSource(WRITE).writer):
        with pytest.raises(OptionError, match=r"append.*foreachBatch"):
            make(StructType(), True)


def test_function_to_weir_checks_its_options_before_the_query_starts() -> None:
    with pytest.raises(OptionError, match=r"option schemaPolicy: .*'drop'"):
        to_weir(endpoint="one:1", stream="s", api_key=KEY, schema_policy="drop")
    with pytest.raises(OptionError, match="option apiKey is missing"):
        to_weir(endpoint="one:1", stream="s")
    with pytest.raises(OptionError, match="option stream is missing"):
        to_weir(endpoint="one:1", api_key=KEY)


def test_to_weir_checks_stream_split_and_columns() -> None:
    with pytest.raises(OptionError, match="give stream for one stream, or split"):
        to_weir(endpoint="one:1", api_key=KEY, stream="s", split={"hot": "temp > 30"})
    with pytest.raises(OptionError, match="split: no stream is given"):
        to_weir(endpoint="one:1", api_key=KEY, split={})
    with pytest.raises(
        OptionError, match="columns: 'hott' is not one of the streams that are written; did you mean hot"
    ):
        to_weir(endpoint="one:1", api_key=KEY, split={"hot": "temp > 30"}, columns={"hott": ["temp"]})


def test_docs_describe_every_option() -> None:
    page = (ROOT / "docs/spark.md").read_text(encoding="utf-8")
    assert [option.name for option in OPTIONS.values() if f"| `{option.name}` |" not in page] == []
