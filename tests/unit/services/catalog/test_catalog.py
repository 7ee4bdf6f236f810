"""The catalog on SQLite and on PostgreSQL: stored declarations, refused changes, the audit log, and keys."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from configs.documents.declarations import Document, Ref, documents_of
from configs.errors import InUse, InvalidInput, UnknownName, VersionDiffers
from services.catalog.catalog import Catalog
from services.catalog.database import MIGRATIONS, CatalogAway, Database, revision_of, told_as_ours
from services.catalog.tables import REVISION, metadata
from services.common.weir_home import Home, home_of
from services.ingest.keys import KeyRecord
from tests.support.postgresql import postgresql

PEPPER = "salt and more than that"
BASE = """
{kind: Stream, name: ticks, columns: {ts: timestamp, value: int64}, time: ts}
---
{kind: Stream, name: other, columns: {x: int64}}
---
{kind: Tenant, name: acme, priority_class: gold}
---
{kind: Query, tenant: acme, name: odd, sql: SELECT * FROM Ticks WHERE value % 2 = 1}
---
{kind: Query, tenant: acme, name: big, sql: SELECT value FROM odd WHERE value > 9}
"""
MIRROR = """
kind: Mirror
name: prices
options: {password: hunter2}
sql: CREATE MIRROR prices (item string) FROM DATABASE 'postgresql://u@h/d' TABLE 't' BANDWIDTH 5 PER SECOND
"""
TICKS, ACME, ODD, BIG = Ref("Stream", "ticks"), Ref("Tenant", "acme"), Ref("Query", "odd", "acme"), "acme/big"


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql() as dsn:
        yield dsn


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    if request.param == "sqlite":
        return Home(tmp_path / "home", given_pepper=PEPPER)
    dsn = request.getfixturevalue("server")
    engine = sa.create_engine(dsn.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
    engine.dispose()
    return Home(tmp_path / "home", dsn, PEPPER)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def catalog(home: Home, clock: Clock) -> Iterator[Catalog]:
    with closing(Catalog(home, clock)) as found:
        found.apply(documents_of(BASE), "ops")
        yield found


def document(text: str) -> Document:
    (found,) = documents_of(text)
    return found


def picture(catalog: Catalog) -> list[tuple[Any, ...]]:
    """Return the catalog's declarations and its audit log."""
    stored = [(item.ref, item.declaration, item.version, item.reads) for item in catalog.all()]
    return [*stored, *((entry.id, entry.action, entry.name) for entry in catalog.audit())]


def refused(catalog: Catalog, text: str) -> str:
    """Return the error for the documents, after checking that nothing has changed."""
    before = picture(catalog)
    with pytest.raises(InvalidInput) as caught:
        catalog.apply(documents_of(text, "new.yaml"), "ops")
    assert picture(catalog) == before
    return str(caught.value).partition("\n")[0]


# -- stored declarations -------------------------------------------------------------------------------------------


def test_reopened_catalog_has_all_declarations(catalog: Catalog, home: Home) -> None:
    before, desired = picture(catalog), catalog.desired()
    catalog.close()
    with closing(Catalog(home)) as again:
        assert (picture(again), again.desired()) == (before, desired)


def test_reopened_catalog_has_mirrors_and_their_streams(catalog: Catalog, home: Home) -> None:
    catalog.apply(documents_of(MIRROR), "ops")
    before, desired = picture(catalog), catalog.desired()
    catalog.close()
    with closing(Catalog(home)) as again:
        assert (picture(again), again.desired()) == (before, desired)
        assert (list(desired.mirrors), desired.mirrors["prices"].password) == (["prices"], "hunter2")
        again.delete(Ref("Mirror", "prices"), "ops")
        assert (again.desired().mirrors, "prices" in again.desired().streams) == ({}, True)


def test_deleted_preset_priority_classes_stay_deleted(home: Home) -> None:
    with closing(Catalog(home)) as catalog:
        assert [item.ref.name for item in catalog.all()] == ["gold", "silver", "bronze"]
        for name in ("gold", "silver", "bronze"):
            catalog.delete(Ref("PriorityClass", name), "ops")
    with closing(Catalog(home)) as catalog:
        assert catalog.all() == []


def test_putting_an_equal_declaration_changes_nothing(catalog: Catalog) -> None:
    before = picture(catalog)
    assert {change.action for change in catalog.apply(documents_of(BASE), "another")} == {"unchanged"}
    explicit = document("{kind: Tenant, name: acme, priority_class: gold, shards: 1, overrides: {}}")
    catalog.put(explicit.declaration, "another")
    assert picture(catalog) == before


def test_versions_of_declarations_are_never_reused(catalog: Catalog) -> None:
    silver = document("{kind: Tenant, name: acme, priority_class: silver}").declaration
    first = catalog.get(ACME).version
    second = catalog.put(silver, "ops", version=first).version
    assert second > first
    with pytest.raises(VersionDiffers, match=f"the declaration has changed: its version is now {second}"):
        catalog.put(silver, "ops", version=first)
    with pytest.raises(VersionDiffers):
        catalog.put(silver, "ops", version=0)
    new = document("{kind: Stream, name: s, columns: {x: int64}}").declaration
    third = catalog.put(new, "ops", version=0).version
    catalog.delete(Ref("Stream", "s"), "ops", version=third)
    assert catalog.put(new, "ops").version > third + 1


def test_a_changed_query_still_precedes_the_query_that_reads_it(catalog: Catalog) -> None:
    catalog.apply([document("{kind: Query, tenant: acme, name: odd, sql: SELECT value FROM ticks}")], "ops")
    (class_,) = catalog.desired().classes
    assert list(class_.queries) == ["odd", "big"]
    assert catalog.get(Ref("Query", "big", "acme")).reads == ("odd",)


def test_class_of_a_tenant_has_the_streams_that_its_queries_read(catalog: Catalog) -> None:
    catalog.apply([document("{kind: Tenant, name: idle, priority_class: bronze}")], "ops")
    wanted = catalog.desired()
    (class_,) = wanted.classes
    assert (class_.name, class_.priority, class_.delay_target_ms) == ("acme", 6, 300)
    assert class_.streams == (wanted.streams["ticks"],)
    assert list(wanted.streams) == ["ticks", "other"]
    assert wanted.file is None


def test_audit_log_names_principal_and_fields_without_secrets(catalog: Catalog, clock: Clock) -> None:
    text = """{kind: Stream, name: fed, columns: {x: int64}, source: {format: weir_feeder,
        options: {path: in, password: HUSH, other: 1}}}"""
    clock.now = 2000.0
    catalog.apply([document(text)], "ops")
    catalog.apply([document(text.replace("HUSH", "LOUD").replace("other: 1", "other: 2"))], "eve")
    last, first = catalog.audit(Ref("Stream", "fed"))
    assert (last.who, last.action, last.at) == ("eve", "changed", 2000.0)
    assert last.fields == ("source.options.password", "source.options.other")
    assert (first.who, first.action, first.fields) == ("ops", "created", ())
    assert "HUSH" not in repr(catalog.audit())


# -- refused changes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ref", "by"),
    [
        (Ref("PriorityClass", "gold"), "the declaration is in use by Tenant acme"),
        (ACME, "the declaration is in use by Query acme/odd, Query acme/big"),
        (TICKS, "the declaration is in use by Query acme/odd"),
        (ODD, "the declaration is in use by Query acme/big"),
    ],
    ids=str,
)
def test_declaration_in_use_is_not_deleted(catalog: Catalog, ref: Ref, by: str) -> None:
    before = picture(catalog)
    with pytest.raises(InUse) as caught:
        catalog.delete(ref, "ops")
    assert by in str(caught.value)
    assert picture(catalog) == before


def test_stream_in_use_by_a_feed_or_a_key_is_not_deleted(catalog: Catalog) -> None:
    feed = "{kind: Feed, name: all, source: {format: weir_feeder}, streams: {other: {}}}"
    catalog.apply([document(feed)], "ops")
    _, key = catalog.keys.create("feeder", ["ingest:OTHER"], "ops")
    with pytest.raises(InUse, match=f"the declaration is in use by Feed all, key {key.id}"):
        catalog.delete(Ref("Stream", "other"), "ops")
    catalog.delete(Ref("Feed", "all"), "ops")
    catalog.keys.revoke(key.id, "ops")
    catalog.delete(Ref("Stream", "other"), "ops")


def test_unknown_name_is_reported_with_a_similar_name(catalog: Catalog) -> None:
    with pytest.raises(
        UnknownName, match=r"there is no Tenant of this name \(got 'acmee'\)\n  hint: did you mean acme"
    ):
        catalog.get(Ref("Tenant", "acmee"))
    with pytest.raises(UnknownName, match="there is no Tenant of this name"):
        catalog.delete(Ref("Query", "odd", "nobody"), "ops")
    with pytest.raises(UnknownName, match="did you mean odd"):
        catalog.get(Ref("Query", "od", "acme"))


GOOD = "{kind: Tenant, name: fine, priority_class: gold}\n---\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{kind: Tenant, name: b, priority_class: goldd}",
            "document 2 (Tenant b): priority_class: there is no PriorityClass of this name (got 'goldd')",
        ),
        (
            "{kind: Query, tenant: fin, name: q, sql: SELECT * FROM ticks}",
            "document 2 (Query q): tenant: there is no Tenant of this name (got 'fin')",
        ),
        (
            "{kind: Tenant, name: Acme, priority_class: gold}",
            "document 2 (Tenant Acme): name: the name is already used by Tenant acme (got 'Acme')",
        ),
        (
            "{kind: Stream, name: Odd, columns: {x: int64}}",
            "document 2 (Stream Odd): name: Query acme/odd already has this name, and a stream cannot have the name of a query (got 'Odd')",
        ),
        (
            "{kind: Query, tenant: fine, name: Ticks, sql: SELECT * FROM other}",
            "document 2 (Query Ticks): name: a stream already has this name, and a query cannot have the name of a stream (got 'Ticks')",
        ),
        (
            "{kind: Query, tenant: fine, name: q, sql: SELECT * FROM odd}",
            "document 2 (Query q): line 1, column 15: sql: there is no such stream (got 'odd')",
        ),
        (
            "{kind: Query, tenant: fine, name: q, sql: SELECT x AS _KEPT FROM other}",
            "document 2 (Query q): sql: a column of a query cannot have this name, because Weir adds a column of this name to each answer (got '_KEPT')",
        ),
        (
            "{kind: Query, tenant: acme, name: odd, sql: SELECT x FROM other}",
            "Query acme/big: line 1, column 29: sql: there is no such column (got 'value')",
        ),
        (
            "{kind: Stream, name: ticks, columns: {ts: timestamp}, time: ts}",
            "document 2 (Stream ticks): columns: columns and event time cannot change while queries read the "
            "stream: Query acme/odd",
        ),
        (
            "{kind: Stream, name: s, columns: {x: in64}}",
            "document 2 (Stream s): columns: there is no such type",
        ),
        (
            "{kind: Stream, name: s, sql: CREATE STREAM t (x int64)}",
            "document 2 (Stream s): sql: the name in CREATE STREAM differs from the name of the declared stream (got 't')",
        ),
        (
            "{kind: Feed, name: f, source: {format: weir_feeder}, streams: {othr: {}}}",
            "document 2 (Feed f): streams: there is no Stream of this name (got 'othr')",
        ),
        (
            "{kind: Stream, name: t, columns: {x: int64}, source: {format: weir_feeder}}\n---\n"
            "{kind: Feed, name: t, source: {format: weir_feeder}, streams: {other: {}}}",
            "document 3 (Feed t): feeds: a feed cannot have the name of a stream that has its own source (got 't')",
        ),
        (
            "{kind: Feed, name: f, source: {format: weir_feeder}, streams: {other: {}}}\n---\n"
            "{kind: Feed, name: g, source: {format: weir_feeder}, streams: {other: {}}}",
            "document 3 (Feed g): streams: a stream can come from only one feed, and feed f already supplies this stream (got 'other')",
        ),
        (
            "{kind: Tenant, name: acme, priority_class: gold, shards: 2, key: value}",
            "document 2 (Tenant acme): shards: this field cannot change while the class runs; its value is 1 now (got 2)",
        ),
        (
            "{kind: Tenant, name: b, priority_class: gold, shards: 2}",
            "document 2 (Tenant b): shards: the class has several shards, but no key column to split its tuples by (got 2)",
        ),
        (
            "{kind: Tenant, name: b, priority_class: gold, overrides: {victim: fair}}",
            "document 2 (Tenant b): victim: `victim: fair` needs a key column, but the class has none (got 'fair')",
        ),
        (
            "{kind: PriorityClass, name: gold, priority: 6, delay_target_ms: 300, min_share: 0.6}",
            "Tenant acme: min_share: min_share exceeds the class's original share",
        ),
        (
            "{kind: PriorityClass, name: gold, priority: 6, delay_target_ms: 300, limits: {queries: 1}}",
            "document 2 (PriorityClass gold): limits.queries: the limit is too low: tenant acme already has 2 queries (got 1)",
        ),
        (
            "{kind: Tenant, name: acme, priority_class: gold, limits: {queries: 1}}",
            "document 2 (Tenant acme): limits.queries: the class already has the maximum number of queries that its limits allow (got 1)",
        ),
    ],
)
def test_inconsistent_documents_change_nothing(catalog: Catalog, text: str, message: str) -> None:
    error = refused(catalog, GOOD + text)
    assert message in error


@pytest.mark.slow
def test_ten_megabytes_of_sql_are_refused_before_parsing(catalog: Catalog, tmp_path: Path) -> None:
    query = "{kind: Query, tenant: acme, name: q, sql: '%s'}"
    assert "sql: the value must have at most 100,000 characters" in refused(
        catalog, query % ("x" * 10_000_000)
    )
    assert "sql: " in refused(catalog, query % ("SELECT " + "(" * 90_000))


def test_broken_or_unreachable_database_is_reported(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.database.write_text("this is no database, however long it is " * 100, encoding="utf-8")
    with pytest.raises(CatalogAway, match="not a database"):
        Catalog(home)
    with pytest.raises(CatalogAway):
        Catalog(Home(tmp_path, "postgresql://nobody@127.0.0.1:1/none"))
    with pytest.raises(
        InvalidInput, match="the address of the catalog is not the address of a PostgreSQL database"
    ) as caught:
        Catalog(Home(tmp_path, "mysql://me:HUSH@host/db"))
    assert "HUSH" not in str(caught.value)


# -- the database behind the catalog -------------------------------------------------------------------------------


def test_migrations_create_the_declared_tables(home: Home) -> None:
    with closing(Database(home)) as database, database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert revision_of(connection) == REVISION == ScriptDirectory(str(MIGRATIONS)).get_current_head()


def test_catalog_of_a_newer_version_is_refused(home: Home) -> None:
    with closing(Database(home)) as database, database.changing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(InvalidInput, match=r"the catalog was made by a newer version of Weir \(got '9999'\)"):
        Catalog(home)


def test_catalog_files_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    home = home_of({"WEIR_HOME": str(tmp_path / "home")})
    with closing(Catalog(home)) as catalog:
        catalog.keys.create("ops", ["admin"], "ops")
        modes = {path.name: path.stat().st_mode & 0o777 for path in home.folder.iterdir()}
    assert modes.keys() >= {"catalog.db", "pepper"}
    assert set(modes.values()) == {0o600}
    assert home.folder.stat().st_mode & 0o777 == 0o700


WRITER = """
import sys
from pathlib import Path
from configs.documents.declarations import documents_of
from services.catalog.catalog import Catalog
from services.common.weir_home import Home

folder, dsn, mine = sys.argv[1:]
catalog = Catalog(Home(Path(folder), dsn or None))
for number in range(20):
    catalog.apply(documents_of(f"{{kind: Tenant, name: {mine}-{number}, priority_class: gold}}"), mine)
    shared = f"{{kind: Tenant, name: shared, priority_class: gold, overrides: {{priority: 0.{mine[1:]}{number}1}}}}"
    catalog.apply(documents_of(shared), mine)
"""


def test_concurrent_processes_lose_no_change(home: Home) -> None:
    command = [sys.executable, "-c", WRITER, str(home.folder), home.dsn or ""]
    writers = [subprocess.Popen([*command, f"w{place}"]) for place in (1, 2, 3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    with closing(Catalog(home)) as catalog:
        names = {item.ref.name for item in catalog.all("Tenant")}
        assert names == {"shared", *(f"w{place}-{number}" for place in (1, 2, 3) for number in range(20))}
        log = catalog.audit(most=1000)
    assert len({entry.id for entry in log}) == len(log) == 3 + 60 + 60
    assert [entry.action for entry in log if entry.name == "shared"] == ["changed"] * 59 + ["created"]


# -- API keys ------------------------------------------------------------------------------------------------------


def known_key(catalog: Catalog, key: str, now: float = 1000.0) -> KeyRecord | None:
    """Return the record of the key that the running system would find, or None."""
    return catalog.desired().keys.record_of(key, now)


def test_key_is_shown_once_and_stored_as_a_hash(catalog: Catalog, home: Home) -> None:
    key, info = catalog.keys.create("ops", ["admin", "ingest:Ticks,other", "tenant:acme"], "root")
    assert len(key) == 48
    assert key.startswith("weir_")
    assert info.scopes == ("admin", "ingest:other", "ingest:ticks", "tenant:acme")
    found = known_key(catalog, key)
    assert found is not None
    assert (found.id, found.scopes) == (info.id, frozenset(info.scopes))
    assert known_key(catalog, key[:-1]) is None
    assert key not in repr(catalog.keys.all()) + repr(catalog.audit()) + repr(found)
    with closing(Catalog(Home(home.folder, home.dsn, "another pepper it is"))) as other:
        assert known_key(other, key) is None


def test_principal_has_at_most_two_live_keys(catalog: Catalog, clock: Clock) -> None:
    first, second = (catalog.keys.create("ops", ["admin"], "root", 1100.0)[1] for _ in range(2))
    with pytest.raises(InvalidInput, match="the principal already has 2 live keys") as caught:
        catalog.keys.create("ops", ["admin"], "root")
    assert first.id in caught.value.hint
    catalog.keys.create("dev", ["admin"], "root")
    catalog.keys.revoke(first.id, "root")
    third, _ = catalog.keys.create("ops", ["admin"], "root")
    clock.now = 1100.0
    assert not {info.id: info for info in catalog.keys.all()}[second.id].is_live(clock.now)
    catalog.keys.create("ops", ["admin"], "root")
    assert known_key(catalog, third, clock.now) is not None


def test_revoked_and_expired_keys_are_refused(catalog: Catalog, clock: Clock) -> None:
    revoked, info = catalog.keys.create("ops", ["admin"], "root")
    expiring, _ = catalog.keys.create("ops", ["admin"], "root", expires_at=1010.0)
    assert len(catalog.desired().keys.records) == 2
    catalog.keys.revoke(info.id, "root")
    catalog.keys.revoke(info.id, "root")
    assert known_key(catalog, revoked) is None
    assert known_key(catalog, expiring) is not None
    clock.now = 1010.0
    assert known_key(catalog, expiring, clock.now) is None
    assert catalog.desired().keys.records == ()
    assert [entry.action for entry in catalog.audit(info.ref)] == ["revoked", "created"]


def test_last_use_of_a_key_is_written_once_per_minute(catalog: Catalog, clock: Clock) -> None:
    _, info = catalog.keys.create("ops", ["admin"], "root")
    seen = []
    for now in (1001.0, 1030.0, 1060.9, 1061.0, 1500.0):
        clock.now = now
        catalog.keys.note_used({info.id: now})
        seen.append(catalog.keys.all()[0].used_at)
    catalog.keys.note_used({info.id: 1510.0, "gone": 1.0})
    assert [*seen, catalog.keys.all()[0].used_at] == [1001.0, 1001.0, 1001.0, 1061.0, 1500.0, 1500.0]


@pytest.mark.parametrize(
    ("principal", "scopes", "message"),
    [
        ("ops", ["root"], "scope: the text is not a scope of a key (got 'root')"),
        ("ops", [], "scope: the key needs at least one scope"),
        ("ops", ["tenant:acmee"], "scope: the catalog has no tenant of this name (got 'tenant:acmee')"),
        ("ops", ["ingest:ticks,"], "scope: the catalog has no stream of this name (got 'ingest:ticks,')"),
        ("ö" * 9, ["admin"], "principal: this is not a valid name (got 'ööööööööö')"),
    ],
)
def test_keys_with_an_invalid_principal_or_scope_are_refused(
    catalog: Catalog, principal: str, scopes: list[str], message: str
) -> None:
    before = picture(catalog)
    with pytest.raises(InvalidInput) as caught:
        catalog.keys.create(principal, scopes, "root")
    assert str(caught.value).startswith(message)
    assert (catalog.keys.all(), picture(catalog)) == ([], before)


def test_pepper_that_is_short_or_readable_by_others_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.pepper() == home.pepper()
    (tmp_path / "pepper").chmod(0o644)
    with pytest.raises(InvalidInput, match="other users may read the pepper, the secret for API keys"):
        home.pepper()
    with pytest.raises(InvalidInput, match="the pepper, the secret for API keys, is too short"):
        Home(tmp_path, given_pepper="salt").pepper()


def test_database_files_do_not_contain_the_key(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with closing(Catalog(home)) as catalog:
        key, _ = catalog.keys.create("ops", ["admin"], "root")
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert key.encode() not in files
    assert key.removeprefix("weir_").encode() not in files


def test_stored_document_has_exactly_the_fields_that_the_user_wrote(catalog: Catalog) -> None:
    text = "{kind: Tenant, name: b, priority_class: gold, overrides: {policy: {kind: hr}, victim: random}}"
    catalog.apply([document(text)], "ops")
    (stored,) = [change.after for change in catalog.diff([document(text)])]
    assert json.loads(json.dumps(stored)) == yaml.safe_load(text)


def test_full_connection_pool_is_reported_as_unavailable() -> None:
    engine = sa.create_engine(
        "sqlite://", poolclass=sa.pool.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0
    )
    with engine.connect(), pytest.raises(CatalogAway, match="too many"), told_as_ours(), engine.connect():
        pass


def test_folders_of_checkpoints_do_not_depend_on_the_folder_in_which_a_command_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, streams = home_of({"WEIR_HOME": str(tmp_path / "home")}), tmp_path / "streams.yaml"
    folders = []
    for place in ("one", "other"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        folders.append((home.feeds, home.ingest(streams), home.ingest(None)))
    assert folders[0] == folders[1]
    assert folders[0][0] == tmp_path / "home" / "feeds"
    assert home.ingest(tmp_path / "one" / "streams.yaml") != home.ingest(tmp_path / "other" / "streams.yaml")
    assert {folder.parent for folder in folders[0][1:]} == {tmp_path / "home" / "ingest"}
