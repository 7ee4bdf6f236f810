"""Faulty documents sent to the service: either a request is refused clearly and changes nothing, or all its
documents are declared.

The documents start out valid. Then values are replaced, keys are removed or invented, the case of names is
changed, and documents are repeated or left out.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from configs.documents.declarations import RESOURCES
from services.common.weir_home import Home
from tests.support.api import Api, api_over

pytestmark = pytest.mark.slow

Data = dict[str, Any]
Steps = tuple[str | int, ...]
# Number of examples per test. The number is small, because each example creates a new catalog.
EXAMPLES = 30

GOOD: list[Data] = [
    {
        "kind": "PriorityClass",
        "name": "top",
        "priority": 4,
        "delay_target_ms": 250,
        "max_drop": 0.5,
        "limits": {"queries": 5, "state_bytes": 1 << 20},
    },
    {"kind": "Tenant", "name": "acme", "priority_class": "top", "overrides": {"delay_target_ms": 400}},
    {"kind": "Tenant", "name": "new", "priority_class": "gold", "limits": {"queries": 3}},
    {"kind": "Stream", "name": "fresh", "columns": {"ts": "timestamp", "x": "float64"}, "time": "ts"},
    {"kind": "Stream", "name": "details", "sql": "CREATE STREAM details (x int64, s string)"},
    {
        "kind": "Feed",
        "name": "more",
        "source": {"format": "rate", "options": {"rowsPerSecond": 10}, "sql": "SELECT * FROM source"},
        "streams": {"fresh": {"where": "value > 1", "sql": "SELECT timestamp AS ts, 1.0 AS x FROM source"}},
    },
    {"kind": "Session", "conf": {"spark.sql.shuffle.partitions": "2"}},
    {
        "kind": "Mirror",
        "name": "items",
        "sql": "CREATE MIRROR items (item string) FROM HTTP 'http://u@h/{key}' KEYS ('a') BANDWIDTH 5 PER SECOND",
        "options": {"password": "hush"},
    },
    {"kind": "Query", "tenant": "acme", "name": "odd", "sql": "SELECT * FROM ticks WHERE value % 2 = 0"},
    {"kind": "Query", "tenant": "acme", "name": "over", "sql": "SELECT value FROM odd"},
    {
        "kind": "Query",
        "tenant": "new",
        "name": "mean",
        "sql": "SELECT AVG(x) AS m FROM fresh [RANGE 5 SECONDS]",
    },
]
PATHS = {kind: resource.path for kind, resource in RESOURCES.items() if kind not in ("Query", "Session")}

# -- values that replace valid values --------------------------------------------------------------------------

DEEP_SQL = [
    f"SELECT {'(' * 5000}value{')' * 5000} AS v FROM ticks",
    f"SELECT * FROM ticks WHERE {'NOT ' * 20_000} value = 1",
    f"SELECT value{' + 1' * 20_000} AS v FROM ticks",
    f"SELECT {'-' * 1} {'- ' * 20_000}value AS v FROM ticks",
    f"SELECT * FROM {'(SELECT * FROM ' * 2000}ticks{')' * 2000}",
    f"SELECT {'CASE WHEN value = 1 THEN ' * 3000}1",
    f"SELECT {', '.join(f'value AS v{place}' for place in range(5000))} FROM ticks",
    f"SELECT * FROM {'a' * 90_000}",
    "SELECT value / 0 AS v, CAST('x' AS int64) AS w FROM ticks",
    "SELECT * FROM ticks [RANGE 99999999999999999999 YEARS]",
    "SELECT value AS Value, value AS value FROM ticks",
    "SELECT '\ufeff\u202e' AS s FROM ticks; DROP STREAM ticks",
    "/* " + "x" * 1000,
]
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1 << 70, -(1 << 63), 10**400, 1e308, -0.0, 5e-324),
    *(
        "",
        " ",
        "\0",
        "a\0b",
        "\ud800",
        "\u202eacme",
        "ﬁ",
        "İ",
        "ß",
        "ＧＯＬＤ",
        "ACME",
        "Gold",
        "../acme",
        "a/b",
        "a.b[0]",
    ),
    *(
        "nan",
        "inf",
        "1e999",
        "true",
        "null",
        "(hidden)",
        "é" * 100,
        "x" * 100_001,
        "%s%n{0}",
        "'; DROP TABLE documents; --",
    ),
    *([], {}, [[]], {"": {}}, {"a": {"b": {"c": [1, None]}}}, ["acme", "acme"], {"kind": "Tenant"}),
]
TEN_MEGABYTES = "SELECT * FROM ticks WHERE " + "value = 1 OR " * 800_000


def nested(depth: int) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = [found] if depth % 2 else {"a": found}
    return found


values = st.one_of(
    st.sampled_from(VALUES),
    st.sampled_from(DEEP_SQL),
    st.sampled_from([one["name"] for one in GOOD if "name" in one]),
    st.integers(0, 80).map(nested),
    st.text(max_size=10),
    st.integers() | st.floats(allow_nan=False, allow_infinity=False),
)


def places(value: Any, here: Steps = ()) -> Iterator[Steps]:
    """Yield the path of each value inside `value`."""
    if here:
        yield here
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield from places(one, (*here, key))


@st.composite
def spoilt(draw: st.DrawFn) -> list[Any]:
    """Draw some of the documents in GOOD, in any order and with up to three faults."""
    found: list[Any] = deepcopy(draw(st.lists(st.sampled_from(GOOD), min_size=1, max_size=len(GOOD))))
    for _ in range(draw(st.integers(0, 3))):
        *steps, last = draw(st.sampled_from(list(places(found))))
        inner: Any = found
        for step in steps:
            inner = inner[step]
        match draw(st.sampled_from(("put", "put", "put", "take", "add", "case"))):
            case "put":
                inner[last] = deepcopy(draw(values))
            case "take" if len(found) > 1 or steps:
                del inner[last]
            case "add" if isinstance(inner, dict):
                inner[draw(st.text(max_size=5) | st.sampled_from(("Name", "kind ", "name.x")))] = draw(values)
            case "case" if isinstance(inner[last], str):
                inner[last] = inner[last].swapcase()
    return found


# -- the service that gets the documents -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """Folder of a catalog that each test copies."""
    with TemporaryDirectory() as folder:
        with api_over(Home(Path(folder))):
            pass
        yield Path(folder)


@contextmanager
def there(template: Path) -> Iterator[Api]:
    with TemporaryDirectory() as folder:
        shutil.copytree(template, folder, dirs_exist_ok=True)
        with api_over(Home(Path(folder)), documents="") as api:
            yield api


def everything(api: Api) -> tuple[Any, ...]:
    """Return all that a refused request must leave unchanged: declarations with versions, keys, and the audit log."""
    keys = [(one.id, one.scopes, one.revoked_at) for one in api.service.catalog.keys.all()]
    return api.service.catalog.revision(), api.declared(), keys, api.service.catalog.audit(most=1000)


def send(api: Api, method: str, path: str, content: bytes, media: str = "application/json") -> httpx.Response:
    """Send a request. A refusal must be a short problem document and must change nothing."""
    before = everything(api)
    answer = api(method, path, content=content, headers={"Content-Type": media})
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 300:
        details = answer.json()
        assert (answer.headers["content-type"], details["status"]) == (
            "application/problem+json",
            answer.status_code,
        )
        assert details["detail"]
        assert len(answer.content) < 4000
        assert everything(api) == before
    return answer


def as_json(data: object) -> bytes:
    """Encode a value as JSON, even if the value contains strings that are not valid text."""
    return json.dumps(data).encode()


# -- documents without faults ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sql", DEEP_SQL, ids=lambda sql: sql[:30])
def test_query_with_extremely_deep_or_long_sql_is_refused(template: Path, sql: str) -> None:
    with there(template) as api:
        answer = send(api, "PUT", "/v1/tenants/acme/queries/odd", as_json({"sql": sql}))
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "#/sql")


@pytest.mark.parametrize("document", [GOOD[0], GOOD[3], GOOD[7]], ids=lambda one: one["kind"])
def test_document_with_ten_megabytes_in_any_field_is_refused(template: Path, document: Data) -> None:
    with there(template) as api:
        for *steps, last in places(document):
            spoilt_one = deepcopy(document)
            inner: Any = spoilt_one
            for step in steps:
                inner = inner[step]
            inner[last] = TEN_MEGABYTES
            answer = send(api, "POST", "/v1/apply", as_json({"documents": [spoilt_one]}))
            assert answer.status_code == 422


# -- properties of the service's responses ---------------------------------------------------------------------


@settings(max_examples=EXAMPLES)
@given(documents=spoilt())
def test_either_all_documents_of_a_request_are_declared_or_none(template: Path, documents: list[Any]) -> None:
    content = as_json({"documents": documents})
    with there(template) as api:
        before = everything(api)
        asked = send(api, "POST", "/v1/apply?dry_run=true", content)
        assert everything(api) == before
        made = send(api, "POST", "/v1/apply", content)
        assert (made.status_code, made.json()) == (asked.status_code, asked.json())
        if made.status_code == 200:
            again = send(api, "POST", "/v1/apply", content).json()["changes"]
            assert {one["action"] for one in again} == {"unchanged"}
            declared = {(ref.kind, ref.tenant, ref.name) for ref, _, _ in api.declared()}
            assert {(one["kind"], one.get("tenant", ""), one["name"]) for one in again} <= declared


@settings(max_examples=EXAMPLES)
@given(documents=spoilt())
def test_wrong_yaml_documents_are_refused_with_a_clear_error(template: Path, documents: list[Any]) -> None:
    # YAML cannot contain lone surrogates. The document is sent anyway, so that the service's YAML reader must refuse the document.
    content = yaml.safe_dump_all(documents, allow_unicode=True).encode("utf-8", "surrogatepass")
    with there(template) as api:
        send(api, "POST", "/v1/apply", content, "application/yaml")


@settings(max_examples=EXAMPLES)
@given(documents=spoilt())
def test_a_document_sent_to_its_own_route_is_declared_or_refused(
    template: Path, documents: list[Any]
) -> None:
    with there(template) as api:
        for one in documents:
            if not isinstance(one, dict):
                continue
            path = f"/v1/{PATHS.get(str(one.get('kind')), 'tenants')}/new"
            if one.get("kind") == "Query":
                path = "/v1/tenants/acme/queries/odd"
            body = {key: value for key, value in one.items() if key not in ("kind", "name", "tenant")}
            answer = send(api, "PUT", path, as_json(body))
            if answer.status_code < 300:
                assert api("GET", path).json() == answer.json()


@settings(max_examples=EXAMPLES)
@given(
    documents=spoilt(),
    cuts=st.lists(st.tuples(st.integers(0, 5000), st.binary(max_size=3)), min_size=1, max_size=3),
)
def test_damaged_request_bodies_never_cause_a_server_error_or_a_partial_change(
    template: Path, documents: list[Any], cuts: list[tuple[int, bytes]]
) -> None:
    content = as_json({"documents": documents})
    for place, piece in cuts:
        place %= len(content)
        content = content[:place] + piece + content[place + 1 :]
        assume(content)
    with there(template) as api:
        for media in ("application/json", "application/yaml"):
            send(api, "POST", "/v1/apply", content, media)
