"""Loading of scenarios by name or path, for `weir sim`: of classes, or of periodic queries."""

from __future__ import annotations

from configs.errors import InvalidInput
from configs.scenario.periodic_scenario import PeriodicScenario, checked_periodic
from configs.scenario.scenario import Scenario, checked_scenario
from configs.scenario.scenario_files import scenario_data

AnyScenario = Scenario | PeriodicScenario


def load_any_scenario(source: str) -> AnyScenario:
    """Return the scenario of a preset name or a YAML file; raise InvalidInput if a setting is invalid."""
    data = scenario_data(source)
    return checked_periodic(data) if data.kind == "periodic" else checked_scenario(data)


def load_periodic(source: str) -> PeriodicScenario:
    """Return a scenario of periodic queries; raise InvalidInput if it is invalid, or describes classes."""
    scenario = load_any_scenario(source)
    if not isinstance(scenario, PeriodicScenario):
        hint = "give a scenario of periodic queries; only `weir sim` runs both kinds"
        raise InvalidInput(
            "the scenario describes classes, not periodic queries", "kind", scenario.kind, hint, source
        )
    return scenario
