"""Random continuous queries, each in two forms: Weir's SQL, and DuckDB's SQL over all rows at once.

Expressions are the same in both. For DuckDB, windows are spelled out: every row is joined with the ends of
the windows that contain it. DuckDB holds event times as integers in the unit of their stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from engine.data.schema import INT32, STRING, Field, Schema, TableSchema

HALF_SECOND_US = 500_000
STREAMS = (
    "CREATE STREAM s (ts timestamp, id int64, k int32, g string, x float64, n int64, b boolean, d decimal(9, 2),"
    " WATERMARK FOR ts AS ts - INTERVAL '3 seconds')",
    "CREATE STREAM t (ts timestamp, id int64, k int32, g string, x float64, n int64, WATERMARK FOR ts AS ts)",
    "CREATE STREAM e (ts int64, id int64, k int32, g string, x float64, n int64,"
    " WATERMARK FOR ts AS ts - INTERVAL '1 second')",
)
TABLE = TableSchema("places", Schema((Field("k", INT32), Field("label", STRING), Field("size", INT32))))
MACROS = (
    "CREATE MACRO percentile(x, p) AS quantile_cont(x::DOUBLE, p)",
    "CREATE MACRO top(x, k) AS array_to_string(list_transform(list_sort(list_transform("
    "map_entries(histogram(x)), lambda e: {'c': -(e.value::BIGINT), 'v': e.key}))[1:k],"
    " lambda e: e.v || ':' || (-e.c)), ', ')",
    # SQL for the middle of the logarithmic bin that contains the value.
    "CREATE MACRO binned(v) AS CASE WHEN v = 0 THEN 0.0"
    " ELSE sign(v) * exp(ceil(ln(abs(v)) / ln(1.01 / 0.99)) * ln(1.01 / 0.99)) * 0.99 END",
    "CREATE MACRO near_quantile(x, p) AS binned(list_sort(list_filter(list(x::DOUBLE),"
    " lambda e: e IS NOT NULL))[(1 + floor(p * (count(x) - 1)))::BIGINT])",
    # SQL for the end of the first window that contains a time, which may be before the epoch.
    "CREATE MACRO first_end(ts, slide) AS ts - ((ts % slide) + slide) % slide + slide",
)
UNIT_US = {"s": 1, "t": 1, "e": 1000}


@dataclass(frozen=True)
class Relation:
    """Stream or query that another query reads. `ordered` is True if DuckDB knows the order of arrival (column `seq`)."""

    weir: str
    duck: str
    numbers: tuple[str, ...] = ("k", "x", "n")
    texts: tuple[str, ...] = ("g",)
    others: tuple[str, ...] = ()
    unit_us: int = 1
    time: str = "ts"
    ordered: bool = False
    weir_time: str = ""  # Name of the time column in Weir's SQL, if it differs from `time`

    @property
    def columns(self) -> tuple[str, ...]:
        return self.numbers + self.texts + self.others


BASE = {
    "s": Relation("s", "s", others=("b", "d"), ordered=True),
    "t": Relation("t", "t", ordered=True),
    "e": Relation("e", "e", unit_us=1000, ordered=True),
}
relations = st.sampled_from([BASE["s"], BASE["t"], BASE["e"]])


@dataclass(frozen=True)
class Statement:
    """Query in both dialects, with the queries that this query reads, by name."""

    weir: str
    duck: str
    needs: Mapping[str, str] = field(default_factory=dict)


def both(texts: Iterable[str]) -> tuple[str, str]:
    weir, duck = texts
    return weir, duck


@dataclass(frozen=True)
class Window:
    """Window with RANGE and SLIDE, TUMBLE or HOP, in half seconds."""

    form: str
    range: int
    slide: int

    def weir(self, source: Relation) -> str:
        size, slide = (f"{500 * one} MILLISECONDS" for one in (self.range, self.slide))
        time = source.weir_time or source.time
        match self.form:
            case "TUMBLE":
                return f"TUMBLE({source.weir}, {time}, INTERVAL '{size}')"
            case "HOP":
                return f"HOP({source.weir}, {time}, INTERVAL '{slide}', INTERVAL '{size}')"
        return f"{source.weir} [RANGE {size} SLIDE {slide}]"

    def duck(self, source: Relation) -> str:
        size, slide = (one * HALF_SECOND_US // source.unit_us for one in (self.range, self.slide))
        most = -(-self.range // self.slide)
        return (
            f"(SELECT *, window_end - {size} AS window_start FROM (SELECT w.*, first_end(w.{source.time}, {slide})"
            f" + i.range * {slide} AS window_end FROM {source.duck} AS w, range({most}) AS i)"
            f" WHERE window_end - {size} <= {source.time})"
        )


@st.composite
def windows(draw: st.DrawFn) -> Window:
    slide, more = draw(st.integers(1, 8)), draw(st.sampled_from([0, 0, 1, 2, 5, 9]))
    form = draw(st.sampled_from(["RANGE", "TUMBLE", "HOP"]))
    return Window(form, slide, slide) if form == "TUMBLE" else Window(form, slide + more, slide)


# --- expressions, identical in both dialects --------------------------------------------------------------


def numbers(of: Sequence[str]) -> st.SearchStrategy[str]:
    column = st.sampled_from(list(of))
    return st.one_of(
        column,
        column.map(lambda one: f"({one} * 2 - 1)"),
        column.map(lambda one: f"coalesce({one}, 7)"),
        column.map(lambda one: f"abs({one})"),
        st.tuples(column, column).map(lambda two: f"({two[0]} + {two[1]})"),
        st.tuples(column, column).map(lambda two: f"CASE WHEN {two[0]} > 1 THEN {two[1]} ELSE 0 END"),
        st.tuples(column, column).map(lambda two: f"if({two[0]} < 2, {two[1]}, 1)"),
    )


def conditions(source: Relation) -> st.SearchStrategy[str]:
    number, text = numbers(source.numbers), st.sampled_from(source.texts or ("'a'",))
    simple = st.one_of(
        st.tuples(number, st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]), st.integers(-1, 3)).map(
            lambda parts: f"{parts[0]} {parts[1]} {parts[2]}"
        ),
        st.tuples(number, number).map(lambda two: f"{two[0]} <= {two[1]}"),
        text.map(lambda one: f"{one} LIKE 'a%'"),
        text.map(lambda one: f"upper({one}) IN ('A', 'B')"),
        st.sampled_from(source.columns).map(lambda one: f"{one} IS NOT NULL"),
        st.sampled_from(source.numbers).map(lambda one: f"{one} BETWEEN 0 AND 2"),
    )
    return st.one_of(
        simple,
        simple.map(lambda one: f"NOT ({one})"),
        st.tuples(simple, simple).map(lambda two: f"({two[0]} AND {two[1]})"),
        st.tuples(simple, simple).map(lambda two: f"({two[0]} OR {two[1]})"),
    )


def keys(source: Relation) -> st.SearchStrategy[list[str]]:
    columns = [*source.columns]
    made = [
        *(f"{one} > 1" for one in source.numbers),
        *(f"upper({one})" for one in source.texts),
        *(f"coalesce({one}, 'none')" for one in source.texts),
        *(f"{one} % 2" for one in source.numbers if one in ("k", "n")),
    ]
    return st.lists(st.sampled_from([*columns, *columns, *made]), max_size=3, unique=True)


@st.composite
def aggregates(draw: st.DrawFn, source: Relation) -> tuple[str, str]:
    """Draw an aggregate in both dialects."""
    number = draw(numbers(source.numbers))
    column = draw(st.sampled_from(source.columns))
    forms = [
        "*",
        "count",
        "count_if",
        "bool_or",
        "bool_and",
        "distinct",
        "sum",
        "avg",
        "min",
        "max",
        "stddev",
        "variance",
        "stddev_pop",
        "var_pop",
        "median",
        "percentile",
        "approximately distinct",
    ]
    if source.texts:
        forms += ["top", "approximate top"]
    if source.ordered:
        forms += ["first", "last", "approximate quantile"]
    match draw(st.sampled_from(forms)):
        case "*":
            return ("COUNT(*)", "count(*)")
        case "count":
            return (f"COUNT({column})", f"count({column})")
        case "count_if":
            # If the condition is NULL for every row, count_if is NULL in DuckDB and 0 in Weir. So DuckDB's query uses FILTER.
            condition = draw(conditions(source))
            return (f"count_if({condition})", f"count(*) FILTER (WHERE {condition})")
        case "bool_or" | "bool_and" as name:
            condition = draw(conditions(source))
            return (f"{name}({condition})", f"{name}({condition})")
        case "distinct":
            return (f"COUNT(DISTINCT {column})", f"count(DISTINCT {column})")
        case "approximately distinct":  # The estimate is exact for few different values.
            return (f"APPROX_COUNT_DISTINCT({column})", f"count(DISTINCT {column})")
        case "approximate quantile":
            part = draw(st.sampled_from(["0.0", "0.25", "0.9", "1.0"]))
            return (f"APPROX_QUANTILE({number}, {part})", f"near_quantile({number}, {part})")
        case "approximate top":
            text, most = draw(st.sampled_from(source.texts)), draw(st.integers(1, 3))
            return (f"APPROX_TOP_K({text}, {most})", f"top({text}, {most})")
        case "min" | "max" as name:
            return (f"{name}({column})", f"{name}({column})")
        case "first" | "last" as name:
            value = draw(st.sampled_from([column, number]))
            order = f"ORDER BY {source.time}, seq"
            return (f"{name}({value})", f"{name}({value} {order}) FILTER (WHERE ({value}) IS NOT NULL)")
        case "median":
            return (f"MEDIAN({number})", f"median(({number})::DOUBLE)")
        case "percentile":
            part = draw(st.sampled_from(["0.0", "0.25", "0.9", "1.0"]))
            return (f"PERCENTILE({number}, {part})", f"percentile({number}, {part})")
        case "top":
            text, most = draw(st.sampled_from(source.texts)), draw(st.integers(1, 3))
            return (f"TOP({text}, {most})", f"top({text}, {most})")
        case name:
            decimals = [one for one in source.others if one == "d"]
            argument = draw(st.sampled_from([number, *decimals]))
            return (f"{name}({argument})", f"{name}({argument})")


# --- queries ----------------------------------------------------------------------------------------------


@st.composite
def selects(draw: st.DrawFn) -> Statement:
    source = draw(relations)
    made = draw(st.lists(numbers(source.numbers), max_size=2))
    outputs = [*draw(st.lists(st.sampled_from(("ts", *source.columns)), min_size=1, unique=True)), *made]
    where = draw(wheres(source))
    columns = ", ".join(f"{one} AS c{place}" for place, one in enumerate(outputs))
    return Statement(*both(f"SELECT {columns} FROM {one}{where}" for one in (source.weir, source.duck)))


@dataclass(frozen=True)
class Grouped:
    """Input, keys and condition of an aggregate query, without its window."""

    source: Relation
    keys: tuple[str, ...]
    where: str

    def over(self, window: Window, outputs: Sequence[tuple[str, str]], having: str) -> Statement:
        by = [", ".join(self.keys), ", ".join(["window_start", "window_end", *self.keys])]
        texts = []
        for place, source in enumerate((window.weir(self.source), window.duck(self.source))):
            columns = [f"{one} AS k{number}" for number, one in enumerate(self.keys)]
            columns += [f"{one[place]} AS a{number}" for number, one in enumerate(outputs)]
            select = ", ".join(["window_start", "window_end", *columns])
            group = f" GROUP BY {by[place]}" if by[place] else ""
            texts.append(f"SELECT {select} FROM {source} AS v{self.where}{group}{having}")
        return Statement(*both(texts))


@st.composite
def grouped(draw: st.DrawFn, source: Relation | None = None) -> Grouped:
    source = source or draw(relations)
    return Grouped(source, tuple(draw(keys(source))), draw(wheres(source)))


def wheres(source: Relation) -> st.SearchStrategy[str]:
    return st.one_of(st.just(""), st.just(""), conditions(source).map(lambda one: f" WHERE {one}"))


@st.composite
def aggregated(draw: st.DrawFn, source: Relation | None = None, of: Grouped | None = None) -> Statement:
    of = of or draw(grouped(source))
    outputs = draw(st.lists(aggregates(of.source), min_size=0 if of.keys else 1, max_size=4))
    reckons = draw(st.booleans())
    if outputs and reckons:
        reckoned = f"coalesce(MAX({of.source.numbers[0]}), 0) + 2 * COUNT(*)"
        outputs = [*outputs, (reckoned, reckoned)]
    having = draw(
        st.sampled_from(["", "", " HAVING COUNT(*) >= 2", f" HAVING MIN({of.source.numbers[-1]}) < 2"])
    )
    return of.over(draw(windows()), outputs, having)


@st.composite
def shared_windows(draw: st.DrawFn) -> list[Statement]:
    """Draw queries with windows that share their panes, because the queries have the same input and groups."""
    of = draw(grouped())
    return draw(st.lists(aggregated(of=of), min_size=2, max_size=5))


@st.composite
def distinct_rows(draw: st.DrawFn) -> Statement:
    source, window = draw(relations), draw(windows())
    outputs = draw(st.lists(st.sampled_from(source.columns), min_size=1, max_size=2, unique=True))
    columns = ", ".join(["window_start", "window_end", *outputs])
    return Statement(
        *both(
            f"SELECT DISTINCT {columns} FROM {one} AS v" for one in (window.weir(source), window.duck(source))
        )
    )


@st.composite
def row_sources(draw: st.DrawFn) -> tuple[Relation, Mapping[str, str]]:
    """Draw a stream or a select query, with or without event time, together with the queries that the select query reads."""
    base = draw(relations)
    if draw(st.booleans()):
        return base, {}
    time = draw(st.sampled_from(["ts", ""]))
    columns = ", ".join(filter(None, [time, "k, g, x * 2 AS x, n"]))
    where = draw(wheres(base))
    weir, duck = (f"SELECT {columns}{more} FROM {base.weir}{where}" for more in ("", ", seq"))
    named = draw(st.booleans())
    source = Relation("inner_query" if named else f"({weir})", f"({duck})", time=time or "seq", ordered=True)
    return source, {"inner_query": weir} if named else {}


def joined_with_places(source: Relation) -> Relation:
    """Return the relation of a stream joined with the table `places`. One row of the stream may match several rows of the table."""
    numbers, texts, others = (
        tuple(f"v.{one}" for one in some) for some in (source.numbers, source.texts, source.others)
    )
    return replace(
        source, numbers=(*numbers, "p.size"), texts=(*texts, "p.label"), others=others, ordered=False
    )


@st.composite
def row_windows(draw: st.DrawFn) -> Statement:
    source, needs = draw(row_sources())
    join = draw(
        st.sampled_from(["", "", " JOIN places AS p ON v.k = p.k", " LEFT JOIN places AS p ON v.n = p.size"])
    )
    of = joined_with_places(source) if join else source
    slide = draw(st.integers(1, 5))
    rows = slide + draw(st.integers(0, 6))
    groups, where = draw(keys(of)), draw(wheres(of))
    found = draw(st.lists(aggregates(of), min_size=1, max_size=3))
    if join:
        found += [
            (f"{one}(v.n)", f"{one}(v.n ORDER BY v.{source.time}, v.seq) FILTER (WHERE v.n IS NOT NULL)")
            for one in ("first", "last")
        ]
    having = draw(st.sampled_from(["", "", " HAVING COUNT(*) >= 2"]))
    named = [
        ", ".join(
            f"{one} AS c{number}" for number, one in enumerate([*groups, *(one[place] for one in found)])
        )
        for place in (0, 1)
    ]
    by = f" GROUP BY {', '.join(groups)}" if groups else ""
    numbered = f"(SELECT *, row_number() OVER (ORDER BY seq) AS place FROM {source.duck})"
    held = (
        f"(SELECT r.*, e.range AS upto FROM {numbered} AS r, range({slide}, 200, {slide}) AS e"
        f" WHERE r.place <= e.range AND r.place > e.range - {rows}"
        f" AND e.range <= (SELECT count(*) FROM {source.duck}))"
    )
    return Statement(
        f"SELECT {named[0]} FROM {source.weir} [ROWS {rows} SLIDE {slide}] AS v{join}{where}{by}{having}",
        f"SELECT {named[1]} FROM {held} AS v{join}{where} GROUP BY {', '.join(['upto', *groups])}{having}",
        needs,
    )


PAIR = ("l.ts AS lts", "r.ts AS rts", "l.id AS lid", "r.id AS rid", "l.g AS lg", "r.x + 1 AS rx")


@st.composite
def on_conditions(draw: st.DrawFn) -> list[str]:
    equal = draw(
        st.sampled_from(
            [[], ["l.k = r.k"], ["l.k = r.k"], ["l.g = r.g"], ["l.k = r.k", "l.g = r.g"], ["l.k = r.n"]]
        )
    )
    more = draw(st.sampled_from([[], [], ["l.x <= r.x"], ["l.n <> r.n", "l.x > 0"], ["r.g LIKE 'a%'"]]))
    return [*equal, *more]


@st.composite
def interval_joins(draw: st.DrawFn) -> Statement:
    pair = draw(st.sampled_from([("s", "t"), ("t", "s"), ("s", "s"), ("t", "t"), ("e", "e")]))
    low = draw(st.integers(-6, 4))
    high = draw(st.integers(low, 8))
    on = draw(on_conditions())
    unit = HALF_SECOND_US // UNIT_US[pair[0]]
    outputs = ", ".join(draw(st.lists(st.sampled_from(PAIR), min_size=1, unique=True)))
    texts = []
    for low_text, high_text in (
        tuple(f"{'-' if one < 0 else '+'} INTERVAL '{500 * abs(one)} milliseconds'" for one in (low, high)),
        (f"+ {low * unit}", f"+ {high * unit}"),
    ):
        bound = f"r.ts BETWEEN l.ts {low_text} AND l.ts {high_text}"
        texts.append(
            f"SELECT {outputs} FROM {pair[0]} AS l JOIN {pair[1]} AS r ON {' AND '.join([*on, bound])}"
        )
    return Statement(*both(texts))


@st.composite
def window_joins(draw: st.DrawFn) -> Statement:
    pair = draw(st.sampled_from([("s", "t"), ("t", "s"), ("s", "s")]))
    slide = draw(st.integers(1, 4))
    ranges = [slide * draw(st.integers(1, 3)) + draw(st.sampled_from([0, 0, 1])) for _ in pair]
    on = " AND ".join(draw(on_conditions()) or ["l.id >= r.id"])
    outputs = ", ".join(PAIR)
    left, right = (
        f"{name} [RANGE {500 * size} MILLISECONDS SLIDE {500 * slide} MILLISECONDS]"
        for name, size in zip(pair, ranges, strict=True)
    )
    unit = HALF_SECOND_US
    together = (
        f"EXISTS (SELECT 1 FROM range(12) AS i WHERE first_end(greatest(l.ts, r.ts), {slide * unit}) + i.range * {slide * unit}"
        f" <= least(l.ts + {ranges[0] * unit}, r.ts + {ranges[1] * unit}))"
    )
    return Statement(
        f"SELECT {outputs} FROM {left} AS l JOIN {right} AS r ON {on}",
        f"SELECT {outputs} FROM {pair[0]} AS l JOIN {pair[1]} AS r ON {on} AND {together}",
    )


@st.composite
def table_joins(draw: st.DrawFn) -> Statement:
    source = draw(relations)
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
    on = draw(
        st.sampled_from(
            ["v.k = p.k", "v.k = p.k AND p.size > 1", "v.n = p.size", "v.k = p.k AND v.n <= p.size"]
        )
    )
    where = draw(st.sampled_from(["", " WHERE v.x > 0", " WHERE p.label IS NULL", " WHERE v.g <> p.label"]))
    columns = "v.id, v.ts, v.k, p.k AS pk, p.label, p.size + v.n AS added"
    return Statement(
        *both(
            f"SELECT {columns} FROM {one} AS v {kind} places AS p ON {on}{where}"
            for one in (source.weir, source.duck)
        )
    )


LOOKED_UP = ("l.id AS lid", "l.ts AS lts", "l.k AS lk", "r.ts AS rts", "r.g AS rg", "r.n + l.n AS added")


@st.composite
def last_joins(draw: st.DrawFn) -> Statement:
    """Draw a join with the last row by key, which is an ASOF join in DuckDB. Of rows with the same key and time, the last counts."""
    left, right = draw(st.sampled_from([("s", "t"), ("t", "s"), ("s", "e"), ("e", "t")]))
    keys = draw(st.sampled_from([("k",), ("g",), ("k", "g")]))
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
    where = draw(st.sampled_from(["", "", " WHERE l.x > 0", " WHERE r.n > 0", " WHERE r.x IS NULL"]))
    outputs = ", ".join(draw(st.lists(st.sampled_from(LOOKED_UP), min_size=1, unique=True)))
    on, by = " AND ".join(f"l.{one} = r.{one}" for one in keys), ", ".join(keys)
    last = f"(FROM {right} QUALIFY row_number() OVER (PARTITION BY {by}, ts ORDER BY seq DESC) = 1)"
    in_order = f"l.ts * {UNIT_US[left]} >= r.ts * {UNIT_US[right]}"
    return Statement(
        f"SELECT {outputs} FROM {left} AS l {kind} {right} [LAST BY {by}] AS r ON {on}{where}",
        f"SELECT {outputs} FROM {left} AS l ASOF {kind} {last} AS r ON {on} AND {in_order}{where}",
    )


@st.composite
def unions(draw: st.DrawFn) -> Statement:
    names = draw(st.lists(st.sampled_from(["s", "t"]), min_size=2, max_size=3))
    branches = []
    for name in names:
        where = draw(wheres(BASE[name]))
        number = draw(st.sampled_from(["x", "n", "k"]))
        branches.append(f"SELECT ts, k, g, {number} AS x, n FROM {name}{where}")
    text = " UNION ALL ".join(branches)
    return Statement(text, text)


@st.composite
def over_queries(draw: st.DrawFn) -> Statement:
    """Draw an aggregate over another query's output: a select, a union, a join, a table join or an aggregate."""
    weir_time = ""
    match draw(st.sampled_from(["select", "union", "join", "table", "aggregate", "aggregate"])):
        case "select":
            name = draw(st.sampled_from(["s", "t", "e"]))
            where = draw(conditions(BASE[name]))
            text = f"SELECT ts, k, g, x * 2 AS x, n FROM {name} WHERE {where}"
            inner, unit = Statement(text, text), UNIT_US[name]
        case "union":
            inner, unit = draw(unions()), 1
        case "table":
            text = (
                "SELECT v.ts, v.k, p.label AS g, v.x, p.size AS n FROM s AS v JOIN places AS p ON v.k = p.k"
            )
            inner, unit = Statement(text, text), 1
        case "join":
            side = draw(st.sampled_from(["l", "r"]))
            texts = [
                f"SELECT {side}.ts AS ts, l.k, r.g, l.x, r.n FROM s AS l JOIN t AS r ON l.k = r.k"
                f" AND r.ts BETWEEN l.ts - {one} AND l.ts + {one}"
                for one in ("INTERVAL '2 seconds'", "2000000")
            ]
            inner, unit = Statement(*both(texts)), 1
        case _:
            name, window = draw(st.sampled_from(["s", "t", "e"])), draw(windows())
            texts = [
                f"SELECT window_start, window_end, k, g, max(x) AS x, count(*) AS n FROM {one} AS v GROUP BY {by}k, g"
                for one, by in (
                    (window.weir(BASE[name]), ""),
                    (window.duck(BASE[name]), "window_start, window_end, "),
                )
            ]
            # DuckDB's query leaves out the bounds of the inner window, because DuckDB's outer window adds columns with the same names.
            texts[1] = f"SELECT window_end AS ts, k, g, x, n FROM ({texts[1]})"
            weir_time = draw(st.sampled_from(["ts", "window_end"]))
            if weir_time == "ts":
                texts[0] = f"SELECT window_end AS ts, k, g, x, n FROM ({texts[0]}) AS inner_window"
            inner, unit = Statement(*both(texts)), UNIT_US[name]
    named = draw(st.booleans())
    weir = "inner_query" if named else f"({inner.weir})"
    source = Relation(weir, f"({inner.duck})", unit_us=unit, weir_time=weir_time)
    outer = draw(aggregated(source))
    return Statement(outer.weir, outer.duck, {"inner_query": inner.weir} if named else {})
