"""Checks of a declared class before it runs: its streams and queries can run, alone and together with other classes.

    checked(declared): checks that streams parse, queries can be planned, and every stream that is read has the key column.
    runnable(declared): returns the class with the queries that can be planned, and the problem of each refused query.
    check_together(classes): checks that all classes declare a stream alike, and that their minimum shares are possible.

Every refusal is an InvalidInput that names the class, the field, the value and a remedy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from configs.classes.live_class import SAID_OF_QUERIES, LiveClass
from configs.errors import InvalidInput, UnknownName, nearest
from engine.data.schema import StreamSchema
from engine.plan.partition_check import Places, key_places
from engine.plan.plan import Query, Scan
from engine.plan.plan_references import check_lookups, dependents, reads, sources
from engine.sql import PlanningError, SqlCatalog, parse_create_stream, plan_query


@dataclass(frozen=True)
class CheckedClass:
    """Declared class that has passed the checks and can run, with its parsed streams and planned queries."""

    declared: LiveClass
    streams: Mapping[str, StreamSchema]
    """Streams that the class may read, by name in small letters."""
    catalog: SqlCatalog
    queries: Mapping[str, Query]
    keys: Mapping[str, Places]
    """Positions of the key columns in each query's output, by query name in small letters; empty if the class has no shards."""

    @property
    def name(self) -> str:
        return self.declared.name

    def with_query(self, name: str, sql: str) -> CheckedClass:
        """Return the class with one query added; raise InvalidInput if the added query cannot run."""
        limit = self.declared.limits.queries
        if len(self.queries) >= limit:
            raise InvalidInput(
                "the class already has the maximum number of queries that its limits allow",
                self._at("limits.queries"),
                limit,
                "remove a query, or raise the limit",
            )
        if self.catalog.find(name) is not None:
            raise InvalidInput(
                "a stream or another query already has this name (upper and lower case are the same)",
                self._at("queries"),
                name,
                "choose another name",
            )
        by_name = {query_name.lower(): query for query_name, query in self.queries.items()}
        try:
            query = plan_query(name, sql, self.catalog)
            check_lookups(query.plan, by_name)
        except InvalidInput as problem:
            raise replace(problem, field=self._at(f"queries.{name}")) from None
        self._check_key(query)
        keys = dict(self.keys)
        if self.declared.shards > 1:
            try:
                keys[name.lower()] = key_places(query, self.declared.key or "", self.keys)
            except InvalidInput as problem:
                raise replace(problem, field=self._at(problem.field)) from None
        return replace(
            self,
            declared=self.declared.model_copy(update={"queries": {**self.declared.queries, name: sql}}),
            catalog=self.catalog.with_query(query),
            queries={**self.queries, name: query},
            keys=keys,
        )

    def without_query(self, name: str) -> CheckedClass:
        """Return the checked class without one of its queries."""
        if name not in self.queries:
            raise UnknownName(
                "the class has no query of this name", self._at("queries"), name, nearest(name, self.queries)
            )
        for reader in self.queries.values():
            if name.lower() in reads(reader):
                raise InvalidInput(
                    f"the query cannot be removed, because query {reader.name} reads its output",
                    self._at("queries"),
                    name,
                    f"remove {reader.name} first",
                )
        return checked(with_queries(self.declared, self.queries.keys() - {name}))

    def _check_key(self, query: Query) -> None:
        key = self.declared.key
        for stream in (source.stream for source in sources(query.plan) if isinstance(source, Scan)):
            if key is not None and stream.schema.index(key) is None:
                raise InvalidInput(
                    f"query {query.name} reads stream {stream.name}, which has no column of this name",
                    self._at("key"),
                    key,
                    f"choose a column that all streams have; {stream.name} has {', '.join(stream.schema.names)}",
                )

    def _at(self, field: str) -> str:
        return f"classes.{self.name}.{field}"


def checked(declared: LiveClass) -> CheckedClass:
    """Return the checked class, or raise the first problem that keeps the class from running."""
    runs, problems = runnable(declared)
    for problem in problems.values():
        raise problem
    return runs


def runnable(declared: LiveClass) -> tuple[CheckedClass, dict[str, Exception]]:
    """Return the class with only those queries that can run, and the problem of each refused query by its name."""
    at = f"classes.{declared.name}"
    streams: dict[str, StreamSchema] = {}
    for place, sql in enumerate(declared.streams):
        try:
            stream = parse_create_stream(sql)
        except PlanningError as problem:
            raise replace(problem, field=f"{at}.streams[{place}]") from None
        if stream.name.lower() in streams:
            raise InvalidInput(
                "the class declares this stream twice",
                f"{at}.streams[{place}]",
                stream.name,
                "remove one of the two statements",
            )
        streams[stream.name.lower()] = stream
    accepted = CheckedClass(
        declared.model_copy(update={"queries": {}}), streams, SqlCatalog.of(streams=streams.values()), {}, {}
    )
    check_key_types(accepted)
    problems: dict[str, Exception] = {}
    for name, sql in declared.queries.items():
        try:
            accepted = accepted.with_query(name, sql)
        except Exception as problem:  # The planner may raise any exception; other queries still run
            problems[name] = problem
    if problems:
        accepted = replace(accepted, declared=with_queries(declared, accepted.queries))
    return accepted, problems


def with_queries(declared: LiveClass, names: Collection[str]) -> LiveClass:
    """Return the class with only the named queries."""
    said = {
        field: {name: what for name, what in getattr(declared, field).items() if name in names}
        for field in SAID_OF_QUERIES
    }
    return declared.model_copy(update=said)


def without_streams(declared: LiveClass, streams: Collection[str]) -> LiveClass:
    """Return the class without these streams (names in small letters) and without all queries that read them."""
    accepted, _ = runnable(declared)
    readers = {
        name
        for name, query in accepted.queries.items()
        if any(
            source.stream.name.lower() in streams
            for source in sources(query.plan)
            if isinstance(source, Scan)
        )
    }
    left = accepted.queries.keys() - set(dependents(accepted.queries, readers))
    statements = zip(accepted.declared.streams, accepted.streams, strict=True)
    kept = tuple(sql for sql, name in statements if name not in streams)
    return with_queries(declared, left).model_copy(update={"streams": kept})


def check_key_types(one: CheckedClass) -> None:
    """Raise InvalidInput if the type of the key differs between streams, because equal keys would then get into different shards."""
    key = one.declared.key
    if key is None or one.declared.shards == 1:
        return
    type_names: dict[str, str] = {}
    for stream in one.streams.values():
        place = stream.schema.index(key)
        if place is not None:
            type_names[str(stream.schema.fields[place].type)] = stream.name
    if len(type_names) > 1:
        types = ", ".join(f"{kind} in {stream}" for kind, stream in type_names.items())
        raise InvalidInput(
            f"the key of a class with several shards must have the same type in all streams, but has the types {types}",
            f"classes.{one.name}.key",
            key,
            "declare the key with the same type in all streams, or set shards to 1",
        )


def check_together(classes: Sequence[CheckedClass]) -> None:
    """Raise InvalidInput if these classes, which have different names, cannot run in one system."""
    first: dict[str, tuple[str, StreamSchema]] = {}
    for class_ in classes:
        for stream in class_.streams.values():
            other, schema = first.setdefault(stream.name.lower(), (class_.name, stream))
            if schema != stream:
                raise InvalidInput(
                    f"class {other} declares a stream of this name with other columns or another event time",
                    f"classes.{class_.name}.streams",
                    stream.name,
                    f"copy the statement from class {other}, or choose another name for the stream",
                )
    total = sum(class_.declared.priority for class_ in classes)
    for class_ in classes:
        declared, original = class_.declared, class_.declared.priority / total
        if declared.min_share > original + 1e-12:
            raise InvalidInput(
                "min_share exceeds the class's original share",
                f"classes.{class_.name}.min_share",
                declared.min_share,
                f"priority {declared.priority:g} gives {original:.3f} among these classes: "
                "raise the priority or lower min_share",
            )


def check_change(before: CheckedClass, after: CheckedClass) -> None:
    """Raise InvalidInput if a running class cannot change to the new declaration."""
    for field in ("shards", "key") if before.declared.shards > 1 else ("shards",):
        if getattr(before.declared, field) != getattr(after.declared, field):
            raise InvalidInput(
                f"this field cannot change while the class runs; its value is {getattr(before.declared, field)} now",
                f"classes.{before.name}.{field}",
                getattr(after.declared, field),
                "delete the class's queries, change the field, and add the queries again; their windows start empty",
            )
    for name, stream in after.streams.items():
        if name in before.streams and before.streams[name] != stream:
            raise InvalidInput(
                "a stream cannot change while a class reads it",
                f"classes.{before.name}.streams",
                stream.name,
                "remove the class first, or choose another name for the stream",
            )
