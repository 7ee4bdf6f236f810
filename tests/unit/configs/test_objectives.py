"""What a class is for decides by which policy it runs, unless it says that too."""

from __future__ import annotations

import re
from typing import Any

import pytest

from configs.classes.objectives import OBJECTIVE_NAMES, WAYS, Objective, policy_for
from configs.classes.policies import BalanceSlowdown, Chain, HighestRate
from configs.classes.priority_class import PriorityClass
from configs.documents.declarations import PriorityClassDeclaration, TenantDeclaration, live_class
from configs.errors import InvalidInput
from configs.yaml_loading import parse_model
from tests.support.checkout import ROOT

PAGE = (ROOT / "docs/catalog.md").read_text(encoding="utf-8")
TERMS = {"priority": 1, "delay_target_ms": 100}


def declared(**given: Any) -> PriorityClass:
    return parse_model(PriorityClass, {"name": "c", **TERMS, **given})


def running(terms: dict[str, Any], overrides: dict[str, Any]) -> tuple[str, str]:
    """Objective and policy of a tenant's class."""
    of_class = PriorityClassDeclaration(kind="PriorityClass", name="gold", **TERMS, **terms)
    tenant = TenantDeclaration.model_validate(
        {"kind": "Tenant", "name": "t", "priority_class": "gold", "overrides": overrides}
    )
    found = live_class(tenant, of_class, [], [])
    return found.objective, found.policy_name


def test_without_a_policy_the_objective_picks_it() -> None:
    assert declared().first_policy == HighestRate()
    assert declared(objective="memory").first_policy == Chain()
    assert declared(objective="slowdown-l2").first_policy == BalanceSlowdown(clusters=12)


def test_of_both_the_policy_is_what_runs_and_the_objective_what_is_measured() -> None:
    found = declared(objective="memory", policy={"kind": "hr"})
    assert (found.objective, found.policy_name) == ("memory", "hr")


def test_a_class_that_tunes_itself_begins_with_what_its_objective_picks() -> None:
    found = declared(objective="memory", policy={"kind": "auto"})
    assert (found.policy_name, found.first_policy) == ("auto", Chain())


@pytest.mark.parametrize(
    ("terms", "overrides", "what"),
    [
        ({"objective": "slowdown"}, {}, ("slowdown", "hnr")),
        ({"objective": "slowdown"}, {"objective": "memory"}, ("memory", "chain")),
        ({"policy": {"kind": "fcfs"}}, {"objective": "memory"}, ("memory", "chain")),
        ({"objective": "slowdown"}, {"policy": {"kind": "fcfs"}}, ("slowdown", "fcfs")),
        ({"policy": {"kind": "auto"}}, {"objective": "memory"}, ("memory", "auto")),
    ],
)
def test_a_tenant_s_own_objective_comes_with_its_policy(
    terms: dict[str, Any], overrides: dict[str, Any], what: tuple[str, str]
) -> None:
    assert running(terms, overrides) == what


def test_an_unknown_objective_is_refused_with_what_was_meant() -> None:
    with pytest.raises(
        InvalidInput, match=r"objective: no such choice \(got 'respons'\)\n  hint: did you mean"
    ):
        declared(objective="respons")


@pytest.mark.parametrize("objective", OBJECTIVE_NAMES)
def test_a_class_may_tune_itself_for_whatever_it_is_for(objective: Objective) -> None:
    found = declared(objective=objective, policy={"kind": "auto"})
    assert (found.policy_name, found.first_policy) == ("auto", policy_for(objective))


def test_the_page_says_which_policy_serves_which_objective() -> None:
    section = PAGE.partition("## Objectives")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| ([^|]+) \| `([\w-]+)`", section, re.MULTILINE)
    assert rows == [(one, WAYS[one].words, policy_for(one).kind) for one in OBJECTIVE_NAMES]
