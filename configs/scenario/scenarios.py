"""A scenario of any kind, by its name or path: what `weir sim` runs."""

from __future__ import annotations

from configs.errors import InvalidInput
from configs.scenario.periodic_scenario import PeriodicScenario, checked_periodic
from configs.scenario.scenario import Scenario, checked_scenario
from configs.scenario.scenario_files import scenario_data

AnyScenario = Scenario | PeriodicScenario


def load_any_scenario(source: str) -> AnyScenario:
    """A preset by name, or a YAML file by path; InvalidInput if anything in it cannot be."""
    data = scenario_data(source)
    return checked_periodic(data) if data.kind == "periodic" else checked_scenario(data)


def load_periodic(source: str) -> PeriodicScenario:
    """The same, of periodic queries."""
    scenario = load_any_scenario(source)
    if not isinstance(scenario, PeriodicScenario):
        hint = "name a scenario of periodic queries; `weir sim` runs either"
        raise InvalidInput("describes classes, not periodic queries", "kind", scenario.kind, hint, source)
    return scenario
