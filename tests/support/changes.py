"""Random changes of declarations with rows and kills in between, and a model that knows which answers must
come.

`Model` has declarations and running queries, and for each query the rows that the query must or may answer. `Course` draws events
and applies each event to the model and to a system (`There`).

A query *must* answer each row published after its declaration was enacted, exactly once. This includes rows
that come before its host has subscribed to the stream, or while its host is down or busy. A query *may*
answer a row that was published before the query was added or removed and had not been taken by then.

Changed limits, policies and similar settings leave the query the same. It becomes another query if its SQL,
its stream, the query it reads, or the number of shards changes.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from configs.documents.declarations import (
    KINDS,
    Declaration,
    Document,
    Ref,
    StreamDeclaration,
    TenantDeclaration,
)
from configs.errors import InvalidInput

RANGE_MS = 4000
# Variants of a stream, each with its columns and the lateness of its rows.
VARIANTS: Sequence[tuple[Mapping[str, str], str]] = (
    ({"ts": "int64", "k": "int32", "v": "int64"}, "0 seconds"),
    ({"x": "float64", "ts": "int64", "v": "int64", "k": "int32"}, "0 seconds"),
    ({"ts": "int64", "k": "int32", "v": "int64"}, "1 second"),
)
LATE_MS = (0, 0, 1000)
STREAMS, TENANTS, CLASSES = ("a", "b", "c"), ("t1", "t2", "t3"), ("gold", "silver")


@dataclass(frozen=True)
class Row:
    number: int
    """Column v, unique within a course."""
    ts: int
    k: int


@dataclass(frozen=True)
class Query:
    """Query of a `Model`. The object knows which rows the query's SQL selects."""

    kind: str
    streams: tuple[str, ...]
    """Stream names, in lower case."""
    argument: int = 0
    base: str = ""

    @property
    def sql(self) -> str:
        match self.kind:
            case "filter":
                return f"SELECT v FROM {self.streams[0]} WHERE k <> {self.argument}"
            case "union":
                return " UNION ALL ".join(f"SELECT v FROM {stream}" for stream in self.streams)
            case "over":
                return f"SELECT v FROM {self.base} WHERE v % {self.argument + 2} = 0"
        return (
            f"SELECT window_end AS wend, COUNT(*) AS n, SUM(v) AS t FROM {self.streams[0]} [RANGE 4 SECONDS]"
        )

    def answers(self, row: Row, of_base: Query | None) -> bool:
        """Return True if the query answers the row, or counts the row in its windows."""
        match self.kind:
            case "filter":
                return row.k != self.argument
            case "over":
                assert of_base is not None
                return row.number % (self.argument + 2) == 0 and of_base.answers(row, None)
        return True


@dataclass
class Running:
    """Running query of a tenant, with the rows that the query must or may have answered since it was added."""

    query: Query
    identity: tuple[object, ...]
    base: Query | None
    late_ms: int
    in_order: bool
    """True if the query's answers come in the order of the rows, which needs a single stream and a single shard."""
    unsure: bool
    """True if the test cannot know when the query was enacted."""
    must: list[Row] = field(default_factory=list)
    may: list[Row] = field(default_factory=list)

    def wants(self, rows: Iterable[Row]) -> list[Row]:
        return [row for row in rows if self.query.answers(row, self.base)]


Key = tuple[str, str]


@dataclass
class Model:
    """Queries and streams declared at the last reconciliation, and the answers that each query must or may give."""

    running: dict[Key, Running] = field(default_factory=dict)
    ended: dict[Key, list[Running]] = field(default_factory=lambda: defaultdict(list))
    streams: dict[str, int] = field(default_factory=dict)
    """Existing streams, with their variants."""
    pending: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    """Published rows, by stream, that queries may not have processed yet."""

    def look(
        self,
        queries: Mapping[Key, Query],
        shards: Mapping[str, tuple[int, str | None]],
        streams: Mapping[str, tuple[str, int]],
        is_unsure: bool,
    ) -> None:
        """Update this model of the system after the system was changed to run these declarations."""
        before, self.running = self.running, {}
        identities: dict[Key, tuple[object, ...]] = {}
        kept: set[Key] = set()
        for key, query in queries.items():
            base = (key[0], query.base)
            identities[key] = (
                query.sql,
                tuple(streams[one] for one in query.streams),
                shards[key[0]],
                identities.get(base),
            )
        for key, query in queries.items():
            found = before.get(key)
            if found is None or found.identity != identities[key]:
                late_ms = max(LATE_MS[streams[one][1]] for one in query.streams)
                base_of = queries.get((key[0], query.base))
                in_order = len(query.streams) == 1 and shards[key[0]][0] == 1
                found = Running(query, identities[key], base_of, late_ms, in_order, is_unsure)
                found.may += found.wants(self._pending_of(query))
                if query.kind == "window":
                    # Equal windows of a tenant are one operator, so a new query may also answer rows that reached the operator earlier.
                    equal = (
                        one for other, one in before.items() if other[0] == key[0] and one.query == query
                    )
                    found.may += (row for one in equal for row in (*one.must, *one.may))
            else:
                kept.add(key)
            self.running[key] = found
        for key, gone in before.items():
            if key in kept:
                continue
            unplaced = set(gone.wants(self._pending_of(gone.query)))
            gone.may += [row for row in gone.must if row in unplaced]
            gone.must = [row for row in gone.must if row not in unplaced]
            self.ended[key].append(gone)
        self.streams = {name: variant for name, (_, variant) in streams.items()}

    def publish(self, stream: str, rows: Sequence[Row]) -> None:
        self.pending[stream] += rows
        for one in self.running.values():
            if stream in one.query.streams:
                (one.may if one.unsure else one.must).extend(one.wants(rows))

    def settle(self) -> None:
        """Record that all published rows have been answered."""
        self.pending.clear()
        for one in self.running.values():
            one.unsure = False

    def _pending_of(self, query: Query) -> list[Row]:
        return [row for stream in query.streams for row in self.pending[stream]]

    def check(self, answers: Mapping[Key, Sequence[tuple[int, ...]]]) -> None:
        """Check the answers of each query: all required answers, in their order, and no answers that are not allowed."""
        for key in answers.keys() | self.running.keys() | self.ended.keys():
            lives = [*self.ended.get(key, ()), *([self.running[key]] if key in self.running else ())]
            found = list(answers.get(key, ()))
            if not lives:
                assert not found, (key, found)
            elif lives[-1].query.kind == "window":
                check_windows(key, found, lives)
            else:
                check_rows(key, [number for (number,) in found], lives)


def check_rows(key: Key, found: Sequence[int], lives: Sequence[Running]) -> None:
    must = {row.number for one in lives for row in one.must}
    may = {row.number for one in lives for row in one.may}
    twice = [number for number, count in Counter(found).items() if count > 1]
    assert not twice, (key, "answered twice", twice)
    assert must <= set(found), (key, "not answered", sorted(must - set(found)), lives[-1].query.sql)
    assert set(found) <= must | may, (key, "answered and not asked for", sorted(set(found) - must - may))
    if all(one.in_order for one in lives) and len({one.query.streams for one in lives}) == 1:
        assert list(found) == sorted(found), (key, "in another order", found)


def check_windows(key: Key, found: Sequence[tuple[int, ...]], lives: Sequence[Running]) -> None:
    """Check the answers of a query with windows. Such a query is added only once, because each added one has a new name."""
    assert len(lives) == 1, key
    one = lives[0]
    least, most = by_window(one.must), by_window([*one.must, *one.may])
    sure, reached = (
        max((row.ts for row in rows), default=-1) - one.late_ms for rows in (one.must, [*one.must, *one.may])
    )
    ends = [end for end, _, _ in found]
    assert ends == sorted(set(ends)), (key, "windows in another order, or twice", ends)
    missing = [end for end, rows in least.items() if end <= sure and rows and end not in ends]
    assert not missing, (key, "windows not answered", missing)
    for end, count, total in found:
        low, high = least.get(end, []), most.get(end, [])
        assert end <= reached, (key, "window answered before its end", end)
        assert len(low) <= count <= len(high), (key, end, count, low, high)
        if len(low) == len(high):
            assert (total or 0) == sum(low), (key, end, total, low)


def by_window(rows: Iterable[Row]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        found[(row.ts // RANGE_MS + 1) * RANGE_MS].append(row.number)
    return found


class There(Protocol):
    """Interface to the system under test and its catalog."""

    def apply(self, *declarations: Declaration) -> None: ...
    def delete(self, ref: Ref) -> None: ...
    def look(self) -> None:
        """Make the running system follow the declarations."""

    def publish(self, stream: str, rows: Sequence[Row], variant: int) -> None: ...
    def settle(self) -> None:
        """Wait until all published rows are answered, and all stopped parts of the system run again."""

    def answers(self) -> Mapping[Key, Sequence[tuple[int, ...]]]:
        """Return all answers up to now, including the answers of removed queries."""

    def disturb(self, what: str, chance: random.Random) -> None:
        """Cause a disturbance of the system; `what` is one of DISTURBANCES."""

    def break_a_query(self, tenant: str) -> bool:
        """Store the query BROKEN, which cannot be planned, as if an earlier version had accepted the query; return False if impossible."""

    @property
    def is_unsure(self) -> bool:
        """True if the test cannot know when the system enacts a change of the catalog."""


BROKEN = "broken"
DISTURBANCES = ("work", "kill", "restart", "gateway", "coordinator", "save")


def declared(kind: str, name: str, **fields: Any) -> Declaration:
    return KINDS[kind].model_validate({"kind": kind, "name": name} | fields)


def document(one: Declaration) -> Document:
    return Document(one)


def stream(name: str, variant: int) -> StreamDeclaration:
    columns, late = VARIANTS[variant]
    return StreamDeclaration.model_validate(
        {"kind": "Stream", "name": name, "columns": columns, "time": "ts", "watermark": late}
    )


@dataclass
class Course:
    """Sequence of random events."""

    chance: random.Random
    there: There
    disturbances: Sequence[str] = DISTURBANCES
    broken: set[str] = field(default_factory=set)
    """Tenants with a stored query that can no longer be planned."""
    model: Model = field(default_factory=Model)
    queries: dict[Key, Query] = field(default_factory=dict)
    tenants: dict[str, dict[str, Any]] = field(default_factory=dict)
    classes: dict[str, dict[str, Any]] = field(default_factory=dict)
    streams: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Name and variant of each stream, by its name in lower case."""
    numbers: int = 0
    clock: int = 0
    names: int = 0
    story: list[str] = field(default_factory=list)

    def begin(self) -> None:
        for name in CLASSES:
            self._class(name, {})
        for name in STREAMS[:2]:
            self._stream(name, 0)
        for name in TENANTS[:2]:
            self._tenant(name, {})
            self._add_query(name)
        self._look()

    def run(self, events: int) -> None:
        self.begin()
        for _ in range(events):
            self._happen()
        self._look()
        self._settle()
        self._publish()
        self._settle()

    def _happen(self) -> None:
        happen = self.chance.choices(
            (
                self._publish,
                self._settle,
                self._disturb,
                self._add_some_query,
                self._change_query,
                self._delete_query,
                self._change_tenant,
                self._change_class,
                self._swap_stream,
                self._refuse,
                self._end_tenant,
                self._break,
            ),
            (30, 10, 14, 9, 5, 7, 6, 5, 5, 2, 2, 1),
        )[0]
        happen()

    def _note(self, *what: object) -> None:
        self.story.append(" ".join(map(str, what)))

    # -- changes in the catalog ------------------------------------------------------------------------------

    def _class(self, name: str, fields: dict[str, Any]) -> None:
        base = {"priority": 3 if name == "gold" else 1, "delay_target_ms": 300} | fields
        self._note("class", name, fields)
        self.there.apply(declared("PriorityClass", name, **base))
        self.classes[name] = base

    def _tenant(self, name: str, fields: dict[str, Any]) -> None:
        fields = {"priority_class": "gold"} | fields
        self._note("tenant", name, fields)
        self.there.apply(declared("Tenant", name, **fields))
        self.tenants[name] = fields

    def _stream(self, name: str, variant: int) -> None:
        self._note("stream", name, variant)
        self.there.apply(stream(name, variant))
        self.streams[name.lower()] = name, variant

    def _query(self, key: Key, query: Query) -> None:
        self._note("query", *key, query.sql)
        try:
            self.there.apply(declared("Query", key[1], tenant=key[0], sql=query.sql))
        except InvalidInput as problem:
            if problem.field != "limits.queries":
                raise
            self._note("refused:", problem.title)
        else:
            self.queries[key] = query

    def _remove(self, key: Key) -> None:
        """Delete a query, after all queries that read the query."""
        for other in [other for other, one in self.queries.items() if (other[0], one.base) == key]:
            self._remove(other)
        self._note("delete query", *key)
        self.there.delete(Ref("Query", key[1], key[0]))
        del self.queries[key]

    def _drawn(self, tenant: str, kinds: Sequence[str]) -> Query | None:
        chance, names = self.chance, list(self.streams)
        kind = chance.choice(kinds)
        if not names:
            return None
        if kind == "union" and len(names) > 1:
            return Query("union", tuple(sorted(chance.sample(names, 2))))
        filters = [key[1] for key, one in self.queries.items() if key[0] == tenant and one.kind == "filter"]
        if kind == "over" and filters:
            base = chance.choice(filters)
            return Query("over", self.queries[(tenant, base)].streams, chance.randrange(2), base)
        if kind == "window" and self.tenants[tenant].get("shards", 1) == 1:
            return Query("window", (chance.choice(names),))
        return Query("filter", (chance.choice(names),), chance.randrange(3))

    def _add_query(self, tenant: str) -> None:
        query = self._drawn(tenant, ("filter", "filter", "window", "over", "union"))
        if query is None:
            return
        self.names += 1
        # A query without windows may get the name of an earlier query. A query with windows always gets a new name.
        name = f"w{self.names}" if query.kind == "window" else f"q{self.chance.randrange(4)}"
        if (tenant, name) not in self.queries:
            self._query((tenant, name), query)

    def _add_some_query(self) -> None:
        tenant = self.chance.choice(TENANTS)
        if tenant not in self.tenants:
            self._tenant(tenant, {})
        self._add_query(tenant)
        self._perhaps_look()

    def _change_query(self) -> None:
        keys = [key for key, one in self.queries.items() if one.kind == "filter"]
        if not keys:
            return
        key = self.chance.choice(keys)
        read = any((other[0], one.base) == key for other, one in self.queries.items())
        before = self.queries[key]
        if self.chance.random() < 0.5 and not read:
            # The query is deleted. Then the same query, or another query with its name, is added.
            self._remove(key)
            if self.chance.random() < 0.3:
                self._look()
            self._query(key, before if self.chance.random() < 0.5 else self._filter())
        else:
            # A query that other queries read keeps its streams, so that the other queries read the same streams as before.
            self._query(
                key, Query("filter", before.streams, self.chance.randrange(3)) if read else self._filter()
            )
        self._perhaps_look()

    def _filter(self) -> Query:
        return Query("filter", (self.chance.choice(list(self.streams)),), self.chance.randrange(3))

    def _delete_query(self) -> None:
        if self.queries:
            self._remove(self.chance.choice(list(self.queries)))
            self._perhaps_look()

    def _change_tenant(self) -> None:
        tenant = self.chance.choice(list(self.tenants))
        fields, chance = dict(self.tenants[tenant]), self.chance
        has_queries = any(key[0] == tenant for key in self.queries)
        match chance.randrange(7):
            case 0:
                fields["priority_class"] = chance.choice(CLASSES)
            case 1:
                fields["overrides"] = {"train_max": chance.choice([1, 2, 1000])}
            case 2:
                fields["overrides"] = {"victim": chance.choice(["newest", "oldest", "random"])}
            case 3:
                fields["overrides"] = {"plan": {"shared": chance.random() < 0.5}}
            case 4:
                queries = sum(key[0] == tenant for key in self.queries)
                fields["limits"] = {
                    "queries": max(1, queries + chance.randrange(2)),
                    "result_bytes": chance.choice([1 << 20, 2 << 20]),
                    "groups": chance.choice([1000, 2000]),
                }
            case 5:
                fields["overrides"] = {"policy": {"kind": chance.choice(["fcfs", "rr", "chain"])}}
            case 6:
                fields["key"] = "k"
                if not has_queries:
                    fields["shards"] = chance.choice([1, 2])
        # Settings beyond the limits of the class are refused.
        self._try(lambda: self._tenant(tenant, fields))
        self._perhaps_look()

    def _change_class(self) -> None:
        chance = self.chance
        change: dict[str, Any] = chance.choice(
            [
                {"limits": {"state_bytes": chance.choice([1 << 24, 1 << 26]), "queries": 20}},
                {"lossless": chance.random() < 0.5},
                {"victim": chance.choice(["newest", "random"])},
                {"delay_target_ms": chance.choice([200, 500])},
                {"priority": chance.choice([1, 5])},
                {"windows": {"schedule": chance.choice(["none", "hybrid"])}},
                {"plan": {"shared": chance.random() < 0.5}},
                {"objective": chance.choice(["memory", "response"])},
            ]
        )
        name = chance.choice(CLASSES)
        self._try(lambda: self._class(name, self.classes[name] | change))
        self._perhaps_look()

    def _swap_stream(self) -> None:
        """Delete a stream and all queries that read it. Usually declare the stream again, perhaps as another variant."""
        chance = self.chance
        name = chance.choice(STREAMS)
        if name not in self.streams:
            self._stream(name, chance.randrange(len(VARIANTS)))
            return
        for key in [key for key, one in self.queries.items() if name in one.streams]:
            if key in self.queries:
                self._remove(key)
        if chance.random() < 0.3:
            self._look()
        self._note("delete stream", name)
        self.there.delete(Ref("Stream", self.streams.pop(name)[0]))
        if chance.random() < 0.3:
            self._look()
        if chance.random() < 0.8:
            self._stream(name if chance.random() < 0.7 else name.upper(), chance.randrange(len(VARIANTS)))
            for tenant in self.tenants:
                if chance.random() < 0.6:
                    self._add_query(tenant)
        self._perhaps_look()

    def _refuse(self) -> None:
        """Try invalid changes, each of which must be refused."""
        for key, query in list(self.queries.items())[:1]:
            name, variant = self.streams[query.streams[0]]
            self._refused(lambda: self.there.apply(stream(name, (variant + 1) % len(VARIANTS))))  # noqa: B023
            self._refused(lambda: self.there.delete(Ref("Stream", name)))  # noqa: B023
            self._refused(lambda: self.there.delete(Ref("Tenant", key[0])))  # noqa: B023
            if "key" in self.tenants[key[0]]:
                other = self.tenants[key[0]] | {"shards": 3}
                one = declared("Tenant", key[0], **other)
                assert isinstance(one, TenantDeclaration)
                self._refused(lambda: self.there.apply(one))  # noqa: B023

    def _end_tenant(self) -> None:
        tenant = self.chance.choice(list(self.tenants))
        for key in [key for key in self.queries if key[0] == tenant]:
            if key in self.queries:
                self._remove(key)
        if tenant in self.broken:
            self.broken.remove(tenant)
            self.there.delete(Ref("Query", BROKEN, tenant))
        self._note("delete tenant", tenant)
        self.there.delete(Ref("Tenant", tenant))
        del self.tenants[tenant]
        if self.chance.random() < 0.5:
            self._perhaps_look()
        if not self.tenants or self.chance.random() < 0.5:
            self._tenant(tenant, {})
            self._add_query(tenant)
        self._perhaps_look()

    def _break(self) -> None:
        tenant = self.chance.choice(list(self.tenants))
        if tenant not in self.broken and self.there.break_a_query(tenant):
            self._note("a query that cannot be planned any more:", tenant)
            self.broken.add(tenant)

    def _try(self, change: Any) -> None:
        try:
            change()
        except InvalidInput as problem:
            self._note("refused:", problem.title)

    def _refused(self, change: Any) -> None:
        try:
            change()
        except InvalidInput:
            return
        raise AssertionError("an invalid change was not refused")

    # -- events in random order --------------------------------------------------------------------------------

    def _perhaps_look(self) -> None:
        if self.chance.random() < 0.35:
            self._settle()
        if self.chance.random() < 0.7:
            self._look()

    def _look(self) -> None:
        self._note("look")
        split = {
            name: (one.get("shards", 1), one.get("key") if one.get("shards", 1) > 1 else None)
            for name, one in self.tenants.items()
        }
        self.there.look()
        self.model.look(self.queries, split, self.streams, self.there.is_unsure)

    def _publish(self) -> None:
        for name in self.model.streams:
            if self.chance.random() < 0.7:
                rows = []
                for _ in range(self.chance.randrange(1, 5)):
                    self.numbers += 1
                    self.clock += self.chance.randrange(1, 900)
                    self.clock += self.clock % 1000 == 0
                    rows.append(Row(self.numbers, self.clock, self.chance.randrange(3)))
                self._note("publish", name, [row.number for row in rows], "at", rows[-1].ts)
                self.there.publish(name, rows, self.model.streams[name])
                self.model.publish(name, rows)

    def _settle(self) -> None:
        self._note("settle")
        self.there.settle()
        self.model.settle()
        self.model.check(self.there.answers())

    def _disturb(self) -> None:
        what = self.chance.choice(self.disturbances)
        self._note(what)
        self.there.disturb(what, self.chance)
