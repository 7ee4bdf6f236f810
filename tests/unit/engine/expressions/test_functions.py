"""Resolution of function names and argument types, with errors for unknown names and types (engine/expressions/functions.py)."""

import pytest

from engine.data.schema import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    DataType,
    decimal,
)
from engine.expressions.compiler import BUILDERS
from engine.expressions.functions import (
    ALIASES,
    RULES,
    WrongArguments,
    castable,
    common_type,
    resolve,
)


@pytest.mark.parametrize(
    ("name", "given", "wanted", "result"),
    [
        ("add", [INT32, INT32], [INT32, INT32], INT32),
        ("add", [INT32, INT64], [INT64, INT64], INT64),
        ("add", [INT64, FLOAT32], [FLOAT32, FLOAT32], FLOAT32),
        ("add", [FLOAT32, FLOAT64], [FLOAT64, FLOAT64], FLOAT64),
        ("add", [decimal(4, 2), decimal(5, 3)], [decimal(6, 3)] * 2, decimal(6, 3)),
        ("add", [INT32, decimal(4, 2)], [decimal(13, 2)] * 2, decimal(13, 2)),
        ("add", [INT64, decimal(4, 2)], [decimal(18, 2)] * 2, decimal(18, 2)),
        ("add", [decimal(4, 2), FLOAT64], [FLOAT64, FLOAT64], FLOAT64),
        ("add", [TIMESTAMP, INT64], [TIMESTAMP, INT64], TIMESTAMP),
        ("add", [INT64, TIMESTAMP], [INT64, TIMESTAMP], TIMESTAMP),
        ("subtract", [TIMESTAMP, INT64], [TIMESTAMP, INT64], TIMESTAMP),
        ("subtract", [TIMESTAMP, TIMESTAMP], [TIMESTAMP, TIMESTAMP], INT64),
        ("multiply", [decimal(4, 2), decimal(5, 3)], [decimal(4, 2), decimal(5, 3)], decimal(9, 5)),
        ("multiply", [decimal(18, 4), INT32], [decimal(18, 4), decimal(10, 0)], decimal(18, 4)),
        ("divide", [INT32, INT64], [FLOAT64, FLOAT64], FLOAT64),
        ("divide", [INT32, FLOAT32], [FLOAT32, FLOAT32], FLOAT32),
        ("divide", [decimal(4, 2), decimal(4, 2)], [FLOAT64, FLOAT64], FLOAT64),
        ("integer_divide", [INT32, INT64], [INT64, INT64], INT64),
        ("modulo", [decimal(4, 2), decimal(5, 3)], [decimal(5, 3)] * 2, decimal(5, 3)),
        ("floor", [INT32], [FLOAT64], FLOAT64),
        ("floor", [decimal(4, 2)], [decimal(4, 2)], decimal(4, 0)),
        ("round", [decimal(4, 2), INT64], [decimal(4, 2), INT32], decimal(5, 2)),
        ("round", [FLOAT32], [FLOAT32], FLOAT32),
        ("sign", [FLOAT64], [FLOAT64], INT32),
        ("sqrt", [INT32], [FLOAT64], FLOAT64),
        ("less", [INT32, decimal(4, 2)], [decimal(12, 2)] * 2, BOOLEAN),
        ("less", [TIMESTAMP, STRING], [TIMESTAMP, TIMESTAMP], BOOLEAN),
        ("equal", [STRING, STRING], [STRING, STRING], BOOLEAN),
        ("equal", [None, STRING], [STRING, STRING], BOOLEAN),
        ("in", [INT64, INT32, None], [INT64] * 3, BOOLEAN),
        ("and", [BOOLEAN, BOOLEAN, None], [BOOLEAN] * 3, BOOLEAN),
        ("coalesce", [INT32, FLOAT64, None], [FLOAT64] * 3, FLOAT64),
        ("coalesce", [None, None], [INT32] * 2, INT32),
        ("nullif", [INT32, FLOAT64], [INT32, FLOAT64], INT32),
        ("append", [STRING, INT32], [STRING, STRING], STRING),
        ("substring", [STRING, INT32], [STRING, INT64], STRING),
        ("like", [STRING, STRING], [STRING, STRING], BOOLEAN),
        ("epoch_ms", [TIMESTAMP], [TIMESTAMP], INT64),
        ("epoch_ms", [INT32], [INT64], TIMESTAMP),
        ("date_trunc", [STRING, TIMESTAMP], [STRING, TIMESTAMP], TIMESTAMP),
    ],
)
def test_the_types_of_arguments_decide_the_signature_of_a_function(
    name: str, given: list[DataType | None], wanted: list[DataType], result: DataType
) -> None:
    signature = resolve(name, given)
    assert (signature.name, signature.arguments, signature.result) == (name, tuple(wanted), result)


@pytest.mark.parametrize(
    ("written", "meant", "types"),
    [
        ("len", "length", [STRING]),
        ("pow", "power", [FLOAT64, FLOAT64]),
        ("log", "log10", [FLOAT64]),
        ("ifnull", "coalesce", [INT32, INT32]),
    ],
)
def test_aliases_resolve_to_their_functions(written: str, meant: str, types: list[DataType]) -> None:
    assert resolve(written, types) == resolve(meant, types)


@pytest.mark.parametrize(
    ("name", "types", "title", "hint"),
    [
        ("add", [INT32, STRING], "argument 2 is string", "two numbers"),
        ("add", [TIMESTAMP, FLOAT64], "argument 2 is float64", "interval"),
        ("add", [TIMESTAMP, TIMESTAMP], "argument 1 is timestamp", "interval"),
        ("subtract", [INT64, TIMESTAMP], "argument 2 is timestamp", "timestamp as its first argument"),
        ("negate", [], "called with 0 arguments", "a number"),
        ("length", [INT64], "argument 1 is int64", "string"),
        ("and", [BOOLEAN, INT32], "argument 2 is int32", "boolean"),
        ("equal", [BOOLEAN, INT32], "argument 2 is int32", "CAST"),
        ("in", [TIMESTAMP, TIMESTAMP, INT32], "argument 3 is int32", "CAST"),
        ("coalesce", [INT32, STRING], "argument 2 is string", "one type"),
        ("integer_divide", [FLOAT64, INT32], "argument 1 is float64", "floor(x / y)"),
        ("multiply", [decimal(18, 10), decimal(18, 10)], "20 digits after the point", "CAST"),
        ("substring", [STRING], "called with 1 argument", "string, int64, int64"),
        ("round", [FLOAT64, FLOAT64], "argument 2 is float64", "digits"),
    ],
)
def test_wrong_arguments_are_refused_with_a_hint(
    name: str, types: list[DataType], title: str, hint: str
) -> None:
    with pytest.raises(WrongArguments) as caught:
        resolve(name, types)
    assert title in caught.value.title
    assert hint in caught.value.hint


def test_column_types_have_a_common_type_only_if_values_can_be_converted() -> None:
    assert common_type([INT32, INT64]) == INT64
    assert common_type([decimal(4, 2), INT32]) == decimal(12, 2)
    assert common_type([decimal(18, 0), decimal(18, 10)]) == decimal(18, 10)
    assert common_type([None, STRING]) == STRING
    assert common_type([STRING, INT32]) is None
    assert common_type([BOOLEAN, INT32]) is None


def test_a_timestamp_is_cast_only_to_and_from_text() -> None:
    assert castable(TIMESTAMP, STRING)
    assert castable(STRING, TIMESTAMP)
    assert castable(BOOLEAN, decimal(4, 2))
    assert not castable(TIMESTAMP, INT64)
    assert not castable(FLOAT64, TIMESTAMP)


def test_every_function_is_implemented_and_every_alias_names_a_function() -> None:
    special = {
        "and",
        "or",
        "not",
        "is_null",
        "is_not_null",
        "coalesce",
        "nullif",
        "in",
        "greatest",
        "least",
        "concat",
    }
    assert set(BUILDERS) | special == set(RULES)
    assert set(ALIASES.values()) <= set(RULES)
