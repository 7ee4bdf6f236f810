"""Planner that predicts the effect of declaring documents on the delay targets of all classes."""

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
# Maximum number of predictions in progress or waiting. Each waiting prediction blocks a thread of the service.
AT_A_TIME = 5


@dataclass
class Planner:
    """Planner for a catalog and for the running system, if there is one; may be called from several threads."""

    catalog: Catalog
    settings: LiveSettings
    """Settings of the running system, or of the system that would run on this machine."""
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
        """Predict the effect of declaring these documents. `rates` has the expected rows per second by stream.

        If `tenants` is given, the names of all other tenants are removed from the prediction.
        """
        if not self.room.acquire(blocking=False):
            hint = "try again when the plans in progress are finished"
            raise Busy("the service is already making as many plans as it can", hint=hint)
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
        before, after = self.catalog.without_ended(before), self.catalog.without_ended(after)
        with failing_as_away():
            measured, why = self._measured(frozenset(names))
            situation = situation_of(
                before, after, touched=names, found=measured, settings=self.settings, said=rates, why=why
            )
            # Only one prediction is made at a time, because a prediction uses a whole processor.
            with self._one_at_a_time:
                return self.make(situation)

    def _measured(self, wanted: frozenset[str]) -> tuple[SystemMeasurement | None, str]:
        """Return the measurements of the running system and an empty text, or None and the reason why there are no measurements."""
        if self.measuring is None:
            return None, "no system runs here"
        try:
            return self.measuring.measured(wanted), ""
        except SourceAway:
            return None, "the running system does not answer"


@contextmanager
def failing_as_away() -> Iterator[None]:
    """Raise SourceAway in place of an unexpected error in the block, so that documents can be declared even if a prediction fails."""
    try:
        yield
    except SourceAway:
        raise
    except Exception:
        LOG.exception("the service could not make a plan")
        raise SourceAway(
            "the service could not make a plan", hint="see the log of the service or command for the reason"
        ) from None


def touched(documents: Sequence[Document]) -> list[str]:
    """Return the names of the tenants that the documents declare or change."""
    names: dict[str, None] = {}
    for document in documents:
        match document.declaration:
            case TenantDeclaration(name=name) | QueryDeclaration(tenant=name):
                names[name] = None
    return list(names)


def check_rates(rates: Mapping[str, float], state: CatalogState) -> None:
    """Raise an error if a rate is for an unknown stream or out of range."""
    names = {name.lower(): name for name in state.names("Stream")}
    for name, rows in rates.items():
        if name.lower() not in names:
            raise UnknownName(
                "the catalog has no stream of this name", "rates", name, nearest(name, names.values())
            )
        if not 0 <= rows <= RATE_MAX:
            raise InvalidInput(
                "the value cannot be a rate in rows per second",
                f"rates.{name}",
                rows,
                "write a number from 0 to 1,000,000,000",
            )
