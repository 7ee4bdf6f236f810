"""Generator of scenarios: a number always gives the same scenario, and each class of it follows one pattern of load.

| pattern | load of the class, relative to its original share |
|---|---|
| steady | constant or Poisson arrivals, 0.5 to 0.97 |
| bursty | ON and OFF periods with Pareto-distributed lengths, 0.6 to 1.5 while ON |
| sleeper | 0.8 to 0.98 for 0.7 to 2 s of every 3 to 6 s, and nothing otherwise |
| owner | little or nothing, and 0.9 to 0.98 (sometimes more than 1.3) from the moments at which all owners return |
| drift | steady arrivals with costs that change in steps and ramps, at most 0.97 |
| rare | 0.85 to 0.98: a busy query, and a query that keeps few tuples of a stream with 2 to 20 tuples per second |
| stall | steady arrivals of a producer that stalls, and then sends at once or at a limited rate what it has collected |
| pair | 0.7 to 0.97: a window join of a busy stream with a stream that sleeps for a while, and a query over the busy stream |
| surge | below the share, but 1.3 to 3 for a few seconds |
| overload | 1.3 or more, all the time |

Each scenario has a class of the pattern `overload`, which borrows what other classes lend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from bench.patterns.oracle import AT_TRAIN, tuple_work_us
from configs.scenario.scenario import Costs, QueryNetwork, Scenario, contradictions
from sim.run.rng import generator

Data = dict[str, Any]

# Length of a run: 10 redistributions. Loads change from STEADY_S on, after the second redistribution has lent what is unused.
SECONDS, STEADY_S = 15.0, 3.5
TARGETS_MS = (50, 75, 100, 150, 200, 300, 400, 500, 800, 1200, 2000, 3000, 5000)
# Shortest delay target in ms of a class with the whole machine. The turns of a class with a tenth of the machine are ten times rarer.
TARGET_LEAST_MS = 3.5
PRIORITIES = (1.0, 9.0)
# Factors of the costs of a class, and limits of its trains. Trains of costly tuples are short, so that no call takes long.
SCALES = (1, 1, 3, 8)
TRAIN_LEAST, TRAIN_MOST = AT_TRAIN, 32
CLASSES = (2, 10)
POLICIES = ("fcfs", "rr", "brt", "hnr", "srpt", "chain", "bsd", "lsf")
# Part of the classes that have the default policy.
DEFAULT_PART = 0.6


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """Scenario of the generator, with the pattern of each class."""

    number: int
    scenario: Scenario
    kinds: Mapping[str, str]
    steps_s: Mapping[str, tuple[float, ...]]
    """Moments at which a class begins to need more of its share, by class."""


@dataclass(kw_only=True)
class Draft:
    """Class that is being drawn."""

    rng: Random
    capacity: float
    """Processors to which the original share entitles the class."""
    target_s: float
    costs: Costs
    scale: int
    """Factor of the costs of the class. A class with high costs has few tuples, and learns its costs slowly."""
    returns_s: tuple[float, ...]
    """Moments at which all owners of the scenario return."""
    queries: list[Data] = field(default_factory=list)
    streams: dict[str, Data] = field(default_factory=dict)
    steps_s: tuple[float, ...] = ()

    def rate(self, load: float, stream: str = "readings") -> float:
        """Return the rate of a stream that offers a load, relative to the original share."""
        queries = QueryNetwork.model_validate({"queries": self.queries}).queries
        return load * self.capacity / (1e-6 * tuple_work_us(self.costs, queries, stream))

    def operator(self, kind: str, **settings: Any) -> Data:
        """Return an operator with a random cost."""
        call_us, tuple_us = self.scale * self.costs.call_us, self.scale * self.rng.randint(12, 50)
        return {"kind": kind, "call_us": call_us, "tuple_us": tuple_us, **settings}

    def read(self, arrivals: Data, stream: str = "readings", **settings: Any) -> None:
        self.streams[stream] = {"arrivals": arrivals, **settings}

    def steady(self, load: float) -> Data:
        """Return arrivals on the stream `readings` with a load that does not change."""
        return {"kind": self.rng.choice(("poisson", "constant")), "rate": self.rate(load)}

    def stepped(self, *loads: tuple[float, float]) -> Data:
        """Return arrivals on the stream `readings` from pairs of a time and the load from this time on."""
        return {"kind": "steps", "steps": [{"at_s": at_s, "rate": self.rate(load)} for at_s, load in loads]}


def drawn(number: int) -> Pattern:
    """Return the scenario with this number."""
    rng = generator(number, "patterns")
    kinds = drawn_kinds(number, rng)
    priorities = [round(rng.uniform(*PRIORITIES), 1) for _ in kinds]
    if sum(priorities) == 10:
        priorities[0] += 0.5
    costs = Costs(
        call_us=round(rng.uniform(15, 60)),
        source_tuple_us=round(rng.uniform(2, 10)),
        turn_us=10,
        decision_us=1,
    )
    times = sorted(rng.uniform(STEADY_S, SECONDS - 4) for _ in range(2))
    returns_s = tuple(times if times[1] - times[0] > 4.5 else times[:1])
    networks: dict[str, Data] = {}
    classes: list[Data] = []
    steps_s: dict[str, tuple[float, ...]] = {}
    for place, (kind, priority) in enumerate(zip(kinds, priorities, strict=True), start=1):
        name = f"c{place}"
        share = priority / sum(priorities)
        scale = rng.choice(SCALES)
        least_ms = TARGET_LEAST_MS * (1 + scale / 2) / share
        allowed_ms = [target for target in TARGETS_MS if target >= least_ms] or [TARGETS_MS[-1]]
        # Short delay targets are drawn more often, because they are harder to meet.
        target_ms = allowed_ms[int(len(allowed_ms) * rng.random() ** 1.5)]
        draft = Draft(
            rng=rng,
            capacity=share,
            target_s=target_ms / 1e3,
            costs=costs,
            scale=scale,
            returns_s=returns_s,
        )
        draft.queries = [drawn_query(draft, f"q{query}") for query in range(1, rng.randint(1, 3) + 1)]
        PATTERNS[kind](draft)
        networks[name] = {"kind": "queries", "queries": draft.queries}
        steps_s[name] = draft.steps_s
        class_ = {
            "name": name,
            "priority": priority,
            "delay_target_ms": target_ms,
            "network": name,
            "train_max": max(TRAIN_LEAST, TRAIN_MOST // scale),
        }
        policy = {} if rng.random() < DEFAULT_PART else {"policy": {"kind": rng.choice(POLICIES)}}
        classes.append({**class_, **policy, "streams": draft.streams})
    scenario = Scenario.model_validate(
        {
            "name": f"pattern-{number}",
            "description": ", ".join(f"c{place} {kind}" for place, kind in enumerate(kinds, start=1)),
            "seconds": SECONDS,
            "drain": True,
            "train_max": TRAIN_MOST,
            "costs": costs,
            "networks": networks,
            "classes": classes,
        }
    )
    problems = list(contradictions(scenario))
    assert not problems, problems
    return Pattern(
        number=number,
        scenario=scenario,
        kinds={f"c{place}": kind for place, kind in enumerate(kinds, start=1)},
        steps_s=steps_s,
    )


def drawn_kinds(number: int, rng: Random) -> list[str]:
    """Return the pattern of each class. The number decides how many classes there are, and one of the patterns."""
    every = [*PATTERNS]
    least, most = CLASSES
    size = least + number % (most - least + 1)
    kinds = [every[number % len(every)], "overload", *(rng.choice(every) for _ in range(size - 2))]
    if number % 3 == 0 and size >= 5:
        kinds[2:5] = ["owner", "owner", "overload"]
    rng.shuffle(kinds)
    return kinds


def drawn_query(draft: Draft, name: str) -> Data:
    """Return a query over the stream `readings`."""
    rng = draft.rng
    select = draft.operator("select", selectivity=round(rng.uniform(0.05, 0.9), 2))
    project = draft.operator("project")
    lookup = draft.operator("lookup", selectivity=round(rng.uniform(0.5, 1.0), 2))
    slide_s, slides = rng.choice((0.5, 1.0, 2.0)), rng.choice((1, 2, 5))
    groups = rng.choice((1, 4, 10))
    aggregate = draft.operator(
        "aggregate", slide_s=slide_s, range_s=slide_s * slides, groups=groups, result_us=5
    )
    chains: Sequence[list[Data]] = (
        [select],
        [select, project],
        [lookup, select],
        [aggregate],
        [select, aggregate],
    )
    return {"name": name, "reads": ["readings"], "operators": rng.choice(chains)}


# --- patterns of load -----------------------------------------------------------------------------------------------


def steady(draft: Draft) -> None:
    draft.read(draft.steady(draft.rng.uniform(0.5, 0.97)))


def bursty(draft: Draft) -> None:
    rng = draft.rng
    on_s, off_s = rng.uniform(0.1, 0.6), rng.uniform(0.2, 1.2)
    rate = draft.rate(rng.uniform(0.6, 1.5)) * on_s / (on_s + off_s)
    draft.read({"kind": "bursts", "rate": rate, "on_s": on_s, "off_s": off_s, "alpha": rng.uniform(1.5, 4)})


def sleeper(draft: Draft) -> None:
    rng = draft.rng
    period_s, on_s, load = rng.uniform(3, 6), rng.uniform(0.7, 2), rng.uniform(0.8, 0.98)
    first_s = rng.uniform(STEADY_S, STEADY_S + 2)
    draft.steps_s = tuple(
        first_s + lap * period_s for lap in range(int((SECONDS - first_s - on_s) / period_s) + 1)
    )
    loads = [(0.0, 0.0)]
    for at_s in draft.steps_s:
        loads += [(at_s, load), (at_s + on_s, 0.0)]
    draft.read(draft.stepped(*loads))


def owner(draft: Draft) -> None:
    rng = draft.rng
    low = rng.choice((0.0, rng.uniform(0.05, 0.3)))
    high = rng.uniform(0.9, 0.98) if rng.random() < 0.75 else rng.uniform(1.3, 3)
    draft.steps_s = draft.returns_s
    loads = [(0.0, low)]
    for at_s in draft.steps_s:
        loads += [(at_s, high), (at_s + rng.uniform(2, 4), low)]
    draft.read(draft.stepped(*loads))


def drift(draft: Draft) -> None:
    rng = draft.rng
    times = sorted(rng.uniform(STEADY_S, SECONDS - 3) for _ in range(rng.randint(2, 4)))
    steps = [
        {"at_s": at_s, "factor": rng.uniform(0.4, 2.2), "ramp_s": rng.choice((0.0, rng.uniform(0.1, 3)))}
        for at_s in times
    ]
    for step, after_s in zip(steps, times[1:], strict=False):
        step["ramp_s"] = min(step["ramp_s"], 0.9 * (after_s - step["at_s"]))
    for query in draft.queries:
        query["cost_drift"] = steps
    draft.read(draft.steady(rng.uniform(0.7, 0.97) / max(1.0, *(step["factor"] for step in steps))))


def rare(draft: Draft) -> None:
    rng = draft.rng
    selective = draft.operator("select", selectivity=round(rng.uniform(0.05, 0.25), 2))
    draft.queries.append({"name": "rare", "reads": ["events"], "operators": [selective]})
    draft.read(draft.steady(rng.uniform(0.85, 0.98)))
    draft.read({"kind": rng.choice(("poisson", "constant")), "rate": rng.uniform(2, 20)}, "events")


def stall(draft: Draft) -> None:
    rng = draft.rng
    load = rng.uniform(0.4, 0.85)
    arrivals = draft.steady(load)
    times = [rng.uniform(STEADY_S, 6), rng.uniform(8.5, 11)]
    stalls: list[Data] = []
    for at_s in times:
        if rng.random() < 0.5:
            stalls.append({"at_s": at_s, "for_s": min(2.0, rng.uniform(0.1, 0.48) / load * draft.target_s)})
        else:
            catch_up_rate = arrivals["rate"] * rng.uniform(1.05, 0.98 / load)
            stalls.append({"at_s": at_s, "for_s": rng.uniform(0.5, 3), "catch_up_rate": catch_up_rate})
    draft.steps_s = tuple(stalled["at_s"] + stalled["for_s"] for stalled in stalls)
    draft.read(arrivals, stalls=stalls)


def pair(draft: Draft) -> None:
    rng = draft.rng
    window_s, other_rate = rng.uniform(0.2, 1.0), rng.uniform(5, 40)
    joined = draft.operator(
        "join",
        window_s=window_s,
        selectivity=min(1.0, rng.uniform(0.1, 0.5) / (window_s * other_rate)),
        match_us=5,
    )
    draft.queries.append({"name": "pairs", "reads": ["readings", "alerts"], "operators": [joined]})
    draft.read({"kind": "poisson", "rate": draft.rate(rng.uniform(0.7, 0.97))})
    asleep = {"at_s": rng.uniform(STEADY_S, 6), "for_s": rng.uniform(3, 6), "collects": False}
    draft.read({"kind": "poisson", "rate": other_rate}, "alerts", stalls=[asleep])


def surge(draft: Draft) -> None:
    rng = draft.rng
    low, high = rng.uniform(0.2, 0.8), rng.uniform(1.3, 3)
    draft.steps_s = (rng.uniform(STEADY_S, 6), rng.uniform(8.5, 11))
    loads = [(0.0, low)]
    for at_s in draft.steps_s:
        loads += [(at_s, high), (at_s + rng.uniform(0.5, 3.5), low)]
    draft.read(draft.stepped(*loads))


def overload(draft: Draft) -> None:
    rng = draft.rng
    draft.read({"kind": "poisson", "rate": draft.rate(max(1.3, rng.uniform(0.7, 1.3) / draft.capacity))})


PATTERNS: Mapping[str, Callable[[Draft], None]] = {
    pattern.__name__: pattern
    for pattern in (steady, bursty, sleeper, owner, drift, rare, stall, pair, surge, overload)
}
