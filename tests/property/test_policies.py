"""Properties of every policy, and each policy's formula evaluated for all ready operators at every pick.

The formulas are computed here from costs and selectivities by following the tuples downstream, not with the
segments that the policies themselves use.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.classes.policies import CLUSTERED_KINDS, POLICY_KINDS, Bucketed, FreshnessAware, policy_of
from configs.classes.utility import UtilityGraph
from scheduler.operators.network import Estimate, Network, NetworkEstimates, ScheduledOperator
from scheduler.operators.policies import NONE, CountingPolicy, Policy, build_policy
from scheduler.operators.policies.wait_time import ClusteredPolicy
from scheduler.operators.scheduler import OperatorScheduler
from tests.support.utility_graphs import gradient_at, slack_at

DYNAMIC_KINDS = (*CLUSTERED_KINDS, "slope-slack", "bucket", "edf-hr")
EVERY_POLICY = [(kind, 0) for kind in POLICY_KINDS] + [(kind, 4) for kind in CLUSTERED_KINDS]
EVERY_POLICY += [("hnr:sharing=sum", 0), ("hnr:sharing=max", 0)]
EVERY_POLICY += [("bsd:search=fagin", 0), ("bsd:search=fagin", 4), ("bsd:clustering=uniform", 4)]
TOGETHER = ("bsd:processing=clustered", 4)


# -- random networks, and random sequences of calls to a policy ------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> UtilityGraph:
    """Draw a QoS graph with up to four corners within 200 seconds."""
    latencies = sorted(draw(st.sets(st.integers(0, 200), min_size=1, max_size=4)))
    count = len(latencies)
    utilities = sorted(draw(st.lists(st.integers(0, 4), min_size=count, max_size=count)), reverse=True)
    points = zip(latencies, utilities, strict=True)
    return UtilityGraph.model_validate(
        {"points": [{"latency_ms": 1e3 * at, "utility": worth / 4} for at, worth in points]}
    )


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Draw up to seven operators. Each operator feeds at most two later operators, and two adjacent operators may form a join."""
    size = draw(st.integers(1, 7))
    downstream = [
        tuple(sorted(draw(st.sets(st.integers(number + 1, size - 1), max_size=2))))
        if number + 1 < size
        else ()
        for number in range(size)
    ]
    fed = {below for edges in downstream for below in edges}
    partners: dict[int, int] = {}
    for number in range(size - 1):
        if number not in partners and draw(st.integers(0, 4)) == 0:
            partners |= {number: number + 1, number + 1: number}
    return Network(
        tuple(
            ScheduledOperator(
                f"operator{number}",
                downstream[number],
                source=number not in fed,
                size_out=draw(st.sampled_from([1.0, 0.5, 2.0])),
                partner=partners.get(number),
                weight=draw(st.sampled_from([1.0, 0.25, 3.0])),
                answers=bool(downstream[number]) and draw(st.booleans()),
                utility=None if downstream[number] else draw(st.none() | graphs()),
            )
            for number in range(size)
        )
    )


costs = st.one_of(st.sampled_from([0.5, 1.0, 2.0]), st.floats(0.001, 100))
selectivities = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0.001, 3))


@st.composite
def estimates(draw: st.DrawFn, network: Network) -> NetworkEstimates:
    return NetworkEstimates(
        network, tuple(Estimate(draw(costs), draw(selectivities)) for _ in network.operators)
    )


@dataclass(frozen=True)
class Ready:
    operator: int
    age: float
    """Time since the oldest tuple arrived, in seconds."""
    tuples: int
    """Number of tuples that wait at the operator."""


@dataclass(frozen=True)
class Idle:
    operator: int


@dataclass(frozen=True)
class Pick:
    then_idle: bool


@dataclass(frozen=True)
class Rank:
    believed: NetworkEstimates


Step = Ready | Idle | Pick | Rank


@dataclass(frozen=True)
class Script:
    """Estimates with which a policy starts, and the calls of the policy, one per second."""

    start: NetworkEstimates
    steps: tuple[Step, ...]


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    network = draw(networks())
    operator = st.integers(0, len(network.operators) - 1)
    age = st.one_of(st.integers(0, 3).map(float), st.floats(0, 100))
    ready = st.builds(Ready, operator, age, st.integers(1, 6))
    pick = st.builds(Pick, st.booleans())
    step = st.one_of(ready, ready, pick, pick, st.builds(Idle, operator), st.builds(Rank, estimates(network)))
    return Script(draw(estimates(network)), tuple(draw(st.lists(step, max_size=30))))


@dataclass
class Picked:
    """Operator that a policy picked, with everything that the policy knew at that moment."""

    operator: int
    now: float
    heads: dict[int, float]
    """Arrival of the oldest tuple of each ready operator."""
    believed: NetworkEstimates
    tuples: dict[int, int]
    """Number of waiting tuples of each ready operator."""


def answers(
    policy: Policy,
    script: Script,
    clock: Callable[[float], float] = float,
    queued: Mapping[int, float] | None = None,
) -> Iterator[Picked]:
    """Make the calls of `script`, and yield every pick. `clock` is the policy's clock. `queued` has the operators ready at first."""
    heads = dict(queued or {})
    tuples = dict.fromkeys(heads, 1)
    believed = script.start
    for second, step in enumerate(script.steps):
        match step:
            case Ready(operator, age, waiting):
                heads[operator], tuples[operator] = second - age, waiting
                if isinstance(policy, CountingPolicy):
                    policy.pending(operator, waiting)
                policy.ready(operator, heads[operator])
            case Idle(operator):
                heads.pop(operator, None)
                tuples.pop(operator, None)
                policy.idle(operator)
            case Rank(believed):
                policy.rank(believed)
            case Pick(then_idle):
                picked = policy.pick(clock(second))
                yield Picked(picked, second, dict(heads), believed, dict(tuples))
                if then_idle and picked != NONE:
                    del heads[picked], tuples[picked]
                    policy.idle(picked)


# -- the formulas of the policies --------------------------------------------------------------------------


def answers_and_cost(believed: NetworkEstimates, start: int) -> tuple[dict[int, float], float]:
    """Follow one tuple downstream from `start`. Return the expected answers of each root, and the expected processor time."""
    arriving = {start: 1.0}
    answers: dict[int, float] = {}
    cost = 0.0
    for number, (operator, own) in enumerate(
        zip(believed.network.operators, believed.estimates, strict=True)
    ):
        if number not in arriving:
            continue
        tuples = arriving[number]
        cost += tuples * own.cost_s
        for below in operator.downstream:
            arriving[below] = arriving.get(below, 0.0) + tuples * own.selectivity
        if not operator.downstream:
            answers[number] = tuples * own.selectivity
    return answers, cost


def ideal(believed: NetworkEstimates, root: int) -> float:
    """Return T, the processing time of an answer that waits for nothing: the cost of all its operators, on both sides of joins."""
    operators, needed = believed.network.operators, {root}
    while True:
        more = {
            number
            for number, operator in enumerate(operators)
            if needed & set(operator.downstream) or any(operators[one].partner == number for one in needed)
        }
        if more <= needed:
            return math.fsum(believed.estimates[number].cost_s for number in needed)
        needed |= more


Gain = Callable[[NetworkEstimates, int], float]
"""Worth of an answer of a root."""


def each(believed: NetworkEstimates, root: int) -> float:
    return 1.0


def by_ideal(believed: NetworkEstimates, root: int) -> float:
    return 1 / ideal(believed, root)


def by_ideal_sq(believed: NetworkEstimates, root: int) -> float:
    return 1 / ideal(believed, root) ** 2


def of_all(gain: Gain) -> Callable[[NetworkEstimates, int], float]:
    """Return a priority function: the expected gain of all answers to a tuple, divided by the expected cost
    of processing the tuple.
    """

    def priority(believed: NetworkEstimates, x: int) -> float:
        answers, cost = answers_and_cost(believed, x)
        return sum(s * gain(believed, root) for root, s in answers.items()) / cost

    return priority


def of_the_best_tree(gain: Gain) -> Callable[[NetworkEstimates, int], float]:
    """Return a priority function: the highest ratio of gain to cost that any part of the downstream operators has.

    Operators with a lower ratio are left out again and again, until the ratio no longer rises.
    """

    def at_least(believed: NetworkEstimates, x: int, least: float) -> tuple[float, float]:
        own, below = believed.estimates[x], believed.network.operators[x].downstream
        gained, cost = (0.0, own.cost_s) if below else (own.selectivity * gain(believed, x), own.cost_s)
        for one in below:
            more, dearer = at_least(believed, one, least)
            if more > least * dearer:
                gained, cost = gained + own.selectivity * more, cost + own.selectivity * dearer
        return gained, cost

    def priority(believed: NetworkEstimates, x: int) -> float:
        best = 0.0
        while True:
            gained, cost = at_least(believed, x, best)
            if gained / cost <= best * (1 + 1e-12):
                return best
            best = gained / cost

    return priority


def of_the_best_path(gain: Gain) -> Callable[[NetworkEstimates, int], float]:
    """Return a priority function: the highest ratio of gain to cost of all paths from the operator to a root."""

    def ways(believed: NetworkEstimates, x: int) -> list[tuple[float, float]]:
        own, below = believed.estimates[x], believed.network.operators[x].downstream
        if not below:
            return [(own.selectivity * gain(believed, x), own.cost_s)]
        return [
            (own.selectivity * more, own.cost_s + own.selectivity * cost)
            for one in below
            for more, cost in ways(believed, one)
        ]

    return lambda believed, x: max(more / cost for more, cost in ways(believed, x))


def shortest_ideal(believed: NetworkEstimates, x: int) -> float:
    return 1 / min(ideal(believed, root) for root in answers_and_cost(believed, x)[0])


def paths_through(network: Network, x: int) -> list[list[int]]:
    """Return all paths from a source to a root that pass `x`."""

    return [path for path in every_path(network) if x in path]


def every_path(network: Network) -> list[list[int]]:
    def down(number: int) -> list[list[int]]:
        below = network.operators[number].downstream
        return [[number, *rest] for one in below for rest in down(one)] if below else [[number]]

    return [path for source in network.sources for path in down(source)]


def chain(believed: NetworkEstimates, x: int) -> float:
    """Return the steepest slope at operator `x` that the lower convex envelope of a progress chart has, of all paths through `x`.

    The progress chart of a path shows the memory that a tuple takes over its processing time.
    """
    return max(envelope_slope(believed, path, x) for path in paths_through(believed.network, x))


def envelope_slope(believed: NetworkEstimates, path: Sequence[int], x: int) -> float:
    spent, size = [0.0], [1.0]
    for place, number in enumerate(path):
        tuples = math.prod(believed.estimates[above].selectivity for above in path[:place])
        left = tuples * believed.estimates[number].selectivity * believed.network.operators[number].size_out
        spent.append(spent[-1] + tuples * believed.estimates[number].cost_s)
        size.append(left if number != path[-1] else 0.0)

    def steepness(start: int, end: int) -> float:
        took = spent[end] - spent[start]
        return (size[start] - size[end]) / took if took > 0 else math.inf

    step = path.index(x)
    starts, ends = range(step + 1), range(step + 1, len(path) + 1)
    return min(max(steepness(start, end) for end in ends) for start in starts)


def tuples_at(believed: NetworkEstimates, run: Sequence[int]) -> list[float]:
    """Return the mean number of tuples at each operator of a part of a path, for one tuple that enters the part.

    The last number is the number of tuples that leave the part.
    """
    return [
        math.prod(believed.estimates[above].selectivity for above in run[:n]) for n in range(len(run) + 1)
    ]


def work(believed: NetworkEstimates, run: Sequence[int]) -> float:
    return sum(
        tuples * believed.estimates[one].cost_s
        for tuples, one in zip(tuples_at(believed, run), run, strict=False)
    )


def path_capacity(believed: NetworkEstimates, x: int) -> float:
    return max(1 / work(believed, path) for path in paths_through(believed.network, x))


def released(believed: NetworkEstimates, path: Sequence[int], run: Sequence[int]) -> float:
    """Return the memory per second that the operators of a part of a path release."""
    operators, start = believed.network.operators, path.index(run[0])
    size_in = operators[path[start - 1]].size_out if start else 1.0
    size_out = operators[run[-1]].size_out if operators[run[-1]].downstream else 0.0
    return (size_in - tuples_at(believed, run)[-1] * size_out) / work(believed, run)


def pieces(
    believed: NetworkEstimates, path: Sequence[int], extends_run: Callable[[float, float], bool], most: int
) -> list[tuple[int, ...]]:
    """Return the path cut into at most `most` parts."""
    found: list[tuple[int, ...]] = [(path[0],)]
    for before, one in itertools.pairwise(path):
        alone = [released(believed, path, [number]) for number in (before, one)]
        if len(found) == most or extends_run(*alone):
            found[-1] += (one,)
        else:
            found.append((one,))
    return found


def contains(run: Sequence[int], part: Sequence[int]) -> bool:
    return any(tuple(run[at : at + len(part)]) == tuple(part) for at in range(len(run)))


def segment(believed: NetworkEstimates, x: int, gamma: float = 1.0) -> float:
    def extends_run(before: float, after: float) -> bool:
        return after > (gamma * before if before > 0 else (2 - gamma) * before)

    found = [
        (path, run)
        for path in every_path(believed.network)
        for run in pieces(believed, path, extends_run, most=2 if gamma < 1 else len(path))
    ]
    runs = [run for _, run in found]
    return max(
        released(believed, path, run)
        for path, run in found
        if x in run and not any(contains(other, run) and other != run for other in runs)
    )


FORMULAS: dict[str, Callable[[NetworkEstimates, int], float]] = {
    "srpt": shortest_ideal,
    "hr": of_the_best_tree(each),
    "hnr": of_the_best_tree(by_ideal),
    "hr:sharing=sum": of_all(each),
    "hnr:sharing=sum": of_all(by_ideal),
    "hr:sharing=max": of_the_best_path(each),
    "hnr:sharing=max": of_the_best_path(by_ideal),
    "chain": chain,
    "path": path_capacity,
    "segment": segment,
    "simplified-segment": partial(segment, gamma=0.75),
    "lsf": shortest_ideal,
    "brt": of_the_best_tree(each),
    "bsd": of_the_best_tree(by_ideal_sq),
    "bsd:sharing=sum": of_all(by_ideal_sq),
    "bsd:sharing=max": of_the_best_path(by_ideal_sq),
}


def waited(picked: Picked, operator: int) -> float:
    return picked.now - picked.heads[operator] + 1e-9


def phi(kind: str, believed: NetworkEstimates, operator: int) -> float:
    return max(FORMULAS[kind.removesuffix(":search=fagin")](believed, operator), 1e-200)


def close_to_or_above(value: float, best: float) -> bool:
    return value >= best or math.isclose(value, best, rel_tol=1e-9)


# -- properties that every policy has ----------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "clusters"), [*EVERY_POLICY, TOGETHER])
@settings(max_examples=25)
@given(scripts())
def test_a_ready_operator_is_picked_whenever_there_is_one(kind: str, clusters: int, script: Script) -> None:
    policy = build_policy(policy_of(kind, clusters), script.start)
    for picked in answers(policy, script):
        assert picked.operator in picked.heads or (picked.operator, picked.heads) == (NONE, {})


@pytest.mark.parametrize(("kind", "clusters"), EVERY_POLICY)
@settings(max_examples=25)
@given(scripts())
def test_a_policy_repeats_its_picks_for_the_same_events_and_a_static_policy_ignores_the_clock(
    kind: str, clusters: int, script: Script
) -> None:
    def other_clock(now: float) -> float:
        return now if kind.partition(":")[0] in DYNAMIC_KINDS else 1000.0 - 7 * now

    first = build_policy(policy_of(kind, clusters), script.start)
    second = build_policy(policy_of(kind, clusters), script.start)
    assert list(answers(first, script)) == list(answers(second, script, other_clock))


# -- networks that grow while a policy runs ----------------------------------------------------------------


@st.composite
def grown(draw: st.DrawFn, whole: NetworkEstimates) -> tuple[NetworkEstimates, NetworkEstimates, set[int]]:
    """Draw a network that grows: return the network before, the network after, and the earlier operators that the growth changes."""
    operators = whole.network.operators
    crossed = {
        place
        for number, operator in enumerate(operators)
        if operator.partner is not None
        for place in range(number + 1, operator.partner + 1)
    }
    start = draw(st.sampled_from([place for place in range(1, len(operators) + 1) if place not in crossed]))
    first = tuple(
        replace(operator, downstream=tuple(below for below in operator.downstream if below < start))
        for operator in operators[:start]
    )
    edges = [
        (number, below)
        for number, operator in enumerate(operators[:start])
        for below in operator.downstream
        if below >= start
    ]
    before = NetworkEstimates(Network(first), whole.estimates[:start])
    if draw(st.booleans()):
        assert len(before.segments) == start
    network = before.network.extended(operators[start:], edges)
    return before, *before.extended(network, whole.estimates[start:])


@given(st.data(), networks())
def test_a_network_extended_by_queries_equals_a_network_built_at_once(
    data: st.DataObject, network: Network
) -> None:
    whole = data.draw(estimates(network))
    before, after, changed = data.draw(grown(whole))
    assert (after, after.segments) == (whole, whole.segments)
    assert list(map(sorted, after.network.upstream)) == network.upstream
    start = len(before.estimates)
    same = {number for number in range(start) if before.segments[number] == whole.segments[number]}
    assert set(range(len(network.operators))) - same <= changed


@pytest.mark.parametrize(("kind", "clusters"), EVERY_POLICY)
@settings(max_examples=40)
@given(st.data(), scripts())
def test_a_policy_picks_the_same_operators_in_an_extended_network_as_in_a_network_built_at_once(
    kind: str, clusters: int, data: st.DataObject, script: Script
) -> None:
    before, after, changed = data.draw(grown(script.start))
    extended, other = (build_policy(policy_of(kind, clusters), one) for one in (before, script.start))
    queued: dict[int, float] = {}
    operators = st.integers(0, len(before.estimates) - 1)
    for operator in data.draw(st.lists(operators, max_size=8)):
        if operator in queued:
            del queued[operator]
            extended.idle(operator)
            other.idle(operator)
        else:
            queued[operator] = -1.0 - operator
            extended.ready(operator, queued[operator])
            other.ready(operator, queued[operator])
    assert (extended.pick(0.0) == NONE) == (other.pick(0.0) == NONE)
    extended.extend(after, changed)
    assert list(answers(extended, script, queued=queued)) == list(answers(other, script, queued=queued))


# -- properties of single policies ---------------------------------------------------------------------------


SHARINGS = ("sharing=sum", "sharing=max")
STATIC_KINDS = [
    *("srpt", "hr", "hnr", "chain", "path", "segment", "simplified-segment"),
    *(f"{kind}:{one}" for kind in ("hr", "hnr") for one in SHARINGS),
]


@pytest.mark.parametrize("kind", STATIC_KINDS)
@given(scripts())
def test_a_static_policy_picks_the_highest_priority(kind: str, script: Script) -> None:
    for picked in answers(build_policy(policy_of(kind), script.start), script):
        values = {one: FORMULAS[kind](picked.believed, one) for one in picked.heads}
        assert not values or close_to_or_above(values[picked.operator], max(values.values()))


@pytest.mark.parametrize(
    "kind", [*CLUSTERED_KINDS, *(f"bsd:{one}" for one in SHARINGS), "bsd:search=fagin", "lsf:search=fagin"]
)
@settings(max_examples=50)
@given(scripts())
def test_a_waiting_policy_picks_the_highest_product_of_static_priority_and_wait(
    kind: str, script: Script
) -> None:
    for picked in answers(build_policy(policy_of(kind), script.start), script):
        values = {one: phi(kind, picked.believed, one) * waited(picked, one) for one in picked.heads}
        assert not values or close_to_or_above(values[picked.operator], max(values.values()))


@pytest.mark.parametrize("kind", CLUSTERED_KINDS)
@given(scripts(), st.integers(1, 12))
def test_the_pick_of_a_clustered_policy_is_at_most_one_priority_cluster_below_the_best(
    kind: str, script: Script, clusters: int
) -> None:
    for picked in answers(build_policy(policy_of(kind, clusters), script.start), script):
        every = [phi(kind, picked.believed, one) for one in range(len(picked.believed.estimates))]
        log_ratio = (math.log(max(every)) - math.log(min(every))) / clusters
        values = {one: math.log(every[one] * waited(picked, one)) for one in picked.heads}
        assert not values or values[picked.operator] >= max(values.values()) - log_ratio - 1e-9


@pytest.mark.parametrize("kind", CLUSTERED_KINDS)
@given(scripts(), st.integers(1, 12))
def test_a_clustered_policy_picks_the_oldest_operator_of_a_cluster(
    kind: str, script: Script, clusters: int
) -> None:
    for picked in answers(build_policy(policy_of(kind, clusters), script.start), script):
        every = [math.log(phi(kind, picked.believed, one)) for one in range(len(picked.believed.estimates))]
        width = max(max(every) - min(every), 1e-9) / clusters
        place = [(one - min(every)) / width for one in every]
        # Operators on the border of two clusters (groups of similar priority) are left out, because rounding may put them into either.
        clear = [one for one in picked.heads if abs(place[one] - round(place[one])) > 1e-6]
        mates = [one for one in clear if int(place[one]) == int(place[picked.operator])]
        assert picked.operator not in clear or picked.heads[picked.operator] == min(
            picked.heads[one] for one in mates
        )


@given(scripts(), st.integers(1, 12))
def test_clustered_bsd_picks_the_same_operators_with_fagins_search_as_with_a_full_search(
    script: Script, clusters: int
) -> None:
    policies = [build_policy(policy_of(name, clusters), script.start) for name in ("bsd", "bsd:search=fagin")]
    assert list(answers(policies[0], script)) == list(answers(policies[1], script))


@given(scripts(), st.integers(1, 12))
def test_with_clustered_processing_one_decision_runs_operators_of_equal_cluster_and_age(
    script: Script, clusters: int
) -> None:
    one, together = (
        build_policy(policy_of(name, clusters), script.start) for name in ("brt", "brt:processing=clustered")
    )
    for operator in range(len(script.start.estimates)):
        for policy in (one, together):
            policy.ready(operator, float(operator % 2))
    assert isinstance(together, ClusteredPolicy)
    batches: list[list[int]] = []
    while (operator := together.pick(5.0)) != NONE:
        if together.looked:
            batches.append([])
            assert operator == one.pick(5.0)
        batches[-1].append(operator)
        for policy in (one, together):
            policy.idle(operator)
    assert sorted(operator for batch in batches for operator in batch) == list(
        range(len(script.start.estimates))
    )
    assert all(len({operator % 2 for operator in batch}) == 1 for batch in batches)
    # Operators of a cluster (a group of similar priority) form a batch if their oldest tuples arrived together, at one of two moments.
    assert len(batches) <= 2 * clusters


@given(scripts(), st.integers(1, 6))
def test_with_uniform_clusters_the_pick_is_within_one_cluster_width_of_the_highest_priority(
    script: Script, clusters: int
) -> None:
    policy = build_policy(policy_of("brt:clustering=uniform", clusters), script.start)
    for picked in answers(policy, script):
        every = [phi("brt", picked.believed, one) for one in range(len(picked.believed.estimates))]
        width = (max(every) - min(every)) / clusters
        values = {
            one: (every[one] - width) * waited(picked, one) if every[one] > width else 0.0
            for one in picked.heads
        }
        chosen = picked.operator
        assert not values or every[chosen] * waited(picked, chosen) >= max(values.values()) * (1 - 1e-9)


def chances(believed: NetworkEstimates, x: int) -> dict[int, float]:
    """Return, for each root below `x`, the probability that a tuple entering at `x` leads to an answer of the root."""
    own, box = believed.estimates[x].selectivity, believed.network.operators[x]
    missed: dict[int, float] = {x: 0.0} if box.answers or not box.downstream else {}
    for one in box.downstream:
        for root, chance in chances(believed, one).items():
            missed[root] = missed.get(root, 1.0) * (1 - chance)
    return {root: own * (1 - none) if own <= 1 else 1 - none**own for root, none in missed.items()}


def freshness(believed: NetworkEstimates, x: int, tuples: int, beta: float) -> float:
    gain: float = math.fsum(
        believed.network.operators[root].weight * (1 - (1 - chance) ** tuples**beta)
        for root, chance in chances(believed, x).items()
    )
    effective: float = tuples**beta
    return gain / (effective * answers_and_cost(believed, x)[1])


@given(scripts(), st.sampled_from([0.0, 0.25, 1.0]))
def test_freshness_aware_scheduling_picks_the_most_fresh_outputs_per_time(
    script: Script, beta: float
) -> None:
    policy = build_policy(FreshnessAware(beta=beta), script.start)
    for picked in answers(policy, script):
        values = {one: freshness(picked.believed, one, picked.tuples[one], beta) for one in picked.heads}
        assert not values or close_to_or_above(values[picked.operator], max(values.values()))


@dataclass(frozen=True)
class Ahead:
    """Figures of a path from an operator to a root: QoS graph of the root, slack of a tuple that just arrived, and cost of an answer."""

    graph: UtilityGraph
    slack: float
    output_cost: float


def most_urgent(believed: NetworkEstimates, x: int) -> Ahead:
    ways = [path[path.index(x) :] for path in paths_through(believed.network, x)]
    return min((ahead(believed, way) for way in ways), key=lambda one: one.slack)


def ahead(believed: NetworkEstimates, way: Sequence[int]) -> Ahead:
    graph = believed.network.operators[way[-1]].utility or UtilityGraph.step(1000)
    needed = [math.prod(believed.estimates[one].selectivity for one in way[at:]) for at in range(len(way))]
    costs = [believed.estimates[one].cost_s for one in way]
    output_cost = sum(cost / kept if kept else math.inf for cost, kept in zip(costs, needed, strict=True))
    return Ahead(graph, graph.deadline_s - sum(costs), output_cost)


# Maximum difference of times that count as equal, because the policies add costs in another order than this test.
NEAR = 1e-9


@given(scripts())
def test_edf_hr_picks_operators_that_can_meet_deadlines_first_and_late_operators_by_rate(
    script: Script,
) -> None:
    policy = build_policy(policy_of("edf-hr"), script.start)
    for picked in answers(policy, script):
        urgent = {one: most_urgent(picked.believed, one) for one in picked.heads}
        deadline = {one: head + urgent[one].graph.deadline_s for one, head in picked.heads.items()}
        cost = {one: found.graph.deadline_s - found.slack for one, found in urgent.items()}
        slack = {one: deadline[one] - cost[one] - picked.now for one in picked.heads}
        near = [one for one in slack if abs(slack[one]) < NEAR]
        expected: set[int] = set()
        # For operators with almost no slack (`near`), rounding decides whether answers are in time. So every combination is tried.
        for guess in itertools.product((True, False), repeat=len(near)):
            too_late = {one for one in slack if slack[one] < 0} - set(near)
            too_late |= {one for one, late in zip(near, guess, strict=True) if late}
            expected |= by_deadline_or_rate(picked, deadline, cost, too_late)
        assert picked.operator in (expected or {NONE})


@given(scripts())
def test_edf_runs_the_earliest_deadline_first_even_if_it_cannot_be_met(script: Script) -> None:
    for picked in answers(build_policy(policy_of("edf"), script.start), script):
        deadline = {
            one: head + most_urgent(picked.believed, one).graph.deadline_s
            for one, head in picked.heads.items()
        }
        assert not deadline or deadline[picked.operator] <= min(deadline.values()) + NEAR


def by_deadline_or_rate(
    picked: Picked, deadline: Mapping[int, float], cost: Mapping[int, float], too_late: set[int]
) -> set[int]:
    """Return the operators that the policy edf-hr may pick if exactly the operators in `too_late` cannot meet their deadlines."""
    in_time = deadline.keys() - too_late
    earliest = min((deadline[one] for one in in_time), default=math.inf)
    first = {one for one in in_time if deadline[one] <= earliest + NEAR}
    if not too_late:
        return first
    answers_cost = {one: answers_and_cost(picked.believed, one) for one in too_late}
    rates = {one: sum(answers.values()) / cost_s for one, (answers, cost_s) in answers_cost.items()}
    fastest = {one for one in too_late if close_to_or_above(rates[one], max(rates.values()))}
    found = {one for one in fastest if picked.now + cost[one] < earliest + NEAR}
    return found | (first if any(picked.now + cost[one] >= earliest - NEAR for one in fastest) else set())


@given(scripts())
def test_fixed_priority_picks_the_least_slack(script: Script) -> None:
    for picked in answers(build_policy(policy_of("fixed"), script.start), script):
        slacks = {one: most_urgent(picked.believed, one).slack for one in picked.heads}
        least = min(slacks.values(), default=0.0)
        assert not slacks or math.isclose(slacks[picked.operator], least, rel_tol=1e-9, abs_tol=1e-9)


def expected_latency(picked: Picked, one: int) -> float:
    way = most_urgent(picked.believed, one)
    return picked.now - picked.heads[one] + picked.tuples[one] * way.output_cost


def is_clear(picked: Picked) -> bool:
    """Return False if rounding could decide the pick: an operator is near a corner of its QoS graph, or has
    two almost equal paths.
    """
    for one in picked.heads:
        latency, found = expected_latency(picked, one), most_urgent(picked.believed, one)
        ways = [path[path.index(one) :] for path in paths_through(picked.believed.network, one)]
        slacks = sorted({ahead(picked.believed, way) for way in ways}, key=lambda way: way.slack)
        if any(math.isclose(latency, corner, abs_tol=1e-6) for corner in found.graph.latencies_s):
            return False
        if len(slacks) > 1 and math.isclose(slacks[0].slack, slacks[1].slack, abs_tol=1e-6):
            return False
    return True


@given(scripts())
def test_slope_slack_picks_the_steepest_loss_of_utility_and_then_the_least_slack(script: Script) -> None:
    for picked in answers(build_policy(policy_of("slope-slack"), script.start), script):
        if not picked.heads or not is_clear(picked):
            continue
        found = {one: gradient_and_slack(picked, one) for one in picked.heads}
        gradient, slack = found[picked.operator]
        steepest = max(one for one, _ in found.values())
        assert math.isclose(gradient, steepest, rel_tol=1e-9)
        least = min(after for one, after in found.values() if math.isclose(one, steepest, rel_tol=1e-9))
        assert slack == least or math.isclose(slack, least, abs_tol=1e-6)


def gradient_and_slack(picked: Picked, one: int) -> tuple[float, float]:
    graph, latency = most_urgent(picked.believed, one).graph, expected_latency(picked, one)
    return gradient_at(graph, latency), slack_at(graph, latency)


@given(scripts(), st.integers(1, 8), st.integers(1, 8))
def test_the_pick_of_a_bucket_policy_is_within_one_bucket_of_slope_slack(
    script: Script, gradients: int, slacks: int
) -> None:
    policy = build_policy(Bucketed(gradients=gradients, slacks=slacks), script.start)
    for picked in answers(policy, script):
        if not picked.heads or not is_clear(picked):
            continue
        graphs = {most_urgent(picked.believed, one).graph for one in range(len(picked.believed.estimates))}
        steepest = max(one for graph in graphs for one in graph.gradients)
        longest = max(
            after - at for graph in graphs for at, after in itertools.pairwise((0.0, *graph.latencies_s))
        )
        found = {one: gradient_and_slack(picked, one) for one in picked.heads}
        gradient, slack = found[picked.operator]
        if math.isinf(slack):
            assert all(math.isinf(after) for _, after in found.values())
            continue
        hopeful = [one for one in found.values() if not math.isinf(one[1])]
        assert gradient >= max(one for one, _ in hopeful) - steepest / gradients - 1e-9
        # The policy compares slacks within ranges of gradients, which are slopes of QoS graphs. On a border, either range may count.
        part = steepest / gradients or 1.0
        alike = [after for one, after in hopeful if abs(one - gradient) < 1e-9 * part]
        assert min(slack, longest) <= min(alike) + longest / slacks + 1e-6


@given(scripts())
def test_longest_queue_first_picks_the_most_waiting_tuples(script: Script) -> None:
    for picked in answers(build_policy(policy_of("lqf"), script.start), script):
        longest = max(picked.tuples.values(), default=0)
        assert picked.operator == min(
            (operator for operator, tuples in picked.tuples.items() if tuples == longest), default=NONE
        )


@given(scripts())
def test_first_come_first_served_picks_the_oldest_tuple_and_then_the_lower_number(script: Script) -> None:
    for picked in answers(build_policy(policy_of("fcfs"), script.start), script):
        expected = min(picked.heads, key=lambda one: (picked.heads[one], one), default=NONE)
        assert picked.operator == expected


@given(scripts())
def test_round_robin_picks_the_next_ready_operator_in_the_cycle(script: Script) -> None:
    last = NONE
    for picked in answers(build_policy(policy_of("rr"), script.start), script):
        # When no operator is ready, round robin starts its cycle again from the beginning.
        last = min([one for one in picked.heads if one > last] or picked.heads, default=NONE)
        assert picked.operator == last


# -- a class that switches to another policy -----------------------------------------------------------------


@pytest.mark.parametrize(("kind", "clusters"), EVERY_POLICY)
@settings(max_examples=25)
@given(st.data(), scripts())
def test_a_scheduler_that_switches_decides_as_if_it_always_had_the_new_policy(
    kind: str, clusters: int, data: st.DataObject, script: Script
) -> None:
    network, initial = script.start.network, script.start.estimates
    first = data.draw(st.sampled_from(EVERY_POLICY))
    switched = OperatorScheduler(network, policy_of(*first), initial)
    other = OperatorScheduler(network, policy_of(kind, clusters), initial)
    heads: dict[int, float] = {}

    def happen(step: Step, second: float, schedulers: Sequence[OperatorScheduler]) -> list[int]:
        match step:
            case Ready(operator, age):
                heads[operator] = second - age
                for one in schedulers:
                    if one.counted[operator]:
                        one.pending(operator, 1 + operator)
                    one.ready(operator, heads[operator])
            case Idle(operator):
                heads.pop(operator, None)
                for one in schedulers:
                    one.idle(operator)
            case Rank(believed):
                for one in schedulers:
                    for operator, estimate in enumerate(believed.estimates):
                        one.statistics.observe(
                            operator, 1000, round(1000 * estimate.selectivity), estimate.cost_s
                        )
                    one.refresh()
            case Pick():
                return [one.pick(second) for one in schedulers]
        return []

    at = data.draw(st.integers(0, len(script.steps)))
    for second, step in enumerate(script.steps[:at]):
        happen(step, second, [switched] if isinstance(step, Pick) else [switched, other])
    switched.switch(policy_of(kind, clusters), [(one, head, 1 + one) for one, head in heads.items()])
    for second, step in enumerate(script.steps[at:], at):
        picks = happen(step, second, [switched, other])
        assert len(set(picks)) < 2
        if picks and picks[0] != NONE:
            happen(Idle(picks[0]), second, [switched, other])
    left = {switched.pick(1000.0) for _ in heads}
    assert left <= heads.keys()
    assert bool(left) == bool(heads)
