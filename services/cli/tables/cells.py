"""Figures as texts, as cells of tables show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from configs.numbers import UNKNOWN, compact, figure, percent

if TYPE_CHECKING:
    pass


def milliseconds(value: float) -> str:
    """Return milliseconds with three figures, for a column of them; many are shown as seconds."""
    if value >= 10_000:
        return f"{value / 1e3:,.0f}s" if value < 1e9 else f"{compact(value / 1e3)}s"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def response(ms: float) -> str:
    """Return a response time, or a dash without answers."""
    return milliseconds(ms) if ms else UNKNOWN


def four_figures(value: float) -> str:
    """Return a number with four significant digits, without an exponent."""
    if value >= 99_999.5:
        return compact(value)
    return f"{value:,.0f}" if value >= 999.95 else f"{value:.4g}" if value >= 0.0001 else figure(value)


def tardy(told: Mapping[str, Any] | None) -> str:
    """The part of a window's answers that came late."""
    due = told.get("answers", told.get("due", 0)) if told else 0
    return percent(told["tardy"] / due) if told and due else UNKNOWN


def is_late(query: Mapping[str, Any]) -> bool:
    """Return True if an answer came after the deadline of its utility graph or its window."""
    return bool(query["missed"] or (query["tardiness"] and query["tardiness"]["tardy"]))


def missed_of(missed: float, answers: int) -> str:
    """Answers after their deadlines, and which part that is."""
    return compact(missed) + (f" ({percent(missed / answers)})" if missed and answers else "")


def worth(utility: float) -> str:
    """Green while all of it is had, red from half of it down."""
    mark = "[green]" if utility > 0.995 else "[red]" if utility < 0.5 else ""
    return f"{mark}{utility:.2f}{'[/]' if mark else ''}"


def times(slowdown: float) -> str:
    """Return a slowdown: the response time as a multiple of that without other queries."""
    return three_figures(slowdown) if slowdown else UNKNOWN


def three_figures(value: float) -> str:
    return f"{value:.1f}" if value < 99.95 else compact(value)


def against(value: float, target: float) -> str:
    text = response(value)
    return f"[red]{text}[/]" if value > target else text


def loss(percent: float) -> str:
    return "[green]0%[/]" if percent == 0 else f"{percent:.2f}%"
