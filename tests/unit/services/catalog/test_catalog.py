"""The catalog over its databases: what is kept, what is refused, what is told of changes, and who may come in."""

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
    """All that is to be seen of it."""
    stored = [(one.ref, one.declaration, one.version, one.reads) for one in catalog.all()]
    return [*stored, *((one.id, one.action, one.name) for one in catalog.audit())]


def refused(catalog: Catalog, text: str) -> str:
    """Why; and nothing has changed."""
    before = picture(catalog)
    with pytest.raises(InvalidInput) as caught:
        catalog.apply(documents_of(text, "new.yaml"), "ops")
    assert picture(catalog) == before
    return str(caught.value).partition("\n")[0]


# -- what is kept --------------------------------------------------------------------------------------------------


def test_everything_is_back_when_it_is_opened_again(catalog: Catalog, home: Home) -> None:
    before, desired = picture(catalog), catalog.desired()
    catalog.close()
    with closing(Catalog(home)) as again:
        assert (picture(again), again.desired()) == (before, desired)


def test_a_mirror_and_its_stream_are_back_when_it_is_opened_again(catalog: Catalog, home: Home) -> None:
    catalog.apply(documents_of(MIRROR), "ops")
    before, desired = picture(catalog), catalog.desired()
    catalog.close()
    with closing(Catalog(home)) as again:
        assert (picture(again), again.desired()) == (before, desired)
        assert (list(desired.mirrors), desired.mirrors["prices"].password) == (["prices"], "hunter2")
        again.delete(Ref("Mirror", "prices"), "ops")
        assert (again.desired().mirrors, "prices" in again.desired().streams) == ({}, True)


def test_new_catalog_has_the_three_priority_classes_that_may_go_for_good(home: Home) -> None:
    with closing(Catalog(home)) as catalog:
        assert [one.ref.name for one in catalog.all()] == ["gold", "silver", "bronze"]
        for name in ("gold", "silver", "bronze"):
            catalog.delete(Ref("PriorityClass", name), "ops")
    with closing(Catalog(home)) as catalog:
        assert catalog.all() == []


def test_putting_what_is_there_changes_nothing(catalog: Catalog) -> None:
    before = picture(catalog)
    assert {one.action for one in catalog.apply(documents_of(BASE), "another")} == {"unchanged"}
    explicit = document("{kind: Tenant, name: acme, priority_class: gold, shards: 1, overrides: {}}")
    catalog.put(explicit.declaration, "another")
    assert picture(catalog) == before


def test_versions_are_given_once(catalog: Catalog) -> None:
    silver = document("{kind: Tenant, name: acme, priority_class: silver}").declaration
    first = catalog.get(ACME).version
    second = catalog.put(silver, "ops", version=first).version
    assert second > first
    with pytest.raises(VersionDiffers, match=f"it is at version {second} now"):
        catalog.put(silver, "ops", version=first)
    with pytest.raises(VersionDiffers):
        catalog.put(silver, "ops", version=0)
    new = document("{kind: Stream, name: s, columns: {x: int64}}").declaration
    third = catalog.put(new, "ops", version=0).version
    catalog.delete(Ref("Stream", "s"), "ops", version=third)
    assert catalog.put(new, "ops").version > third + 1


def test_query_keeps_its_place_when_it_changes(catalog: Catalog) -> None:
    catalog.apply([document("{kind: Query, tenant: acme, name: odd, sql: SELECT value FROM ticks}")], "ops")
    (one,) = catalog.desired().classes
    assert list(one.queries) == ["odd", "big"]
    assert catalog.get(Ref("Query", "big", "acme")).reads == ("odd",)


def test_class_of_a_tenant_has_the_streams_that_its_queries_read(catalog: Catalog) -> None:
    catalog.apply([document("{kind: Tenant, name: idle, priority_class: bronze}")], "ops")
    wanted = catalog.desired()
    (one,) = wanted.classes
    assert (one.name, one.priority, one.delay_target_ms) == ("acme", 6, 300)
    assert one.streams == (wanted.streams["ticks"],)
    assert list(wanted.streams) == ["ticks", "other"]
    assert wanted.file is None


def test_log_tells_who_changed_which_fields_and_no_secret(catalog: Catalog, clock: Clock) -> None:
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


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ref", "by"),
    [
        (Ref("PriorityClass", "gold"), "in use by Tenant acme"),
        (ACME, "in use by Query acme/odd, Query acme/big"),
        (TICKS, "in use by Query acme/odd"),
        (ODD, "in use by Query acme/big"),
    ],
    ids=str,
)
def test_what_is_in_use_is_not_deleted(catalog: Catalog, ref: Ref, by: str) -> None:
    before = picture(catalog)
    with pytest.raises(InUse) as caught:
        catalog.delete(ref, "ops")
    assert by in str(caught.value)
    assert picture(catalog) == before


def test_stream_that_a_feed_or_a_key_needs_is_not_deleted(catalog: Catalog) -> None:
    feed = "{kind: Feed, name: all, source: {format: weir_feeder}, streams: {other: {}}}"
    catalog.apply([document(feed)], "ops")
    _, key = catalog.keys.create("feeder", ["ingest:OTHER"], "ops")
    with pytest.raises(InUse, match=f"in use by Feed all, key {key.id}"):
        catalog.delete(Ref("Stream", "other"), "ops")
    catalog.delete(Ref("Feed", "all"), "ops")
    catalog.keys.revoke(key.id, "ops")
    catalog.delete(Ref("Stream", "other"), "ops")


def test_what_is_not_there_is_told_with_what_is(catalog: Catalog) -> None:
    with pytest.raises(UnknownName, match=r"no such Tenant \(got 'acmee'\)\n  hint: did you mean acme"):
        catalog.get(Ref("Tenant", "acmee"))
    with pytest.raises(UnknownName, match="no such Tenant"):
        catalog.delete(Ref("Query", "odd", "nobody"), "ops")
    with pytest.raises(UnknownName, match="did you mean odd"):
        catalog.get(Ref("Query", "od", "acme"))


GOOD = "{kind: Tenant, name: fine, priority_class: gold}\n---\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "{kind: Tenant, name: b, priority_class: goldd}",
            "document 2 (Tenant b): priority_class: no such PriorityClass (got 'goldd')",
        ),
        (
            "{kind: Query, tenant: fin, name: q, sql: SELECT * FROM ticks}",
            "document 2 (Query q): tenant: no such Tenant (got 'fin')",
        ),
        (
            "{kind: Tenant, name: Acme, priority_class: gold}",
            "document 2 (Tenant Acme): name: the name is in use: Tenant acme (got 'Acme')",
        ),
        (
            "{kind: Stream, name: Odd, columns: {x: int64}}",
            "document 2 (Stream Odd): name: the stream has the name of Query acme/odd, and queries and streams share names (got 'Odd')",
        ),
        (
            "{kind: Query, tenant: fine, name: Ticks, sql: SELECT * FROM other}",
            "document 2 (Query Ticks): name: the query has the name of a stream, and queries and streams share names (got 'Ticks')",
        ),
        (
            "{kind: Query, tenant: fine, name: q, sql: SELECT * FROM odd}",
            "document 2 (Query q): line 1, column 15: sql: there is no such stream (got 'odd')",
        ),
        (
            "{kind: Query, tenant: fine, name: q, sql: SELECT x AS _KEPT FROM other}",
            "document 2 (Query q): sql: every answer has a column of this name (got '_KEPT')",
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
            "document 2 (Stream s): sql: the SQL declares a stream of another name (got 't')",
        ),
        (
            "{kind: Feed, name: f, source: {format: weir_feeder}, streams: {othr: {}}}",
            "document 2 (Feed f): streams: no such Stream (got 'othr')",
        ),
        (
            "{kind: Stream, name: t, columns: {x: int64}, source: {format: weir_feeder}}\n---\n"
            "{kind: Feed, name: t, source: {format: weir_feeder}, streams: {other: {}}}",
            "document 3 (Feed t): feeds: a stream with a source of its own has that name (got 't')",
        ),
        (
            "{kind: Feed, name: f, source: {format: weir_feeder}, streams: {other: {}}}\n---\n"
            "{kind: Feed, name: g, source: {format: weir_feeder}, streams: {other: {}}}",
            "document 3 (Feed g): streams: feed f brings it already (got 'other')",
        ),
        (
            "{kind: Tenant, name: acme, priority_class: gold, shards: 2, key: value}",
            "document 2 (Tenant acme): shards: cannot change while the class runs, from 1 (got 2)",
        ),
        (
            "{kind: Tenant, name: b, priority_class: gold, shards: 2}",
            "document 2 (Tenant b): shards: a class is split by the values of a column (got 2)",
        ),
        (
            "{kind: Tenant, name: b, priority_class: gold, overrides: {victim: fair}}",
            "document 2 (Tenant b): victim: fairness is between the values of a column (got 'fair')",
        ),
        (
            "{kind: PriorityClass, name: gold, priority: 6, delay_target_ms: 300, min_share: 0.6}",
            "Tenant acme: min_share: a minimum share cannot exceed the original share",
        ),
        (
            "{kind: PriorityClass, name: gold, priority: 6, delay_target_ms: 300, limits: {queries: 1}}",
            "document 2 (PriorityClass gold): limits.queries: tenant acme has 2 queries (got 1)",
        ),
        (
            "{kind: Tenant, name: acme, priority_class: gold, limits: {queries: 1}}",
            "document 2 (Tenant acme): limits.queries: the class has as many queries as it may have (got 1)",
        ),
    ],
)
def test_documents_that_do_not_hold_together_change_nothing(catalog: Catalog, text: str, said: str) -> None:
    told = refused(catalog, GOOD + text)
    assert said in told


@pytest.mark.slow
def test_ten_megabytes_of_sql_are_refused_before_they_are_read(catalog: Catalog, tmp_path: Path) -> None:
    query = "{kind: Query, tenant: acme, name: q, sql: '%s'}"
    assert "sql: must have at most 100,000 characters" in refused(catalog, query % ("x" * 10_000_000))
    assert "sql: " in refused(catalog, query % ("SELECT " + "(" * 90_000))


def test_broken_catalog_is_told_as_such(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.database.write_text("this is no database, however long it is " * 100, encoding="utf-8")
    with pytest.raises(CatalogAway, match="not a database"):
        Catalog(home)
    with pytest.raises(CatalogAway):
        Catalog(Home(tmp_path, "postgresql://nobody@127.0.0.1:1/none"))
    with pytest.raises(InvalidInput, match="not a PostgreSQL database") as caught:
        Catalog(Home(tmp_path, "mysql://me:HUSH@host/db"))
    assert "HUSH" not in str(caught.value)


# -- the database --------------------------------------------------------------------------------------------------


def test_tables_are_what_the_migrations_make(home: Home) -> None:
    with closing(Database(home)) as database, database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert revision_of(connection) == REVISION == ScriptDirectory(str(MIGRATIONS)).get_current_head()


def test_catalog_of_a_newer_version_is_left_alone(home: Home) -> None:
    with closing(Database(home)) as database, database.changing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(InvalidInput, match=r"a newer version of Weir has made this catalog \(got '9999'\)"):
        Catalog(home)


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
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


def test_processes_that_change_it_at_a_time_lose_nothing(home: Home) -> None:
    command = [sys.executable, "-c", WRITER, str(home.folder), home.dsn or ""]
    writers = [subprocess.Popen([*command, f"w{place}"]) for place in (1, 2, 3)]
    assert [one.wait() for one in writers] == [0, 0, 0]
    with closing(Catalog(home)) as catalog:
        names = {one.ref.name for one in catalog.all("Tenant")}
        assert names == {"shared", *(f"w{place}-{number}" for place in (1, 2, 3) for number in range(20))}
        log = catalog.audit(most=1000)
    assert len({one.id for one in log}) == len(log) == 3 + 60 + 60
    assert [one.action for one in log if one.name == "shared"] == ["changed"] * 59 + ["created"]


# -- keys ----------------------------------------------------------------------------------------------------------


def known(catalog: Catalog, key: str, now: float = 1000.0) -> KeyRecord | None:
    """Who comes in with it, where the running system's keys are shown."""
    return catalog.desired().keys.record_of(key, now)


def test_key_is_shown_once_and_kept_as_its_hash(catalog: Catalog, home: Home) -> None:
    key, info = catalog.keys.create("ops", ["admin", "ingest:Ticks,other", "tenant:acme"], "root")
    assert len(key) == 48
    assert key.startswith("weir_")
    assert info.scopes == ("admin", "ingest:other", "ingest:ticks", "tenant:acme")
    found = known(catalog, key)
    assert found is not None
    assert (found.id, found.scopes) == (info.id, frozenset(info.scopes))
    assert known(catalog, key[:-1]) is None
    assert key not in repr(catalog.keys.all()) + repr(catalog.audit()) + repr(found)
    with closing(Catalog(Home(home.folder, home.dsn, "another pepper it is"))) as other:
        assert known(other, key) is None


def test_principal_has_two_live_keys(catalog: Catalog, clock: Clock) -> None:
    first, second = (catalog.keys.create("ops", ["admin"], "root", 1100.0)[1] for _ in range(2))
    with pytest.raises(InvalidInput, match="has 2 live keys already") as caught:
        catalog.keys.create("ops", ["admin"], "root")
    assert first.id in caught.value.hint
    catalog.keys.create("dev", ["admin"], "root")
    catalog.keys.revoke(first.id, "root")
    third, _ = catalog.keys.create("ops", ["admin"], "root")
    clock.now = 1100.0
    assert not {one.id: one for one in catalog.keys.all()}[second.id].is_live(clock.now)
    catalog.keys.create("ops", ["admin"], "root")
    assert known(catalog, third, clock.now) is not None


def test_revoked_and_expired_keys_are_nobodys(catalog: Catalog, clock: Clock) -> None:
    one, info = catalog.keys.create("ops", ["admin"], "root")
    other, _ = catalog.keys.create("ops", ["admin"], "root", expires_at=1010.0)
    assert len(catalog.desired().keys.records) == 2
    catalog.keys.revoke(info.id, "root")
    catalog.keys.revoke(info.id, "root")
    assert known(catalog, one) is None
    assert known(catalog, other) is not None
    clock.now = 1010.0
    assert known(catalog, other, clock.now) is None
    assert catalog.desired().keys.records == ()
    assert [entry.action for entry in catalog.audit(info.ref)] == ["revoked", "created"]


def test_last_use_is_written_once_a_minute(catalog: Catalog, clock: Clock) -> None:
    _, info = catalog.keys.create("ops", ["admin"], "root")
    seen = []
    for now in (1001.0, 1030.0, 1060.9, 1061.0, 1500.0):
        clock.now = now
        catalog.keys.note_used({info.id: now})
        seen.append(catalog.keys.all()[0].used_at)
    catalog.keys.note_used({info.id: 1510.0, "gone": 1.0})
    assert [*seen, catalog.keys.all()[0].used_at] == [1001.0, 1001.0, 1001.0, 1061.0, 1500.0, 1500.0]


@pytest.mark.parametrize(
    ("principal", "scopes", "said"),
    [
        ("ops", ["root"], "scope: not a scope (got 'root')"),
        ("ops", [], "scope: a key is for something"),
        ("ops", ["tenant:acmee"], "scope: no such tenant (got 'tenant:acmee')"),
        ("ops", ["ingest:ticks,"], "scope: no such stream (got 'ingest:ticks,')"),
        ("ö" * 9, ["admin"], "principal: not a valid name (got 'ööööööööö')"),
    ],
)
def test_keys_that_cannot_be_are_refused(
    catalog: Catalog, principal: str, scopes: list[str], said: str
) -> None:
    before = picture(catalog)
    with pytest.raises(InvalidInput) as caught:
        catalog.keys.create(principal, scopes, "root")
    assert str(caught.value).startswith(said)
    assert (catalog.keys.all(), picture(catalog)) == ([], before)


def test_pepper_that_others_may_read_or_that_is_short_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.pepper() == home.pepper()
    (tmp_path / "pepper").chmod(0o644)
    with pytest.raises(InvalidInput, match="others may read the pepper"):
        home.pepper()
    with pytest.raises(InvalidInput, match="too short"):
        Home(tmp_path, given_pepper="salt").pepper()


def test_tables_hold_no_key_in_any_form(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with closing(Catalog(home)) as catalog:
        key, _ = catalog.keys.create("ops", ["admin"], "root")
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert key.encode() not in files
    assert key.removeprefix("weir_").encode() not in files


def test_document_is_kept_as_it_was_written(catalog: Catalog) -> None:
    text = "{kind: Tenant, name: b, priority_class: gold, overrides: {policy: {kind: hr}, victim: random}}"
    catalog.apply([document(text)], "ops")
    (told,) = [one.after for one in catalog.diff([document(text)])]
    assert json.loads(json.dumps(told)) == yaml.safe_load(text)


def test_catalog_that_too_many_wait_for_is_away() -> None:
    engine = sa.create_engine(
        "sqlite://", poolclass=sa.pool.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0
    )
    with engine.connect(), pytest.raises(CatalogAway, match="too many"), told_as_ours(), engine.connect():
        pass


def test_checkpoints_do_not_depend_on_the_folder_a_command_starts_in(
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
