"""Every policy on a live class, with its decision plans: answers are the same, and sources run only when no tuple waits inside."""

import pytest

from configs.classes.policies import POLICY_KINDS, policy_of
from engine.class_.runner import RunListener
from engine.sql import plan_query
from tests.support.query_runs import CATALOG, Run, random_rows

QUERIES = {
    "hot": "SELECT id, x FROM s WHERE x > 0",
    "both": "SELECT a.id, b.id AS other FROM s [RANGE 5 SECONDS] a JOIN t [RANGE 5 SECONDS] b ON a.k = b.k",
    "windows": "SELECT k, COUNT(*) AS c FROM TUMBLE(s, ts, INTERVAL 2 SECONDS) GROUP BY k",
}
VARIANTS = [
    *POLICY_KINDS,
    *(f"{kind}:push_through=true" for kind in ("fixed", "slope-slack", "bucket")),
    *(f"superbox:traversal={kind}" for kind in ("min-latency", "min-memory")),
]


def answers(policy: str) -> dict[str, list[tuple[object, ...]]]:
    run = Run([plan_query(name, sql, CATALOG) for name, sql in QUERIES.items()], train_max=4)
    run.runner.scheduled.switch(policy_of(policy))
    inside: list[bool] = []

    class Inside(RunListener):
        def settled(self) -> bool:
            inside.append(not run.runner.is_settled())
            return True

    run.runner.listener = Inside()
    rows = {name: random_rows(name, 60, 40, lambda one: sorted(one, key=str), 7) for name in ("s", "t")}
    for start in range(0, 60, 15):
        for name, all_rows in rows.items():
            run.offer(name, all_rows[start : start + 15])
        run.step(5)
    run.runner.scheduled.believed()
    run.finish()
    assert len(inside) > 20
    assert not any(inside)
    return {name: sorted(run.rows(name), key=str) for name in QUERIES}


@pytest.mark.parametrize("policy", VARIANTS)
def test_a_live_class_gives_the_same_answers_under_every_policy(policy: str) -> None:
    found = answers(policy)
    assert found == answers("hr")
    assert all(found.values())


@pytest.mark.parametrize("train_max", [1, 7])
def test_a_train_has_at_most_train_max_tuples(train_max: int) -> None:
    run = Run([plan_query("hot", QUERIES["hot"], CATALOG)], train_max=train_max)
    run.offer("s", random_rows("s", 21, 40, list, 7))
    run.finish()
    assert (run.runner.scheduled.tuples[0], run.runner.scheduled.calls[0]) == (21, 21 // train_max)
