"""Schedules of periodic queries as texts: on a command line, in a claim, and in the first column of a table."""

import pytest

from configs.classes.periodic_schedules import Hybrid, compared_schedules, schedule_of
from configs.errors import InvalidInput


def test_what_is_compared_are_the_papers_schedules_and_orders_and_what_a_claim_names() -> None:
    assert list(compared_schedules(Hybrid(eager=True), ["hybrid:late=late-pending", "none:order=hr"])) == [
        "none:tasks=query",
        "none",
        "aggressive",
        "conservative",
        "conservative:late=late-pending",
        "hybrid:late=off",
        "hybrid:late=late",
        "hybrid",
        "hybrid:late=off,meetings=false",
        "hybrid:order=hr",
        "hybrid:order=edf-hr",
        "none:order=hr",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hybird", "--schedule: no such schedule (got 'hybird')\n  hint: did you mean hybrid?"),
        (
            "hybrid:late",
            "--schedule: no setting of a schedule (got 'late')\n  hint: write hybrid:late=off",
        ),
        (
            "none:late=off",
            "--schedule none:late: unknown key (got 'late')\n  hint: none has the settings order, eager, tasks",
        ),
        (
            "hybrid:late=on",
            "--schedule hybrid:late: no such choice (got 'on')\n  hint: known: late, late-pending, off",
        ),
        (
            "hybrid:meetings=2",
            "--schedule hybrid:meetings: must be true or false (got '2')\n"
            "  hint: give true or false; true if left out",
        ),
    ],
)
def test_a_text_that_says_no_schedule_is_told(text: str, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        schedule_of(text)
    assert str(caught.value) == told
