"""Request bodies that expand when parsed: work and memory stay in proportion to the body's size, and the answer is a 4xx status."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from configs.errors import InvalidInput
from configs.yaml_loading import MERGED_MAX, NUMBER_MAX, parse_yaml
from services.api.problems import Malformed
from services.api.request_bodies import NODES_MAX, check_data, without_repetition
from services.common.weir_home import Home
from tests.support.api import Api, api_over

YAML = {"Content-Type": "application/yaml"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with api_over(Home(tmp_path)) as found:
        yield found


def test_checking_a_body_takes_little_memory() -> None:
    data = json.loads(json.dumps([{"k" * 100_000: [0] * 10_000}]))
    tracemalloc.start()
    check_data(data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000


def test_invalid_text_is_reported_with_its_place() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_data([{"a": ["", {"b.c": [0, "x\0"]}]}])
    assert (caught.value.field, caught.value.value) == ("a[1].b.c[1]", "x\0")


def test_body_with_too_many_values_is_refused() -> None:
    with pytest.raises(Malformed, match="too many values"):
        check_data([[0] * NODES_MAX])


class Key(str):
    """String that counts how often it is compared with other strings."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Key.compared += 1
        return str.__eq__(self, other)


def test_duplicate_key_is_found_with_few_comparisons() -> None:
    pairs: list[tuple[str, Any]] = [(Key(f"a{n}"), n) for n in range(1000)]
    with pytest.raises(Malformed, match="occurs twice") as caught:
        without_repetition([*pairs, (Key("a999"), 0)])
    assert (caught.value.value, Key.compared < 100) == ("a999", True)


def merging(levels: int) -> str:
    """Return YAML in which each level merges the previous level ten times."""
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, levels)]
    return "\n".join(lines)


def test_number_of_merged_yaml_keys_is_limited() -> None:
    with pytest.raises(InvalidInput, match=f"more than {MERGED_MAX:,} merged keys"):
        parse_yaml(merging(10))
    assert parse_yaml("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}") == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 3},
    }


@pytest.mark.parametrize(
    "number", ["0x" + "f" * NUMBER_MAX, "0" + "7" * NUMBER_MAX, "1" + ":59" * 200, "1" + ":59" * 200 + ".5"]
)
def test_number_with_hundreds_of_digits_is_refused(api: Api, number: str) -> None:
    answer = api("PUT", "/v1/priority-classes/x", content=f"priority: {number}", headers=YAML)
    assert answer.status_code == 400
    assert (
        answer.json()["detail"]
        == f"the file contains a value out of range: the file contains a number of more than {NUMBER_MAX} characters"
    )


@pytest.mark.parametrize("documents", ["5", "true", "2026-01-01", "abc", "{a: 1}"])
def test_documents_that_are_not_a_list_are_refused(api: Api, documents: str) -> None:
    before = api.declared()
    answer = api("POST", "/v1/apply", content=f"documents: {documents}", headers=YAML)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "#/documents")
    assert api.declared() == before
