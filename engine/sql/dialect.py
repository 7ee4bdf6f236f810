"""Grammar of Weir's SQL: sqlglot's grammar, reduced to what Weir can plan and extended by windows.

    FROM s [RANGE 10 SECONDS SLIDE 2 SECONDS]       FROM TUMBLE(s, ts, INTERVAL '10 seconds')
    FROM s [ROWS 100 SLIDE 10]                      FROM HOP(s, ts, INTERVAL '2 seconds', INTERVAL '10 seconds')
    FROM s [RANGE 10 SECONDS SLIDE AT MOST 2 SECONDS]
    JOIN s [LAST BY key]

sqlglot reads all SQL dialects and tolerates many mistakes. Here, a construct that Weir does not support must not be
read with another meaning. Function calls therefore stay calls by name, and the FROM clause is read by Weir's own rules.
A word that sqlglot would guess (a missing THEN, an item missing after a comma) is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn, TypeVar

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from engine.expressions.kernels.times import FIXED
from engine.sql.errors import SPLIT_IT, PlanningError, Text
from engine.sql.terms.foreign_constructs import (
    PHRASES,
    construct_at,
    function_named,
    statement_refused,
    unknown_part,
)

SQL_BYTES_MAX = 100_000
# Limit of nested parentheses: sqlglot makes about 25 nested calls per level, and Python allows 1,000 nested calls.
NESTING_MAX = 24
# Maximum depth of a parsed tree, since the planner and the engine call themselves once per level.
DEPTH_MAX = 100

UNITS_US = {unit.upper(): length_us for unit, length_us in FIXED.items()} | {"WEEK": 7 * FIXED["day"]}
UNIT_NAMES = UNITS_US.keys() | {unit + "S" for unit in UNITS_US}
UNITS_TOLD = "use " + ", ".join(unit.lower() + "s" for unit in UNITS_US)
WINDOW_FUNCTIONS = ("TUMBLE", "HOP")
WINDOW_EXAMPLE = "[RANGE 10 SECONDS SLIDE 2 SECONDS]"
CASE_EXAMPLE = "CASE WHEN condition THEN value ELSE value END"


class Source(exp.Expression):
    """Item of FROM: a name or a query, with its alias and its window."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "alias": False, "window": False}


class BracketWindow(exp.Expression):
    """Window in brackets: [RANGE size SLIDE slide], [RANGE size SLIDE AT MOST slide] or [ROWS size SLIDE slide]."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True, "size": True, "slide": False, "at_most": False}


class LastRow(exp.Expression):
    """Clause [LAST BY key] after a stream: only the last row of each key is joined."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class FunctionWindow(exp.Expression):
    """Window as a function: TUMBLE(source, time, size) or HOP(source, time, slide, size)."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True, "time": True, "expressions": True}


class TypeName(exp.Expression):
    """Type as the user wrote it: its name, and the digits in parentheses."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


def refusal(phrase: str) -> Callable[[parser.Parser], NoReturn]:
    """Return a parsing method for an unsupported clause: it raises the error of PHRASES[phrase] at the clause's first token."""

    def refuse(self: parser.Parser) -> NoReturn:
        construct = PHRASES[phrase]
        raise Text(self.sql).error(self._curr.start, construct.title, hint=construct.hint)

    return refuse


INTERVAL_STARTS = (TokenType.STRING, TokenType.NUMBER, TokenType.DASH, TokenType.L_PAREN)


class BareParser(parser.Parser):
    """sqlglot's parser without the constructs of other dialects that Weir does not support."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    STATEMENT_PARSERS: ClassVar = {}
    LAMBDAS: ClassVar = {}
    PLACEHOLDER_PARSERS: ClassVar = {}
    NO_PAREN_FUNCTIONS: ClassVar = {}
    BITWISE: ClassVar = {}
    BRACKETS: ClassVar = frozenset[TokenType]()
    SUBQUERY_PREDICATES: ClassVar = {}


class WeirParser(BareParser):
    """sqlglot's parser of expressions and clauses, with Weir's own rules for FROM, windows and joins."""

    NO_PAREN_FUNCTION_PARSERS: ClassVar = {"CASE": lambda self: self._parse_case()}
    FUNCTION_PARSERS: ClassVar = {
        "CAST": lambda self: self._parse_cast(True),
        "TRY_CAST": lambda self: self._parse_cast(False, safe=True),
        "EXTRACT": lambda self: self._parse_extract(),
        "IF": lambda self: self._parse_choice(),
    }
    STRING_PARSERS: ClassVar = {TokenType.STRING: parser.Parser.STRING_PARSERS[TokenType.STRING]}
    NUMERIC_PARSERS: ClassVar = {TokenType.NUMBER: parser.Parser.NUMERIC_PARSERS[TokenType.NUMBER]}
    PRIMARY_PARSERS: ClassVar = {
        **STRING_PARSERS,
        **NUMERIC_PARSERS,
        TokenType.NULL: lambda self, token: self.expression(exp.Null(), token),
        TokenType.TRUE: lambda self, token: self.expression(exp.Boolean(this=True), token),
        TokenType.FALSE: lambda self, token: self.expression(exp.Boolean(this=False), token),
        TokenType.STAR: lambda self, token: self._star(token),
    }
    EXPONENT: ClassVar = {TokenType.DSTAR: exp.Pow, TokenType.CARET: exp.Pow}
    TERM: ClassVar = {TokenType.DASH: exp.Sub, TokenType.PLUS: exp.Add}
    FACTOR: ClassVar = {
        TokenType.DIV: exp.IntDiv,
        TokenType.MOD: exp.Mod,
        TokenType.SLASH: exp.Div,
        TokenType.STAR: exp.Mul,
    }
    EQUALITY: ClassVar = {TokenType.EQ: exp.EQ, TokenType.NEQ: exp.NEQ}
    UNARY_PARSERS: ClassVar = {
        kind: parser.Parser.UNARY_PARSERS[kind] for kind in (TokenType.PLUS, TokenType.NOT, TokenType.DASH)
    }
    RANGE_PARSERS: ClassVar = {
        kind: parser.Parser.RANGE_PARSERS[kind]
        for kind in (TokenType.BETWEEN, TokenType.ILIKE, TokenType.IN, TokenType.IS, TokenType.LIKE)
    }
    COLUMN_OPERATORS: ClassVar = {
        kind: parser.Parser.COLUMN_OPERATORS[kind] for kind in (TokenType.DOT, TokenType.DCOLON)
    }
    QUERY_MODIFIER_PARSERS: ClassVar = {
        TokenType.WHERE: lambda self: ("where", self._parse_where()),
        TokenType.GROUP_BY: lambda self: ("group", self._parse_group()),
        TokenType.HAVING: lambda self: ("having", self._parse_having()),
        TokenType.ORDER_BY: refusal("ORDER BY"),
        TokenType.LIMIT: refusal("LIMIT"),
        TokenType.FETCH: refusal("FETCH"),
        TokenType.OFFSET: refusal("OFFSET"),
        TokenType.QUALIFY: refusal("QUALIFY"),
        TokenType.WINDOW: refusal("WINDOW"),
        TokenType.TABLE_SAMPLE: refusal("TABLESAMPLE"),
    }
    QUERY_MODIFIER_TOKENS: ClassVar = set(QUERY_MODIFIER_PARSERS)
    TABLE_ALIAS_TOKENS: ClassVar = parser.Parser.TABLE_ALIAS_TOKENS - set(QUERY_MODIFIER_PARSERS)

    def read_query(self) -> exp.Expr:
        """Parse a whole statement that must be a query."""
        query = self._parse_select(nested=True)
        if query is None:
            refused = statement_refused([token.text.upper() for token in self._tokens[:3]])
            if refused is not None:
                self._refuse(refused[0], hint=refused[1])
            self._refuse("the query does not begin with SELECT", self._seen, "SELECT … FROM stream …")
        if self._curr:
            self._unexpected("unexpected text")
        return query

    def _parse_table(self, *_: Any, **__: Any) -> exp.Expr:
        start = self._curr
        window: exp.Expr | None = None
        this: exp.Expr
        if self._curr.text.upper() == "TABLE" and self._next.token_type == TokenType.L_PAREN:
            self._advance(2)
            this, window = self._windowed()
            self._match_r_paren()
        elif self._is_window_function():
            this, window = self._windowed()
        else:
            this = self._named_or_query()
        window = window or self._bracket_window()
        alias = self._table_alias()
        window = window or self._bracket_window()
        return self.expression(Source(this=this, alias=alias, window=window), start)

    def _named_or_query(self) -> exp.Expr:
        if self._match(TokenType.L_PAREN):
            query = None if self._curr.text.upper() == "VALUES" else self._parse_select(nested=True)
            if query is None:
                self._unexpected("these parentheses contain no query", "FROM (SELECT … FROM s) AS x")
            self._match_r_paren()
            return query
        if self._curr.token_type == TokenType.STRING:
            self._refuse(
                "FROM needs the name of a stream or table, but this is a text in quotes",
                self._curr.text,
                "write the name of a registered stream without quotes; weir run also reads files such as 'x.csv', and stdin as '-'",
            )
        if self._match_set((TokenType.LATERAL, TokenType.UNNEST, TokenType.VALUES), advance=False):
            self._unexpected("the name of a stream is missing here", "FROM stream")
        name = self._parse_id_var(any_token=False, tokens=self.TABLE_ALIAS_TOKENS)
        if name is None:
            self._refuse("the name of a stream is missing here", hint="FROM stream")
        if self._match(TokenType.L_PAREN, advance=False):
            self._retreat(self._index - 1)
            construct = function_named(self._curr.text.lower())
            if construct is not None and "{name}" not in construct.title:
                self._refuse(construct.title, self._curr.text, construct.hint)
            self._refuse(
                "there is no such table function",
                self._curr.text,
                "use TUMBLE or HOP over a registered stream; queries cannot read files or the network",
            )
        if self._match(TokenType.DOT, advance=False):
            self._refuse("the name of a stream cannot contain a dot")
        return name

    def _is_window_function(self) -> bool:
        return self._curr.text.upper() in WINDOW_FUNCTIONS and self._next.token_type == TokenType.L_PAREN

    def _windowed(self) -> tuple[exp.Expr, exp.Expr]:
        if not self._is_window_function():
            self._refuse("TUMBLE or HOP is missing here", hint="TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), …))")
        start = self._curr
        self._advance(2)
        self._match(TokenType.TABLE)
        source = self._named_or_query()
        arguments = []
        while self._match(TokenType.COMMA):
            described = self._match_text_seq("DESCRIPTOR") and self._match(TokenType.L_PAREN)
            arguments.append(self._operand())
            if described:
                self._match_r_paren()
        self._match_r_paren()
        form = "TUMBLE(s, ts, INTERVAL '10 seconds')"
        if start.text.upper() == "HOP":
            form = "HOP(s, ts, INTERVAL '2 seconds', INTERVAL '10 seconds'), with the slide before the size"
        if len(arguments) != (2 if start.text.upper() == "TUMBLE" else 3):
            raise Text(self.sql).error(
                start.start, f"{start.text.upper()} was called with the wrong number of arguments", hint=form
            )
        window = FunctionWindow(kind=start.text.upper(), time=arguments[0], expressions=arguments[1:])
        return source, self.expression(window, start)

    def _bracket_window(self) -> exp.Expr | None:
        start = self._curr
        if not self._match(TokenType.L_BRACKET):
            return None
        kind = self._curr.text.upper()
        if self._match_text_seq("LAST", "BY"):
            columns = self._parse_csv(lambda: self._parse_id_var(any_token=False))
            if not columns or not self._match(TokenType.R_BRACKET):
                self._refuse(
                    "LAST BY needs the columns of the key and a closing bracket", self._seen, "[LAST BY item]"
                )
            return self.expression(LastRow(expressions=columns), start)
        if kind not in ("RANGE", "ROWS"):
            hint = f"{WINDOW_EXAMPLE} or [ROWS 100 SLIDE 10]"
            self._refuse("a window must begin with RANGE or ROWS", self._seen, hint)
        self._advance()
        size = self._extent()
        slide, at_most = None, False
        if self._match_text_seq("SLIDE"):
            at_most = bool(self._match_text_seq("AT", "MOST"))
            if not at_most and self._curr.text.upper() == "AT":
                self._refuse("MOST is missing after AT", hint="SLIDE AT MOST 2 SECONDS")
            slide = self._extent()
        if not self._match(TokenType.R_BRACKET):
            self._refuse("the closing bracket of the window is missing here", self._seen, WINDOW_EXAMPLE)
        return self.expression(BracketWindow(kind=kind, size=size, slide=slide, at_most=at_most), start)

    def _extent(self) -> exp.Expr:
        start = self._curr
        operand = self._operand()
        if self._curr.text.upper() not in UNIT_NAMES:
            if self._curr.token_type is TokenType.VAR and self._curr.text.upper() != "SLIDE":
                self._refuse("the window has an unknown unit of time", self._seen, UNITS_TOLD)
            return operand
        self._advance()
        return self.expression(exp.Interval(this=operand, unit=exp.Var(this=self._prev.text.upper())), start)

    def _table_alias(self) -> exp.Expr | None:
        explicit = self._match(TokenType.ALIAS)
        if not explicit and self._curr.text.upper() in ("RANGE", "ROWS", "SLIDE"):
            self._refuse("a window must be written in brackets", self._seen, WINDOW_EXAMPLE)
        alias = self._parse_id_var(any_token=False, tokens=self.TABLE_ALIAS_TOKENS)
        if alias is None and explicit:
            self._refuse("a name is missing after AS")
        return alias

    def _parse_join(self, *_: Any, **__: Any) -> exp.Join | None:
        index, start = self._index, self._curr
        if self._match(TokenType.COMMA):
            return self.expression(exp.Join(this=self._parse_table()), start)
        words = [part.text.upper() for part in self._parse_join_parts() if part]
        if not self._match(TokenType.JOIN):
            self._retreat(index)
            return None
        if words not in ([], ["INNER"], ["LEFT"], ["LEFT", "OUTER"], ["CROSS"]):
            self._retreat(index)
            construct = PHRASES.get(f"{' '.join(words)} JOIN")
            if construct is not None:
                self._refuse(construct.title, hint=construct.hint)
            self._refuse(
                f"{' '.join(words)} JOIN is not supported", hint="use JOIN, or LEFT JOIN with a table"
            )
        join = exp.Join(this=self._parse_table(), side="LEFT" if "LEFT" in words else None)
        if self._match(TokenType.ON):
            join.set("on", self._parse_disjunction() or self._missing())
        elif self._match(TokenType.USING):
            join.set("using", self._parse_wrapped_csv(lambda: self._parse_id_var(any_token=False)))
        return self.expression(join, start)

    def _parse_lateral(self) -> None:
        return None

    def _parse_connect(self, skip_start_token: bool = False) -> None:
        # sqlglot's own method changes a table of the parser class while parsing, and a parsing error would leave the table changed.
        return None

    def _parse_cte(self) -> exp.CTE:
        name = self._parse_id_var(any_token=False)
        if name is None or not self._match(TokenType.ALIAS):
            self._refuse(
                "WITH must be followed by a name, AS and a query in parentheses",
                hint="WITH x AS (SELECT …) SELECT … FROM x",
            )
        return self.expression(exp.CTE(this=self._named_or_query(), alias=name))

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        first = parse_method()
        if first is None:
            return []
        items = [first]
        while self._match(sep):
            item = parse_method()
            items.append(self._missing() if item is None else item)
        return items

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
        """Parse one argument of a function."""
        if self._match(TokenType.DISTINCT):
            return self.expression(exp.Distinct(expressions=[self._parse_disjunction() or self._missing()]))
        self._match(TokenType.ALL)
        if self._match_set((TokenType.SELECT, TokenType.WITH), advance=False):
            self._refuse("a query inside an expression is not supported", hint="use a JOIN instead")
        argument = self._parse_disjunction()
        if self._match(TokenType.ORDER_BY, advance=False):
            self._refuse("ORDER BY in an aggregate is not supported", hint="use FIRST(x) or LAST(x)")
        return argument

    def _parse_case(self) -> exp.Expr:
        operand = None
        if not self._match(TokenType.WHEN, advance=False):
            operand = self._parse_disjunction()
        branches = []
        while self._match(TokenType.WHEN):
            condition = self._parse_disjunction() or self._missing()
            if not self._match(TokenType.THEN):
                self._refuse("THEN is missing here", hint=CASE_EXAMPLE)
            value = self._parse_disjunction() or self._missing()
            branches.append(self.expression(exp.If(this=condition, true=value)))
        otherwise = None
        if self._match(TokenType.ELSE):
            otherwise = self._parse_disjunction() or self._missing()
        if not branches or not self._match(TokenType.END):
            what = "END" if branches else "WHEN"
            self._refuse(f"{what} is missing here", hint=CASE_EXAMPLE)
        return self.expression(exp.Case(this=operand, ifs=branches, default=otherwise))

    def _parse_between(self, this: exp.Expr | None) -> exp.Between:
        low = self._operand()
        if not self._match(TokenType.AND):
            self._refuse("AND is missing here", hint="x BETWEEN low AND high")
        return self.expression(exp.Between(this=this, low=low, high=self._operand()))

    def _parse_in(self, this: exp.Expr | None, alias: bool = False) -> exp.In:
        if not self._match(TokenType.L_PAREN):
            self._refuse("a list is missing after IN", hint="x IN (1, 2, 3)")
        if self._match_set((TokenType.SELECT, TokenType.WITH), advance=False):
            self._refuse("IN with a query is not supported", hint="use a JOIN instead")
        values = self._parse_csv(self._parse_disjunction) or [self._missing()]
        self._match_r_paren()
        return self.expression(exp.In(this=this, expressions=values))

    def _parse_cast(self, strict: bool, safe: bool | None = None) -> exp.Expr:
        this = self._parse_disjunction() or self._missing()
        if not self._match(TokenType.ALIAS):
            self._refuse("AS is missing here", hint="CAST(x AS float64)")
        return self.build_cast(strict, this=this, to=self._type_name())

    def build_cast(self, strict: bool, **kwargs: Any) -> exp.Expr:
        return self.expression((exp.Cast if strict else exp.TryCast)(this=kwargs["this"], to=kwargs["to"]))

    def _parse_dcolon(self) -> exp.Expr:
        return self._type_name()

    def _parse_types(self, *_: Any, **__: Any) -> exp.Expr | None:
        """Parse the type before a literal, as in TIMESTAMP '2026-01-01'."""
        if self._next.token_type == TokenType.STRING and self._curr.text.upper() in ("TIMESTAMP", "DATE"):
            return self._type_name()
        return None

    def _type_name(self) -> exp.Expr:
        start = self._curr
        if not start or not start.text.replace(" ", "").isalnum():
            self._refuse("the name of a type is missing here")
        self._advance()
        digits = []
        if self._match(TokenType.L_PAREN):
            digits = self._parse_csv(self._parse_number)
            self._match_r_paren()
        return self.expression(TypeName(this=start.text.lower(), expressions=digits), start)

    def _parse_extract(self) -> exp.Anonymous:
        start = self._curr
        unit = self._parse_var(any_token=True) or self._missing()
        if not self._match(TokenType.FROM):
            self._refuse("FROM is missing here", hint="EXTRACT(hour FROM ts)")
        unknown = unknown_part(unit.name.lower())
        if unknown is not None:
            raise Text(self.sql).error(start.start, *unknown)
        return self.expression(exp.Anonymous(this=unit.name, expressions=[self._operand()]))

    def _parse_choice(self) -> exp.Expr:
        """Parse IF(condition, value, other value) as a CASE with one branch."""
        arguments = self._parse_csv(self._parse_disjunction)
        if len(arguments) != 3:
            self._refuse(
                "IF needs 3 arguments: a condition and two values",
                len(arguments),
                "`IF(x > 0, 'up', 'down')`",
            )
        condition, value, otherwise = arguments
        branch = self.expression(exp.If(this=condition, true=value))
        return self.expression(exp.Case(ifs=[branch], default=otherwise))

    def _parse_limit(self, this: exp.Expr | None = None, *_: Any, **__: Any) -> exp.Expr | None:
        # A LIMIT is never parsed, because sqlglot would parse SELECT TOP(x, 3) as the LIMIT of another dialect.
        return this

    def _parse_exponent(self) -> exp.Expr | None:
        this = self._parse_unary()
        while self._match_set(self.EXPONENT):
            this = self.expression(exp.Pow(this=this, expression=self._parse_unary()))
        return this

    def _parse_interval(self, *_: Any, **__: Any) -> exp.Interval | None:
        start = self._curr
        if start.token_type is not TokenType.INTERVAL or self._next.token_type not in INTERVAL_STARTS:
            return None  # INTERVAL is the name of a column unless a length of time follows
        self._advance()
        amount = self._parse_unary() or self._missing()
        unit = None
        named = self._curr.text.upper() in UNIT_NAMES or self._curr.token_type is TokenType.VAR
        if named and not (amount.is_string and not amount.name.strip().isdecimal()):
            self._advance()
            unit = exp.Var(this=self._prev.text.upper())
        interval = self.expression(exp.Interval(this=amount, unit=unit), start)
        interval.meta["end"] = self._prev.end
        return interval

    def _star(self, star: Token) -> exp.Star:
        if self._curr.text.upper() in ("EXCLUDE", "EXCEPT", "REPLACE") and self._next.text == "(":
            self._refuse(f"* {self._curr.text.upper()} is not supported", hint="list the columns you need")
        return self.expression(exp.Star(), star)

    def _operand(self) -> exp.Expr:
        return self._parse_bitwise() or self._missing()

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Raise a PlanningError in Weir's wording for an error message of sqlglot."""
        title, hint = own_words(message)
        self._unexpected(title, hint)

    def _missing(self) -> NoReturn:
        self._unexpected("a value or a column is missing here")

    def _unexpected(self, what: str, hint: str = "") -> NoReturn:
        """Raise an error at the current token; if the token starts a known unsupported construct, the error names that construct."""
        known = construct_at(self._tokens, self._index)
        if known is None:
            self._refuse(what, self._seen, hint)
        construct, start = known
        raise Text(self.sql).error(start.start, construct.title, start.text, construct.hint)

    def _refuse(self, what: str, value: object = None, hint: str = "") -> NoReturn:
        at = int(self._curr.start) if self._curr else int(self._prev.end) + 1
        raise Text(self.sql).error(at, what, value, hint)

    @property
    def _seen(self) -> str | None:
        """Text of the current token; None at the end of the statement."""
        return self._curr.text if self._curr else None


def own_words(message: str) -> tuple[str, str]:
    """Return title and hint of Weir's error for an error message of sqlglot."""
    if message.startswith(("Expecting )", "Expected )")):
        return "a closing parenthesis is missing", "add a closing parenthesis, a comma or an operator"
    if message.startswith("Required"):
        return "a value or a column is missing here", ""
    if "CTE" in message:
        return "SELECT is missing after WITH", "WITH x AS (SELECT …) SELECT … FROM x"
    return "this cannot be read as SQL", "SELECT … FROM stream [RANGE …] WHERE … GROUP BY …"


# Exceptions that sqlglot's code for other dialects may raise for an invalid text.
STUMBLES = (AttributeError, IndexError, KeyError, TypeError, ValueError)

Reader = TypeVar("Reader", bound=WeirParser)


class Weir(Dialect):
    """Dialect of Weir's SQL, which follows DuckDB where SQL systems differ."""

    DPIPE_IS_STRING_CONCAT = True
    NORMALIZE_NOT_NULL = True
    TYPED_DIVISION = False

    class Tokenizer(tokens.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{
                word: kind
                for word, kind in tokens.Tokenizer.KEYWORDS.items()
                if word not in ("/*+", "|>") and not word.startswith(("{", "SORT", "CLUSTER", "DISTRIBUTE"))
            },
            "//": TokenType.DIV,
            "**": TokenType.DSTAR,
            "==": TokenType.EQ,
        }

    Parser = WeirParser


DIALECT = Weir()


def tokenized(sql: str, bytes_max: int = SQL_BYTES_MAX) -> list[Token]:
    """Return the tokens of a text; raise a PlanningError if the text is longer than `bytes_max` bytes."""
    if len(sql) > bytes_max or len(sql.encode("utf-8", "surrogatepass")) > bytes_max:
        raise Text(sql).error(0, f"the text is longer than {bytes_max:,} bytes", len(sql))
    try:
        return list(DIALECT.tokenize(sql))
    except (TokenError, RecursionError) as problem:
        unfinished = re.search(r"Missing (.+) from \d+:(\d+)", str(problem.__cause__))
        if unfinished:
            where = int(unfinished[2])
            raise Text(sql).error(where, f"the closing {unfinished[1]} is missing") from None
        if sql[-1:] in ("'", '"'):
            raise Text(sql).error(len(sql) - 1, f"the closing {sql[-1]} is missing") from None
        raise Text(sql).error(0, "the text cannot be read as SQL") from None


def parsed(sql: str) -> exp.Expr:
    """Parse a query into a tree; raise a PlanningError if the tree is too large or too deep."""
    return read(sql, WeirParser, WeirParser.read_query)


def read(sql: str, kind: type[Reader], statement: Callable[[Reader], exp.Expr]) -> exp.Expr:
    """Parse one statement with a method of the parser class `kind`, and return the tree."""
    text = Text(sql)
    tokens = tokenized(sql)
    check_nesting(text, tokens)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise text.error(0, "the SQL contains no statement", hint="SELECT … FROM stream …")
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            raise text.error(token.start, "the SQL contains several statements, but only one is allowed")
    try:
        parser = kind(dialect=DIALECT)
        (tree,) = parser._parse(lambda _: statement(parser), tokens, sql)
    except RecursionError:
        raise too_deep(text, 0) from None
    except (ParseError, *STUMBLES):
        raise text.error(0, "the text cannot be read as SQL") from None
    assert tree is not None
    check_depth(text, tree)
    return tree


def check_depth(text: Text, tree: exp.Expr) -> None:
    """Raise a PlanningError for a tree deeper than DEPTH_MAX; a chain of AND, OR or UNION ALL counts as one level."""
    stack = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > DEPTH_MAX:
            raise text.error(node, "the expression is nested too deeply", hint=SPLIT_IT)
        for child in node.iter_expressions():
            flat = isinstance(child, exp.And | exp.Or | exp.Union) and type(child) is type(node)
            stack.append((child, depth if flat else depth + 1))


def check_nesting(text: Text, found: list[Token]) -> None:
    depth = 0
    for token in found:
        if token.token_type in (TokenType.L_PAREN, TokenType.CASE, TokenType.L_BRACKET):
            depth += 1
            if depth > NESTING_MAX:
                raise too_deep(text, token.start)
        elif token.token_type in (TokenType.R_PAREN, TokenType.END, TokenType.R_BRACKET):
            depth -= 1


def too_deep(text: Text, at: int) -> PlanningError:
    return text.error(at, f"the query is nested more than {NESTING_MAX} levels deep", hint=SPLIT_IT)
