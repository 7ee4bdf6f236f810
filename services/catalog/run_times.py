"""Run times of queries: which queries run at a time, and when that changes next.

A query that reads another query starts no earlier than that query, and ends no later. A query leaves its class some seconds after
its end, so that windows which end by then are still answered. When all queries of a class have ended, the class has no queries, but
keeps its streams: while the class runs, its answers can still be read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from configs.classes.live_class import LiveClass
from configs.documents.declarations import Document, QueryDeclaration, Ref
from engine.data.schema import StreamSchema
from services.catalog.state import CatalogState

# Seconds from the end of a query until the query leaves its class, in addition to the time by which events of its streams may be late.
# The clock advances the event time of an idle stream after `idle_after_s` (5 s), so the last windows are answered within this time.
LINGER_S = 10.0


class RunState(StrEnum):
    """State of a query by its start and its end."""

    WAITING = "waiting"
    ACTIVE = "active"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpan:
    """Start and end of a query in seconds since 1970, which also depend on the queries that it reads."""

    start_s: float
    """Time at which the query starts; -∞ if it started with its declaration."""
    stop_s: float
    """Time at which the query ends; ∞ if it does not end."""
    gone_s: float
    """Time at which the query leaves its class."""

    @property
    def is_limited(self) -> bool:
        """True if the query has a start or an end."""
        return self.start_s > -math.inf or self.stop_s < math.inf

    def state(self, now_s: float) -> RunState:
        if now_s >= self.stop_s:
            return RunState.ENDED
        return RunState.ACTIVE if now_s >= self.start_s else RunState.WAITING

    def as_json(self, now_s: float) -> dict[str, object]:
        """Return the state at a time, with the start and the end."""
        return {
            "state": str(self.state(now_s)),
            "start": time_at(self.start_s),
            "stop": time_at(self.stop_s),
        }


def spans(state: CatalogState, tenant: str) -> Mapping[Ref, RunSpan]:
    """Return the run times of a tenant's queries; empty if no query of the tenant has a start or an end."""
    queries = {query.ref: query for query in state.queries_of(tenant)}
    declared = {ref: query.declaration for ref, query in queries.items()}
    if not any(
        isinstance(query, QueryDeclaration) and (query.start or query.stop) for query in declared.values()
    ):
        return {}
    # All queries of a tenant leave their class equally long after their ends, so no query leaves before a query that reads it.
    linger_s = LINGER_S + lateness_s(state, {name for query in queries.values() for name in query.reads})
    limits: dict[Ref, RunSpan] = {}
    for ref, query in declared.items():
        assert isinstance(query, QueryDeclaration)
        sources = (state.in_use(Ref("Query", name, tenant)) for name in queries[ref].reads)
        read = [limits[source] for source in sources if source in limits]
        start = -math.inf if query.start is None else query.start.timestamp()
        stop = math.inf if query.stop_at is None else query.stop_at.timestamp()
        stop = min([stop, *(span.stop_s for span in read)])
        start = max([start, *(span.start_s for span in read)])
        gone = stop + linger_s if start < stop else stop
        limits[ref] = RunSpan(start_s=start, stop_s=stop, gone_s=gone)
    return limits


def time_at(seconds: float) -> datetime | None:
    """Return a time in seconds since 1970 as a datetime; None for an infinite time."""
    return datetime.fromtimestamp(seconds, UTC) if math.isfinite(seconds) else None


def lateness_s(state: CatalogState, names: Iterable[str]) -> float:
    """Return the longest time by which events of the named streams may be late; names of queries are ignored."""
    schemas = map(state.sql_catalog().find, names)
    return max([0.0, *(schema.lateness_us / 1e6 for schema in schemas if isinstance(schema, StreamSchema))])


def classes_at(state: CatalogState, now_s: float) -> tuple[tuple[LiveClass, ...], float]:
    """Return the classes as they run at a time, and the next time at which a query joins or leaves its class (∞ if never).

    A class is left out until its first query has started.
    """
    classes, next_s = list[LiveClass](), math.inf
    for tenant in state.tenants_with_queries():
        run_times = spans(state, tenant)
        if not run_times:
            classes.append(state.class_of(tenant))
            continue
        begun = [query for query in state.queries_of(tenant) if run_times[query.ref].start_s <= now_s]
        if begun:
            running = [query for query in begun if run_times[query.ref].gone_s > now_s]
            classes.append(state.class_with(tenant, running, begun))
        turns = (time_s for span in run_times.values() for time_s in (span.start_s, span.gone_s))
        next_s = min([next_s, *(time_s for time_s in turns if time_s > now_s)])
    return tuple(classes), next_s


def runs_of(state: CatalogState, refs: Iterable[Ref], now_s: float) -> dict[Ref, dict[str, object]]:
    """Return the state, start and end of each of the queries that have a start or an end."""
    refs = list(refs)
    tenants = dict.fromkeys(ref.tenant for ref in refs if ref.tenant)
    limits = {ref: span for tenant in tenants for ref, span in spans(state, tenant).items()}
    return {ref: limits[ref].as_json(now_s) for ref in refs if ref in limits and limits[ref].is_limited}


def without_ended(state: CatalogState, now_s: float) -> CatalogState:
    """Return the state without the queries that have left their classes."""
    gone = [
        ref
        for tenant in state.tenants_with_queries()
        for ref, span in spans(state, tenant).items()
        if span.gone_s <= now_s
    ]
    if not gone:
        return state
    left = state.copy()
    for ref in gone:
        left.remove(ref)
    return left


def with_starts(before: CatalogState, documents: Iterable[Document], now_s: float) -> list[Document]:
    """Return the documents; a query with a lifetime but without a start gets its stored start, or else the time of its declaration."""
    return [with_start(before, document, now_s) for document in documents]


def with_start(before: CatalogState, document: Document, now_s: float) -> Document:
    declared = document.declaration
    if not isinstance(declared, QueryDeclaration) or declared.lifetime is None or declared.start is not None:
        return document
    stored = before.get(document.ref)
    was = None if stored is None else stored.declaration
    start = was.start if isinstance(was, QueryDeclaration) and was.lifetime is not None else None
    if start is None:
        start = datetime.fromtimestamp(math.floor(now_s), UTC)
    return replace(document, declaration=declared.model_copy(update={"start": start}))
