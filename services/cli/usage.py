"""Conversion of mistakes on the command line into errors with hints, such as `error: --limit: must be at least 1 (got 0)`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from configs.errors import InvalidInput, UnknownName, nearest
from configs.numbers import exact

NUMBERS: Mapping[str, tuple[str, str]] = {
    "int": ("the value must be a whole number", "write digits only"),
    "float": ("the value must be a number", "write digits, as in 0.5"),
}


def missing(name: str, hint: str) -> InvalidInput:
    """Return the error for a command line without a required option or argument."""
    return InvalidInput("a required value is missing", name, hint=hint)


def excluded(
    option: str, value: object, by: str, hint: str = "leave out one of these options"
) -> InvalidInput:
    """Return the error for an option that cannot be given together with the options `by`."""
    return InvalidInput(f"this option cannot be combined with {by}", option, value, hint)


def usage_problem(problem: Any, ctx: Any, command: Any, args: Sequence[str]) -> InvalidInput:
    """Return the error for a command line that Typer refuses."""
    place = ctx.command_path
    parameter, option = getattr(problem, "param", None), getattr(problem, "option_name", "")
    if args:
        name, commands = args[0], list(command.commands)
        return UnknownName("there is no command of this name", place, name, nearest(name, commands))
    if parameter is not None:
        return parameter_problem(problem, parameter, ctx)
    if option and option not in option_names(command):
        close = list(getattr(problem, "possibilities", None) or ())
        hint = nearest(option, close) if close else f"see {place} -h"
        return InvalidInput("the command has no option of this name", place, option, hint)
    if option and "requires" in problem.message:
        return InvalidInput("the option has no value", option, hint=f"write {option} and its value")
    if option:
        return InvalidInput("the option takes no value", option, hint=f"write {option} without a value")
    _, mark, rest = problem.message.partition("unexpected extra argument(s) (")
    if mark:
        return InvalidInput("the command has too many arguments", place, rest.removesuffix(")"), written(ctx))
    return InvalidInput(lowered(problem.message), place, hint=written(ctx))


def parameter_problem(problem: Any, parameter: Any, ctx: Any) -> InvalidInput:
    """Return the error for a missing or invalid value of an option or argument."""
    name = name_of(parameter)
    cause = problem.__cause__
    if type(problem).__name__ == "MissingParameter":
        return missing(name, written(ctx))
    if not hasattr(cause, "errors"):
        return InvalidInput(lowered(problem.message), name, hint=f"see {ctx.command_path} -h")
    error = cause.errors()[0]
    value, limits = number_in(error["input"]), parameter.type_descriptor.parameter_info
    choices = parameter.type_descriptor.choices
    if choices:
        values = [str(getattr(choice, "value", choice)) for choice in choices]
        return UnknownName("the value is not one of the choices", name, value, nearest(str(value), values))
    bounds = {"greater_than_equal": ("least", limits.min), "less_than_equal": ("most", limits.max)}
    if error["type"] in bounds:
        word, limit = bounds[error["type"]]
        title = f"the value must be at {word} {exact(float(limit))}"
        return InvalidInput(title, name, value, range_of(limits))
    title, hint = NUMBERS.get(error["type"].partition("_")[0], (lowered(error["msg"]), written(ctx)))
    return InvalidInput(title, name, error["input"], hint)


def name_of(parameter: Any) -> str:
    """Return the long form of an option, or the name of an argument as the help shows it."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper())


def option_names(command: Any) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def range_of(limits: Any) -> str:
    """Return a hint with the range of numbers that an option accepts."""
    least = exact(float(limits.min))
    return (
        f"write {least} or more"
        if limits.max is None
        else f"write a number from {least} to {exact(float(limits.max))}"
    )


def number_in(value: Any) -> Any:
    """Return the number if the value is a text of a number; otherwise return the value unchanged."""
    if isinstance(value, str):
        for read in (int, float):
            with suppress(ValueError):
                return read(value)
    return value


def written(ctx: Any) -> str:
    """Return a hint with the usage line of a command, such as `weir get [OPTIONS] KIND`."""
    usage = " ".join(ctx.command.get_usage(ctx).removeprefix("Usage: ").split())
    # Typer encloses the name of a required argument in braces.
    return "write " + re.sub(r"[{]([^}]*)[}]", r"\1", usage)


def lowered(message: str) -> str:
    """Return a message of Typer as an error title: first letter in lower case, no full stop."""
    text = message.strip().removesuffix(".")
    return text[:1].lower() + text[1:]
