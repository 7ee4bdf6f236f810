"""Decisions of the feed supervisor, without Spark: a feed that starts, fails, changes or ends does not affect other feeds."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingest.feed_supervisor import (
    BatchDone,
    Command,
    DeclaredFeeds,
    Event,
    FeedFailed,
    FeedStopped,
    Start,
    Started,
    Stop,
    Supervisor,
    Tick,
)


def handled(supervisor: Supervisor[str], *events: tuple[float, Event[str]]) -> list[list[Command[str]]]:
    return [supervisor.handle(event, now) for now, event in events]


def running(**feeds: str) -> Supervisor[str]:
    """Return a supervisor with the given feeds, which are all declared and running."""
    supervisor = Supervisor[str]()
    supervisor.handle(DeclaredFeeds(feeds), 0.0)
    for name in feeds:
        supervisor.handle(Started(name), 0.0)
    return supervisor


def test_feed_that_cannot_start_does_not_affect_other_feeds() -> None:
    supervisor = Supervisor[str]()
    assert handled(
        supervisor,
        (0.0, DeclaredFeeds({"good": "g", "broken": "b"})),
        (1.0, Started("good")),
        (1.0, FeedFailed("broken", "Path does not exist")),
        (1.4, Tick()),
        (1.5, Tick()),
        (1.6, FeedFailed("broken", "Path does not exist")),
        (2.5, Tick()),
        (2.6, Tick()),
    ) == [
        [Start("good", "g"), Start("broken", "b")],
        [],
        [],
        [],
        [Start("broken", "b")],
        [],
        [],
        [Start("broken", "b")],
    ]
    assert [(name, feed.run, feed.restarts, feed.last_error) for name, feed in supervisor.feeds.items()] == [
        ("good", "running", 0, None),
        ("broken", "starting", 2, "Path does not exist"),
    ]


def test_added_feed_starts_without_affecting_running_feeds() -> None:
    supervisor = running(first="f")
    assert supervisor.handle(DeclaredFeeds({"first": "f", "second": "s"}), 1.0) == [Start("second", "s")]


def test_removed_feed_is_forgotten_when_its_query_has_ended() -> None:
    supervisor = running(first="f", second="s")
    assert supervisor.handle(DeclaredFeeds({"first": "f"}), 1.0) == [Stop("second")]
    assert list(supervisor.feeds) == ["first", "second"]
    assert supervisor.handle(FeedStopped("second"), 2.0) == []
    assert list(supervisor.feeds) == ["first"]


def test_changed_feed_starts_when_its_old_query_has_ended() -> None:
    supervisor = running(first="f", second="s")
    assert handled(
        supervisor,
        (1.0, DeclaredFeeds({"first": "f", "second": "other"})),
        (1.0, Tick()),
        (4.0, FeedStopped("second")),
    ) == [[Stop("second")], [], [Start("second", "other")]]


def test_feed_that_is_changed_while_it_starts_is_stopped_and_started_as_changed() -> None:
    supervisor = Supervisor[str]()
    assert handled(
        supervisor,
        (0.0, DeclaredFeeds({"slow": "a"})),
        (1.0, DeclaredFeeds({"slow": "b"})),
        (9.0, Started("slow")),
        (9.5, FeedStopped("slow")),
    ) == [[Start("slow", "a")], [], [Stop("slow")], [Start("slow", "b")]]


def test_feed_that_is_changed_after_failures_is_started_without_waiting() -> None:
    supervisor = Supervisor[str]()
    supervisor.handle(DeclaredFeeds({"broken": "a"}), 0.0)
    for second in range(10):
        supervisor.handle(FeedFailed("broken", "no such path"), 100.0 * second)
        supervisor.handle(Tick(), 100.0 * second + 99.0)
    supervisor.handle(FeedFailed("broken", "no such path"), 2000.0)
    assert supervisor.feeds["broken"].due == 2030.0
    assert supervisor.handle(DeclaredFeeds({"broken": "b"}), 2001.0) == [Start("broken", "b")]
    supervisor.handle(FeedFailed("broken", "no such column"), 2002.0)
    assert supervisor.feeds["broken"].due == 2002.5


def test_error_of_a_replaced_declaration_is_not_shown() -> None:
    supervisor = Supervisor[str]()
    supervisor.handle(DeclaredFeeds({"broken": "a"}), 0.0)
    supervisor.handle(DeclaredFeeds({"broken": "b"}), 1.0)
    assert supervisor.handle(FeedFailed("broken", "of a"), 2.0) == [Start("broken", "b")]
    assert supervisor.feeds["broken"].last_error is None


@pytest.mark.parametrize(
    "event", [FeedFailed("gone", "why"), FeedStopped("gone"), Started("gone"), BatchDone("gone")]
)
def test_events_of_a_removed_feed_change_nothing(event: Event[str]) -> None:
    supervisor = running(first="f")
    assert supervisor.handle(event, 1.0) == []
    assert list(supervisor.feeds) == ["first"]


def test_finished_batch_resets_the_pause_between_restarts() -> None:
    supervisor = running(feed="f")
    for second in range(10):
        supervisor.handle(FeedFailed("feed", "why"), 100.0 * second)
        supervisor.handle(Tick(), 100.0 * second + 99.0)
        supervisor.handle(Started("feed"), 100.0 * second + 99.0)
    supervisor.handle(BatchDone("feed"), 1500.0)
    supervisor.handle(FeedFailed("feed", "why"), 1600.0)
    assert supervisor.feeds["feed"].due == 1600.5


# -- random sequences of events ---------------------------------------------------------------------------------------

NAMES = ("a", "b", "c")


@dataclass
class World:
    """Model of Spark's queries, in which a start or stop takes effect only after some other events."""

    starting: dict[str, str] = field(default_factory=dict)
    active: dict[str, str] = field(default_factory=dict)
    stopping: set[str] = field(default_factory=set)

    def enact(self, commands: list[Command[str]], about: str | None, changed: set[str]) -> None:
        for command in commands:
            assert about is None or command.feed == about
            assert about is not None or command.feed in changed
            match command:
                case Start(name, spec):
                    assert name not in self.starting
                    assert name not in self.active
                    self.starting[name] = spec
                case Stop(name):
                    assert name in self.active
                    self.stopping.add(name)

    def next_event(self, name: str, fails: bool) -> Event[str] | None:
        if name in self.starting:
            spec = self.starting.pop(name)
            if fails:
                return FeedFailed(name, "cannot start")
            self.active[name] = spec
            return Started(name)
        if name in self.stopping:
            self.stopping.remove(name)
            del self.active[name]
            return FeedStopped(name)
        if name in self.active and fails:
            del self.active[name]
            return FeedFailed(name, "has ended")
        return None


declarations = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["x", "y"]))
steps = st.lists(declarations | st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=60)


@given(steps)
def test_each_feed_finally_runs_as_declared_with_at_most_one_query(
    drawn_steps: list[dict[str, str] | tuple[str, bool]],
) -> None:
    supervisor, world, wanted, now = Supervisor[str](), World(), dict[str, str](), 0.0
    for step in drawn_steps:
        now += 1.0
        if isinstance(step, dict):
            changed = {name for name in NAMES if step.get(name) != wanted.get(name)}
            wanted = step
            before = {name for name, feed in supervisor.feeds.items() if feed.run == "none"}
            world.enact(supervisor.handle(DeclaredFeeds(step), now), None, changed | before)
        else:
            event = world.next_event(*step)
            if event is not None:
                world.enact(supervisor.handle(event, now), step[0], set())
    # In the rest of the test, no query fails.
    for _ in range(6):
        now += 60.0
        world.enact(supervisor.handle(Tick(), now), None, set(NAMES))
        for name in NAMES:
            event = world.next_event(name, fails=False)
            if event is not None:
                world.enact(supervisor.handle(event, now), name, set())
    assert world.active == wanted
    assert list(world.starting) == [] == list(world.stopping)
    assert {name: feed.run for name, feed in supervisor.feeds.items()} == dict.fromkeys(
        supervisor.feeds, "running"
    )
    assert set(supervisor.feeds) == set(wanted)
