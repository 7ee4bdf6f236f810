"""The client with a real service: declarations, keys, and calls that its key does not permit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from configs.documents.declarations import (
    PRESETS,
    Declaration,
    Document,
    PriorityClassDeclaration,
    QueryDeclaration,
    Ref,
    StreamDeclaration,
    TenantDeclaration,
    documents_of,
)
from configs.errors import (
    Away,
    InUse,
    InvalidInput,
    NotAllowed,
    UnknownName,
    VersionDiffers,
    WeirError,
    WrongType,
)
from configs.service.service_settings import ServiceSettings
from services.client import Client
from services.remote.models import Change
from tests.support.served import Served, certificate_in, served

TENANT = TenantDeclaration(kind="Tenant", name="acme", priority_class="gold")
OTHER = TenantDeclaration(kind="Tenant", name="other", priority_class="gold")
STREAM = StreamDeclaration(kind="Stream", name="ticks", columns={"x": "int64"})
QUERY = QueryDeclaration(kind="Query", tenant="acme", name="q", sql="SELECT x FROM ticks")
ALL: list[Declaration] = [STREAM, TENANT, OTHER, QUERY]


@pytest.fixture
def weir(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "served") as found:
        yield found


def test_applied_declarations_are_listed(weir: Served) -> None:
    with weir.client() as client:
        made = client.diff(ALL)
        assert client.all("tenants") == []
        assert client.apply(ALL) == made
        assert [change.action for change in made.changes] == ["created"] * 4
        assert [change.action for change in client.apply(ALL).changes] == ["unchanged"] * 4
        assert [item.declaration for item in client.all("query")] == [QUERY]
        assert client.all("query", "other") == []
        assert client.all("session") == []
        assert client.get("stream", "ticks").declaration == STREAM


def test_client_diff_lists_the_changed_fields(weir: Served) -> None:
    lower = TENANT.model_copy(update={"priority_class": "bronze"})
    with weir.client() as client:
        client.apply(ALL)
        assert client.diff([lower]).changes == [
            Change(
                kind="Tenant", name="acme", action="changed", changes={"priority_class": ("gold", "bronze")}
            )
        ]


def test_documents_may_be_plain_dicts(weir: Served) -> None:
    stream = {"kind": "Stream", "name": "ticks", "columns": {"x": "int64"}}
    tenant = {"kind": "Tenant", "name": "acme", "priority_class": "gold"}
    with weir.client() as client:
        assert client.put(stream).ref == Ref("Stream", "ticks")
        assert [change.action for change in client.apply([tenant]).changes] == ["created"]
        assert client.diff(tenant).changes[0].action == "unchanged"
        with pytest.raises(
            InvalidInput, match=r"Stream ticks: column: unknown key .*\n.*did you mean columns"
        ):
            client.put({"kind": "Stream", "name": "ticks", "column": {}})
        for wrong in (["kind"], "Stream ticks", 7):
            with pytest.raises(WrongType, match="cannot be of type"):
                client.put(wrong)  # type: ignore[arg-type]  # the wrong type is what is tested


def test_listing_declarations_reads_all_pages(weir: Served) -> None:
    many = [
        PriorityClassDeclaration(kind="PriorityClass", name=f"c{n}", priority=1, delay_target_ms=1)
        for n in range(1, 1050)
    ]
    with weir.client() as client:
        client.apply(many)
        assert [item.declaration for item in client.all("PriorityClass")] == [*PRESETS, *many]


def test_change_of_an_outdated_version_is_refused(weir: Served) -> None:
    changed = QUERY.model_copy(update={"sql": "SELECT x AS y FROM ticks"})
    with weir.client() as client:
        client.apply([STREAM, TENANT])
        first = client.put(QUERY, version=0)
        assert client.put(QUERY) == first
        second = client.put(changed, version=first.version)
        assert (second.declaration, second.version > first.version) == (changed, True)
        for refused in (first.version, 0):
            with pytest.raises(
                VersionDiffers, match=f"the declaration has changed: its version is now {second.version}"
            ):
                client.put(QUERY, version=refused)
        with pytest.raises(VersionDiffers):
            client.delete("query", "acme/q", first.version)
        client.delete("query", "acme/q", second.version)
        with pytest.raises(UnknownName, match="there is no Query of this name"):
            client.get("query", "acme/q")


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda weir: weir.get("stream", "tick"), "did you mean ticks?"),
        (lambda weir: weir.get("query", "acme/qq"), "did you mean q?"),
        (lambda weir: weir.get("query", "acmee/q"), "did you mean acme?"),
        (lambda weir: weir.delete("tenant", "acme2"), "did you mean acme?"),
        (lambda weir: weir.delete("query", "acme/p"), "known: q"),
        (lambda weir: weir.get("feed", "sensors"), "no names are known"),
        (lambda weir: weir.live.status("acm"), "did you mean acme?"),
        (lambda weir: next(weir.results("acme/qu")), "did you mean q?"),
        (lambda weir: weir.put_rows("tickss", [{"x": 1}]), "did you mean ticks?"),
    ],
)
def test_unknown_name_is_reported_with_the_nearest_names(
    weir: Served, call: Callable[[Client], object], hint: str
) -> None:
    with weir.client() as client:
        client.apply(ALL)
        with pytest.raises(UnknownName, match="of this name") as caught:
            call(client)
    assert caught.value.hint == hint


def test_suggested_names_are_names_that_the_key_may_see(weir: Served) -> None:
    with weir.client() as client:
        client.apply(ALL)
    with weir.client("tenant:other") as other:
        for hidden in ("acme", "acmee"):
            with pytest.raises(UnknownName) as caught:
                other.live.status(hidden)
            assert caught.value.hint == "known: other"


def test_declaration_in_use_is_not_deleted(weir: Served) -> None:
    with weir.client() as client:
        client.apply(ALL)
        assert client.users("stream", "ticks") == ["Query acme/q"]
        assert client.users("query", "acme/q") == []
        with pytest.raises(InUse, match="the declaration is in use by Query acme/q") as caught:
            client.delete("stream", "ticks")
        assert caught.value.users == ("Query acme/q",)


def test_error_names_the_document_and_its_file(weir: Served) -> None:
    found = documents_of("{kind: Query, tenant: acne, name: p, sql: SELECT x FROM ticks}", "my.yaml")
    documents = [*map(Document, ALL), *found]
    with weir.client() as client, pytest.raises(InvalidInput) as remote:
        client.apply(documents)
    with pytest.raises(InvalidInput) as local:
        weir.catalog.apply(documents, "test")
    assert str(remote.value) == str(local.value)
    assert str(remote.value).startswith(
        "my.yaml, document 1 (Query p): tenant: there is no Tenant of this name (got 'acne')"
    )


def test_hidden_secrets_stay_unchanged_when_applied_again(weir: Served) -> None:
    text = "{kind: Stream, name: s, columns: {x: int64}, source: {format: f, options: {path: in, password: HUSH}}}"
    with weir.client() as client:
        client.apply(documents_of(text))
        shown = client.get("stream", "s").declaration
        assert "HUSH" not in repr(shown)
        assert [change.action for change in client.apply([shown]).changes] == ["unchanged"]


def test_keys_are_created_listed_and_revoked(weir: Served) -> None:
    with weir.client() as client:
        client.apply(ALL)
        made = client.create_key("feeder", ["ingest:ticks"], 3600.0)
        assert made.key.startswith("weir_")
        assert made.key not in repr(made)
        assert made.expires_at is not None
        assert [(key.principal, key.scopes) for key in client.list_keys()][1:] == [
            ("feeder", ("ingest:ticks",))
        ]
        with Client(weir.url, made.key) as feeder:
            assert feeder.get("stream", "ticks").declaration == STREAM
            client.revoke_key(made.id)
            with pytest.raises(NotAllowed, match="the key is not live"):
                feeder.get("stream", "ticks")
        assert [(entry.action, entry.kind) for entry in client.audit("Key", made.id)] == [
            ("revoked", "Key"),
            ("created", "Key"),
        ]


def test_key_of_a_tenant_sees_only_that_tenant(weir: Served) -> None:
    weir.catalog.apply(list(map(Document, ALL)), "test")
    with weir.client("tenant:acme") as client:
        assert client.tenant() == "acme"
        assert [item.ref.name for item in client.all("tenant")] == ["acme"]
        client.apply([QUERY.model_copy(update={"name": "p"})])
        assert [item.ref.name for item in client.all("query")] == ["q", "p"]
        for kind, name in (("tenant", "other"), ("query", "other/q"), ("tenant", "nobody")):
            with pytest.raises(UnknownName):
                client.get(kind, name)
        with pytest.raises(NotAllowed):
            client.list_keys()
        with pytest.raises(NotAllowed):
            client.apply([TENANT])
    with (
        weir.client("admin") as client,
        pytest.raises(InvalidInput, match="the key gives access to several tenants"),
    ):
        client.tenant()


def test_live_calls_report_that_no_system_runs(weir: Served) -> None:
    weir.catalog.apply(list(map(Document, ALL)), "test")
    with weir.client("tenant:acme") as client:
        for ask in (
            client.live.classes,
            client.live.status,
            client.live.explain,
            lambda: list(client.results("q")),
        ):
            with pytest.raises(Away, match="this service has no running system"):
                ask()


def test_wrong_key_is_reported(weir: Served) -> None:
    with Client(weir.url, "weir_" + "x" * 43) as client, pytest.raises(NotAllowed) as caught:
        client.all("tenant")
    assert (
        str(caught.value)
        == "the key is not live\n  hint: check the API key: it is wrong, has expired or was revoked"
    )
    assert isinstance(caught.value, WeirError)


def test_self_signed_certificate_is_trusted_if_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = certificate_in(tmp_path)
    settings = ServiceSettings(port=0, tls_certificate=certificate, tls_key=key)
    with served(tmp_path / "served", settings) as weir:
        with weir.client() as stranger, pytest.raises(Away, match="certificate verify failed"):
            stranger.all("tenant")
        monkeypatch.setenv("WEIR_CA_FILE", str(certificate))
        with weir.client("admin") as client:
            assert client.endpoint.startswith("https://")
            assert client.all("tenant") == []
