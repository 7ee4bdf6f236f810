"""What a class that tunes itself chooses: a level-2 policy together with one of the equivalent plans, as one text.

    hr                              the usual plan
    hr, joins first                 conditions on one side of a join are tested on its pairs
    bsd:clusters=12, unshared       each query has operators of its own
    hr, joins first, unshared

1. A text is read back to what it was written from, and names one choice only (`tests/property/test_choices.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from configs.classes.plans import PlanSettings
from configs.classes.policies import PolicySettings, policy_of, policy_text
from configs.errors import InvalidInput, UnknownName, nearest

USUAL = PlanSettings()
# No policy's text has this in it.
SEPARATOR = ", "
JOINS_FIRST, UNSHARED = "joins first", "unshared"
# The usual one first.
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
    """How it differs from the usual one."""
    differs = {JOINS_FIRST: not plan.select_first, UNSHARED: not plan.shared}
    return [word for word, said in differs.items() if said]


def choice_of(text: str) -> Choice:
    """What the text says; InvalidInput if it says nothing."""
    policy, *words = text.split(SEPARATOR)
    for place, word in enumerate(words):
        if word not in (JOINS_FIRST, UNSHARED):
            raise UnknownName("no such plan", "choice", word, nearest(word, (JOINS_FIRST, UNSHARED)))
        if word in words[:place]:
            raise InvalidInput("a plan is described once", "choice", word, "leave one of the two out")
    plan = PlanSettings(select_first=JOINS_FIRST not in words, shared=UNSHARED not in words)
    return Choice(policy_of(policy), plan)
