"""Keys, panes, windows and joins compared with plain Python over the whole input, however the input is cut into trains."""

import math
import random
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from configs.classes.window_settings import WindowSettings
from engine.data.keys import KeyIndex
from engine.data.schema import FLOAT64, INT64, STRING, TIMESTAMP, DataType, Field, Schema, StreamSchema
from engine.data.train import Train, Values, values_to_arrow
from engine.operators.join import JoinSideOperator, JoinState
from engine.operators.source import SourceOperator
from engine.operators.windows import PaneOperator, WindowOperator
from engine.plan.aggregations import Aggregation
from engine.plan.plan import TRUE, Aggregate, IntervalJoin, Scan, TimeWindow, WindowAggregate
from engine.windows.panes import PaneStore
from engine.windows.window_schedule import WindowSchedule

ROW = Schema((Field("ts", TIMESTAMP), Field("key", INT64), Field("x", FLOAT64)))
READ = Scan(StreamSchema("rows", ROW, 0))
AGGREGATES = (
    Aggregate(Aggregation.COUNT_ALL, None, INT64),
    Aggregate(Aggregation.COUNT, 2, INT64),
    Aggregate(Aggregation.SUM, 2, FLOAT64),
    Aggregate(Aggregation.AVG, 2, FLOAT64),
    Aggregate(Aggregation.MIN, 2, FLOAT64),
    Aggregate(Aggregation.MAX, 2, FLOAT64),
    Aggregate(Aggregation.VARIANCE, 2, FLOAT64),
    Aggregate(Aggregation.MEDIAN, 2, FLOAT64),
    Aggregate(Aggregation.COUNT_DISTINCT, 2, INT64),
    Aggregate(Aggregation.FIRST, 2, FLOAT64),
    Aggregate(Aggregation.LAST, 2, FLOAT64),
)
RESULT = Schema(
    (
        Field("window_start", TIMESTAMP),
        Field("window_end", TIMESTAMP),
        Field("key", INT64),
        *(Field(f"a{place}", one.type) for place, one in enumerate(AGGREGATES)),
    )
)
Row = tuple[int, int, float | None]

numbers = st.one_of(st.none(), st.integers(-8, 8).map(lambda eighth: eighth / 8))
rows = st.lists(st.tuples(st.integers(0, 40), st.integers(-2, 5), numbers), max_size=40)
cuts = st.lists(st.integers(1, 9), max_size=8)


def train_of(some: Sequence[Row]) -> Train:
    values = np.array([0.0 if x is None else x for _, _, x in some], float)
    valid = np.array([x is not None for _, _, x in some], bool)
    columns = (
        Values(TIMESTAMP, np.array([ts for ts, _, _ in some], np.int64)),
        Values(INT64, np.array([key for _, key, _ in some], np.int64)),
        Values(FLOAT64, values, None if valid.all() else valid),
    )
    return Train(columns, np.arange(len(some), dtype=float))


def cut(some: Sequence[Row], sizes: Sequence[int]) -> list[Sequence[Row]]:
    parts, start = [], 0
    for size in sizes:
        parts.append(some[start : start + size])
        start += size
    return [part for part in (*parts, some[start:]) if part]


def rows_of(trains: Sequence[Train], schema: Schema) -> list[tuple[object, ...]]:
    listed: list[tuple[object, ...]] = []
    for train in trains:
        arrays = [
            values_to_arrow(
                Values(INT64 if field.type == TIMESTAMP else field.type, column.data, column.valid)
            ).to_pylist()
            for field, column in zip(schema.fields, train.columns, strict=True)
        ]
        listed.extend(zip(*arrays, strict=True))
    return listed


def in_time(some: Sequence[Row], lateness: int) -> list[Row]:
    kept, latest = [], -math.inf
    for row in some:
        if row[0] >= latest - lateness:
            kept.append(row)
        latest = max(latest, row[0])
    return kept


def expected(some: Sequence[Row], range_: int, slide: int, upto: int) -> list[tuple[object, ...]]:
    found = []
    for end in range(slide * (0 // slide + 1), upto + 1, slide):
        groups: dict[int, list[Row]] = defaultdict(list)
        for row in some:
            if end - range_ <= row[0] < end:
                groups[row[1]].append(row)
        for key, members in groups.items():
            xs = [x for _, _, x in sorted(members, key=lambda row: row[0]) if x is not None]
            mean = sum(xs) / len(xs) if xs else None
            spread = (
                sum((x - mean) ** 2 for x in xs) / (len(xs) - 1) if mean is not None and len(xs) > 1 else None
            )
            middle = float(np.median(xs)) if xs else None
            ends = (xs[0], xs[-1]) if xs else (None, None)
            total = (sum(xs), mean, min(xs), max(xs)) if xs else (None, None, None, None)
            found.append(
                (end - range_, end, key, len(members), len(xs), *total, spread, middle, len(set(xs)), *ends)
            )
    return found


def near(left: Sequence[tuple[object, ...]], right: Sequence[tuple[object, ...]]) -> bool:
    ordered = [sorted(rows, key=lambda row: row[1:3]) for rows in (left, right)]
    return len(left) == len(right) and all(
        a == b or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, abs_tol=1e-9))
        for one, other in zip(*ordered, strict=True)
        for a, b in zip(one, other, strict=True)
    )


@given(rows, cuts, st.integers(1, 12), st.integers(1, 12), st.sampled_from([0, 3, 100]))
def test_windows_contain_the_right_rows_however_the_input_is_cut(
    some: list[Row], sizes: list[int], slide: int, extra: int, lateness: int
) -> None:
    range_ = slide * (extra // 4) or slide + extra
    source = SourceOperator(0, lateness)
    store = PaneStore(math.gcd(range_, slide), 0, (1,), (INT64,))
    panes = PaneOperator(store)
    plan = WindowAggregate(READ, TimeWindow(range_, slide), (1,), AGGREGATES, RESULT)
    window = WindowOperator(store, WindowSchedule(store, WindowSettings()), plan, 1)
    out, reached = [], 0
    for part in cut(some, sizes):
        entered = source.process(train_of(part))
        assert entered is not None
        progress = panes.process(entered)
        assert progress is not None
        reached = progress.watermark
        closed = window.process(progress) if window.wants(reached) else None
        out += [closed] if closed is not None and len(closed) else []
    kept = in_time(some, lateness)
    assert source.late == len(some) - len(kept)
    assert near(rows_of(out, RESULT), expected(kept, range_, slide, reached))


@given(rows, rows, cuts, cuts, st.integers(-9, 3), st.integers(0, 9), st.randoms(use_true_random=False))
def test_a_join_finds_every_pair_once_however_its_inputs_are_cut_and_interleaved(
    left: list[Row],
    right: list[Row],
    left_cuts: list[int],
    right_cuts: list[int],
    low: int,
    reach: int,
    chance: random.Random,
) -> None:
    left, right = sorted(left, key=lambda row: row[0]), sorted(right, key=lambda row: row[0])
    high = low + reach
    both = Schema((*ROW.fields, *(Field(f"r_{field.name}", field.type) for field in ROW.fields)))
    state = JoinState(IntervalJoin(READ, READ, (1,), (1,), low, high, TRUE, both), low, high)
    sides = [JoinSideOperator(state, side, None) for side in (0, 1)]
    sources = [SourceOperator(0, 0), SourceOperator(0, 0)]
    pending = [cut(left, left_cuts), cut(right, right_cuts)]
    found = []
    while any(pending):
        side = chance.choice([number for number in (0, 1) if pending[number]])
        entered = sources[side].process(train_of(pending[side].pop(0)))
        assert entered is not None
        out = sides[side].process(entered)
        found += [out] if out is not None and len(out) else []
    pairs = [(*a, *b) for a in left for b in right if a[1] == b[1] and low <= b[0] - a[0] <= high]
    assert sorted(rows_of(found, both), key=repr) == sorted(pairs, key=repr)


KEYS: dict[DataType, st.SearchStrategy[object]] = {
    INT64: st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**40, -(2**40), 70_000])),
    FLOAT64: st.sampled_from([None, 0.0, -0.0, 1.5, math.inf, math.nan]),
    STRING: st.sampled_from([None, "", "a", "ß", "NULL"]),
}


@given(st.data(), st.lists(st.sampled_from(list(KEYS)), min_size=1, max_size=3))
def test_each_key_has_the_same_code_number_in_every_train_and_the_number_decodes_to_the_key(
    data: st.DataObject, types: list[DataType]
) -> None:
    index = KeyIndex(types)
    by_code: dict[int, str] = {}
    for _ in range(data.draw(st.integers(1, 4))):
        keys = data.draw(st.lists(st.tuples(*(KEYS[type_] for type_ in types)), max_size=8))
        columns = [column_of([key[place] for key in keys], type_) for place, type_ in enumerate(types)]
        codes = index.codes(columns)
        assert len(codes) == len(keys)
        assert all(0 <= code < len(index) for code in codes.tolist())
        back = list(zip(*(values_to_arrow(one).to_pylist() for one in index.decoded(codes)), strict=True))
        for code, key, decoded in zip(codes.tolist(), keys, back, strict=True):
            assert same(key) == same(decoded)
            assert by_code.setdefault(code, same(key)) == same(key)
    assert len(set(by_code.values())) == len(by_code)


def same(key: Sequence[object]) -> str:
    """Return a key as SQL compares it for grouping: −0.0 equals 0.0, and NaN equals itself."""
    return repr([0.0 if part == 0 and isinstance(part, float) else part for part in key])


def column_of(values: Sequence[object], type_: DataType) -> Values:
    valid = np.array([value is not None for value in values], bool)
    mask = None if valid.all() else valid
    if type_ == STRING:
        return Values(
            type_, pa.array(["" if value is None else value for value in values], pa.string()), mask
        )
    return Values(type_, np.array([0 if value is None else value for value in values], type_.numpy), mask)
