"""System for tests of watches: a real control plane and real load managers in one process, with time and input from the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from actors.coordinator.coordinator_status import CoordinatorStatus, Decisions, Number, StatusMoment
from actors.host.tuning_sample import UnitNow
from actors.messages.unit_messages import Account, Explanations, Failure, Figures, UnitReport, class_of
from actors.messages.unit_messages import UnitCounts as UnitCounted
from configs.classes.live_class import LiveClass
from configs.classes.objectives import Objective
from configs.errors import UnknownName
from engine.class_.explain import PlanLine
from engine.network.one_time import OneTimeAnswer
from loadshed.build import load_manager
from loadshed.cycle import CycleEnded, InputCycle, OutputCycle
from loadshed.ledger import TupleLedger
from loadshed.manager import LoadManager, ReportUsage, RequestReclaim
from scheduler.capacity.core import ShareMove
from scheduler.tuning import Compared
from services.watch.source import SourceAway, StreamCounts
from tests.support.control import World

READINGS = "CREATE STREAM Readings (ts timestamp, sensor int32, temp float64, WATERMARK FOR ts AS ts)"
QUERY = "SELECT sensor, temp FROM Readings WHERE temp > 0"
EPOCH_S = 1_000_000.0
CYCLE_S = 0.15
NODE = "n1"


def declared(name: str, priority: float = 1.0, **more: Any) -> LiveClass:
    given = {"delay_target_ms": 100.0, "streams": (READINGS,), "queries": {"q": QUERY}} | more
    return LiveClass(name=name, priority=priority, **given)


@dataclass
class InProcess:
    """System without processes, which a watch can poll."""

    name: str = "test"
    world: World = field(default_factory=World)
    managers: dict[str, LoadManager] = field(default_factory=dict)
    now: float = 0.0
    is_away: bool = False
    ended: bool = False
    """True if the key-value store of the cluster no longer contains the system."""
    looks: int = 0
    counted: dict[str, StreamCounts] = field(default_factory=dict)
    """Counts of arrived rows, by stream."""
    counts: int = 0
    """Number of times that the counts of arrived rows were requested."""
    restarts: int = 0
    units_now: dict[str, UnitNow] = field(default_factory=dict)
    answers_once: dict[str, Callable[[str], dict[str, OneTimeAnswer]]] = field(default_factory=dict)
    """Functions that answer one-time queries, by class."""

    def declare(self, *classes: LiveClass) -> Self:
        self.world.plane.nodes_changed({NODE: 1}, self.now)
        self.world.plane.apply(classes, self.now)
        settings = self.world.settings
        for one in classes:
            for unit in self.world.plane.units_of(one.name):
                share = self.world.shares[NODE][unit]
                self.managers[unit] = load_manager(one, settings.load, share, share, settings.lanes)
        return self

    def remove(self, name: str) -> None:
        self.world.plane.remove_class(name, self.now)

    def cycle(
        self,
        name: str,
        load: float,
        account: Account | None = None,
        *,
        response: float = 0.5,
        queued_work_s: float = 0.0,
        asleep: bool = False,
        counted: UnitCounted | None = None,
        failures: tuple[Failure, ...] = (),
        **figures: Any,
    ) -> None:
        """Run a load cycle of a class in one unit. The response time is given as a fraction of the delay target."""
        ledger, queued = account or (TupleLedger(), 0)
        target_s = 0.1
        ended = CycleEnded(
            CYCLE_S,
            (InputCycle("readings", 1000, load * CYCLE_S / 1000),),
            (OutputCycle("q", target_s, 10, response * target_s),),
            queued_work_s,
        )
        self.now += CYCLE_S
        manager = self.managers[name]
        commands = manager.handle(ended, self.now)
        (used,) = (one for one in commands if isinstance(one, ReportUsage))
        shown = Figures(
            headroom=manager.control.headroom,
            load=used.load,
            keep=manager.control.keep,
            queued=queued,
            offered=ledger.offered,
            delivered=ledger.delivered,
            shed=ledger.shed,
            late=ledger.late,
            rejected=ledger.rejected,
            failed=ledger.failed,
            **figures,
        )
        reclaim = any(isinstance(one, RequestReclaim) for one in commands)
        report = UnitReport(
            name,
            used.usage,
            used.load,
            reclaim,
            asleep,
            shown,
            accounts={"readings": (ledger, queued)},
            counted=counted,
            failures=failures,
            at=self.now,
        )
        host = self.world.plane.units_of(name)[name]
        self.world.plane.report(host, [report], self.now)

    def redistribute(self) -> None:
        self.now += 1.5
        self.world.plane.redistribute(self.now)

    # -- the methods that a watch calls -----------------------------------------------------------------

    def look(self, seen: Number | None) -> StatusMoment | None:
        self._answer()
        self.looks += 1
        plane = self.world.plane
        number = (self.restarts, plane.changes)
        if number == seen:
            return None
        status = CoordinatorStatus(1, self.now, plane.status(), (), (), (), 0)
        return StatusMoment(number, status, plane.cores.lending(self.now))

    def has_ended(self) -> bool:
        return self.ended

    def decisions(self, class_name: str, last: int) -> Decisions:
        self._answer()
        moves = tuple(self.world.plane.moves(class_name, last))
        units = [unit for unit in self.managers if class_of(unit) == class_name]
        explained = {
            unit: Explanations(EPOCH_S, tuple(self.managers[unit].explanations)[-last:]) for unit in units
        }
        tuned = self.world.plane.tunings.explanations(class_name, last)
        return Decisions(explained, moves, EPOCH_S, tuned)

    def plan(self, class_name: str) -> list[PlanLine]:
        self._answer()
        if class_name not in map(class_of, self.managers):
            raise UnknownName("no such class", "class", class_name)
        return [PlanLine(0, "source:Readings", (1,), ("q",), 10, 0.1, 1.0, float("inf"), 0)]

    def answer_once(self, class_name: str, sql: str) -> dict[str, OneTimeAnswer]:
        self._answer()
        return self.answers_once[class_name](sql)

    def noticed(self, class_name: str) -> UnitNow | None:
        self._answer()
        return self.units_now.get(class_name)

    def compared(self, class_name: str, objective: Objective, event: Compared) -> None:
        self._answer()
        self.world.plane.compared(class_name, objective, event, self.now)

    def moves(self, last: int) -> tuple[list[ShareMove], float]:
        self._answer()
        return self.world.plane.cores.last_moves(last), EPOCH_S

    def endpoint(self, node: str) -> str | None:
        self._answer()
        return f"grpc://127.0.0.1:{len(node)}"

    def streams(self, node: str) -> dict[str, StreamCounts]:
        self._answer()
        self.counts += 1
        return dict(self.counted)

    def _answer(self) -> None:
        if self.is_away:
            raise SourceAway("the running system does not answer")
