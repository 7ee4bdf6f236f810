"""A policy with a plan, as one text: each is read back, and no two are written alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs.classes.plans import PlanSettings
from configs.classes.policies import POLICY_KINDS, PolicySettings, policy_of, policy_text
from configs.classes.policy_and_plan import PLANS, Choice, choice_of
from configs.errors import InvalidInput

PARTS = ("fas:beta=0.25", "bucket:gradients=3,slacks=7,push_through=True", "superbox:order=hr")
policies = st.one_of(
    st.sampled_from([*POLICY_KINDS, *PARTS]).map(policy_of),
    st.builds(policy_of, st.sampled_from(["lsf", "brt", "bsd"]), st.integers(0, 100)),
)
choices = st.builds(Choice, policies, st.sampled_from(PLANS))


@given(choices, choices)
def test_what_is_written_is_read_back_and_names_one_choice_only(one: Choice, other: Choice) -> None:
    assert choice_of(str(one)) == one
    assert (str(one) == str(other)) == (one == other)


@given(policies)
def test_by_the_usual_plan_a_choice_is_written_as_its_policy(policy: PolicySettings) -> None:
    assert str(Choice(policy)) == policy_text(policy)
    assert choice_of(policy_text(policy)) == Choice(policy)


def test_plans_are_told_by_how_they_differ_from_the_usual_one() -> None:
    assert [str(Choice(policy_of("hr"), plan)) for plan in PLANS] == [
        "hr",
        "hr, joins first",
        "hr, unshared",
        "hr, joins first, unshared",
    ]
    assert choice_of("hr, unshared, joins first").plan == PlanSettings(select_first=False, shared=False)


@pytest.mark.parametrize(
    "text", ["", "hrr", "hr,", "hr, shared", "hr, unshared, unshared", "unshared", "hr,unshared"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        choice_of(text)
