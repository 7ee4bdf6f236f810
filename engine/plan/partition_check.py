"""Checks that a query has the same answers when its class is split into shards by the values of a column.

Each shard receives all tuples of its keys and no other tuples. So tuples that are combined (grouped or joined) must have
equal keys. The check follows the key column from the streams upwards: every GROUP BY and every join must include it.

Properties (`tests/property/test_partition.py`): the answers of all shards of an accepted query, put together, are the
answers of the query over the whole input.
"""

from __future__ import annotations

from collections.abc import Mapping

from configs.errors import InvalidInput
from engine.plan.plan import (
    Apart,
    Column,
    Filter,
    IntervalJoin,
    LastJoin,
    Numbered,
    Plan,
    Project,
    Query,
    QueryOutput,
    Scan,
    TableJoin,
    TimeWindow,
    Union,
    WindowAggregate,
    WindowJoin,
)

# Positions of the columns of a plan's output that hold the key.
Places = frozenset[int]
# Number of columns before the keys in the result of a window of time: window_start and window_end.
BOUNDS = 2


def key_places(query: Query, key: str, outputs: Mapping[str, Places]) -> Places:
    """Return the positions of the output columns that hold the key; raise InvalidInput if the query combines tuples of several keys.

    `outputs` has the key columns in the outputs of the class's other queries, by name in lower case.
    """
    return KeyTrace(query.name, key, outputs).places(query.plan)


class KeyTrace:
    """Finds the columns that hold the key, in each part of one query's plan."""

    def __init__(self, query: str, key: str, outputs: Mapping[str, Places]) -> None:
        self._query, self._key, self._outputs = query, key, outputs

    def places(self, plan: Plan) -> Places:
        match plan:
            case Scan(stream):
                place = stream.schema.index(self._key)
                return frozenset() if place is None else frozenset((place,))
            case QueryOutput(query):
                return self._outputs[query.lower()]
            case Apart(below) | Filter(below) | TableJoin(input=below):
                return self.places(below)
            case Project(below, expressions):
                held = self.places(below)
                return frozenset(
                    place
                    for place, one in enumerate(expressions)
                    if isinstance(one, Column) and one.place in held
                )
            case Numbered():
                raise self._refused(
                    "counts the rows of all keys in one window", "use a window with RANGE instead of ROWS"
                )
            case WindowAggregate():
                return self._grouped(plan)
            case IntervalJoin() | WindowJoin() | LastJoin():
                return self._joined(plan)
            case Union(inputs):
                return frozenset.intersection(*map(self.places, inputs))

    def _grouped(self, plan: WindowAggregate) -> Places:
        held = self.places(plan.input)
        before = BOUNDS if isinstance(plan.window, TimeWindow) else 0
        found = frozenset(before + place for place, key in enumerate(plan.keys) if key in held)
        if not found:
            raise self._refused("groups tuples of different shards together", f"add {self._key} to GROUP BY")
        return found

    def _joined(self, plan: IntervalJoin | WindowJoin | LastJoin) -> Places:
        left, right = self.places(plan.left), self.places(plan.right)
        pairs = zip(plan.left_keys, plan.right_keys, strict=True)
        if not any(one in left and other in right for one, other in pairs):
            hint = f"add left.{self._key} = right.{self._key} to the join's condition"
            raise self._refused("joins tuples of different shards", hint)
        if isinstance(plan, LastJoin) and plan.outer:
            return left  # An outer join may emit NULL as the key of the right side
        return left | frozenset(place + len(plan.left.schema) for place in right)

    def _refused(self, what: str, remedy: str) -> InvalidInput:
        return InvalidInput(
            f"a class that is split into shards by {self._key} cannot have a query that {what}",
            f"queries.{self._query}",
            hint=f"{remedy}, or set shards to 1",
        )
