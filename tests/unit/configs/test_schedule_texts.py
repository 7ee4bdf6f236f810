"""Schedules of periodic queries as texts: on a command line, in a claim, and in the first column of a table."""

import pytest

from configs.classes.periodic_schedules import Hybrid, compared_schedules, schedule_of
from configs.errors import InvalidInput


def test_compared_schedules_are_those_of_the_papers_and_those_named_in_claims() -> None:
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
    ("text", "message"),
    [
        (
            "hybird",
            "--schedule: there is no schedule of this name (got 'hybird')\n  hint: did you mean hybrid?",
        ),
        (
            "hybrid:late",
            "--schedule: a setting is not of the form NAME=VALUE (got 'late')\n  hint: write hybrid:late=off",
        ),
        (
            "none:late=off",
            "--schedule none:late: unknown key (got 'late')\n  hint: none has the settings order, eager, tasks",
        ),
        (
            "hybrid:late=on",
            "--schedule hybrid:late: the value is not one of the allowed choices (got 'on')\n  hint: known: late, late-pending, off",
        ),
        (
            "hybrid:meetings=2",
            "--schedule hybrid:meetings: the value must be true or false (got '2')\n"
            "  hint: give true or false; true if left out",
        ),
    ],
)
def test_an_invalid_schedule_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        schedule_of(text)
    assert str(caught.value) == message
