"""Errors in SQL texts, with the line and column of the user's text; lines and columns are counted from 1."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, fields, replace

from sqlglot import exp

from configs.errors import InvalidInput

EXCERPT_CHARACTERS = 100
SPLIT_IT = "split it into several queries, each of which reads the output of the previous query"


@dataclass(eq=False)
class PlanningError(InvalidInput):
    """Error for a statement that cannot be planned; nothing was run."""

    line: int = 1
    column: int = 1
    excerpt: str = ""
    """Line of the text with the mistake, and below it a caret that marks the column."""

    def __post_init__(self) -> None:
        # The base class Exception receives all fields, so that the error survives pickling.
        Exception.__init__(self, *(getattr(self, field.name) for field in fields(self)))

    def __str__(self) -> str:
        where = f"line {self.line}, column {self.column}"
        placed = replace(self, field=f"{where}: {self.field}" if self.field else where)
        if not self.excerpt:
            return InvalidInput.__str__(placed)
        # The hint comes last, so that the excerpt with the caret stands next to the message.
        lines = [InvalidInput.__str__(replace(placed, hint="")), self.excerpt]
        return "\n".join([*lines, f"  hint: {self.hint}"] if self.hint else lines)

    def shown_in(self, text: str) -> PlanningError:
        """Return this error with an excerpt: the line of the text that contains the mistake."""
        return replace(self, excerpt=excerpt(text, self.line, self.column))

    def moved(self, lines: int, columns: int) -> PlanningError:
        """Return this error with its place in a larger text, in which this number of lines and columns precede the statement."""
        return replace(self, line=self.line + lines, column=self.column + (columns if self.line == 1 else 0))


def excerpt(text: str, line: int, column: int) -> str:
    """Return at most EXCERPT_CHARACTERS of a line around the column, and below it a caret that points at the column."""
    lines = text.split("\n")
    if not 1 <= line <= len(lines):
        return ""
    written = "".join(one if one.isprintable() else " " for one in lines[line - 1].rstrip("\r"))
    first = max(0, column - 1 - EXCERPT_CHARACTERS // 2)
    shown = written[first : first + EXCERPT_CHARACTERS]
    before, after = "…" if first else "", "…" if first + EXCERPT_CHARACTERS < len(written) else ""
    margin = f"  {line} | "
    width = sum(columns_of(one) for one in before + shown[: column - 1 - first])
    return f"{margin}{before}{shown}{after}\n{' ' * (len(margin) - 2)}| {' ' * width}^"


def columns_of(letter: str) -> int:
    """Return the number of terminal columns that a letter occupies."""
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


@dataclass(frozen=True, slots=True)
class Text:
    """Text of one statement, which creates errors with the line and column of a part of the text."""

    sql: str

    def error(self, at: exp.Expr | int, title: str, value: object = None, hint: str = "") -> PlanningError:
        offset = min(at if isinstance(at, int) else offset_of(at), len(self.sql))
        before = self.sql[:offset]
        line = before.count("\n") + 1
        column = offset - (before.rfind("\n") + 1) + 1
        return PlanningError(title, value=value, hint=hint, line=line, column=column)

    def of(self, node: exp.Expr) -> str:
        """Return the text of a node of the tree as the user wrote it, with each run of blanks shortened to one."""
        starts_and_ends = [(one.meta["start"], one.meta["end"]) for one in node.walk() if "start" in one.meta]
        if not starts_and_ends:
            return ""
        start, end = min(start for start, _ in starts_and_ends), max(end for _, end in starts_and_ends)
        # Closing parentheses belong to no node of the tree, so the missing closing parentheses are added.
        while end >= 0 and self.sql.count("(", start, end + 1) > self.sql.count(")", start, end + 1):
            closing = self.sql.find(")", end + 1)
            end = closing if closing >= 0 else len(self.sql)
            if closing < 0:
                break
        return " ".join(self.sql[start : end + 1].split())


def offset_of(node: exp.Expr) -> int:
    """Return the offset at which a node of the tree starts in the text; a node without text starts where its parent node starts."""
    while True:
        starts = [one.meta["start"] for one in node.walk() if "start" in one.meta]
        if starts or node.parent is None:
            return min(starts, default=0)
        node = node.parent
