"""What is wanted and what runs: steps lead from one to the other, and the thread goes on whatever fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from configs.classes.live_class import LiveClass
from configs.documents.declarations import MirrorDeclaration, documents_of
from configs.documents.spark_streams import StreamsFile
from configs.errors import Away, InvalidInput
from engine.class_.admission import checked
from engine.sql import parse_create_stream
from services.catalog.catalog import Catalog, Desired
from services.catalog.reconcile import (
    ApplyClasses,
    BeginMirror,
    Bring,
    DeclareStream,
    DropStream,
    EndMirror,
    PublishKeys,
    Reconciling,
    RemoveClass,
    Step,
    SystemState,
    steps,
)
from services.common.weir_home import Home
from services.ingest.keys import KeyRing

WAIT_S = 60.0
LOOK_S = 0.01
FILE = StreamsFile.model_validate(
    {"streams": {"s": {"columns": {"x": "int64"}, "source": {"format": "weir_feeder"}}}}
)


class Machine:
    """Runs what it is told in memory, and refuses what a real one would."""

    def __init__(self, running: SystemState | None = None) -> None:
        self.now = running or SystemState()
        self.fails: Callable[[Step], bool] = lambda step: False
        self.changed = threading.Condition()
        self.used: dict[str, float] = {}

    def running(self) -> SystemState:
        return self.now

    def report_caught_up(self) -> None:
        pass

    def used_keys(self) -> dict[str, float]:
        return self.used

    def stop(self) -> None:
        pass

    def perform(self, step: Step) -> None:
        if self.fails(step):
            raise InvalidInput("not today")
        with self.changed:
            self.now = after(self.now, step)
            self.changed.notify_all()

    def wait(self, until: Callable[[SystemState], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: until(self.now), WAIT_S)


def name_of(sql: str) -> str:
    return parse_create_stream(sql).name.lower()


def after(now: SystemState, step: Step) -> SystemState:
    classes, streams = {one.name: one for one in now.classes}, dict(now.streams)
    mirrors = dict(now.mirrors)
    match step:
        case EndMirror(name):
            del mirrors[name]
        case BeginMirror(mirror):
            assert mirror.name not in mirrors, "the one before polls"
            assert mirror.name in streams, "nobody takes what it brings"
            mirrors[mirror.name] = mirror
        case PublishKeys(keys):
            return replace(now, keys=keys)
        case Bring(file):
            return replace(now, file=file)
        case RemoveClass(name):
            classes.pop(name, None)
        case DropStream(name):
            assert name not in mirrors, "a mirror brings it"
            sql = streams.pop(name)
            assert not any(sql in one.streams for one in classes.values()), "somebody reads it"
        case DeclareStream(name, sql):
            assert name not in streams, "another is there"
            read = {other for one in classes.values() for other in one.streams}
            assert sql in read or name_of(sql) not in map(name_of, read), "a class reads another one"
            streams[name] = sql
        case ApplyClasses(changed):
            for one in changed:
                assert one.name not in classes or classes[one.name].shards == one.shards
                others = set(streams.values()) - set(one.streams)
                assert not {name_of(sql) for sql in one.streams} & set(map(name_of, others)), (
                    "another is there"
                )
                classes[one.name] = one
    return replace(now, classes=tuple(classes.values()), streams=streams, mirrors=mirrors)


@st.composite
def wishes(draw: st.DrawFn) -> Desired:
    columns = draw(st.dictionaries(st.sampled_from("stu"), st.sampled_from("xy")))
    streams = {name: f"CREATE STREAM {name} ({column} int64)" for name, column in columns.items()}
    names = draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True))
    classes = tuple(
        LiveClass(
            name=name,
            priority=draw(st.integers(1, 2)),
            delay_target_ms=100,
            shards=draw(st.integers(1, 2)),
            key="x",
            streams=tuple(
                sorted(draw(st.sets(st.sampled_from(sorted(streams.values())))) if streams else ())
            ),
        )
        for name in names
    )
    keys = KeyRing(pepper=draw(st.sampled_from([b"", b"p"])))
    mirrors = {
        name: MirrorDeclaration(kind="Mirror", name=name, sql=f"{name} {columns[name]} {version}")
        for name, version in draw(st.dictionaries(st.sampled_from("stu"), st.integers(1, 2))).items()
        if name in streams  # each has its stream, with which it changes
    }
    return Desired(0, classes, streams, draw(st.sampled_from([None, FILE])), keys, mirrors)


@given(st.lists(wishes(), max_size=5))
def test_steps_lead_from_whatever_runs_to_what_is_wanted(wanted: list[Desired]) -> None:
    now = SystemState()
    for one in wanted:
        for step in steps(one, now):
            now = after(now, step)
        assert {it.name: it for it in now.classes} == {it.name: it for it in one.classes}
        assert (now.streams, now.file, now.keys) == (one.streams, one.file, one.keys)
        assert now.mirrors == one.mirrors
        assert steps(one, now) == []


def test_stream_that_is_written_otherwise_is_the_same() -> None:
    one = Desired(0, (), {"s": "CREATE STREAM s (x int64)"}, None, KeyRing())
    now = SystemState(streams={"s": "create stream s (x BIGINT)"}, keys=KeyRing())
    assert steps(one, now) == []


DOCUMENTS = """
{kind: Stream, name: s, columns: {x: int64}}
---
{kind: Tenant, name: a, priority_class: gold}
---
{kind: Query, tenant: a, name: q, sql: SELECT * FROM s}
"""


def has_classes(*names: str) -> Callable[[SystemState], bool]:
    return lambda running: tuple(one.name for one in running.classes) == names


def test_machine_follows_the_catalog_and_a_new_one_has_it_all_again(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with closing(Catalog(home)) as catalog:
        machine = Machine()
        with Reconciling(catalog, machine, LOOK_S):
            assert machine.now.classes == ()
            catalog.apply(documents_of(DOCUMENTS), "x")
            machine.wait(has_classes("a"))
            key, info = catalog.keys.create("ops", ["admin"], "x")
            machine.wait(lambda now: now.keys is not None and now.keys.record_of(key, 0) is not None)
            catalog.keys.revoke(info.id, "x")
            machine.wait(lambda now: now.keys == KeyRing())
    with closing(Catalog(home)) as catalog:
        again = Machine()
        with Reconciling(catalog, again, LOOK_S):
            assert again.now == machine.now


def test_what_fails_is_told_and_keeps_nothing_else_from_being_done(tmp_path: Path) -> None:
    with closing(Catalog(Home(tmp_path))) as catalog:
        machine = Machine()
        machine.fails = lambda step: isinstance(step, ApplyClasses)
        with Reconciling(catalog, machine, LOOK_S) as reconciling:
            catalog.apply(documents_of(DOCUMENTS), "x")
            machine.wait(lambda now: "s" in now.streams)
            catalog.apply(documents_of("{kind: Stream, name: t, columns: {x: int64}}"), "x")
            machine.wait(lambda now: "t" in now.streams)
            assert all("not today" in one for one in reconciling.problems)
            machine.fails = lambda step: False
            machine.wait(has_classes("a"))


def test_one_thing_that_cannot_be_keeps_nothing_else_from_coming_back(tmp_path: Path) -> None:
    with closing(Catalog(Home(tmp_path))) as catalog:
        catalog.apply(documents_of(DOCUMENTS), "x")
        machine = Machine()
        machine.fails = lambda step: isinstance(step, DeclareStream | PublishKeys)
        machine.now = SystemState(streams=catalog.desired().streams)
        with Reconciling(catalog, machine, LOOK_S) as reconciling:
            assert has_classes("a")(machine.now)
            assert list(reconciling.problems) == ["PublishKeys: not today"]


def test_use_of_keys_at_the_machine_is_written(tmp_path: Path) -> None:
    with closing(Catalog(Home(tmp_path))) as catalog:
        _, info = catalog.keys.create("ops", ["admin"], "x")
        machine = Machine()
        machine.used = {info.id: 5.0}
        with Reconciling(catalog, machine, LOOK_S):
            catalog.apply(documents_of(DOCUMENTS), "x")
            machine.wait(has_classes("a"))
        assert catalog.keys.all()[0].used_at == 5.0


def class_over(name: str, *columns: str, streams: dict[str, str]) -> LiveClass:
    """A class with a query over each of these streams, by the column that it reads."""
    return LiveClass(
        name=name,
        priority=1,
        delay_target_ms=100,
        streams=tuple(streams.values()),
        queries={
            f"q{stream}": f"SELECT {column} FROM {stream}"
            for stream, column in zip(streams, columns, strict=True)
        },
    )


def test_class_goes_on_without_a_stream_that_becomes_another_one() -> None:
    a, before, after = "CREATE STREAM a (v int64)", "CREATE STREAM b (v int64)", "CREATE STREAM b (w int64)"
    running = SystemState((class_over("t", "v", "v", streams={"a": a, "b": before}),), {"a": a, "b": before})
    wanted = class_over("t", "v", "w", streams={"a": a, "b": after})
    alone = class_over("t", "v", streams={"a": a})
    found = steps(Desired(1, (wanted,), {"a": a, "b": after}, None, KeyRing()), running)
    assert found[1:] == [
        ApplyClasses((alone,)),
        DropStream("b"),
        ApplyClasses((wanted,)),
        DeclareStream("b", after),
    ]


def test_names_that_differ_in_letters_case_are_one_stream() -> None:
    before, after = "CREATE STREAM a (v int64)", "CREATE STREAM A (v int64)"
    running = SystemState((class_over("t", "v", streams={"a": before}),), {"a": before})
    wanted = class_over("t", "v", streams={"A": after})
    found = steps(Desired(1, (wanted,), {"A": after}, None, KeyRing()), running)
    assert found[1:] == [
        RemoveClass("t"),
        DropStream("a"),
        ApplyClasses((wanted,)),
        DeclareStream("A", after),
    ]


def test_new_stream_comes_with_the_classes_that_read_it() -> None:
    sql = "CREATE STREAM a (v int64)"
    wanted = class_over("t", "v", streams={"a": sql})
    found = steps(Desired(1, (wanted,), {"a": sql}, None, KeyRing()), SystemState())
    assert found[1:] == [ApplyClasses((wanted,)), DeclareStream("a", sql)]


def test_change_that_is_waited_for_is_enacted_before_the_next_look(tmp_path: Path) -> None:
    with closing(Catalog(Home(tmp_path))) as catalog:
        machine = Machine()
        with Reconciling(catalog, machine, look_s=2 * WAIT_S) as reconciling:
            catalog.apply(documents_of(DOCUMENTS), "x")
            assert reconciling.wait_enacted(WAIT_S)
            assert has_classes("a")(machine.now)
            assert reconciling.wait_enacted(0.0)


def test_wait_for_a_change_ends_in_time_where_the_system_does_not_answer(tmp_path: Path) -> None:
    class Gone(Machine):
        def running(self) -> SystemState:
            if self.now.classes:
                raise Away("nobody answers")
            return super().running()

    with closing(Catalog(Home(tmp_path))) as catalog:
        catalog.apply(documents_of(DOCUMENTS), "x")
        with Reconciling(catalog, Gone(), look_s=LOOK_S) as reconciling:
            catalog.apply(documents_of("{kind: Stream, name: t, columns: {x: int64}}"), "x")
            assert not reconciling.wait_enacted(LOOK_S)


class Planning(Machine):
    """Refuses classes some query of which cannot be planned, as a control plane does."""

    def perform(self, step: Step) -> None:
        if isinstance(step, ApplyClasses):
            for one in step.classes:
                checked(one)
        super().perform(step)


def test_classes_that_can_run_do_and_so_do_the_other_queries_of_one_that_cannot(tmp_path: Path) -> None:
    a = "CREATE STREAM a (v int64)"
    good = class_over("good", "v", streams={"a": a})
    bad = good.model_copy(
        update={
            "name": "bad",
            "queries": {**good.queries, "worse": "SELECT v FROM nothing"},
            "weights": {"worse": 2.0, "qa": 3.0},
        }
    )
    none = good.model_copy(update={"name": "none", "queries": {"worse": "SELECT v FROM nothing"}})
    with closing(Catalog(Home(tmp_path))) as catalog:
        machine = Planning()
        reconciling = Reconciling(catalog, machine)
        reconciling._wanted = Desired(1, (good, bad, none), {"a": a}, None, KeyRing())
        problems = reconciling._follow()
        ran = machine.now.classes
        again = reconciling._follow()
    left = bad.model_copy(update={"queries": good.queries, "weights": {"qa": 3.0}})
    assert ran == machine.now.classes == (good, left)
    why = "there is no such stream (got 'nothing'); known: a"
    assert [one.partition(": ")[0] for one in problems] == [
        "Query bad/worse does not run",
        "Query none/worse does not run",
    ]
    assert all(why in one for one in problems)
    assert again == problems
