"""Recorded runs, and the changes that tests make to them."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from configs.scenario.scenario import Scenario
from services.cli.simulation.replay import Recording
from sim.simulation import Simulation
from tests.support.scenarios import poisson, project, queries, scenario, tenant


def recorded_run(folder: Path, settings: Scenario, manager: str = "dilos") -> Simulation:
    with closing(Recording(folder)) as recording:
        return Simulation(settings, manager, None, lambda _: recording.flush(), recording.open).run()


def lending(seconds: float = 7.0) -> Scenario:
    """Return a scenario in which gold lends its share, and reclaims the share when its load begins. Bronze is always overloaded."""
    load = {
        "kind": "steps",
        "steps": [{"at_s": at, "rate": rate} for at, rate in ((0, 40), (2, 900), (4, 40))],
    }
    return scenario(
        tenant("gold", {"s": load}, priority=3, delay_target_ms=300),
        tenant("bronze", {"s": poisson(1100)}, priority=1, delay_target_ms=300),
        networks={"n": queries(Q=[project(1.0)])},
        seconds=seconds,
        train_max=50,
    )


def lines_of(log: Path) -> list[Any]:
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()]


def write_lines(log: Path, lines: list[Any]) -> None:
    log.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), "utf-8")


def change_line(log: Path, chosen: Callable[[Any], bool], change: Callable[[Any], None]) -> int:
    """Change the first line of a record for which `chosen` returns True, and return the number of the line."""
    lines = lines_of(log)
    place = next(place for place, line in enumerate(lines) if chosen(line))
    change(lines[place])
    write_lines(log, lines)
    return place + 1
