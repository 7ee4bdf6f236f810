"""Operators of another plan are matched with the running operators: whatever the queries, two matched
operators get the same tuples.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from configs.classes.plans import PlanSettings
from configs.classes.policies import HighestRate
from configs.classes.policy_and_plan import PLANS, Choice
from engine.class_.explain import explain
from engine.network.plan_alignment import RunningPlan
from engine.plan.plan import Filter, Project
from sim.forecast.plan_forecast import MeasuredOperators, plan_of
from sim.forecast.policy_forecast import ClassNow
from tests.property.test_queries import any_query, joining
from tests.support import query_grammar as grammar
from tests.support.query_grammar import Statement
from tests.support.query_runs import Cuts, Rows, Run, cuts, every_stream, ran


def running(run: Run, plan: PlanSettings) -> RunningPlan:
    network = run.runner.network
    queries = tuple(network.queries.values())
    keys = tuple(node.key for node in network.nodes)
    planned = {one.name: plan for one in queries}
    return RunningPlan(queries, planned, Choice(HighestRate(), plan), keys, network.pane_lengths, {}, {}, {})


@settings(max_examples=15)
@given(
    st.lists(st.one_of(joining, any_query), min_size=1, max_size=3) | grammar.shared_windows(),
    every_stream,
    cuts,
    st.permutations(PLANS),
)
def test_operators_matched_between_two_plans_process_the_same_tuples(
    some: list[Statement], rows: Rows, how: Cuts, plans: list[PlanSettings]
) -> None:
    statements = {f"q{place}": one for place, one in enumerate([*some, some[0]])}
    now, other = (ran(statements, rows, how, plan) for plan in plans[:2])
    found, lines = running(now, plans[0]), tuple(explain(now.runner))
    aligned = found.aligned(dict.fromkeys(found.planned_as, plans[1]))
    measured = MeasuredOperators(ClassNow("response", (), {}, 0.15, 1.0, 100, lines=lines), found)
    for number, node in enumerate(other.runner.network.nodes):
        same, plan = measured.same(node, aligned), plan_of(node)
        if same is None:
            assert isinstance(plan, Filter | Project)
        else:
            assert lines[same].name == node.name or isinstance(plan, Filter | Project)
            if plan not in aligned.moved:
                assert other.runner.scheduled.tuples[number] == lines[same].tuples
