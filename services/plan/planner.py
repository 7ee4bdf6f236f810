"""Answers what would become of delay targets if documents were declared."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from configs.classes.live_class import LiveSettings
from configs.documents.declarations import Document, QueryDeclaration, TenantDeclaration
from configs.errors import Busy, InvalidInput, UnknownName, nearest
from services.catalog.catalog import Catalog
from services.catalog.checks import applied
from services.catalog.state import CatalogState
from services.plan.measurement import Measuring, SystemMeasurement
from services.plan.situation import situation_of
from services.watch.source import SourceAway
from sim.admission.planner import plan, seen_by
from sim.admission.situation import AdmissionPlan, Situation

LOG = logging.getLogger(__name__)
NO_RATES: Mapping[str, float] = {}
RATE_MAX = 1e9
# Plans that are made or wait to be; each waiting one keeps a thread of the service.
AT_A_TIME = 5


@dataclass
class Planner:
    """Of a catalog, and of the system that follows it if there is one; may be called by several threads."""

    catalog: Catalog
    settings: LiveSettings
    """Of what runs, or would run here."""
    measuring: Measuring | None = None
    make: Callable[[Situation], AdmissionPlan] = plan
    _one_at_a_time: threading.Lock = field(init=False, default_factory=threading.Lock)
    room: threading.Semaphore = field(init=False, default_factory=lambda: threading.Semaphore(AT_A_TIME))

    def plan(
        self,
        documents: Sequence[Document],
        rates: Mapping[str, float] = NO_RATES,
        tenants: Collection[str] | None = None,
    ) -> AdmissionPlan:
        """As if these were declared. `rates` says how many rows a second come on streams. If tenants are named, no other
        is in the answer by its name."""
        if not self.room.acquire(blocking=False):
            hint = "ask again when those that are under way are made"
            raise Busy("many plans are being made", hint=hint)
        try:
            plan_made = self._planned(documents, rates)
        finally:
            self.room.release()
        return plan_made if tenants is None else seen_by(plan_made, tenants)

    def _planned(self, documents: Sequence[Document], rates: Mapping[str, float]) -> AdmissionPlan:
        before = self.catalog.state()
        after = applied(before, documents)
        check_rates(rates, after)
        names = touched(documents)
        with failing_as_away():
            measured, why = self._measured(frozenset(names))
            situation = situation_of(
                before, after, touched=names, found=measured, settings=self.settings, said=rates, why=why
            )
            with self._one_at_a_time:  # each takes a processor for as long as it lasts
                return self.make(situation)

    def _measured(self, wanted: frozenset[str]) -> tuple[SystemMeasurement | None, str]:
        """What runs; or why nothing is known of it."""
        if self.measuring is None:
            return None, "nothing runs here"
        try:
            return self.measuring.measured(wanted), ""
        except SourceAway:
            return None, "the running system does not answer"


@contextmanager
def failing_as_away() -> Iterator[None]:
    """A plan that fails is our mistake, and nothing is wrong with the documents: who needs no plan goes on without."""
    try:
        yield
    except SourceAway:
        raise
    except Exception:
        LOG.exception("no plan could be made")
        raise SourceAway("no plan could be made", hint="the log of what makes plans says why") from None


def touched(documents: Sequence[Document]) -> list[str]:
    """The tenants that documents are about."""
    names: dict[str, None] = {}
    for document in documents:
        match document.declaration:
            case TenantDeclaration(name=name) | QueryDeclaration(tenant=name):
                names[name] = None
    return list(names)


def check_rates(rates: Mapping[str, float], state: CatalogState) -> None:
    names = {name.lower(): name for name in state.names("Stream")}
    for name, rows in rates.items():
        if name.lower() not in names:
            raise UnknownName("no such stream", "rates", name, nearest(name, names.values()))
        if not 0 <= rows <= RATE_MAX:
            raise InvalidInput("rows a second, 0 or more", f"rates.{name}", rows, "say how many will come")
