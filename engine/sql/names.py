"""Name lookup in a query: the columns that FROM makes visible, as expressions over a plan.

A subquery that only selects and computes columns makes no operator. Instead, its expressions replace the columns
wherever the outer query names these columns. So queries that differ only in their subqueries have equal plans.
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
    """Visible column: its name, and its expression over the columns of the plan."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Relation:
    """Relation that an item of FROM or a whole query stands for: a plan or table, with named columns."""

    source: Plan | TableSchema
    columns: tuple[Named, ...]
    alias: str = ""
    window: TimeWindow | RowWindow | None = None
    time: EventTime | None = None
    """Event time; its `place` is a position among the columns of the plan, not among `columns`."""
    last: tuple[int, ...] = ()
    """Positions in the plan of the key columns of [LAST BY …]; empty without that clause."""
    # Part of the parsed text to which an error about this relation points.
    node: exp.Expr = field(default_factory=exp.Null, compare=False)

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
    """Return the event time of a query's output: the first column that is an event time of the plan, or None."""
    times = {time.place: time for time in event_times(plan)}
    for column in columns:
        if isinstance(column.expression, Column) and column.expression.place in times:
            return times[column.expression.place]
    return None


@dataclass(frozen=True, slots=True)
class Visible:
    """Column of a relation that a query can name; `owner` is the position of the relation in FROM."""

    owner: int
    column: Named


class Scope:
    """Columns that a query can refer to by name."""

    def __init__(self, text: Text, relations: Sequence[Relation]) -> None:
        self.text, self.relations = text, relations
        self.hidden: set[tuple[int, str]] = (
            set()
        )  # Columns that USING hides: of two equal columns, only the first is visible
        self._found: dict[str, list[Visible]] = {}
        for owner, relation in enumerate(relations):
            for column in relation.columns:
                self._found.setdefault(column.name.lower(), []).append(Visible(owner, column))

    def find(self, node: exp.Column) -> Visible | None:
        """Return the column that a name stands for, or None; raise an error if the name is ambiguous."""
        found: Iterable[Visible] = self._found.get(node.name.lower(), ())
        if node.table:
            owner = self.owner(node)
            return next((one for one in found if one.owner == owner), None)
        seen = [one for one in found if (one.owner, node.name.lower()) not in self.hidden]
        if len(seen) > 1:
            names = [f"{self.relations[one.owner].alias}.{one.column.name}" for one in seen]
            raise self.text.error(node, "the name of this column is ambiguous", node.name, " or ".join(names))
        return seen[0] if seen else None

    def owner(self, node: exp.Column) -> int:
        """Return the position in FROM of the relation that the name `relation.column` refers to."""
        if node.args.get("db"):
            raise self.text.error(
                node,
                "the name of a column can have at most two parts: column or stream.column",
                hint=node.name,
            )
        aliases = [relation.alias for relation in self.relations]
        for owner, alias in enumerate(aliases):
            if alias.lower() == node.table.lower():
                return owner
        raise self.text.error(
            node,
            "FROM has no stream or table with this name",
            node.table,
            nearest(node.table, filter(None, aliases)),
        )

    def unknown(self, node: exp.Column, more: Iterable[str] = ()) -> Exception:
        """Return the error for the name of a column that does not exist."""
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
        """Return the columns that * stands for; `of` is the position of the only relation to list, or None for all relations."""
        return [
            Visible(owner, column)
            for owner, relation in enumerate(self.relations)
            if of is None or owner == of
            for column in relation.columns
            if of is not None or (owner, column.name.lower()) not in self.hidden
        ]
