"""Reconciling: steps lead from what runs to what the catalog declares, and a failed step stops no other step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from configs.classes.live_class import LiveClass
from configs.documents.declarations import MirrorDeclaration, Ref, documents_of
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
from tests.support.clock import Clock

WAIT_S = 60.0
LOOK_S = 0.01
FILE = StreamsFile.model_validate(
    {"streams": {"s": {"columns": {"x": "int64"}, "source": {"format": "weir_feeder"}}}}
)


class Machine:
    """System in memory that performs steps, and asserts the conditions under which a real system can perform each step."""

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
    classes, streams = {class_.name: class_ for class_ in now.classes}, dict(now.streams)
    mirrors = dict(now.mirrors)
    match step:
        case EndMirror(name):
            del mirrors[name]
        case BeginMirror(mirror):
            assert mirror.name not in mirrors, "the previous mirror still polls"
            assert mirror.name in streams, "the mirror has no stream"
            mirrors[mirror.name] = mirror
        case PublishKeys(keys):
            return replace(now, keys=keys)
        case Bring(file):
            return replace(now, file=file)
        case RemoveClass(name):
            classes.pop(name, None)
        case DropStream(name):
            assert name not in mirrors, "a mirror still fills the stream"
            sql = streams.pop(name)
            assert not any(sql in class_.streams for class_ in classes.values()), (
                "a class still reads the stream"
            )
        case DeclareStream(name, sql):
            assert name not in streams, "the stream exists already"
            read = {other for class_ in classes.values() for other in class_.streams}
            assert sql in read or name_of(sql) not in map(name_of, read), (
                "a class reads another stream of this name"
            )
            streams[name] = sql
        case ApplyClasses(changed):
            for class_ in changed:
                assert class_.name not in classes or classes[class_.name].shards == class_.shards
                others = set(streams.values()) - set(class_.streams)
                assert not {name_of(sql) for sql in class_.streams} & set(map(name_of, others)), (
                    "another stream of this name exists"
                )
                classes[class_.name] = class_
    return replace(now, classes=tuple(classes.values()), streams=streams, mirrors=mirrors)


@st.composite
def desired_states(draw: st.DrawFn) -> Desired:
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
        if name in streams  # A mirror has a stream of the same name, and the stream changes with the mirror
    }
    return Desired(0, classes, streams, draw(st.sampled_from([None, FILE])), keys, mirrors)


@given(st.lists(desired_states(), max_size=5))
def test_reconciliation_leads_from_any_running_state_to_the_desired_state(wanted: list[Desired]) -> None:
    now = SystemState()
    for desired in wanted:
        for step in steps(desired, now):
            now = after(now, step)
        running, declared = ({class_.name: class_ for class_ in state.classes} for state in (now, desired))
        assert running == declared
        assert (now.streams, now.file, now.keys) == (desired.streams, desired.file, desired.keys)
        assert now.mirrors == desired.mirrors
        assert steps(desired, now) == []


def test_stream_with_equivalent_sql_is_not_declared_again() -> None:
    desired = Desired(0, (), {"s": "CREATE STREAM s (x int64)"}, None, KeyRing())
    now = SystemState(streams={"s": "create stream s (x BIGINT)"}, keys=KeyRing())
    assert steps(desired, now) == []


DOCUMENTS = """
{kind: Stream, name: s, columns: {x: int64}}
---
{kind: Tenant, name: a, priority_class: gold}
---
{kind: Query, tenant: a, name: q, sql: SELECT * FROM s}
"""


def has_classes(*names: str) -> Callable[[SystemState], bool]:
    return lambda running: tuple(class_.name for class_ in running.classes) == names


def test_system_follows_the_catalog_also_after_a_restart(tmp_path: Path) -> None:
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


def test_query_starts_and_ends_at_its_times_also_after_a_restart(tmp_path: Path) -> None:
    clock, home = Clock(), Home(tmp_path)
    timed = DOCUMENTS.replace("sql:", "start: 1970-01-01T00:03:20Z, stop: 1970-01-01T00:05:00Z, sql:")
    with closing(Catalog(home, clock)) as catalog:
        machine = Machine()
        with Reconciling(catalog, machine, LOOK_S) as reconciling:
            catalog.apply(documents_of(timed), "x")
            assert reconciling.wait_enacted(WAIT_S)
            assert has_classes()(machine.now)
            clock.now = 200.0
            machine.wait(lambda now: [list(class_.queries) for class_ in now.classes] == [["q"]])
    with closing(Catalog(home, clock)) as catalog:
        with Reconciling(catalog, machine, LOOK_S):
            clock.now = 400.0
            # The class stays without queries, so that the answers of its ended query can be read.
            machine.wait(lambda now: [list(class_.queries) for class_ in now.classes] == [[]])
        new_machine = Machine()
        with Reconciling(catalog, new_machine, LOOK_S):
            assert has_classes()(new_machine.now)
        with Reconciling(catalog, machine, LOOK_S):
            catalog.delete(Ref("Query", "q", "a"), "x")
            machine.wait(has_classes())


def test_failed_change_of_the_system_is_reported_and_other_changes_are_made(tmp_path: Path) -> None:
    with closing(Catalog(Home(tmp_path))) as catalog:
        machine = Machine()
        machine.fails = lambda step: isinstance(step, ApplyClasses)
        with Reconciling(catalog, machine, LOOK_S) as reconciling:
            catalog.apply(documents_of(DOCUMENTS), "x")
            machine.wait(lambda now: "s" in now.streams)
            catalog.apply(documents_of("{kind: Stream, name: t, columns: {x: int64}}"), "x")
            machine.wait(lambda now: "t" in now.streams)
            assert all("not today" in problem for problem in reconciling.problems)
            machine.fails = lambda step: False
            machine.wait(has_classes("a"))


def test_classes_start_although_another_change_of_the_system_fails_at_the_start(tmp_path: Path) -> None:
    with closing(Catalog(Home(tmp_path))) as catalog:
        catalog.apply(documents_of(DOCUMENTS), "x")
        machine = Machine()
        machine.fails = lambda step: isinstance(step, DeclareStream | PublishKeys)
        machine.now = SystemState(streams=catalog.desired().streams)
        with Reconciling(catalog, machine, LOOK_S) as reconciling:
            assert has_classes("a")(machine.now)
            assert list(reconciling.problems) == ["PublishKeys: not today"]


def test_time_of_a_keys_last_use_is_written_to_the_catalog(tmp_path: Path) -> None:
    with closing(Catalog(Home(tmp_path))) as catalog:
        _, info = catalog.keys.create("ops", ["admin"], "x")
        machine = Machine()
        machine.used = {info.id: 5.0}
        with Reconciling(catalog, machine, LOOK_S):
            catalog.apply(documents_of(DOCUMENTS), "x")
            machine.wait(has_classes("a"))
        assert catalog.keys.all()[0].used_at == 5.0


def class_over(name: str, *columns: str, streams: dict[str, str]) -> LiveClass:
    """Return a class with one query per stream. Each query reads one of the columns."""
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


def test_class_runs_without_a_stream_while_the_stream_is_replaced() -> None:
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


def test_stream_declared_with_its_name_in_another_case_replaces_the_stream() -> None:
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


def test_new_stream_is_declared_after_the_classes_that_read_it() -> None:
    sql = "CREATE STREAM a (v int64)"
    wanted = class_over("t", "v", streams={"a": sql})
    found = steps(Desired(1, (wanted,), {"a": sql}, None, KeyRing()), SystemState())
    assert found[1:] == [ApplyClasses((wanted,)), DeclareStream("a", sql)]


def test_awaited_change_is_enacted_before_the_next_poll(tmp_path: Path) -> None:
    with closing(Catalog(Home(tmp_path))) as catalog:
        machine = Machine()
        with Reconciling(catalog, machine, look_s=2 * WAIT_S) as reconciling:
            catalog.apply(documents_of(DOCUMENTS), "x")
            assert reconciling.wait_enacted(WAIT_S)
            assert has_classes("a")(machine.now)
            assert reconciling.wait_enacted(0.0)


def test_wait_for_a_change_times_out_if_the_system_does_not_answer(tmp_path: Path) -> None:
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
    """System that refuses classes with a query that cannot be planned, as a control plane does."""

    def perform(self, step: Step) -> None:
        if isinstance(step, ApplyClasses):
            for class_ in step.classes:
                checked(class_)
        super().perform(step)


def test_queries_that_cannot_be_planned_do_not_stop_other_queries(tmp_path: Path) -> None:
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
    assert [problem.partition(": ")[0] for problem in problems] == [
        "Query bad/worse does not run",
        "Query none/worse does not run",
    ]
    assert all(why in problem for problem in problems)
    assert again == problems
