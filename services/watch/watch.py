"""Views of the running system for all readers. A thread polls the coordinator once per second, or earlier if a reader needs it.

Example:

    with Watch(source) as watch:
        watch.view()           # current view, at most FRESH_S old
        watch.history          # one sample per second of every class

Guarantees:
1. However many readers there are, polls do not overlap, and readers cause at most one poll every FRESH_S.
2. While the coordinator does not answer, `view` returns the last view at once; `age_s` returns its age.
3. While nothing changes in the system, a poll costs one small call, whatever the size of the system.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from actors.coordinator.control_plane import SystemStatus
from actors.coordinator.coordinator_status import StatusMoment
from actors.runtime.run_dirs import shared_memory
from configs.errors import sentence
from services.common.background_thread import BackgroundThread
from services.results.places import AnswersPlace, SystemPlaces, shard_of
from services.watch.class_views import ClassView, class_views
from services.watch.doors import Doors
from services.watch.history import HistoryStore
from services.watch.losses import StreamIntake, query_problems, stream_problems
from services.watch.source import SourceAway, WatchSource
from services.watch.states import ClassState

LOG = logging.getLogger(__name__)
EVERY_S = 1.0
FRESH_S = 0.25
# Maximum time that a reader waits for a poll; a coordinator usually answers within milliseconds.
WAIT_S = 6.0

Answer = TypeVar("Answer")
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class View:
    """State and figures of the whole system, polled at one moment."""

    name: str
    look: StatusMoment
    classes: dict[str, ClassView]
    at: float
    """Time of the poll, in seconds since 1970."""
    seen: float
    """Time of the poll, by the watch's clock."""
    reported: Mapping[str, float] = field(default_factory=dict)
    """Time of each class's last report by the watch's clock, for several units the earliest time. Sleeping classes are left out."""

    @property
    def system(self) -> SystemStatus:
        return self.look.status.system


class Watch(BackgroundThread):
    """Thread that polls the system from `start` to `stop`; its methods may be called from several threads."""

    def __init__(
        self,
        source: WatchSource,
        problems: Callable[[], Sequence[str]] = tuple,
        *,
        every_s: float = EVERY_S,
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
    ) -> None:
        """Watch the system behind `source`; `problems` returns the problems of objects that do not run as declared."""
        super().__init__("watch")
        self.source, self.history, self.problems = source, HistoryStore(), problems
        self.intakes: Callable[[], Mapping[str, StreamIntake]] = dict
        """Function that returns the counts of rows at the gateways, by stream name in lower case; set by `services.metrics.nodes`."""
        self._every_s, self._clock, self._wall = every_s, clock, wall
        self._doors = Doors(source, clock)
        self._places = SystemPlaces(self._homes, self._doors.endpoint, shared_memory(), source.name)
        self._began = clock()
        self._changed = threading.Condition()
        self._view: View | None = None
        self.problem = ""
        """Reason why the coordinator does not answer; empty if it answers."""
        self.has_ended = False
        """True if the system is known to have ended, so that it will not answer again."""
        self._answered = self._began
        # Two times of each unit's last report: the time by the unit's clock, and the time by this object's clock.
        self._reports: dict[str, tuple[float, float]] = {}
        self._looks = 0
        self._wanted = False

    def stop(self) -> None:
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()
        super().stop()

    def view(self, max_age_s: float = FRESH_S) -> View:
        """Return a view of at most this age. If the coordinator does not answer, return the last view; without a view, raise SourceAway."""
        with self._changed:
            if self._view is not None and self.age_s(self._view) <= max_age_s:
                return self._view
            # While the coordinator does not answer, the last view is returned at once, because waiting would not give a newer view.
            if not self.problem or self._view is None:
                self._wanted, before = True, self._looks
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._looks > before or self._stopping.is_set(), WAIT_S)
            if self._view is None:
                raise SourceAway("the running system has not answered yet", hint=self.problem or "try again")
            return self._view

    def states(self) -> list[ClassState]:
        """Return the states of the classes in the last view, without waiting."""
        view = self._view
        return [] if view is None else [class_.condition.state for class_ in view.classes.values()]

    def losses(self) -> list[str]:
        """Return a line for each stream and each query that loses rows, from the last view, without waiting."""
        view = self._view
        lines = list(stream_problems(self.intakes().values()))
        for shown in () if view is None else view.classes.values():
            lines += query_problems(shown.name, shown.failures)
        return lines

    def age_s(self, view: View) -> float:
        return max(0.0, self._clock() - view.seen)

    def report_age_s(self, view: View, class_name: str) -> float:
        """Return the age of the figures of a class. A sleeping class reports nothing, so its figures are as old as the view."""
        return max(self.age_s(view), self._clock() - view.reported.get(class_name, view.seen))

    @property
    def uptime_s(self) -> float:
        return self._clock() - self._began

    @property
    def away_s(self) -> float:
        """Seconds since the coordinator's last answer; 0 while it answers."""
        return self._clock() - self._answered if self.problem else 0.0

    def places(self, class_name: str) -> Sequence[AnswersPlace]:
        """Return the known locations of a class's answers: one location per unit, in the order of shards."""
        return self._places.places(class_name)

    def endpoint(self, node: str) -> str | None:
        """Return the network address of a node's gateway, or None if the address is not known."""
        return self._doors.endpoint(node)

    def endpoint_of(self, stream: str) -> str | None:
        """Return the network address of the gateway at which a stream arrives, or None if the address is not known."""
        node = self.view().system.homes.get(stream.lower())
        return None if node is None else self._doors.endpoint(node)

    def _homes(self, class_name: str) -> list[tuple[str, str]]:
        units = {} if self._view is None else self._view.system.units
        homes = [(name, unit.home) for name, unit in units.items() if unit.class_name == class_name]
        return sorted(homes, key=lambda home: shard_of(home[0]))

    def _run(self) -> None:
        due = self._clock()
        while self._wait(due):
            self.look()
            now = self._clock()
            if now >= due:
                if not self.problem and self._view is not None:
                    self.history.note(self._view)
                # Missed polls, for example while the machine was suspended, are not repeated.
                due = max(due + self._every_s, now)

    def _wait(self, due: float) -> bool:
        """Wait until a poll is due or a reader needs one; return False if the thread must stop."""
        with self._changed:
            wait_s = max(0.0, due - self._clock())
            self._changed.wait_for(lambda: self._stopping.is_set() or self._wanted, wait_s)
            return not self._stopping.is_set()

    def look(self) -> None:
        """Poll the system once; called only by the thread of this object."""
        before = self._view
        view: View | None
        try:
            answer = self.source.look(None if before is None else before.look.number)
            view, problem_text = self._seen(before, answer), ""
        except SourceAway as problem:
            view, problem_text = before, str(problem)
            self.has_ended = self.source.has_ended()
        except Exception as problem:
            # Every exception is caught, so that a defect in our code does not end the thread: the next poll may succeed.
            LOG.exception("polling the running system has failed")
            view, problem_text = before, f"the running system cannot be polled: {sentence(problem)}"
        with self._changed:
            self._view, self.problem = view, problem_text
            if not problem_text:
                self._answered = self._clock()
            self._looks += 1
            self._wanted = False
            self._changed.notify_all()

    def _seen(self, before: View | None, found: StatusMoment | None) -> View:
        now, at = self._clock(), self._wall()
        if found is None:
            assert before is not None
            return replace(before, at=at, seen=now)
        views, reported = class_views(found.status.system, found.lending), self._reported(found, now)
        return View(
            name=self.source.name,
            look=found,
            classes={view.name: view for view in views},
            at=at,
            seen=now,
            reported=reported,
        )

    def _reported(self, found: StatusMoment, now: float) -> dict[str, float]:
        """Return the time of each class's last report by this object's clock. For a class of several units, return the earliest time."""
        reports, reported = dict[str, tuple[float, float]](), dict[str, float]()
        for name, unit in found.status.system.units.items():
            if unit.report is None or unit.report.asleep:
                continue
            at, seen_at = self._reports.get(name, (None, now))
            reports[name] = unit.report.at, seen_at if at == unit.report.at else now
            reported[unit.class_name] = min(reports[name][1], reported.get(unit.class_name, now))
        self._reports = reports
        return reported
