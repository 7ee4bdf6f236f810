"""`weir sim`: a scenario in virtual time, of classes or (`services.cli.simulation.periodic_sim`) of periodic queries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing, nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from os import cpu_count
from pathlib import Path
from typing import Annotated, Any

import typer

from configs.classes.managers import MANAGERS, known_manager
from configs.classes.periodic_schedules import PERIODIC_KINDS
from configs.classes.policies import POLICY_KINDS, policy_of
from configs.errors import InvalidInput, UnknownName, nearest
from configs.scenario.periodic_scenario import PeriodicScenario
from configs.scenario.scenario import Scenario
from configs.scenario.scenario_files import preset_names
from configs.scenario.scenarios import load_any_scenario
from scheduler.tuning import last_of
from services.cli.simulation.periodic_sim import run_periodic_sim, wanted_schedule
from services.cli.simulation.replay import Recording, replay_logs
from services.cli.tables.progress import progress
from services.cli.tables.sheet import FormatOption, screen
from services.cli.tables.tables import (
    answers_table,
    claim_table,
    compare_table,
    policy_tables,
    promise_table,
    result_table,
)
from sim.outcome.promises import check_promises
from sim.outcome.report import write_report
from sim.outcome.results import outcome_of, results
from sim.simulation import Simulation

DEFAULT_MANAGER = "dilos"
# Of what a scenario of classes can be asked for, what one of periodic queries has.
INSTEAD = {
    "--compare": "--schedules compares what periodic queries run by",
    "--policies": "--schedules compares what periodic queries run by",
    "--policy": "name a schedule with --schedule",
}


@dataclass(frozen=True)
class Job:
    """One run of a comparison, small enough to send to another process."""

    label: str
    scenario: Scenario
    manager: str
    policy: str
    seed: int


def presets(incomplete: str) -> list[str]:
    """Return the presets that begin so."""
    return [name for name in preset_names() if name.startswith(incomplete)]


def sim(
    scenario: Annotated[
        str | None,
        typer.Argument(
            help=f"Scenario: a preset ({', '.join(preset_names())}) or a YAML file.",
            show_default=False,
            autocompletion=presets,
        ),
    ] = None,
    manager: Annotated[
        str | None,
        typer.Option(
            "--manager",
            "-m",
            help=f"Load manager, which sheds and lends: {', '.join(MANAGERS)}.",
            show_default=f"{DEFAULT_MANAGER}; none with --policies",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            "-p",
            help=f"Policy that orders the operators of every class: {', '.join(POLICY_KINDS)}; with settings: fas:beta=0.25.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of everything random; the same seed gives the same output.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Length of the run in virtual time.")] = None,
    output: FormatOption = "table",
    report: Annotated[
        Path | None, typer.Option(help="Folder for an HTML page with plots.", show_default=False)
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Run the scenario under every load manager and compare them.")
    ] = False,
    policies: Annotated[
        bool,
        typer.Option(
            "--policies",
            help="Run the scenario under every policy and compare them with the claims of the papers.",
        ),
    ] = False,
    schedule: Annotated[
        str | None,
        typer.Option(
            help=f"Schedule of periodic queries: {', '.join(PERIODIC_KINDS)}, hybrid:late=off, …",
            show_default="the scenario's",
        ),
    ] = None,
    schedules: Annotated[
        bool,
        typer.Option(
            "--schedules",
            help="Run periodic queries under every schedule and compare them with the claims of the papers.",
        ),
    ] = False,
    explain: Annotated[
        str | None,
        typer.Option(
            help="Class to explain: its last decisions are printed in words.",
            show_default=False,
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the events and decisions of every core, for --replay.", show_default=False
        ),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            help="Event log, or folder of event logs, to replay: its decisions are made again and compared.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Simulate a scenario in virtual time: what each class gets and loses, or when periodic queries are answered."""
    if replay is not None:
        beside = (scenario, manager, policy, schedule, seed, seconds, report, explain, record)
        if compare or policies or schedules or any(given is not None for given in beside):
            raise InvalidInput(
                "a log is replayed as it was recorded", "--replay", hint="give it alone, or with -o json"
            )
        replay_logs(replay, output)
        return
    if scenario is None:
        hint = "write the name of a scenario, or --replay LOG"
        raise InvalidInput("required, but missing", "SCENARIO", hint=hint)
    found = load_any_scenario(scenario)
    if isinstance(found, PeriodicScenario):
        refuse_of_classes(
            found.name,
            {
                "--compare": compare or None,
                "--policies": policies or None,
                "--manager": manager,
                "--policy": policy,
                "--explain": explain,
                "--record": record,
            },
        )
        wanted = wanted_schedule(found, schedule, schedules)
        seed = checked_seed(found.seed if seed is None else seed)
        if seconds is not None:
            found = found.model_copy(update={"seconds": checked_seconds(seconds)})
        if report is not None:
            make_folder("--report", report)
        run_periodic_sim(found, wanted, seed, output, report)
        return
    if schedules or schedule is not None:
        raise InvalidInput(
            f"is about periodic queries, of which {found.name} has none",
            "--schedules" if schedules else "--schedule",
            None if schedules else schedule,
            "name a scenario of `kind: periodic`, such as golab-low; docs/scenarios.md tells its keys",
        )
    if compare and policies:
        raise InvalidInput("--compare and --policies exclude each other", hint="run the command twice")
    if manager is not None:
        known_manager(manager)
    if compare and manager is not None:
        raise InvalidInput("--compare runs every manager", "--manager", manager, "leave out one of the two")
    if policies and policy is not None:
        raise InvalidInput("--policies runs every policy", "--policy", policy, "leave out one of the two")
    for option, given in (("--report", report), ("--explain", explain), ("--record", record)):
        if given is not None and (compare or policies):
            raise InvalidInput(f"{option} is about one run", hint="leave out --compare and --policies")
    # Level 2 alone: with shedding a policy would be compared on different tuples.
    manager = manager or ("none" if policies else DEFAULT_MANAGER)
    chosen = configured(found, policy, seconds)
    if explain is not None and explain not in (names := [class_.name for class_ in chosen.classes]):
        raise UnknownName("no such class", "--explain", explain, nearest(explain, names))
    if report is not None:
        make_folder("--report", report)
    if record is not None:
        make_folder("--record", record)
    seed = checked_seed(chosen.seed if seed is None else seed)
    out = screen(output)
    if compare or policies:
        rows = run_all(comparison(chosen, policies, policy, manager, seed))
        if output == "json":
            typer.echo(json.dumps(list(rows.values()), indent=2))
        elif policies:
            title = f"{chosen.name}, manager {manager}, {chosen.seconds:g} s, seed {seed}"
            out.print(policy_tables(title, rows))
            if chosen.claims:
                out.print(claim_table(chosen.claims, rows))
        else:
            out.print(compare_table(f"{chosen.name}, {chosen.seconds:g} s, seed {seed}", rows))
        return
    run = run_one(Job(chosen.name, chosen, manager, policy or policy_name(chosen), seed), record)
    outcome = outcome_of(run, policy or policy_name(chosen))
    promises = check_promises(outcome)
    if output == "json":
        typer.echo(json.dumps(outcome.result, indent=2))
    else:
        out.print(result_table(outcome.result))
        out.print(answers_table(outcome.result))
        out.print(promise_table(promises))
    if explain is not None:
        for line in explanations(run, explain):
            typer.echo(line, err=output == "json")
    if report is not None:
        typer.echo(f"report: {write_report(outcome, promises, report)}", err=output == "json")


def refuse_of_classes(name: str, given: Mapping[str, object]) -> None:
    """Options that a scenario of periodic queries has no use for."""
    for option, value in given.items():
        if value is not None:
            hint = INSTEAD.get(option, "leave it out")
            title = f"is about classes, of which {name} has none"
            raise InvalidInput(title, option, None if value is True else str(value), hint)


def configured(scenario: Scenario, policy: str | None, seconds: float | None) -> Scenario:
    """The scenario with what the command line changes."""
    if seconds is not None:
        checked_seconds(seconds)
        faults = tuple(fault for fault in scenario.faults if fault.at_s < seconds)
        scenario = scenario.model_copy(update={"seconds": seconds, "faults": faults})
    if policy is not None:
        settings = policy_of(policy)
        classes = tuple(class_.model_copy(update={"policy": settings}) for class_ in scenario.classes)
        scenario = scenario.model_copy(update={"classes": classes})
    return scenario


def make_folder(option: str, folder: Path) -> None:
    """Make the folder an option names, if it is not there: before the run, which may be long."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InvalidInput(
            f"cannot be a folder: {why}", option, str(folder), "choose another place"
        ) from None


def checked_seconds(seconds: float) -> float:
    if not 0 < seconds <= 86_400:
        hint = "give seconds of virtual time"
        raise InvalidInput("must be above 0 and at most 86400", "--seconds", seconds, hint)
    return seconds


def checked_seed(seed: int) -> int:
    if seed < 0:
        raise InvalidInput("must not be negative", "--seed", seed, "any whole number from 0 on")
    return seed


def policy_name(scenario: Scenario) -> str:
    return ",".join(dict.fromkeys(class_.policy_name for class_ in scenario.classes))


def comparison(scenario: Scenario, policies: bool, policy: str | None, manager: str, seed: int) -> list[Job]:
    if policies:
        return [
            Job(
                name,
                scenario.model_copy(
                    update={
                        "classes": tuple(
                            class_.model_copy(update={"policy": policy_of(name)})
                            for class_ in scenario.classes
                        )
                    }
                ),
                manager,
                name,
                seed,
            )
            for name in compared_policies(scenario)
        ]
    return [Job(name, scenario, name, policy or policy_name(scenario), seed) for name in MANAGERS]


def compared_policies(scenario: Scenario) -> list[str]:
    """Every policy, and those with settings of their own that a claim names."""
    named = [name for claim in scenario.claims for name in (claim.policy, claim.below)]
    return list(dict.fromkeys([*POLICY_KINDS, *named]))


def run_one(job: Job, record: Path | None = None) -> Simulation:
    """One run with a progress bar, recorded if a folder is given."""
    with (
        progress(f"{job.label} {job.manager}", job.scenario.seconds) as advance,
        closing(Recording(record)) if record is not None else nullcontext() as recording,
    ):

        def on_cycle(run: Simulation) -> None:
            advance(run.now)
            if recording is not None:
                recording.flush()

        open_record = recording.open if recording is not None else None
        return Simulation(job.scenario, job.manager, job.seed, on_cycle, open_record).run()


def run_all(jobs: Sequence[Job]) -> Mapping[str, dict[str, Any]]:
    """Every job, on as many processes as there are processors; in the order given."""
    done: dict[str, dict[str, Any]] = {}
    workers = min(len(jobs), cpu_count() or 1)
    with (
        progress("comparing", len(jobs)) as advance,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
    ):
        pending = {pool.submit(result_of, job): job.label for job in jobs}
        for future in as_completed(pending):
            done[pending[future]] = future.result()
            advance(len(done))
    return {job.label: done[job.label] for job in jobs}


def result_of(job: Job) -> dict[str, Any]:
    return results(Simulation(job.scenario, job.manager, job.seed).run(), job.policy)


def explanations(run: Simulation, name: str, last: int = 20) -> list[str]:
    """The class's last decisions in words, and all by which it came to go by another policy."""
    manager, tuned = run.ring.manager_of(name), run.tunings.get(name)
    policies = [] if tuned is None else [one.sentence() for one in last_of(tuned.core.explanations, last)]
    if manager is None:
        return policies or ["this manager makes no decisions"]
    return [*(explanation.sentence() for explanation in list(manager.explanations)[-last:]), *policies]
