"""What the query engine does: W11 as SQL beside a hand-written program and DuckDB's batch, in one run on one core."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench import w11
from bench.measure import Figure, seconds_each
from bench.w11_duckdb import run_duckdb
from engine.runner import ClassRunner
from engine.sql import Catalog, parse_create_stream, plan_query
from engine.train import Train, train_from_arrow

SECONDS = 60
TRIES = 3
REGISTERED = 1000


def figures() -> list[Figure]:
    data = w11.generated(SECONDS)
    duckdb = best(partial(run_duckdb, data))
    found = []
    for train, least in ((10_000, 0.5), (1_000, 0.35)):
        engine, hand = best(partial(w11.run_engine, data, train)), best(partial(w11.run_by_hand, data, train))
        assert w11.same_answers(engine, hand, data)
        assert w11.same_answers(engine, duckdb, data)
        speed = engine.readings_per_s / hand.readings_per_s
        found += [
            Figure(f"W11, trains of {train:,}, engine", engine.readings_per_s / 1e6, "M/s"),
            Figure(f"W11, trains of {train:,}, by hand", hand.readings_per_s / 1e6, "M/s"),
            Figure(f"W11, trains of {train:,}, engine over by hand", speed, "×", least=least),
        ]
        if train == 10_000:
            over = engine.readings_per_s / duckdb.readings_per_s
            found += [
                Figure("W11, DuckDB batch", duckdb.readings_per_s / 1e6, "M/s"),
                Figure("W11, trains of 10,000, engine over DuckDB batch", over, "×", least=0.5),
            ]
    return [
        *found,
        Figure("a call of an operator on one tuple", 1e6 * call_s(), "µs", limit=15.0),
        Figure("registering a query beside 1,000", 1e3 * registration_s(), "ms", limit=10.0),
    ]


def best(run: Callable[[], w11.Outcome]) -> w11.Outcome:
    return max((run() for _ in range(TRIES)), key=lambda outcome: outcome.readings_per_s)


def call_s() -> float:
    """A step of the runner around a filter that keeps nothing, source included in two."""
    data = w11.generated(1)
    schema = parse_create_stream(w11.STREAMS[0])
    runner = ClassRunner(ignore)
    runner.add(plan_query("q", "SELECT temp FROM readings WHERE temp > 1000", Catalog.of(streams=[schema])))
    train = train_from_arrow(data.readings.slice(0, 1), schema.schema, 0.0)

    def both() -> None:
        runner.offer("readings", train)
        runner.run(w11.UNBOUNDED_S, zero, zero)

    return seconds_each(both, 1000) / 2


def registration_s() -> float:
    catalog = Catalog.of(streams=[parse_create_stream(sql) for sql in w11.STREAMS])
    runner = ClassRunner(ignore)
    runner.add(*(plan_query(f"q{n}", text(n), catalog) for n in range(REGISTERED)))
    number = REGISTERED

    def register() -> None:
        nonlocal number
        number += 1
        runner.add(plan_query(f"q{number}", text(number), catalog))
        runner.believed()

    return seconds_each(register, 5)


def text(number: int) -> str:
    """Selects and aggregates, no two alike."""
    if number % 2:
        return f"SELECT ts, temp FROM readings WHERE temp > {number}"
    return f"SELECT region, AVG(temp) AS v FROM readings [RANGE 10 SECONDS] WHERE sensor = {number} GROUP BY region"


def ignore(query: str, out: Train) -> None:
    """A sink for answers that nobody wants."""


def zero() -> float:
    return 0.0
