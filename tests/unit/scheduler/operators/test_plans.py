"""Decision plans (superboxes and push-through) on the tree of Carney's thesis: the order of operator calls, and their time."""

import pytest

from configs.classes.policies import PolicySettings, Superbox, policy_of
from scheduler.operators.network import Estimate, Network, NetworkEstimates, ScheduledOperator
from scheduler.operators.policies import NONE
from scheduler.operators.policies.decision_plans import traversal
from scheduler.operators.scheduler import OperatorScheduler

# Tree of operators: b1 is the root, b2 and b6 feed b1, b3 and b4 feed b2, and b5 feeds b3.
NAMES = ("b5", "b4", "b3", "b2", "b6", "b1")
TREE = Network(
    tuple(
        ScheduledOperator(name, tuple(map(NAMES.index, feeds)), source=name in ("b5", "b4", "b6"))
        for name, feeds in zip(NAMES, (("b3",), ("b2",), ("b2",), ("b1",), ("b1",), ()), strict=True)
    )
)
ALIKE = (Estimate(1.0, 1.0),) * len(NAMES)
# Cost and selectivity of each operator, from Table 3.3 of Carney's thesis.
TABLE = {"b1": (2, 0.9), "b2": (2, 0.4), "b3": (1, 0.5), "b4": (2, 1.0), "b5": (3, 0.4), "b6": (1, 0.6)}
MIN_COST = "b4 b5 b3 b2 b6 b1"
MIN_LATENCY = "b1 b2 b1 b6 b1 b4 b2 b1 b3 b2 b1 b5 b3 b2 b1"


class Run:
    """Run of a scheduler, in which operators only count their tuples.

    The time of an answer is the number of calls times the cost of a call, plus the number of tuples times the cost of a tuple.
    """

    def __init__(
        self, settings: PolicySettings, network: Network = TREE, sources_last: bool = False, train: int = 1000
    ) -> None:
        self.network, self.train = network, train
        estimates = (Estimate(1.0, 1.0),) * len(network.operators)
        self.scheduler = OperatorScheduler(network, settings, estimates, False, sources_last)
        self.queued = [0] * len(network.operators)
        self.calls: list[str] = []
        self.answers: list[tuple[int, int]] = []
        self.spent_p = 0

    def enter(self, operator: int, tuples: int) -> None:
        self.queued[operator] += tuples
        if tuples:
            self.scheduler.ready(operator, 0.0)

    def drain(self) -> "Run":
        """Run until no tuple is queued. For each answer, record how many tuples were processed and how many calls were made until then."""
        while (number := self.scheduler.pick(0.0)) != NONE:
            box, tuples = self.network.operators[number], min(self.queued[number], self.train)
            self.calls.append(box.name)
            self.queued[number] -= tuples
            for _ in range(tuples):
                self.spent_p += 1
                if not box.downstream:
                    self.answers.append((self.spent_p, len(self.calls)))
            if not self.queued[number]:
                self.scheduler.idle(number)
            for below in box.downstream:
                self.enter(below, tuples)
        return self

    @property
    def total(self) -> tuple[int, int]:
        return self.spent_p, len(self.calls)

    @property
    def mean_latency(self) -> tuple[float, float]:
        of_p, of_o = zip(*self.answers, strict=True)
        return sum(of_p) / len(of_p), sum(of_o) / len(of_o)


def one_tuple_each(kind: str) -> Run:
    run = Run(policy_of(f"superbox:traversal={kind}"))
    for operator in range(len(NAMES)):
        run.enter(operator, 1)
    return run.drain()


@pytest.mark.parametrize(
    ("kind", "calls", "total", "mean"),
    [("min-cost", MIN_COST, (15, 6), (12.5, 6)), ("min-latency", MIN_LATENCY, (15, 15), (43 / 6, 43 / 6))],
)
def test_superboxes_call_operators_in_the_order_and_time_of_the_thesis(
    kind: str, calls: str, total: tuple[int, int], mean: tuple[float, float]
) -> None:
    run = one_tuple_each(kind)
    assert (" ".join(run.calls), run.total) == (calls, total)
    assert run.mean_latency == pytest.approx(mean)


def test_plan_min_latency_answers_sooner_than_min_cost_if_a_tuple_costs_over_a_fifth_of_an_operator_call() -> (
    None
):
    (cost_p, cost_o), (latency_p, latency_o) = (
        one_tuple_each(kind).mean_latency for kind in ("min-cost", "min-latency")
    )
    assert (latency_o - cost_o) / (cost_p - latency_p) == pytest.approx(0.22, abs=0.005)


def test_minimum_memory_calls_operators_in_the_order_of_the_thesis_pseudocode() -> None:
    believed = NetworkEstimates(TREE, tuple(Estimate(*TABLE[name]) for name in NAMES))
    plan = traversal("min-memory", believed, list(range(len(NAMES))))
    assert " ".join(NAMES[one] for one in plan) == "b3 b6 b2 b5 b3 b1 b4 b2"


def test_tuples_left_by_a_decision_plan_are_processed_in_the_next_plan() -> None:
    assert one_tuple_each("min-memory").total[0] == 15


def test_all_traversals_of_a_superbox_make_the_same_calls_for_one_tuple_in_a_chain() -> None:
    chain = Network(
        tuple(ScheduledOperator(f"b{4 - n}", (n + 1,) if n < 3 else (), n == 0) for n in range(4))
    )
    found = set()
    for kind in ("min-cost", "min-latency"):
        run = Run(policy_of(f"superbox:traversal={kind}"), chain)
        run.enter(0, 5)
        found.add(" ".join(run.drain().calls))
    assert found == {"b4 b3 b2 b1"}


# Two chains of three operators, as in Carney's thesis. SHARED is a network of two queries with a common source.
CHAINS = Network(
    tuple(
        ScheduledOperator(f"{chain}{3 - place}", (3 * row + place + 1,) if place < 2 else (), place == 0)
        for row, chain in enumerate("bc")
        for place in range(3)
    )
)
SHARED = Network(
    (
        ScheduledOperator("s", (1, 2), source=True),
        ScheduledOperator("b2", (3,)),
        ScheduledOperator("c2", (4,)),
        ScheduledOperator("b1"),
        ScheduledOperator("c1"),
    )
)


@pytest.mark.parametrize("sources_last", [False, True])
@pytest.mark.parametrize("kind", ["fixed", "slope-slack", "bucket"])
def test_pushed_tuples_reach_the_root_before_the_next_decision(kind: str, sources_last: bool) -> None:
    run = Run(policy_of(f"{kind}:push_through=true"), CHAINS, sources_last)
    run.enter(0, 2)
    run.enter(3, 1)
    assert " ".join(run.drain().calls) in ("b3 b2 b1 c3 c2 c1", "c3 c2 c1 b3 b2 b1")


def test_a_capped_train_is_pushed_through_before_the_next_train() -> None:
    run = Run(policy_of("fixed:push_through=true"), CHAINS, sources_last=True, train=2)
    run.enter(0, 3)
    assert " ".join(run.drain().calls) == "b3 b2 b1 b3 b2 b1"


def test_a_superbox_finishes_one_query_before_another_query_runs_but_round_robin_does_not() -> None:
    # The numbers of operators alternate between the two chains, so that round robin changes to the other chain after every operator.
    crosswise = Network(
        tuple(
            ScheduledOperator(f"{chain}{3 - place}", (2 * place + 2 + row,) if place < 2 else (), place == 0)
            for place in range(3)
            for row, chain in enumerate("bc")
        )
    )
    calls = []
    for policy in ("rr", "superbox:order=rr"):
        run = Run(policy_of(policy), crosswise)
        run.enter(0, 2)
        run.enter(1, 1)
        calls.append(" ".join(run.drain().calls))
    assert calls == ["b3 c3 b2 c2 b1 c1", "b3 b2 b1 c3 c2 c1"]


def test_a_shared_source_runs_alone_and_then_each_query_as_a_whole() -> None:
    run = Run(Superbox(), SHARED, sources_last=True)
    run.enter(0, 2)
    assert " ".join(run.drain().calls) == "s b2 b1 c2 c1"


def test_sources_run_only_when_no_tuple_is_queued_inside_the_network() -> None:
    run = Run(Superbox(), sources_last=True)
    for name in ("b4", "b5", "b6"):
        run.enter(NAMES.index(name), 1)
    assert " ".join(run.drain().calls) == "b5 b3 b2 b1 b4 b2 b1 b6 b1"


def test_decision_plans_also_run_operators_that_are_added_later() -> None:
    run = Run(policy_of("fixed:push_through=true"), CHAINS, sources_last=True)
    run.enter(0, 1)
    run.drain()
    run.scheduler.extend([ScheduledOperator("b0")], [(2, 6)], [Estimate(1.0, 1.0)])
    run.network, run.queued = run.scheduler.network, [0] * 7
    run.enter(0, 1)
    assert " ".join(run.drain().calls) == "b3 b2 b1 b3 b2 b1 b0"
