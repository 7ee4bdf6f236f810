"""Route of the figures of classes in the last minutes, for live plots."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from services.api.callers import CallerOf
from services.api.live_models import ClassHistory, History
from services.api.routes.live import FOR_ALL, seen
from services.api.service import Service
from services.watch.history import SAMPLES_MAX
from services.watch.watch import EVERY_S

CLASSES_MAX = 50
Seconds = Annotated[
    int, Query(ge=1, le=SAMPLES_MAX, description="Length of the history in seconds, counted back from now.")
]
Tenants = Annotated[
    list[str] | None,
    Query(
        max_length=CLASSES_MAX,
        description=f"Names of the tenants to include; without `tenant`, the first {CLASSES_MAX} tenants.",
    ),
]


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["live"])

    @routes.get("/history", operation_id="getHistory", responses=FOR_ALL)
    def get_history(caller: CallerOf, seconds: Seconds = 300, tenant: Tenants = None) -> History:
        """Show shares, loads, response times and losses of classes, one sample per second."""
        caller.must_have_tenant()
        watch, view = seen(service)
        visible = [
            class_
            for class_ in view.classes.values()
            if caller.sees_tenant(class_.name) and (tenant is None or class_.name in tenant)
        ]
        shown = visible[:CLASSES_MAX]
        past = watch.history.past(seconds, [class_view.name for class_view in shown])
        return History(
            interval_s=EVERY_S,
            at=past.at,
            classes=[
                ClassHistory(
                    name=class_view.name,
                    delay_target_ms=class_view.settings.delay_target_ms,
                    series={figure: list(values) for figure, values in past.classes[class_view.name].items()},
                )
                for class_view in shown
            ],
            left_out=len(visible) - len(shown),
        )

    return routes
