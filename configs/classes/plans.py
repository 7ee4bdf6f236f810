"""Choice among equivalent plans of a class's queries. All plans give the same answers, and no plan is always the cheapest.

A class that tunes itself chooses among them (`configs.classes.policy_and_plan`).
"""

from __future__ import annotations

from configs.base import Settings


class PlanSettings(Settings):
    """Choice among equivalent plans. It does not change answers, except that windows with SLIDE AT MOST may end at other times."""

    select_first: bool = True
    """Test conditions on one side of a join before the join. If false, conditions are tested on the joined pairs, which is
    less work if there are few pairs."""

    shared: bool = True
    """Run equal parts of several queries only once. If false, each query runs on its own and has its own priority."""
