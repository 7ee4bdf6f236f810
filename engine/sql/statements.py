"""Splits a file into statements: CREATE STREAM, CREATE MIRROR, CREATE QUERY name AS SELECT …, EXPLAIN and plain queries."""

from __future__ import annotations

from typing import Literal, NamedTuple

from sqlglot.tokenizer_core import Token, TokenType

from configs.errors import nearest
from engine.sql.dialect import SQL_BYTES_MAX, tokenized
from engine.sql.errors import Text
from engine.sql.terms.foreign_constructs import statement_refused

StatementKind = Literal["stream", "mirror", "query", "explain"]
QUERY_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.FROM)
FILE_BYTES_MAX = 100 * SQL_BYTES_MAX


class Statement(NamedTuple):
    """Statement of a file, with the numbers of lines and columns before it, so that errors name the line and column in the file."""

    kind: StatementKind
    text: str
    line_offset: int
    column_offset: int = 0
    name: str = ""


def split_statements(sql: str) -> list[Statement]:
    """Return the statements between semicolons; queries without a name get the names q1, q2, …"""
    statements: list[Statement] = []
    current: list[Token] = []
    for token in [*tokenized(sql, FILE_BYTES_MAX), None]:
        if token is None or token.token_type is TokenType.SEMICOLON:
            if current:
                statements.append(_statement(sql, current, statements))
            current = []
        else:
            current.append(token)
    return statements


def _statement(sql: str, tokens: list[Token], earlier: list[Statement]) -> Statement:
    words = [token.text.upper() for token in tokens[:2]]
    kind: StatementKind = "query"
    name, first = "", 0
    if words in (["CREATE", "STREAM"], ["CREATE", "MIRROR"]):
        kind = "stream" if words[1] == "STREAM" else "mirror"
        name = tokens[2].text if len(tokens) > 2 else ""
    elif words == ["CREATE", "QUERY"]:
        first = 4
        if len(tokens) < 5 or tokens[3].text.upper() != "AS":
            raise Text(sql).error(
                tokens[0].start,
                "CREATE QUERY must be followed by a name and AS",
                hint="CREATE QUERY name AS SELECT …",
            )
        name = tokens[2].text
    elif words[0] == "EXPLAIN":
        kind, first = "explain", 1
    taken = {one.name.lower() for one in earlier}
    if kind not in ("stream", "mirror"):
        _check_is_query(sql, tokens, first)
        name = name or next(one for one in map("q{}".format, range(1, len(taken) + 2)) if one not in taken)
    if name.lower() in taken:
        raise Text(sql).error(tokens[2].start, "an earlier statement already has this name", name)
    start, end = tokens[first].start, tokens[-1].end + 1
    before = sql[:start]
    column = start - (before.rfind("\n") + 1)
    return Statement(kind, sql[start:end], before.count("\n"), column, name)


def _check_is_query(sql: str, tokens: list[Token], first: int) -> None:
    if first >= len(tokens):
        raise Text(sql).error(
            tokens[-1].end + 1, "EXPLAIN must be followed by a query", hint="EXPLAIN SELECT …"
        )
    token = tokens[first]
    if token.token_type in QUERY_STARTS:
        return
    refused = statement_refused([token.text.upper() for token in tokens[first : first + 4]])
    if refused is not None:
        raise Text(sql).error(token.start, refused[0], hint=refused[1])
    words = ["SELECT", "WITH", "CREATE STREAM", "CREATE MIRROR", "CREATE QUERY", "EXPLAIN"]
    raise Text(sql).error(
        token.start,
        "a statement must be CREATE STREAM, CREATE MIRROR, CREATE QUERY, EXPLAIN or a query",
        token.text,
        nearest(token.text, words),
    )
