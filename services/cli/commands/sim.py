"""`weir sim`: simulate a scenario of classes, or of periodic queries (`periodic_sim.py`), in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from os import cpu_count
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType

from configs.classes.managers import MANAGERS, known_manager
from configs.classes.periodic_schedules import PERIODIC_KINDS
from configs.classes.policies import POLICY_KINDS, policy_of
from configs.errors import InvalidInput, UnknownName, nearest
from configs.scenario.periodic_scenario import PeriodicScenario
from configs.scenario.scenario import Scenario
from configs.scenario.scenario_files import preset_names
from configs.scenario.scenarios import load_any_scenario
from scheduler.tuning import last_of
from services.cli.shared_options import RecordOption
from services.cli.simulation.periodic_sim import run_periodic_sim, wanted_schedule
from services.cli.simulation.replay import Recording, replay_logs
from services.cli.tables.catalog_views import show
from services.cli.tables.outcome_tables import claim_table, compare_table, outcome_tables, policy_tables
from services.cli.tables.progress import progress
from services.cli.tables.sheet import Format, FormatOption
from services.cli.usage import excluded, missing
from services.common.weir_home import unusable
from sim.outcome.promises import check_promises
from sim.outcome.report import write_report
from sim.outcome.results import outcome_of, results
from sim.simulation import Simulation

DEFAULT_MANAGER = "dilos"
# Hint for each option that is refused for periodic queries, because the option applies only to a scenario of classes.
INSTEAD = {
    "--compare": "compare the schedules of periodic queries with --schedules",
    "--policies": "compare the schedules of periodic queries with --schedules",
    "--policy": "choose a schedule of periodic queries with --schedule",
}


@dataclass(frozen=True)
class SimulationJob:
    """Settings of one simulation in a comparison, which are sent to the process that runs the simulation."""

    label: str
    scenario: Scenario
    manager: str
    policy: str
    seed: int


def presets(incomplete: str) -> list[str]:
    """Return the names of presets that begin with the typed text."""
    return [name for name in preset_names() if name.startswith(incomplete)]


ScenarioArgument = Annotated[
    str | None,
    typer.Argument(
        help=f"Scenario: a preset ({', '.join(preset_names())}) or a YAML file.", autocompletion=presets
    ),
]
ManagerOption = Annotated[
    str | None,
    typer.Option(
        "--manager",
        "-m",
        help=f"Load manager, which decides on shedding and lending: {', '.join(MANAGERS)}.",
        show_default=f"{DEFAULT_MANAGER}, or none with --policies",
    ),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        "-p",
        help=f"Policy that chooses the next operator of every class: {', '.join(POLICY_KINDS)}; with a setting: fas:beta=0.25.",
    ),
]
SeedOption = Annotated[
    int | None, typer.Option(min=0, help="Seed of the random numbers; the same seed gives the same output.")
]
SecondsOption = Annotated[float | None, typer.Option(help="Length of the run in seconds of virtual time.")]
ReportOption = Annotated[Path | None, typer.Option(help="Folder for an HTML page with plots.")]
CompareOption = Annotated[
    bool,
    typer.Option("--compare", help="Run the scenario under every load manager, and compare the results."),
]
PoliciesOption = Annotated[
    bool,
    typer.Option(
        "--policies",
        help="Run the scenario under every policy, and compare the results with the claims of the papers.",
    ),
]
ScheduleOption = Annotated[
    str | None,
    typer.Option(
        help=f"Schedule of periodic queries: {', '.join(PERIODIC_KINDS)}; with a setting: hybrid:late=off.",
        show_default="the schedule of the scenario",
    ),
]
SchedulesOption = Annotated[
    bool,
    typer.Option(
        "--schedules",
        help="Run periodic queries under every schedule, and compare the results with the claims of the papers.",
    ),
]
ExplainOption = Annotated[
    str | None,
    typer.Option(help="Class to explain. The last decisions about this class are printed in words."),
]

ReplayOption = Annotated[
    Path | None,
    typer.Option(
        help="Event log, or folder of event logs: make the recorded decisions again, and compare new and recorded decisions."
    ),
]


@dataclass(frozen=True, kw_only=True)
class SimOptions:
    """Options of a run or of a comparison of runs, as given on the command line."""

    manager: str | None
    policy: str | None
    seed: int | None
    seconds: float | None
    output: Format
    report: Path | None
    compare: bool
    policies: bool
    schedule: str | None
    schedules: bool
    explain: str | None
    record: Path | None


def sim(
    *,
    scenario: ScenarioArgument = None,
    manager: ManagerOption = None,
    policy: PolicyOption = None,
    seed: SeedOption = None,
    seconds: SecondsOption = None,
    output: FormatOption = "table",
    report: ReportOption = None,
    compare: CompareOption = False,
    policies: PoliciesOption = False,
    schedule: ScheduleOption = None,
    schedules: SchedulesOption = False,
    explain: ExplainOption = None,
    record: RecordOption = None,
    replay: ReplayOption = None,
) -> None:
    """Simulate a scenario in virtual time: response times and losses per class, or the tardiness of periodic queries."""
    if replay is not None:
        others = (scenario, manager, policy, schedule, seed, seconds, report, explain, record)
        if compare or policies or schedules or any(option is not None for option in others):
            raise excluded("--replay", None, "options of a run", "write --replay LOG alone, or with -o json")
        replay_logs(replay, output)
        return
    if scenario is None:
        raise missing("SCENARIO", "write the name of a scenario, or --replay LOG")
    options = SimOptions(
        manager=manager,
        policy=policy,
        seed=seed,
        seconds=seconds,
        output=output,
        report=report,
        compare=compare,
        policies=policies,
        schedule=schedule,
        schedules=schedules,
        explain=explain,
        record=record,
    )
    loaded = load_any_scenario(scenario)
    if isinstance(loaded, PeriodicScenario):
        sim_periodic(loaded, options)
    else:
        sim_classes(loaded, options)


def sim_periodic(scenario: PeriodicScenario, options: SimOptions) -> None:
    """Run periodic queries under one schedule, or under every schedule."""
    refuse_of_classes(
        scenario.name,
        {
            "--compare": options.compare or None,
            "--policies": options.policies or None,
            "--manager": options.manager,
            "--policy": options.policy,
            "--explain": options.explain,
            "--record": options.record,
        },
    )
    schedule = wanted_schedule(scenario, options.schedule, options.schedules)
    seed = scenario.seed if options.seed is None else options.seed
    if options.seconds is not None:
        scenario = scenario.model_copy(update={"seconds": checked_seconds(options.seconds)})
    if options.report is not None:
        make_folder("--report", options.report)
    run_periodic_sim(scenario, schedule, seed, options.output, options.report)


def sim_classes(scenario: Scenario, options: SimOptions) -> None:
    """Run classes once, or once under every manager or policy."""
    check_of_classes(scenario, options)
    # Policies are compared without a load manager: with shedding, they would process different tuples.
    manager = options.manager or ("none" if options.policies else DEFAULT_MANAGER)
    scenario = configured(scenario, options.policy, options.seconds)
    explain = options.explain
    if explain is not None and explain not in (names := [class_.name for class_ in scenario.classes]):
        raise UnknownName(
            "the scenario has no class of this name", "--explain", explain, nearest(explain, names)
        )
    if options.report is not None:
        make_folder("--report", options.report)
    if options.record is not None:
        make_folder("--record", options.record)
    seed = scenario.seed if options.seed is None else options.seed
    if options.compare or options.policies:
        print_comparison(scenario, options, manager, seed)
    else:
        print_run(scenario, options, manager, seed)


def check_of_classes(scenario: Scenario, options: SimOptions) -> None:
    """Raise InvalidInput for options that exclude each other, and for options of periodic queries if the scenario has no periodic queries."""
    if options.schedules or options.schedule is not None:
        raise InvalidInput(
            f"this option needs a scenario of periodic queries, and {scenario.name} has classes",
            "--schedules" if options.schedules else "--schedule",
            None if options.schedules else options.schedule,
            "choose a scenario of `kind: periodic`, such as golab-low (see docs/scenarios.md)",
        )
    compares = options.compare or options.policies
    if options.compare and options.policies:
        raise InvalidInput(
            "--compare and --policies cannot be combined", hint="run the command once with each option"
        )
    if options.manager is not None:
        known_manager(options.manager)
    if options.compare and options.manager is not None:
        raise excluded("--manager", options.manager, "--compare, which runs every manager")
    if options.policies and options.policy is not None:
        raise excluded("--policy", options.policy, "--policies, which runs every policy")
    of_one_run = {"--report": options.report, "--explain": options.explain, "--record": options.record}
    for option, value in of_one_run.items():
        if value is not None and compares:
            raise InvalidInput(
                f"{option} works only for a single run", hint="leave out --compare and --policies"
            )


def print_comparison(scenario: Scenario, options: SimOptions, manager: str, seed: int) -> None:
    """Run the scenario under every manager or policy, and print one row for each."""
    rows = run_all(comparison(scenario, options.policies, options.policy, manager, seed))

    def table() -> RenderableType:
        length = f"{scenario.seconds:g} s, seed {seed}"
        if not options.policies:
            return compare_table(f"{scenario.name}, {length}", rows)
        tables = policy_tables(f"{scenario.name}, manager {manager}, {length}", rows)
        return Group(tables, claim_table(scenario.claims, rows)) if scenario.claims else tables

    show(options.output, list(rows.values()), table)


def print_run(scenario: Scenario, options: SimOptions, manager: str, seed: int) -> None:
    """Run the scenario once; print its outcome and the explanations, and write the report."""
    policy = options.policy or policy_name(scenario)
    run = run_one(SimulationJob(scenario.name, scenario, manager, policy, seed), options.record)
    outcome = outcome_of(run, policy)
    promises = check_promises(outcome)
    on_stderr = options.output == "json"
    show(options.output, outcome.result, lambda: outcome_tables(outcome, promises))
    if options.explain is not None:
        for line in explanations(run, options.explain):
            typer.echo(line, err=on_stderr)
    if options.report is not None:
        typer.echo(f"report: {write_report(outcome, promises, options.report)}", err=on_stderr)


def refuse_of_classes(name: str, options: Mapping[str, object]) -> None:
    """Raise InvalidInput if an option that applies only to classes is given for a scenario of periodic queries."""
    for option, value in options.items():
        if value is not None:
            hint = INSTEAD.get(option, f"leave {option} out")
            title = f"this option needs a scenario of classes, and {name} has periodic queries"
            raise InvalidInput(title, option, None if value is True else str(value), hint)


def configured(scenario: Scenario, policy: str | None, seconds: float | None) -> Scenario:
    """Return the scenario with the changes that the command line asks for."""
    if seconds is not None:
        checked_seconds(seconds)
        faults = tuple(fault for fault in scenario.faults if fault.at_s < seconds)
        scenario = scenario.model_copy(update={"seconds": seconds, "faults": faults})
    return scenario if policy is None else with_policy(scenario, policy)


def with_policy(scenario: Scenario, policy: str) -> Scenario:
    settings = policy_of(policy)
    classes = tuple(class_.model_copy(update={"policy": settings}) for class_ in scenario.classes)
    return scenario.model_copy(update={"classes": classes})


def make_folder(option: str, folder: Path) -> None:
    """Create the folder that an option names, if it does not exist, so that a long run does not fail at its end."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(error, "the folder cannot be created", folder, option) from None


def checked_seconds(seconds: float) -> float:
    if not 0 < seconds <= 86_400:
        hint = "write seconds of virtual time"
        raise InvalidInput(
            "the simulated time must be above 0 and at most 86400 seconds", "--seconds", seconds, hint
        )
    return seconds


def policy_name(scenario: Scenario) -> str:
    return ",".join(dict.fromkeys(class_.policy_name for class_ in scenario.classes))


def comparison(
    scenario: Scenario, policies: bool, policy: str | None, manager: str, seed: int
) -> list[SimulationJob]:
    if policies:
        names = compared_policies(scenario)
        return [SimulationJob(name, with_policy(scenario, name), manager, name, seed) for name in names]
    return [SimulationJob(name, scenario, name, policy or policy_name(scenario), seed) for name in MANAGERS]


def compared_policies(scenario: Scenario) -> list[str]:
    """Return the names of the policies to compare: all policies, then the variants of policies that the scenario's claims name."""
    named = [name for claim in scenario.claims for name in (claim.policy, claim.below)]
    return list(dict.fromkeys([*POLICY_KINDS, *named]))


def run_one(job: SimulationJob, record: Path | None = None) -> Simulation:
    """Run one simulation with a progress bar, and record it if a folder is given."""
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


def run_all(jobs: Sequence[SimulationJob]) -> Mapping[str, dict[str, Any]]:
    """Run the jobs in one process per processor, and return the results in the order of the jobs."""
    done: dict[str, dict[str, Any]] = {}
    workers = min(len(jobs), cpu_count() or 1)
    with (
        progress("comparing", len(jobs)) as advance,
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
    ):
        for job, result in zip(jobs, pool.map(result_of, jobs), strict=True):
            done[job.label] = result
            advance(len(done))
    return done


def result_of(job: SimulationJob) -> dict[str, Any]:
    return results(Simulation(job.scenario, job.manager, job.seed).run(), job.policy)


def explanations(run: Simulation, name: str, last: int = 20) -> list[str]:
    """Return the last decisions about a class in words, then the last changes of its policy."""
    manager, tuned = run.ring.manager_of(name), run.tunings.get(name)
    policies = (
        []
        if tuned is None
        else [explanation.sentence() for explanation in last_of(tuned.core.explanations, last)]
    )
    if manager is None:
        return policies or ["this manager makes no decisions"]
    return [*(explanation.sentence() for explanation in list(manager.explanations)[-last:]), *policies]
