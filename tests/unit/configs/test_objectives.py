"""The objective of a class picks the policy by which it runs, unless the class declares a policy."""

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
    """Return the objective and the policy that the class of a tenant gets."""
    of_class = PriorityClassDeclaration(kind="PriorityClass", name="gold", **TERMS, **terms)
    tenant = TenantDeclaration.model_validate(
        {"kind": "Tenant", "name": "t", "priority_class": "gold", "overrides": overrides}
    )
    found = live_class(tenant, of_class, [], [])
    return found.objective, found.policy_name


def test_the_objective_picks_the_policy_if_no_policy_is_declared() -> None:
    assert declared().first_policy == HighestRate()
    assert declared(objective="memory").first_policy == Chain()
    assert declared(objective="slowdown-l2").first_policy == BalanceSlowdown(clusters=12)


def test_a_declared_policy_runs_whatever_the_objective() -> None:
    found = declared(objective="memory", policy={"kind": "hr"})
    assert (found.objective, found.policy_name) == ("memory", "hr")


def test_a_self_tuning_class_begins_with_the_policy_of_its_objective() -> None:
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
def test_a_tenants_objective_replaces_a_fixed_policy_of_its_priority_class(
    terms: dict[str, Any], overrides: dict[str, Any], what: tuple[str, str]
) -> None:
    assert running(terms, overrides) == what


def test_an_unknown_objective_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(
        InvalidInput,
        match=r"objective: the value is not one of the allowed choices \(got 'respons'\)\n  hint: did you mean",
    ):
        declared(objective="respons")


@pytest.mark.parametrize("objective", OBJECTIVE_NAMES)
def test_a_class_can_tune_itself_for_every_objective(objective: Objective) -> None:
    found = declared(objective=objective, policy={"kind": "auto"})
    assert (found.policy_name, found.first_policy) == ("auto", policy_for(objective))


def test_the_documentation_lists_the_policy_of_every_objective() -> None:
    section = PAGE.partition("## Objectives")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| ([^|]+) \| `([\w-]+)`", section, re.MULTILINE)
    assert rows == [(one, WAYS[one].words, policy_for(one).kind) for one in OBJECTIVE_NAMES]
