"""Route that shows the caller's own key: its principal, and what the key allows."""

from __future__ import annotations

from fastapi import APIRouter

from services.api.callers import Caller, CallerOf
from services.api.schemas import AnswerModel
from services.api.service import Service


class CallerView(AnswerModel):
    """Principal and scopes of the key of a request."""

    principal: str
    """Name under which the audit log records the key's changes."""
    scopes: list[str]
    is_admin: bool
    tenants: list[str]
    """Tenants of which the key sees classes, queries and results."""


def router(_: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["keys"])

    @routes.get("/caller", operation_id="getCaller")
    async def get_caller(caller: CallerOf) -> CallerView:
        """Show what the key of this request allows."""
        return caller_view(caller)

    return routes


def caller_view(caller: Caller) -> CallerView:
    return CallerView(
        principal=caller.principal,
        scopes=sorted(caller.scopes),
        is_admin=caller.is_admin,
        tenants=sorted(caller.tenants),
    )
