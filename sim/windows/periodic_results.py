"""Results of periodic queries under a schedule: the object that `-o json` prints and tables show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from configs.classes.periodic_schedules import (
    SHARING,
    PeriodicSettings,
    compared_schedules,
    schedule_of,
    schedule_text,
)
from configs.numbers import figure
from configs.scenario.periodic_scenario import PeriodicScenario, ScheduleClaim
from scheduler.windows import PeriodicQuery
from sim.outcome.results import rounded
from sim.windows.periodic_run import PeriodicOutcome, PeriodicWorkload, run_periodic
from sim.windows.periodic_scenario import workload_of

Answer = Mapping[str, Any]


def run_scenario(
    scenario: PeriodicScenario,
    settings: PeriodicSettings,
    seed: int,
    workload: PeriodicWorkload | None = None,
) -> dict[str, Any]:
    """Run the scenario under a schedule, and return rounded figures. The name of each field ends with its unit."""
    workload = workload or workload_of(scenario, seed)
    outcome = run_periodic(workload, settings, scenario.seconds)
    result: dict[str, Any] = rounded(
        {
            "scenario": scenario.name,
            "kind": scenario.kind,
            "schedule": schedule_text(settings, scenario.schedule),
            "settings": settings.model_dump(),
            "seed": seed,
            "seconds": scenario.seconds,
            "queries": len(workload.queries),
            **figures(outcome),
            **scans(outcome),
            "shortened_pct": 100 * outcome.shortened,
            "utilisation": outcome.utilisation,
            "groups": [
                group_of(name, queries, workload, outcome) for name, queries in by_group(workload).items()
            ],
        }
    )
    return result


def compared(scenario: PeriodicScenario) -> Sequence[PeriodicSettings]:
    """Return the schedules to compare, including the schedules that the scenario's claims name.

    If the scenario has no groups, the schedules differ only in the order of tasks.
    """
    named = [name for claim in scenario.claims for name in (claim.schedule, claim.other)]
    sharing = SHARING if scenario.groups else ()
    return list(compared_schedules(scenario.schedule, named, sharing).values())


def compare(
    scenario: PeriodicScenario, seed: int, on_run: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Run every schedule on the same queries, and check the scenario's claims; `on_run` is called with the number of finished runs."""
    workload = workload_of(scenario, seed)
    answers = []
    for schedule in compared(scenario):
        answers.append(run_scenario(scenario, schedule, seed, workload))
        on_run(len(answers))
    return {
        "scenario": scenario.name,
        "kind": scenario.kind,
        "seed": seed,
        "seconds": scenario.seconds,
        "schedules": answers,
        "claims": [judged(claim, scenario, answers) for claim in scenario.claims],
    }


def figures(outcome: PeriodicOutcome) -> dict[str, Any]:
    """Return the figures of the outcome's queries; latency and tardiness are None if no query was due."""
    ended = sum(query.runs for query in outcome.queries.values())
    tardy_s = sum(query.tardiness_s for query in outcome.queries.values())
    return {
        "answers": outcome.answers,
        "throughput": outcome.throughput,
        "latency_updates": outcome.latency_updates if ended else None,
        "tardiness": {"mean_ms": 1e3 * tardy_s / ended, "max_ms": 1e3 * outcome.tardiness_s_max}
        if ended
        else None,
    }


def scans(outcome: PeriodicOutcome) -> dict[str, Any]:
    return {
        "runs": outcome.tasks,
        "shared": outcome.shared,
        "answers_per_run": outcome.answers / outcome.tasks if outcome.tasks else None,
        "busy_s": sum(scan.busy_s for scan in outcome.scans.values()),
    }


def by_group(workload: PeriodicWorkload) -> dict[str, list[PeriodicQuery]]:
    queries_by_group: dict[str, list[PeriodicQuery]] = {}
    for query in workload.queries:
        queries_by_group.setdefault(query.group, []).append(query)
    return queries_by_group


def group_of(
    name: str, queries: Sequence[PeriodicQuery], workload: PeriodicWorkload, outcome: PeriodicOutcome
) -> dict[str, Any]:
    group = replace(of(outcome, queries), scans={name: outcome.scans[name]})
    by_slide: dict[tuple[int, bool], list[PeriodicQuery]] = {}
    for query in queries:
        by_slide.setdefault((query.slide, query.at_most), []).append(query)
    interval_s = workload.synopses[queries[0].synopsis].interval_s
    return {
        "name": name,
        "synopsis": queries[0].synopsis,
        "queries": len(queries),
        **figures(group),
        **scans(group),
        "sub_groups": [
            {
                "slide_s": slide * interval_s,
                "at_most": at_most,
                "period_s": outcome.periods[queries[0].name] * interval_s,
                "range_max_s": max(query.window for query in queries) * interval_s,
                "queries": len(queries),
                **figures(of(outcome, queries)),
            }
            for (slide, at_most), queries in sorted(by_slide.items())
        ],
    }


def of(outcome: PeriodicOutcome, queries: Sequence[PeriodicQuery]) -> PeriodicOutcome:
    """Return an outcome with the figures of these queries only."""
    return replace(outcome, queries={query.name: outcome.queries[query.name] for query in queries})


def judged(claim: ScheduleClaim, scenario: PeriodicScenario, answers: Sequence[Answer]) -> dict[str, Any]:
    """Check a claim: the claim holds if the schedules are in the claimed order. The ratio is reported but not checked."""
    schedule, other = (
        schedule_text(schedule_of(name, scenario.schedule), scenario.schedule)
        for name in (claim.schedule, claim.other)
    )
    by_schedule = {answer["schedule"]: metric_of(answer, claim.metric) for answer in answers}
    got, others = by_schedule[schedule], by_schedule[other]
    more = claim.more_than is not None
    high, low = (got, others) if more else (others, got)
    return {
        "metric": claim.metric,
        "schedule": schedule,
        "more_than" if more else "less_than": other,
        "claimed_times": claim.times,
        "times": round(high / low, 6) if high is not None and low else None,
        "holds": high is not None and low is not None and high > low,
        "source": claim.source,
    }


def metric_of(answer: Answer, metric: str) -> float | None:
    """Return the figure at a path such as "tardiness.mean_ms"; None if nothing was answered."""
    value: Any = answer
    for name in metric.split("."):
        value = None if value is None else value[name]
    figure: float | None = value
    return figure


NOUNS = {
    "throughput": "throughput",
    "latency_updates": "latency",
    "tardiness.mean_ms": "tardiness",
    "tardiness.max_ms": "greatest tardiness",
    "busy_s": "processor time",
}


def title_of(answer: Answer) -> str:
    """Return a title for a run or comparison: scenario, schedule, length and seed."""
    length = f"{answer['seconds']:g} s, seed {answer['seed']}"
    if "schedules" in answer:
        return f"{answer['scenario']}, {length}"
    eager = ", eager" if answer["settings"]["eager"] else ""
    order = answer["settings"]["order"]
    return f"{answer['scenario']}, schedule {answer['schedule']}, order {order}{eager}, {length}"


def words_of(claim: Answer) -> tuple[str, str, str]:
    """Return a claim as text: the finding, the claimed ratio, and the measured ratio."""
    more = "more_than" in claim
    other = claim["more_than"] if more else claim["less_than"]
    sign, some = ("×", "more") if more else ("÷", "less")
    return (
        f"{NOUNS[claim['metric']]}: {claim['schedule']} {'>' if more else '<'} {other}",
        some if claim["claimed_times"] is None else f"{sign}{claim['claimed_times']:g}",
        "–" if claim["times"] is None else sign + figure(claim["times"]),
    )
