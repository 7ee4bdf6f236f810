"""The size of a class's state depends on its windows, not on how long the class has run."""

import pyarrow as pa
import pyarrow.compute as pc

from engine.class_.runner import ClassRunner
from engine.data.train import Train, train_from_arrow
from engine.operators.join import JoinSideOperator
from engine.operators.windows import PaneOperator
from engine.sql import SqlCatalog, parse_create_stream, plan_query
from services.race import w11_workload

LAP_S = 10


def kept(runner: ClassRunner) -> int:
    """Return the number of panes and stored tuples of all operators."""
    states = [node.operator.snapshot() for node in runner.network.nodes]
    operators = [node.operator for node in runner.network.nodes]
    panes = sum(
        len(state[1]) for one, state in zip(operators, states, strict=True) if isinstance(one, PaneOperator)
    )
    sides = [
        state[0] for one, state in zip(operators, states, strict=True) if isinstance(one, JoinSideOperator)
    ]
    return panes + sum(len(side.stored) for side in sides) + sum(node.tuples for node in runner.network.nodes)


def shifted(table: pa.Table, by_ms: int) -> pa.Table:
    return table.set_column(0, "ts", pc.add(table.column("ts"), by_ms))


def test_state_of_a_class_does_not_grow_with_the_number_of_past_windows() -> None:
    schemas = [parse_create_stream(sql) for sql in w11_workload.STREAMS]
    catalog = SqlCatalog.of(streams=schemas)
    answered: dict[str, int] = {}

    def sink(query: str, out: Train) -> None:
        answered[query] = answered.get(query, 0) + len(out)

    runner = ClassRunner(sink)
    runner.add(*(plan_query(name, sql, catalog) for name, sql in w11_workload.QUERIES.items()))
    data, sizes = w11_workload.generated(LAP_S), []
    for lap in range(8):
        for stream, batch in w11_workload.turns(data, 10_000):
            schema = next(one.schema for one in schemas if one.name == stream)
            runner.offer(stream, train_from_arrow(shifted(batch, 1000 * LAP_S * lap), schema, 0.0))
            runner.run(1e9, lambda: 0.0, lambda: 0.0)
        sizes.append(kept(runner))
    assert sizes[4:] == sizes[3:-1]
    assert min(answered.values()) > 0
    assert len(answered) == len(w11_workload.QUERIES)
