"""Functions that run a class in the process of the tests, and return its answers."""

from typing import Any

from tests.support.query_grammar import Statement
from tests.support.query_runs import Row, Run, planned

SECOND = 1_000_000


def row(second: float, **columns: Any) -> Row:
    return {"ts": int(second * SECOND), "id": 0, "k": 1, "g": "a", "x": 1.0, "n": 1, **columns}


def class_of(*queries: str) -> Run:
    return Run(planned({f"q{place}": Statement(one, "") for place, one in enumerate(queries)}))


def add(run: Run, name: str, sql: str) -> None:
    run.runner.add(*planned({name: Statement(sql, "")}))


def feed(run: Run, *rows: Row) -> Run:
    """Offer each row in a separate train, and run the class until the row is processed."""
    for one in rows:
        run.offer("t", [one])
        run.step(10**6)
    return run


def nodes(run: Run) -> list[str]:
    return [node.name for node in run.runner.network.nodes]
