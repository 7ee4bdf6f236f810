"""Queries of a class, with the streams that they may read and the utility graphs of their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from configs.classes.live_class import LiveClass
from configs.classes.policy_and_plan import Choice
from configs.classes.utility import UtilityGraph
from configs.errors import InvalidInput, sentence
from engine.class_.class_input import ClassInput
from engine.class_.commit_buffer import CommitBuffer
from engine.class_.load_cycle import LoadCycle
from engine.class_.runner import ClassRunner
from engine.class_.steps import QueryRemoved, StreamsSet
from engine.data.schema import StreamSchema
from engine.network.plan_alignment import RunningPlan
from engine.operators.source import SourceOperator
from engine.plan.plan import Query, Scan
from engine.plan.plan_references import sources, streams
from engine.sql import SqlCatalog, parse_create_stream, plan_query


class ClassQueries:
    """Plans queries, adds them to the runner, and removes them; each change is complete before the next operator runs."""

    def __init__(
        self,
        settings: LiveClass,
        *,
        runner: ClassRunner,
        input_: ClassInput,
        cycle: LoadCycle,
        buffer: CommitBuffer,
    ) -> None:
        self.by_name: dict[str, Query] = {}
        self.statements: tuple[str, ...] = tuple(settings.streams)
        """CREATE STREAM statements of the streams that queries may read."""
        self.schemas = schemas_of(settings.streams)
        self.refused: dict[str, str] = {}
        """Reason why a declared query cannot run, by query."""
        self.answered_before = 0
        """Number of answers of queries that were removed."""
        self._catalog = SqlCatalog.of(streams=self.schemas.values())
        self._runner, self._input, self._cycle, self._buffer = runner, input_, cycle, buffer
        self._declare_values(settings)
        self._weights = settings.weights

    @property
    def answers(self) -> int:
        """Number of answers since the class began, including answers of removed queries."""
        return self.answered_before + sum(self._runner.answers.counts.values())

    def planned(self, name: str, sql: str) -> Query:
        if name in self.by_name:
            raise InvalidInput(
                "the class already has a query of this name", "query", name, "choose another name"
            )
        return plan_query(name, sql, self._catalog)

    def planned_all(self, queries: Mapping[str, str], catalog: SqlCatalog) -> list[Query]:
        """Return the plans of the queries that can be planned; a query may read the output of an earlier query."""
        planned = []
        for name, sql in queries.items():
            try:
                planned.append(plan_query(name, sql, catalog))
            except Exception as problem:  # The planner may raise any exception; other queries still run
                self.refused[name] = sentence(problem)
            else:
                catalog = catalog.with_query(planned[-1])
        return planned

    def plan_and_add(self, queries: Mapping[str, str]) -> None:
        """Plan and add queries, except for queries that cannot be planned."""
        self.add_all(self.planned_all(queries, self._catalog))

    def add_all(self, planned: Sequence[Query]) -> list[str]:
        """Add queries together, so that their windows share panes; return the names of the queries that run."""
        if not planned:
            return []
        try:
            self.add(*planned)
        except InvalidInput as problem:
            if len(planned) == 1:
                self.refused[planned[0].name] = sentence(problem)
                return []
            return [name for query in planned for name in self.add_all([query])]
        return [query.name for query in planned]

    def add(self, *queries: Query) -> None:
        names = [query.name for query in queries]
        self._runner.add(
            *queries,
            graphs={name: self._graph(name) for name in names},
            weights={name: self._weights[name] for name in names if name in self._weights},
        )
        for query in queries:
            self.by_name[query.name] = query
            self._catalog = self._catalog.with_query(query)
            self._cycle.add_query(query.name)
        for schema in self.streams():
            self._input.reader_comes(schema.name.lower())

    def remove_all(self, names: Sequence[str]) -> None:
        for name in names:
            self.remove(name)
            self._buffer.settle(QueryRemoved(name))

    def remove(self, name: str) -> None:
        self._input.reader_goes(name)
        self.answered_before += self._runner.answers.counts[name]
        self._runner.remove(name)
        del self.by_name[name]
        self._buffer.forget_query(name)
        self._cycle.remove_query(name)
        self._catalog = SqlCatalog.of(streams=self.schemas.values()).with_queries(self.by_name.values())

    def set_streams(self, statements: Sequence[str]) -> None:
        """Replace the streams that queries may read.

        Before this call, the caller must remove all queries that read a changed stream.
        """
        schemas = schemas_of(statements)
        for stream in changed_streams(self.schemas, schemas):
            self._input.end(stream)
        self.statements, self.schemas = tuple(statements), schemas
        self._catalog = SqlCatalog.of(streams=schemas.values()).with_queries(self.by_name.values())

    def change_streams(self, statements: Sequence[str], schemas: Mapping[str, StreamSchema]) -> None:
        """Replace the declared streams, drop the queues of changed streams, and record the change as a step.

        Call this only at a settle point.
        """
        if schemas != self.schemas:
            for stream in changed_streams(self.schemas, schemas):
                self._input.leave(stream)
            self.set_streams(statements)
            self._buffer.settle(StreamsSet(tuple(statements)))

    def value(self, settings: LiveClass) -> None:
        """Set the utility graphs for later answers: each query's own graph, or the graph of the class for a query without a graph."""
        self._declare_values(settings)
        self._runner.value({name: self._graph(name) for name in self.by_name})

    def weigh(self, settings: LiveClass) -> None:
        """Set the freshness weights of queries, including queries that are added later."""
        self._weights = settings.weights
        self._runner.weigh({name: weight for name, weight in self._weights.items() if name in self.by_name})

    def _declare_values(self, settings: LiveClass) -> None:
        self._class_graph = settings.graph
        self._graphs = {name: UtilityGraph(points=points) for name, points in settings.utilities.items()}

    def _graph(self, name: str) -> UtilityGraph:
        return self._graphs.get(name, self._class_graph)

    def running(self) -> RunningPlan:
        """Return a description of the running plan, from which other plans can be made."""
        network, values = self._runner.network, self._runner.values
        return RunningPlan(
            queries=tuple(self.by_name.values()),
            planned_as={name: network.planned_as(name) for name in self.by_name},
            choice=Choice(self._runner.scheduled.policy, network.plan),
            keys=tuple([node.key for node in network.nodes]),
            pane_lengths=network.pane_lengths,
            graphs=dict(values.graphs),
            weights=dict(values.weights),
            samples=self._input.samples.by_stream(),
        )

    def streams(self) -> Sequence[StreamSchema]:
        """Return the streams that at least one query reads."""
        network = self._runner.network
        return [schema for name, schema in self.schemas.items() if network.source(name) is not None]

    def timed(self, name: str) -> list[StreamSchema]:
        """Return the streams with event time that a query reads."""
        queries = {running.lower(): query for running, query in self.by_name.items()}
        read = (self.schemas[stream.lower()] for stream in streams(self.by_name[name].plan, queries))
        return [schema for schema in read if schema.time is not None]

    def event_time(self, stream: str) -> int | None:
        """Return the largest event time seen in the stream, in the stream's unit of time; None before the first event time."""
        node = self._runner.network.source(stream)
        if node is None:
            return None
        assert isinstance(node.operator, SourceOperator)
        return node.operator.latest

    def reached_us(self, stream: StreamSchema) -> int | None:
        """Return the largest event time seen in a stream, in microseconds; None before the first event time."""
        latest = self.event_time(stream.name)
        return None if latest is None else latest * stream.time_unit_us


def schemas_of(statements: Sequence[str]) -> dict[str, StreamSchema]:
    """Return the streams that CREATE STREAM statements declare, by name in small letters."""
    return {schema.name.lower(): schema for schema in map(parse_create_stream, statements)}


def changed_streams(before: Mapping[str, StreamSchema], after: Mapping[str, StreamSchema]) -> list[str]:
    """Return the names of streams that were removed or have changed."""
    return [name for name, schema in before.items() if after.get(name) != schema]


def reads_as_declared(query: Query, schemas: Mapping[str, StreamSchema]) -> bool:
    """Return True if every stream that a query reads directly is still declared as it was when the query was planned."""
    scans = (source.stream for source in sources(query.plan) if isinstance(source, Scan))
    return all(schemas.get(stream.name.lower()) == stream for stream in scans)
