"""YAML takes a bare `off` for false; where it is one of the words, as the pages write it, it is meant as one."""

import pytest

from configs.base import Settings
from configs.classes.periodic_schedules import Conservative
from configs.classes.window_settings import WindowSettings
from configs.documents.declarations import documents_of
from configs.errors import InvalidInput
from configs.service.service_settings import ServiceSettings
from configs.yaml_loading import parse_model, parse_yaml


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("{schedule: hybrid, late: off}", WindowSettings(schedule="hybrid", late="off")),
        ("{kind: conservative, late: off}", Conservative(late="off")),
        ("{admission: off}", ServiceSettings(admission="off")),
    ],
)
def test_a_bare_off_is_the_word(text: str, meant: Settings) -> None:
    assert parse_model(type(meant), parse_yaml(text)) == meant


def test_a_class_can_be_declared_as_the_page_has_it() -> None:
    text = "{kind: PriorityClass, name: a, priority: 1, delay_target_ms: 9, windows: {schedule: hybrid, late: off}}"
    (document,) = documents_of(text)
    assert document.declaration.model_dump()["windows"] == {"schedule": "hybrid", "late": "off"}


def test_true_and_other_words_are_no_choice() -> None:
    for value in ("on", "true", "never"):
        with pytest.raises(InvalidInput) as caught:
            parse_model(WindowSettings, parse_yaml(f"{{late: {value}}}"))
        assert (caught.value.title, caught.value.hint) == (
            "no such choice",
            "known: late, late-pending, off",
        )
