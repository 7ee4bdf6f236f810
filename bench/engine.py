"""Speed of the query engine with the eleven queries of workload W11, compared in one run with other programs that give the same answers."""

from __future__ import annotations

from collections.abc import Mapping

from bench.measure import Figure, seconds_each
from configs.classes.limits import ClassLimits
from engine.class_.runner import ClassRunner
from engine.data.train import Train, train_from_arrow
from engine.sql import SqlCatalog, parse_create_stream, plan_query
from services.race import w11_workload
from services.race.race import ENGINE, compared, race

SECONDS = 60
REGISTERED = 1000
# Minimum ratio of the engine's speed to the speed of another program, by train length.
LEAST = {
    10_000: {"hand": 0.5, "duckdb": 0.5, "polars": 1.0},
    1_000: {"hand": 0.35, "polars": 1.0},
}
# Readings per CPU-second of other programs, measured on a similar machine, each with the engine's minimum speed relative to the program.
# The programs are Flink's SQL, Spark with micro-batches of 10 s, and a Polars loop with less tuning than the Polars loop of this benchmark.
ELSEWHERE = {
    10_000: {"Flink": (132_500, 15.0), "Spark": (23_200, 80.0), "a plain Polars loop": (2_280_000, 1.0)},
    1_000: {"a plain Polars loop": (351_000, 4.0)},
}


def figures() -> list[Figure]:
    data = w11_workload.generated(SECONDS)
    found = [figure for train, least in LEAST.items() for figure in race_figures(data, train, least)]
    return [
        *found,
        Figure("a call of an operator on one tuple", 1e6 * call_s(), "µs", limit=15.0),
        Figure("registering a query next to 1,000", 1e3 * registration_s(), "ms", limit=10.0),
    ]


def race_figures(data: w11_workload.Data, train: int, least: Mapping[str, float]) -> list[Figure]:
    reports, about = race(data, train, list(least)), f"W11, trains of {train:,}"
    found = [Figure(f"{about}: {name}", one["readings_per_s"] / 1e6, "M/s") for name, one in reports.items()]
    for name, one in compared(reports).items():
        assert one["equal"], name
        found.append(Figure(f"{about}: engine ÷ {name}", one["ratio"], "×", least=least[name]))
    for name, (speed, times) in ELSEWHERE[train].items():
        ratio = reports[ENGINE]["readings_per_s"] / speed
        found.append(Figure(f"{about}: engine ÷ {name}, measured elsewhere", ratio, "×", least=times))
    input_mb = (data.readings.nbytes + data.alerts.nbytes) / 2**20
    above_mb = reports[ENGINE]["peak_rss_mb"] - input_mb
    return [*found, Figure(f"{about}: peak memory above its input", above_mb, "MB", limit=400.0)]


def call_s() -> float:
    """Return the seconds of one operator call on one tuple, measured as half of a run that calls a source and a filter."""
    data = w11_workload.generated(1)
    schema = parse_create_stream(w11_workload.STREAMS[0])
    runner = ClassRunner(ignore)
    runner.add(
        plan_query("q", "SELECT temp FROM readings WHERE temp > 1000", SqlCatalog.of(streams=[schema]))
    )
    train = train_from_arrow(data.readings.slice(0, 1), schema.schema, 0.0)

    def both() -> None:
        runner.offer("readings", train)
        runner.run(w11_workload.UNBOUNDED_S, zero, zero)

    return seconds_each(both, 1000) / 2


def registration_s() -> float:
    catalog = SqlCatalog.of(streams=[parse_create_stream(sql) for sql in w11_workload.STREAMS])
    runner = ClassRunner(ignore, limits=ClassLimits(queries=2 * REGISTERED))
    runner.add(*(plan_query(f"q{n}", text(n), catalog) for n in range(REGISTERED)))
    number = REGISTERED

    def register() -> None:
        nonlocal number
        number += 1
        runner.add(plan_query(f"q{number}", text(number), catalog))
        runner.scheduled.believed()

    return seconds_each(register, 5)


def text(number: int) -> str:
    """Return the SQL of a query, alternately a select and an aggregate; no two queries are equal."""
    if number % 2:
        return f"SELECT ts, temp FROM readings WHERE temp > {number}"
    return f"SELECT region, AVG(temp) AS v FROM readings [RANGE 10 SECONDS] WHERE sensor = {number} GROUP BY region"


def ignore(query: str, out: Train) -> None:
    """Discard all answers of the queries."""


def zero() -> float:
    return 0.0
