"""Functions that compare, format and plot figures of runs."""

from __future__ import annotations

from collections.abc import Sequence

from bench.papers.claim import Chart
from bench.papers.dilos.runs import ManagerRuns

# Maximum ratio of two figures that count as about equal.
ABOUT = 2.0


def about(got: float, claimed: float) -> bool:
    return claimed / ABOUT <= got <= claimed * ABOUT


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
            for name, series in fare.series.items()
        },
        log_y=log_y,
    )


def responses(fare: ManagerRuns, title: str) -> Chart:
    return plotted(fare, title, "response_ms", "response time, ms", log_y=True)


def headrooms(fare: ManagerRuns, title: str) -> Chart:
    return plotted(fare, title, "headroom", "headroom, processors")
