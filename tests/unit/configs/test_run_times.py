"""Start, stop and lifetime of a query's document."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from configs.documents.declarations import QueryDeclaration, as_document, documents_of
from configs.errors import InvalidInput

QUERY = "kind: Query, tenant: acme, name: q, sql: SELECT * FROM s"


def query(fields: str) -> QueryDeclaration:
    (document,) = documents_of(f"{{{QUERY}, {fields}}}")
    assert isinstance(document.declaration, QueryDeclaration)
    return document.declaration


@pytest.mark.parametrize(
    ("fields", "stop"),
    [
        ("start: 2026-11-21T08:00:00Z", None),
        ("lifetime: 2h", None),
        ("stop: '2026-11-21T09:30:00+01:00'", datetime(2026, 11, 21, 8, 30, tzinfo=UTC)),
        ("start: 2026-11-21T08:00:00Z, lifetime: 90d", datetime(2027, 2, 19, 8, tzinfo=UTC)),
        ("start: 2026-11-21T08:00:00Z, lifetime: 10s", datetime(2026, 11, 21, 8, 0, 10, tzinfo=UTC)),
    ],
)
def test_end_of_a_query_is_its_stop_or_its_start_plus_its_lifetime(
    fields: str, stop: datetime | None
) -> None:
    assert query(fields).stop_at == stop


def test_times_are_stored_in_utc() -> None:
    document = as_document(query("start: '2026-11-21T09:00:00+01:00', lifetime: 2h"))
    assert (document["start"], document["lifetime"]) == ("2026-11-21T08:00:00Z", "2h")
    assert "stop" not in document


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("start: soon", "start: this is not a valid time"),
        ("start: 2026-11-21T08:00:00", "start: the value must have a time zone"),
        ("start: '0001-01-01T00:00:00+05:00'", "start: the time is out of range"),
        (
            "start: 2026-11-21T08:00:00Z, stop: 2026-11-21T08:00:00Z",
            "stop: the query would end before it starts at 2026-11-21T08:00:00+00:00"
            " (got '2026-11-21T08:00:00+00:00')\n  hint: choose a stop after the start",
        ),
        (
            "stop: 2026-11-21T08:00:00Z, lifetime: 2h",
            "lifetime: a query cannot have both a stop and a lifetime (got '2h')",
        ),
        (
            "lifetime: 0s",
            "lifetime: a lifetime must be longer than 0 (got '0s')\n  hint: write 90d, 12h or 30m",
        ),
        (
            "lifetime: -2h",
            "lifetime: this is not a length of time (got '-2h')\n  hint: write 90d, 12h or 30m",
        ),
        ("lifetime: 40000d", "lifetime: the lifetime is longer than 100 years (got '40000d')"),
        (
            "start: 9998-12-31T00:00:00Z, lifetime: 400d",
            "lifetime: the query would end after the year 9999 (got '400d')",
        ),
    ],
)
def test_impossible_run_time_is_refused_with_its_field_and_value(fields: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        query(fields)
    assert message in str(refused.value)
