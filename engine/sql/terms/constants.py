"""Computes constant expressions while planning, with the engine's own functions, so that planner and engine get equal values."""

from __future__ import annotations

from engine.data.schema import TypeKind
from engine.expressions.compiler import RowFailures, compile_projection
from engine.expressions.frames import ONE_ROW
from engine.expressions.kernels.comparison import MIRRORED
from engine.plan.plan import Call, Cast, Literal

# Functions that the planner computes. Text functions are not among them, because REPLACE of long constants can grow huge.
COMPUTED = {
    *("add", "subtract", "multiply", "divide", "integer_divide", "modulo", "power", "negate", "abs"),
    *MIRRORED,
}


def computed(call: Call) -> Literal | None:
    """Return the value of a call with constant arguments; None if the call would fail, because only the engine counts failures."""
    values = [argument.value for argument in call.arguments if isinstance(argument, Literal)]
    if call.function not in COMPUTED:
        return None
    if None in values:
        return Literal(None, call.type)
    return value_of(call) if len(values) == len(call.arguments) else None


def value_of(expression: Call | Cast) -> Literal | None:
    """Return the value of a call or a cast of constants; None if the value cannot be computed."""
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
