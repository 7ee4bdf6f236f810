"""The catalog's state in memory equals its database, though several processes change it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.documents.declarations import PRESETS, Ref, documents_of
from configs.errors import InvalidInput
from services.catalog.catalog import Catalog
from services.catalog.checks import applied
from services.catalog.state import CatalogState, StoredDeclaration
from services.common.weir_home import Home

STREAM = "{{kind: Stream, name: {0}, columns: {{ts: timestamp, value: int64}}, time: ts}}"
TENANT = "{{kind: Tenant, name: {0}, priority_class: {1}}}"
QUERY = "{{kind: Query, tenant: {0}, name: {1}, sql: SELECT value FROM {2}{3}}}"
NAMES = st.sampled_from(["a", "B", "c"])
# Some queries read the output of another query of their tenant.
QUERIES = st.builds(
    QUERY.format,
    st.sampled_from("aB"),
    NAMES.map("q{}".format),
    st.sampled_from(["sa", "sB", "qa"]),
    st.sampled_from(["", ", weight: 3", ", weight: 0.5, utility: [{{latency_ms: 9, utility: 1}}]".format()]),
)
TEXTS = st.one_of(
    QUERIES,
    QUERIES,
    QUERIES,
    st.builds(STREAM.format, NAMES.map("s{}".format)),
    st.builds(TENANT.format, NAMES, st.sampled_from(["gold", "silver"])),
)
REFS = st.one_of(
    st.builds(Ref, st.just("Stream"), NAMES.map("s{}".format)),
    st.builds(Ref, st.just("Tenant"), NAMES),
    st.builds(Ref, st.just("Query"), NAMES.map("q{}".format), NAMES),
)
CHANGES = st.lists(st.tuples(st.integers(0, 1), st.lists(TEXTS, min_size=1, max_size=2) | REFS), max_size=25)


@settings(deadline=None, max_examples=40)
@given(CHANGES)
def test_memory_equals_the_database_after_changes_by_two_processes(
    changes: list[tuple[int, list[str] | Ref]],
) -> None:
    """Two catalogs, each with its own memory, change one database in turns, as two processes would."""
    with TemporaryDirectory() as folder:
        home = Home(Path(folder))
        both = [Catalog(home), Catalog(home)]
        both[0].apply(documents_of("\n---\n".join(map(STREAM.format, ("sa", "sB")))), "test")
        both[1].apply(documents_of("\n---\n".join(TENANT.format(name, "gold") for name in "aB")), "test")
        for which, change in changes:
            try:
                if isinstance(change, Ref):
                    both[which].delete(change, "test")
                else:
                    both[which].apply(documents_of("\n---\n".join(change)), "test")
            except InvalidInput:
                pass
        reopened = Catalog(home)
        expected = picture(reopened)
        assert [picture(catalog) for catalog in both] == [expected] * 2
        for catalog in (reopened, *both):
            catalog.close()


def picture(catalog: Catalog) -> object:
    """Return the catalog's whole state in its order, and the classes and streams that should run."""
    state = catalog.state()
    wanted = catalog.desired()
    return (
        [(ref, item) for ref, item in state.items()],
        {kind: state.names(kind) for kind in ("Stream", "Tenant", "Query")},
        {name: state.queries_of(name) for name in state.names("Tenant")},
        sorted(state.sql_catalog().entries),
        [state.checked(name) for name in state.tenants_with_queries()],
        (wanted.revision, wanted.classes, wanted.streams, wanted.file),
    )


def test_changing_a_copy_of_the_catalog_state_leaves_the_original_unchanged() -> None:
    before = CatalogState(
        map(stored, (STREAM.format("s"), TENANT.format("a", "gold"), QUERY.format("a", "q", "s", "")))
    )
    seen = list(before.items())
    after = before.copy()
    after.put(stored(QUERY.format("a", "r", "s", "")))
    after.put(stored(QUERY.format("a", "q", "q", "")))
    after.remove(Ref("Query", "q", "a"))
    after.remove(Ref("Stream", "s"))
    assert list(before.items()) == seen
    assert [query.ref.name for query in before.queries_of("a")] == ["q"]
    assert [query.ref.name for query in after.queries_of("a")] == ["r"]
    assert (before.in_use(Ref("Stream", "S")), after.in_use(Ref("Stream", "S"))) == (Ref("Stream", "s"), None)


def stored(text: str) -> StoredDeclaration:
    (document,) = documents_of(text)
    return StoredDeclaration(document.declaration)


def test_stored_query_that_cannot_be_planned_blocks_no_other_query() -> None:
    texts = [STREAM.format("sa"), TENANT.format("a", "gold"), QUERY.format("a", "qa", "sa", "")]
    state = applied(
        CatalogState([StoredDeclaration(preset) for preset in PRESETS]), documents_of("\n---\n".join(texts))
    )
    (worse,) = documents_of(QUERY.format("a", "worse", "nothing", ""))
    state.put(StoredDeclaration(worse.declaration, reads=("nothing",)))
    more = applied(state, documents_of(QUERY.format("a", "more", "qa", "")))
    assert list(more.class_of("a").queries) == ["qa", "worse", "more"]
    mended = applied(more, documents_of(QUERY.format("a", "worse", "sa", "")))
    assert list(mended.checked("a").queries) == ["qa", "worse", "more"]
    for text, field in (
        (QUERY.format("a", "over", "worse", ""), "sql"),
        ("{kind: Tenant, name: a, priority_class: gold, key: value, shards: 2}", "shards"),
    ):
        with pytest.raises(InvalidInput) as refused:
            applied(state, documents_of(text))
        assert refused.value.field == field
