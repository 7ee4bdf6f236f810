"""A capacity plan from the statistics of a running system predicts which targets are kept and which tuples are lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from actors.gateway.replay_feeder import Feeder
from actors.messages.unit_messages import Figures
from actors.system import System
from configs.classes.live_class import LiveSettings
from configs.documents.declarations import Document, documents_of
from configs.scenario import w11
from configs.scenario.arrivals import RateStep, StepArrivals
from services.catalog.catalog import Catalog, opened
from services.cli.demonstration.demo_feed import inputs
from services.cli.demonstration.live_run import Watched, calibrated
from services.common.weir_home import Home
from services.plan.live_measurement import RunningMeasured
from services.plan.planner import Planner
from services.watch.source import RunningSystem
from services.watch.watch import Watch
from sim.admission.planner import DROP_TOLERANCE
from sim.admission.situation import AdmissionPlan, ClassPlan
from tests.support.waiting import eventually

pytestmark = pytest.mark.live

SETTINGS = LiveSettings()
# Input rates, as fractions of the machine's capacity: of the running class, and of the two planned classes.
# The capacity is measured in long trains. In its shorter trains, class `modest` needs twice its rate, and its share is 0.25.
RUNS, MODEST, FLOOD = 0.25, 0.1, 4.0
# Number of seconds of input after which the test judges a class by its answers.
SECONDS = 6.0
TARGET_MS = 1000.0


def documents(name: str, priority: float, max_drop: float) -> list[Document]:
    """Return the documents of a tenant with W11's queries on its own streams."""
    parts = [
        f"{{kind: PriorityClass, name: {name}, priority: {priority}, delay_target_ms: {TARGET_MS}, max_drop: {max_drop}}}",
        f"{{kind: Tenant, name: {name}, priority_class: {name}}}",
    ]
    for stream, sql in zip(w11.names(f"{name}_").values(), w11.streams(f"{name}_"), strict=True):
        parts.append(f"kind: Stream\nname: {stream}\nsql: {sql!r}")
    parts += [
        f"kind: Query\ntenant: {name}\nname: {query}\nsql: {sql!r}"
        for query, sql in w11.queries(f"{name}_").items()
    ]
    return documents_of("\n---\n".join(parts))


@dataclass
class Running:
    """System in which class `runs` is fed, with a planner for more classes."""

    system: System
    catalog: Catalog
    planner: Planner
    watched: Watched
    tables: dict[str, pa.Table]
    capacity: float
    """Capacity of the machine, in readings per second."""

    def host(self, name: str, given: list[Document]) -> None:
        self.catalog.apply(given, "test")
        self.watched.host([class_ for class_ in self.catalog.desired().classes if class_.name == name])

    def remove(self, name: str, given: list[Document]) -> None:
        self.system.remove_class(name)
        for document in reversed(given):
            self.catalog.delete(document.ref, "test")

    def feed(self, name: str, part: float) -> Feeder:
        """Set the feeder so that the input of the class needs this fraction of the machine's capacity from now on."""
        (declared,) = (class_ for class_ in self.catalog.desired().classes if class_.name == name)
        feeder = self.watched.feeder([declared], self.tables)
        feeder.offer({name: StepArrivals(kind="steps", steps=(RateStep(at_s=0, rate=part * self.capacity),))})
        return feeder

    def plan(self, name: str, given: list[Document], part: float) -> AdmissionPlan:
        rows = part * self.capacity
        whole = sum(table.num_rows for table in self.tables.values())
        rates = {
            stream: rows * self.tables[kind].num_rows / whole
            for kind, stream in w11.names(f"{name}_").items()
        }
        return self.planner.plan(given, rates)

    def seen(self, name: str, part: float) -> Figures:
        """Return the figures of the class after SECONDS more seconds of input."""
        before = self.figures(name).offered
        enough = before + SECONDS * part * self.capacity
        return eventually(lambda: self.has_had(name, enough), f"{SECONDS:g} s of input of {name}")[0]

    def has_had(self, name: str, offered: float) -> list[Figures]:
        figures = self.figures(name)
        return [figures] if figures.offered >= offered else []

    def figures(self, name: str) -> Figures:
        return self.watched.look().classes[name].figures


@pytest.fixture(scope="module")
def running(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("plan")
    watched, tables = Watched(system), inputs()
    with (
        opened(Home(folder)) as catalog,
        Watch(RunningSystem(system)) as watch,
        RunningMeasured(watch, SETTINGS) as measured,
    ):
        catalog.apply(documents("runs", 3, 0.95), "test")
        (declared,) = catalog.desired().classes
        lossless = declared.model_copy(update={"lossless": True})
        capacity = calibrated(watched, [lossless], tables, SETTINGS).tuples_per_s
        planner = Planner(catalog, SETTINGS, measured)
        found = Running(system, catalog, planner, watched, tables, capacity)
        found.host("runs", [])
        feeder = found.feed("runs", RUNS)
        try:
            found.seen("runs", RUNS)
            yield found
        finally:
            feeder.stop()


def kept(plan: ClassPlan, figures: Figures) -> bool:
    lost = 1 - figures.keep
    return figures.p95_ms <= plan.target_ms and lost <= plan.max_drop + DROP_TOLERANCE


@pytest.mark.parametrize(("name", "part", "max_drop"), [("modest", MODEST, 0.1), ("flood", FLOOD, 0.1)])
def test_admission_plan_predicts_the_measured_figures_after_a_second_class_is_added(
    running: Running, name: str, part: float, max_drop: float
) -> None:
    given = documents(name, 1, max_drop)
    found = {plan.name: plan for plan in running.plan(name, given, part).classes}
    first = found["runs"]
    assert first.before is not None
    load = running.figures("runs").load
    assert load / 2 < first.before.load < 2 * load
    running.host(name, given)
    feeder = running.feed(name, part)
    try:
        figures = running.seen(name, part)
        assert kept(found[name], figures) == (part == MODEST), figures
        assert found[name].holds == (part == MODEST), found[name]
        assert kept(first, running.figures("runs")), "class runs needs less than its share"
        assert first.holds
    finally:
        feeder.stop()
        running.remove(name, given)
