"""Computes constant expressions with the engine's own functions, so that planner and engine have the same arithmetic."""

from __future__ import annotations

import numpy as np

from engine.data.schema import TypeKind
from engine.data.train import Train
from engine.expressions.compiler import RowFailures, compile_projection
from engine.plan.plan import Call, Cast, Literal

ONE_ROW = Train((), np.zeros(1))

# Functions computed while planning. Text functions are not among them, since REPLACE of long constants can grow huge.
COMPUTED = {
    *("add", "subtract", "multiply", "divide", "integer_divide", "modulo", "power", "negate", "abs"),
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
}


def computed(call: Call) -> Literal | None:
    """Return the value of a function of constants; None if the engine must compute it, which also counts failures."""
    values = [argument.value for argument in call.arguments if isinstance(argument, Literal)]
    if call.function not in COMPUTED:
        return None
    if None in values:
        return Literal(None, call.type)
    return _value(call) if len(values) == len(call.arguments) else None


def converted(cast: Cast) -> Literal | None:
    """Return the constant in another type; None if it does not fit."""
    return _value(cast)


def _value(expression: Call | Cast) -> Literal | None:
    failures = RowFailures()
    (values,) = compile_projection([expression])(ONE_ROW, failures)
    if failures.rows is not None:
        return None
    if values.valid is not None and not values.valid[0]:
        return Literal(None, expression.type)
    value = values.data[0]
    if expression.type.kind is TypeKind.STRING:
        return Literal(str(value.as_py()), expression.type)
    return Literal(value.item(), expression.type)
