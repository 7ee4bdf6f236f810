"""Checks that several models of scenarios need. Each raises Contradiction for the first problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from configs.base import Settings
from configs.errors import Contradiction


class NamedQuery(Protocol):
    @property
    def name(self) -> str: ...


def check_in_order(settings: Settings, low: str, high: str, why: str = "") -> None:
    """Check that the value of the field `low` is not above that of the field `high`; `why` is the end of the error message."""
    least, most = getattr(settings, low), getattr(settings, high)
    if least > most:
        title = f"{low} must not exceed {high}, which is {most:g}{why}"
        raise Contradiction(title, low, least, f"lower {low} or raise {high}")


def check_slide(window: Settings) -> None:
    """Check that the windows of a query leave no gaps."""
    check_in_order(window, "slide_s", "range_s", ": tuples between two windows would be in no window")


def check_names_differ(queries: Sequence[NamedQuery]) -> None:
    names = [query.name for query in queries]
    for place, name in enumerate(names):
        if name in names[:place]:
            hint = "rename one of the two queries"
            raise Contradiction("two queries have the same name", f"queries[{place}].name", name, hint)
