"""Functions that format and plot figures of runs."""

from __future__ import annotations

from collections.abc import Sequence

from bench.papers.claim import Chart
from bench.papers.dilos.runs import ManagerRuns


def percents(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}%" if value else "0%" for value in values)


def millis(values: Sequence[float]) -> str:
    return ", ".join(milliseconds(value) for value in values)


def milliseconds(value: float) -> str:
    """Return a time with three significant figures and its unit."""
    if value >= 1000:
        return f"{value / 1e3:.1f} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms"


def plotted(fare: ManagerRuns, title: str, column: str, label: str, log_y: bool = False) -> Chart:
    """Return a chart of a figure of each class over time, in the first run."""
    return Chart(
        title,
        "time, s",
        label,
        lines={
            name: [
                (at_s, value)
                for at_s, value in zip(series.at_s, getattr(series, column), strict=True)
                if value is not None and (value > 0 or not log_y)
            ]
            for name, series in fare.series[0].items()
        },
        log_y=log_y,
    )


def responses(fare: ManagerRuns, title: str) -> Chart:
    return plotted(fare, title, "response_ms", "response time, ms", log_y=True)


def headrooms(fare: ManagerRuns, title: str) -> Chart:
    return plotted(fare, title, "headroom", "headroom, processors")
