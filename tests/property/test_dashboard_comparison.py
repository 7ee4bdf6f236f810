"""Comparison of Weir's dashboard with Grafana's copy: keys that Grafana adds are ignored, and all other differences are found.

1. A document equals itself.
2. Added keys, and missing keys that had an empty value, make no difference.
3. A value that differs is found wherever it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.dashboards.push import says_all_of

Json = Any
LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
NAMES = st.sampled_from(["a", "b", "id", "title"])
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


def everywhere(document: Json, change: Callable[[dict[str, Json]], dict[str, Json]]) -> Json:
    """Return the document after `change` was applied to each mapping in the document."""
    if isinstance(document, dict):
        return change({key: everywhere(value, change) for key, value in document.items()})
    if isinstance(document, list):
        return [everywhere(one, change) for one in document]
    return document


def paths(document: Json, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of each value that contains no other value."""
    if isinstance(document, dict | list) and document:
        steps = document.items() if isinstance(document, dict) else enumerate(document)
        return [path for key, value in steps for path in paths(value, (*before, key))]
    return [before]


def replaced(document: Json, path: tuple[Any, ...], value: Json) -> Json:
    if not path:
        return value
    first, *others = path
    inner = replaced(document[first], tuple(others), value)
    if isinstance(document, dict):
        return document | {first: inner}
    return [inner if place == first else one for place, one in enumerate(document)]


@given(DOCUMENTS)
def test_keys_that_grafana_adds_or_leaves_out_make_no_difference(document: Json) -> None:
    assert says_all_of(document, document)
    assert says_all_of(everywhere(document, lambda one: {"pluginVersion": "13.0.1"} | one), document)
    assert says_all_of(everywhere(document, lambda one: {k: v for k, v in one.items() if v}), document)


@given(DOCUMENTS, st.data())
def test_a_changed_value_of_a_dashboard_is_found(document: Json, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(paths(document)))
    # Only the numeric id at the top level is Grafana's own, and may differ.
    if path[:1] != ("id",):
        assert not says_all_of(replaced(document, path, "another"), document)


@given(st.lists(LEAVES, max_size=3), LEAVES)
def test_an_added_or_missing_panel_of_a_dashboard_is_found(panels: list[Json], more: Json) -> None:
    assert not says_all_of({"panels": [*panels, more]}, {"panels": panels})
    assert not says_all_of({"panels": panels}, {"panels": [*panels, more]})
