"""Formatting of figures as texts for the cells of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from configs.numbers import UNKNOWN, compact, figure, percent


def milliseconds(value: float) -> str:
    """Return a time in ms as a text with three significant digits and no unit. From 10,000 ms on, the text is in seconds, such as `12s`."""
    if value >= 10_000:
        return f"{value / 1e3:,.0f}s" if value < 1e9 else f"{compact(value / 1e3)}s"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def response(ms: float) -> str:
    """Return a response time, or a dash if there are no answers."""
    return milliseconds(ms) if ms else UNKNOWN


def four_figures(value: float) -> str:
    """Return a number with four significant digits, without an exponent."""
    if value >= 99_999.5:
        return compact(value)
    return f"{value:,.0f}" if value >= 999.95 else f"{value:.4g}" if value >= 0.0001 else figure(value)


def tardy(told: Mapping[str, Any] | None) -> str:
    """Return the percentage of window answers that came after their deadline."""
    due = told.get("answers", told.get("due", 0)) if told else 0
    return percent(told["tardy"] / due) if told and due else UNKNOWN


def is_late(query: Mapping[str, Any]) -> bool:
    """Return True if an answer of the query came after the deadline of the QoS graph or of a window."""
    return bool(query["missed"] or (query["tardiness"] and query["tardiness"]["tardy"]))


def missed_of(missed: float, answers: int) -> str:
    """Return the number of answers that came after their deadlines, and their percentage of all answers."""
    return compact(missed) + (f" ({percent(missed / answers)})" if missed and answers else "")


def worth(utility: float) -> str:
    """Return a mean utility as text, in green above 0.995 and in red below 0.5."""
    mark = "[green]" if utility > 0.995 else "[red]" if utility < 0.5 else ""
    return f"{mark}{utility:.2f}{'[/]' if mark else ''}"


def times(slowdown: float) -> str:
    """Return a slowdown (the response time divided by the ideal processing time) as text."""
    return three_figures(slowdown) if slowdown else UNKNOWN


def three_figures(value: float) -> str:
    return f"{value:.1f}" if value < 99.95 else compact(value)


def against(value: float, target: float) -> str:
    text = response(value)
    return f"[red]{text}[/]" if value > target else text


def best(texts: Sequence[str], values: Sequence[float | None]) -> list[str]:
    """Return the texts, with each text that belongs to the smallest value in bold."""
    least = min((value for value in values if value is not None), default=None)
    return [
        f"[bold green]{text}[/]" if value is not None and value == least else text
        for text, value in zip(texts, values, strict=True)
    ]


def loss(percent: float) -> str:
    return "[green]0%[/]" if percent == 0 else f"{percent:.2f}%"
