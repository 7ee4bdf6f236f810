"""Race between Weir's engine and other programs (contestants) on W11. All run on the same processor, one after another, each in its own process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any

from configs.errors import InvalidInput, UnknownName, nearest
from services.race import w11_workload
from services.race.w11_workload import Data, RaceOutcome

TRIES = 3
ENGINE = "engine"
SPAWN = get_context("spawn")


@dataclass(frozen=True, slots=True)
class Contestant:
    """Program that answers W11 without Weir's engine."""

    what: str
    run: Callable[[Data, int], RaceOutcome]
    package: str | None = None  # Python package that the contestant needs, but Weir does not need.


# `by_duckdb` and `by_polars` import their package only when they are called, because the package may not be installed.
# Polars must be imported after the number of its threads has been limited.
def by_duckdb(data: Data, _train: int) -> RaceOutcome:
    from services.race.duckdb_contestant import run_duckdb

    return run_duckdb(data)


def by_polars(data: Data, train: int) -> RaceOutcome:
    from services.race.polars_contestant import run_polars

    return run_polars(data, train)


CONTESTANTS: Mapping[str, Contestant] = {
    "hand": Contestant("numpy", w11_workload.run_by_hand),
    "duckdb": Contestant("static batch", by_duckdb, "duckdb"),
    "polars": Contestant("micro-batches", by_polars, "polars"),
}


def contestants(names: str, known: Mapping[str, Contestant] = CONTESTANTS) -> list[str]:
    """Return the contestants in a comma-separated list; raise InvalidInput if a contestant is unknown or its package is missing."""
    names_given = list(dict.fromkeys(part.strip() for part in names.split(",")))
    for name in names_given:
        if name not in known:
            raise UnknownName("there is no contestant of this name", "--beside", name, nearest(name, known))
        package = known[name].package
        if package is not None and find_spec(package) is None:
            hint = f"run `pip install {package}`, or `make setup` for all development packages"
            raise InvalidInput(
                f"the contestant needs the package {package}, which is not installed", "--beside", name, hint
            )
    return names_given


def race(
    data: Data, train: int, names: Sequence[str], advance: Callable[[int], None] = lambda _: None
) -> dict[str, dict[str, Any]]:
    """Return the best report of the engine and of each contestant; `advance` is called with the number of finished tries."""
    tries: dict[str, list[dict[str, Any]]] = {name: [] for name in (ENGINE, *names)}
    with ExitStack() as processes:
        of = {
            name: processes.enter_context(ProcessPoolExecutor(1, SPAWN, prepare, (data, core())))
            for name in tries
        }
        for round_ in range(TRIES):
            for place, name in enumerate(tries):
                tries[name].append(of[name].submit(attempt, name, train).result())
                advance(round_ * len(tries) + place + 1)
    return {name: best(reports) for name, reports in tries.items()}


def best(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    # The smallest peak of all tries is reported, because memory left over from one try raises the peak of the next try.
    peak_rss_mb = min(report["peak_rss_mb"] for report in reports)
    return max(reports, key=lambda one: one["readings_per_s"]) | {"peak_rss_mb": peak_rss_mb}


def compared(reports: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the comparison of each contestant with the engine. Without expected answers (oracle.json), `right` stays None."""
    engine = reports[ENGINE]
    return {
        name: {
            "readings_per_s": other["readings_per_s"],
            "ratio": engine["readings_per_s"] / other["readings_per_s"],
            "equal": other["queries"] == engine["queries"],
            "right": right(other),
        }
        for name, other in reports.items()
        if name != ENGINE
    }


def right(report: Mapping[str, Any]) -> bool | None:
    verdicts = [query["right"] for query in report["queries"].values() if "right" in query]
    return all(verdicts) if verdicts else None


def core() -> int | None:
    """Return the number of the processor on which all contestants run, or None if the platform cannot pin processes."""
    return max(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


loaded: list[Data] = []


def prepare(data: Data, on: int | None) -> None:
    # Ctrl-C must end this process at once and silently; the parent process prints the message.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if on is not None:
        os.sched_setaffinity(0, {on})
    os.environ["POLARS_MAX_THREADS"] = "1"
    loaded.append(data)


def attempt(name: str, train: int) -> dict[str, Any]:
    run = w11_workload.run_engine if name == ENGINE else CONTESTANTS[name].run
    return w11_workload.report(run(loaded[0], train), loaded[0])
