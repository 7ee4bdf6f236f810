"""Routes of the running system: status of classes, the decisions about them, the ledger of every tuple, and lending.

Responses are made from the figures in `services.watch`, which are at most a quarter of a second old. Only
decisions and operators are requested from the coordinator and the class's host.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query

from configs.errors import UnknownName
from engine.class_.explain import PlanLine
from services.api.callers import Caller, CallerOf, must_know_tenant
from services.api.explanations import (
    ANOTHER,
    Decision,
    LoadDecision,
    Naming,
    ShareDecision,
    by_name,
    decisions_of,
    for_tenant,
    moment,
    share_decision,
)
from services.api.live_models import (
    AccountLine,
    Classes,
    ClassStatus,
    Explanation,
    IdleTenant,
    Ledger,
    Lending,
    LentLine,
    NodeStatus,
    OperatorFigures,
    Operators,
    QueryQuality,
    RejectedRows,
    SystemView,
    Tardiness,
    TenantLedger,
    TenantQuality,
    UnitPlace,
    UtilityCorner,
    Worth,
)
from services.api.problems import NotRunning, responses
from services.api.service import Service, running
from services.catalog.run_times import RunState, spans
from services.watch.accounts import accounts
from services.watch.class_views import ClassView, as_json, unit_lines
from services.watch.loans import lending
from services.watch.losses import QueryLoss, query_losses
from services.watch.quality import QueryWorth, worth_of
from services.watch.sentences import Lately, in_words
from services.watch.source import SourceAway
from services.watch.states import ClassState, Condition
from services.watch.watch import View, Watch

Tenant = Annotated[str, Path(description="Name of a tenant.", max_length=63)]
Last = Annotated[
    int, Query(ge=1, le=1000, description="Maximum number of decisions of each kind (load, shares, policy).")
]
MOVES = 20
# Seconds for which an explanation mentions that input was shed.
LATELY_S = 60.0
FOR_ALL = responses("forbidden", "not-running")
FOR_TENANT = responses("forbidden", "not-found", "not-running")

Answer = TypeVar("Answer")


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["live"])
    add_status(routes, service)
    add_decisions(routes, service)
    add_quality(routes, service)
    add_ledgers(routes, service)
    add_lending(routes, service)
    return routes


def add_status(routes: APIRouter, service: Service) -> None:
    @routes.get("/system", operation_id="getSystem", responses=FOR_ALL)
    def get_system(caller: CallerOf) -> SystemView:
        """Show nodes and units, and reasons why something does not run as declared."""
        caller.must_be_admin()
        watch = running(service.watch, service)
        return answered(lambda: system_view(watch, watch.view()))

    @routes.get("/classes", operation_id="listClasses", responses=FOR_ALL)
    def list_classes(caller: CallerOf) -> Classes:
        """List the running classes with their present status."""
        caller.must_have_tenant()
        watch, view = seen(service)
        items = [
            status(watch, view, class_) for class_ in view.classes.values() if caller.sees_tenant(class_.name)
        ]
        return Classes(items=items, **as_of(watch, view))

    @routes.get("/tenants/{tenant}/status", operation_id="getTenantStatus", responses=FOR_TENANT)
    def get_tenant_status(caller: CallerOf, tenant: Tenant) -> ClassStatus | IdleTenant:
        """Show the present status of a tenant's class."""
        must_know_tenant(service, caller, tenant)
        watch, view = seen(service)
        if tenant in view.classes:
            return status(watch, view, view.classes[tenant])
        condition = not_running(service, tenant)
        return IdleTenant(name=tenant, state=condition.state, reason=condition.reason)


def add_decisions(routes: APIRouter, service: Service) -> None:
    @routes.get("/tenants/{tenant}/explain", operation_id="explainTenant", responses=FOR_TENANT)
    def explain_tenant(caller: CallerOf, tenant: Tenant, last: Last = 10) -> Explanation:
        """Explain the last decisions about a tenant's class: what was decided, and the figures that led to the decision."""
        must_know_tenant(service, caller, tenant)
        watch, view = seen(service)
        if tenant not in view.classes:
            return Explanation(
                tenant=tenant, running=False, words=not_running(service, tenant).reason, items=[]
            )
        shown = view.classes[tenant]
        if is_given_up(shown):  # No host keeps decisions about a class that is given up.
            return Explanation(tenant=tenant, running=False, given_up=True, words=in_words(shown), items=[])
        explained = answered(lambda: watch.source.decisions(tenant, last))
        items = decisions_of(explained, naming_for(caller, tenant))
        words = in_words(shown, lately(watch, view, tenant, items))
        return Explanation(tenant=tenant, running=True, words=words, items=items)

    @routes.get("/tenants/{tenant}/operators", operation_id="listTenantOperators", responses=FOR_TENANT)
    def list_tenant_operators(caller: CallerOf, tenant: Tenant) -> Operators:
        """List the operators of a tenant's queries, with their measured costs and selectivities."""
        must_know_tenant(service, caller, tenant)
        watch, view = seen(service)
        if tenant not in view.classes or is_given_up(view.classes[tenant]):
            return Operators(tenant=tenant, running=False, items=[])
        lines = answered(lambda: watch.source.plan(tenant))
        return Operators(tenant=tenant, running=True, items=[operator(line) for line in lines])


def add_quality(routes: APIRouter, service: Service) -> None:
    @routes.get("/tenants/{tenant}/quality", operation_id="getTenantQuality", responses=FOR_TENANT)
    def get_tenant_quality(caller: CallerOf, tenant: Tenant) -> TenantQuality:
        """Show the quality of the answers of a tenant's queries: slowdown, utility, missed deadlines, staleness."""
        must_know_tenant(service, caller, tenant)
        watch, view = seen(service)
        shown, now = view.classes.get(tenant), as_of(watch, view)
        if shown is None:
            return TenantQuality(tenant=tenant, running=False, items=[], **now)
        losses = {loss.query: loss for loss in query_losses(shown.failures)}
        worths = worth_of(view.system, shown.settings)
        items = [quality_line(worth, losses.get(worth.query)) for worth in worths]
        late = shown.figures.late_now
        return TenantQuality(tenant=tenant, running=True, items=items, late_now=late, **now)


def add_ledgers(routes: APIRouter, service: Service) -> None:
    @routes.get("/tenants/{tenant}/ledger", operation_id="getTenantLedger", responses=FOR_TENANT)
    def get_tenant_ledger(caller: CallerOf, tenant: Tenant) -> TenantLedger:
        """Show the ledger of a tenant's class: the fate of every offered tuple, by stream."""
        must_know_tenant(service, caller, tenant)
        watch, view = seen(service)
        shown = dict(ledger(watch, view, [tenant]))
        return TenantLedger(tenant=tenant, running=tenant in view.classes, **shown)

    @routes.get("/ledger", operation_id="getLedger", responses=FOR_ALL)
    def get_ledger(caller: CallerOf) -> Ledger:
        """Show the ledger: the fate of every offered tuple, by class and stream."""
        caller.must_have_tenant()
        watch, view = seen(service)
        return ledger(watch, view, None if caller.is_admin else caller.tenants)


def add_lending(routes: APIRouter, service: Service) -> None:
    @routes.get("/lending", operation_id="getLending", responses=FOR_ALL)
    def get_lending(caller: CallerOf) -> Lending:
        """Show loans between all classes, and the last moves of shares."""
        caller.must_be_admin()
        watch, view = seen(service)
        moves, epoch_s = answered(lambda: watch.source.moves(MOVES))
        decisions = [share_decision(move, epoch_s, by_name) for move in moves]
        return Lending(items=lent_lines(view, by_name), moves=decisions, **as_of(watch, view))

    @routes.get("/tenants/{tenant}/lending", operation_id="getTenantLending", responses=FOR_TENANT)
    def get_tenant_lending(caller: CallerOf, tenant: Tenant) -> Lending:
        """Show the loans of a tenant's class. Tenants see all other classes together as `another class`."""
        must_know_tenant(service, caller, tenant)
        watch, view = seen(service)
        naming = naming_for(caller, tenant)
        moves: list[ShareDecision] = []
        if tenant in view.classes and not is_given_up(view.classes[tenant]):
            explained = answered(lambda: watch.source.decisions(tenant, MOVES))
            moves = [share_decision(move, explained.epoch_s, naming) for move in explained.moves]
        items = [line for line in lent_lines(view, naming) if tenant in (line.lender, line.borrower)]
        return Lending(items=items, moves=moves, **as_of(watch, view))


def is_given_up(view: ClassView) -> bool:
    return view.condition.state is ClassState.GIVEN_UP


def lately(watch: Watch, view: View, tenant: str, items: Iterable[Decision]) -> Lately:
    """Return the largest fractions of a class's input and queue that were dropped in the last minute."""
    # Decisions are newer than the history and may show more shedding, so the larger of the two figures is returned.
    past = watch.history.past(LATELY_S, [tenant]).classes[tenant]["drop"]
    since = moment(view.at - LATELY_S)
    figures = [item.figures for item in items if isinstance(item, LoadDecision) and item.at >= since]
    drops = [*(drop for drop in past if drop is not None), *(figure.drop for figure in figures)]
    return Lately(max(drops, default=0.0), max((figure.trimmed for figure in figures), default=0.0))


def naming_for(caller: Caller, tenant: str) -> Naming:
    return by_name if caller.is_admin else for_tenant(tenant)


def not_running(service: Service, tenant: str) -> Condition:
    """Return the state of a tenant without a running class."""
    run_times = spans(service.snapshot.now.state, tenant)
    if run_times and not any(span.state(time.time()) is RunState.ACTIVE for span in run_times.values()):
        return Condition(ClassState.NO_QUERIES, "its queries wait for their start, or have ended")
    if service.snapshot.now.queries.get(tenant):
        return Condition(ClassState.STARTING, "its queries are being started")
    return Condition(ClassState.NO_QUERIES, "it has no queries")


def seen(service: Service) -> tuple[Watch, View]:
    watch = running(service.watch, service)
    return watch, answered(watch.view)


def answered(ask: Callable[[], Answer]) -> Answer:
    try:
        return ask()
    except SourceAway as problem:
        raise NotRunning(problem.title, hint=problem.hint) from None
    except UnknownName as problem:
        # The class ran when the figures were polled, but its host does not know the class any more.
        hint = "see the status of the tenant for the reason; try again in a second"
        raise NotRunning(
            f"the class is starting, stopping, or has failed: {problem.title}", hint=hint
        ) from None


def as_of(watch: Watch, view: View) -> dict[str, Any]:
    return {"at": moment(view.at), "age_s": watch.age_s(view)}


def status(watch: Watch, view: View, one: ClassView) -> ClassStatus:
    declared = one.settings
    more: dict[str, Any] = {"lossless": declared.lossless, "queries": len(declared.queries), "drop": one.drop}
    more |= {"units": one.units, "problems": list(one.problems)}
    age_s = {"age_s": watch.report_age_s(view, one.name)}
    return ClassStatus.model_validate(as_json(one) | more | as_of(watch, view) | age_s)


def operator(line: PlanLine) -> OperatorFigures:
    fields = asdict(line)
    rate = line.rate if math.isfinite(line.rate) else None
    return OperatorFigures.model_validate(fields | {"rate": rate, "measured": line.is_measured})


def quality_line(one: QueryWorth, loss: QueryLoss | None = None) -> QueryQuality:
    """Return the quality of a query's answers, with the rows that failed in the query."""
    return QueryQuality(
        query=one.query,
        deadline_ms=1e3 * one.graph.deadline_s,
        graph=[UtilityCorner.model_validate(point.model_dump()) for point in one.graph.points],
        weight=one.weight,
        answers=one.answers,
        mean_ms=one.mean_ms,
        slowdown=one.slowdown,
        utility=Worth(mean=one.utility, missed=one.missed),
        staleness=one.staleness,
        tardiness=Tardiness(answers=one.due, tardy=one.tardy, mean_ms=one.tardiness_ms) if one.due else None,
        failed=loss.rows if loss else 0,
        failed_now=loss.part if loss else 0.0,
        failed_reason=loss.reason if loss else None,
    )


def ledger(watch: Watch, view: View, tenants: Collection[str] | None) -> Ledger:
    """Return the ledger of `tenants` with the rejected rows of their streams. Without `tenants`, return the whole ledger."""
    lines = accounts(view.system, tenants)
    read = {line.stream.lower() for line in lines}
    return Ledger(
        items=[AccountLine(**asdict(line) | asdict(line.ledger) | {"closes": line.closes}) for line in lines],
        closes=all(line.closes for line in lines),
        given_up=[
            name
            for name, shown in view.classes.items()
            if is_given_up(shown) and (tenants is None or name in tenants)
        ],
        rejected_at_gateways=[
            RejectedRows(stream=intake.stream, rows=intake.rejected, reason=intake.last_reason)
            for stream, intake in watch.intakes().items()
            if intake.rejected and (tenants is None or stream in read)
        ],
        **as_of(watch, view),
    )


def lent_lines(view: View, naming: Naming) -> list[LentLine]:
    """Return the loans with the names shown to the caller, without the loans between two hidden classes."""
    loans: dict[tuple[str, str], tuple[float, float]] = {}
    for loan in lending(view.system, view.look.lending):
        pair = naming(loan.lender), naming(loan.borrower)
        if pair != (ANOTHER, ANOTHER):
            seconds, now = loans.get(pair, (0.0, 0.0))
            loans[pair] = seconds + loan.seconds, now + loan.now
    return [
        LentLine(lender=lender, borrower=borrower, lent_s=seconds, now=now)
        for (lender, borrower), (seconds, now) in loans.items()
    ]


def system_view(watch: Watch, view: View) -> SystemView:
    status = view.look.status
    nodes = [
        NodeStatus(name=name, lanes=lanes, endpoint=watch.endpoint(name))
        for name, lanes in view.system.nodes.items()
    ]
    return SystemView(
        version=version("weir"),
        name=view.name,
        uptime_s=watch.uptime_s,
        gateway=nodes[0].endpoint if nodes else None,
        nodes=nodes,
        classes=len(view.classes),
        units=[UnitPlace(tenant=line.pop("class"), **line) for line in unit_lines(view.system.units)],
        unplaced=list(view.system.unplaced),
        waited_for=list(status.waited_for),
        quarantined=list(status.quarantined),
        failures=list(status.failures),
        problems=list(problems_of(watch, view)),
        **as_of(watch, view),
    )


def problems_of(watch: Watch, view: View) -> Iterator[str]:
    yield from watch.problems()
    yield from (problem for class_ in view.classes.values() for problem in class_.problems)
    for class_ in view.classes.values():
        # The problems of units do not mention that a class is starved.
        if class_.condition.state is ClassState.STARVED:
            yield f"{class_.name}: {ClassState.STARVED}: {class_.condition.reason}"
    yield from watch.losses()
    if watch.problem:
        yield watch.problem
