"""The catalog compared with a model, which is a dictionary with the rules for declarations."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from configs.documents.declarations import Document, Ref, as_document, declared_in
from configs.errors import InvalidInput
from services.catalog.catalog import Catalog
from services.common.weir_home import Home

CLASSES, TENANTS, STREAMS, QUERIES = ("gold", "top"), ("a", "B"), ("s", "t"), ("q", "r", "S")

classes = st.builds(
    lambda name, limit: {
        "kind": "PriorityClass",
        "name": name,
        "priority": 1,
        "delay_target_ms": 100,
        "limits": {"queries": limit},
    },
    st.sampled_from(CLASSES),
    st.integers(1, 3),
)
tenants = st.builds(
    lambda name, priority_class, target: {
        "kind": "Tenant",
        "name": name,
        "priority_class": priority_class,
        "overrides": {"delay_target_ms": target},
    },
    st.sampled_from((*TENANTS, "b")),
    st.sampled_from(CLASSES),
    st.sampled_from((50, 100, 400)),
)
streams = st.builds(
    lambda name, column: {"kind": "Stream", "name": name, "columns": {column: "int64"}},
    st.sampled_from(STREAMS),
    st.sampled_from(("x", "y")),
)
queries = st.builds(
    lambda tenant, name, source: {
        "kind": "Query",
        "tenant": tenant,
        "name": name,
        "sql": f"SELECT * FROM {source}",
    },
    st.sampled_from(TENANTS),
    st.sampled_from(QUERIES),
    st.sampled_from((*STREAMS, *QUERIES)),
)
Data = dict[str, Any]
documents = st.one_of(classes, tenants, streams, queries, queries)
refs = st.one_of(
    st.builds(Ref, st.just("PriorityClass"), st.sampled_from(CLASSES)),
    st.builds(Ref, st.just("Tenant"), st.sampled_from(TENANTS)),
    st.builds(Ref, st.just("Stream"), st.sampled_from(STREAMS)),
    st.builds(Ref, st.just("Query"), st.sampled_from(QUERIES), st.sampled_from(TENANTS)),
)
actions = st.lists(
    st.one_of(documents.map(lambda one: [one]), st.lists(documents, min_size=2, max_size=4), refs),
    max_size=25,
)
BASE: list[Data] = [
    {"kind": "PriorityClass", "name": "top", "priority": 1, "delay_target_ms": 50},
    *(
        {"kind": "Tenant", "name": name, "priority_class": "top", "overrides": {"delay_target_ms": 400}}
        for name in TENANTS
    ),
    *({"kind": "Stream", "name": name, "columns": {"x": "int64"}} for name in STREAMS),
    *({"kind": "Query", "tenant": name, "name": "q", "sql": "SELECT * FROM s"} for name in TENANTS),
]


class Model:
    """Declarations by kind and name, in the order in which they were declared."""

    def __init__(self) -> None:
        self.all: dict[Ref, Data] = {}
        for name, priority, target in (("gold", 6, 300), ("silver", 3, 400), ("bronze", 1, 500)):
            spec = {"kind": "PriorityClass", "name": name, "priority": priority, "delay_target_ms": target}
            self.all[Ref("PriorityClass", name)] = spec

    def apply(self, given: list[Data]) -> bool:
        """Apply the documents and return True if all rules allow the documents; otherwise change nothing and return False."""
        before = dict(self.all)
        named = [ref_of(one) for one in given]
        self.all |= dict(zip(named, given, strict=True))
        may = (
            len({ref.folded for ref in named}) == len(named)
            and holds(self.all)
            and keeps_read_streams(before, self.all)
        )
        if not may:
            self.all = before
        return may

    def delete(self, ref: Ref) -> bool:
        left = {other: one for other, one in self.all.items() if other != ref}
        if ref not in self.all or not holds(left):
            return False
        self.all = left
        return True


def ref_of(one: Data) -> Ref:
    return Ref(one["kind"], one["name"], one.get("tenant", ""))


def source_of(query: Data) -> str:
    return str(query["sql"]).removeprefix("SELECT * FROM ").lower()


def holds(declared: dict[Ref, Data]) -> bool:
    """Return True if names differ in more than case, all referenced objects exist, and each tenant keeps the
    limits of its priority class.
    """
    streams = {ref.name.lower() for ref in declared if ref.kind == "Stream"}
    if len({ref.folded for ref in declared}) < len(declared):
        return False
    count: dict[str, list[str]] = {}
    for ref, one in declared.items():
        match ref.kind:
            case "Tenant":
                given = declared.get(Ref("PriorityClass", one["priority_class"]))
                if given is None or one["overrides"]["delay_target_ms"] < given["delay_target_ms"]:
                    return False
            case "Query":
                if Ref("Tenant", ref.tenant) not in declared or ref.name.lower() in streams:
                    return False
                earlier = count.setdefault(ref.tenant, [])
                if source_of(one) not in streams and source_of(one) not in earlier:
                    return False
                earlier.append(ref.name.lower())
    for tenant, names in count.items():
        spec = declared[Ref("PriorityClass", declared[Ref("Tenant", tenant)]["priority_class"])]
        if len(names) > spec.get("limits", {"queries": 1000})["queries"]:
            return False
    return True


def keeps_read_streams(before: dict[Ref, Data], after: dict[Ref, Data]) -> bool:
    """Return True if the documents change no stream that a query reads."""
    read = {source_of(one) for ref, one in before.items() if ref.kind == "Query"}
    return all(
        after[ref] == one or ref.name.lower() not in read
        for ref, one in before.items()
        if ref.kind == "Stream"
    )


@given(actions)
def test_the_catalog_accepts_and_refuses_the_same_changes_as_a_simple_model(
    given_actions: list[list[Data] | Ref],
) -> None:
    model, last = Model(), 0
    with TemporaryDirectory() as folder, closing(Catalog(Home(Path(folder)))) as catalog:
        for action in (BASE, *given_actions):
            before = {one.ref: one for one in catalog.all()}
            try:
                if isinstance(action, Ref):
                    catalog.delete(action, "x")
                else:
                    found: list[Document] = [declared_in(one) for one in action]
                    catalog.apply(found, "x")
                done = True
            except InvalidInput:
                done = False
            assert done == (model.delete(action) if isinstance(action, Ref) else model.apply(action))
            after = {one.ref: one for one in catalog.all()}
            assert [(ref, as_document(one.declaration)) for ref, one in after.items()] == list(
                model.all.items()
            )
            changed = [one.version for ref, one in after.items() if before.get(ref) != one]
            assert all(version > last for version in changed)
            last = max(last, *(one.version for one in after.values()))
        desired = catalog.desired()
        with closing(Catalog(Home(Path(folder)))) as again:
            assert again.desired() == desired
    reading = {ref.tenant for ref in model.all if ref.kind == "Query"}
    assert {one.name for one in desired.classes} == reading
    for one in desired.classes:
        assert list(one.queries) == [
            ref.name for ref in model.all if (ref.kind, ref.tenant) == ("Query", one.name)
        ]
