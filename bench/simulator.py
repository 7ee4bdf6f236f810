"""Cost of the simulator: processor time for simulating the operator network of the DILoS paper tuple by tuple."""

from __future__ import annotations

import time

from bench.measure import Figure
from configs.scenario.scenario import load_scenario
from sim.simulation import Simulation


def figures() -> list[Figure]:
    scenario = load_scenario("dilos-sc")
    run = Simulation(scenario, "dilos")
    began = time.perf_counter()
    run.run()
    wall_s = time.perf_counter() - began
    tuples = sum(host.door.ledger().offered for host in run.hosts.values())
    return [
        Figure("dilos-sc, 120 s under dilos, wall time", wall_s, "s", limit=60.0),
        Figure("a simulated tuple through the DILoS network", 1e6 * wall_s / tuples, "µs", limit=60.0),
        Figure("virtual seconds per second", scenario.seconds / wall_s, "×"),
    ]
