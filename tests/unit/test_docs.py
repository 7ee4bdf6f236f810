"""Checks of the documentation: keys, commands, tests and links that it names exist, and its examples run."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel
from typer.core import TyperGroup
from typer.main import get_command

from bench.picture.__main__ import PATH, picture
from configs.classes.__main__ import PAGE, written
from configs.classes.periodic_schedules import Hybrid, PeriodicSettings, compared_schedules
from configs.classes.policies import POLICY_KINDS
from configs.scenario.arrivals import Arrivals, Stall
from configs.scenario.cost_drift import CostStep
from configs.scenario.periodic_scenario import (
    Aggregates,
    CostModel,
    Drawn,
    OneTime,
    PeriodicScenario,
    ScheduleClaim,
    SynopsisModel,
    WindowGroup,
    WindowModel,
    checked_periodic,
)
from configs.scenario.scenario import (
    Fault,
    NetworkModel,
    OperatorModel,
    QueryModel,
    Scenario,
    SimulatedClass,
    checked_scenario,
)
from configs.scenario.scenario_files import ScenarioData
from configs.yaml_loading import parse_yaml
from engine.sql import SqlCatalog, parse_create_stream, plan_query, split_statements
from services.cli.main import app
from sim.windows.periodic_results import compare
from tests.support.checkout import ROOT

PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("tests/*.md"), *ROOT.glob("bench/*.md")]
)


def scenario_models() -> Iterator[type[BaseModel]]:
    yield from (Scenario, SimulatedClass, QueryModel, Stall, CostStep)
    yield from (
        PeriodicScenario,
        SynopsisModel,
        OneTime,
        WindowGroup,
        WindowModel,
        Drawn,
        Aggregates,
        ScheduleClaim,
    )
    for name in ("costs", "load"):
        model = Scenario.model_fields[name].annotation
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        yield model
    for union in (Arrivals, Fault, NetworkModel, OperatorModel, CostModel, PeriodicSettings):
        yield from get_args(get_args(union)[0])


def fenced(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def test_every_page_of_the_documentation_is_in_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert set(re.findall(r"\]\((\w[\w-]*\.md)\)", index)) == pages


@pytest.mark.parametrize("model", list(scenario_models()), ids=lambda model: model.__name__)
def test_every_key_of_a_scenario_is_described_in_the_documentation(model: type[BaseModel]) -> None:
    page = (ROOT / "docs/scenarios.md").read_text(encoding="utf-8")
    assert [
        key
        for key in model.model_fields
        if f"`{key}`" not in page and f"`{key}:" not in page and key != "kind"
    ] == []


def test_the_policy_table_in_the_documentation_matches_the_policies_in_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "run `make policies`"
    assert [kind for kind in POLICY_KINDS if f"\n| `{kind}` |" not in page] == []


def test_the_scenario_examples_are_valid_and_run() -> None:
    of_classes, of_periodic = (parse_yaml(text) for text in fenced("docs/scenarios.md", "yaml"))
    scenario = checked_scenario(ScenarioData("classes", of_classes, ""))
    periodic = checked_periodic(ScenarioData("periodic", of_periodic, ""))
    assert (scenario.name, periodic.name) == ("two-tenants", "dashboards")
    assert compare(periodic.model_copy(update={"seconds": 70}), periodic.seed)["claims"][0]["holds"]


def test_every_compared_schedule_is_described_in_the_documentation() -> None:
    page = (ROOT / "docs/scenarios.md").read_text(encoding="utf-8")
    assert [text for text in compared_schedules(Hybrid()) if f"`{text}`" not in page] == []


def commands(group: TyperGroup, before: str = "weir") -> Iterator[str]:
    for name, one in group.commands.items():
        if isinstance(one, TyperGroup):
            yield from commands(one, f"{before} {name}")
        else:
            yield f"{before} {name}"


def test_every_command_is_described_in_the_documentation() -> None:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"## Commands\n(.*?)\n\n", page, re.DOTALL)
    rows = [re.findall(r"`([^`]+)`", line.split("|")[1]) for line in table.splitlines()[2:]]
    named = set()
    for first, *others in rows:
        head, space, _ = first.partition(" ")
        named |= {f"weir {first}", *(f"weir {head} {one}" if space else f"weir {one}" for one in others)}
    assert named == set(commands(group))


def test_every_statement_of_the_sql_page_can_be_planned() -> None:
    catalog, planned = SqlCatalog.of(), []
    for statement in split_statements("\n".join(fenced("docs/sql.md", "sql"))):
        if statement.kind == "stream":
            catalog = catalog.with_entry(parse_create_stream(statement.text))
        else:
            planned.append(plan_query(statement.name, statement.text, catalog))
            catalog = catalog.with_query(planned[-1])
    assert len(planned) == 14


def test_every_test_that_an_invariant_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/invariants.md").read_text(encoding="utf-8")))
    written = {
        name
        for file in ROOT.glob("tests/**/*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8"))
    }
    assert named
    assert sorted(named - written) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_has_a_target(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize(
    "target", re.findall(r"(?:`|\$ )make ([a-z-]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
)
def test_every_make_target_in_the_readme_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def methods(package: str) -> set[str]:
    """Return `Class.method` of every method that is defined in a package."""
    return {
        f"{node.name}.{member.name}"
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
        for member in node.body
        if isinstance(member, ast.FunctionDef)
    }


def test_every_function_and_file_in_life_of_a_tuple_exists() -> None:
    page = (ROOT / "docs" / "life-of-a-tuple.md").read_text("utf-8")
    named = set(re.findall(r"`([A-Z]\w+\.\w+)`", page))
    defined = set().union(*map(methods, ("actors", "engine", "loadshed", "scheduler", "services")))
    files = set(re.findall(r"`([a-z_/]+\.py)`", page))
    assert (len(named) > 20, named - defined) == (True, set())
    assert [path for path in files if not (ROOT / path).is_file()] == []


def test_the_picture_of_the_readme_matches_its_script() -> None:
    assert PATH.read_text(encoding="utf-8") == picture()
