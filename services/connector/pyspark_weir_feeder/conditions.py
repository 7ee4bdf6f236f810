"""Conditions that split a replay into streams, as in `hot: temp > 30 and room <> 'a'; rest: true`.

A row of the replay goes to the stream of the first condition that the row meets. This is the grammar of the option `split`:

    split      branch {; branch}              branch    name : or
    or         and {OR and}                   and       not {AND not}
    not        NOT not | test                 test      ( or ) | operand [rest]
    rest       = <> < <= > >= operand | IS [NOT] NULL | [NOT] IN ( literal {, literal} )
    operand    a column (in backquotes if it is not a plain word) | literal
    literal    [-]number | 'text' | TRUE | FALSE

NULL is treated as in SQL: a comparison with NULL is NULL, and a row meets a condition only if the condition is TRUE. A text literal
is converted to the type of the column with which it is compared, so that times can be written as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_weir_feeder.problems import InvalidOption, nearest

STREAM_COLUMN = "_stream"

Operand = Callable[[pa.Table], Any]
"""Compiled operand: a function that computes the value of the operand for a table, as a column or a scalar."""

TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)|(?P<text>'(?:[^']|'')*')"
    r"|`(?P<quoted>[^`]+)`|(?P<word>[^\W\d]\w*)|(?P<sign><=|>=|<>|!=|==|[<>=(),;:-]))"
)
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "==": pc.equal,
    "<>": pc.not_equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
KEYWORDS = {"and", "or", "not", "is", "null", "in", "true", "false"}


@dataclass(frozen=True)
class Branch:
    name: str
    condition: Operand
    columns: frozenset[str]


def parse_split(text: str) -> tuple[Branch, ...]:
    return Parser(text).split()


def with_stream(table: pa.Table, branches: tuple[Branch, ...]) -> pa.Table:
    """Return the rows that meet a condition of the split. The additional column `_stream` names the first condition that a row meets."""
    holds = [verdicts(branch, table) for branch in branches]
    conditions = pa.StructArray.from_arrays(holds, names=[str(place) for place in range(len(holds))])
    names = [pa.scalar(branch.name, pa.string()) for branch in branches]
    streams = pc.case_when(conditions, *names)
    return table.append_column(STREAM_COLUMN, streams).filter(pc.is_valid(streams))


def verdicts(branch: Branch, table: pa.Table) -> pa.Array:
    """Return an array that is true for the rows that meet the condition, and false for all other rows."""
    try:
        verdict = branch.condition(table)
    except pa.ArrowException as problem:
        raise InvalidOption("split", f"condition {branch.name} cannot be evaluated: {problem}") from problem
    if not pa.types.is_boolean(verdict.type):
        raise InvalidOption(
            "split", f"condition {branch.name} must be true or false, but its type is {verdict.type}"
        )
    if isinstance(verdict, pa.Scalar):
        return pa.repeat(pa.scalar(verdict.as_py() is True), table.num_rows)
    if isinstance(verdict, pa.ChunkedArray):
        verdict = verdict.combine_chunks()
    return pc.fill_null(verdict, False)


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name not in table.column_names:
        raise InvalidOption("split", f"there is no column {name}; {nearest(name, table.column_names)}")
    return table[name]


def in_type_of(value: Any, other: Any) -> Any:
    """Return a text literal converted to the type of the other operand, and any other value unchanged."""
    if isinstance(value, pa.Scalar) and pa.types.is_string(value.type) and not pa.types.is_null(other.type):
        return value.cast(other.type)
    return value


class Parser:
    """Recursive-descent parser of the option split, with one method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._tokenized(text))
        self._place = 0
        self._columns: set[str] = set()

    def split(self) -> tuple[Branch, ...]:
        branches: dict[str, Branch] = {}
        while self._peek()[0] != "end":
            branch = self._branch()
            if branch.name in branches:
                raise InvalidOption("split", "two conditions have the same name", branch.name)
            branches[branch.name] = branch
            if self._peek()[0] != "end":
                self._expect(";")
        if not branches:
            raise InvalidOption(
                "split", "the option must contain a condition, as in `hot: temp > 30`", self._text
            )
        return tuple(branches.values())

    def _branch(self) -> Branch:
        kind, name = self._next()
        if kind not in ("word", "quoted"):
            raise self._unexpected(name, "the name of a condition")
        self._expect(":")
        self._columns = set()
        condition = self._or()
        return Branch(name, condition, frozenset(self._columns))

    def _or(self) -> Operand:
        return self._joined("or", self._and, pc.or_kleene)

    def _and(self) -> Operand:
        return self._joined("and", self._not, pc.and_kleene)

    def _joined(self, word: str, part: Callable[[], Operand], joined: Callable[[Any, Any], Any]) -> Operand:
        condition = part()
        while self._accept(word):
            condition = applied(joined, condition, part())
        return condition

    def _not(self) -> Operand:
        if self._accept("not"):
            return applied(pc.invert, self._not())
        return self._test()

    def _test(self) -> Operand:
        if self._accept("("):
            condition = self._or()
            self._expect(")")
            return condition
        operand = self._operand()
        kind, token = self._peek()
        if kind == "sign" and token in COMPARISONS:
            self._next()
            return compared(COMPARISONS[token], operand, self._operand())
        if self._accept("is"):
            negated = self._accept("not")
            self._expect("null")
            return applied(pc.is_valid if negated else pc.is_null, operand)
        if self._accept("not"):
            self._expect("in")
            return applied(pc.invert, self._among(operand))
        return self._among(operand) if self._accept("in") else operand

    def _among(self, operand: Operand) -> Operand:
        self._expect("(")
        condition = compared(pc.equal, operand, self._literal())
        while self._accept(","):
            condition = applied(pc.or_kleene, condition, compared(pc.equal, operand, self._literal()))
        self._expect(")")
        return condition

    def _operand(self) -> Operand:
        kind, token = self._peek()
        if kind == "quoted" or (kind == "word" and token.lower() not in KEYWORDS):
            self._next()
            self._columns.add(token)
            return lambda table: column_of(table, token)
        return self._literal()

    def _literal(self) -> Operand:
        negative = self._accept("-")
        kind, token = self._next()
        value: float | str
        if kind == "number":
            number = float(token) if re.search(r"[.eE]", token) else int(token)
            value = -number if negative else number
        elif kind == "text" and not negative:
            value = token[1:-1].replace("''", "'")
        elif kind == "word" and token.lower() in ("true", "false") and not negative:
            value = token.lower() == "true"
        else:
            raise self._unexpected(token, "a number" if negative else "a column or a literal")
        scalar = pa.scalar(value)
        return lambda _: scalar

    def _tokenized(self, text: str) -> list[tuple[str, str]]:
        tokens, place = [], 0
        while text[place:].strip():
            match = TOKEN.match(text, place)
            if match is None:
                raise InvalidOption(
                    "split", f"the text cannot be parsed from {text[place:].strip()[:40]!r} on", text
                )
            kind = str(match.lastgroup)
            tokens.append((kind, match[kind]))
            place = match.end()
        return [*tokens, ("end", "the end")]

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._place]

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._place = min(self._place + 1, len(self._tokens) - 1)
        return token

    def _accept(self, token: str) -> bool:
        kind, token_here = self._peek()
        accepted = kind in ("word", "sign") and token_here.lower() == token
        if accepted:
            self._next()
        return accepted

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise self._unexpected(self._peek()[1], repr(token))

    def _unexpected(self, token: str, wanted: str) -> InvalidOption:
        return InvalidOption("split", f"a condition has {token} where {wanted} is needed", self._text)


def applied(function: Callable[..., Any], *operands: Operand) -> Operand:
    return lambda table: function(*(operand(table) for operand in operands))


def compared(comparison: Callable[[Any, Any], Any], left: Operand, right: Operand) -> Operand:
    def evaluate(table: pa.Table) -> Any:
        operand, other = left(table), right(table)
        return comparison(in_type_of(operand, other), in_type_of(other, operand))

    return evaluate
