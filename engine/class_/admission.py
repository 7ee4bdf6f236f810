"""What is asked of a class beyond its form, before it is let in: its streams and queries can be run, alone and beside others.

    checked(declared)           its streams parse, its queries plan, its key is where it is needed
    runnable(declared)          the same with those queries that plan, and why the others do not
    check_together(classes)     names differ, a stream is the same for all, minimum shares fit

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
    """A class that can be run, with what checking it has brought to light."""

    declared: LiveClass
    streams: Mapping[str, StreamSchema]
    """What it may read, by name in small letters."""
    catalog: SqlCatalog
    queries: Mapping[str, Query]
    keys: Mapping[str, Places]
    """Where the outputs of queries hold the key, by name in small letters; only of a class that is split."""

    @property
    def name(self) -> str:
        return self.declared.name

    def with_query(self, name: str, sql: str) -> CheckedClass:
        """The class with one more query."""
        limit = self.declared.limits.queries
        if len(self.queries) >= limit:
            raise InvalidInput(
                "the class has as many queries as it may have",
                self._at("limits.queries"),
                limit,
                "remove a query, or raise the limit",
            )
        if self.catalog.find(name) is not None:
            raise InvalidInput(
                "the name is taken by a stream or another query, letters' case aside",
                self._at("queries"),
                name,
                "choose another name",
            )
        try:
            query = plan_query(name, sql, self.catalog)
        except PlanningError as problem:
            raise replace(problem, field=self._at(f"queries.{name}")) from None
        by_name = {query_name.lower(): query for query_name, query in self.queries.items()}
        try:
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
        """The class with one query less."""
        if name not in self.queries:
            raise UnknownName(
                "the class has no such query", self._at("queries"), name, nearest(name, self.queries)
            )
        for reader in self.queries.values():
            if name.lower() in reads(reader):
                raise InvalidInput(
                    f"query {reader.name} reads the output of this one",
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
                    f"query {query.name} reads stream {stream.name}, which has no such column",
                    self._at("key"),
                    key,
                    f"choose a column that all streams have; {stream.name} has {', '.join(stream.schema.names)}",
                )

    def _at(self, field: str) -> str:
        return f"classes.{self.name}.{field}"


def checked(declared: LiveClass) -> CheckedClass:
    """The class as it is declared, or why it cannot be run."""
    runs, problems = runnable(declared)
    for problem in problems.values():
        raise problem
    return runs


def runnable(declared: LiveClass) -> tuple[CheckedClass, dict[str, Exception]]:
    """Return the class with those of its queries that can be run, and why each of the others cannot."""
    at = f"classes.{declared.name}"
    streams: dict[str, StreamSchema] = {}
    for place, sql in enumerate(declared.streams):
        try:
            stream = parse_create_stream(sql)
        except PlanningError as problem:
            raise replace(problem, field=f"{at}.streams[{place}]") from None
        if stream.name.lower() in streams:
            raise InvalidInput(
                "a stream is declared once in a class",
                f"{at}.streams[{place}]",
                stream.name,
                "leave one of the two out",
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
        except Exception as problem:  # also a mistake of the planner's is about one query
            problems[name] = problem
    if problems:
        accepted = replace(accepted, declared=with_queries(declared, accepted.queries))
    return accepted, problems


def with_queries(declared: LiveClass, names: Collection[str]) -> LiveClass:
    """Return the class with these of its queries and no others."""
    said = {
        field: {name: what for name, what in getattr(declared, field).items() if name in names}
        for field in SAID_OF_QUERIES
    }
    return declared.model_copy(update=said)


def without_streams(declared: LiveClass, streams: Collection[str]) -> LiveClass:
    """Return the class without these streams, by name in small letters, and without all queries that read them."""
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
    """Equal keys must be equal in every stream, or they would get into different shards."""
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
            f"the key of a class that is split has one type, but is {types}",
            f"classes.{one.name}.key",
            key,
            "declare the columns alike, or set shards to 1",
        )


def check_together(classes: Sequence[CheckedClass]) -> None:
    """Classes of one system, whose names differ."""
    first: dict[str, tuple[str, StreamSchema]] = {}
    for class_ in classes:
        for stream in class_.streams.values():
            other, schema = first.setdefault(stream.name.lower(), (class_.name, stream))
            if schema != stream:
                raise InvalidInput(
                    f"class {other} declares stream {schema.name} otherwise",
                    f"classes.{class_.name}.streams",
                    stream.name,
                    f"copy the statement from class {other}, or choose another name for the stream",
                )
    total = sum(class_.declared.priority for class_ in classes)
    for class_ in classes:
        declared, original = class_.declared, class_.declared.priority / total
        if declared.min_share > original + 1e-12:
            raise InvalidInput(
                "a minimum share cannot exceed the original share",
                f"classes.{class_.name}.min_share",
                declared.min_share,
                f"priority {declared.priority:g} gives {original:.3f} among these classes: "
                "raise the priority or lower min_share",
            )


def check_change(before: CheckedClass, after: CheckedClass) -> None:
    """A class that runs is declared anew."""
    for field in ("shards", "key") if before.declared.shards > 1 else ("shards",):
        if getattr(before.declared, field) != getattr(after.declared, field):
            raise InvalidInput(
                f"cannot change while the class runs, from {getattr(before.declared, field)}",
                f"classes.{before.name}.{field}",
                getattr(after.declared, field),
                "delete its queries, change it, and add them again; their windows start empty",
            )
    for name, stream in after.streams.items():
        if name in before.streams and before.streams[name] != stream:
            raise InvalidInput(
                "a stream cannot change while a class reads it",
                f"classes.{before.name}.streams",
                stream.name,
                "remove the class first, or choose another name for the stream",
            )
