"""Documents with declarations: error messages for wrong documents, and the contents of valid documents."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from configs.base import Settings
from configs.classes.limits import ClassLimits
from configs.classes.live_class import LiveClass, LiveSettings
from configs.classes.plans import PlanSettings
from configs.classes.window_settings import WindowSettings
from configs.documents.declarations import (
    AS_IT_LIKES,
    AT_LEAST,
    KINDS,
    PRESETS,
    LimitOverrides,
    Overrides,
    PriorityClassDeclaration,
    QueryDeclaration,
    Ref,
    StreamDeclaration,
    TenantDeclaration,
    as_document,
    check_differ,
    declared_in,
    documents_of,
    live_class,
    ref_named,
    streams_file,
)
from configs.errors import InvalidInput
from configs.yaml_loading import read_text
from services.catalog.checks import applied
from services.catalog.state import CatalogState
from tests.support.checkout import ROOT

PAGE = (ROOT / "docs/catalog.md").read_text(encoding="utf-8")


def problem(text: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        documents_of(text, "d.yaml")
    return str(caught.value).removeprefix("d.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            ": the file contains no documents\n  hint: write documents, each with `kind:`, one of PriorityClass, Tenant",
        ),
        ("---\n---\n", ": the file contains no documents"),
        ("- a\n", ", document 1: a document must be a map of keys to values (got ['a'])"),
        (
            "name: x",
            ", document 1: kind: a required value is missing\n  hint: add `kind:` with one of PriorityClass",
        ),
        (
            "kind: Tenat",
            ", document 1: kind: there is no kind of document with this name (got 'Tenat')\n  hint: did you mean Tenant?",
        ),
        ("kind: [1]", ", document 1: kind: there is no kind of document with this name (got [1])"),
        (
            "---\n---\nkind: Tenant\nname: acme\npriority: 3\npriority_class: gold",
            ", document 2 (Tenant acme): priority: unknown key (got 'priority')\n  hint: did you mean priority_class?",
        ),
        (
            "{kind: Tenant, name: acme, priority_class: gold, overrides: {max_dorp: 1}}",
            ", document 1 (Tenant acme): overrides.max_dorp: unknown key (got 'max_dorp')\n  hint: did you mean max_drop?",
        ),
        (
            "{kind: Tenant, name: acme, priority_class: gold, overrides: {max_drop: 0.96}}",
            ", document 1 (Tenant acme): overrides.max_drop: the value must be at most 0.95 (got 0.96)",
        ),
        (
            "{kind: Tenant, name: Müller, priority_class: gold}",
            ", document 1 (Tenant Müller): name: this is not a valid name (got 'Müller')\n  hint: give a name: a letter, then",
        ),
        ("{kind: Tenant, name: a}", ", document 1 (Tenant a): priority_class: a required value is missing"),
        (
            "{kind: Query, tenant: a, name: q, sql: ''}",
            ", document 1 (Query q): sql: the value must not be empty (got '')",
        ),
        (
            "{kind: Stream, name: s}",
            ", document 1 (Stream s): columns: the stream has no columns",
        ),
        (
            "{kind: Session, name: flink}",
            ", document 1 (Session flink): name: the value is not one of the allowed choices (got 'flink')",
        ),
        (
            "{kind: Notice, name: n, text: x, until: 2027-01-04}",
            "  hint: give a time with its zone, such as 2027-01-04T06:00:00Z",
        ),
        ("a: [1", ": line 1, column 6: the file is not valid YAML"),
        (
            "kind: Tenant\nkind: Tenant",
            ": line 2, column 1: the file is not valid YAML: the key kind is given twice",
        ),
        ("kind: Tenant\n---\n\tname: x", ": line 3, column 1: the file is not valid YAML"),
        ("a: \x07", ": the file is not valid YAML"),
        ("&a [*a, *a]", ", document 1: a document must be a map of keys to values"),
        ("[" * 5000, ": the file is not valid YAML: its values are nested too deeply"),
    ],
)
def test_invalid_document_is_refused_with_file_field_and_hint(text: str, message: str) -> None:
    assert message in problem(text)


def test_same_name_in_two_files_is_refused() -> None:
    documents = [
        document
        for name, file in (("A", "a.yaml"), ("a", "b.yaml"))
        for document in documents_of(f"{{kind: Tenant, name: {name}, priority_class: gold}}", file)
    ]
    with pytest.raises(InvalidInput) as caught:
        check_differ(documents)
    message = "b.yaml, document 1 (Tenant a): name: already declared in a.yaml, document 1 (Tenant A)"
    assert message in str(caught.value)


def test_oversized_or_missing_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_bytes(b"#" * 10_000_001)
    with pytest.raises(InvalidInput, match="the file has more than 10,000,000 bytes"):
        read_text(tmp_path / "large.yaml")
    with pytest.raises(InvalidInput, match="the file cannot be read: no such file"):
        read_text(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("kind", "name", "ref"),
    [
        ("tenants", "acme", Ref("Tenant", "acme")),
        ("PRIORITYCLASSES", "gold", Ref("PriorityClass", "gold")),
        ("queries", "acme/q", Ref("Query", "q", "acme")),
    ],
)
def test_kind_may_be_plural_and_in_any_case(kind: str, name: str, ref: Ref) -> None:
    assert ref_named(kind, name) == ref


@pytest.mark.parametrize(("kind", "name"), [("tenat", "a"), ("query", "q"), ("tenant", "a/b")])
def test_reference_with_an_invalid_kind_or_name_is_refused(kind: str, name: str) -> None:
    with pytest.raises(InvalidInput):
        ref_named(kind, name)


# -- documents of classes -----------------------------------------------------------------------------------------


def tenant(**fields: Any) -> TenantDeclaration:
    return TenantDeclaration.model_validate(
        {"kind": "Tenant", "name": "acme", "priority_class": "top", **fields}
    )


TOP = PriorityClassDeclaration(
    kind="PriorityClass",
    name="top",
    priority=5,
    delay_target_ms=200,
    min_share=0.1,
    lendable=0.5,
    borrow_limit=0.6,
    max_drop=0.2,
    limits=ClassLimits(queries=10),
)
STREAM = StreamDeclaration(kind="Stream", name="s", columns={"x": "int64"})
QUERY = QueryDeclaration(kind="Query", tenant="acme", name="q", sql="SELECT * FROM s")


def test_tenant_gets_the_terms_of_its_priority_class_and_its_overrides() -> None:
    wanted = tenant(overrides={"delay_target_ms": 300, "victim": "fair"}, limits={"queries": 3}, key="x")
    assert live_class(wanted, TOP, [STREAM], [QUERY]) == LiveClass(
        name="acme",
        priority=5,
        delay_target_ms=300,
        min_share=0.1,
        lendable=0.5,
        borrow_limit=0.6,
        max_drop=0.2,
        victim="fair",
        key="x",
        limits=ClassLimits(queries=3),
        streams=("CREATE STREAM s (x int64)",),
        queries={"q": "SELECT * FROM s"},
    )


def test_a_class_lists_which_of_its_streams_have_a_feed() -> None:
    source = {"format": "rate", "options": {}}
    own = StreamDeclaration.model_validate(
        {"kind": "Stream", "name": "own", "columns": {"x": "int64"}, "source": source}
    )
    brought = StreamDeclaration(kind="Stream", name="brought", columns={"x": "int64"})
    assert live_class(tenant(), TOP, [STREAM, own, brought], [], {"brought"}).fed == ("own", "brought")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"overrides": {"priority": 6}}, "overrides.priority: priority class top gives at most 5 (got 6)"),
        ({"overrides": {"delay_target_ms": 199}}, "delay_target_ms: priority class top gives at least 200"),
        ({"overrides": {"min_share": 0.2}}, "overrides.min_share: priority class top gives at most 0.1"),
        ({"overrides": {"lendable": 0.4}}, "overrides.lendable: priority class top gives at least 0.5"),
        ({"overrides": {"borrow_limit": 1}}, "overrides.borrow_limit: priority class top gives at most 0.6"),
        ({"overrides": {"max_drop": 0.1}}, "overrides.max_drop: priority class top gives at least 0.2"),
        ({"overrides": {"lossless": True}}, "overrides.lossless: priority class top gives at most false"),
        ({"limits": {"queries": 11}}, "limits.queries: priority class top gives at most 10 (got 11)"),
        (
            {"limits": {"result_bytes": 1 << 29}},
            "limits.result_bytes: priority class top gives at most 268435456",
        ),
    ],
)
def test_tenant_that_overrides_beyond_its_priority_class_is_refused(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        live_class(tenant(**fields), TOP, [], [])
    assert message in str(caught.value)


def test_every_term_of_a_priority_class_can_be_overridden() -> None:
    given = PriorityClassDeclaration.model_fields.keys() - {"kind", "name", "limits"}
    assert Overrides.model_fields.keys() == given
    assert LimitOverrides.model_fields.keys() == ClassLimits.model_fields.keys()
    assert {*AT_LEAST, *AS_IT_LIKES} <= given


def test_streams_without_a_source_are_left_out_of_the_spark_file() -> None:
    assert streams_file([STREAM, *PRESETS, QUERY]) is None
    text = "{kind: Feed, name: f, source: {format: weir_feeder}, streams: {s: {}}}\n---\n{kind: Session, master: 'local[2]'}"
    file = streams_file([STREAM, *(one.declaration for one in documents_of(text))])
    assert file is not None
    assert (list(file.streams), list(file.feeds), file.session.master) == (["s"], ["f"], "local[2]")


# -- examples in docs/catalog.md -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_catalog_page_describes_every_field_of_every_kind(kind: str) -> None:
    model = KINDS[kind]
    models: list[type[BaseModel]] = [model]
    if kind == "PriorityClass":
        models.append(ClassLimits)
    fields = [name for one in models for name in one.model_fields if name not in ("kind", "name")]
    if kind in ("Stream", "Feed", "Session"):
        (row,) = re.findall(rf"^\| {kind} \| (.*) \|$", PAGE, re.MULTILINE)
        assert re.findall(r"`(\w+)`", row) == fields
    else:
        (section,) = re.findall(rf"^## {kind}$(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
        described = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
        assert sorted(described) == sorted(fields)


def test_catalog_page_and_models_have_the_same_defaults() -> None:
    section = PAGE.partition("## PriorityClass")[2].partition("## Objectives")[0]
    rows = {
        name: yaml.safe_load(value.strip("` ").replace(",", ""))
        for name, value in re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE)
        if name
        not in ("limits", "policy", "train_max", "utility", "windows", "plan", "state_bytes", "result_bytes")
    }
    fields = PriorityClassDeclaration.model_fields | ClassLimits.model_fields
    assert rows == {name: fields[name].default for name in rows}
    assert "`{schedule: hybrid, late: off}`" in section
    assert "`{select_first: true, shared: true}`" in section
    assert PlanSettings() == PlanSettings(select_first=True, shared=True)
    assert WindowSettings() == WindowSettings(schedule="hybrid", late="off")
    assert ClassLimits().state_bytes == 512 << 20
    assert ClassLimits().filled().result_bytes == LiveSettings().results_bytes == 256 << 20


def test_example_of_the_catalog_page_is_valid() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    documents = documents_of(example)
    state = applied(CatalogState(), documents)
    assert {ref.kind for ref in state} == set(KINDS)
    assert state[Ref("Query", "per_minute", "acme")].reads == ("odd",)


@pytest.mark.parametrize("kind", KINDS)
def test_written_document_is_read_back_unchanged(kind: str) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    for data in yaml.safe_load_all(example):
        if data["kind"] == kind:
            one = declared_in(data).declaration
            written = as_document(one)
            assert declared_in(yaml.safe_load(yaml.safe_dump(written))).declaration == one
            assert isinstance(one, Settings)
            assert written.keys() >= data.keys()
