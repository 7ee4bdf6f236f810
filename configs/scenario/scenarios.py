"""Loading of scenarios by name or path, for `weir sim`: of classes, or of periodic queries."""

from __future__ import annotations

from configs.scenario.periodic_scenario import PeriodicScenario, checked_periodic
from configs.scenario.scenario import Scenario, checked_scenario
from configs.scenario.scenario_files import scenario_data

AnyScenario = Scenario | PeriodicScenario


def load_any_scenario(source: str) -> AnyScenario:
    """Return the scenario of a preset name or a YAML file; raise InvalidInput if a setting is invalid."""
    data = scenario_data(source)
    return checked_periodic(data) if data.kind == "periodic" else checked_scenario(data)
