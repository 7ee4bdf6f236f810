"""Choices (a policy with a plan) as texts: each text is read back as the same choice, and no two choices have the same text."""

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
def test_different_choices_have_different_texts_that_are_read_back_as_the_same_choice(
    one: Choice, other: Choice
) -> None:
    assert choice_of(str(one)) == one
    assert (str(one) == str(other)) == (one == other)


@given(policies)
def test_a_choice_with_the_default_plan_is_written_as_its_policy_alone(policy: PolicySettings) -> None:
    assert str(Choice(policy)) == policy_text(policy)
    assert choice_of(policy_text(policy)) == Choice(policy)


def test_the_text_of_a_choice_names_only_differences_from_the_default_plan() -> None:
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
def test_invalid_texts_of_choices_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        choice_of(text)
