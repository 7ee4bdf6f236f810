"""CREATE MIRROR: declares remote objects that Weir polls, and the stream of their changes.

    CREATE MIRROR prices (item string, price float64, stock int32)
      FROM HTTP 'http://shop.example/items/{key}'
      KEYS ('apple', 'pear')                                  -- or KEYS FROM URL 'http://shop.example/items'
      BANDWIDTH 50 PER SECOND                                 -- or 100000 BYTES PER SECOND
      PROFILE ('apple' 5, 'p*' 1)                             -- initial interest in each object
      MIN FRESHNESS ('apple' 0.9, '*' 0.2)                    -- or MIN FRESHNESS 0.5: least freshness, also of objects in little use
      REPEAT EVERY 60 SECONDS                                 -- publish unchanged objects too, for queries added later
      LOOKUPS FROM acme/lookups                               -- a query with answers that name the objects in use
    CREATE MIRROR stock (item string, count int64) FROM DATABASE 'sqlite:///stock.db' TABLE 'stock' BANDWIDTH 10 PER SECOND

The first column is the key. The mirror's stream has these columns and two more. `changed_at` is when the object changed, if the
store reports that. `seen_at` is when the mirror saw the change, and is the event time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from engine.data.schema import TIMESTAMP, Field, Schema, StreamSchema, TypeKind
from engine.sql.create import COLUMNS_MAX, StreamParser, schema_of
from engine.sql.dialect import read
from engine.sql.errors import Text

EXAMPLE = (
    "CREATE MIRROR prices (item string, price float64) FROM HTTP 'http://host/items/{key}' "
    "KEYS ('a', 'b') BANDWIDTH 50 PER SECOND"
)
PROFILE_EXAMPLE = "PROFILE ('a' 5, 'b*' 1)"
FRESHNESS_EXAMPLE = "MIN FRESHNESS 0.5, or MIN FRESHNESS ('a' 0.9, 'b*' 0.5)"
KEYS_MAX = 100_000
BANDWIDTH_LEAST = 1e-5  # Lowest bandwidth in polls per second: about one poll per day
BANDWIDTH_LOW = f"BANDWIDTH must be at least {BANDWIDTH_LEAST:g}"
# Highest number in a statement, and highest least freshness, as users write them. A freshness of 0.99 takes 50 polls per change.
NUMBER_MOST, FRESHNESS_MOST = "1e12", "0.99"
PLACEHOLDER = "{key}"
CHANGED_AT, SEEN_AT = "changed_at", "seen_at"


@dataclass(frozen=True, slots=True)
class HttpOrigin:
    """Address of a mirror's objects if the mirror polls one HTTP address per key."""

    url: str


@dataclass(frozen=True, slots=True)
class DatabaseOrigin:
    """Database and table of a mirror's objects if the mirror polls one row per key."""

    url: str
    table: str


@dataclass(frozen=True)
class Mirror:
    """Mirror that a CREATE MIRROR declares."""

    name: str
    columns: Schema
    """Columns of the objects; the first column is the key."""
    origin: HttpOrigin | DatabaseOrigin
    keys: tuple[str, ...]
    keys_url: str | None
    """Address of a list of the keys, if the statement does not list them; otherwise None."""
    bandwidth: float
    """Polls per second, or bytes per second if `by_bytes`."""
    by_bytes: bool
    profile: tuple[tuple[str, float], ...]
    """Patterns of keys, each with its weight: the initial interest in the objects."""
    lookups: str | None
    """Query TENANT/QUERY with answers that name the objects in use; None without LOOKUPS."""
    repeat_s: float | None = None
    """Seconds after which an unchanged object is published again; None for never."""
    floors: tuple[tuple[str, float], ...] = ()
    """Patterns of keys, each with the least freshness of the objects that match."""

    @property
    def stream(self) -> StreamSchema:
        """Stream of the changes of the mirror's objects."""
        fields = (*self.columns.fields, Field(CHANGED_AT, TIMESTAMP), Field(SEEN_AT, TIMESTAMP))
        return StreamSchema(self.name, Schema(fields), len(fields) - 1)

    @property
    def stream_sql(self) -> str:
        """CREATE STREAM statement that declares the stream of changes."""
        columns = ", ".join(f"{field.name} {field.type}" for field in self.stream.schema.fields)
        return f"CREATE STREAM {self.name} ({columns}, WATERMARK FOR {SEEN_AT} AS {SEEN_AT})"


class MirrorOf(exp.Expression):
    """Parsed mirror: its name, its columns, and its clauses with their positions in the text."""


class MirrorParser(StreamParser):
    """Parser for one CREATE MIRROR."""

    def read_mirror(self) -> MirrorOf:
        if not self._match_text_seq("CREATE", "MIRROR"):
            self._refuse("the declaration of a mirror does not begin with CREATE MIRROR", hint=EXAMPLE)
        name = self._name("the name of the mirror")
        self._must(TokenType.L_PAREN, "the columns are missing here")
        columns = self._parse_csv(self._column)
        self._must(TokenType.R_PAREN, "a comma or the closing parenthesis is missing here")
        clauses: dict[str, object] = {}
        places: dict[str, int] = {}
        while self._curr:
            at = self._curr.start
            clause, value = self._clause()
            if clause in clauses:
                raise Text(self.sql).error(at, f"{clause} is given twice")
            places[clause], clauses[clause] = at, value
        return MirrorOf(this=name, expressions=columns, clauses=clauses, places=places)

    def _clause(self) -> tuple[str, object]:
        """Parse one clause, and return its first word and its value."""
        if self._match_text_seq("FROM", "HTTP"):
            return "FROM", HttpOrigin(self._text("the address of an object", "'http://host/items/{key}'"))
        if self._match_text_seq("FROM", "DATABASE"):
            url = self._text("the address of the database", "'sqlite:///prices.db'")
            if not self._match_text_seq("TABLE"):
                self._refuse("TABLE is missing here", self._seen, "FROM DATABASE 'sqlite:///x.db' TABLE 'x'")
            return "FROM", DatabaseOrigin(url, self._text("the name of the table", "TABLE 'prices'"))
        if self._match_text_seq("KEYS", "FROM", "URL"):
            return "KEYS", self._text("the address of the keys", "KEYS FROM URL 'http://host/items'")
        if self._match_text_seq("KEYS"):
            self._must(TokenType.L_PAREN, "the keys are missing here", "KEYS ('a', 'b')")
            keys = self._parse_csv(lambda: self._text("a key", "KEYS ('a', 'b')"))
            self._must(TokenType.R_PAREN, "a comma or the closing parenthesis is missing here")
            return "KEYS", tuple(keys)
        if self._match_text_seq("BANDWIDTH"):
            number = self._number("BANDWIDTH 50 PER SECOND")
            by_bytes = bool(self._match_text_seq("BYTES"))
            if not self._match_text_seq("PER", "SECOND"):
                self._refuse("PER SECOND is missing here", self._seen, "BANDWIDTH 50 PER SECOND")
            return "BANDWIDTH", (number, by_bytes)
        if self._match_text_seq("PROFILE"):
            self._must(TokenType.L_PAREN, "patterns and weights are missing here", PROFILE_EXAMPLE)
            return "PROFILE", self._patterns(PROFILE_EXAMPLE)
        if self._match_text_seq("MIN", "FRESHNESS"):
            if self._match(TokenType.L_PAREN):
                return "MIN FRESHNESS", self._patterns(FRESHNESS_EXAMPLE, FRESHNESS_MOST)
            return "MIN FRESHNESS", (("*", self._number(FRESHNESS_EXAMPLE, FRESHNESS_MOST)),)
        if self._match_text_seq("REPEAT", "EVERY"):
            seconds = self._number("REPEAT EVERY 60 SECONDS")
            if not (self._match_text_seq("SECONDS") or self._match_text_seq("SECOND")):
                self._refuse("SECONDS is missing here", self._seen, "REPEAT EVERY 60 SECONDS")
            return "REPEAT", seconds
        if not self._match_text_seq("LOOKUPS", "FROM"):
            self._refuse("this is not a clause of CREATE MIRROR", self._seen, EXAMPLE)
        return "LOOKUPS", self._query()

    def _patterns(self, example: str, most: str = NUMBER_MOST) -> tuple[tuple[str, float], ...]:
        """Parse patterns with their numbers, up to the closing parenthesis."""
        patterns = self._parse_csv(
            lambda: (self._text("a key or a pattern", example), self._number(example, most))
        )
        self._must(TokenType.R_PAREN, "a comma or the closing parenthesis is missing here")
        return tuple(patterns)

    def _query(self) -> str:
        tenant = self._name("the tenant of the query")
        self._must(TokenType.SLASH, "the query is missing here", "LOOKUPS FROM tenant/query")
        return f"{tenant.name}/{self._name('the name of the query').name}"

    def _text(self, what: str, example: str) -> str:
        if not self._match(TokenType.STRING):
            self._refuse(f"{what} is missing here; write it in quotes", self._seen, example)
        return str(self._prev.text)

    def _number(self, example: str, most: str = NUMBER_MOST) -> float:
        if not self._match(TokenType.NUMBER):
            self._refuse("a number is missing here", self._seen, example)
        at, text = self._prev.start, self._prev.text
        try:
            number = float(text)
        except ValueError:
            number = 0.0
        if not 0 < number <= float(most):
            title = f"this number must be above 0 and at most {most}"
            raise Text(self.sql).error(at, title, text, example)
        return number

    def _must(self, kind: TokenType, title: str, example: str = EXAMPLE) -> None:
        if not self._match(kind):
            self._refuse(title, self._seen, example)


def parse_create_mirror(sql: str) -> Mirror:
    """Return the mirror that a CREATE MIRROR declares; raise a PlanningError for a faulty statement."""
    text = Text(sql)
    tree = read(sql, MirrorParser, MirrorParser.read_mirror)
    assert isinstance(tree, MirrorOf)
    told, at = tree.args["clauses"], tree.args["places"]
    columns = list(tree.expressions)
    if not 1 <= len(columns) <= COLUMNS_MAX:
        raise text.error(tree, f"a mirror must have 1 to {COLUMNS_MAX:,} columns", hint=EXAMPLE)
    schema = schema_of(text, columns)
    if schema.fields[0].type.kind not in (TypeKind.STRING, TypeKind.INT64, TypeKind.INT32):
        title = "the first column is the key and must be a string, int32 or int64"
        raise text.error(columns[0], title, f"{columns[0].name} {schema.fields[0].type}")
    for column in columns:
        if column.name.lower() in (CHANGED_AT, SEEN_AT):
            raise text.error(
                column, "every mirror already has a column of this name", column.name, "remove the column"
            )
    for clause, example in (
        ("FROM", "FROM HTTP 'http://host/items/{key}'"),
        ("BANDWIDTH", "BANDWIDTH 50 PER SECOND"),
    ):
        if clause not in told:
            raise text.error(len(sql), f"the mirror has no {clause} clause", hint=example)
    origin, keys = told["FROM"], told.get("KEYS", ())
    if isinstance(origin, HttpOrigin):
        if not origin.url.lower().startswith(("http://", "https://")):
            what = "the address does not begin with http:// or https://"
            raise text.error(at["FROM"], what, origin.url, "'http://host/items/{key}'")
        if PLACEHOLDER not in origin.url:
            what = "the address has no {key}, so all objects would have the same address"
            hint = "write {key} in place of the key of the object"
            raise text.error(at["FROM"], what, origin.url, hint)
        if not keys:
            hint = "KEYS ('a', 'b'), or KEYS FROM URL 'http://host/items'"
            raise text.error(len(sql), "the mirror has no KEYS clause", hint=hint)
    elif isinstance(keys, str):
        what = "a mirror of a database reads its keys from the table"
        raise text.error(at["KEYS"], what, keys, "leave KEYS out, or list the keys")
    if isinstance(keys, tuple):
        if len(keys) > KEYS_MAX:
            raise text.error(at["KEYS"], f"a mirror can have at most {KEYS_MAX:,} objects", len(keys))
        if len(set(keys)) < len(keys):
            twice = Counter(keys).most_common(1)[0][0]
            raise text.error(at["KEYS"], "KEYS lists a key twice", twice, "list each key once")
    number, by_bytes = told["BANDWIDTH"]
    if number < BANDWIDTH_LEAST:
        raise text.error(at["BANDWIDTH"], BANDWIDTH_LOW, number, "BANDWIDTH 50 PER SECOND")
    return Mirror(
        name=tree.name,
        columns=schema,
        origin=origin,
        keys=keys if isinstance(keys, tuple) else (),
        keys_url=keys if isinstance(keys, str) else None,
        bandwidth=number,
        by_bytes=by_bytes,
        profile=told.get("PROFILE", ()),
        lookups=told.get("LOOKUPS"),
        repeat_s=told.get("REPEAT"),
        floors=told.get("MIN FRESHNESS", ()),
    )  # fmt: skip
