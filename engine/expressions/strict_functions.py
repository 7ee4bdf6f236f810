"""Strict functions, which are NULL where any argument is NULL: each gathers the values of its arguments and calls a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.data.train import Mask
from engine.expressions.frames import CompiledTerm, Computed, Frame, Run
from engine.expressions.kernels.kernel import Argument, Kernel

Gather = Callable[[Frame], tuple[list[Any], Mask | None]]


def gathering(nodes: Sequence[CompiledTerm], arguments: Sequence[Argument]) -> Gather:
    """Return a function that gathers a kernel's arguments, and the mask of the rows where all of them are valid."""
    if len(nodes) == 1:
        run = nodes[0].run

        def gather_one(frame: Frame) -> tuple[list[Any], Mask | None]:
            data, valid = run(frame)
            return [data], valid

        return gather_one
    columns = [(place, node.run) for place, node in enumerate(nodes) if not arguments[place].constant]
    values = [argument.value for argument in arguments]

    def gather(frame: Frame) -> tuple[list[Any], Mask | None]:
        gathered, valid = values.copy(), None
        for place, run in columns:
            gathered[place], other = run(frame)
            if other is not None:
                valid = other if valid is None else valid & other
        return gathered, valid

    return gather


def plain(gather: Gather, kernel: Kernel) -> Run:
    apply = kernel.apply

    def run(frame: Frame) -> Computed:
        arguments, valid = gather(frame)
        return apply(*arguments), valid

    return run


def binary(nodes: Sequence[CompiledTerm], kernel: Kernel) -> Run:
    """Return a function that calls a kernel of two arguments, the most frequent kind, without a loop over arguments."""
    apply = kernel.apply
    left, right = nodes
    left_run, right_run, left_value, right_value = left.run, right.run, left.value, right.value

    def with_constant(frame: Frame) -> Computed:
        data, valid = left_run(frame)
        return apply(data, right_value), valid

    def of_constant(frame: Frame) -> Computed:
        data, valid = right_run(frame)
        return apply(left_value, data), valid

    def of_columns(frame: Frame) -> Computed:
        data, valid = left_run(frame)
        other, other_valid = right_run(frame)
        if other_valid is not None:
            valid = other_valid if valid is None else valid & other_valid
        return apply(data, other), valid

    return with_constant if right.constant else of_constant if left.constant else of_columns


def checked(gather: Gather, kernel: Kernel, try_: bool) -> Run:
    apply, reason = kernel.apply, kernel.reason

    def run(frame: Frame) -> Computed:
        arguments, valid = gather(frame)
        data, nulls, bad = apply(*arguments)
        if bad is not None:
            if not try_:
                frame.fail(bad if valid is None else bad & valid, reason)
            nulls = bad if nulls is None else nulls | bad
        if nulls is not None:
            valid = ~nulls if valid is None else valid & ~nulls
        return data, valid

    return run
