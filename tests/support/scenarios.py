"""Functions that build small scenarios in a line or two, and shortened presets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from configs.scenario.scenario import Scenario, contradictions, load_scenario
from sim.simulation import Simulation

Data = dict[str, Any]


def scenario(*classes: Data, networks: Mapping[str, Any], **settings: Any) -> Scenario:
    """Return a scenario with the given classes, checked like a scenario from a file. The default duration is ten seconds."""
    data = {"name": "small", "seconds": 10, "networks": networks, "classes": classes} | settings
    made = Scenario.model_validate(data)
    assert not list(contradictions(made))
    return made


def tenant(name: str, streams: Mapping[str, Data], **settings: Any) -> Data:
    """Return a class of priority 1 on network `n`, with a delay target of a minute."""
    inputs = {stream: {"arrivals": arrivals} for stream, arrivals in streams.items()}
    return {
        "name": name,
        "priority": 1,
        "delay_target_ms": 60_000,
        "network": "n",
        "streams": inputs,
    } | settings


def queries(**operators: Sequence[Data]) -> Data:
    """Return a network of chains of operators. Chains read the stream `s`. Chains that begin with a join read `s` and `t`."""
    return {
        "kind": "queries",
        "queries": [
            {"name": name, "reads": ["s", "t"] if chain[0]["kind"] == "join" else ["s"], "operators": chain}
            for name, chain in operators.items()
        ],
    }


def project(ms: float) -> Data:
    return {"kind": "project", "tuple_us": 1e3 * ms}


def select(selectivity: float, ms: float) -> Data:
    return {"kind": "select", "selectivity": selectivity, "tuple_us": 1e3 * ms}


def lookup(selectivity: float, ms: float) -> Data:
    return {"kind": "lookup", "selectivity": selectivity, "tuple_us": 1e3 * ms}


def aggregate(slide_s: float, groups: int, ms: float, result_ms: float = 0) -> Data:
    return {
        "kind": "aggregate",
        "range_s": 10,
        "slide_s": slide_s,
        "groups": groups,
        "tuple_us": 1e3 * ms,
        "result_us": 1e3 * result_ms,
    }


def join(window_s: float, selectivity: float, ms: float, match_ms: float = 0) -> Data:
    return {
        "kind": "join",
        "window_s": window_s,
        "selectivity": selectivity,
        "tuple_us": 1e3 * ms,
        "match_us": 1e3 * match_ms,
    }


def constant(rate: float) -> Data:
    return {"kind": "constant", "rate": rate}


def poisson(rate: float) -> Data:
    return {"kind": "poisson", "rate": rate}


def at(*times_s: float) -> Data:
    return {"kind": "trace", "times_s": times_s}


def preset(name: str, **changes: Any) -> Scenario:
    """Return a preset with some fields changed, for example a shorter duration."""
    return load_scenario(name).model_copy(update=changes)


def ran(
    settings: Scenario,
    manager: str = "none",
    seed: int | None = None,
    on_cycle: Callable[[Simulation], None] | None = None,
) -> Simulation:
    return Simulation(settings, manager, seed, on_cycle).run()
