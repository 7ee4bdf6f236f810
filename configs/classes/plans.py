"""Which of several equivalent plans a class's queries run by: all give the same answers, none is the cheapest always. A class
that tunes itself chooses among them (`configs.classes.policy_and_plan`)."""

from __future__ import annotations

from configs.base import Settings


class PlanSettings(Settings):
    """Windows with SLIDE AT MOST choose their ends by what they share; all else is answered the same whatever is said here."""

    select_first: bool = True
    """Conditions on one side of a join are tested before it; if not, on the pairs it finds, which is less work where it finds few."""

    shared: bool = True
    """What queries have in common runs once for all of them; if not, each runs by itself, and its priority is its own."""
