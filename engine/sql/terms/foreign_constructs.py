"""Constructs of other SQL systems that Weir does not support: the name of each, and what to write instead.

No other module lists such constructs. The grammar looks for them where it cannot continue (`construct_at`, `PHRASES`), and
the planner at unknown calls (`unknown_function`) and at nodes of the parsed tree (`NODES`).

A test plans all SQL in backticks. The test declares the stream `s (ts, since, k, x, y, name, ok)`, a stream `r` with the same
columns, and the table `t (k, name)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from engine.expressions.functions import ALIASES, RULES, TIME_PARTS
from engine.plan.aggregations import AGGREGATES, LISTED, SCALINGS


@dataclass(frozen=True, slots=True)
class Construct:
    """Construct of another SQL system: its error message and hint, and the words and nodes by which it is recognised.

    `{name}` in the title stands for the name of the called function. `functions` and `prefixes` are
    separated by blanks, `phrases` by commas.
    """

    title: str
    hint: str
    functions: str = ""
    prefixes: str = ""
    phrases: str = ""
    nodes: tuple[type[exp.Expr], ...] = ()


ENDLESS = "a stream never ends, so its rows cannot be"
# Functions that are called by signs and keywords only, not by name.
UNNAMED = {
    *("add", "subtract", "multiply", "divide", "integer_divide", "modulo", "negate", "append", "equal"),
    *("not_equal", "less", "less_equal", "greater", "greater_equal", "and", "or", "not", "in", "like"),
    *("ilike", "is_null", "is_not_null"),
}
PARTS = (*TIME_PARTS, "epoch", "epoch_ms")
AGGREGATES_LISTED = "aggregates: " + ", ".join(LISTED)
FUNCTIONS_LISTED = "functions: " + ", ".join(sorted({*RULES, "if"} - UNNAMED))

OVER = Construct(
    "window functions (OVER) are not supported yet",
    "for a moving average write `SELECT AVG(x) AS mean FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]`, "
    "or `SELECT AVG(x) AS mean FROM s [ROWS 6 SLIDE 1]`",
    nodes=(exp.Window,),
)
NEIGHBOURS = Construct(
    "functions of neighbouring rows (LAG, LEAD) are not supported yet",
    "for the change from row to row write `SELECT LAST(x) - FIRST(x) AS change FROM s [ROWS 2 SLIDE 1]`, "
    "for the change by group `SELECT k, LAST(x) - FIRST(x) AS change FROM s [RANGE 10 SECONDS] GROUP BY k`",
    functions="lag lead nth_value first_value last_value",
)
RANKS = Construct(
    "ranks of rows (ROW_NUMBER, RANK, QUALIFY) are not supported yet",
    "for the most frequent values write `SELECT TOP(name, 3) AS names FROM s [RANGE 1 MINUTE]`, "
    "for the largest value of each group `SELECT k, MAX(x) AS most FROM s [RANGE 1 MINUTE] GROUP BY k`",
    functions="row_number rank dense_rank percent_rank cume_dist ntile",
    phrases="QUALIFY",
)
CONSTRUCTS = (
    OVER,
    NEIGHBOURS,
    RANKS,
    Construct(
        "session windows are not supported yet",
        "use a window of fixed length: `SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k`",
        functions="session session_start session_end session_window",
        phrases="SESSION (",
    ),
    Construct(
        "a window must be written in FROM, not as the function {name}",
        "write `SELECT window_start, COUNT(*) AS n FROM s [RANGE 1 MINUTE]`; "
        "for a column write `date_trunc('minute', ts)`",
        functions="tumble hop tumble_start tumble_end hop_start hop_end time_bucket time_bucket_gapfill "
        "date_bin window cumulate time_slice",
    ),
    Construct(
        "the WINDOW clause is not supported",
        "write the window after its stream: `SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE]`",
        phrases="WINDOW",
    ),
    Construct(
        "EMIT is not supported: a windowed query answers when each of its windows closes",
        "leave EMIT out: `SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE]`; for earlier answers let the window slide: "
        "`SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE SLIDE 10 SECONDS]`",
        phrases="EMIT CHANGES, EMIT FINAL, EMIT ON, EMIT AFTER, EMIT STREAM, EMIT WITHOUT",
    ),
    Construct(
        f"{ENDLESS} sorted (ORDER BY)",
        "leave ORDER BY out, or sort the answers where they are read; for the most frequent values of each window "
        "write `SELECT TOP(name, 10) AS names FROM s [RANGE 10 SECONDS]`",
        phrases="ORDER BY",
    ),
    Construct(
        f"{ENDLESS} limited (LIMIT, OFFSET, FETCH)",
        "leave the clause out; for the most frequent values of each window write "
        "`SELECT TOP(name, 10) AS names FROM s [RANGE 10 SECONDS]`",
        phrases="LIMIT, OFFSET, FETCH",
    ),
    Construct(
        "TABLESAMPLE is not supported",
        "leave TABLESAMPLE out: under overload Weir drops rows itself and reports the fraction that it kept as _kept",
        phrases="TABLESAMPLE",
    ),
    Construct(
        "LATERAL is not supported yet",
        "join the two with a bound on time: `SELECT a.k, b.x FROM s a JOIN r b ON a.k = b.k "
        "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1 minute'`, or with the last row of each key: "
        "`SELECT a.k, b.x FROM s a JOIN r [LAST BY k] b ON a.k = b.k`",
        phrases="LATERAL",
    ),
    Construct(
        "temporal joins (FOR SYSTEM_TIME AS OF, ASOF JOIN) are not supported yet",
        "join with the last row of each key: `SELECT a.k, b.x FROM s a LEFT JOIN r [LAST BY k] b ON a.k = b.k`; "
        "a static table is joined as it is: `SELECT a.k, b.name FROM s a LEFT JOIN t b ON a.k = b.k`",
        phrases="FOR SYSTEM_TIME, FOR VERSION, ASOF JOIN, ASOF LEFT JOIN, LEFT ASOF JOIN",
    ),
    Construct(
        "joins without columns of the other side (SEMI JOIN, ANTI JOIN) are not supported yet",
        "for rows with a match write `SELECT a.x FROM s a JOIN t b ON a.k = b.k`, "
        "for rows without one `SELECT a.x FROM s a LEFT JOIN t b ON a.k = b.k WHERE b.k IS NULL`",
        phrases="SEMI JOIN, ANTI JOIN, LEFT SEMI JOIN, LEFT ANTI JOIN",
    ),
    Construct(
        "WITHIN is not supported in a join",
        "bound the time in ON: `SELECT a.k, b.x FROM s a JOIN r b ON a.k = b.k "
        "AND b.ts BETWEEN a.ts - INTERVAL '1 hour' AND a.ts + INTERVAL '1 hour'`",
        phrases="WITHIN",
    ),
    Construct(
        "pattern matching (MATCH_RECOGNIZE) is not supported yet",
        "for a row that follows another within a time, join the stream with itself: `SELECT a.k, b.x FROM s a JOIN s b "
        "ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '10 seconds' WHERE a.x < b.x`",
        phrases="MATCH_RECOGNIZE (",
    ),
    Construct(
        "a list of rows (VALUES) is not supported in FROM",
        "put the rows into a static table and join it: `SELECT a.x, b.name FROM s a JOIN t b ON a.k = b.k`; "
        "for a few values write `SELECT x FROM s WHERE k IN (1, 2)`",
        phrases="VALUES",
    ),
    Construct(
        "UNNEST is not supported: columns cannot hold arrays",
        "send one row for each element to a separate stream",
        functions="explode posexplode flatten generate_series range generate_subscripts",
        phrases="UNNEST",
    ),
    Construct(
        "PIVOT is not supported yet",
        "write a column for each value: `SELECT SUM(x) FILTER (WHERE k = 1) AS k_1, "
        "SUM(x) FILTER (WHERE k = 2) AS k_2 FROM s [RANGE 1 MINUTE]`",
        phrases="PIVOT (, UNPIVOT (",
    ),
    Construct(
        "several groupings in one query (GROUPING SETS, ROLLUP, CUBE) are not supported yet",
        "write a query for each: `SELECT k, COUNT(*) AS n FROM s [RANGE 1 MINUTE] GROUP BY k "
        "UNION ALL SELECT NULL AS k, COUNT(*) AS n FROM s [RANGE 1 MINUTE]`",
        nodes=(exp.GroupingSets, exp.Rollup, exp.Cube),
        functions="grouping grouping_id",
    ),
    Construct(
        "JSON operators (->, ->>) and functions are not supported yet",
        "parse the JSON before you send it, and declare its fields as columns: "
        "`CREATE STREAM s (ts timestamp, country string, WATERMARK FOR ts AS ts)`",
        functions="get_json_object from_json to_json parse_json try_parse_json row_to_json",
        prefixes="json jsonb_",
        phrases="->, ->>, #>, #>>, @>, <@, :",
    ),
    Construct(
        "regular expressions are not supported yet",
        "match texts by `name LIKE 'a%'`, `name ILIKE '%b%'`, `starts_with(name, 'a')`, `ends_with(name, 'b')` "
        "or `contains(name, 'b')`",
        functions="rlike similar_to match",
        prefixes="regexp regex_",
        phrases="~, !~, ~*, !~*, RLIKE, REGEXP, GLOB, SIMILAR TO",
    ),
    Construct(
        "lists of a group's values (ARRAY_AGG, STRING_AGG) are not supported yet",
        "for the most frequent values of a window as one text write "
        "`SELECT TOP(name, 10) AS names FROM s [RANGE 1 MINUTE]`",
        functions="array_agg list string_agg listagg group_concat collect_list collect_set array_concat_agg",
    ),
    Construct(
        "arrays are not supported yet",
        "declare a column for each element, or send a row for each element; for a list of constants write `k IN (1, 2)`",
        functions="array any all some cardinality element_at split string_split string_to_array str_split",
        prefixes="array_ list_",
        phrases="[",
        nodes=(exp.Bracket, exp.Array),
    ),
    Construct(
        "structs and maps are not supported yet",
        "use a column for each part: `SELECT x AS point_x, y AS point_y FROM s`",
        functions="struct named_struct row map object object_construct",
        prefixes="struct_ map_",
        phrases="{",
        nodes=(exp.Struct,),
    ),
    Construct(
        "bit operators are not supported yet",
        "for whole powers of two write `k % 8` for the lower bits and `k // 8` for the upper ones",
        functions="bit_count xor",
        phrases="&, |, <<, >>",
        nodes=(exp.BitwiseLeftShift, exp.BitwiseRightShift),
    ),
    Construct(
        "time zones are not supported yet: timestamps are UTC",
        "for a fixed offset write `ts + INTERVAL '1 hour'`",
        functions="timezone convert_timezone from_utc_timestamp to_utc_timestamp convert_tz",
        nodes=(exp.AtTimeZone,),
    ),
    Construct(
        "formatted times are not supported yet ({name})",
        "for the whole time write `CAST(ts AS string)`, for a part `hour(ts)`, for a coarser time `date_trunc('day', ts)`",
        functions="strftime to_char date_format format_date format_timestamp monthname dayname",
    ),
    Construct(
        "there is no function {name}",
        "convert a text in ISO 8601 to a time by `CAST(name AS timestamp)`, a number of milliseconds by "
        "`epoch_ms(1767225600000)`",
        functions="strptime try_strptime to_timestamp to_date parse_datetime parse_timestamp str_to_date "
        "from_unixtime make_timestamp timestamp_millis",
    ),
    Construct(
        "there is no function {name}",
        "for the milliseconds between two times write `epoch_ms(ts) - epoch_ms(since)`",
        functions="date_diff datediff timestampdiff timestamp_diff age date_sub_days datesub",
    ),
    Construct(
        "there is no function {name}",
        "write `ts + INTERVAL '1 day'` or `ts - INTERVAL '10 minutes'`",
        functions="date_add dateadd date_sub timestampadd timestamp_add timestamp_sub adddate subdate",
    ),
    Construct(
        "there is no function {name}",
        "for the day of a time write `date_trunc('day', ts)`",
        functions="date to_days last_day trunc_date",
    ),
    Construct(
        "there is no function {name}",
        "for seconds since 1970 write `epoch(ts)`, for milliseconds `epoch_ms(ts)`",
        functions="unix_timestamp to_unixtime unix_millis unix_seconds epoch_us epoch_ns epoch_second",
    ),
    Construct(
        "there is no function {name}",
        "for the part before the first '/' write `left(name, strpos(name, '/') - 1)`, "
        "for the part after it `substring(name, strpos(name, '/') + 1)`",
        functions="split_part substring_index splitpart",
    ),
    Construct(
        "hashes of values are not supported yet ({name})",
        "select the column itself, or hash it before it is sent",
        functions="md5 hash sha sha1 sha2 sha256 sha512 crc32 xxhash64 murmur_hash farm_fingerprint md5_number",
    ),
    Construct(
        "there is no function {name}",
        "join texts by `name || '-' || k` or `concat(name, '-', k)`",
        functions="concat_ws format printf",
    ),
    Construct(
        "TRY is not supported",
        "a row whose expression fails is left out and counted; for NULL instead write `TRY_CAST(name AS int32)`",
        functions="try try_divide safe_divide",
    ),
    Construct(
        "{name} and WITHIN GROUP are not supported",
        "write `PERCENTILE(x, 0.95)`, or `APPROX_QUANTILE(x, 0.95)` in bounded memory",
        functions="percentile_cont percentile_disc quantile quantile_disc approx_percentile percentile_approx "
        "approx_quantiles quantile_exact tdigest quantile_tdigest",
        nodes=(exp.WithinGroup,),
    ),
    Construct(
        "there is no aggregate {name}",
        "for the largest value write `MAX(x)`, for the value of the latest row `LAST(name)`",
        functions="max_by arg_max argmax",
    ),
    Construct(
        "there is no aggregate {name}",
        "for the smallest value write `MIN(x)`, for the value of the earliest row `FIRST(name)`",
        functions="min_by arg_min argmin",
    ),
    Construct(
        "there is no aggregate {name}",
        "for the latest value write `LAST(x)`, for the earliest `FIRST(x)`",
        functions="any_value arbitrary latest latest_by_offset earliest earliest_by_offset anylast last_by first_by",
    ),
    Construct(
        "there is no aggregate {name}",
        "for the most frequent value write `TOP(name, 1)`",
        functions="mode topk top_n approx_top_count",
    ),
    Construct(
        "there is no aggregate {name}",
        "write `SUM(x) FILTER (WHERE y > 0)` or `AVG(x) FILTER (WHERE y > 0)`",
        functions="sum_if sumif avg_if avgif",
    ),
    Construct(
        "there is no aggregate {name}",
        "write `COUNT(DISTINCT k)`, or `APPROX_COUNT_DISTINCT(k)` in bounded memory",
        functions="count_distinct approx_distinct uniq hll hll_count ndv",
    ),
    Construct(
        "there is no aggregate {name}",
        AGGREGATES_LISTED,
        functions="corr covar covar_pop covar_samp skewness kurtosis product entropy histogram geometric_mean "
        "bit_and bit_or bit_xor checksum mad sem fsum kahan_sum favg wavg weighted_avg",
        prefixes="regr_",
    ),
    Construct("a query inside an expression is not supported", "use a JOIN instead", nodes=(exp.Subquery,)),
    Construct("a list of values is not supported", "compare the values one by one: a.x = 1 AND a.y = 2", nodes=(exp.Tuple,)),
    Construct("* is not supported here", "use * in SELECT, for all columns, or in `COUNT(*)`", nodes=(exp.Star,)),
    Construct("a path is not supported", "write column or stream.column", nodes=(exp.Dot,)),
    Construct("FILTER is not supported here", "write FILTER after an aggregate: `SUM(x) FILTER (WHERE y > 0)`", nodes=(exp.Filter,)),
    Construct("INTO is not supported", "leave INTO out: a query's answers have the name of the query", nodes=(exp.Into,)),
)  # fmt: skip

NODES = {node: construct for construct in CONSTRUCTS for node in construct.nodes}
PHRASES = {
    phrase.strip(): construct
    for construct in CONSTRUCTS
    for phrase in construct.phrases.split(", ")
    if phrase
}
FUNCTIONS = {name: construct for construct in CONSTRUCTS for name in construct.functions.split()}
PREFIXES = {prefix: construct for construct in CONSTRUCTS for prefix in construct.prefixes.split()}
LITERALS = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER)

QUERIES_READ = "queries read streams and change nothing"
STATEMENTS = {
    "INSERT": (
        f"INSERT is refused: {QUERIES_READ}",
        "send rows to a stream by a feed or by weir rows put, or read them from a file by weir run --input; "
        "query them by `SELECT x FROM s`",
    ),
    "CREATE FUNCTION": (
        "user-defined functions (CREATE FUNCTION, CREATE MACRO) are not supported yet",
        "write the expression in each query, or once in a query that others read: "
        "`CREATE QUERY doubled AS SELECT ts, k, x * 2 AS x2 FROM s`",
    ),
    "CREATE VIEW": (
        "views are not supported: other queries can read the answers of a query as a stream",
        "write `CREATE QUERY name AS SELECT k, x FROM s`",
    ),
    "CREATE TABLE": (
        "SQL cannot create tables",
        "declare a stream by `CREATE STREAM s (ts timestamp, x float64, WATERMARK FOR ts AS ts)`, "
        "or a query by `CREATE QUERY name AS SELECT k, x FROM s`",
    ),
    "CREATE SOURCE": (
        "SQL cannot create sources or sinks",
        "declare a stream by `CREATE STREAM s (ts timestamp, x float64, WATERMARK FOR ts AS ts)`",
    ),
}
CREATED = {
    **dict.fromkeys(("FUNCTION", "MACRO", "AGGREGATE", "TEMP FUNCTION"), "CREATE FUNCTION"),
    **dict.fromkeys(("VIEW", "MATERIALIZED"), "CREATE VIEW"),
    **dict.fromkeys(("TABLE", "EXTERNAL", "FOREIGN"), "CREATE TABLE"),
    **dict.fromkeys(("SOURCE", "SINK", "CONNECTION", "CONNECTOR"), "CREATE SOURCE"),
}
MODIFIERS = ("OR", "REPLACE", "TEMP", "TEMPORARY")
CHANGES = {
    *("ALTER", "ATTACH", "CALL", "COPY", "CREATE", "DELETE", "DETACH", "DROP", "EXECUTE", "EXPORT", "GRANT"),
    *("IMPORT", "INSERT", "INSTALL", "LOAD", "MERGE", "PRAGMA", "REPLACE", "REVOKE", "SET", "TRUNCATE"),
    *("UPDATE", "USE", "VACUUM"),
}


def statement_refused(words: Sequence[str]) -> tuple[str, str] | None:
    """Return title and hint of the error for a statement that changes data; None for any other statement.

    `words` are the statement's first words in capitals.
    """
    if not words or words[0] not in CHANGES:
        return None
    name = words[0]
    if name == "CREATE":
        created = next((word for word in words[1:] if word not in MODIFIERS), "")
        name = CREATED.get(created, name)
    return STATEMENTS.get(
        name, (f"{name} is refused: {QUERIES_READ}", "write a query such as `SELECT x FROM s WHERE x > 0`")
    )


def construct_at(tokens: Sequence[Token], place: int) -> tuple[Construct, Token] | None:
    """Return the unsupported construct that stands at a token or just before it, and the first token of the construct.

    Return None if no unsupported construct stands there.
    """
    for start in (place, place - 1):
        if not 0 <= start < len(tokens):
            continue
        words = [
            token.text.upper() if token.token_type not in LITERALS else ""
            for token in tokens[start : start + 2]
        ]
        construct = PHRASES.get(" ".join(words)) or (PHRASES.get(words[0]) if start == place else None)
        if construct is not None:
            return construct, tokens[start]
    return None


def construct_of(node: exp.Expr) -> Construct | None:
    """Return the unsupported construct of a node of the tree, or None.

    The hints for LAG and RANK differ from the hint for other functions with OVER.
    """
    if isinstance(node, exp.Window) and isinstance(node.this, exp.Anonymous):
        construct = function_named(str(node.this.name).lower())
        if construct in (NEIGHBOURS, RANKS):
            return construct
    return NODES.get(type(node))


def function_named(name: str) -> Construct | None:
    """Return the unsupported construct that a function with this name belongs to, or None."""
    for prefix, construct in PREFIXES.items():
        if name not in FUNCTIONS and name.startswith(prefix):
            return construct
    return FUNCTIONS.get(name)


def is_known(name: str) -> bool:
    """Return True if `name` is the name of a scalar function or an aggregate."""
    return name in RULES or name in ALIASES or name in AGGREGATES or name in SCALINGS


def unknown_function(name: str, aggregates: bool = False) -> tuple[str, object, str]:
    """Return title, value and hint of the error for a call of an unknown function; `aggregates` is True where an aggregate is needed."""
    construct = function_named(name)
    if construct is not None:
        titled = "{name}" in construct.title
        return construct.title.format(name=name.upper()), None if titled else name, construct.hint
    scalars = [*(set(RULES) - UNNAMED), *ALIASES, "if"]
    close = near(name, [*AGGREGATES, *SCALINGS, *scalars])
    if close:
        return "there is no such function", name, "did you mean " + " or ".join(close) + "?"
    if aggregates:
        return f"there is no aggregate {name.upper()}", None, AGGREGATES_LISTED
    return "there is no such function", name, f"{FUNCTIONS_LISTED}; {AGGREGATES_LISTED}"


def unknown_part(name: str) -> tuple[str, object, str] | None:
    """Return title, value and hint of the error for a part of a time that EXTRACT does not support; None for a supported part."""
    if ALIASES.get(name, name) in PARTS:
        return None
    return "there is no such part of a time", name, "use " + ", ".join(PARTS)


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three known names that differ from `name` by one edit, or by two edits if `name` is long."""
    slips = 1 if len(name) < 6 else 2
    close = [(edits(name, one), one) for one in known if abs(len(one) - len(name)) <= slips]
    return [one for count, one in sorted(close) if count <= slips and 2 * count < len(name)][:3]


def edits(one: str, other: str) -> int:
    """Return the edit distance: letters inserted, removed, replaced or swapped to turn `one` into `other`."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        before, last, row = row, before, [place]
        for column, match in enumerate(other, 1):
            count = min(before[column] + 1, row[-1] + 1, before[column - 1] + (letter != match))
            if place > 1 and column > 1 and letter == other[column - 2] and one[place - 2] == match:
                count = min(count, last[column - 2] + 1)
            row.append(count)
    return row[-1]
