"""Routes that list, show, change and delete declarations: pages, conditional requests, and refusals of invalid requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.documents.declarations import documents_of
from services.common.weir_home import Home
from tests.support.api import Api, api_over
from tests.support.postgresql import postgresql


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with api_over(Home(tmp_path)) as found:
        yield found


NEW = {"priority_class": "gold"}
TENANT = {"kind": "Tenant", "name": "new", "priority_class": "gold"}


def test_put_creates_a_declaration_and_gives_a_new_etag_only_for_changes(api: Api) -> None:
    answers = []
    for body in (NEW, NEW, {"priority_class": "silver"}):
        answer = api("PUT", "/v1/tenants/new", body)
        answers.append((answer.status_code, answer.headers["ETag"], answer.json()))
    (_, first, _), (_, again, _), (_, changed, _) = answers
    assert first == again != changed
    assert [(status, body) for status, _, body in answers] == [
        (201, TENANT),
        (200, TENANT),
        (200, TENANT | {"priority_class": "silver"}),
    ]
    shown = api("GET", "/v1/tenants/new")
    assert (shown.headers["ETag"], shown.json()) == (changed, answers[2][2])
    log = [(entry["who"], entry["action"], entry["fields"]) for entry in audited(api, "Tenant", "new")]
    assert log == [("admin", "changed", ["priority_class"]), ("admin", "created", [])]


def test_weight_of_a_query_is_stored_and_refused_if_it_is_out_of_range(api: Api) -> None:
    query, path = {"sql": "SELECT value FROM ticks", "weight": 2.5}, "/v1/tenants/acme/queries/fresh"
    answer = api("PUT", path, query)
    assert (answer.status_code, api("GET", path).json()["weight"]) == (201, 2.5)
    refused = api("PUT", path, {**query, "weight": 0})
    (error,) = refused.json()["errors"]
    assert (refused.status_code, error["pointer"]) == (422, "#/weight")
    assert "give a number from 0.001 to 1000; 1 if left out" in refused.text
    assert api("GET", path).json()["weight"] == 2.5


def audited(api: Api, kind: str, name: str) -> list[Any]:
    found: list[Any] = api("GET", f"/v1/audit?kind={kind}&name={name}").json()["items"]
    return found


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("acme", {"If-Match": "{etag}"}, 200),
        ("acme", {"If-Match": "*"}, 200),
        ("acme", {"If-Match": '"1"'}, 412),
        ("acme", {"If-Match": "W/{etag}"}, 412),
        ("acme", {"If-Match": "nonsense"}, 412),
        ("acme", {"If-None-Match": "*"}, 412),
        ("acme", {"If-None-Match": '"1"'}, 422),
        ("new", {"If-Match": "*"}, 412),
        ("new", {"If-Match": '"1"'}, 412),
        ("new", {"If-None-Match": "*"}, 201),
    ],
)
def test_put_is_refused_if_its_if_match_or_if_none_match_header_does_not_hold(
    api: Api, path: str, headers: dict[str, str], status: int
) -> None:
    before = api.declared()
    etag = api("GET", "/v1/tenants/acme").headers["ETag"]
    sent = {name: value.replace("{etag}", etag) for name, value in headers.items()}
    answer = api("PUT", f"/v1/tenants/{path}", {"priority_class": "bronze"}, headers=sent)
    assert (answer.status_code, api.declared() != before) == (status, status < 300)


def test_declaration_that_matches_if_none_match_answers_304_without_a_body(api: Api) -> None:
    etag = api("GET", "/v1/tenants/acme").headers["ETag"]
    answers = [
        api("GET", "/v1/tenants/acme", headers={"If-None-Match": known})
        for known in (etag, f'W/{etag}, "1"', '"1"')
    ]
    assert [(answer.status_code, bool(answer.content)) for answer in answers] == [
        (304, False),
        (304, False),
        (200, True),
    ]


def test_deleting_a_declaration_a_second_time_answers_404(api: Api) -> None:
    answers = [api("DELETE", "/v1/tenants/acme/queries/odd") for _ in range(2)]
    assert [(answer.status_code, answer.content[:1]) for answer in answers] == [(204, b""), (404, b"{")]
    assert api("GET", "/v1/tenants/acme/queries/odd").status_code == 404


def test_a_change_that_does_not_take_effect_in_time_is_saved_with_a_warning(api: Api) -> None:
    enacted = []

    def enact() -> bool:
        enacted.append(len(api.declared()))
        return len(enacted) < 2

    api.service.enact = enact
    first, second = (
        api("PUT", f"/v1/tenants/acme/queries/{name}", {"sql": "SELECT * FROM ticks"})
        for name in ("n1", "n2")
    )
    assert (first.status_code, first.headers.get("Weir-Warning")) == (201, None)
    assert (second.status_code, "do not run yet" in second.headers["Weir-Warning"]) == (201, True)
    # The service stores the change in the catalog before it waits for the change to take effect.
    assert enacted[1] == enacted[0] + 1
    assert api("PUT", "/v1/tenants/acme/queries/n3?dry_run=true", {"sql": "SELECT * FROM ticks"}).is_success
    assert len(enacted) == 2


def test_declaration_in_use_is_not_deleted(api: Api) -> None:
    before = api.declared()
    answers = {
        path: api("DELETE", path) for path in ("/v1/streams/ticks", "/v1/tenants/acme", "/v1/streams/hot")
    }
    assert {path: (answer.status_code, answer.json()["detail"]) for path, answer in answers.items()} == {
        "/v1/streams/ticks": (
            409,
            f"the declaration is in use by Query acme/odd, key {key_of(api, 'feeder')} (got 'Stream ticks')",
        ),
        "/v1/tenants/acme": (
            409,
            f"the declaration is in use by Query acme/odd, key {key_of(api, 'acme')} (got 'Tenant acme')",
        ),
        "/v1/streams/hot": (
            409,
            "the declaration is in use by Feed sensors, Query other/all (got 'Stream hot')",
        ),
    }
    assert api.declared() == before


def key_of(api: Api, principal: str) -> str:
    (found,) = [key["id"] for key in api("GET", "/v1/keys").json()["items"] if key["principal"] == principal]
    return str(found)


def test_dry_run_shows_the_changes_and_makes_none(api: Api) -> None:
    before = api.declared()
    changed = api("PUT", "/v1/tenants/acme?dry_run=true", {"priority_class": "bronze"})
    gone = api("DELETE", "/v1/tenants/acme/queries/odd?dry_run=true")
    refused = api("PUT", "/v1/tenants/acme?dry_run=true", {"priority_class": "none"})
    stale = api("DELETE", "/v1/tenants/acme/queries/odd?dry_run=true", headers={"If-Match": '"1"'})
    assert (changed.status_code, changed.json()) == (
        200,
        {
            "changes": [
                {
                    "kind": "Tenant",
                    "name": "acme",
                    "action": "changed",
                    "fields": ["priority_class"],
                    "changes": {"priority_class": ["gold", "bronze"]},
                }
            ],
            "warnings": [],
        },
    )
    deletion = {
        "kind": "Query",
        "tenant": "acme",
        "name": "odd",
        "action": "deleted",
        "fields": [],
        "changes": {},
    }
    assert (gone.status_code, gone.json()["changes"]) == (200, [deletion])
    assert (refused.status_code, stale.status_code) == (422, 412)
    assert api.declared() == before


@pytest.mark.parametrize(
    "body",
    [
        {"priority": 1, "delay_target_ms": 1, "limits": {"groups": 10**30}},
        {"priority": 10**400, "delay_target_ms": 1},
        {"priority": 1, "delay_target_ms": 1, "policy": {"kind": "bsd", "clusters": 10**30}},
    ],
)
def test_number_out_of_range_is_refused(api: Api, body: object) -> None:
    assert api("PUT", "/v1/priority-classes/huge", body).status_code == 422
    assert api("GET", "/v1/priority-classes").status_code == 200


@pytest.mark.parametrize(
    "query", ["dry-run=true", "dryrun=true", "dry_run=true&dry_run=false", "dry_run=perhaps"]
)
def test_misspelt_parameter_is_refused(api: Api, query: str) -> None:
    answer = api("PUT", f"/v1/tenants/new?{query}", NEW)
    assert (answer.status_code, answer.json()["errors"][0]["parameter"]) == (422, query.partition("=")[0])
    assert api("GET", "/v1/tenants/new").status_code == 404


def test_pages_of_a_list_continue_where_the_previous_page_ended(api: Api) -> None:
    whole = api("GET", "/v1/queries?limit=10000").json()
    assert [item["document"]["name"] for item in whole["items"]] == ["odd", "all"]
    first = api("GET", "/v1/queries?limit=1").json()
    # A query that is declared between two pages is listed last, and no query is listed twice.
    api("PUT", "/v1/tenants/acme/queries/more", {"sql": "SELECT value FROM ticks"})
    rest = api("GET", f"/v1/queries?limit=2&after={first['next']}").json()
    assert [item["document"]["name"] for item in first["items"] + rest["items"]] == ["odd", "all", "more"]
    assert (whole["next"], rest["next"]) == (None, None)
    assert api("GET", "/v1/tenants/acme/queries").json()["items"] == [whole["items"][0], rest["items"][1]]


def test_list_of_queries_shows_when_a_query_runs(api: Api) -> None:
    path = "/v1/tenants/acme/queries"
    odd = {"sql": "SELECT * FROM ticks", "start": "2999-11-21T09:00:00+01:00", "lifetime": "2h"}
    assert api("PUT", f"{path}/odd", odd).json()["start"] == "2999-11-21T08:00:00Z"
    api("PUT", f"{path}/past", {"sql": "SELECT * FROM ticks", "stop": "2020-01-01T00:00:00Z"})
    api("PUT", f"{path}/ever", {"sql": "SELECT * FROM ticks"})
    items = {item["document"]["name"]: item.get("run") for item in api("GET", path).json()["items"]}
    assert items == {
        "odd": {"state": "waiting", "start": "2999-11-21T08:00:00Z", "stop": "2999-11-21T10:00:00Z"},
        "past": {"state": "ended", "start": None, "stop": "2020-01-01T00:00:00Z"},
        "ever": None,
    }
    assert api("GET", "/v1/queries", who="acme").json()["items"] == api("GET", path).json()["items"]
    refused = api("PUT", f"{path}/odd", odd | {"lifetime": "0s"})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/lifetime")


def test_secrets_are_hidden_and_kept_when_the_shown_document_is_put(api: Api) -> None:
    feed, session = api("GET", "/v1/feeds/sensors").json(), api("GET", "/v1/session").json()
    options = {"subscribe": "t", "kafka.bootstrap.servers": "broker:9092"}
    assert feed["source"]["options"] == {**options, "kafka.sasl.jaas.config": "(hidden)"}
    assert session["conf"] == {"spark.hadoop.fs.s3a.secret.key": "(hidden)"}
    feed["source"]["options"]["subscribe"] = "u"
    answer = api("PUT", "/v1/feeds/sensors", feed)
    assert (answer.status_code, answer.json()) == (200, feed)
    (kept,) = (feed.declaration.source.options for feed in api.service.catalog.all("Feed"))  # type: ignore[union-attr]  # it is a feed
    assert kept == {**options, "subscribe": "u", "kafka.sasl.jaas.config": "hunter2hunter2"}
    everything = "".join(
        api("GET", path).text for path in ("/v1/feeds", "/v1/session", "/v1/audit", "/v1/streams", "/v1/keys")
    )
    assert "hunter2" not in everything + answer.text


def test_hidden_value_without_a_stored_secret_is_refused(api: Api) -> None:
    body = {"conf": {"spark.hadoop.other.secret.key": "(hidden)"}}
    answer = api("PUT", "/v1/session", body)
    assert (answer.status_code, answer.json()["errors"]) == (
        422,
        [
            {
                "pointer": "#/conf/spark.hadoop.other.secret.key",
                "detail": "the field has the placeholder for a hidden secret, but the catalog stores no secret for this field",
            }
        ],
    )


APPLIED = """
kind: Tenant
name: new
priority_class: gold
---
{kind: Query, tenant: new, name: some, sql: SELECT * FROM ticks}
"""


def test_apply_makes_the_same_changes_from_yaml_as_from_json(api: Api) -> None:
    by_yaml = api(
        "POST", "/v1/apply?dry_run=true", content=APPLIED, headers={"Content-Type": "application/yaml"}
    )
    query = {"kind": "Query", "tenant": "new", "name": "some", "sql": "SELECT * FROM ticks"}
    by_json = api("POST", "/v1/apply", {"documents": [TENANT, query]})
    assert by_yaml.json() == by_json.json()
    assert [(change["kind"], change["action"]) for change in by_json.json()["changes"]] == [
        ("Tenant", "created"),
        ("Query", "created"),
    ]
    assert [
        change["action"]
        for change in api("POST", "/v1/apply", {"documents": [TENANT, query]}).json()["changes"]
    ] == [
        "unchanged",
        "unchanged",
    ]


def test_apply_changes_everything_or_nothing(api: Api) -> None:
    before = api.declared()
    wrong = {"kind": "Query", "tenant": "new", "name": "some", "sql": "SELECT nothing FROM ticks"}
    answer = api("POST", "/v1/apply", {"documents": [TENANT, wrong]})
    assert (answer.status_code, answer.json()["errors"]) == (
        422,
        [{"pointer": "#/documents/1/sql", "detail": "there is no such column", "line": 1, "column": 8}],
    )
    assert api.declared() == before


def test_tenant_applies_only_its_own_queries(api: Api) -> None:
    own = {"kind": "Query", "tenant": "acme", "name": "own", "sql": "SELECT * FROM hot"}
    statuses = [
        api("POST", "/v1/apply", {"documents": documents}, who="acme").status_code
        for documents in ([own], [own, TENANT], [own | {"tenant": "other"}], [own | {"tenant": "none"}])
    ]
    assert statuses == [200, 403, 404, 404]


def test_the_api_shows_changes_that_another_process_made_in_the_catalog(api: Api) -> None:
    api.service.catalog.apply(documents_of("{kind: Tenant, name: late, priority_class: gold}"), "another")
    api.service.snapshot.refresh()
    assert api("GET", "/v1/tenants/late").status_code == 200


# -- what tenants see ------------------------------------------------------------------------------------------


def test_tenant_sees_its_own_declarations_and_streams_without_sources(api: Api) -> None:
    seen = {
        path: [item["document"] for item in api("GET", path, who="acme").json()["items"]]
        for path in ("/v1/tenants", "/v1/queries", "/v1/priority-classes", "/v1/streams")
    }
    assert {path: [document["name"] for document in documents] for path, documents in seen.items()} == {
        "/v1/tenants": ["acme"],
        "/v1/queries": ["odd"],
        "/v1/priority-classes": ["gold"],
        "/v1/streams": ["ticks", "hot"],
    }
    assert [sorted(document) for document in seen["/v1/streams"]] == [["columns", "kind", "name", "time"]] * 2
    assert "source" not in api("GET", "/v1/streams/ticks", who="acme").json()


@pytest.mark.parametrize("path", ["/v1/tenants/{}", "/v1/tenants/{}/queries", "/v1/tenants/{}/queries/all"])
def test_reading_another_tenant_answers_404_like_a_missing_tenant(api: Api, path: str) -> None:
    other, none = (api("GET", path.format(name), who="acme") for name in ("other", "another"))
    assert other.status_code == none.status_code == 404
    assert other.text.replace("'other'", "'another'") == none.text


# -- requests that are refused ---------------------------------------------------------------------------------

DEEP = "[" * 100_000
MALFORMED = [
    (b"", 400),
    (b"{", 400),
    (b"{}x", 400),
    (b"\xff\xfe", 400),
    (b'{"priority_class": NaN}', 400),
    (b'{"priority_class": Infinity}', 400),
    (b'{"priority_class": ' + b"9" * 5000 + b"}", 400),
    (b'{"priority_class": "gold", "priority_class": "silver"}', 400),
    (DEEP.encode(), 400),
    (b'{"a":' * 5000 + b"1" + b"}" * 5000, 400),
    (b"null", 422),
    (b"[]", 422),
    (b'"gold"', 422),
    (b"{}", 422),
    (b'{"priority_class": null}', 422),
    (b'{"priority_class": "gold\\u0000"}', 422),
    (b'{"priority_class": "\\ud800"}', 422),
    (b'{"priority_class": "gold", "\\ud800": 1}', 422),
    (b'{"priority_class": "gold", "shards": 1e400}', 422),
    (b'{"priority_class": "gold", "limits": {"groups": 1' + b"0" * 30 + b"}}", 422),
    (b'{"priority_class": "gold", "overrides": {"priority": 1' + b"0" * 400 + b"}}", 422),
    (b'{"priority_class": "gold", "name": "other"}', 422),
    (b'{"priority_class": "gold", "kind": "Query"}', 422),
    (b'{"priority_class": "gold", "unknown": 1}', 422),
    (b'{"priority_class": "gold", "key": "' + b"x" * 2_000_000 + b'"}', 413),
]


@pytest.mark.parametrize(("body", "status"), MALFORMED, ids=[str(body[:40]) for body, _ in MALFORMED])
def test_malformed_body_is_refused_and_changes_nothing(api: Api, body: bytes, status: int) -> None:
    before = api.declared()
    answer = api("PUT", "/v1/tenants/new", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
    assert set(answer.json()) >= {"type", "title", "status", "detail"}
    assert api.declared() == before


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"priority_class": "none"}, "#/priority_class"),
        ({"priority_class": "gold", "overrides": {"min_share": 2}}, "#/overrides/min_share"),
        ({"priority_class": "gold", "overrides": {"min_share": 1}}, "#/overrides/min_share"),
        ({"priority_class": "gold", "overrides": {"policy": {"kind": "none"}}}, "#/overrides/policy/kind"),
        ({"priority_class": "gold", "limits": {"queries": 10_000}}, "#/limits/queries"),
        ({"priority_class": "gold", "key~/": 1}, "#/key~0~1"),
        ({"priority_class": "gold", "shards": 2}, "#/shards"),
        ({}, "#/priority_class"),
    ],
)
def test_error_has_the_json_pointer_of_the_wrong_field_in_the_body(
    api: Api, body: object, pointer: str
) -> None:
    (error,) = api("PUT", "/v1/tenants/new", body).json()["errors"]
    assert error["pointer"] == pointer


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/tenants/ACME", 422),
        ("/v1/tenants/1a", 422),
        ("/v1/tenants/caf%C3%A9", 422),
        ("/v1/tenants/%00", 422),
        ("/v1/tenants/%FF", 422),
        ("/v1/tenants/a%2Fb", 404),
        ("/v1/tenants/" + "a" * 64, 422),
        ("/v1/tenants/" + "a" * 10_000, 422),
        ("/v1/tenants/", 404),
    ],
)
def test_declaration_with_an_invalid_name_is_refused(api: Api, path: str, status: int) -> None:
    assert api("PUT", path, NEW).status_code == status


@pytest.mark.parametrize(
    ("content", "media", "status"),
    [
        ("priority_class: gold", "application/yaml", 201),
        ("priority_class: gold", "text/yaml; charset=utf-8", 201),
        ('{"priority_class": "gold"}', "application/merge-patch+json", 201),
        ('{"priority_class": "gold"}', "application/x-www-form-urlencoded", 415),
        ('{"priority_class": "gold"}', "text/plain", 415),
        ("a: [", "application/yaml", 400),
        ("priority_class: gold\npriority_class: silver", "application/yaml", 400),
        ("priority_class: gold\n---\npriority_class: gold", "application/yaml", 422),
        ("", "application/yaml", 422),
        ("a: &a [x]\nb: !!python/object:os.system {}", "application/yaml", 400),
        (
            "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9) if n else 1}]\n" for n in range(30)),
            "text/yaml",
            400,
        ),
    ],
)
def test_body_is_read_by_its_media_type(api: Api, content: str, media: str, status: int) -> None:
    answer = api("PUT", "/v1/tenants/new", content=content, headers={"Content-Type": media})
    assert answer.status_code == status, answer.text


def test_sql_of_ten_megabytes_is_refused_as_too_large(api: Api) -> None:
    sql = "SELECT * FROM ticks WHERE " + "value = 1 OR " * 800_000
    path = "/v1/tenants/acme/queries/long"
    documents = [{"kind": "Query", "tenant": "acme", "name": "long", "sql": sql}]
    answers = [api("PUT", path, {"sql": sql}), api("POST", "/v1/apply", {"documents": documents})]
    assert [answer.status_code for answer in answers] == [413, 422]
    assert len(answers[1].content) < 1000
    assert answers[1].json()["errors"][0]["pointer"] == "#/documents/0/sql"


def test_size_of_chunked_bodies_is_limited(api: Api) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * 50_000

    answer = api("PUT", "/v1/tenants/new", content=chunks(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["Connection"]) == (413, "close")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["priority_class", "overrides", "limits", "key", "shards", "sql", "columns", "source", "conf"]
)
PATHS = st.sampled_from(
    [
        "/v1/tenants/new",
        "/v1/tenants/acme/queries/new",
        "/v1/streams/new",
        "/v1/feeds/new",
        "/v1/session",
        "/v1/priority-classes/new",
        "/v1/apply",
        "/v1/keys",
    ]
)


def test_a_request_with_any_body_never_causes_a_server_error(api: Api) -> None:
    @settings(max_examples=150, deadline=None)
    @given(path=PATHS, body=JSON | st.dictionaries(FIELDS, JSON, max_size=4))
    def holds(path: str, body: object) -> None:
        before = api.declared()
        method = "POST" if path in ("/v1/apply", "/v1/keys") else "PUT"
        answer = api(method, path, content=json.dumps(body), headers={"Content-Type": "application/json"})
        assert answer.status_code < 500, answer.text
        assert (api.declared() == before) or answer.status_code in (200, 201)

    holds()


@pytest.mark.slow
def test_routes_work_with_postgresql_and_report_when_postgresql_has_stopped(tmp_path: Path) -> None:
    with ExitStack() as database:
        home = Home(tmp_path, database.enter_context(postgresql()))
        with api_over(home) as api:
            test_put_creates_a_declaration_and_gives_a_new_etag_only_for_changes(api)
            test_declaration_in_use_is_not_deleted(api)
            test_apply_changes_everything_or_nothing(api)
            test_pages_of_a_list_continue_where_the_previous_page_ended(api)
            test_secrets_are_hidden_and_kept_when_the_shown_document_is_put(api)
            assert api("GET", "/v1/audit?name=%00").status_code == 422
            database.close()
            answers = [
                api("GET", "/v1/tenants/acme"),
                api("PUT", "/v1/tenants/acme", NEW),
                api("GET", "/v1/keys"),
            ]
    assert [answer.status_code for answer in answers] == [200, 503, 503]
    assert answers[1].json()["type"] == "urn:weir:problem:catalog-away"
    assert answers[1].headers["Retry-After"] == "1"
