"""Jars of the Kafka broker: a missing or different jar is reported in one line, and then no jar of its kind is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.jars import NoJars, check, main


def test_missing_maven_is_reported_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEIR_KAFKA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([]) == 1
    assert (
        capfd.readouterr().err
        == "kafka: Maven is missing: apt-get install maven (make tools does, as root)\n"
    )


@pytest.mark.parametrize(
    ("found", "different"),
    [
        ({"a.jar": "1", "b.jar": "3"}, "b.jar"),
        ({"a.jar": "1"}, "b.jar"),
        ({"a.jar": "0", "b.jar": "2", "c.jar": "3"}, "a.jar, c.jar"),
    ],
)
def test_jars_that_differ_from_their_checksums_are_refused(found: dict[str, str], different: str) -> None:
    with pytest.raises(NoJars, match=rf"^jars of tests/kafka/broker\.xml differ .*: {different}$"):
        check("broker", found, {"a.jar": "1", "b.jar": "2"})


def test_jars_with_their_checksums_are_accepted() -> None:
    check("broker", {"a.jar": "1"}, {"a.jar": "1"})
