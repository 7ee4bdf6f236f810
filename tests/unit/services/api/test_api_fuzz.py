"""Schemathesis draws requests from the service's OpenAPI description. Every response must match the description."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from services.api.openapi import FILE
from services.api.server import Serving
from services.common.weir_home import Home
from tests.support.api import Api, api_over

EXAMPLES = 8
SCHEMA = schemathesis.openapi.from_dict(json.loads(FILE.read_text(encoding="utf-8")))
# Health routes are left out, because they ignore whatever a request contains.
OPERATIONS = {
    operation.label: operation
    for operation in (found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok))
    if operation.path.startswith("/v1/")
}
REFUSED = SCHEMA.config.checks.negative_data_rejection
REFUSED.expected_statuses = [*REFUSED.expected_statuses, "412", "413", "431"]
# Names that exist, so that not every request ends at an unknown name.
NAMES = {"tenant": "acme", "query": "odd", "stream": "ticks", "name": "gold"}
# Checks that are left out: the service may refuse a request that fits the schema, for example for an unknown name.
NOT_CHECKED = ("positive_data_acceptance", "not_a_server_error")


@pytest.fixture(scope="module")
def served_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, str]]:
    folder: Path = tmp_path_factory.mktemp("home")
    with api_over(Home(folder), port=0) as api, Serving(api.service) as serving:
        yield api, serving.url


@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_answer_matches_the_openapi_description(
    served_api: tuple[Api, str], operation: str, mode: GenerationMode
) -> None:
    api, url = served_api
    key = {"Authorization": f"Bearer {api.keys['admin']}"}
    excluded = [check for name in NOT_CHECKED for check in schemathesis.checks.CHECKS.get_by_names([name])]

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=OPERATIONS[operation].as_strategy(generation_mode=mode), is_there=st.booleans())
    def holds(case: Any, is_there: bool) -> None:
        # In a query string an empty list is no parameter, and an object is plain text, so such cases are skipped.
        assume(not any(value == [] or isinstance(value, dict) for value in (case.query or {}).values()))
        if is_there and mode == GenerationMode.POSITIVE:
            case.path_parameters.update({name: NAMES.get(name, name) for name in case.path_parameters or {}})
        answer = case.call(base_url=url, headers=key)
        case.validate_response(answer, excluded_checks=excluded, headers=key)
        assert answer.status_code < 500 or answer.json()["type"] == "urn:weir:problem:not-running", (
            answer.text
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=DeprecationWarning)
        holds()
