"""What the names of a query stand for: the columns that FROM makes visible, as expressions over a plan.

A subquery that only picks and computes columns leaves no operator of its own: its columns stand for their
expressions, which are put in wherever the outer query names them. So a query reads the same plan however it is
written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from configs.errors import nearest
from engine.data.schema import Schema, TableSchema
from engine.plan.plan import Column, EventTime, Expression, Plan, RowWindow, TimeWindow, event_times
from engine.sql.errors import Text


@dataclass(frozen=True, slots=True)
class Named:
    """A visible column: its name, and what it is in terms of the plan's columns."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Relation:
    """An item of FROM, or a whole query."""

    source: Plan | TableSchema
    columns: tuple[Named, ...]
    alias: str = ""
    window: TimeWindow | RowWindow | None = None
    time: EventTime | None = None  # in terms of the plan's columns
    last: tuple[int, ...] = ()
    """Of [LAST BY …]: the key's columns, in terms of the plan's."""
    node: exp.Expr = field(default_factory=exp.Null, compare=False)  # for the place of errors

    @property
    def plan(self) -> Plan:
        assert not isinstance(self.source, TableSchema)
        return self.source

    @property
    def schema(self) -> Schema:
        return self.source.schema


def columns_of(schema: Schema) -> tuple[Named, ...]:
    return tuple(Named(field.name, Column(place, field.type)) for place, field in enumerate(schema.fields))


def time_among(plan: Plan, columns: Sequence[Named]) -> EventTime | None:
    """The event time of a query's output: the first of its columns that is one of the plan's."""
    times = {time.place: time for time in event_times(plan)}
    for column in columns:
        if isinstance(column.expression, Column) and column.expression.place in times:
            return times[column.expression.place]
    return None


@dataclass(frozen=True, slots=True)
class Visible:
    """A column of the relation number `owner` in FROM."""

    owner: int
    column: Named


class Scope:
    """The columns that a query may name."""

    def __init__(self, text: Text, relations: Sequence[Relation]) -> None:
        self.text, self.relations = text, relations
        self.hidden: set[tuple[int, str]] = set()  # the second of a USING pair
        self._found: dict[str, list[Visible]] = {}
        for owner, relation in enumerate(relations):
            for column in relation.columns:
                self._found.setdefault(column.name.lower(), []).append(Visible(owner, column))

    def find(self, node: exp.Column) -> Visible | None:
        """What a name stands for; None if nothing has it; an error if it is in doubt."""
        found: Iterable[Visible] = self._found.get(node.name.lower(), ())
        if node.table:
            owner = self.owner(node)
            return next((one for one in found if one.owner == owner), None)
        seen = [one for one in found if (one.owner, node.name.lower()) not in self.hidden]
        if len(seen) > 1:
            names = [f"{self.relations[one.owner].alias}.{one.column.name}" for one in seen]
            raise self.text.error(node, "more than one column has this name", node.name, " or ".join(names))
        return seen[0] if seen else None

    def owner(self, node: exp.Column) -> int:
        """The relation that a qualified name names."""
        if node.args.get("db"):
            raise self.text.error(node, "a column is named column or stream.column", hint=node.name)
        aliases = [relation.alias for relation in self.relations]
        for owner, alias in enumerate(aliases):
            if alias.lower() == node.table.lower():
                return owner
        raise self.text.error(
            node, "nothing in FROM has this name", node.table, nearest(node.table, filter(None, aliases))
        )

    def unknown(self, node: exp.Column, more: Iterable[str] = ()) -> Exception:
        """The error for a name that nothing has."""
        names = [
            column.name
            for owner, relation in enumerate(self.relations)
            if not node.table or owner == self.owner(node)
            for column in relation.columns
        ]
        return self.text.error(
            node, "there is no such column", node.name, nearest(node.name, {*names, *more})
        )

    def all(self, of: int | None = None) -> list[Visible]:
        """What * stands for."""
        return [
            Visible(owner, column)
            for owner, relation in enumerate(self.relations)
            if of is None or owner == of
            for column in relation.columns
            if of is not None or (owner, column.name.lower()) not in self.hidden
        ]
