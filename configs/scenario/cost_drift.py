"""Drift of simulated costs: the cost of an operator or of a query is multiplied by a factor that changes over time."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field

from configs.base import NonNegative, Settings
from configs.errors import Contradiction


class CostStep(Settings):
    """Change of a cost at the time `at_s`, at once or in a ramp."""

    at_s: NonNegative
    factor: Annotated[float, Field(gt=0, le=1000)]
    """Factor that multiplies the declared cost of each call after this change, including the cost per call and the cost of results."""

    ramp_s: NonNegative = 0.0
    """Length of the ramp in seconds: the factor changes linearly from its previous value, which is 1 before the first step. With 0, the factor changes at once."""


def apart(steps: tuple[CostStep, ...]) -> tuple[CostStep, ...]:
    """Return the steps; raise Contradiction unless each step begins after the previous step, and after the ramp of that step."""
    for place, (before, after) in enumerate(pairwise(steps), start=1):
        end_s = before.at_s + before.ramp_s
        if after.at_s <= before.at_s or after.at_s < end_s:
            title = f"each cost step must come after the previous step, which ends at {end_s:g} s"
            hint = "list the steps in rising order of at_s, or shorten the previous ramp_s"
            raise Contradiction(title, f"[{place}].at_s", after.at_s, hint)
    return steps


CostDrift = Annotated[tuple[CostStep, ...], Field(max_length=1000), AfterValidator(apart)]
"""Steps of a cost in the order of time; without steps, the cost is as declared for the whole run."""
