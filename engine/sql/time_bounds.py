"""Reads conditions that limit the time between tuples of two streams, in every way in which users can write them.

    b.ts BETWEEN a.ts - INTERVAL '1 second' AND a.ts + INTERVAL '1 second'
    ABS(a.ts - b.ts) <= INTERVAL '1 second'        b.ts >= a.ts AND b.ts < a.ts + INTERVAL '1 second'

Each condition is linear in the two times: it limits d = time(right) − time(left) by a constant, from above or below.
A plain number has the unit of an int64 time column; with timestamps, only intervals are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from engine.plan.plan import Column
from engine.sql.errors import Text
from engine.sql.names import Scope
from engine.sql.terms.literals import INTERVAL_MAX_US, interval_us

MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}


@dataclass(frozen=True, slots=True)
class Bound:
    """Lowest and highest allowed distance time(right) − time(left), in microseconds; None means no limit."""

    low_us: int | None = None
    high_us: int | None = None

    def and_(self, other: Bound) -> Bound:
        lows = [one for one in (self.low_us, other.low_us) if one is not None]
        highs = [one for one in (self.high_us, other.high_us) if one is not None]
        return Bound(max(lows, default=None), min(highs, default=None))

    def mirrored(self) -> Bound:
        """Return these limits as limits of time(left) − time(right)."""
        low, high = self.low_us, self.high_us
        return Bound(None if high is None else -high, None if low is None else -low)


@dataclass(frozen=True, slots=True)
class Linear:
    """Linear expression of two event times: left · time(left) + right · time(right) + constant_us."""

    left: int = 0
    right: int = 0
    constant_us: int = 0

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        return Linear(
            self.left + sign * other.left,
            self.right + sign * other.right,
            self.constant_us + sign * other.constant_us,
        )


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """Reader of conditions that compare the event times of two items of FROM."""

    text: Text
    scope: Scope
    left: int
    right: int

    def of(self, node: exp.Expr) -> Bound | None:
        """Return the limits that a condition sets for the distance of the two times; None if the condition does not compare them."""
        if isinstance(node, exp.Between):
            low = self._compared(exp.GTE, node.this, node.args["low"])
            high = self._compared(exp.LTE, node.this, node.args["high"])
            return low.and_(high) if low and high else None
        if type(node) in MIRRORED and isinstance(node, exp.Binary):
            return self._compared(type(node), node.left, node.right)
        return None

    def _compared(self, kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> Bound | None:
        for one, other, order in ((left, right, kind), (right, left, MIRRORED[kind])):
            distance = self._distance(one)
            if distance is not None:
                limit = self._linear(other)
                if limit is None:
                    self._check_unit(distance, other)
                if limit is None or limit.left or limit.right or order not in (exp.LT, exp.LTE):
                    return None
                return self._at_most(order, distance, limit).and_(
                    self._at_most(order, Linear().plus(distance, -1), limit)
                )
        first, second = self._linear(left), self._linear(right)
        if first is None or second is None:
            self._check_unit(first, right)
            self._check_unit(second, left)
            return None
        if kind is exp.EQ:
            low = self._at_most(exp.LTE, first, second)
            return low.and_(self._at_most(exp.LTE, second, first)) if low != Bound() else None
        if kind in (exp.GT, exp.GTE):
            first, second, kind = second, first, MIRRORED[kind]
        found = self._at_most(kind, first, second)
        return None if found == Bound() else found

    def _at_most(self, kind: type[exp.Expr], first: Linear, second: Linear) -> Bound:
        """Return the limits of the time distance that follow from `first` ≤ `second`; if `kind` is exp.LT, from `first` < `second`."""
        difference = first.plus(second, -1)
        limit, unit = -difference.constant_us, self._unit_us()
        if kind is exp.LT:
            limit -= 1
        # Times are whole units, so a limit that lies between two whole units is rounded to the stricter of the two.
        if (difference.left, difference.right) == (-1, 1):
            return Bound(high_us=limit // unit * unit)
        if (difference.left, difference.right) == (1, -1):
            return Bound(low_us=-(limit // unit * unit))
        return Bound()

    def _distance(self, node: exp.Expr) -> Linear | None:
        """Return the difference inside ABS(a.ts - b.ts) as a linear expression; None for an expression that is not such an ABS."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Anonymous) and node.name.lower() == "abs" and len(node.expressions) == 1:
            inside = self._linear(node.expressions[0])
            if inside and (inside.left, inside.right) in ((1, -1), (-1, 1)):
                return inside
        return None

    def _linear(self, node: exp.Expr) -> Linear | None:
        length = interval_us(self.text, node) if not isinstance(node, exp.Paren | exp.Neg) else None
        if length is not None:
            return Linear(constant_us=length)
        match node:
            case exp.Paren():
                return self._linear(node.this)
            case exp.Neg():
                inner = self._linear(node.this)
                return None if inner is None else Linear().plus(inner, -1)
            case exp.Add() | exp.Sub():
                first, second = self._linear(node.left), self._linear(node.right)
                if first is None or second is None:
                    return None
                return first.plus(second, 1 if isinstance(node, exp.Add) else -1)
            case exp.Literal():
                return self._number(node)
            case exp.Column():
                return self._time(node)
        return None

    def _number(self, node: exp.Literal) -> Linear | None:
        unit = self._unit_us()
        if node.is_string or unit == 1 or not node.name.isdecimal():
            return None
        if len(node.name) > 18 or int(node.name) * unit > INTERVAL_MAX_US:
            raise self.text.error(node, "this interval is too long", node.name)
        return Linear(constant_us=int(node.name) * unit)

    def _check_unit(self, times: Linear | None, number: exp.Expr) -> None:
        """Raise an error if a plain number, instead of an interval, is the distance between two timestamps."""
        if times and (times.left or times.right) and isinstance(number, exp.Literal) and not number.is_string:
            hint = "INTERVAL '1 second'"
            raise self.text.error(
                number, "a distance in time must be an interval, not a number", number.name, hint
            )

    def _time(self, node: exp.Column) -> Linear | None:
        seen = self.scope.find(node)
        if seen is None or not isinstance(seen.column.expression, Column):
            return None
        time = self.scope.relations[seen.owner].time
        if time is None or seen.column.expression.place != time.place:
            return None
        return Linear(left=int(seen.owner == self.left), right=int(seen.owner == self.right))

    def _unit_us(self) -> int:
        """Return the unit of both times in microseconds; 1 if the units differ, because the planner refuses such a join anyway."""
        times = [self.scope.relations[owner].time for owner in (self.left, self.right)]
        units = [time.unit_us for time in times if time]
        return units[0] if len(set(units)) == 1 else 1
