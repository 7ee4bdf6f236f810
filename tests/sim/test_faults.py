"""Random scenarios with random faults. Invariants are checked after every load cycle. After the faults, every class must recover.

A scenario depends only on its seed. `WEIR_FAULT_SEEDS=500` in the environment runs more seeds.
"""

import itertools
import math
import os
import random
from typing import Any

import pytest
from pydantic import TypeAdapter

from configs.classes.managers import MANAGERS
from configs.classes.policies import POLICY_KINDS
from configs.scenario.arrivals import Arrivals, BurstArrivals, ConstantArrivals, PoissonArrivals
from configs.scenario.scenario import Costs, NetworkModel, Scenario
from sim.run.arrivals import arrival_chunks
from sim.run.networks import build_plan
from sim.run.offered_load import rate_scale
from sim.simulation import Simulation
from tests.support.scenarios import Data, aggregate, at, join, lookup, project, ran, scenario, select, tenant

SEEDS = range(int(os.environ.get("WEIR_FAULT_SEEDS", "36")))

# Faults and heavy load end at second FAULTY_S. Light load without faults lasts until second END_S.
FAULTY_S, END_S = 8.0, 36.0
# Load of each class after the end of the faults, in processors.
LIGHT_LOAD = 0.04
CLASSES_MAX = 4


# -- scenarios that follow from a seed -------------------------------------------------------------------------


class Dice(random.Random):
    """Generator of random parts of scenarios."""

    def often(self, value: Any, otherwise: Any) -> Any:
        return value if self.random() < 0.6 else otherwise

    def query(self, name: str, joins: bool) -> Data:
        chain = [self.join()] if joins else []
        chain += [self.operator() for _ in range(self.randint(0 if joins else 1, 3))]
        return {"name": name, "reads": ["s", "t"] if joins else ["s"], "operators": chain}

    def operator(self) -> Data:
        return self.choice(
            (
                project(self.uniform(0.05, 1)),
                select(self.uniform(0.2, 1), self.uniform(0.05, 1)),
                lookup(self.uniform(0.5, 1.8), self.uniform(0.05, 1)),
                aggregate(
                    self.uniform(0.1, 0.5), self.randint(1, 5), self.uniform(0.05, 1), self.uniform(0, 0.2)
                ),
            )
        )

    def join(self) -> Data:
        return join(
            self.uniform(0.1, 0.5), self.uniform(0.05, 0.3), self.uniform(0.05, 1), self.uniform(0, 0.2)
        )

    def network(self) -> Data:
        if self.random() < 0.2:  # each query of this network has its own queue
            return {"kind": "sharaf", "queries": self.randint(2, 5), "cost_classes": 1, "tuple_us": 300}
        joins = [self.random() < 0.25 for _ in range(self.randint(1, 3))]
        return {"kind": "queries", "queries": [self.query(f"Q{n}", joins[n]) for n in range(len(joins))]}

    def arrivals(self, rate: float, light_rate: float) -> Data:
        """Return random arrivals at `rate` until the faults end, and then evenly spaced arrivals at `light_rate`."""
        kinds: tuple[Arrivals, ...] = (
            ConstantArrivals(kind="constant", rate=rate),
            PoissonArrivals(kind="poisson", rate=rate),
            BurstArrivals(kind="bursts", rate=rate, on_s=self.uniform(0.1, 1), off_s=self.uniform(0.1, 1)),
        )
        heavy = itertools.chain(*arrival_chunks(self.choice(kinds), self, 1.0, FAULTY_S))
        light = (FAULTY_S + number / light_rate for number in range(int((END_S - FAULTY_S) * light_rate)))
        return at(*heavy, *light)

    def fault(self, name: str) -> Data:
        starts = self.uniform(0.1, FAULTY_S - 1)
        lasts = self.uniform(0.01, FAULTY_S - starts)
        match self.randrange(4):
            case 0:
                fault = {"kind": "host_dies", "down_s": lasts, "retained": self.random() < 0.5}
                return fault | {
                    "name": name,
                    "at_s": starts,
                    "rebuild_ms": self.often(0, self.uniform(0, 300)),
                }
            case 1:
                return {"kind": "reports_lost", "name": name, "at_s": starts, "for_s": lasts}
            case 2:
                late = {"delay_s": self.uniform(0.01, 2)}
                return {"kind": "reports_late", "name": name, "at_s": starts, "for_s": lasts} | late
        return {"kind": "clock_jumps", "at_s": starts, "by_s": self.uniform(-3, 3)}


def random_scenario(seed: int) -> tuple[Scenario, str]:
    """Return a scenario and the name of a manager (shedding and lending)."""
    dice = Dice(seed)
    names = "abcd"[: dice.randint(2, CLASSES_MAX)]
    lanes = dice.randint(1, 3)
    costs = dice.often({}, {"call_us": 50, "source_tuple_us": 10, "turn_us": 20, "decision_us": 2})
    networks = {f"n{place}": dice.network() for place in range(2)}
    classes = []
    for name in names:
        network = dice.choice(sorted(networks))
        model: NetworkModel = TypeAdapter[NetworkModel](NetworkModel).validate_python(networks[network])
        plan, alone = build_plan(model, Costs(**costs), random.Random(0)), dict.fromkeys(model.streams(), 1.0)
        load = dice.uniform(0.1, min(1.6, 2.0 * lanes / len(names)))
        rate, light_rate = rate_scale(plan, 10, alone, load), rate_scale(plan, 1, alone, LIGHT_LOAD)
        streams = {stream: dice.arrivals(rate, light_rate) for stream in model.streams()}
        classes.append(
            tenant(
                name,
                streams,
                network=network,
                priority=dice.choice((1, 3, 6)),
                delay_target_ms=dice.choice((150, 300, 500)),
                lendable=dice.often(1, dice.choice((0, 0.5))),
                borrow_limit=dice.often(1, dice.choice((0, 0.2))),
                max_drop=dice.often(0.95, dice.choice((0, 0.3, 0.6))),
                victim=dice.choice(("random", "oldest", "newest", "fair")),
                policy={"kind": dice.choice(POLICY_KINDS)},
            )
        )
        for given in classes[-1]["streams"].values():
            given |= {"late_fraction": dice.often(0, 0.1), "keys": dice.often(1, 8)}
    total = sum(one["priority"] for one in classes)
    for one in classes:
        one["min_share"] = dice.often(0, 0.5) * one["priority"] / total
    settings = scenario(
        *classes,
        networks=networks,
        seconds=END_S,
        seed=seed,
        lanes=lanes,
        costs=costs,
        round_ms=dice.choice((5, 10, 40)),
        train_max=dice.choice((1, 10, 50)),
        queue_max=dice.often(1_000_000, 500),
        adaptive=dice.often(True, False),
        selection=dice.often("random", "even"),
        load={
            "cycle_ms": dice.often(150, 50),
            "redistribute_every": dice.choice((1, 3, 10)),
            "step": dice.often("size", "signed"),
            "headroom_start": dice.often(1, 0.3),
        },
        faults=[dice.fault(dice.choice(names)) for _ in range(dice.randint(0, 5))],
    )
    return settings, dice.often("dilos", dice.choice(MANAGERS))


# -- conditions that hold after every load cycle ---------------------------------------------------------------


class Invariants:
    """Invariants of a run, which are checked after every load cycle."""

    def __init__(self) -> None:
        self.cycles = 0
        self._lent: dict[tuple[str, str], float] = {}
        self._answers: dict[str, int] = {}

    def __call__(self, run: Simulation) -> None:
        self.cycles += 1
        self.tuples(run)
        self.shares(run)
        self.control(run)
        self.lanes(run)
        self.lending(run)

    def tuples(self, run: Simulation) -> None:
        for name, host in run.hosts.items():
            assert host.door.closes(), f"the ledger of {name} is open at {run.now} s"
            for entry in host.door.entries:
                account = entry.ledger
                fates = (account.delivered, account.shed, account.late, account.rejected, account.failed)
                assert min(fates) >= 0, f"{name} {entry.stream}: {account} at {run.now} s"
                # Tuples of the running operator call (at most `train_max`) count as queued.
                assert host.door.queued(entry) <= run.scenario.queue_max + run.scenario.train_max
            assert host.answers.responses.count >= self._answers.get(name, 0)
            self._answers[name] = host.answers.responses.count

    def shares(self, run: Simulation) -> None:
        shares = run.ring.shares()
        assert sum(shares.values()) == pytest.approx(1, abs=1e-9)
        for one in run.scenario.classes:
            original = run.ring.originals[one.name]
            if run.manager not in ("dilos", "dilos-unscaled"):
                assert shares[one.name] == original
                continue
            floor = max(one.min_share, original * (1 - one.lendable), original * 0.05)
            assert floor - 1e-9 <= shares[one.name] <= original + one.borrow_limit + 1e-9

    def control(self, run: Simulation) -> None:
        for one in run.scenario.classes:
            manager = run.ring.manager_of(one.name)
            assert (manager is None) == (run.manager == "none")
            if manager is not None:
                assert 0 < manager.control.headroom < math.inf
                assert 0 <= 1 - manager.control.keep <= one.max_drop + 1e-9
                assert all(
                    entry.shedder.keep == manager.control.keep for entry in run.hosts[one.name].door.entries
                )

    def lanes(self, run: Simulation) -> None:
        running = [lane.host.name for lane in run.lanes if lane.host is not None]
        assert len(running) == len(set(running)), f"{running} at {run.now} s"
        assert run.busy_s + run.overhead_s <= run.now * run.scenario.lanes + 0.5

    def lending(self, run: Simulation) -> None:
        if run.ring.capacity is None:
            return
        lent = {
            (lender, borrower): seconds
            for lender, borrowers in run.ring.capacity.lending(run.now + run.clock_offset).items()
            for borrower, seconds in borrowers.items()
        }
        for pair, seconds in lent.items():
            assert pair[0] != pair[1]
            assert seconds >= self._lent.get(pair, 0.0)
        jumped_s = sum(abs(getattr(fault, "by_s", 0.0)) for fault in run.scenario.faults)
        assert sum(lent.values()) <= (run.now + jumped_s) * run.scenario.lanes
        self._lent = lent


@pytest.mark.parametrize("seed", SEEDS, ids="seed{}".format)
def test_invariants_hold_during_faults_and_classes_recover_afterwards(seed: int) -> None:
    print(f"seed {seed}: .venv/bin/python -m pytest 'tests/sim/test_faults.py' -k seed{seed}")
    settings, manager = random_scenario(seed)
    print(manager, settings.model_dump_json(exclude={"networks": True, "classes": {"__all__": {"streams"}}}))
    holds = Invariants()
    answers: dict[float, list[int]] = {}

    def check(run: Simulation) -> None:
        holds(run)
        answers[run.now] = [host.answers.responses.count for host in run.hosts.values()]

    run = ran(settings, manager, on_cycle=check)
    assert holds.cycles == pytest.approx(END_S / (settings.load.cycle_ms / 1e3), abs=1)

    # At the end of the light load, queues are empty, no tuple is shed, and all answers are in time.
    late = [at_s for at_s in answers if at_s > END_S - 4]
    for place, (name, series) in enumerate(run.series.classes.items()):
        assert min(series.queued[-20:]) == 0
        # Unless ALoMa changes headroom by the rule `size`, headroom may fall so low that recovery takes minutes.
        if settings.load.step == "size":
            assert set(series.drop[-20:]) == {0}
            assert answers[late[0]][place] < answers[late[-1]][place]
        last_ms = [ms for ms in series.response_ms if ms is not None][-1]
        assert last_ms <= run.hosts[name].settings.delay_target_ms


@pytest.mark.parametrize("seed", SEEDS[:3], ids="seed{}".format)
def test_a_run_with_faults_is_the_same_for_the_same_seed(seed: int) -> None:
    settings, manager = random_scenario(seed)
    first, second = (ran(settings, manager) for _ in range(2))
    assert first.series == second.series
    assert [host.door.ledger() for host in first.hosts.values()] == [
        host.door.ledger() for host in second.hosts.values()
    ]
