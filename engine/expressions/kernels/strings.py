"""Text functions over Arrow arrays; positions and lengths count code points.

Arrow's own functions are used if the patterns are constant. For other patterns, Python computes the result row by row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.data.schema import DataType, TypeKind
from engine.expressions.kernels.kernel import (
    Argument,
    Array,
    Build,
    Checked,
    Kernel,
    Mask,
    always,
    any_or_none,
    each,
    mask_of,
    rows,
)

SPACES = (
    "\u0020\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)
"""Characters that TRIM removes by default: Unicode's space separators, but not tabs and line ends."""


def by_row(function: Callable[..., Any], result: DataType) -> Kernel:
    """Return a kernel that calls a Python function for each row."""
    if result.kind is TypeKind.STRING:
        return Kernel(lambda *columns: pa.array([function(*row) for row in rows(*columns)], pa.string()))
    dtype = result.numpy
    return Kernel(lambda *columns: np.array([function(*row) for row in rows(*columns)], dtype))


def constants(arguments: Sequence[Argument]) -> bool:
    """Return True if the first argument is a column and all other arguments are constants."""
    return not arguments[0].constant and all(argument.constant for argument in arguments[1:])


def substring(text: str, start: int, length: int | None = None) -> str:
    """Return a substring from `start`, counted from 1, or from the end if negative; a negative length goes backward."""
    begin = start - 1 if start >= 0 else len(text) + start
    if length is None:
        return text[max(begin, 0) :]
    begin, end = (begin, begin + length) if length >= 0 else (begin + length, begin)
    return text[max(begin, 0) : max(end, 0)]


def build_substring(arguments: Sequence[Argument], result: DataType) -> Kernel:
    if not constants(arguments):
        return by_row(substring, result)
    start = int(arguments[1].value)
    length = int(arguments[2].value) if len(arguments) > 2 else None
    begin = start - 1 if start >= 0 else start
    if length is None:
        return slicing(max(begin, 0) if start >= 0 else begin, None)
    begin, end = (begin, begin + length) if length >= 0 else (begin + length, begin)
    if start >= 0:
        return slicing(max(begin, 0), max(end, 0))
    return slicing(begin, end if end < 0 else None)


def build_left(arguments: Sequence[Argument], result: DataType) -> Kernel:
    if not constants(arguments):
        return by_row(lambda text, count: text[:count], result)
    return slicing(0, int(arguments[1].value))


def build_right(arguments: Sequence[Argument], result: DataType) -> Kernel:
    if not constants(arguments):
        return by_row(lambda text, count: text[-count:] if count else "", result)
    count = int(arguments[1].value)
    return slicing(-count, None) if count else slicing(0, 0)


def slicing(start: int, stop: int | None) -> Kernel:
    """Return a kernel that slices texts as Python does."""
    # Arrow takes int64 positions, so larger positions are reduced to a limit that exceeds the length of any text.
    most = 2**40
    start = max(min(start, most), -most)
    stop = None if stop is None else max(min(stop, most), -most)
    return Kernel(lambda texts, *_: pc.utf8_slice_codeunits(texts, start=start, stop=stop))


def build_trim(
    vectorised: Callable[..., Any],
    one: Callable[[str, str], str],
    arguments: Sequence[Argument],
    result: DataType,
) -> Kernel:
    if not constants(arguments):
        return by_row(one, result)
    characters = arguments[1].value if len(arguments) > 1 else SPACES
    return Kernel(lambda texts, *_: vectorised(texts, characters=characters))


def build_replace(arguments: Sequence[Argument], result: DataType) -> Kernel:
    # Arrow's replace loops without end if the text to replace is empty.
    if not constants(arguments) or arguments[1].value == "":
        return by_row(lambda text, old, new: text.replace(old, new) if old else text, result)
    old, new = arguments[1].value, arguments[2].value
    return Kernel(lambda texts, *_: pc.replace_substring(texts, pattern=old, replacement=new))


def build_search(
    vectorised: Callable[..., Any],
    one: Callable[[str, str], bool],
    arguments: Sequence[Argument],
    result: DataType,
) -> Kernel:
    if not constants(arguments):
        return by_row(one, result)
    pattern = arguments[1].value
    return Kernel(lambda texts, _: mask_of(vectorised(texts, pattern=pattern)))


def place_of(text: str, part: str) -> int:
    return text.find(part) + 1


def build_strpos(arguments: Sequence[Argument], result: DataType) -> Kernel:
    if not constants(arguments):
        return by_row(place_of, result)
    part = arguments[1].value

    def places(texts: pa.StringArray, _: str) -> Array:
        if mask_of(pc.string_is_ascii(texts)).all():
            found: Array = pc.find_substring(texts, pattern=part).to_numpy().astype(np.int64)
            return found + 1
        return np.array([place_of(text, part) for text in each(texts)], np.int64)

    return Kernel(places)


ANY = object()
"""Wildcard % of a LIKE pattern."""
ONE = object()
"""Wildcard _ of a LIKE pattern."""


def pattern_parts(pattern: str, escape: str) -> list[Any] | None:
    """Split a LIKE pattern into literal texts and wildcards; return None if the pattern ends with the escape character."""
    parts: list[Any] = []
    characters = iter(pattern)
    for character in characters:
        part: Any = {"%": ANY, "_": ONE}.get(character, character)
        if character == escape:
            part = next(characters, None)
            if part is None:
                return None
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        elif part is not ANY or not parts or parts[-1] is not ANY:
            parts.append(part)
    return parts


def matcher(parts: list[Any]) -> Callable[[pa.StringArray], Mask]:
    """Return a function that masks the texts that match the parts of a LIKE pattern.

    Simple patterns are matched without regular expressions, because that is faster.
    """
    match parts:
        case []:
            return lambda texts: mask_of(pc.equal(texts, ""))
        case [str(text)]:
            whole = pa.scalar(text, pa.string())
            return lambda texts: mask_of(pc.equal(texts, whole))
        case [one] if one is ANY:
            return lambda texts: np.ones(len(texts), bool)
        case [str(text), last] if last is ANY:
            return lambda texts: mask_of(pc.starts_with(texts, pattern=text))
        case [first, str(text)] if first is ANY:
            return lambda texts: mask_of(pc.ends_with(texts, pattern=text))
        case [first, str(text), last] if first is last is ANY:
            return lambda texts: mask_of(pc.match_substring(texts, pattern=text))
    expression = rf"(?s)\A{expression_of(parts)}\z"
    return lambda texts: mask_of(pc.match_substring_regex(texts, pattern=expression))


def expression_of(parts: list[Any]) -> str:
    return "".join(".*" if part is ANY else "." if part is ONE else re.escape(part) for part in parts)


def build_like(fold: bool, arguments: Sequence[Argument], result: DataType) -> Kernel:
    reason = "a LIKE pattern ends with its escape character, or the escape is longer than one character"
    if constants(arguments):
        pattern = arguments[1].value
        escape = arguments[2].value if len(arguments) > 2 else ""
        parts = pattern_parts(lowered(pattern) if fold else pattern, escape)
        if parts is not None and len(escape) <= 1:
            matches = matcher(parts)
            if fold:
                return Kernel(lambda texts, *_: matches(pc.utf8_lower(texts)))
            return Kernel(lambda texts, *_: matches(texts))
    return Kernel(partial(like_by_row, fold), reason)


def lowered(text: str) -> str:
    return str(pc.utf8_lower(pa.scalar(text, pa.string())).as_py())


def like_by_row(fold: bool, texts: Any, patterns: Any, escapes: Any = "") -> Checked:
    """Match each text with the pattern of its row; each distinct pattern is compiled once."""
    known: dict[tuple[str, str], re.Pattern[str] | None] = {}
    found: list[bool] = []
    bad: list[bool] = []
    if fold:
        texts, patterns = (
            lowered(one) if isinstance(one, str) else pc.utf8_lower(one) for one in (texts, patterns)
        )
    for text, pattern, escape in rows(texts, patterns, escapes):
        key = (pattern, escape)
        if key not in known:
            parts = pattern_parts(pattern, escape) if len(escape) <= 1 else None
            known[key] = None if parts is None else re.compile(expression_of(parts), re.DOTALL)
        expression = known[key]
        bad.append(expression is None)
        found.append(expression is not None and expression.fullmatch(text) is not None)
    return np.array(found, bool), None, any_or_none(np.array(bad, bool))


BUILDERS: dict[str, Build] = {
    "lower": always(Kernel(pc.utf8_lower)),
    "upper": always(Kernel(pc.utf8_upper)),
    "length": always(Kernel(lambda texts: pc.utf8_length(texts).to_numpy().astype(np.int64))),
    "substring": build_substring,
    "left": build_left,
    "right": build_right,
    "trim": partial(build_trim, pc.utf8_trim, str.strip),
    "ltrim": partial(build_trim, pc.utf8_ltrim, str.lstrip),
    "rtrim": partial(build_trim, pc.utf8_rtrim, str.rstrip),
    "replace": build_replace,
    "append": always(Kernel(lambda *texts: pc.binary_join_element_wise(*texts, ""))),
    "starts_with": partial(build_search, pc.starts_with, str.startswith),
    "ends_with": partial(build_search, pc.ends_with, str.endswith),
    "contains": partial(build_search, pc.match_substring, lambda text, part: part in text),
    "strpos": build_strpos,
    "like": partial(build_like, False),
    "ilike": partial(build_like, True),
}
