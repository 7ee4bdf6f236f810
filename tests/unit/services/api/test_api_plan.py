"""The admission plan over REST: what each key sees of it, what is refused, and how admission uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from configs.classes.live_class import LiveSettings
from configs.errors import Busy
from services.common.weir_home import Home
from services.plan.planner import AT_A_TIME, Planner
from services.plan.worker_process import Aside
from tests.support.api import Api, api_over
from tests.support.planned_api import Told

QUERY = {"kind": "Query", "tenant": "acme", "name": "more", "sql": "SELECT value FROM ticks WHERE value > 3"}
STRICT = {"kind": "Tenant", "name": "strict", "priority_class": "bronze"}
FLOOD = {"kind": "Query", "tenant": "strict", "name": "q", "sql": "SELECT temp FROM hot"}
CLASS = {
    "kind": "PriorityClass",
    "name": "bronze",
    "priority": 1,
    "delay_target_ms": 500,
    "max_drop": 0.0,
}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """Serve an API with a planner for a system that does not run yet."""
    with api_over(Home(tmp_path)) as found:
        found.service.planner = Planner(found.service.catalog, LiveSettings())
        yield found


@pytest.fixture
def flooded(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Api]:
    """Serve an API for a system with more input than any machine can process. The fixture's parameter is the admission setting."""
    with api_over(Home(tmp_path), admission=request.param) as found:
        found("PUT", "/v1/priority-classes/bronze", CLASS)
        found.service.planner = Planner(found.service.catalog, LiveSettings(), Told())
        yield found


def planned(api: Api, *documents: dict[str, Any], who: str = "admin", **more: Any) -> Any:
    return api("POST", "/v1/plan", {"documents": list(documents)}, who=who, **more)


def test_admission_plan_lists_each_class_and_changes_nothing(api: Api) -> None:
    before = api.declared()
    answer = planned(api, QUERY)
    assert (answer.status_code, api.declared()) == (200, before)
    found = answer.json()
    assert [(plan["name"], plan["planned"], plan["holds"]) for plan in found["classes"]] == [
        ("other", False, True),
        ("acme", True, True),
    ]
    assert (found["holds"], found["holds_now"], found["warnings"]) == (True, True, [])
    acme = found["classes"][1]
    assert acme["at_worst"]["p95_ms"] <= acme["target_ms"]
    assert found["assumed"][0].startswith("no system runs here")


def test_admission_plan_for_a_tenant_shows_only_its_class(api: Api) -> None:
    api.service.planner = Planner(api.service.catalog, LiveSettings(), Told())
    found = planned(api, QUERY, who="acme").json()
    assert [plan["name"] for plan in found["classes"]] == ["acme"]
    assert "other" not in str(found).replace("another class", "")


@pytest.mark.parametrize(
    ("who", "document", "status"),
    [
        ("acme", {**QUERY, "tenant": "other"}, 404),
        ("acme", {**QUERY, "tenant": "nobody"}, 404),
        ("acme", STRICT, 403),
        ("feeder", QUERY, 403),
        ("admin", {**QUERY, "sql": "SELECT nothing FROM ticks"}, 422),
        ("admin", {"kind": "Nonsense"}, 422),
    ],
)
def test_admission_plan_requires_the_permission_to_declare(
    api: Api, who: str, document: dict[str, Any], status: int
) -> None:
    assert planned(api, document, who=who).status_code == status


@pytest.mark.parametrize(
    "rate", ["ticks", "ticks:many", ":5", "tick:5", "ticks:-1", "ticks:inf", "ticks:nan"]
)
def test_admission_plan_with_an_invalid_rate_is_refused(api: Api, rate: str) -> None:
    assert planned(api, QUERY, params={"rate": rate}).status_code == 422


def test_rate_given_by_the_caller_replaces_the_rate_that_the_admission_plan_assumes(api: Api) -> None:
    found = planned(api, QUERY, params={"rate": "Ticks:1e9"}).json()
    assert "stream ticks: 1,000,000,000 rows per second, as given" in found["assumed"]
    assert found["classes"][1]["after"]["drop"] > 0.5


def test_request_for_an_admission_plan_without_a_planner_answers_503(tmp_path: Path) -> None:
    with api_over(Home(tmp_path)) as api:
        answer = planned(api, QUERY)
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:weir:problem:not-running")


def test_admission_plan_names_its_assumptions_if_the_running_system_does_not_answer(api: Api) -> None:
    api.service.planner = Planner(api.service.catalog, LiveSettings(), Told(is_away=True))
    assert planned(api, QUERY).json()["assumed"][0].startswith("the running system does not answer")


def test_too_many_admission_plans_at_a_time_are_refused(api: Api) -> None:
    planner = Planner(api.service.catalog, LiveSettings())
    api.service.planner = planner
    for _ in range(AT_A_TIME):
        planner.room.acquire()
    with pytest.raises(Busy):
        planner.plan([])
    answer = planned(api, QUERY)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    # While too many plans are being made, a change is still made, with a warning instead of a plan.
    changed = api("PUT", "/v1/tenants/other/queries/new", {"sql": "SELECT * FROM ticks"})
    warned = "no plan was made: the service is already making as many plans as it can"
    assert (changed.status_code, changed.headers["Weir-Warning"]) == (201, warned)
    for _ in range(AT_A_TIME):
        planner.room.release()
    assert planned(api, QUERY).status_code == 200


@pytest.fixture
def failing(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Api]:
    """Serve an API with a planner process in which every plan fails. The fixture's parameter is the admission setting."""
    with api_over(Home(tmp_path), admission=request.param) as found, Aside() as aside:
        found.service.planner = Planner(found.service.catalog, LiveSettings(), Told(lanes=0), aside.plan)
        yield found


MORE = "/v1/tenants/acme/queries/more"
FAILED = "the service could not make a plan"


@pytest.mark.parametrize("failing", ["warn"], indirect=True)
def test_if_the_admission_plan_fails_a_change_is_made_with_a_warning(failing: Api) -> None:
    made = failing("PUT", MORE, QUERY)
    assert (made.status_code, made.headers["Weir-Warning"]) == (201, f"no plan was made: {FAILED}")
    assert failing("GET", MORE).status_code == 200


@pytest.mark.parametrize("failing", ["refuse"], indirect=True)
def test_with_admission_set_to_refuse_a_failed_admission_plan_refuses_the_change(failing: Api) -> None:
    before = failing.declared()
    for answer in (failing("PUT", MORE, QUERY), planned(failing, QUERY)):
        problem = answer.json()
        assert (answer.status_code, problem["type"], problem["detail"]) == (
            503,
            "urn:weir:problem:not-running",
            FAILED,
        )
    assert failing.declared() == before


@pytest.mark.parametrize("flooded", ["warn"], indirect=True)
def test_admission_warns_of_a_missed_delay_target(flooded: Api) -> None:
    assert "Weir-Warning" not in flooded("PUT", "/v1/tenants/strict", STRICT).headers
    answer = flooded("PUT", "/v1/tenants/strict/queries/q", FLOOD)
    assert answer.status_code == 201
    assert answer.headers["Weir-Warning"].startswith("class strict would miss its delay target of 500 ms")


@pytest.mark.parametrize("flooded", ["refuse"], indirect=True)
def test_admission_refuses_a_change_that_misses_a_delay_target(flooded: Api) -> None:
    before = flooded.declared()
    answer = flooded("POST", "/v1/apply", {"documents": [STRICT, FLOOD]})
    assert (answer.status_code, flooded.declared()) == (409, before)
    problem = answer.json()
    assert (problem["type"], problem["plan"]["holds"]) == ("urn:weir:problem:would-miss-target", False)
    assert flooded("PUT", "/v1/tenants/calm", {"priority_class": "gold"}).status_code == 201


@pytest.mark.parametrize("flooded", ["off"], indirect=True)
def test_with_admission_off_only_a_dry_run_shows_an_admission_plan(flooded: Api) -> None:
    dry = flooded("POST", "/v1/apply?dry_run=true", {"documents": [STRICT, FLOOD]}).json()
    assert dry["plan"]["holds"] is False
    answer = flooded("POST", "/v1/apply", {"documents": [STRICT, FLOOD]})
    assert (answer.status_code, answer.json()["warnings"]) == (200, [])
