"""Result of a run as one object, which `-o json` prints, and from which tables and plots are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from configs.classes.priority_class import PriorityClass
from configs.scenario.scenario import (
    AggregateBox,
    JoinBox,
    LookupBox,
    OperatorModel,
    ProjectBox,
    QueryNetwork,
    Scenario,
    SelectBox,
)
from loadshed.ledger import TupleLedger
from sim.outcome.outcome import Outcome
from sim.simulation import Simulation


def outcome_of(run: Simulation, policy: str) -> Outcome:
    moves = () if run.ring.capacity is None else tuple(run.ring.capacity.moves)
    scenario = run.scenario
    return Outcome(
        result=results(run, policy),
        description=scenario.description,
        lanes=scenario.lanes,
        series=run.series.classes,
        moves=moves,
        queries=computed(scenario),
    )


def computed(scenario: Scenario) -> dict[str, str]:
    """Return descriptions of the simulated queries by name; a name that several different queries have is left out."""
    words: dict[str, set[str]] = {}
    for network in scenario.networks.values():
        if isinstance(network, QueryNetwork):
            for query in network.queries:
                words.setdefault(query.name, set()).add(", then ".join(map(in_words, query.operators)))
    return {
        name: text
        for name, (text, *others) in ((name, [*texts]) for name, texts in words.items())
        if not others
    }


def in_words(operator: OperatorModel) -> str:
    """Return a description of what an operator does."""
    match operator:
        case SelectBox():
            return f"a filter that passes {operator.selectivity:.4g} of its input"
        case ProjectBox():
            return "a projection"
        case LookupBox():
            return f"a lookup with {operator.selectivity:.4g} matches per tuple"
        case AggregateBox():
            return f"an aggregate of {operator.groups} groups, every {operator.slide_s:g} s over {operator.range_s:g} s"
        case JoinBox():
            return f"a join within {operator.window_s:g} s"


def results(run: Simulation, policy: str) -> dict[str, Any]:
    """Return all figures of a run, rounded, in the units that the field names state."""
    scenario = run.scenario
    spent_s = run.busy_s + run.overhead_s
    lending = run.ring.capacity.lending(run.now + run.clock_offset) if run.ring.capacity else {}
    result: dict[str, Any] = rounded(
        {
            "scenario": scenario.name,
            "manager": run.manager,
            "policy": policy,
            "seed": run.seed,
            "seconds": scenario.seconds,
            "classes": [class_of(run, name) for name in run.hosts],
            "ledger_closed": all(host.door.closes() for host in run.hosts.values()),
            "lending": lending,
            "utilisation": spent_s / (run.now * scenario.lanes),
            "scheduling_overhead_pct": 100 * run.overhead_s / spent_s if spent_s else 0.0,
        }
    )
    return result


def class_of(run: Simulation, name: str) -> dict[str, Any]:
    host, manager = run.hosts[name], run.ring.manager_of(name)
    cycles, now = run.ring.cycles, run.now + host.clock.offset_s
    mean_share = (
        run.series.shared_s[name] / (cycles * run.scenario.load.cycle_ms / 1e3)
        if cycles
        else run.ring.originals[name]
    )
    return class_results(
        host.settings,
        host.door.ledger(),
        queued=sum(host.door.queued(entry) for entry in host.door.entries),
        results=host.answers.responses.count,
        response_ms=host.answers.responses.response_ms(),
        slowdown=host.answers.responses.slowdown(),
        staleness=host.answers.staleness(now),
        unevenness=host.answers.unevenness(now),
        tardiness=host.answers.tardiness(),
        utility=host.answers.utility(),
        memory={"mean": host.queues.memory.mean(run.now), "max": host.queues.memory.peak},
        queries=host.answers.by_query(now),
        share={"original": run.ring.originals[name], "mean": mean_share, "last": run.ring.shares()[name]},
        headroom=manager.control.headroom if manager else None,
        target_met_pct=host.answers.responses.target_met_pct(),
    )


def class_results(
    settings: PriorityClass,
    ledger: TupleLedger,
    *,
    queued: int,
    results: int,
    response_ms: Mapping[str, float],
    slowdown: Mapping[str, float] | None,
    staleness: Mapping[str, float] | None = None,
    unevenness: Mapping[str, float] | None = None,
    tardiness: Mapping[str, float] | None = None,
    share: Mapping[str, float],
    headroom: float | None,
    target_met_pct: float,
    utility: Mapping[str, float] | None = None,
    memory: Mapping[str, float] | None = None,
    queries: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the figures of a class, simulated or live."""
    return {
        "name": settings.name,
        "priority": settings.priority,
        "delay_target_ms": settings.delay_target_ms,
        "offered": ledger.offered,
        "delivered": ledger.delivered,
        "shed": ledger.shed,
        "late": ledger.late,
        "rejected": ledger.rejected,
        "failed": ledger.failed,
        "queued": queued,
        "loss_pct": 100 * ledger.lost() / ledger.offered if ledger.offered else 0.0,
        "results": results,
        "response_ms": dict(response_ms),
        "slowdown": None if slowdown is None else dict(slowdown),
        "staleness": None if staleness is None else dict(staleness),
        "unevenness": None if unevenness is None else dict(unevenness),
        "tardiness": None if tardiness is None else dict(tardiness),
        "share": dict(share),
        "headroom_last": headroom,
        "target_met_pct": target_met_pct,
        "utility": None if utility is None else dict(utility),
        "memory": None if memory is None else dict(memory),
        "queries": None if queries is None else dict(queries),
    }


def rounded(value: Any, digits: int = 6) -> Any:
    match value:
        case float():
            return round(value, digits)
        case dict():
            return {key: rounded(item, digits) for key, item in value.items()}
        case list():
            return [rounded(item, digits) for item in value]
    return value
