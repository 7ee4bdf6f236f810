"""YAML reads `off` without quotes as false. A field that has the choice "off" accepts this false as "off"."""

import pytest

from configs.base import Settings
from configs.classes.periodic_schedules import Conservative
from configs.classes.window_settings import WindowSettings
from configs.documents.declarations import documents_of
from configs.errors import InvalidInput
from configs.service.service_settings import ServiceSettings
from configs.yaml_loading import parse_model, parse_yaml


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{schedule: hybrid, late: off}", WindowSettings(schedule="hybrid", late="off")),
        ("{kind: conservative, late: off}", Conservative(late="off")),
        ("{admission: off}", ServiceSettings(admission="off")),
    ],
)
def test_unquoted_off_in_yaml_is_read_as_the_choice_off(text: str, expected: Settings) -> None:
    assert parse_model(type(expected), parse_yaml(text)) == expected


def test_a_class_can_be_declared_with_an_unquoted_off() -> None:
    text = "{kind: PriorityClass, name: a, priority: 1, delay_target_ms: 9, windows: {schedule: hybrid, late: off}}"
    (document,) = documents_of(text)
    assert document.declaration.model_dump()["windows"] == {"schedule": "hybrid", "late": "off"}


def test_unquoted_true_on_and_unknown_words_are_refused_where_off_is_a_choice() -> None:
    for value in ("on", "true", "never"):
        with pytest.raises(InvalidInput) as caught:
            parse_model(WindowSettings, parse_yaml(f"{{late: {value}}}"))
        assert (caught.value.title, caught.value.hint) == (
            "the value is not one of the allowed choices",
            "known: late, late-pending, off",
        )
