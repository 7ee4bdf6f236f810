"""Choice of a class that tunes itself: a policy for operators together with one of the equivalent plans, written as a text.

Examples:
    hr                              policy hr, default plan
    hr, joins first                 conditions on one side of a join are tested on the joined pairs
    bsd:clusters=12, unshared       each query has its own operators
    hr, joins first, unshared joins first, and own operators per query

1. Reading a written text returns the same choice, and each choice has one text (`tests/property/test_choices.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from configs.classes.plans import PlanSettings
from configs.classes.policies import PolicySettings, policy_of, policy_text
from configs.errors import InvalidInput, UnknownName, nearest

USUAL = PlanSettings()
# Text between the policy and the plan in the text of a choice. No text of a policy contains it.
SEPARATOR = ", "
JOINS_FIRST, UNSHARED = "joins first", "unshared"
# All equivalent plans, beginning with the default plan.
PLANS = tuple(
    PlanSettings(select_first=first, shared=shared) for shared in (True, False) for first in (True, False)
)


@dataclass(frozen=True, slots=True)
class Choice:
    policy: PolicySettings
    plan: PlanSettings = USUAL

    def __str__(self) -> str:
        return SEPARATOR.join([policy_text(self.policy), *plan_words(self.plan)])


def plan_words(plan: PlanSettings) -> list[str]:
    """Return a text that names the differences between a plan and the default plan."""
    differs = {JOINS_FIRST: not plan.select_first, UNSHARED: not plan.shared}
    return [word for word, said in differs.items() if said]


def choice_of(text: str) -> Choice:
    """Return the choice that a text names; raise InvalidInput if the text names no choice."""
    policy, *words = text.split(SEPARATOR)
    for place, word in enumerate(words):
        if word not in (JOINS_FIRST, UNSHARED):
            raise UnknownName(
                "there is no plan of this name", "choice", word, nearest(word, (JOINS_FIRST, UNSHARED))
            )
        if word in words[:place]:
            title = "the policy is followed by two plan words, but it can have only one"
            hint = "remove one of the two words"
            raise InvalidInput(title, "choice", word, hint)
    plan = PlanSettings(select_first=JOINS_FIRST not in words, shared=UNSHARED not in words)
    return Choice(policy_of(policy), plan)
