"""Access to the routes: which key may call which route, sessions of the console, and rate limits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from configs.service.service_settings import ServiceSettings
from services.api.problems import TooManyRequests
from services.api.rate_limits import RateLimits
from services.api.sessions import COOKIE
from services.common.weir_home import Home
from tests.support.api import Api, api_over

# Names filled in for the parameters of paths: declarations that the keys of a tenant or a feeder must not touch.
NAMES = {"tenant": "other", "query": "all", "stream": "hot", "name": "other", "id": "none"}
OPEN = {"/healthz", "/readyz"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with api_over(Home(tmp_path)) as found:
        yield found


def routes(api: Api) -> list[tuple[str, str]]:
    """Return all routes of the OpenAPI description, with names in place of the parameters of their paths."""
    paths = api("GET", "/openapi.json").json()["paths"]
    return [
        (method.upper(), re.sub(r"{(\w+)}", lambda found: NAMES[found[1]], path))
        for path, methods in paths.items()
        for method in methods
    ]


def status(api: Api, method: str, path: str, who: str | None, **more: object) -> int:
    body: dict[str, object] | None = None if method in ("GET", "DELETE") else {}
    return api(method, path, body, who=who, **more).status_code


def test_only_health_routes_answer_without_a_valid_key(api: Api) -> None:
    wrong = {"Authorization": f"Bearer {api.keys['admin'][:-1]}x"}
    for headers in ({}, wrong):
        statuses = {
            (method, path): status(api, method, path, None, headers=headers) for method, path in routes(api)
        }
        assert statuses == {route: 200 if route[1] in OPEN else 401 for route in statuses}


@pytest.mark.parametrize("path", ["/v1/none", "/openapi.json", "/none", "/v1", "/docs", "/healthz/x"])
def test_request_to_an_unknown_path_without_a_key_answers_401(api: Api, path: str) -> None:
    assert api("GET", path, who=None).status_code == 401


def test_tenant_cannot_touch_another_tenant(api: Api) -> None:
    before = api.declared()
    statuses = {
        (method, path): status(api, method, path, "acme")
        for method, path in routes(api)
        if "/tenants/other" in path
    }
    assert statuses == {
        (method, path): 403 if path == "/v1/tenants/other" and method != "GET" else 404
        for method, path in statuses
    }
    assert api.declared() == before


def test_tenant_can_change_only_its_queries(api: Api) -> None:
    statuses = {
        (method, path): status(api, method, path, "acme")
        for method, path in routes(api)
        if method != "GET" and "/tenants/other/" not in path
    }
    # A tenant may call /v1/apply and /v1/plan. Both answer with status 422, because the body in this test is invalid.
    may_ask = {("POST", "/v1/apply"): 422, ("POST", "/v1/plan"): 422}
    assert statuses == {route: may_ask.get(route, 403) for route in statuses}


def test_key_for_pushing_rows_sees_only_its_stream(api: Api) -> None:
    statuses = {(method, path): status(api, method, path, "feeder") for method, path in routes(api)}
    open_to_it = {("GET", path) for path in (*OPEN, "/v1/streams", "/v1/caller")}
    assert {route for route, status in statuses.items() if status != 403} == open_to_it
    streams = api("GET", "/v1/streams", who="feeder").json()["items"]
    assert [item["document"]["name"] for item in streams] == ["ticks"]
    assert api("GET", "/v1/streams/ticks", who="feeder").status_code == 200
    assert "source" not in api("GET", "/v1/streams/ticks", who="feeder").text


def test_caller_route_shows_the_permissions_of_the_key(api: Api) -> None:
    assert api("GET", "/v1/caller", who="acme").json() == {
        "principal": "acme",
        "scopes": ["tenant:acme"],
        "is_admin": False,
        "tenants": ["acme"],
    }
    assert api("GET", "/v1/caller").json()["is_admin"]


def test_revoked_key_is_refused_at_once(api: Api) -> None:
    made = api("POST", "/v1/keys", {"principal": "temp", "scopes": ["tenant:acme"], "expires_s": 3600})
    assert (made.status_code, made.headers["Cache-Control"]) == (201, "no-store")
    api.keys["temp"] = made.json()["key"]
    seen = [api("GET", "/v1/tenants/acme", who="temp").status_code]
    revoked = [
        api("DELETE", f"/v1/keys/{made.json()['id']}").status_code,
        api("DELETE", "/v1/keys/x").status_code,
    ]
    seen.append(api("GET", "/v1/tenants/acme", who="temp").status_code)
    assert (seen, revoked) == ([200, 401], [204, 404])
    assert api.keys["temp"] not in api("GET", "/v1/keys").text
    log = [
        (entry["who"], entry["action"]) for entry in api("GET", "/v1/audit?kind=Key&limit=2").json()["items"]
    ]
    assert log == [("admin", "revoked"), ("admin", "created")]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"principal": "x", "scopes": []}, "#/scopes"),
        ({"principal": "x", "scopes": ["all"]}, "#/scope"),
        ({"principal": "x", "scopes": ["tenant:none"]}, "#/scope"),
        ({"principal": "ü", "scopes": ["admin"]}, "#/principal"),
        ({"principal": "x", "scopes": ["admin"], "expires_s": 0}, "#/expires_s"),
        ({"principal": "x", "scopes": ["admin"], "expires_s": 1e300}, "#/expires_s"),
        ({"principal": "x", "scopes": "admin"}, "#/scopes"),
    ],
)
def test_request_for_an_invalid_key_is_refused_and_creates_no_key(
    api: Api, body: object, pointer: str
) -> None:
    before = api("GET", "/v1/keys").json()
    answer = api("POST", "/v1/keys", body)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)
    assert api("GET", "/v1/keys").json() == before


def test_pages_of_the_audit_log_continue_without_gaps(api: Api) -> None:
    whole = api("GET", "/v1/audit?limit=10000").json()
    page = api("GET", "/v1/audit?limit=4").json()
    found = page["items"]
    while page["next"] is not None:
        page = api("GET", f"/v1/audit?limit=4&after={page['next']}").json()
        found += page["items"]
    assert (found, whole["next"]) == (whole["items"], None)


# -- access of the console -------------------------------------------------------------------------------------


def test_change_by_a_session_requires_the_console_header(api: Api) -> None:
    (admin,) = (key for key in api.service.snapshot.now.by_id.values() if key.principal == "admin")
    token = api.service.sessions.begin(admin.id)
    cookie = {"Cookie": f"a=b; {COOKIE}={token}"}
    body = {"priority_class": "gold"}
    statuses = [
        api("GET", "/v1/tenants", who=None, headers=cookie).status_code,
        api("PUT", "/v1/tenants/new", body, who=None, headers=cookie).status_code,
        api("PUT", "/v1/tenants/new", body, who=None, headers=cookie | {"X-Weir-Console": "1"}).status_code,
    ]
    api.service.catalog.keys.revoke(admin.id, "test")
    api.service.snapshot.refresh()
    statuses.append(api("GET", "/v1/tenants", who=None, headers=cookie).status_code)
    assert statuses == [200, 403, 201, 401]


# -- limits on the rate of requests ----------------------------------------------------------------------------


def test_key_with_too_many_requests_must_wait(tmp_path: Path) -> None:
    with api_over(Home(tmp_path), requests_burst=3, requests_per_s=0.01) as api:
        answers = [api("GET", "/v1/tenants") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert answers[3].headers["Retry-After"] == "100"
        assert (
            answers[3].json()["detail"] == "the key has sent more requests than its limit of 0.01 per second"
        )
        assert api("GET", "/v1/tenants", who="acme").status_code == 200


def test_wrong_keys_are_limited_without_blocking_valid_keys(tmp_path: Path) -> None:
    with api_over(Home(tmp_path), failures_per_minute=2) as api:
        wrong = {"Authorization": "Bearer weir_wrong"}
        statuses = [api("GET", "/v1/tenants", who=None, headers=wrong).status_code for _ in range(4)]
        assert statuses == [401, 401, 429, 429]
        assert api("GET", "/v1/tenants").status_code == 200


def test_requests_of_a_key_are_limited_to_the_rate_in_the_long_run() -> None:
    now = 0.0
    limits = RateLimits(ServiceSettings(requests_per_s=10, requests_burst=5), lambda: now)
    let_in = 0
    for step in range(1000):
        now = step / 100
        try:
            limits.check_request("k")
            let_in += 1
        except TooManyRequests:
            pass
    assert let_in == 5 + 99


def test_number_of_waiting_readers_per_key_is_limited() -> None:
    limits = RateLimits(ServiceSettings(streams_per_key=2))
    with limits.waiting("k"), limits.waiting("k"):
        with limits.waiting("another"):
            pass
        with pytest.raises(TooManyRequests), limits.waiting("k"):
            pass
    with limits.waiting("k"):
        pass
